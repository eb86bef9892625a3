"""The cases that `make test` draws: few, the same all day; `make test-long` runs them all."""

from __future__ import annotations

from typing import Any

import pytest
from support import samples


class Case:
    """One case of a parametrized test, as pytest collects it."""

    def __init__(self, number: int, **marks: float | None) -> None:
        self.nodeid = f"test_file.py::test_name[{number}]"
        self.marks: dict[str, Any] = {
            name: getattr(pytest.mark, name)(*([] if value is None else [value])).mark
            for name, value in marks.items()
        }

    def get_closest_marker(self, name: str) -> Any:
        return self.marks.get(name)

    def add_marker(self, name: str) -> None:
        self.marks[name] = getattr(pytest.mark, name).mark


def drawn(count: int = 9, **marks: float | None) -> list[int]:
    """Return which cases of a test are not marked `long`."""
    cases: list[Any] = [Case(number, **marks) for number in range(count)]
    samples.mark_not_drawn(cases)
    return [number for number, one in enumerate(cases) if "long" not in one.marks]


@pytest.fixture(autouse=True)
def day(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(samples.DAY, "20260307")
    monkeypatch.setattr(samples, "LONG", False)
    monkeypatch.setattr(samples, "DRAW", False)


def test_cases_are_drawn_by_the_day_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    first = drawn(few=2)
    assert len(first) == 2
    monkeypatch.setenv("LOOKUPSTORE_TEST_SEED", "5")  # repeats inputs, and keeps the cases
    assert drawn(few=2) == first
    days = set()
    for number in range(20):
        monkeypatch.setenv(samples.DAY, f"{20260308 + number}")
        days |= set(drawn(few=2))
    assert days == set(range(9))  # each case has its day


def test_a_third_of_the_cases_of_spark_are_drawn() -> None:
    assert len(drawn(spark=None)) == 3
    assert len(drawn(spark=None, few=5)) == 5
    assert drawn(1, spark=None) == [0]


def test_tests_of_marked_files_are_drawn_where_all_wings_run(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def tests(share: float | None) -> list[int]:
        marks = {} if share is None else {"drawn": share}
        items: list[Any] = [Case(0, **marks) for _ in range(10)]
        for number, item in enumerate(items):
            item.nodeid = f"test_file.py::test_{number}"
        samples.mark_not_drawn(items)
        return [number for number, one in enumerate(items) if "long" not in one.marks]

    assert tests(0.3) == tests(None) == list(range(10))
    monkeypatch.setattr(samples, "DRAW", True)
    today = tests(0.3)
    assert len(today) == 3
    assert len(tests(0.31)) == 4
    assert tests(None) == tests(1) == list(range(10))
    assert len(drawn(spark=None)) == 2  # of three cases
    monkeypatch.setenv(samples.DAY, "20260308")
    assert tests(0.3) != today
    monkeypatch.setattr(samples, "LONG", True)
    assert tests(0.3) == []


def test_tests_without_a_mark_run_all_of_their_cases() -> None:
    assert drawn() == list(range(9))
    assert drawn(few=9) == list(range(9))


def test_the_long_part_has_every_case(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(samples, "LONG", True)
    assert drawn(few=2) == drawn(spark=None) == []
    assert samples.some_of(range(50), 4) == list(range(50))
    assert samples.amount(3, 30) == 30


def test_some_have_the_first_and_the_last() -> None:
    some = samples.some_of(range(50), 4)
    assert some == samples.some_of(range(50), 4) == sorted(some)
    assert {some[0], some[-1]} == {0, 49}
    assert 2 <= len(some) <= 4
    assert samples.some_of([], 4) == []
    assert samples.amount(3, 30) == 3
