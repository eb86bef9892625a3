"""No name and no value of anybody moves the cursor of a terminal, or turns the text in it.

All commands, found by the command tree, are run on files whose names, columns, types, keys and
values have such characters. What is data for a program stays as it is.
"""

from __future__ import annotations

import csv
import io
import json
import logging
import os
import pty
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import click.testing
import pyarrow as pa
import pyarrow.orc
import pyarrow.parquet as pq
import pytest

import lookupstore
from lookupstore.cli import doctor, main
from lookupstore.cli.json_text import json_lines, json_of
from lookupstore.extras import PACKAGES
from lookupstore.hudi import HudiTable
from lookupstore.sst import Writer

SIGNS = (
    "\x1b[2J\x1b]0;t\x07\r\b\t\x00\x7f\x85\x9b31m\xad\u061c\u200b\u200e\u200f\u2028\u2029\u202a"
    "\u202b\u202c\u202d\u202e\u2060\u2066\u2067\u2068\u2069\ufeff\ufff9\U000e0041"
)
# Of names of files the system does not take all, and Hudi's partitions not a slash.
NAME = f"a{SIGNS}\n! FAKE [bold]b[/bold]"
FOLDER = NAME.replace("\x00", "").replace("/", "")
FILE = FOLDER + os.fsdecode(b"\xff")


def is_seen(one: str) -> bool:
    return one.isprintable() or one == "\n"


def check_seen(text: str, what: object) -> None:
    """Check that all of a text is seen as it is, and that no line of it is another's."""
    hidden = sorted({f"U+{ord(one):04X}" for one in text if not is_seen(one)})
    assert not hidden, (what, hidden, text[:400])
    assert not [line for line in text.split("\n") if line.startswith("! FAKE")], (what, text[:400])


def run(*words: Any, status: int | None = 0) -> str:
    """Run a command; return what it printed, in which everything is seen."""
    done = click.testing.CliRunner().invoke(main, [str(one) for one in words])
    assert status is None or done.exit_code == status, done.output
    check_seen(done.output, words)
    check_seen(done.stderr, words)
    return done.stdout


def commands(
    group: click.Group = main, path: tuple[str, ...] = ()
) -> Iterator[tuple[str, click.Command]]:
    """Yield all commands that are no group, and what they are called."""
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        if isinstance(command, click.Group):
            yield from commands(command, (*path, name))
        else:
            yield " ".join((*path, name)), command


COMMANDS = dict(commands())

ROWS = pa.table(
    {
        NAME: [f"{NAME}{i}" for i in range(3)],
        f"v{NAME}": pa.array(
            [{f"f{NAME}": NAME, "m": [(NAME, NAME)]}] * 3,
            pa.struct([(f"f{NAME}", pa.string()), ("m", pa.map_(pa.string(), pa.string()))]),
        ),
        "t": [NAME] * 3,
        "n": [3, 1, 2],
    }
)
FLAT = ROWS.select([NAME, "t", "n"])


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make files, a store and a table of hostile names below a folder of such a name."""
    folder = tmp_path_factory.mktemp("hostile") / FOLDER
    folder.mkdir()
    pq.write_table(ROWS, folder / "rows.parquet")
    pq.write_table(FLAT, folder / "flat.parquet")
    shutil.copy(folder / "flat.parquet", folder / f"flat{FOLDER}.parquet")
    shutil.copy(folder / "flat.parquet", folder / f"flat{FILE}.parquet")
    pq.write_table(FLAT.select([NAME]), folder / "keys.parquet")
    pa.orc.write_table(FLAT, folder / "flat.orc")
    with open(folder / "flat.csv", "w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows(
            [FLAT.column_names, *zip(*FLAT.to_pydict().values(), strict=True)]
        )
    for _ in range(2):
        lookupstore.build(ROWS, folder / "store", key=NAME, overwrite=True).close()
    lookupstore.upsert(folder / "store", deletes=[f"{NAME}0"]).close()
    with Writer(folder / "one.sst", metadata={NAME: NAME.encode()}, source=NAME) as writer:
        writer.put(NAME.encode(), NAME.encode())
    rows = FLAT.rename_columns(["k", "t", "n"])  # names of columns are those of Avro there
    pq.write_table(rows, folder / "hudi.parquet")
    pq.write_table(rows.select(["k"]), folder / "hudi-keys.parquet")
    table = HudiTable.create(
        folder / "table", rows, record_key=["k"], partition_by=["t"], name="t", url_encode=True
    )
    table.insert(rows)
    table.upsert(rows.slice(0, 1))
    for name in ("table", "store"):
        shutil.copytree(folder / name, folder / f"{name}.kept")
    return folder


KEY = f"{NAME}1"
# What each command is given, by its name; H is the folder of `made`.
LINES: dict[str, list[list[str]]] = {
    "build": [["H/flat.csv", "H/new", "--key", NAME], ["H/rows.parquet", "H/new2", "--key", NAME]],
    "upsert": [["H/store", "H/rows.parquet"], ["H/store", "--deletes", "H/keys.parquet"]],
    "delete": [["H/store", KEY], ["H/store", "--keys", "H/keys.parquet"]],
    "compact": [["H/store"]],
    "changes": [["H/store", "--since", "1"], ["H/store"]],
    "get": [
        ["H/store", KEY],
        ["H/flat.parquet", KEY, "--key", NAME],
        ["H/one.sst", "00", "--hex"],
        ["H/store", "--keys", "H/keys.parquet"],
        ["H/store", "--columns", NAME, KEY],
    ],
    "head": [["H/store"], ["H/flat.parquet"], ["H/one.sst"], ["H/flat.csv"], ["H/table"]],
    "scan": [["H/store"], ["H/flat.parquet", "--key", NAME], ["H/one.sst"], ["H/flat.csv"]],
    "join": [["H/flat.parquet", "H/store", "--on", NAME, "--prefix", "p"]],
    "info": [["H/store"], ["H/rows.parquet"], ["H/one.sst"], ["H/flat.csv"], ["H/table"]],
    "follow": [["H/store", "H/following", "--key", NAME], ["H", "H/following", "--key", NAME]],
    "sync": [["H/store"]],
    "versions": [["H/store"]],
    "expire": [["H/store", "--retain", "0"]],
    "publish": [["H/store", "H/published"]],
    "warm": [["H/store"]],
    "publish-lookup-files": [["H/flat.parquet", "--key", NAME]],
    "paimon-lookup-files": [
        ["H/flat.parquet", "H/paimon", "--key", "n", "--sequence", "1", "--kind", "0"]
    ],
    "size": [["--rows", "5", "--key", "8", "--values", "9"]],
    "stats": [[]],
    "dump": [
        ["H/store"],
        ["H/store", "--records"],
        ["H/one.sst", "--records"],
        ["H/rows.parquet"],
        ["H/one.sst", "--hex"],
        ["H/flat.orc"],
        [f"H/flat{FILE}.parquet"],
        ["H/table"],
        [f"H/flat{FOLDER}.parquet"],
    ],
    "cache": [[], ["--clear"]],
    "doctor": [[]],
    "formats": [[]],
    "verify": [["H/store"], ["H/rows.parquet"], ["H/one.sst"], ["H/table"], ["H/flat.csv"]],
    "hudi create": [
        ["H/table2", "--like", "H/hudi.parquet", "--key", "k", "--name", NAME],
        ["H/table3", "--like", "H/hudi.parquet", "--key", "k"],
    ],
    "hudi info": [["H/table"]],
    "hudi timeline": [["H/table"]],
    "hudi history": [["H/table"]],
    "hudi files": [["H/table"]],
    "hudi scan": [["H/table"], ["H/table", "--filter", "n = 1"]],
    "hudi get": [["H/table", KEY], ["H/table", "--keys", "H/hudi-keys.parquet"]],
    "hudi tag": [["H/table", KEY], ["H/table", KEY, "--explain"]],
    "hudi incremental": [["H/table"]],
    "hudi changes": [["H/table"]],
    "hudi upsert": [["H/table", "H/hudi.parquet"], ["H/table", "H/flat.csv"]],
    "hudi delete": [["H/table", KEY]],
    "hudi update": [["H/table", "--set", "n = n"], ["H/table", "--set", f"{NAME} = 1"]],
    "hudi merge": [
        ["H/table", "H/hudi.parquet", "--when", "matched then update"],
        ["H/table", "H/flat.csv", "--when", f"matched then update set {NAME} = 1"],
    ],
    "hudi explain-scan": [
        ["H/table", "--filter", "n = 1 and t = 'x'"],
        ["H/table", "--filter", NAME],
    ],
    "hudi collect-statistics": [["H/table"]],
    "hudi layout-health": [["H/table"]],
    "hudi layout-picture": [["H/table", "--x", "n", "--y", "n", "--out", "H/x.html"]],
    "hudi advise-clustering": [
        ["H/table", "--columns", "n"],
        ["H/table", "--query", NAME],
        ["H/table", "--query", "n = 1"],
    ],
    "hudi cluster": [["H/table", "--by", "n"]],
    "hudi clean": [["H/table", "--retain-commits", "1"]],
    "hudi archive": [["H/table"]],
    "hudi verify": [["H/table"]],
    "hudi savepoint": [["H/table"], ["H/table", NAME]],
    "hudi rollback": [["H/table"], ["H/table", NAME]],
    "hudi restore": [["H/table", NAME]],
}
# Commands whose texts are all ours, and that take no names: the demo makes its own data.
OURS = {"demo"}


@pytest.fixture
def here(made: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Give the folder, and put back what a command has changed in it."""
    monkeypatch.setenv("LOOKUPSTORE_CACHE", str(made / "cache"))
    yield made
    for name in ("table", "store"):
        shutil.rmtree(made / name)
        shutil.copytree(made / f"{name}.kept", made / name)


def test_no_command_is_left_out() -> None:
    assert {*LINES} | OURS == {*COMMANDS}, "say in LINES what it is given"


@pytest.mark.parametrize("name", sorted(LINES))
def test_what_commands_print_is_seen(name: str, here: Path) -> None:
    command = COMMANDS[name]
    output = next((one for one in command.params if one.name == "output"), None)
    choices = getattr(getattr(output, "type", None), "choices", ())
    forms = [["--output", one] for one in choices if one in ("table", "json")] or [[]]
    succeeded = 0
    for words in LINES[name]:
        given = [one.replace("H/", f"{here}/") for one in words]
        for form in forms:
            done = click.testing.CliRunner().invoke(main, [*name.split(), *given, *form])
            check_seen(done.output, (words, form))
            check_seen(done.stderr, (words, form))
            assert not isinstance(done.exception, UnicodeError), (words, form)
            succeeded += done.exit_code == 0
            if done.exit_code == 0 and form[-1:] == ["json"]:
                for line in (
                    [done.stdout]
                    if done.stdout[:2] in ("{\n", "[\n")
                    else (done.stdout.splitlines())
                ):
                    json.loads(line)
    # deltalake accepts no folders of such names, and the store follows no table.
    assert succeeded or name in ("hudi restore", "follow", "sync"), done.output


@pytest.mark.parametrize("name", sorted(COMMANDS.keys() - OURS))
def test_errors_of_commands_are_seen(name: str, here: Path) -> None:
    """What is nothing by its name, no option, no choice."""
    words = [FILE for one in COMMANDS[name].params if isinstance(one, click.Argument)]
    required = [
        word
        for one in COMMANDS[name].params
        if one.required and not isinstance(one, click.Argument)
        for word in (one.opts[0], NAME)
    ]
    for debug in ([], ["--debug"]):
        run(*debug, *name.split(), *words, *required, status=None)
    run(*name.split(), *words, f"--{NAME}", status=2)
    run(*name.split(), "--output", NAME, status=2)
    run(NAME, status=2)


def test_keys_that_are_missing_are_seen(here: Path) -> None:
    for words in (["get", here / "store", f"{NAME}9"], ["hudi", "get", here / "table", f"{NAME}9"]):
        run(*words, status=1)


def test_warnings_of_loggers_are_seen(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def warn() -> Iterator[Any]:
        logger = logging.getLogger("lookupstore.odd")
        for one in (logger, logging.getLogger()):
            monkeypatch.setattr(one, "handlers", [])
        logger.warning("%s", NAME)
        return iter(())

    monkeypatch.setattr(doctor, "_diagnoses", warn)
    done = click.testing.CliRunner().invoke(main, ["doctor"])
    assert "\\x1b[2J" in done.stderr
    check_seen(done.stderr, "log")


def test_data_stays_as_it_is(here: Path) -> None:
    """CSV in a pipe and JSON are data: their values are those of the rows."""
    done = click.testing.CliRunner().invoke(
        main, ["scan", str(here / "flat.parquet"), "--key", NAME, "--output", "csv"]
    )
    assert done.exit_code == 0, done.output
    text = done.stdout_bytes.decode()
    head, *rows = csv.reader(io.StringIO(text, newline=""))
    assert {*head} == {*FLAT.column_names}
    assert sorted(row[head.index(NAME)] for row in rows) == FLAT[NAME].to_pylist()
    shown = run("scan", here / "flat.parquet", "--key", NAME, "--output", "json")
    assert [json.loads(line)["t"] for line in shown.splitlines()] == [NAME] * 3
    found = json.loads(run("dump", here / "rows.parquet", "--output", "json"))
    assert found["columns"][0] == f"{NAME}: string"
    out = here / "out.csv"
    run("scan", here / "flat.parquet", "--key", NAME, "-o", out, status=None)


@pytest.mark.parametrize("seed_of", range(3))
def test_json_is_escaped_and_the_same(seed_of: int, seed: int) -> None:
    """Any character: what JSON says is the value, and what it shows is seen."""
    import random

    chance = random.Random(seed + seed_of)
    values = []
    for _ in range(200):
        signs = chance.choices([*SIGNS, *'aé"\\ 字👩\u200d\u200c\xa0\u3000'], k=chance.randrange(9))
        values.append("".join([*signs, chr(chance.choice([0x41, 0x85, 0xE9, 0x2029, 0x1F469]))]))
    column = pa.chunked_array([pa.array(values)]).combine_chunks()
    batch = pa.RecordBatch.from_arrays(
        [column, column.dictionary_encode(), pa.array([[one] for one in values])], ["a", NAME, "c"]
    )
    lines = json_lines(batch)
    assert [json.loads(line) for line in lines.split("\n")] == batch.to_pylist()
    kept = "\u200d\u200c\xa0\u3000"
    check_seen("".join(one for one in lines if one not in kept), "lines")
    whole = json_of({"a": [*values, "\ud800"]}, indent=1)
    assert json.loads(whole) == {"a": [*values, "\ud800"]}
    check_seen("".join(one for one in whole if one not in kept), "whole")


def test_names_with_markup_are_shown_as_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "is_there", lambda extra: False)
    odd = doctor.Diagnosis("[red]x[/red] :smile: [/]", "[link=http://x]y[/link]", "ok", "[spark]")
    found = list(doctor._diagnoses())
    monkeypatch.setattr(doctor, "_diagnoses", lambda: iter([*found, odd]))
    shown = run("doctor", status=None)
    for extra in PACKAGES:
        assert f"pip install 'lookupstore[{extra}]'" in shown
    for text in (odd.what, odd.found, odd.remedy):
        assert text in shown


# ---- a terminal

PROGRAM = "import sys; from lookupstore.cli import main; main(sys.argv[1:])"


def in_a_terminal(folder: Path, *words: str) -> tuple[int, str]:
    """Run a command whose standard output is a terminal; return its status and what is seen."""
    ours, theirs = pty.openpty()
    environment = {**os.environ, "PYTHONPATH": str(Path(lookupstore.__file__).parents[1]),
                   "TERM": "dumb", "NO_COLOR": "1"}  # fmt: skip
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, *words], stdout=theirs, stderr=subprocess.PIPE,
        stdin=subprocess.DEVNULL, env=environment, cwd=folder,
    )  # fmt: skip
    os.close(theirs)
    printed = b""
    while True:
        try:
            piece = os.read(ours, 1 << 16)
        except OSError:  # Linux says so that the other side is closed
            break
        if not piece:
            break
        printed += piece
    os.close(ours)
    return done.returncode, (printed + done.stderr).decode().replace("\r\n", "\n")


@pytest.mark.skipif(sys.platform not in ("linux", "darwin"), reason="a terminal of Unix")
def test_rows_in_a_terminal_are_seen(tmp_path: Path) -> None:
    """There CSV is for people, and an Arrow stream for nobody."""
    rows = pa.table({"k": [1, 2], f"v{NAME}": [f"{NAME}é", "字"]})
    with lookupstore.build(rows, tmp_path / "s", key="k"):
        pass
    status, shown = in_a_terminal(tmp_path, "scan", str(tmp_path / "s"), "--output", "csv")
    assert status == 0
    assert "\\x1b[2J" in shown
    assert "2,字" in shown
    assert all(map(is_seen, shown))
    status, shown = in_a_terminal(tmp_path, "scan", str(tmp_path / "s"), "--output", "arrow")
    assert status == 2
    assert "redirect it" in shown


def test_all_that_is_printed_goes_through_one_place() -> None:
    """`echo` escapes lines, `OutputConsole` what rich draws, `json_of` and `json_lines` JSON."""
    folder = Path(lookupstore.__file__).parent / "cli"
    places = {"terminal.py", "output.py"}
    prints = re.compile(
        r"click\.s?echo\(|\bprint\(|\bConsole\(|sys\.std(out|err)\b|traceback\.print"
    )
    found = {
        f"{path.name}: {line.strip()}"
        for path in folder.glob("*.py")
        if path.name not in places
        for line in path.read_text().splitlines()
        if prints.search(line) and "OutputConsole().print(" not in line
    }
    # Help is ours; and the end of a pipe is not told.
    found = {one for one in found if "flush()" not in one and "fileno()" not in one}
    assert found == {"__init__.py: click.echo(ctx.get_help())"}
