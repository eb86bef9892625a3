"""Bound from below what any order of merging rewrites, if queries may read only so many files.

    python bench/layout_bound.py                    # 110 files, ten appends of a twentieth

A partition of equal files is in order by two columns. Appends come, each as one more run: files in
order among themselves, which overlap those of every other run. After each append, runs are merged,
whichever and as many as one likes, also each part of the partition in another way. A query by one
column asks for 1 % of its values, one by both for 10 % of each. It may never read more than so
many times the files of an ideal grid. What is the least that merges write, in times of what came?

Each limit is given a price per file read too much. The cheapest way to merge at these prices is
found exactly, by its cost after each append for each set of runs. Whatever the prices, no way that
keeps the limits writes less than that cost minus the price of the limits themselves (weak
duality). So each number printed is proved by its own computation. A search by subgradients looks
for prices that prove more; more `--rounds` only make the numbers greater.

Boxes of `--width` 1.06 are 6 % wider than squares, as half of those along a curve are. For the
decision 0031; needs nothing but Python.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import TypeAlias

#: How many appends are in the part that was in order at first, and in each other run.
Runs: TypeAlias = "tuple[int, tuple[int, ...]]"

ONE, BOTH = 0.01, 0.1  # of the values of a column, that queries ask for
MOST_READ = (1.4, 1.5, 1.6)


@dataclass(frozen=True)
class Setting:
    """A table, and what is appended to it.

    Attributes:
        files: Number of files before the first append.
        share: Files of each append, as a share of `files`.
        appends: Number of appends.
        width: Width of a file's box, relative to a perfect square's.
        by_both: Whether queries by both columns are limited, too.
    """

    files: float
    share: float
    appends: int
    width: float
    by_both: bool

    @property
    def limits(self) -> int:
        """Return the number of limits after each append."""
        return 1 + self.by_both

    def read(self, files: float, width: float = 1.0) -> list[float]:
        """Return how many files of a run each kind of query reads."""
        side = width / math.sqrt(files)
        found = [files * (ONE + side), files * (BOTH + side) ** 2]
        return found[: self.limits]

    def read_of(self, runs: Runs) -> list[float]:
        """Return how many files of all runs each kind of query reads."""
        each = self.files * self.share
        sizes = [self.files + each * runs[0], *(each * one for one in runs[1])]
        return [sum(one) for one in zip(*(self.read(n, self.width) for n in sizes), strict=True)]


@cache
def merges(runs: Runs) -> tuple[tuple[Runs, int, bool], ...]:
    """Return what one merge makes of runs, of how many appends, and whether of what was there."""
    return tuple(_merges(runs))


def _merges(runs: Runs) -> Iterator[tuple[Runs, int, bool]]:
    first, others = runs
    seen = set()
    for chosen in range(1, 1 << len(others)):
        some = tuple(one for at, one in enumerate(others) if chosen >> at & 1)
        if some in seen:
            continue
        seen.add(some)
        left = tuple(one for at, one in enumerate(others) if not chosen >> at & 1)
        if len(some) > 1:
            yield (first, tuple(sorted((*left, sum(some))))), sum(some), False
        yield (first + sum(some), left), first + sum(some), True


def cheapest(
    setting: Setting, prices: list[list[float]], allowed: list[list[float]]
) -> tuple[float, list[list[float]]]:
    """Return the least cost at these prices, and by how much that way exceeds each limit."""
    each = setting.files * setting.share
    costs: dict[Runs, float] = {(0, ()): 0.0}
    ways: list[dict[Runs, tuple[bool, Runs]]] = []
    over: list[dict[Runs, list[float]]] = []
    for step in range(setting.appends):
        found: dict[Runs, float] = {}
        way: dict[Runs, tuple[bool, Runs]] = {}
        for runs, cost in costs.items():
            more = (runs[0], tuple(sorted((*runs[1], 1))))
            if cost < found.get(more, math.inf):
                found[more], way[more] = cost, (True, runs)
        for count in range(step + 2, 0, -1):  # a merge makes fewer of them
            for runs in [one for one in found if len(one[1]) == count]:
                for less, appends, of_first in merges(runs):
                    cost = found[runs] + each * appends + setting.files * of_first
                    if cost < found.get(less, math.inf):
                        found[less], way[less] = cost, (False, runs)
        exceeds = {
            runs: [n - most for n, most in zip(setting.read_of(runs), allowed[step], strict=True)]
            for runs in found
        }
        costs = {
            runs: cost + sum(p * n for p, n in zip(prices[step], exceeds[runs], strict=True))
            for runs, cost in found.items()
        }
        ways.append(way)
        over.append(exceeds)
    runs = min(costs, key=lambda one: costs[one])
    least = costs[runs]
    taken = []
    for step in range(setting.appends - 1, -1, -1):
        taken.append(over[step][runs])
        is_append = False
        while not is_append:
            is_append, runs = ways[step][runs]
    return least, taken[::-1]


def bound(setting: Setting, most: float, rounds: int) -> float:
    """Return what is surely rewritten, in times of what came, where so much may be read."""
    each = setting.files * setting.share
    ideal = [setting.read(setting.files + each * (step + 1)) for step in range(setting.appends)]
    allowed = [[most * one for one in after] for after in ideal]
    prices = [[0.0] * setting.limits for _ in range(setting.appends)]
    best = 0.0
    for number in range(rounds):
        least, over = cheapest(setting, prices, allowed)
        best = max(best, least)
        length = math.sqrt(sum(one**2 for after in over for one in after)) or 1.0
        step = setting.files / 2 / (1 + number / 15) / length
        prices = [
            [max(0.0, price + step * one) for price, one in zip(after, exceeds, strict=True)]
            for after, exceeds in zip(prices, over, strict=True)
        ]
    return best / (each * setting.appends)


def main(given: list[str] | None = None) -> None:
    """Print the bounds."""
    parser = argparse.ArgumentParser(
        prog="python bench/layout_bound.py",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--files", type=int, default=110, help="files at first")
    parser.add_argument("--appends", type=int, default=10, help="of a twentieth each")
    parser.add_argument("--width", type=float, nargs="*", default=[1.0, 1.03, 1.06])
    parser.add_argument("--rounds", type=int, default=300, help="prices to try")
    asked = parser.parse_args(given)
    print(f"{'rewritten, at least, if queries read at most':44}", *(f"{n:5}" for n in MOST_READ))
    for by_both in (False, True):
        for width in asked.width:
            setting = Setting(asked.files, 1 / 20, asked.appends, width, by_both)
            name = f"by {'one column or both' if by_both else 'one column'}, boxes {width} wide"
            found = (f"{bound(setting, most, asked.rounds):5.2f}" for most in MOST_READ)
            print(f"{name:44}", *found, flush=True)


if __name__ == "__main__":
    main()
