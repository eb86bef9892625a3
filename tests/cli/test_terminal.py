"""What the commands print in a terminal of 80 columns: whole, and readable."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest

import lookupstore
from lookupstore.cli.output import rows_table
from lookupstore.hostcache import stats
from lookupstore.hostcache.counts import Counts

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


def in_a_terminal(lines: list[str], folder: Path) -> dict[str, list[str]]:
    """Run commands in a terminal of 80 columns; return the lines that each printed."""
    ours, theirs = pty.openpty()
    environment = {
        **os.environ,
        "COLUMNS": "80",
        "TERM": "dumb",
        "LOOKUPSTORE_CACHE": str(folder / "cache"),
        "PYTHONPATH": str(Path(lookupstore.__file__).parent.parent),
    }
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
    found: dict[str, list[str]] = {}
    for line in printed.decode().replace("\r\n", "\n").splitlines():
        if line.startswith("$ "):
            found[line[2:]] = []
        else:
            found[list(found)[-1]].append(line)
    return found


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


def test_a_table_that_fits_has_its_columns_beside_each_other() -> None:
    batch = pa.RecordBatch.from_pydict({"a" * 10: ["x" * 50], "b" * 10: [1]})
    assert len(rows_table(batch.schema, [batch], 27).columns) == 2
    assert rows_table(batch.schema, [batch], 27).show_header
    assert not rows_table(batch.schema, [batch], 26).show_header
    assert rows_table(batch.schema, [], 10).show_header
