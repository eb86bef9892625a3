"""Compare what lookupstore reads of a folder of files and tables with other readers: `make zoo`.

| variable | meaning |
|---|---|
| ZOO | the folder; by default `build/zoo`, which `make zoo-data` fills |
| ZOO_ARGS | `--json FILE` writes a report, `--all` shows files that are the same, `--only TEXT` |

Every Parquet, ORC, CSV, JSON lines and Arrow IPC file and every Delta, Iceberg, Paimon and Hudi
table below the folder is built into a store, verified, scanned and looked up; Parquet and ORC are
also looked up by `ColumnarFiles`. Archives (.zip) are unpacked. Files are recognised by their first
bytes, text by its extension.

The key is the shortest unique column, or the fewest leading columns that are unique together. If
there are none, it is the first column that can be a key, and the last row of each key is compared.
Values are compared exactly: floats by their bits, timestamps by the instant, decimals by value.

| verdict | meaning |
|---|---|
| same | every row and type is that of the reader that decides |
| refused | an error that names the cause; if it lacks file, column or remedy, the table says so |
| damaged | CorruptionError, and no other reader reads the file |
| unchecked | built and verified, but no other reader reads the file |
| suspicious | CorruptionError, but another reader reads the file |
| different | rows, types or values differ; the table shows the first difference |
| crash | any other error, an end of the process, or a hang |

`references.py` says which readers there are, and which one decides. The exit status is 1 if there
is a suspicious, different or crash, and 2 if the folder has no such file.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text
from zoo.finding import specimens
from zoo.outcome import FAILURES, VERDICTS
from zoo.workers import examine_all

COLOURS = {"crash": "bold red", "different": "red", "suspicious": "red", "same": "green"}


def outcome_table(outcomes: Sequence[dict[str, Any]], shown: Sequence[str]) -> Table:
    """Return the outcomes with some verdicts as a table, the worst first."""
    table = Table("file or table", "kind", "verdict", "what happened", title_justify="left")
    for verdict in VERDICTS:
        for one in outcomes:
            if one["verdict"] == verdict and verdict in shown:
                lacks = f" (names no {' and no '.join(one['lacks'])})" if one["lacks"] else ""
                said = [f"{one['says']}{lacks}", *(f"note: {note}" for note in one["notes"])]
                unread = [f"{name}: {why}" for name, why in one["readers"].items() if why]
                said += [f"not read by {why}" for why in unread] if verdict != "same" else []
                table.add_row(
                    Text(one["name"], overflow="fold"),
                    one["kind"],
                    Text(verdict, style=COLOURS.get(verdict, "yellow")),
                    Text("\n".join(filter(None, said)), overflow="fold"),
                )
    return table


def count_table(outcomes: Sequence[dict[str, Any]]) -> Table:
    """Return how many files and tables of each kind have each verdict."""
    verdicts = VERDICTS[::-1]
    table = Table("kind", *verdicts)
    counts = Counter((one["kind"], one["verdict"]) for one in outcomes)
    for kind in sorted({one["kind"] for one in outcomes}):
        table.add_row(kind, *(str(counts[kind, verdict] or "") for verdict in verdicts))
    totals = Counter(one["verdict"] for one in outcomes)
    table.add_row("all", *(str(totals[verdict]) for verdict in verdicts))
    return table


def main(arguments: Sequence[str] | None = None) -> int:
    """Run `make zoo`, and return the exit status."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--json", type=Path, help="file for a report of every outcome")
    parser.add_argument("--all", action="store_true", help="show files that are the same, too")
    parser.add_argument("--only", default="", help="only files with this text in their names")
    parser.add_argument("--processes", type=int, default=2, help="worker processes (default: 2)")
    parser.add_argument("--patience", type=float, default=120, help="seconds per file")
    given = parser.parse_args(arguments)
    if not given.folder.is_dir():
        parser.error(f"{given.folder} is not a folder; give one with files or tables below it")
    console = Console() if sys.stdout.isatty() else Console(width=160)
    with tempfile.TemporaryDirectory(prefix="zoo-") as scratch:
        found = [one for one in specimens(given.folder, Path(scratch)) if given.only in one.name]
        if not found:
            parser.error(f"{given.folder} has no file or table of a format that is known")
        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
        with Progress(*columns, TimeElapsedColumn(), console=console) as progress:
            task = progress.add_task("examined", total=len(found))
            outcomes = examine_all(
                found, given.processes, given.patience, lambda _: progress.advance(task)
            )
    shown = [one for one in VERDICTS if given.all or one != "same"]
    console.print(outcome_table(outcomes, shown))
    console.print(count_table(outcomes))
    if given.json is not None:
        given.json.write_text(json.dumps(outcomes, indent=1, default=str) + "\n")
    return int(any(one["verdict"] in FAILURES for one in outcomes))


if __name__ == "__main__":
    sys.exit(main())
