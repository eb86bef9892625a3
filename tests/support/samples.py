"""Draw the cases that `make test` runs from large suites.

The cases change each day. `make test-long` sets LOOKUPSTORE_TEST_LONG and runs all of them. These
marks name the tests that are sampled:

- `few(n)`: a parametrized test, of which `make test` runs n cases. Unmarked tests of Spark run a
  quarter of their cases; other unmarked tests run all;
- `sampled`: a test that calls `some_of` or `amount`, whose loop is shorter in `make test`. Tests of
  Hypothesis are marked so, too: they have fewer examples;
- `drawn(share)`, for a file: `make test` runs this share of its tests, which LOOKUPSTORE_TEST_DRAW
  asks for; `make test WING=...` runs all. Unmarked files of Spark's tests have the share 0.4.

For example, this test runs two of its nine cases, and each of these kills six of all operations:

    @pytest.mark.few(2)
    @pytest.mark.sampled
    @pytest.mark.parametrize("action", ACTIONS)
    def test_an_action_that_is_killed(action: str) -> None:
        for at in some_of(range(operations_of(action)), 6):
            ...

LOOKUPSTORE_TEST_DAY=20261127 draws the cases of that day in UTC. The first lines of a run print the
day.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Sequence
from random import Random
from typing import TypeVar

import pytest

#: Whether all cases run.
LONG = os.environ.get("LOOKUPSTORE_TEST_LONG") == "1"
#: Whether tests of marked files are drawn, too.
DRAW = os.environ.get("LOOKUPSTORE_TEST_DRAW") == "1"
#: Set when pytest starts, so that all of its workers draw the same, also at midnight.
DAY = "LOOKUPSTORE_TEST_DAY"

T = TypeVar("T")


def seed_of_the_day() -> int:
    """Return a seed for random inputs: LOOKUPSTORE_TEST_SEED, or the day as a number."""
    return int(os.environ.get("LOOKUPSTORE_TEST_SEED") or os.environ[DAY])


def some_of(items: Iterable[T], count: int = 6) -> list[T]:
    """Return the first item, the last, and `count` - 2 others that are drawn each day.

    In `make test-long`, return all items.
    """
    every = list(items)
    if LONG or not every:
        return every
    drawn = {0, len(every) - 1, *_drawn(len(every), max(count - 2, 0))}
    return [every[at] for at in sorted(drawn)]


def amount(usual: int, long: int) -> int:
    """Return how many random cases a test goes through: `long` in `make test-long`."""
    return long if LONG else usual


def mark_not_drawn(items: Sequence[pytest.Item]) -> None:
    """Mark as `long` the cases and tests that are not drawn today."""
    _mark_cases(items)
    if LONG or DRAW:
        _mark_tests(items)


def _mark_cases(items: Iterable[pytest.Item]) -> None:
    tests: dict[str, list[pytest.Item]] = {}
    for item in items:
        if getattr(getattr(item, "obj", None), "is_hypothesis_test", False):
            item.add_marker("sampled")
        sampled = item.get_closest_marker("few") or item.get_closest_marker("spark")
        if sampled and not item.get_closest_marker("long"):
            tests.setdefault(item.nodeid.partition("[")[0], []).append(item)
    for name, cases in tests.items():
        few = cases[0].get_closest_marker("few")
        count = few.args[0] if few else math.ceil(len(cases) / 4)
        if count >= len(cases):
            continue
        _mark_all_but(count, cases, name)


def _mark_tests(items: Iterable[pytest.Item]) -> None:
    files: dict[str, list[pytest.Item]] = {}
    for item in items:
        is_sampled = item.get_closest_marker("drawn") or item.get_closest_marker("spark")
        if is_sampled and not item.get_closest_marker("long"):
            files.setdefault(item.nodeid.partition("::")[0], []).append(item)
    for name, tests in files.items():
        mark = tests[0].get_closest_marker("drawn")
        share = mark.args[0] if mark else 0.4
        if share < 1:
            _mark_all_but(math.ceil(len(tests) * share), tests, name)


def _mark_all_but(count: int, items: Sequence[pytest.Item], name: str) -> None:
    """Mark as `long` all but `count` items, or in `make test-long` all of them."""
    drawn = set() if LONG else _drawn(len(items), count, name)
    for at, item in enumerate(items):
        if at not in drawn:
            item.add_marker("long")


def _drawn(length: int, count: int, name: str = "") -> set[int]:
    # By the day alone: a seed that repeats the inputs of a case has to leave that case in.
    return set(Random(f"{os.environ[DAY]} {name}").sample(range(length), min(count, length)))
