"""`delete`: rows of a store are deleted by their keys."""

from __future__ import annotations

import json
from pathlib import Path

import click.testing
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.engines import KEY_TYPES, column_of, values_of

import lookupstore
from lookupstore.cli import main


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    rows = {"region": ["eu", "eu", "us"], "id": [1, 2, 3], "name": ["a", "b", "c"]}
    lookupstore.build(pa.table(rows), "users", key=["region", "id"]).close()
    lookupstore.build({"id": [1, 2, 3, 4], "n": [1, 2, 3, 4]}, "numbers", key="id").close()
    return tmp_path


def run(line: str, given: str | None = None) -> click.testing.Result:
    return click.testing.CliRunner().invoke(main, line.split(), input=given)


def keys_of(path: str) -> list[tuple[object, ...]]:
    with lookupstore.open(path) as store:
        columns = [store.scan(columns=[]).read_all()[name].to_pylist() for name in store.key]
        return sorted(zip(*columns, strict=True))


def test_typed_keys() -> None:
    done = run("delete users eu,2 us,3 us,3 us,4")
    assert (done.exit_code, done.stdout) == (0, "users: 2 rows deleted, version 2\n")
    assert done.stderr == "users: 1 of 3 keys not found: 'us,4'\n"
    assert keys_of("users") == [("eu", 1)]


def test_keys_of_files_and_of_standard_input() -> None:
    pq.write_table(pa.table({"id": pa.array([1], pa.int32()), "x": [0]}), "k.parquet")
    assert run("delete numbers --keys k.parquet").stdout == "numbers: 1 row deleted, version 2\n"
    Path("k.txt").write_text("2\n")
    assert run("delete numbers --keys k.txt").stderr == ""
    assert run("delete numbers --keys -", "id;n\n3;x\n").exit_code == 2
    assert run("delete numbers --keys - --delimiter ;", "id;n\n3;x\n").exit_code == 0
    assert keys_of("numbers") == [(4,)]


@pytest.mark.parametrize("kind", KEY_TYPES, ids=str)
def test_keys_of_every_type(kind: pa.DataType, seed: int) -> None:
    """Keys of a file, given twice and with others that are not there, by an oracle of a set."""
    stored, others = values_of(kind, seed)
    rows = pa.table({"k": column_of(stored, kind), "n": range(len(stored))})
    lookupstore.build(rows, "typed", key="k").close()
    gone = stored[: len(stored) // 2]
    asked = [*gone, *gone, *others, *([] if kind == pa.bool_() else [None])]
    pq.write_table(pa.table({"k": column_of(asked, kind)}), "k.parquet")
    done = run("delete typed --keys k.parquet --output json")
    assert done.exit_code == 0, done.output
    counts = {"deleted": len(gone), "missing": len(asked) - 2 * len(gone)}
    version = 2 if gone else 1
    assert json.loads(done.stdout) == {"path": "typed", "version": version, **counts}
    with lookupstore.open("typed") as store:
        kept = store.scan().read_all()
        assert sorted(kept["n"].to_pylist()) == list(range(len(gone), len(stored)))


def test_a_compaction_that_has_nothing_to_do() -> None:
    lookupstore.upsert("numbers", deletes=[2], max_run_share=100).close()
    assert json.loads(run("compact numbers --output json").stdout)["version"] == 3
    assert run("compact numbers").stdout == "numbers: nothing to compact; the version is still 3\n"
    assert json.loads(run("compact numbers --output json").stdout)["version"] == 3


def test_missing_keys_publish_nothing() -> None:
    done = run("delete numbers 7 8 --output json")
    assert json.loads(done.stdout) == {"path": "numbers", "version": 1, "deleted": 0, "missing": 2}
    assert (done.exit_code, done.stderr) == (0, "numbers: 2 of 2 keys not found: '7', '8'\n")
    assert [one.number for one in lookupstore.versions("numbers")] == [1]
    assert run("delete numbers --keys -", "").stdout == "numbers: 0 rows deleted, version 1\n"


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("delete numbers", "Missing argument 'KEY...', or --keys FILE"),
        ("delete numbers 1 x", "'x' is not int64"),
        ("delete users eu", "key 'eu' has 1 of 2 fields"),
        ("delete nothing 1", "no such store folder"),
        ("delete numbers 1 --retain x", "--retain"),
    ],
)
def test_what_deletes_nothing(line: str, said: str) -> None:
    done = run(line)
    assert (done.exit_code, done.stdout) == (2, "")
    assert said in done.stderr
    assert len(keys_of("numbers")) == 4


def test_an_upsert_leads_to_lines_of_keys() -> None:
    done = run("upsert numbers --deletes -", "3\n")
    assert done.exit_code == 2
    assert "no key column 'id'; the files have ['3']; for a file with a key per line" in done.stderr
