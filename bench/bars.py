"""What is measured, and what has to be as fast as what: a topic's bars, and how a run met them.

A bar names a verb and a contender of its topic, and for a ratio the rival that it is divided by.
Its bound is a number of the verb's own unit, or a ratio.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from report import aligned, rate_text, value_text

OURS = "lookupstore"

#: What the value of a verb is: seconds, bytes, percent, or counts; of all others, operations a
#: second.
UNITS = {
    "open time": "s",
    "open memory": "B",
    "size": "B",
    "size none": "B",
    "size zstd": "B",
    "worker memory": "B",
    "cold keys": "s",
    "dimensions": "s",
    "upsert": "s",
    "bytes written": "%",
    "changelog": "s",
    "compact": "s",
    "follow": "s",
    "follow compact": "s",
    "follow deletes": "s",
    "bytes read": "%",
    "bytes of deletes": "%",
    "bytes of files": "B",
    "build seconds": "s",
    "build memory": "B",
    "upsert seconds": "s",
    "upsert memory": "B",
    "upsert cpu": "s",
    "few rows seconds": "s",
    "guards seconds": "s",
    "scan seconds": "s",
    "scan memory": "B",
    "scan cpu": "s",
    "timeline open": "s",
    "timeline upsert": "s",
    "timeline time travel": "s",
    "files by a": "%",
    "files by b": "%",
    "files of a box": "%",
    "bytes rewritten": "B",
    "cluster seconds": "s",
    "cluster memory": "B",
    "cluster cpu": "s",
    "query by a": "s",
    "query by b": "s",
    "query of a box": "s",
    "TPC-H Q6": "s",
    "TPC-H Q14": "s",
    "files of TPC-H Q6": "%",
    "files of TPC-H Q14": "%",
    "planning open": "s",
    "prune int64": "s",
    "prune text": "s",
    "first answer": "trip",
    "GETs": "GET",
    "bytes": "KiB",
    "1,000 keys": "s",
    "skip int64": "s",
    "skip text": "s",
    "wide open": "s",
    "cold 1,000": "s",
    "KiB of 1,000": "KiB",
    "cold 10,000": "s",
    "KiB of 10,000": "KiB",
    "warm seconds": "s",
    "calls until hot": "call",
    "private memory": "B",
    "first keys": "s",
    "requests": "request",
    "MiB": "MiB",
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
        rounds: a number a round: bytes or percent where these are the verb's unit, else seconds.
        operations: records or keys a round, 1 where they are not counted.
    """

    subject: Subject
    rounds: tuple[float, ...]
    operations: int = 1

    @property
    def unit(self) -> str:
        """Return the unit of values: `/s`, `s`, `B` or `%`."""
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


def judge(
    one: Bar, measured: Mapping[Subject, Measurement], lacking: Mapping[Subject, str]
) -> Outcome:
    """Return how a bar was met; `lacking` says why something could not be measured."""
    for subject in one.subjects:
        if subject not in measured:
            return Outcome(one, None, f"{subject.contender}: {lacking[subject]}")
    ours, *rivals = (measured[subject].value for subject in one.subjects)
    found = ours / rivals[0] if rivals else ours
    met = found <= one.bound if one.at_most else found >= one.bound
    return Outcome(one, found, "met" if met else "NOT MET")


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
    return aligned(lines, left=(0, 1, 6))


def verbs_table(
    workload: str, title: str, verbs: Iterable[str], measured: Mapping[Subject, Measurement]
) -> str:
    """Return a line per verb of one workload, a column per contender, ours first.

    A cell of a rival has in brackets how many times better ours is.
    """
    chosen = {one: found for one, found in measured.items() if one.workload == workload}
    names = sorted(dict.fromkeys(one.contender for one in chosen), key=lambda name: name != OURS)
    present = {one.verb for one in chosen}
    lines = [
        [verb, *(_cell(Subject(workload, verb, name), chosen) for name in names)]
        for verb in verbs
        if verb in present
    ]
    return aligned([[f"{workload} {title}", *names], *lines], left=(0,))


def _cell(subject: Subject, measured: Mapping[Subject, Measurement]) -> str:
    one, ours = measured.get(subject), measured.get(subject._replace(contender=OURS))
    if one is None:
        return ""
    text = rate_text(one.value) if one.unit == "/s" else value_text(one.value, one.unit)
    if ours is None or ours is one:
        return text
    ratio = ours.value / one.value if one.unit == "/s" else one.value / ours.value
    return f"{text} ({ratio:.3g}x)"
