"""What tests let other processes do, which have to import it."""

from __future__ import annotations

import os
import random
from pathlib import Path

import pyarrow as pa

from lookupstore.errors import CommitConflictError
from lookupstore.hostcache import stats
from lookupstore.hostcache.counts import Counts
from lookupstore.sst import Reader
from lookupstore.store.store import LookupStore
from lookupstore.store.upserting import upsert

MODEL = {b"%05d" % (3 * i): b"%d " % i * 9 for i in range(3000)}
ASKED = [b"%05d" % i for i in range(9003)]
ANSWERS = [MODEL.get(key) for key in ASKED]


def right(reader: Reader) -> bool:
    """Return whether a file of `MODEL` is that, however it is asked."""
    rng = random.Random(os.getpid())
    some = rng.sample(ASKED, 100)
    return (
        reader.lookup(ASKED).to_pylist() == ANSWERS
        and [reader.get(key) for key in some] == [MODEL.get(key) for key in some]
        and dict(reader.items()) == MODEL
        and len(reader) == len(MODEL)
    )


def add_many(folder: Path, number: int) -> None:
    """Count 25 tasks of two rows."""
    for _ in range(25):
        stats.add(folder, "app", f"execution {number}", "/s", 1, Counts(tasks=1, rows=2))


def add_often(path: str, ids: list[int], amount: int, told: Path) -> None:
    """Add an amount to the sums at some keys, again and again; a file gets a line for each time."""
    changes = pa.table({"id": ids, "n": [amount] * len(ids)})
    while True:
        try:
            upsert(path, changes, rule="sum", max_runs=2).close()
        except CommitConflictError:
            continue  # nothing was changed
        with told.open("a") as file:
            file.write("once\n")


def ask_in_child(store: LookupStore, keys: list[int]) -> list[str | None]:
    """Return the names at keys."""
    return store.lookup(keys, ["name"])["name"].to_pylist()
