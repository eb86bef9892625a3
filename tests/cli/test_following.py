"""`lookupstore follow`: what it prints, and its errors in words of the shell."""

from __future__ import annotations

import json
import logging
from pathlib import Path

import click.testing
import pyarrow as pa
import pytest

import lookupstore
from lookupstore.cli import main
from lookupstore.hudi import HudiTable

deltalake = pytest.importorskip("deltalake")


def run(*words: object) -> click.testing.Result:
    return click.testing.CliRunner().invoke(main, [str(word) for word in words])


def test_the_same_command_builds_and_follows(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    table, path = tmp_path / "t", tmp_path / "s"
    deltalake.write_deltalake(table, pa.table({"id": [1, 2], "s": ["a", "b"], "n": [1, 2]}))
    words = ("follow", table, path, "--key", "id", "--columns", "s", "--output", "json")
    first = run(*words)
    assert (first.exit_code, first.stderr) == (0, "")
    said = json.loads(first.stdout)
    followed = {"table": str(deltalake.DeltaTable(table).metadata().id), "snapshot": "0"}
    assert (said["version"], said["num_rows"], said["follows"]) == (1, 2, followed)
    deltalake.DeltaTable(table).delete("id = 1")
    second = run(*words)
    assert (second.exit_code, second.stderr) == (0, "")
    said = json.loads(second.stdout)
    assert (said["version"], said["num_rows"]) == (2, 1)
    assert said["follows"] == {**followed, "snapshot": "1"}
    with caplog.at_level(logging.WARNING):
        again = run("follow", table, path, "--key", "id")
    assert again.exit_code == 0
    assert "the value column 'n' (int64) is new" in caplog.text
    assert "rebuilt: the value column 'n' (int64) is new" in " ".join(again.stdout.split())
    assert lookupstore.open(path).get(2) == {"s": "b", "n": 2}


def test_only_rows_that_meet_the_condition_are_followed(tmp_path: Path) -> None:
    table, path = tmp_path / "t", tmp_path / "s"
    deltalake.write_deltalake(table, pa.table({"id": [1, 2], "s": ["a", "b"]}))
    words = ("follow", table, path, "--key", "id", "--where", "s = 'b'")
    assert run(*words).exit_code == 0
    assert list(lookupstore.open(path)) == [2]
    deltalake.DeltaTable(table).update(updates={"s": "'b'"}, predicate="id = 1")
    assert run(*words).exit_code == 0
    assert list(lookupstore.open(path)) == [1, 2]


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
