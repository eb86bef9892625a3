"""What `make test` runs of a suite that goes through many cases: other ones each day.

`make test-long` sets LOOKUPSTORE_TEST_LONG and runs all of them. The first lines of a run print the
seed of the day, which is the date, such as 20261127: LOOKUPSTORE_TEST_SEED=20261127 draws the same
cases again. Two marks say what is sampled:

- `few(n)`: a parametrized test, of which `make test` runs n cases;
- `sampled`: a test that calls `some_of` or `amount`, so that `make test` does less in it.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from random import Random
from typing import TypeVar

import pytest

#: Whether everything is gone through.
LONG = os.environ.get("LOOKUPSTORE_TEST_LONG") == "1"
#: Set when pytest starts, so that all of its workers draw the same, also at midnight.
DAY = "LOOKUPSTORE_TEST_DAY"

T = TypeVar("T")


def seed_of_the_day() -> int:
    """Return LOOKUPSTORE_TEST_SEED, or the date in UTC as a number."""
    return int(os.environ.get("LOOKUPSTORE_TEST_SEED") or os.environ[DAY])


def some_of(items: Iterable[T], count: int = 6) -> list[T]:
    """Return the first item, the last, and those drawn today; all of them in `make test-long`."""
    every = list(items)
    if LONG or not every:
        return every
    drawn = {0, len(every) - 1, *_drawn(len(every), max(count - 2, 0))}
    return [every[at] for at in sorted(drawn)]


def amount(usual: int, long: int) -> int:
    """Return how many random cases a test goes through: `long` in `make test-long`."""
    return long if LONG else usual


def mark_cases_not_drawn(items: Iterable[pytest.Item]) -> None:
    """Mark as `long` the cases of tests marked `few` that are not drawn today."""
    tests: dict[str, list[pytest.Item]] = {}
    for item in items:
        if item.get_closest_marker("few") and not item.get_closest_marker("long"):
            tests.setdefault(item.nodeid.partition("[")[0], []).append(item)
    for name, cases in tests.items():
        (count,) = cases[0].get_closest_marker("few").args
        drawn = set() if LONG else _drawn(len(cases), count, name)
        for at, item in enumerate(cases):
            if at not in drawn:
                item.add_marker("long")


def _drawn(length: int, count: int, name: str = "") -> set[int]:
    return set(Random(f"{seed_of_the_day()} {name}").sample(range(length), min(count, length)))
