"""Measure which share of files queries read of rows that are laid out by two columns.

    python bench/layout.py                          # 20,000,000 rows, 110 files
    python bench/layout.py --rows 2000000 --only Zipf

Nothing is written: rows are sorted by their positions and cut into files of as many rows, and a
query reads the files whose least and greatest values it does not miss. `1 % of a` asks for the
values of 1 % of the rows by one column, from a random place on; `box` for 10 % by each of both.

`ideal` is computed, not laid out: of n files that are a grid of squares, a share r of the rows by
one column is in r + 1 / sqrt(n) of them. Of a value that many rows have, all are asked for.

The rate counts seconds of the processor, not of the clock: a machine may be busy.
"""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable, Iterator, Mapping

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from bars import Bar, Measurement, Subject
from harness import Run, add_choice, add_json_lines, command_line

from lookupstore.hudi.layout import Layout
from lookupstore.sorting._sort import argsort

Values = npt.NDArray[np.int64]

IDEAL = "ideal"
SAMPLE, QUERIES, BATCH = 100_000, 200, 1_000_000
#: Each contender with its curve and mapping.
LAYOUTS = {
    "linear": ("linear", "sample"),
    "grid": ("grid", "sample"),
    "Hilbert, sample": ("hilbert", "sample"),
    "Z-order, sample": ("zorder", "sample"),
    "Hilbert, value": ("hilbert", "value"),
    "Z-order, value": ("zorder", "value"),
}
WORKLOADS: dict[str, Callable[[np.random.Generator, int], tuple[Values, Values]]] = {
    "uniform": lambda rng, rows: (rng.integers(0, 2**62, rows), rng.integers(0, 2**62, rows)),
    "Zipf": lambda rng, rows: (_zipf(rng, rows), _zipf(rng, rows)),
    "uneven": lambda rng, rows: (rng.integers(0, 1000, rows), rng.integers(0, 10**12, rows)),
}
FILES = ("files by a", "files by b", "files of a box")
RATE = "positions"
BOUNDS = {"grid": 1.1, "Hilbert, sample": 1.25, "Z-order, sample": 1.8}
BARS = [
    *(
        Bar(f"{verb}, {contender} / ideal", workload, verb, contender, bound, IDEAL, at_most=True)
        for workload in WORKLOADS
        for contender, bound in BOUNDS.items()
        for verb in FILES
    ),
    *(Bar(f"{RATE}, {name}", "uniform", RATE, name, 20e6) for name in LAYOUTS if "sample" in name),
]


def _zipf(rng: np.random.Generator, rows: int) -> Values:
    return np.minimum(rng.zipf(1.3, rows), 10**9)


class Queries:
    """Random queries by two columns, the same for all layouts."""

    def __init__(self, rng: np.random.Generator, columns: tuple[Values, Values]) -> None:
        self.ordered = [np.sort(one) for one in columns]
        every = [(one[0], one[-1]) for one in self.ordered]
        a, b = self.ordered
        self.bounds = {
            "files by a": [(_part(rng, a, 0.01), every[1]) for _ in range(QUERIES)],
            "files by b": [(every[0], _part(rng, b, 0.01)) for _ in range(QUERIES)],
            "files of a box": [(_part(rng, a, 0.1), _part(rng, b, 0.1)) for _ in range(QUERIES)],
        }

    def ideal(self, verb: str, files: int) -> float:
        """Return the mean share of files that an ideal grid would have read, in percent."""
        shares = []
        for bounds in self.bounds[verb]:
            share = 1.0
            for ordered, (low, high) in zip(self.ordered, bounds, strict=True):
                if (low, high) != (ordered[0], ordered[-1]):
                    first, after = (
                        np.searchsorted(ordered, low),
                        np.searchsorted(ordered, high, "right"),
                    )
                    share *= min(1.0, (after - first) / len(ordered) + 1 / math.sqrt(files))
            shares.append(share)
        return 100 * float(np.mean(shares))

    def read(self, verb: str, ranges: list[tuple[Values, Values]]) -> float:
        """Return the mean share of files read, in percent, by the ranges of their columns."""
        shares = []
        for bounds in self.bounds[verb]:
            hit = np.ones(len(ranges[0][0]), bool)
            for (least, greatest), (low, high) in zip(ranges, bounds, strict=True):
                hit &= (least <= high) & (greatest >= low)
            shares.append(np.mean(hit))
        return 100 * float(np.mean(shares))


def _part(rng: np.random.Generator, ordered: Values, share: float) -> tuple[int, int]:
    first = int(rng.random() * (1 - share) * len(ordered))
    return ordered[first], ordered[min(len(ordered) - 1, first + int(share * len(ordered)))]


def ranges_of(
    order: npt.NDArray[np.uint32], columns: tuple[Values, Values], files: int
) -> list[tuple[Values, Values]]:
    """Return the least and the greatest value of each file, for both columns."""
    starts = np.linspace(0, len(order), files + 1).astype(np.int64)[:-1]
    sorted_columns = [one[order] for one in columns]
    return [
        (np.minimum.reduceat(one, starts), np.maximum.reduceat(one, starts))
        for one in sorted_columns
    ]


def measured(
    workload: str, contenders: Mapping[str, tuple[str, str]], rows: int, files: int, rounds: int
) -> Iterator[Measurement]:
    """Lay the rows of a workload out by each contender, and yield what that came to."""
    rng = np.random.default_rng(0)
    columns = WORKLOADS[workload](rng, rows)
    queries = Queries(rng, columns)
    for verb in FILES:
        yield Measurement(Subject(workload, verb, IDEAL), (queries.ideal(verb, files),))
    table = pa.table(dict(zip("ab", columns, strict=True)))
    sample = table.take(pa.array(rng.choice(rows, min(SAMPLE, rows), replace=False)))
    for name, (curve, mapping) in contenders.items():
        layout = Layout.fit(sample, ["a", "b"], curve, mapping, files)  # type: ignore[arg-type]
        batches = table.to_batches(max_chunksize=BATCH)
        seconds = []
        for _ in range(rounds):
            start = time.process_time()
            positions = [layout.positions(batch) for batch in batches]
            seconds.append(time.process_time() - start)
        yield Measurement(Subject(workload, RATE, name), tuple(seconds), rows)
        order = argsort(pa.concat_arrays(positions))
        ranges = ranges_of(order, columns, files)
        for verb in FILES:
            yield Measurement(Subject(workload, verb, name), (queries.read(verb, ranges),))


def main(given: list[str] | None = None) -> None:
    """Measure as the command line says."""
    parser = command_line("python bench/layout.py", __doc__, rounds=3, rows=20_000_000, files=110)
    add_choice(parser, "workloads")
    add_json_lines(parser, "bench-layout.jsonl")
    asked = parser.parse_args(given)
    chosen = [one for one in WORKLOADS if asked.only in one]
    if not chosen:
        sys.exit(f"--only {asked.only!r} is in the name of no workload")
    run = Run({name: getattr(asked, name) for name in ("rows", "files", "rounds")})
    for workload in chosen:
        for one in measured(workload, LAYOUTS, asked.rows, asked.files, asked.rounds):
            run.add(one)
    run.judge([one for one in BARS if one.workload in chosen], {})
    run.end(asked.json_lines)


if __name__ == "__main__":
    main()
