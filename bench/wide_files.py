"""A Parquet file of many columns and row groups: to open it, and to find a key in it.

open   `ColumnarFiles(path, ...)`, which reads and checks the footer, beside `pq.ParquetFile(path)`,
       which reads it; once for two value columns and once for all
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
from workloads import SEED

from lookupstore.columnar import ColumnarFiles
from lookupstore.hostcache.cache import Residency

FILE = "wide"
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
        self.keys = np.random.default_rng(SEED).integers(0, len(table), queries).tolist()
        self.residency = Residency(path.parent / "cache", quota="1GB")

    def opened(self, columns: Sequence[str] | None) -> ColumnarFiles:
        """Open the file by ours."""
        return ColumnarFiles(
            self.path, key=KEY, columns=columns, build="never", residency=self.residency
        )

    def opens(self) -> dict[str, Callable[[], float]]:
        """Return what opens the file, by contender."""
        return {
            OURS: clocked(lambda: self.opened(VALUES).close()),
            ALL: clocked(lambda: self.opened(None).close()),
            ARROW: clocked(lambda: pq.ParquetFile(self.path).close()),
        }

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
