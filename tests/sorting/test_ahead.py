"""Work that is done ahead, and how many threads there are: a container may have a limit."""

from __future__ import annotations

import os
import random
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from lookupstore import processors as counting
from lookupstore.processors import processors
from lookupstore.sorting.ahead import done_ahead, mixed_ahead

HERE = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@pytest.mark.parametrize(
    ("new", "old", "most"),
    [
        (None, None, HERE),
        ("max 100000", None, HERE),
        ("50000 100000", None, 1),
        ("100000 100000", None, 1),
        ("150000 100000", None, 2),
        ("6400000 100000", None, 64),
        ("0 100000", None, HERE),
        ("100000 0", None, HERE),
        ("nonsense", None, HERE),
        ("", ("100000", "100000"), 1),
        (None, ("250000", "100000"), 3),
        (None, ("-1", "100000"), HERE),
    ],
)
def test_a_container_with_a_limit(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    new: str | None,
    old: tuple[str, str] | None,
    most: int,
) -> None:
    files = [tmp_path / name for name in ("max", "quota", "period")]
    for file, content in zip(files, (new, *(old or (None, None))), strict=True):
        if content is not None:
            file.write_text(f"{content}\n")
    limits = ((str(files[0]),), (str(files[1]), str(files[2])))
    monkeypatch.setattr(counting, "_LIMITS", limits)
    assert processors() == min(HERE, most)


@pytest.mark.parametrize("threads", [0, 1, 3])
def test_results_come_in_the_order_of_their_items(threads: int) -> None:
    def slowly(number: int) -> int:
        time.sleep(random.random() / 200)
        return number + 1

    assert list(done_ahead(slowly, range(40), threads)) == list(range(1, 41))


@pytest.mark.parametrize("threads", [1, 3])
def test_items_of_several_iterators_are_all_yielded(threads: int) -> None:
    lengths = [random.randrange(5) for _ in range(20)]
    made, active, most = 0, 0, 0
    lock = threading.Lock()

    def items(number: int) -> Iterator[tuple[int, int]]:
        nonlocal made, active, most
        with lock:
            active += 1
            most = max(most, active)
        for at in range(lengths[number]):
            with lock:
                made += 1
            yield number, at
        with lock:
            active -= 1

    found = []
    for item in mixed_ahead(map(items, range(20)), threads):
        found.append(item)
        assert made <= len(found) + threads + 1
    # Those of one iterator are in order.
    assert sorted(found, key=lambda one: one[0]) == [
        (number, at) for number, length in enumerate(lengths) for at in range(length)
    ]
    assert most <= threads + 1


def test_an_error_of_an_iterator_is_raised() -> None:
    def items(number: int) -> Iterator[int]:
        yield number
        if number == 3:
            raise ValueError("three")

    with pytest.raises(ValueError, match="three"):
        list(mixed_ahead(map(items, range(9)), 2))
