"""`lookupstore follow`: what it prints, and its errors in words of the shell."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import click.testing
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import lookupstore
from lookupstore.cli import main
from lookupstore.hudi import HudiTable

deltalake = pytest.importorskip("deltalake")


def run(*words: object) -> click.testing.Result:
    return click.testing.CliRunner().invoke(main, [str(word) for word in words])


def test_the_same_command_builds_and_follows(tmp_path: Path) -> None:
    table, path = tmp_path / "t", tmp_path / "s"
    deltalake.write_deltalake(table, pa.table({"id": [1, 2], "s": ["a", "b"], "n": [1, 2]}))
    words = ("follow", table, path, "--key", "id", "--columns", "s", "--output", "json")
    first = run(*words)
    assert (first.exit_code, first.stderr) == (0, "")
    said = json.loads(first.stdout)
    identity = str(deltalake.DeltaTable(table).metadata().id)
    followed = {"table": identity, "path": str(table), "snapshot": "0"}
    assert (said["version"], said["num_rows"], said["follows"]) == (1, 2, followed)
    deltalake.DeltaTable(table).delete("id = 1")
    second = run(*words)
    assert (second.exit_code, second.stderr) == (0, "")
    said = json.loads(second.stdout)
    assert (said["version"], said["num_rows"]) == (2, 1)
    assert said["follows"] == {**followed, "snapshot": "1"}
    again = run("follow", table, path, "--key", "id")
    assert (again.exit_code, again.stderr) == (0, "")
    assert lookupstore.open(path).get(2) == {"s": "b", "n": 2}


def test_a_version_is_one_line_and_no_version_is_none(tmp_path: Path) -> None:
    table, path = tmp_path / "t", tmp_path / "s"

    def said(*more: str, columns: str = "s") -> str:
        done = run("follow", table, path, "--key", "id", "--columns", columns, *more)
        assert (done.exit_code, done.stderr) == (0, "")
        return re.sub(r"in \d+\.\d s", "in T", done.stdout)

    deltalake.write_deltalake(table, pa.table({"id": [1, 2], "s": ["a", "b"], "n": [1, 2]}))
    assert said() == f"{path}: version 1 has snapshot 0 of {table}, 2 rows, in T\n"
    assert said() == ""
    deltalake.DeltaTable(table).delete("id = 1")
    before = "snapshot 0, 2 rows"
    assert said() == (
        f"{path}: version 2 has snapshot 1 of {table}, 1 row (version 1: {before}), in T\n"
    )
    before = "snapshot 1, 1 row"
    assert said(columns="s,n") == (
        f"{path}: version 3 has snapshot 1 of {table}, 1 row (version 2: {before}), in T; all rows "
        "were read: the value column 'n' (int64) is new, and each stored row has all columns; to "
        "read only what changed, keep the columns, or name those to store in --columns\n"
    )
    lookupstore.upsert(path, {"id": [5], "s": ["x"], "n": [1]}).close()
    assert said("--overwrite", columns="s,n") == (
        f"{path}: version 5 has snapshot 1 of {table}, 1 row (version 4: 2 rows), in T\n"
    )
    told = run("follow", table, path, "--key", "id", "--columns", "s,n", "-v")
    assert (told.exit_code, told.stdout) == (0, "")
    assert told.stderr == f"{path}: version 5 has the rows of the Delta table at version 1\n"


def test_a_damaged_store_is_overwritten(tmp_path: Path) -> None:
    table, path = tmp_path / "t", tmp_path / "s"
    deltalake.write_deltalake(table, pa.table({"id": [1], "s": ["a"]}))
    lookupstore.follow(table, path, key="id").close()
    (manifest,) = (path / "versions").iterdir()
    manifest.write_text("{")
    done = run("follow", table, path, "--key", "id")
    assert (done.exit_code, done.stdout) == (1, "")
    assert f"{manifest} is damaged" in done.stderr
    done = run("follow", table, path, "--key", "id", "--overwrite")
    assert done.exit_code == 0
    assert done.stdout.startswith(f"{path}: version 2 has snapshot 0 of {table}, 1 row, in ")
    assert lookupstore.open(path).get(1) == {"s": "a"}


def test_all_rows_are_read_before_it_is_said(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The warning is logged once the version is there; a build that fails logs none."""
    table, path = tmp_path / "t", tmp_path / "s"
    deltalake.write_deltalake(table, pa.table({"id": [1], "s": ["a"]}))
    lookupstore.follow(table, path, key="id", columns=[]).close()
    deltalake.write_deltalake(table, pa.table({"id": [1], "s": ["b"]}), mode="append")
    with pytest.raises(lookupstore.DuplicateKeyError):
        lookupstore.follow(table, path, key="id")
    assert caplog.text == ""
    deltalake.write_deltalake(table, pa.table({"id": [1], "s": ["b"]}), mode="overwrite")
    lookupstore.follow(table, path, key="id").close()
    assert "version 2 was built of all rows of the Delta table" in caplog.text


def test_only_rows_that_meet_the_condition_are_followed(tmp_path: Path) -> None:
    table, path = tmp_path / "t", tmp_path / "s"
    deltalake.write_deltalake(table, pa.table({"id": [1, 2], "s": ["a", "b"]}))
    words = ("follow", table, path, "--key", "id", "--where", "s = 'b'")
    assert run(*words).exit_code == 0
    assert list(lookupstore.open(path)) == [2]
    deltalake.DeltaTable(table).update(updates={"s": "'b'"}, predicate="id = 1")
    assert run(*words).exit_code == 0
    assert list(lookupstore.open(path)) == [1, 2]
    other = run(*words[:-1], "id < 9", "-v")
    assert other.exit_code == 0
    assert "the filter has changed; to read only what changed, keep the filter" in other.output
    assert "where=" not in other.output


def test_the_command_follows_hudi_tables(tmp_path: Path) -> None:
    table = HudiTable.create(tmp_path / "t", pa.schema({"id": pa.int64()}), record_key="id")
    for one in range(2):
        table.upsert(pa.table({"id": [one]}))
        assert run("follow", tmp_path / "t", tmp_path / "s", "--key", "id").exit_code == 0
    with lookupstore.open(tmp_path / "s") as store:
        assert (list(store), store.version) == ([0, 1], 2)


def test_errors_name_options(tmp_path: Path) -> None:
    table = tmp_path / "t"
    rows = pa.table({"id": [1, 1, None], "s": ["a", "b", "c"]})
    deltalake.write_deltalake(table, rows)
    lookupstore.build(pa.table({"id": [9]}), tmp_path / "own", key="id").close()

    def error(*words: object) -> str:
        found = run("follow", *words)
        assert found.exit_code in (1, 2)
        assert not (tmp_path / "s").exists()
        return " ".join(found.stderr.split())

    assert "pass --overwrite to replace it" in error(table, tmp_path / "own", "--key", "id")
    assert "pass --nullable-keys id" in error(table, tmp_path / "s", "--key", "id")
    words = (table, tmp_path / "s", "--key", "id", "--nullable-keys", "id")
    assert "the key id=1 occurs more than once" in error(*words)
    assert "name more key columns" in error(*words)
    assert "Missing option '--key'" in error(table, tmp_path / "s")
    assert "no such file or folder" in error(tmp_path / "none", tmp_path / "s", "--key", "id")
    said = error(table, tmp_path / "s", "--key", "id", "--where", "x = 1")
    assert "x is no column; the table has 'id', 's'" in said


def test_what_is_not_a_table_and_what_would_be(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Errors say in words of the shell what was looked for, and what to give."""
    monkeypatch.chdir(tmp_path)
    rows = pa.table({"id": [1]})
    pq.write_table(rows, "rows.parquet")
    Path("rows.csv").write_text("id\n1\n")
    Path("files").mkdir()
    pq.write_table(rows, "files/1.parquet")
    Path("empty").mkdir()
    deltalake.write_deltalake("above/t", rows)
    HudiTable.create("hudi/t", rows, record_key="id", name="t")
    tables = (
        "; give the folder or URI of a Delta, Hudi, Iceberg or Paimon table, or of a store, or the "
        "name iceberg:CATALOG.NAMESPACE.TABLE"
    )
    for table, said in (
        ("nix", f"nix: no such file or folder (looked for {tmp_path}/nix){tables}"),
        ("empty", f"empty is a folder without a table{tables}"),
        ("rows.csv", "rows.csv is a file, not a table; build a store of it, and again with "
         "--overwrite when it changes"),
        ("rows.parquet", "rows.parquet is a file, not a table; build a store of it, and again "
         "with --overwrite when it changes"),
        ("files", "files has files that belong to no table; build a store of them, and again "
         "with --overwrite when they change"),
        ("iceberg:users", "iceberg:users does not name a table; give "
         "iceberg:CATALOG.NAMESPACE.TABLE"),
    ):  # fmt: skip
        result = run("follow", table, "store", "--key", "id")
        assert (result.exit_code in (1, 2), result.stdout) == (True, ""), table
        assert result.stderr == f"Error: {said}\n"
    result = run("follow", "above", "store", "--key", "id")
    assert f"run: lookupstore follow {tmp_path}/above/t STORE --key COLUMN" in result.stderr
    result = run("follow", "hudi", "store", "--key", "id")
    assert result.stderr.endswith(f"; give '{tmp_path}/hudi/t' alone, which is read as the table\n")
    assert not Path("store").exists()


def test_paths_with_nothing_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for words in (
        "build nix store --key id", "build nix*.csv store --key id", "get nix 1",
        "get nix 1 --key id", "scan nix", "head nix", "info nix", "verify nix", "dump nix",
        "join nix nix --on id", "upsert nix nix", "sync nix", "versions nix", "publish nix store",
        "hudi info nix",
    ):  # fmt: skip
        result = run(*words.split())
        assert (result.exit_code, result.stdout) == (2, ""), words
        assert result.stderr.startswith("Error: "), words
        assert f"{tmp_path}/nix" in result.stderr, "what was looked for"
        assert "source:" not in result.stderr
        assert result.stderr.count("\n") == 1


def test_a_store_is_synced_with_what_it_records(tmp_path: Path) -> None:
    table, path = tmp_path / "t", tmp_path / "s"

    def said(*more: str) -> str:
        done = run("sync", path, *more)
        assert (done.exit_code, done.stderr) == (0, "")
        return re.sub(r"in \d+\.\d s", "in T", done.stdout)

    deltalake.write_deltalake(table, pa.table({"id": [1, 2, 3], "s": ["a", "b", "c"]}))
    assert run("follow", table, path, "--key", "id", "--where", "s <> 'c'").exit_code == 0
    assert said() == ""
    deltalake.DeltaTable(table).update(updates={"s": "'c'"}, predicate="id = 1")
    assert said() == (
        f"{path}: version 2 has snapshot 1 of {table}, 1 row (version 1: snapshot 0, 2 rows), in T"
        "\n"
    )
    assert list(lookupstore.open(path)) == [2]
    told = run("sync", path, "-v")
    assert (told.exit_code, told.stdout) == (0, "")
    assert told.stderr == f"{path}: version 2 has the rows of the Delta table at version 1\n"
    deltalake.write_deltalake(table, pa.table({"id": [4], "s": ["d"]}), mode="append")
    found = json.loads(said("--output", "json", "--retain", "0"))
    assert (found["version"], found["num_rows"], found["follows"]["snapshot"]) == (3, 2, "2")
    assert [one.number for one in lookupstore.versions(path)] == [3]


def test_stores_that_cannot_be_synced(tmp_path: Path) -> None:
    def error(path: Path) -> str:
        found = run("sync", path)
        assert found.exit_code in (1, 2)
        return " ".join(found.stderr.split())

    lookupstore.build(pa.table({"id": [9]}), tmp_path / "own", key="id").close()
    said = error(tmp_path / "own")
    assert "follows no table; make one that does: lookupstore follow TABLE PATH --key A,B" in said
    deltalake.write_deltalake(tmp_path / "t", pa.table({"id": [1]}))
    table = deltalake.DeltaTable(tmp_path / "t")
    lookupstore.follow(table, tmp_path / "it's", key="id").close()
    path = shlex.quote(str(tmp_path / "it's"))
    assert f"lookupstore follow TABLE {path} --key id --where SQL" in error(tmp_path / "it's")
    assert "no such store folder" in error(tmp_path / "none")
