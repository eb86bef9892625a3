"""What the shell completes, and what a slip of the finger is met with."""

from __future__ import annotations

from pathlib import Path

import click.testing
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.shell_completion import ShellComplete

import lookupstore
from lookupstore.cli import main
from lookupstore.hudi import HudiTable

ROWS = pa.table({"id": [1], "name": ["a"], "number": [2]})


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    pq.write_table(ROWS, "rows.parquet")
    Path("rows.csv").write_text("id,name,number\n1,a,2\n")
    lookupstore.build(ROWS, "store", key="id").close()
    table = HudiTable.create("table", ROWS.schema, record_key="id")
    table.upsert(ROWS)


def completed(line: str, last: str = "") -> list[str]:
    """Return what the shell is told for the last word of a line: names, or kinds of paths."""
    shell = ShellComplete(main, {}, "lookupstore", "_LOOKUPSTORE_COMPLETE")
    found = shell.get_completions(line.split(), last)
    return [one.value if one.type == "plain" else f"<{one.type}>" for one in found]


def test_paths_are_left_to_the_shell() -> None:
    for line in ("get", "build", "scan", "build rows.parquet", "join rows.parquet", "hudi scan",
                 "hudi upsert table", "upsert store --deletes", "get store --keys"):  # fmt: skip
        assert completed(line, "ro") == ["<file>"], line


@pytest.mark.parametrize("path", ["store", "rows.parquet", "rows.csv", "table", "*.parquet"])
def test_columns_of_what_is_named(path: str) -> None:
    assert completed(f"scan {path} --columns", "n") == ["name", "number"]
    assert completed(f"scan {path} --columns", "name,") == ["name,id", "name,number"]
    assert completed(f"scan {path} --key", "i") == ["id"]


def test_columns_of_the_argument_that_has_them() -> None:
    assert completed("build rows.parquet store --key", "") == ["id", "name", "number"]
    assert completed("build rows.csv --key", "id,nu") == ["id,number"]
    assert completed("upsert store rows.parquet --sequence", "nu") == ["number"]
    assert completed("join rows.parquet store --on", "i") == ["id"]
    assert completed("hudi scan table --columns", "na") == ["name"]
    assert completed("hudi cluster table --by", "na") == ["name"]


def test_nothing_is_completed_that_is_not_cheap_to_know() -> None:
    for path in ("nothing", "s3://bucket/store", "-"):
        assert completed(f"scan {path} --columns", "") == []
    assert completed("scan --columns", "") == []


def test_commands_and_options_that_were_meant() -> None:
    def said(*words: str) -> str:
        result = click.testing.CliRunner().invoke(main, list(words))
        assert result.exit_code == 2
        return result.stderr

    assert "No such command 'vrify'. Did you mean 'verify'?" in said("vrify", "store")
    assert "No such command 'upsrt'. Did you mean 'upsert'?" in said("hudi", "upsrt", "table")
    assert "No such command 'nope'. (see" in said("nope")
    assert "No such option '-k'. (did you mean --key?)" in said("build", "a", "b", "-k", "id")
    assert "(keys need no option; did you mean --keys or --key?)" in said("get", "store", "-k", "1")
    assert "(put -- before keys that begin with a minus)" in said("get", "store", "-5")
