"""What tests of Hudi tables let other processes do, which have to import it."""

from __future__ import annotations

import time
from datetime import datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
from support.hudi.small_tables import SCHEMA

from lookupstore.hudi import HudiTable
from lookupstore.hudi.locking.lock import table_lock
from lookupstore.hudi.timeline.timeline import TimelineFolder
from lookupstore.storage.location import Location


def add_one(place: Location, counter: str, count: int) -> None:
    """Add to a number in a file, under the lock, so that it shows if two do it at once."""
    for _ in range(count):
        with table_lock(place, wait=60) as lock:
            path = Path(counter)
            number = int(path.read_text())
            time.sleep(0.001)
            lock.check()
            path.write_text(str(number + 1))


def hold(place: Location, ready: Any) -> None:
    """Take the lock and wait for the end."""
    with table_lock(place):
        ready.set()
        time.sleep(60)


def roll_back_often(path: str) -> int:
    """Roll back what there is, again and again; return how much it was."""
    return sum(len(HudiTable.open(path).rollback()) for _ in range(10))


def request_some(path: str, count: int, now: datetime) -> list[str]:
    """Request instants, in another process, with a clock that stands."""
    folder = TimelineFolder(Location(path), "timeline", 9, clock=lambda: now)
    return [folder.request("commit").time for _ in range(count)]


def upsert_often(path: str, ids: list[int]) -> list[int]:
    """Upsert rows one by one, and return how often each write was tried again."""
    table = HudiTable.open(path)
    rows = (pa.table({"id": [number], "value": ["new"]}, schema=SCHEMA) for number in ids)
    return [table.upsert(one).retries for one in rows]
