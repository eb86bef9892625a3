"""What the shell completes, and what a slip of the finger is met with."""

from __future__ import annotations

from pathlib import Path

import click.testing
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.shell_completion import ShellComplete

import lookupstore
from lookupstore.cli import lazy, main
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
                 "hudi upsert table", "upsert store --deletes", "get store --keys",
                 "delete store --keys"):  # fmt: skip
        assert completed(line, "ro") == ["<file>"], line


@pytest.mark.parametrize("path", ["store", "rows.parquet", "rows.csv", "table", "*.parquet"])
def test_columns_of_what_is_named(path: str) -> None:
    assert completed(f"scan {path} --columns", "n") == ["name", "number"]
    assert completed(f"scan {path} --key", "id,n") == ["id,name", "id,number"]
    assert completed(f"scan {path} --key", "i") == ["id"]
    assert completed(f"head {path} --columns", "name,") == ["name,id", "name,number"]


@pytest.mark.parametrize("path", ["store", "rows.parquet --key id", "table", "table --key id"])
def test_columns_of_values_are_not_those_of_the_key(path: str) -> None:
    """Commands that look up keys refuse `--columns id`, and return the key anyway."""
    for command in ("scan", "get", "join rows.parquet"):
        assert completed(f"{command} {path} --columns") == ["name", "number"], command
    assert completed(f"hudi scan {path.split()[0]} --columns", "i") == ["id"]


def test_versions_of_a_store() -> None:
    for _ in range(10):
        lookupstore.build(ROWS, "store", key="id", overwrite=True, retain="1h").close()
    for command in ("get store 1", "scan store", "head store", "info store", "publish store"):
        assert completed(f"{command} --version", "1") == ["11", "10", "1"], command
    for path in ("rows.parquet", "none", "s3://bucket/store"):
        assert completed(f"get {path} --version") == [], path


def test_rules_of_an_upsert() -> None:
    assert completed("upsert store rows.csv --rule", "m") == ["min", "max"]


def test_columns_of_values_of_a_build() -> None:
    for command in ("build", "publish-lookup-files"):
        assert completed(f"{command} rows.parquet --key id --columns") == ["name", "number"]
        assert completed(f"{command} rows.parquet --columns") == ["id", "name", "number"]
    assert completed("changes store --ignore") == ["name", "number"]


def test_columns_of_the_argument_that_has_them() -> None:
    assert completed("build rows.parquet store --key", "") == ["id", "name", "number"]
    assert completed("build rows.csv --key", "id,nu") == ["id,number"]
    assert completed("upsert store rows.parquet --sequence", "nu") == ["number"]
    assert completed("join rows.parquet store --on", "i") == ["id"]
    assert completed("follow rows.parquet store --key", "na") == ["name"]
    assert completed("follow rows.parquet store --key id --columns", "") == ["name", "number"]
    assert completed("hudi scan table --columns", "na") == ["name"]
    assert completed("hudi cluster table --by", "na") == ["name"]


def test_nothing_is_completed_that_is_not_cheap_to_know() -> None:
    for path in ("nothing", "s3://bucket/store", "-"):
        assert completed(f"scan {path} --columns", "") == []
    assert completed("scan --columns", "") == []


def test_characters_by_names_that_need_no_quotes() -> None:
    assert completed("build rows.csv --delimiter") == ["semicolon", "tab", "pipe", "comma"]
    assert completed("hudi upsert table rows.csv --delimiter", "t") == ["tab"]
    assert completed("get store --quote") == ["none"]
    assert completed("build rows.csv --decimal") == ["comma"]
    Path("pipes.csv").write_text("id|name\n1|a\n")
    for line in ("build pipes.csv names --key id --delimiter pipe",
                 "build rows.csv commas --key id --delimiter comma"):  # fmt: skip
        result = click.testing.CliRunner().invoke(main, line.split())
        assert result.exit_code == 0, result.output


def test_no_name_is_offered_that_the_shell_would_split() -> None:
    Path("hosts.csv").write_text('Host Name,Host$IP,Höhe,Host-1,"Host,2"\na,b,c,d,e\n')
    assert completed("build hosts.csv --key", "H") == ["Höhe", "Host-1"]


def test_commands_of_an_extra_that_is_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The shell prints what completion raises into the line that is being typed."""

    def refuse(name: str) -> None:
        raise ImportError(f"{name} needs fastavro")

    monkeypatch.setattr(lazy.importlib, "import_module", refuse)
    assert completed("hudi", "sc") == ["scan"]
    assert "--help" in completed("hudi", "--")
    assert "upsert" in completed("hudi get", "up")  # nothing better is known
    assert "expire" in completed("")


def test_columns_of_csv_in_its_notation() -> None:
    Path("b.csv").write_text("id;name\n1;a\n")
    assert completed("build b.csv --key") == []
    assert completed("build b.csv --delimiter ; --key") == ["id", "name"]
    assert completed("head b.csv --delimiter ; --names x,y --columns", "x,") == ["x,y"]


def test_columns_of_the_file_that_a_table_is_made_like() -> None:
    for option in ("--key", "--partition-by", "--ordering"):
        assert completed(f"hudi create new --like rows.csv {option}", "n") == ["name", "number"]
        assert completed(f"hudi create new {option}", "n") == []
    assert completed("hudi create new --like rows.parquet --key", "id,na") == ["id,name"]


def test_columns_of_a_table_in_other_options() -> None:
    assert completed("hudi merge table rows.csv --on", "i") == ["id"]
    assert completed("hudi layout-picture table --x", "nu") == ["number"]


def test_commands_and_options_that_were_meant() -> None:
    def said(*words: str) -> str:
        result = click.testing.CliRunner().invoke(main, list(words))
        assert result.exit_code == 2
        return result.stderr

    assert "No such command 'vrify'. Did you mean 'verify'?" in said("vrify", "store")
    assert "No such command 'upsrt'. Did you mean 'upsert'?" in said("hudi", "upsrt", "table")
    assert "No such command 'nope'. (see" in said("nope")
    assert "'tail'. Use 'lookupstore scan STORE --reverse --limit N'" in said("tail", "store")
    assert "'restore'. Use 'lookupstore publish STORE STORE --version N" in said("restore", "store")
    assert "'history'. Use 'lookupstore versions STORE'" in said("history", "store")
    assert "'clear'. Use 'lookupstore cache --clear'" in said("clear")
    assert "'cache'. Did you mean 'archive'?" in said("hudi", "cache")
    listed = "'INSTANT'. ('lookupstore hudi savepoint TABLE --list' lists the instants to give)"
    assert f"Missing argument {listed}" in said("hudi", "restore", "table")
    inserted = "Use 'lookupstore hudi upsert TABLE FILE --operation insert'. (see"
    assert f"'insert'. {inserted}" in said("hudi", "insert", "table", "file")
    assert "'bulk_insert'. Use 'lookupstore hudi upsert" in said("hudi", "bulk_insert", "table")
    assert "'compact'. Use 'lookupstore hudi cluster TABLE" in said("hudi", "compact", "table")
    assert "No such option '-k'. (did you mean --key?)" in said("build", "a", "b", "-k", "id")
    created = said("hudi", "create", "t", "--like", "f", "--precombine", "at")
    assert "No such option '--precombine'. Use '--ordering'." in created
    assert "No such option '--schema'. (see" in said("hudi", "info", "t", "--schema", "f")
    assert "No such option '--where'. (see " in said("warm", "store", "--where", "id = 1")
    assert "(keys need no option; did you mean --keys or --key?)" in said("get", "store", "-k", "1")
    assert "(put -- before keys that begin with a minus)" in said("get", "store", "-5")
