"""Work that is done ahead, and how many threads there are: a container may have a limit."""

from __future__ import annotations

import os
import random
import time
from pathlib import Path

import pytest

from lookupstore import processors as counting
from lookupstore.processors import processors
from lookupstore.sorting.ahead import done_ahead

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
