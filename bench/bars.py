"""The core's bars: what has to be as fast as what, as a table, and how a run met them.

A bar names a verb of `measures.py` and a contender of `core.py`, and for a ratio the rival that it
is divided by. Its bound is a number of the verb's own unit, or a ratio.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from report import rate_text

OURS = "lookupstore"
DEFAULT_CACHE = "lookupstore, default cache"
TWO_THREADS = "lookupstore, 2 threads"
TWO_WRITING = "lookupstore, threads=2"
PAIMON = "lookupstore, paimon"
STORE = "store"
STORE_DEFAULT_CACHE = "store, default cache"

MILLION = 1e6

#: What the value of a verb is: seconds or bytes; of all others, operations a second.
UNITS = {
    "open time": "s",
    "open memory": "B",
    "size zstd": "B",
    "worker memory": "B",
    "cold keys": "s",
    "upsert seconds": "s",
    "upsert memory": "B",
    "scan seconds": "s",
}


class Subject(NamedTuple):
    """One measurement."""

    workload: str
    verb: str
    contender: str


@dataclass(frozen=True)
class Measurement:
    """What every round of one contender at one verb needed.

    Attributes:
        subject: what was measured.
        rounds: a number a round: bytes where the verb's unit is `B`, else seconds.
        operations: records or keys a round, 1 where they are not counted.
    """

    subject: Subject
    rounds: tuple[float, ...]
    operations: int = 1

    @property
    def unit(self) -> str:
        """Return the unit of values: `/s`, `s` or `B`."""
        return UNITS.get(self.subject.verb, "/s")

    @property
    def value(self) -> float:
        """Return what the median of the rounds comes to."""
        return self.of(statistics.median(self.rounds))

    @property
    def least(self) -> float:
        """Return the least value of a round."""
        return min(map(self.of, self.rounds))

    @property
    def most(self) -> float:
        """Return the greatest value of a round."""
        return max(map(self.of, self.rounds))

    def of(self, number: float) -> float:
        """Return the value of a round that gave this number."""
        return self.operations / number if self.unit == "/s" else number

    def to_json(self) -> dict[str, Any]:
        """Return the measurement as plain JSON values."""
        return {
            **self.subject._asdict(),
            "unit": self.unit,
            "value": self.value,
            "least": self.least,
            "most": self.most,
            "operations": self.operations,
            "rounds": self.rounds,
        }


@dataclass(frozen=True)
class Bar:
    """What a measurement, or its ratio to a rival's, has to reach.

    Attributes:
        name: of the line in the table.
        workload: `W1` or `W2`.
        verb: what is measured.
        contender: who has to reach it.
        bound: how much, at least.
        rival: who the contender is divided by, None for no ratio.
        at_most: the bound is what must not be passed.
    """

    name: str
    workload: str
    verb: str
    contender: str
    bound: float
    rival: str | None = None
    at_most: bool = False

    @property
    def subjects(self) -> list[Subject]:
        """Return what has to be measured: the contender first."""
        names = [self.contender] if self.rival is None else [self.contender, self.rival]
        return [Subject(self.workload, self.verb, name) for name in names]


def bar(
    name: str,
    verb: str,
    contender: str,
    rival: str | None = None,
    *,
    w1: float | None = None,
    w2: float | None = None,
    at_most: bool = False,
) -> list[Bar]:
    """Return a bar for each workload that has a bound."""
    return [
        Bar(name, workload, verb, contender, bound, rival, at_most)
        for workload, bound in (("W1", w1), ("W2", w2))
        if bound is not None
    ]


# Java Paimon cannot run beside us: its millions a second of another day, as multiples of what LMDB
# did beside it then, times what we want to be of it.
JAVA_RANDOM = 8 * 1.0 / 0.98
JAVA_SORTED = 3 * 3.9 / 2.9

BARS: tuple[Bar, ...] = (
    *bar("random: rate", "random", OURS, w1=15 * MILLION, w2=6 * MILLION),
    *bar("random / lmdb", "random", OURS, "lmdb", w1=16, w2=6),
    *bar("random / rocksdict", "random", OURS, "rocksdict", w1=35, w2=14),
    *bar("random / pandas", "random", OURS, "pandas", w1=2),
    *bar("sorted / lmdb", "sorted", OURS, "lmdb", w1=8, w2=5),
    *bar("sorted / numpy", "sorted", OURS, "numpy", w1=2),
    *bar("missing / rocksdict", "missing", OURS, "rocksdict", w1=10, w2=6),
    *bar("missing / pandas", "missing", OURS, "pandas", w1=1.4),
    *bar("10,000 a call: rate", "10,000 a call", OURS, w1=6 * MILLION),
    *bar("10,000 a call / lmdb", "10,000 a call", OURS, "lmdb", w1=6, w2=4),
    *bar("1,000 a call / lmdb", "1,000 a call", OURS, "lmdb", w1=5, w2=4),
    *bar("100 a call / lmdb", "100 a call", OURS, "lmdb", w1=3, w2=2),
    *bar("get / lmdb", "get", OURS, "lmdb", w1=1.2, w2=1.1),
    *bar("lookup: rate", "lookup", STORE, w1=8 * MILLION, w2=3 * MILLION),
    *bar("build none / rocksdict", "build none", OURS, "rocksdict", w1=2, w2=1.8),
    *bar("build zstd / rocksdict", "build zstd", OURS, "rocksdict", w1=1.7, w2=1.5),
    *bar(
        "build zstd, 2 threads / rocksdict",
        "build zstd",
        TWO_WRITING,
        "rocksdict",
        w1=2.8,
        w2=2.4,
    ),
    *bar("build zstd, 2 threads / 1", "build zstd", TWO_WRITING, OURS, w1=1.8, w2=1.8),
    *bar("size zstd / rocksdict", "size zstd", OURS, "rocksdict", w1=1, w2=1, at_most=True),
    *bar("paimon random / lmdb", "random", PAIMON, "lmdb", w1=JAVA_RANDOM),
    *bar("paimon sorted / lmdb", "sorted", PAIMON, "lmdb", w1=JAVA_SORTED),
    *bar("random, 2 threads / 1", "random", TWO_THREADS, OURS, w1=1.8, w2=1.8),
    *bar("open: time", "open time", OURS, w1=0.05, w2=0.05, at_most=True),
    *bar("open: memory", "open memory", OURS, w1=30 * MILLION, w2=30 * MILLION, at_most=True),
)

#: Measured without a bar: what a scan does, and what the lookups do in the cache of 256 MB that
#: readers and stores share by default.
INFORMATION: tuple[Subject, ...] = tuple(
    Subject(workload, verb, contender)
    for workload in ("W1", "W2")
    for verb, contender in (
        ("scan", OURS),
        ("random", DEFAULT_CACHE),
        ("lookup", STORE_DEFAULT_CACHE),
    )
)


@dataclass(frozen=True)
class Outcome:
    """What a run found of a bar.

    Attributes:
        bar: the bar.
        found: the value or the ratio, None if something was not measured.
        verdict: `met`, `NOT MET`, or why there is none.
    """

    bar: Bar
    found: float | None
    verdict: str

    def to_json(self) -> dict[str, Any]:
        """Return the outcome as plain JSON values."""
        return {
            "bar": self.bar.name,
            "workload": self.bar.workload,
            "verb": self.bar.verb,
            "contender": self.bar.contender,
            "rival": self.bar.rival,
            "bound": self.bar.bound,
            "at_most": self.bar.at_most,
            "found": self.found,
            "verdict": self.verdict,
        }


def judge(one: Bar, measured: Mapping[Subject, Measurement], lacking: Mapping[str, str]) -> Outcome:
    """Return how a bar was met; `lacking` says why a contender could not run."""
    for subject in one.subjects:
        if subject not in measured:
            return Outcome(one, None, f"{subject.contender}: {lacking[subject.contender]}")
    ours, *rivals = (measured[subject].value for subject in one.subjects)
    found = ours / rivals[0] if rivals else ours
    met = found <= one.bound if one.at_most else found >= one.bound
    return Outcome(one, found, "met" if met else "NOT MET")


def value_text(value: float, unit: str) -> str:
    """Return a value, or a ratio (unit `x`), for people.

    >>> value_text(15_200_000, "/s"), value_text(0.0123, "s"), value_text(31e6, "B")
    ('15.20 M/s', '12.3 ms', '31.0 MB')
    >>> value_text(1.234, "x")
    '1.23x'
    """
    if unit == "/s":
        return f"{rate_text(value)}/s"
    if unit == "x":
        return f"{value:.2f}x"
    return f"{value * 1e3:.1f} ms" if unit == "s" else f"{value / 1e6:.1f} MB"


def measurement_text(one: Measurement) -> str:
    """Return a measurement as a line: the median of its rounds, and the least and greatest."""
    median, least, most = (value_text(v, one.unit) for v in (one.value, one.least, one.most))
    subject = f"{one.subject.workload}  {one.subject.verb:<14} {one.subject.contender:<27}"
    return f"{subject}{median:>12}   {least} .. {most}"


def bars_table(outcomes: Iterable[Outcome], measured: Mapping[Subject, Measurement]) -> str:
    """Return a line a bar: what is wanted, what was found, and the medians that it comes from."""
    lines: list[Sequence[str]] = [("", "bar", "wanted", "found", "ours", "rival", "")]
    for outcome in outcomes:
        one = outcome.bar
        unit = UNITS.get(one.verb, "/s") if one.rival is None else "x"
        medians = [
            value_text(measured[subject].value, measured[subject].unit)
            if subject in measured
            else "-"
            for subject in one.subjects
        ]
        lines.append(
            (
                one.workload,
                one.name,
                f"{'<=' if one.at_most else '>='} {value_text(one.bound, unit)}",
                "-" if outcome.found is None else value_text(outcome.found, unit),
                medians[0],
                medians[1] if one.rival else "",
                outcome.verdict,
            )
        )
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    texts = (0, 1, 6)
    return "\n".join(
        "  ".join(
            cell.ljust(width) if i in texts else cell.rjust(width)
            for i, (cell, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in lines
    )
