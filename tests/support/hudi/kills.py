"""Kill an action at each of its file operations, and look at the table each time."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Any

import pyarrow.compute as pc
import pytest
from support.hudi.oracle import other_scan
from support.remote import FaultyDisk, Killed
from support.samples import LONG, seed_of_the_day, some_of

from lookupstore.hudi import HudiTable

Rows = dict[int, object]


def on_disk(patch: pytest.MonkeyPatch, disk: FaultyDisk) -> FaultyDisk:
    """Let a disk serve every file operation of a local table that makes, renames or removes."""
    patch.setattr("lookupstore.storage.local.os", disk)
    patch.setattr("lookupstore.storage.naming.os", disk)
    patch.setattr("lookupstore.storage.lock_file.os", disk)
    return disk


def copied(template: Path, to: Path) -> HudiTable:
    """Return a copy of a table."""
    return HudiTable.open(Path(shutil.copytree(template, to, symlinks=True)))


def count_points(template: Path, folder: Path, act: Callable[[HudiTable], object]) -> int:
    """Return how many file operations an action takes."""
    table = copied(template, folder / "counted")
    with pytest.MonkeyPatch.context() as patch:
        disk = on_disk(patch, FaultyDisk())
        act(table)
    return len(disk.done)


def kill_at_each_point(
    template: Path,
    folder: Path,
    act: Callable[[HudiTable], object],
    check: Callable[[Path], None],
    check_end: Callable[[Path], None],
) -> int:
    """Kill an action at operations drawn today, or fail them; check; do it again; check the end.

    Returns:
        The number of operations.
    """
    points = count_points(template, folder, act)
    for at in some_of(range(points)):
        for kill in (True, False):
            path = folder / f"{at}-{kill}"
            table = copied(template, path)
            with pytest.MonkeyPatch.context() as patch, suppress(Killed, OSError):
                on_disk(patch, FaultyDisk(at, kill=kill))
                act(table)
            check(path)
            act(HudiTable.open(path))
            check_end(path)
            shutil.rmtree(path)
    return points


def kill_again_and_again(
    template: Path,
    folder: Path,
    act: Callable[[HudiTable], object],
    check: Callable[[Path], None],
) -> int:
    """Kill each attempt later than the one before, on one table, until one succeeds.

    In `make test-long` it is one operation later, otherwise a few.

    Returns:
        The operation at which the attempt that succeeds would have been killed.
    """
    path = folder / "again"
    table = copied(template, path)
    steps = Random(seed_of_the_day())
    at = 0
    while at < 1000:
        with pytest.MonkeyPatch.context() as patch:
            on_disk(patch, FaultyDisk(at, kill=True))
            try:
                act(table)
            except Killed:
                pass
            else:
                return at
        check(path)
        at += 1 if LONG else steps.randint(1, 16)
    raise AssertionError("it does not end")


class WatchedDisk(FaultyDisk):
    """A disk that sees changes of a folder by operations that are not counted.

    Files that are not finished have hidden names; what is in them is nobody's business.
    """

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self._folder = folder
        self._seen = self._tree()

    def check(self) -> None:
        assert self._tree() == self._seen

    def __getattr__(self, name: str) -> Any:
        found = super().__getattr__(name)
        if name not in self.STEPS:
            return found

        def step(*args: Any, **named: Any) -> Any:
            self.check()
            try:
                return found(*args, **named)
            finally:
                self._seen = self._tree()

        return step

    def _tree(self) -> dict[str, tuple[int, int]]:
        return {
            str(path): (path.stat().st_ino, path.stat().st_size if path.is_file() else 0)
            for path in self._folder.rglob("*")
            if not path.name.endswith(".tmp")
        }


def rows_of(path: Path, as_of: str | None = None) -> Rows:
    """Return the rows as both readers see them."""
    ours = HudiTable.open(path).scan(columns=["id", "value"], as_of=as_of)
    theirs = other_scan(path, as_of)
    found: Rows = dict(zip(ours["id"].to_pylist(), ours["value"].to_pylist(), strict=True))
    assert len(found) == ours.num_rows
    other: Rows = {}
    if theirs is not None:
        other = dict(zip(theirs["id"].to_pylist(), theirs["value"].to_pylist(), strict=True))
    assert found == other
    return found


def leftovers(path: Path) -> list[str]:
    """Return what a writer that ends well leaves none of: locks, heartbeats, markers, pending."""
    places = (".heartbeat/*", ".temp/*/**/*", "lock", ".aux/lock")
    found = [str(one) for name in places for one in path.glob(f".hoodie/{name}") if one.is_file()]
    return found + [one.file_name for one in HudiTable.open(path).view().timeline.pending()]


def check_statistics(path: Path) -> None:
    """Check that statistics of columns say nothing wrong, and that filters lose no row by them."""
    table = HudiTable.open(path)
    everything = table.scan(columns=["id", "value"])
    for where in (
        pc.field("id") == 1,
        pc.field("id") > 2,
        pc.field("value") == "old",
        pc.field("value") < "old",
    ):
        found = table.scan(columns=["id", "value"], filter=where)
        assert found.equals(everything.filter(where)), where
    assert [one for one in table.verify().findings if one.kind == "columns"] == []


def base_files(path: Path) -> list[str]:
    """Return the base files that are there, by path."""
    found = (str(one.relative_to(path)) for one in path.rglob("*.parquet"))
    return sorted(one for one in found if not one.startswith(".hoodie/"))
