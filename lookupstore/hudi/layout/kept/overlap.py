"""Which files are to be put in order anew, by what queries read for them, and what that costs.

The rows of a partition are cut into regions, once. In each of them files lie in runs: of one run no
two overlap, of two runs all do. New files wait, and overlap what they reach over. What a query by
one column reads of a run follows from how many files it has: of k files that are boxes in d columns
and share a region, k ** (1 - 1 / d). All of that together is compared with what an ideal grid would
read. As long as it is not too much more, and few files wait, nothing is done. Then new files are
put in order, as one more run of each region; then runs are merged, those first that gain most for
each row that has to be written once more, until it is little enough.

Files count by their rows, in files of the wanted size: a large one is not one file, and a small
one is not less than one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

# Of its rows, what a query asks for.
_SHARE = 0.01
#: What may be read: so many times what an ideal grid would, and one file. By less, far more would
#: be written: see the decision 0031.
MOST, MORE = 1.4, 1.0
#: Of that, for files that wait: a query by all columns reads these, and few others.
MOST_WAITING = 2.0


@dataclass(frozen=True)
class Waiting:
    """A file outside all runs.

    Attributes:
        files: that its rows would be.
        reach: for each region, how many files its rows there would be.
    """

    files: float
    reach: Sequence[float]


@dataclass(frozen=True)
class Chosen:
    """What is to be put in order.

    Attributes:
        waiting: whether all waiting files are.
        runs: for each region, how many of its last runs become one with what comes.
    """

    waiting: bool
    runs: tuple[int, ...]


def choose(regions: Sequence[Sequence[float]], waiting: Sequence[Waiting], columns: int) -> Chosen:
    """Choose what to put in order.

    Args:
        regions: the runs of each region, those first that are there for longest: how many files the
            rows of each would be.
        waiting: files that are no part of a run.
        columns: of the layout.

    >>> choose([[10.0], [10.0]], [], 2)
    Chosen(waiting=False, runs=(0, 0))
    >>> choose([[10.0], [10.0]], [Waiting(1.0, [0.5, 0.5])] * 8, 2)
    Chosen(waiting=True, runs=(0, 0))
    """
    runs = [list(one) for one in regions]
    come = [sum(one.reach[at] for one in waiting) for at in range(len(runs))]
    rows = [sum(one) + more for one, more in zip(runs, come, strict=True)]
    total = sum(rows)
    if not total:
        return Chosen(False, (0,) * len(runs))
    shares = [one / total for one in rows]
    power = 1 / columns
    most = MOST * _read(max(total, 1.0), 1.0, power) + MORE

    def read_of(region: int) -> float:
        return sum(_read(one, shares[region], power) for one in runs[region])

    read = sum(map(read_of, range(len(runs))))
    costs = sum(
        max(one.files, 1.0)
        * sum(share for share, there in zip(shares, one.reach, strict=True) if there) ** power
        for one in waiting
    )
    if costs <= MOST_WAITING and read + costs <= most:
        return Chosen(False, (0,) * len(runs))
    for own, more in zip(runs, come, strict=True):
        if more:
            own.append(more)
    read = sum(map(read_of, range(len(runs))))
    merged = [0] * len(runs)
    gains = [_best(one, share, power) for one, share in zip(runs, shares, strict=True)]
    while read > most:
        region = max(range(len(runs)), key=lambda at: gains[at][0])
        _, count, gain = gains[region]
        if not count:
            break
        own = runs[region]
        # What came is the last run, which is none of those that were there.
        is_new = bool(come[region]) or merged[region] > 0
        merged[region] += count - (1 if is_new else 0)
        own[-count:] = [sum(own[-count:])]
        read -= gain
        gains[region] = _best(own, shares[region], power)
    return Chosen(bool(waiting), tuple(merged))


def _read(files: float, share: float, power: float) -> float:
    """Return how many files queries read of a run of a region.

    Args:
        files: that its rows are.
        share: of all rows that are in the region.
        power: 1 by the number of columns.
    """
    count = max(files, 1.0)
    return _SHARE * count + float(count ** (1 - power) * share**power)


def _best(runs: Sequence[float], share: float, power: float) -> tuple[float, int, float]:
    """Return which merge of the last runs gains most: by written row; of how many; in all."""
    best = (0.0, 0, 0.0)
    for count in range(2, len(runs) + 1):
        last = runs[-count:]
        gain = sum(_read(one, share, power) for one in last) - _read(sum(last), share, power)
        by_row = gain / max(sum(last[:-1]), 1e-9)
        best = max(best, (by_row, count, gain))
    return best
