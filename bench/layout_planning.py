"""Measure how soon statistics of many files are open, and say which files a filter leaves.

    python bench/layout_planning.py                 # 100,000 files, 10 columns
    python bench/layout_planning.py --files 2000 --rounds 3

Nothing has rows: the statistics are made up, and written as a write does. Half of the columns are
int64, half texts of 16 bytes, and in each a file has a tenth of all values, somewhere. Each round
opens them anew, so that a predicate pays for what nobody has asked before. `prune` is one predicate
alone; `skip` is what a scan does with it, which looks for the files of the table as well.
"""

from __future__ import annotations

import sys
import tempfile
import uuid
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from bars import OURS, Bar, Measurement, Subject
from harness import Run, add_choice, add_json_lines, clocked, command_line, in_turns

from lookupstore.filters import predicate_of
from lookupstore.hudi.file_group.groups import parse_base_file
from lookupstore.hudi.layout import STATISTICS_FOLDER, TableStatistics, read_statistics
from lookupstore.hudi.layout.statistics.file_statistics import FileStatistics
from lookupstore.hudi.layout.statistics.skipping import skip
from lookupstore.hudi.layout.statistics.versions import write_version
from lookupstore.parquet.column_statistics import ColumnStatistics
from lookupstore.storage.location import Location

PLANNING = "planning"
TIME = "20260308000000000"
COLUMNS = pa.schema(
    {
        **{f"number{at}": pa.int64() for at in range(5)},
        **{f"text{at}": pa.string() for at in range(5)},
    }
)
ROWS, BYTES = 1_000_000, 120 << 20
#: All values are below it.
MOST = 1 << 62
# What a predicate asks for: values below it.
BELOW = MOST // 100
ASKED = {
    "int64": ("number3", pc.field("number3") < BELOW),
    "text": ("text3", pc.field("text3") < f"{BELOW:016x}"),
}
BARS = (
    Bar("open", PLANNING, "planning open", OURS, 0.2, at_most=True),
    Bar("prune, int64", PLANNING, "prune int64", OURS, 0.002, at_most=True),
    Bar("prune, text", PLANNING, "prune text", OURS, 0.005, at_most=True),
)


class Bench:
    """Statistics in a folder, which are opened again and again.

    Args:
        folder: that they are written to.
        files: of how many they are.
    """

    def __init__(self, folder: Path, files: int) -> None:
        random = np.random.default_rng(0)
        least = {name: random.integers(0, MOST // 10 * 9, files) for name in COLUMNS.names}
        self.left = {
            kind: int(np.count_nonzero(least[name] < BELOW)) for kind, (name, _) in ASKED.items()
        }
        paths = [
            f"{uuid.UUID(bytes=random.bytes(16))}-0_{at}-0-0_{TIME}.parquet" for at in range(files)
        ]
        self.files = [parse_base_file(path, BYTES, path) for path in paths]
        known = {
            one.name: [_of(low, one.type) for low in least[one.name].tolist()] for one in COLUMNS
        }
        statistics = [
            FileStatistics(path, BYTES, ROWS, {name: known[name][at] for name in known})
            for at, path in enumerate(paths)
        ]
        self.now = TableStatistics.of(statistics, COLUMNS)
        self.location = Location(folder)
        self.location.make_folder(STATISTICS_FOLDER)
        write_version(self.location, TIME, self.now, ())

    def runs(self) -> dict[str, Callable[[], float]]:
        """Return what is timed, by its verb."""
        runs = {"planning open": clocked(self._open)}
        for kind in ASKED:
            runs[f"prune {kind}"] = clocked(lambda kind=kind: self._prune(kind), self._open)
            runs[f"skip {kind}"] = clocked(lambda kind=kind: self._skip(kind), self._open)
        return runs

    def _open(self) -> None:
        found = read_statistics(self.location, ())
        assert found is not None
        self.now = found

    def _prune(self, kind: str) -> None:
        self._check(kind, self.now.may_match(predicate_of(ASKED[kind][1]), COLUMNS))

    def _skip(self, kind: str) -> None:
        self._check(kind, skip(self.now, ASKED[kind][1], COLUMNS, self.files).kept)

    def _check(self, kind: str, left: np.ndarray) -> None:
        if (count := int(np.count_nonzero(left))) != self.left[kind]:
            raise AssertionError(f"{kind}: {count} files are left, not {self.left[kind]}")


def _of(least: int, kind: pa.DataType) -> ColumnStatistics:
    """Return what is known of a column of a file that has a tenth of all values."""
    ends = least, least + MOST // 10
    values = [f"{one:016x}" for one in ends] if pa.types.is_string(kind) else ends
    low, high = (pa.scalar(one, kind) for one in values)
    return ColumnStatistics(low, high, 0, 0, True, True)


def main(given: list[str] | None = None) -> None:
    """Measure as the command line says."""
    parser = command_line("python bench/layout_planning.py", __doc__, rounds=9, files=100_000)
    add_choice(parser, "verbs")
    add_json_lines(parser, "bench-layout.jsonl")
    asked = parser.parse_args(given)
    run = Run({name: getattr(asked, name) for name in ("files", "rounds")})
    with tempfile.TemporaryDirectory(prefix="bench-layout-") as folder:
        bench = Bench(Path(folder), asked.files)
        runs = {verb: one for verb, one in bench.runs().items() if asked.only in verb}
        if not runs:
            sys.exit(f"--only {asked.only!r} is in the name of no verb")
        for verb, seconds in in_turns(runs, asked.rounds, uncounted=1).items():
            run.add(Measurement(Subject(PLANNING, verb, OURS), seconds))
    run.judge([one for one in BARS if one.verb in runs], {})
    run.end(asked.json_lines)


if __name__ == "__main__":
    main()
