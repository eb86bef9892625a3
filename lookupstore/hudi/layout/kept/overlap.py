"""Choose the files to rewrite, by the cost of queries and of rewriting.

The rows of a partition are cut into regions once. The files of a region form runs. Files of one run
do not overlap each other, but they overlap the files of other runs. New files wait outside all
runs, and overlap the files of each region that they have rows in.

The number of files that a query by one column reads follows from the number of files in each run.
If k files are boxes in d columns and share a region, a query reads k ** (1 - 1 / d) of them. The
sum over all runs is compared with that of an ideal grid. If it is not much larger, and few files
wait, nothing is rewritten. Otherwise the waiting files become one more run of each region. Then
runs are merged until the sum is small enough. The merge that gains most for each row to rewrite
comes first.

Files are counted by their rows, in files of the target size. A large file counts more than one, and
a small run or waiting file counts at least one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

# Share of the rows that a query selects.
_SHARE = 0.01
#: Amount that queries may read: a multiple of that of an ideal grid, plus one file. With smaller
#: numbers, far more would be written; see decision 0031.
MOST, MORE = 1.4, 1.0
#: The same multiple for files that wait: a query by all columns reads these, and few other files.
MOST_WAITING = 2.0


@dataclass(frozen=True)
class Waiting:
    """A file outside all runs.

    Attributes:
        files: Number of rows of the file, in files of the target size.
        reach: Number of rows of the file in each region, in files of the target size.
    """

    files: float
    reach: Sequence[float]


@dataclass(frozen=True)
class MergeChoice:
    """The files to put in order.

    Attributes:
        waiting: Whether to put all waiting files in order; otherwise none of them.
        runs: Number of the last runs of each region to merge, together with any waiting files.
    """

    waiting: bool
    runs: tuple[int, ...]


def choose(
    regions: Sequence[Sequence[float]], waiting: Sequence[Waiting], columns: int
) -> MergeChoice:
    """Choose the files to put in order.

    Args:
        regions: Size of each run of each region, in files of the target size; the oldest run of a
            region comes first.
        waiting: Files that are not part of a run.
        columns: Number of columns of the layout.

    >>> choose([[10.0], [10.0]], [], 2)
    MergeChoice(waiting=False, runs=(0, 0))
    >>> choose([[10.0], [10.0]], [Waiting(1.0, [0.5, 0.5])] * 8, 2)
    MergeChoice(waiting=True, runs=(0, 0))
    """
    runs = [list(one) for one in regions]
    come = [sum(one.reach[at] for one in waiting) for at in range(len(runs))]
    rows = [sum(one) + more for one, more in zip(runs, come, strict=True)]
    total = sum(rows)
    if not total:
        return MergeChoice(False, (0,) * len(runs))
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
        return MergeChoice(False, (0,) * len(runs))
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
        # New files are the last run, which is not one of the existing runs.
        is_new = bool(come[region]) or merged[region] > 0
        merged[region] += count - (1 if is_new else 0)
        own[-count:] = [sum(own[-count:])]
        read -= gain
        gains[region] = _best(own, shares[region], power)
    return MergeChoice(bool(waiting), tuple(merged))


def _read(files: float, share: float, power: float) -> float:
    """Return how many files of a run of a region a query reads.

    Args:
        files: Size of the run, in files of the target size.
        share: Share of all rows that are in the region, from 0 to 1.
        power: 1 divided by the number of columns.
    """
    count = max(files, 1.0)
    return _SHARE * count + float(count ** (1 - power) * share**power)


def _best(runs: Sequence[float], share: float, power: float) -> tuple[float, int, float]:
    """Return the best merge of the last runs.

    Returns:
        Gain per row to rewrite, number of runs to merge, and total gain.
    """
    best = (0.0, 0, 0.0)
    for count in range(2, len(runs) + 1):
        last = runs[-count:]
        gain = sum(_read(one, share, power) for one in last) - _read(sum(last), share, power)
        by_row = gain / max(sum(last[:-1]), 1e-9)
        best = max(best, (by_row, count, gain))
    return best
