"""What the commands print in a terminal of 80 columns: whole, and readable."""

from __future__ import annotations

import json
import os
import pty
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import click.testing
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import lookupstore
from lookupstore.cli import main
from lookupstore.hostcache import stats
from lookupstore.hostcache.counts import Counts
from lookupstore.hudi import HudiTable
from lookupstore.sst import Writer

pytestmark = pytest.mark.drawn(0.4)

RUN = """
import shlex, sys
from lookupstore.cli import main
for line in sys.stdin:
    print("$", line, end="", flush=True)
    try:
        main(shlex.split(line))
    except SystemExit as done:
        print("status", done.code, flush=True)
"""


def in_a_terminal(lines: list[str], folder: Path, columns: int = 80) -> dict[str, list[str]]:
    """Run commands in a terminal; return the lines that each printed."""
    printed = printed_by(lines, folder, {"COLUMNS": str(columns), "TERM": "dumb"})
    found: dict[str, list[str]] = {}
    for line in printed.splitlines():
        if line.startswith("$ "):
            found[line[2:]] = []
        else:
            found[list(found)[-1]].append(line)
    return found


def printed_by(lines: list[str], folder: Path, variables: dict[str, str]) -> str:
    """Run commands in a terminal with these variables; return what they printed there."""
    ours, theirs = pty.openpty()
    environment = {
        **os.environ,
        **variables,
        "LOOKUPSTORE_CACHE": str(folder / "cache"),
        "PYTHONPATH": str(Path(lookupstore.__file__).parent.parent),
    }
    if "NO_COLOR" not in variables:
        environment.pop("NO_COLOR", None)
    with subprocess.Popen(
        [sys.executable, "-c", RUN],
        stdin=subprocess.PIPE,
        stdout=theirs,
        stderr=subprocess.DEVNULL,
        cwd=folder,
        env=environment,
    ) as process:
        os.close(theirs)
        assert process.stdin is not None
        process.stdin.write("\n".join([*lines, ""]).encode())
        process.stdin.close()
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
    return printed.decode().replace("\r\n", "\n")


@pytest.mark.skipif(sys.platform not in ("linux", "darwin"), reason="a terminal of Unix")
def test_tables_in_eighty_columns(tmp_path: Path) -> None:
    numbers = {f"column_{i:02d}": [i * 10**6, -i] for i in range(14)}
    texts = ["a name that is longer than one line of a terminal has room for: " + "x" * 30, "b"]
    table = pa.table({"id": [1, 2], "name": texts, **numbers})
    lookupstore.build(table, tmp_path / "users", key="id").close()
    counts = Counts(tasks=1, rows=10**9, hits=9 * 10**8)
    stats.add(tmp_path / "cache", "app", "execution 12", "s3://bucket/users.store", 3, counts)
    narrow = "get users 1 2 --columns column_01,column_02"
    lines = ["info users", "versions users", "get users 1 2", "scan users", narrow, "stats",
             "verify users"]  # fmt: skip
    printed = in_a_terminal(lines, tmp_path)
    assert list(printed) == lines
    for line, shown in printed.items():
        assert shown[-1] == "status 0", (line, shown)
        assert max(map(len, shown)) <= 80, line
        for row in shown:
            # No column is so narrow that its words are cut to a letter or two.
            cells = row.replace("┃", "│").split("│")[1:-1]
            assert all(len(cell) >= 4 for cell in cells if "━" not in cell), (line, row)
    for line in ("get users 1 2", "scan users"):
        whole = "".join(row.strip("│ ") for row in printed[line])
        for name in table.column_names:
            assert sum(row.startswith(f"│ {name} ") for row in printed[line]) == 2
        assert sum("─┼─" in row for row in printed[line]) == 1  # between the two rows
        assert "x" * 20 in whole
        assert "..." not in whole
        assert "…" not in whole
    assert any("│ column_01 │" in row.replace("┃", "│") for row in printed[narrow])
    assert any(row.startswith("│ cache hit rate") for row in printed["stats"])


@pytest.mark.few(1)
@pytest.mark.skipif(sys.platform not in ("linux", "darwin"), reason="a terminal of Unix")
@pytest.mark.parametrize("width", [60, 80, 200])
def test_what_is_copied_from_a_table_is_whole(width: int, tmp_path: Path) -> None:
    rows = pa.table({"id": range(1500), "page": ["/a"] * 1500})
    table = HudiTable.create(tmp_path / "pages", rows.schema, record_key=["id"])
    table.upsert(rows)
    table.upsert(rows.slice(0, 1))
    lines = ["hudi timeline pages", "hudi history pages", "hudi files pages"]
    variables = {"COLUMNS": str(width), "TERM": "xterm", "NO_COLOR": "1"}
    printed = re.sub(r"\x1b\[[0-9;]*m", "", printed_by(lines, tmp_path, variables))
    assert max(map(len, printed.splitlines())) <= width
    cells = {cell.strip() for line in printed.splitlines() for cell in re.split("[│┃]", line)[1:-1]}
    instants = [one.time for one in table.timeline()]
    (group,) = table.file_groups()
    assert cells >= {*instants, "1,500", f"{group.current.bytes:,}", group.id.file_id}
    known = {*instants, *(one.completed for one in table.timeline())}
    assert {cell for cell in cells if cell[:3] == "202"} <= known
    names = {cell for cell in cells if re.fullmatch("[a-z_]+", cell)}
    assert names <= {*table.history().column_names, "state", "file_id", "slices", "bytes", "file",
                     "partition", "commit", "completed", "inserted", "updated",
                     "deleted"}  # fmt: skip
    assert (group.current.name in cells) == (width == 200)
    left_out = {60: "12", 80: "10", 200: "2"}[width]
    assert f"… {left_out} more columns" in printed


@pytest.mark.skipif(sys.platform not in ("linux", "darwin"), reason="a terminal of Unix")
def test_a_history_in_eighty_columns_shows_what_became_of_rows(tmp_path: Path) -> None:
    rows = pa.table({"id": range(1500), "page": ["/a"] * 1500})
    table = HudiTable.create(tmp_path / "pages", rows.schema, record_key=["id"])
    table.upsert(rows)
    table.upsert(rows.slice(1, 1234))
    table.delete([5, 6])
    table.insert_overwrite_table(rows.slice(0, 7))  # whose name is the longest
    lines = ["hudi history pages", "hudi history pages --columns rows_deleted,writer,archived"]
    printed = in_a_terminal(lines, tmp_path)
    cells = {line: [re.split(" *[│┃] *", row)[1:-1] for row in shown if row[:1] in "│┃"]
             for line, shown in printed.items()}  # fmt: skip
    assert cells[lines[0]] == [
        ["instant", "operation", "inserted", "updated", "deleted"],
        *([row["instant"], row["operation"],
           *(f"{row[name]:,}" for name in ("rows_inserted", "rows_updated", "rows_deleted"))]
          for row in table.history().to_pylist()),
    ]  # fmt: skip
    assert cells[lines[0]][2][2:] == ["0", "0", "2"]
    assert cells[lines[0]][3][2:] == ["0", "1,234", "0"]
    assert [row[0] for row in cells[lines[1]]] == ["rows_deleted", "0", "2", "0", "0"]


# ---- what each command prints, as it is recorded in golden/

GOLDEN = Path(__file__).parent / "golden" / "terminal"
LINES = [
    "get wide 1",
    "get wide 1 2 9",
    "get wide 1 --columns c00,c01",
    "scan wide",
    "scan wide --columns c00,c01 --limit 2",
    "info wide",
    "verify wide",
    "versions wide",
    "build wide.parquet built --key id --columns c00",
    "dump broken.sst",
]
# What is of the day, the machine and the release, in as many letters.
_CHANGING = (
    (r"20\d\d-\d\d-\d\d", "D"),
    (r"\d\d:\d\d:\d\d(\.\d+)?(Z|\+00:00)?", "T"),
    (r"\b[0-9a-f]{32}\b", "I"),
    (r"lookupstore \d+\.\d+[^ │]*", "W"),
)


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make a folder of what the commands are given."""
    folder = tmp_path_factory.mktemp("terminal")
    columns = {f"c{i:02d}": [i * 10**6 + row for row in range(60)] for i in range(24)}
    table = pa.table({"id": range(60), "text": ["some words, " * 5] * 60, **columns})
    pq.write_table(table, folder / "wide.parquet")
    for rows in (60, 59):
        lookupstore.build(table.slice(0, rows), folder / "wide", key="id", overwrite=True).close()
    with Writer(folder / "broken.sst") as writer:
        writer.put(b"key", b"value")
    content = bytearray((folder / "broken.sst").read_bytes())
    content[3] ^= 1
    (folder / "broken.sst").write_bytes(content)
    return folder


def settled(printed: str, folder: Path) -> str:
    printed = printed.replace(str(folder), "HERE")
    for pattern, letter in _CHANGING:
        printed = re.sub(pattern, lambda found, one=letter: one * len(found[0]), printed)
    return printed


@pytest.mark.few(2)
@pytest.mark.skipif(sys.platform != "linux", reason="sizes of files are those of Linux")
@pytest.mark.parametrize("mode", ["60", "80", "200", "color"])
def test_what_terminals_show(mode: str, recorded: Path) -> None:
    """LOOKUPSTORE_REWRITE=1 writes the golden texts anew; those of a width are with NO_COLOR."""
    shutil.rmtree(recorded / "built", ignore_errors=True)
    width = 80 if mode == "color" else int(mode)
    variables = {"COLUMNS": str(width), "TERM": "xterm"}
    variables |= {} if mode == "color" else {"NO_COLOR": "1"}
    printed = settled(printed_by(LINES, recorded, variables), recorded)
    plain = re.sub(r"\x1b\[[0-9;]*m", "", printed)
    # Sentences are the terminal's to wrap, and a table is not.
    drawn = [line for line in plain.splitlines() if line[:1] in tuple("┏┃┡│├└┌")]
    assert len(drawn) > 50
    assert max(map(len, drawn)) <= width
    colors = re.findall(r"\x1b\[(?:\d+;)*3\d", printed)
    assert bool(colors) == (mode == "color")
    same_as_recorded(printed, mode)


def test_what_is_printed_without_a_terminal(
    recorded: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.rmtree(recorded / "built", ignore_errors=True)
    monkeypatch.chdir(recorded)
    printed = []
    for line in LINES:
        result = click.testing.CliRunner().invoke(main, shlex.split(line))
        printed.append(f"$ {line}\n{result.stdout}status {result.exit_code}\n")
    text = settled("".join(printed), recorded)
    assert "\x1b" not in text
    assert "more column" not in text
    same_as_recorded(text, "none")


def same_as_recorded(printed: str, name: str) -> None:
    path = GOLDEN / f"{name}.txt"
    if os.environ.get("LOOKUPSTORE_REWRITE") == "1":
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(printed)
    assert printed == path.read_text()


# Who runs the tests in the background may have them ignore SIGINT.
MAIN = (
    "import signal; signal.signal(signal.SIGINT, signal.default_int_handler); "
    "from lookupstore.__main__ import main; main()"
)


def process_of(words: list[str], folder: Path, **streams: Any) -> subprocess.Popen[bytes]:
    root = str(Path(lookupstore.__file__).parent.parent)
    return subprocess.Popen(
        [sys.executable, "-c", MAIN, *words], cwd=folder, env={**os.environ, "PYTHONPATH": root},
        stderr=subprocess.PIPE, **streams,
    )  # fmt: skip


def test_into_head(recorded: Path) -> None:
    """A reader that goes after one line is no error, of a long answer to keys neither."""
    keys = b"1\n" * 20_000
    with process_of(
        ["get", "wide", "--keys", "-", "--output", "json"], recorded,
        stdin=subprocess.PIPE, stdout=subprocess.PIPE,
    ) as process:  # fmt: skip
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdin.write(keys)
        process.stdin.close()
        assert json.loads(process.stdout.readline())["id"] == 1
        process.stdout.close()
        assert (process.stderr.read(), process.wait()) == (b"", 0)


# Ctrl-C is pressed when a module is imported.
PRESSED = """
import os, signal, sys
class Finder:
    def find_spec(name, path=None, target=None):
        if name == {module!r}:
            os.kill(os.getpid(), signal.SIGINT)
sys.meta_path.insert(0, Finder)
signal.signal(signal.SIGINT, signal.{handler})
from lookupstore.__main__ import main
main()
"""
IMPORTED = (
    "lookupstore.cli", "click", "lookupstore.cli.lookups", "pyarrow", "lookupstore.store.store",
)  # fmt: skip


@pytest.mark.parametrize("handler", ["default_int_handler", "SIG_IGN"])
@pytest.mark.parametrize("module", IMPORTED)
def test_interrupted_while_it_starts(recorded: Path, module: str, handler: str) -> None:
    """Nothing is printed; in the background, where the shell ignores it, it goes on."""
    run = subprocess.run(
        [sys.executable, "-c", PRESSED.format(module=module, handler=handler), "get", "wide", "1"],
        cwd=recorded,
        env={**os.environ, "PYTHONPATH": str(Path(lookupstore.__file__).parent.parent)},
        capture_output=True,
    )
    if handler == "SIG_IGN":
        assert (run.stderr, run.returncode) == (b"", 0)
        assert run.stdout
    else:
        assert (run.stdout, run.stderr, run.returncode) == (b"", b"", 130)


# Ctrl-C is pressed when a command has printed its rows.
ENDED = """
import atexit, os, signal, threading, time
from lookupstore import __main__, interrupts
from lookupstore.cli import failures
def press():
    os.kill(os.getpid(), signal.SIGINT)
def press_in_thread():
    while threading.main_thread().is_alive():
        time.sleep(0.01)
    press()
    time.sleep(60)
class Late:
    def __del__(self):
        press()
def begin():
    interrupts.end_quietly()
    {after}
__main__.end_quietly = begin
signal.signal(signal.SIGINT, signal.default_int_handler)  # which jobs in the background ignore
{before}
__main__.main()
"""


@pytest.mark.parametrize(
    ("before", "after", "status"),
    [
        ("failures._leave_nothing_to_write = press", "pass", 130),
        ("threading.Thread(target=press_in_thread).start()", "pass", 130),
        ("pass", "atexit.register(press)", 130),
        ("atexit.register(press)", "pass", 0),  # is called last: nothing is left to wait for
        ("late = Late()", "pass", 0),
    ],
)
def test_interrupted_while_it_ends(recorded: Path, before: str, after: str, status: int) -> None:
    code = ENDED.format(before=before, after=after)
    run = subprocess.run(
        [sys.executable, "-c", code, "get", "wide", "1", "--output", "json"],
        cwd=recorded,
        env={**os.environ, "PYTHONPATH": str(Path(lookupstore.__file__).parent.parent)},
        capture_output=True,
    )
    assert json.loads(run.stdout)["id"] == 1
    assert (run.stderr, run.returncode) == (b"", status)


def test_little_is_imported_before_interrupts_are_quiet() -> None:
    code = (
        "import os, enum, signal, sys, importlib; before = {*sys.modules}\n"
        "import lookupstore.interrupts; print(*sorted({*sys.modules} - before))"
    )
    run = subprocess.run(
        [sys.executable, "-S", "-c", code],
        env={**os.environ, "PYTHONPATH": str(Path(lookupstore.__file__).parent.parent)},
        capture_output=True,
        check=True,
        text=True,
    )
    ours = {"lookupstore"} | {
        f"lookupstore.{one}" for one in ("_built", "_version", "errors", "interrupts")
    }
    light = {"__future__", "atexit", "importlib.machinery"}
    assert set(run.stdout.split()) - light == ours


def test_interrupted(recorded: Path, tmp_path: Path) -> None:
    """What is interrupted ends its line and with 130, and leaves no file."""
    out = tmp_path / "out.csv"
    with process_of(
        ["get", "wide", "--keys", "-", "-o", str(out)], recorded, stdin=subprocess.PIPE
    ) as process:
        assert process.stdin is not None
        assert process.stderr is not None
        process.stdin.write(b"1\n" * 300_000)
        process.stdin.flush()
        for _ in range(1000):
            if os.listdir(tmp_path):
                break
            time.sleep(0.02)
        assert os.listdir(tmp_path)
        process.send_signal(signal.SIGINT)
        assert (process.stderr.read(), process.wait()) == (b"\nInterrupted\n", 130)
    assert os.listdir(tmp_path) == []
