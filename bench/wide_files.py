"""Parquet and ORC of many columns: to open a file, and to find a key in it.

open   `ColumnarFiles(path, ...)`, which reads and checks the footer, beside `pq.ParquetFile(path)`
       and `orc.ORCFile(path)`, which read it; once for two value columns and once for all
scan   all rows of two value columns of the ORC file, opening it included, beside
       `orc.ORCFile(path).read(columns=...)`
key    random keys, a call each, with two value columns, by looks into row groups; the rival knows
       the row group of each key and reads the same three columns of it from an open file

Answers are compared with the rows that were written. README.md says how to read it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from bars import OURS, Bar, Measurement, Subject
from harness import Run, add_json_lines, clocked, command_line, in_turns
from pyarrow import orc
from workloads import SEED

from lookupstore.columnar import ColumnarFiles
from lookupstore.hostcache.cache import Residency

FILE, ORC_FILE = "wide", "wide ORC"
ALL = "lookupstore, all columns"
ARROW = "Arrow"
#: Rows of a row group.
PART = 25
#: Value columns of lookups, and the key.
VALUES = ["c0", "c1"]
KEY = "id"

BARS = (
    Bar("open / Arrow", FILE, "wide open", OURS, 3, ARROW, at_most=True),
    Bar("open, all / Arrow", FILE, "wide open", ALL, 3, ARROW, at_most=True),
    Bar("key / Arrow", FILE, "wide key", OURS, 0.1, ARROW),
    Bar("ORC open / Arrow", ORC_FILE, "wide open", OURS, 3, ARROW, at_most=True),
    Bar("ORC open, all / Arrow", ORC_FILE, "wide open", ALL, 3, ARROW, at_most=True),
    Bar("ORC scan / Arrow", ORC_FILE, "wide scan", OURS, 3, ARROW, at_most=True),
)


def table_of(columns: int, groups: int) -> pa.Table:
    """Return an int64 key in ascending order, then integers and texts."""
    random = np.random.default_rng(SEED)
    rows = PART * groups
    texts = pa.array([f"t{row % 97}" for row in range(rows)])
    values = {
        f"c{i}": texts if i % 3 == 0 else random.integers(0, 1 << 40, rows)
        for i in range(columns - 1)
    }
    return pa.table({KEY: np.arange(rows), **values})


class Bench:
    """A wide file, and who reads it.

    Args:
        path: of the file.
        table: its rows.
        queries: keys of a round.
    """

    def __init__(self, path: Path, table: pa.Table, queries: int) -> None:
        self.path = path
        self.table = table
        pq.write_table(table, path, row_group_size=PART, compression="zstd")
        self.orc = path.with_suffix(".orc")
        orc.write_table(table, self.orc, compression="zstd")
        self.keys = np.random.default_rng(SEED).integers(0, len(table), queries).tolist()
        self.residency = Residency(path.parent / "cache", quota="1GB")

    def opened(self, columns: Sequence[str] | None, path: Path | None = None) -> ColumnarFiles:
        """Open the file of Parquet, or another one, by ours."""
        return ColumnarFiles(
            path or self.path, key=KEY, columns=columns, build="never", residency=self.residency
        )

    def opens(self) -> dict[str, Callable[[], float]]:
        """Return what opens the file, by contender."""
        return {
            OURS: clocked(lambda: self.opened(VALUES).close()),
            ALL: clocked(lambda: self.opened(None).close()),
            ARROW: clocked(lambda: pq.ParquetFile(self.path).close()),
        }

    def opens_of_orc(self) -> dict[str, Callable[[], float]]:
        """Return what opens the file of ORC, by contender."""
        return {
            OURS: clocked(lambda: self.opened(VALUES, self.orc).close()),
            ALL: clocked(lambda: self.opened(None, self.orc).close()),
            ARROW: clocked(lambda: orc.ORCFile(self.orc).schema),
        }

    def scanned(self) -> pa.Table:
        """Read two columns of the file of ORC by ours."""
        with self.opened(VALUES, self.orc) as files:
            return files.scan().read_all()

    def asked(self, files: ColumnarFiles) -> list[pa.Table]:
        """Return what ours finds at each key."""
        return [files.lookup([key]) for key in self.keys]

    def read(self, file: pq.ParquetFile) -> list[pa.Table]:
        """Return what Arrow reads at each key."""
        found = []
        for key in self.keys:
            rows = file.read_row_group(key // PART, columns=[KEY, *VALUES])
            place = rows[KEY].index(key).as_py()
            found.append(rows.select(VALUES).slice(place, 1))
        return found

    def check(self, found: Sequence[pa.Table]) -> None:
        """Compare answers with the rows that were written."""
        wanted = self.table.select(VALUES).take(self.keys)
        if not pa.concat_tables(found).cast(wanted.schema).equals(wanted):
            raise AssertionError("other rows than were written")


def main(given: Sequence[str] | None = None) -> None:
    """Open the file, and ask it for keys, by each contender in turns."""
    parser = command_line(
        "make bench-wide-files", __doc__, columns=4000, groups=40, queries=50, rounds=7
    )
    add_json_lines(parser, "bench-wide-files.jsonl")
    asked = parser.parse_args(given)
    names = ("columns", "groups", "queries", "rounds")
    run = Run({name: getattr(asked, name) for name in names})
    with TemporaryDirectory(prefix="bench-wide-files-") as folder:
        table = table_of(asked.columns, asked.groups)
        bench = Bench(Path(folder, "wide.parquet"), table, asked.queries)
        for name, found in in_turns(bench.opens(), asked.rounds, uncounted=1).items():
            run.add(Measurement(Subject(FILE, "wide open", name), found))
        for name, found in in_turns(bench.opens_of_orc(), asked.rounds, uncounted=1).items():
            run.add(Measurement(Subject(ORC_FILE, "wide open", name), found))
        columns = [KEY, *VALUES]
        wanted = table.select(columns)
        if not bench.scanned().cast(wanted.schema).equals(wanted):
            raise AssertionError("other rows than were written")
        scans = {
            OURS: clocked(bench.scanned),
            ARROW: clocked(lambda: orc.ORCFile(bench.orc).read(columns=columns)),
        }
        for name, found in in_turns(scans, asked.rounds, uncounted=1).items():
            run.add(Measurement(Subject(ORC_FILE, "wide scan", name), found, len(table)))
        with bench.opened(VALUES) as files, pq.ParquetFile(bench.path) as file:
            bench.check(bench.asked(files))
            bench.check(bench.read(file))
            keys = {
                OURS: clocked(lambda: bench.asked(files)),
                ARROW: clocked(lambda: bench.read(file)),
            }
            for name, found in in_turns(keys, asked.rounds, uncounted=1).items():
                run.add(Measurement(Subject(FILE, "wide key", name), found, asked.queries))
        run.judge(BARS, {})
    run.end(asked.json_lines)


if __name__ == "__main__":
    main()
