"""Advice in errors about what people type in their first minutes."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from pathlib import Path

import click.testing
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import lookupstore
from lookupstore.cli import main
from lookupstore.cli.failures import message_of
from lookupstore.hudi import HudiTable
from lookupstore.storage.naming import temporary_name


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    rows = pa.table({"id": [1, 2], "name": ["a", "b"]})
    Path("u.csv").write_text("id,name\n1,a\n2,b\n")
    pq.write_table(rows, "u.parquet")
    Path("lines.txt").write_text("1\n2\n\n1\n")
    Path("typo.txt").write_text("1\nx\n2\ny")
    Path("book.xlsx").write_bytes(b"PK")
    Path("u.jsonl").write_text('{"id": 1, "name": "a"}')
    Path("array.json").write_text('[{"id": 1}]')
    Path("keys.csv").write_text("id\n1\n")
    lookupstore.build(rows, "users", key="id").close()
    lookupstore.build(rows.append_column("n", rows["id"]), "people", key="id").close()
    HudiTable.create("table", rows, record_key="id").insert(rows)
    return tmp_path


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("get users 1,2", "from -9223372036854775808 to 9223372036854775807, and spaces between"),
        ("get users id=1", "to 9223372036854775807, without the name"),
        ("get users -", "807; --keys - of 'lookupstore get' reads keys from standard input"),
        ("get users 1 --version latest", "'--version': 'latest' is not a whole number."),
        ("get users null", "(null is \\N)"),
        ("get users x", "to 9223372036854775807\n"),
        ("build u.csv --key id", "Missing argument 'PATH', the folder of the store, after u.csv"),
        ("build u.csv s --key ID", "has no column 'ID'; did you mean 'id'? It has ['id', 'name']"),
        ("build u.csv s --key id --columns nam", "--columns: the source has no column 'nam'; did"),
        ("build u.parquet s --key nam", "--key: the source has no column 'nam'; did you mean"),
        ("upsert users u.csv --key id", "No such option '--key'. (a store has its key)\n"),
        ("hudi upsert table u.csv --key id", "No such option '--key'. (a table has its key)\n"),
        ("hudi get table --key 1", "No such option '--key'. (keys need no option)\n"),
        ("hudi upsert table u.csv --format json", "The names of files tell their format. (see"),
        ("hudi upsert table u.csv u.jsonl", "mixes CSV and JSON lines files; give files of one"),
        ("head users --columns id,name", "--columns: 'id' is a key column; leave it out"),
        (
            "build users s --key name",
            "users is a store, or has one below it; pass its rows on standard input: lookupstore "
            "scan users --output arrow\n",
        ),
        ("build u.csv s --key id --key name", "--key is given twice; give it once: --key A,B (see"),
        ("scan users --columns name --columns=name", "--columns is given twice; give it once"),
        ("hudi get table 1 --columns id --columns name", "--columns is given twice; give it once"),
        (
            "build u.csv s --key id --where id=1 --where id=2",
            "--where is given twice; give it once: "
            "--where SQL, with AND between the conditions (see 'lookupstore build --help')",
        ),
        ("get users --keys a --keys b", "--keys is given twice; give it once: --keys FILE|- (see"),
        ("build book.xlsx s --key id", " after it; save the sheet as CSV"),
        ("build array.json s --key id", "convert it to JSON lines, such as by `jq -c '.[]'`"),
        (
            "build u.csv s --key id --on-duplicate max:nam",
            "--on-duplicate: the source has no column 'nam'; did you mean 'name'?",
        ),
        (
            "upsert users keys.csv",
            "no column 'name', a value column of the store with the rule 'replace'; add it, or "
            "give --rule 'name:partial', which keeps the stored value",
        ),
        (
            "upsert people keys.csv",
            "changes: no columns 'name', 'n', value columns of the store with the rule 'replace'; "
            "add them, or give --rule COLUMN:partial for each, which keeps the stored values",
        ),
        ("scan users --end 2", "No such option '--end'. Use '--stop'. (see 'lookupstore scan"),
        ("get users 1 --json", "No such option '--json'. Use '--output json'. (see"),
        ("get users 1 --format csv", "No such option '--format'. Use '--output'. (see"),
        ("versions users --csv", "No such option '--csv'. Use '--output csv'. (see"),
        ("scan users --csv", "No such option '--csv'. Use '--output csv'. (see"),
        ("update users", "No such command 'update'. Use 'lookupstore upsert STORE SOURCE', or"),
        ("select users", "No such command 'select'. Use 'lookupstore get STORE KEY', or"),
        ("schema users", "No such command 'schema'. Use 'lookupstore info PATH'. (see"),
        ("remove users 1", "No such command 'remove'. Use 'lookupstore delete STORE KEY'. (see"),
        ("count users", "No such command 'count'. Use 'lookupstore info STORE', which prints"),
        ("scan users -o -", "-o -: give -o the name of a file; to print rows, use --output"),
        (
            "get users --keys lines.txt",
            "--keys: lines.txt: line 3 is empty; delete the line, or write",
        ),
        ("get users --keys typo.txt", "--keys: typo.txt: line 2: 'x' is not int64"),
        ("get usrs 1", "/users'?"),
        ("get nothing 1", "/nothing: No such file or directory\n"),
        ("get users 1 --columns nme", "--columns: no value column 'nme'; did you mean 'name'?"),
        ("info u.csv", "print its rows: lookupstore head u.csv; or make a store of it:"),
        ("changes users --since x", "--since is 'x'; give the number of a version, or a time"),
        ("changes users --since 1999-01-01", "--since is '1999-01-01', before version 1"),
        ("hudi changes table --until x", "--until is 'x'; give the time of an instant"),
        ("hudi scan table --where x=1", "--filter: x is no column; the table has"),
        ("hudi update table --set x=1", "--set: the table has no column 'x'"),
        ("hudi create table --like u.csv --key id", "not empty: it is a Hudi table already; open"),
        ("scan table", "table is a Hudi table; run 'lookupstore hudi scan table'"),
    ],
)
def test_advice(here: Path, line: str, said: str) -> None:
    done = click.testing.CliRunner().invoke(main, line.split())
    assert (done.exit_code, done.stdout) == (2, "")
    assert said in done.stderr


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("upsert table u.csv", "run 'lookupstore hudi upsert TABLE FILE'"),
        ("delete table 1", "run 'lookupstore hudi delete TABLE KEY'"),
        ("changes table", "run 'lookupstore hudi changes TABLE'"),
        ("versions table", "run 'lookupstore hudi history TABLE'"),
        ("expire table", "run 'lookupstore hudi clean TABLE --retain-commits N'"),
        ("compact table", "run 'lookupstore hudi cluster TABLE --by A,B'"),
        ("warm table", "'lookupstore build' makes a store of its rows"),
    ],
)
def test_commands_of_stores_name_those_of_hudi_tables(here: Path, line: str, said: str) -> None:
    done = click.testing.CliRunner().invoke(main, line.split())
    assert (done.exit_code, done.stdout) == (1, "")
    assert f"not a lookupstore store, but a Hudi table; {said}\n" in done.stderr


@pytest.mark.parametrize(
    "line",
    [
        "get users --keys {}",
        "delete users --keys {}",
        "upsert users {} --rule name:partial",
        "join {} users --on id --output csv",
        "hudi delete table --keys {}",
    ],
)
def test_texts_of_numbers_in_parquet_are_given_as_csv(here: Path, line: str) -> None:
    pq.write_table(pa.table({"id": ["1", "2"]}), "texts.parquet")
    run = click.testing.CliRunner().invoke
    refused = run(main, line.format("texts.parquet").split())
    assert (refused.exit_code, refused.stdout) == (2, "")
    remedy = "lookupstore head FILE -n ROWS -o FILE.csv, with ROWS at least its number of rows\n"
    assert refused.stderr.endswith(
        f"convert the file to CSV, whose values are read as that type: {remedy}"
    )
    assert run(main, ["head", "texts.parquet", "-n", "9", "-o", "texts.csv"]).exit_code == 0
    assert run(main, line.format("texts.csv").split()).exit_code == 0


@pytest.mark.parametrize(
    "line",
    ["get texts --keys {} --output csv", "delete texts --keys {}", "join {} texts --on id"],
)
def test_numbers_in_parquet_are_given_as_csv_to_keys_of_text(here: Path, line: str) -> None:
    lookupstore.build(pa.table({"id": ["1", "2"]}), "texts", key="id").close()
    pq.write_table(pa.table({"id": [1, 2]}), "numbers.parquet")
    run = click.testing.CliRunner().invoke
    refused = run(main, line.format("numbers.parquet").split())
    assert (refused.exit_code, refused.stdout) == (2, "")
    remedy = "lookupstore head FILE -n ROWS -o FILE.csv, with ROWS at least its number of rows\n"
    assert refused.stderr.endswith(f"that type: {remedy}")
    assert run(main, ["head", "numbers.parquet", "-n", "9", "-o", "numbers.csv"]).exit_code == 0
    assert run(main, line.format("numbers.csv").split()).exit_code == 0


def test_a_beginning_after_a_whole_key_names_the_options(here: Path) -> None:
    lookupstore.build(pa.table({"id": ["1", "2"]}), "texts", key="id").close()
    done = click.testing.CliRunner().invoke(
        main, ["scan", "texts", "--prefix", "1", "--starts-with", "2"]
    )
    assert (done.exit_code, done.stdout) == (2, "")
    assert done.stderr == (
        "Error: --starts-with is about the key field after those of --prefix, which has a value "
        "for each field (id); leave the last one out of --prefix\n"
    )


def test_a_later_time_is_given_by_an_option(here: Path) -> None:
    table = HudiTable.open("table")
    table.upsert(table.scan(columns=["id", "name"]))
    first, last = (one.time for one in table.timeline())
    table.clean(retain_versions=1)
    done = click.testing.CliRunner().invoke(main, ["hudi", "scan", "table", "--as-of", first])
    assert (done.exit_code, last > first) == (1, True)
    assert "give a later --as-of, or savepoint" in done.stderr


def test_what_makes_a_store_of_a_table(here: Path) -> None:
    Path("delta/_delta_log").mkdir(parents=True)
    Path("delta/_delta_log/00000000000000000000.json").write_text("{}")
    for line, command in (("sync delta", "follow"), ("versions delta", "build")):
        done = click.testing.CliRunner().invoke(main, line.split())
        assert (done.exit_code, done.stdout) == (1, "")
        said = f"but a Delta table; 'lookupstore {command}' makes a store of its rows\n"
        assert done.stderr.endswith(said)


def test_commas_between_keys_that_are_texts(here: Path) -> None:
    lookupstore.build({"zip": ["02134", "1,2"]}, "zips", key="zip").close()
    run = click.testing.CliRunner().invoke
    assert run(main, ["get", "zips", "1,2"]).stderr == ""
    done = run(main, ["get", "zips", "02134,10001"])
    assert done.stderr == "Error: zips: no key '02134,10001'; separate keys by spaces, not commas\n"
    assert run(main, ["get", "zips", "9"]).stderr == "Error: zips: no key '9'\n"


def test_a_group_without_a_command_is_its_help() -> None:
    done = click.testing.CliRunner().invoke(main, ["hudi"])
    assert (done.exit_code, done.stderr) == (0, "")
    assert done.stdout.startswith("Usage: lookupstore hudi [OPTIONS] [COMMAND]")
    assert "\n  savepoint " in done.stdout


def test_names_that_the_locale_does_not_have(here: Path) -> None:
    """As with C.UTF-8 turned off, where Python reads the name of the file as ASCII."""
    Path("zoë.csv").write_text("id\n1\n")
    off = {"LC_ALL": "POSIX", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0"}
    run = subprocess.run(
        [sys.executable, "-m", "lookupstore", "head", "zoë.csv"],
        env={
            **os.environ,
            **off,
            "PYTHONPATH": str(Path(lookupstore.__file__).parent.parent),
        },
        capture_output=True,
    )
    assert (run.returncode, run.stdout) == (2, b"")
    assert rb"zo\udcc3\udcab.csv' is not UTF-8; rename it, or set PYTHONUTF8=1 if" in run.stderr


def test_values_that_the_locale_does_not_have(here: Path) -> None:
    lookupstore.build({"id": [1], "name": ["\u0141ukasz"]}, "l", key="id").close()
    off = {"LC_ALL": "POSIX", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0"}
    path = {"PYTHONPATH": str(Path(lookupstore.__file__).parent.parent)}
    line = [sys.executable, "-m", "lookupstore", "get", "l", "1"]
    run = subprocess.run(line, env={**os.environ, **off, **path}, capture_output=True)
    assert (run.returncode, run.stdout) == (2, b"")
    assert run.stderr == (
        b"Error: '\\u0141' is not in ascii, the encoding of the locale; set PYTHONUTF8=1\n"
    )


@pytest.mark.parametrize("number", [errno.EACCES, errno.EROFS])
def test_a_folder_in_which_one_may_not_write(number: int) -> None:
    reason = os.strerror(number)
    for final in (".4f8f29eb-change-runs", "lock"):
        error = OSError(number, reason, f"/stores/users/{temporary_name(final)}")
        assert message_of(error) == (
            f"/stores/users: {reason}: cannot create a file in this folder; choose another folder, "
            "or make it writable"
        )
    assert message_of(OSError(number, reason, "/stores/a.tmp")) == f"/stores/a.tmp: {reason}"
