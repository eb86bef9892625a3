"""Upsert, look up or get in a process of its own, for `changes.py`: prints what it took as JSON."""

from __future__ import annotations

import json
import statistics
import sys
import time
from collections.abc import Callable

import pyarrow.parquet as pq

import lookupstore

#: Lookups that make a store as fast as it will be: all of its records have places then.
RAMP = 20
#: Lookups of a round, whose median counts.
LOOKUPS = 9
#: Single keys of a round.
GETS = 50_000


def upsert(store: str, rows: str, deletes: str) -> float:
    """Upsert the rows of one Parquet file, and delete the keys of another; return the seconds."""
    keys = pq.read_table(deletes)["id"].combine_chunks()
    start = time.perf_counter()
    lookupstore.upsert(store, rows, deletes=keys).close()
    return time.perf_counter() - start


def lookup(store: str, rows: str, warm: int = 2) -> float:
    """Look up the keys of a Parquet file whose rows are right; return the seconds of a lookup.

    `warm` is how many lookups come before the clock starts. The first two pay for what is read
    first, and for the filter over all runs.
    """
    expected = pq.read_table(rows)
    keys = expected["id"].combine_chunks()
    with lookupstore.open(store) as opened:
        for _ in range(warm):
            assert opened.lookup(keys).equals(expected.drop_columns("id"))
        seconds = []
        for _ in range(LOOKUPS):
            start = time.perf_counter()
            opened.lookup(keys)
            seconds.append(time.perf_counter() - start)
    return statistics.median(seconds)


def hot(store: str, rows: str) -> float:
    """Do as `lookup` does when the store is as fast as it will be."""
    return lookup(store, rows, RAMP)


def get(store: str, rows: str) -> float:
    """Get the first keys of a Parquet file, one by one; return the seconds of the second time."""
    expected = pq.read_table(rows)
    wanted = expected.slice(0, GETS).to_pylist()
    keys = [row.pop("id") for row in wanted]
    with lookupstore.open(store) as opened:
        opened.lookup(expected["id"].combine_chunks())  # makes all blocks ready
        assert [opened.get(key) for key in keys] == wanted
        start = time.perf_counter()
        for key in keys:
            opened.get(key)
        return time.perf_counter() - start


VERBS: dict[str, Callable[..., float]] = {
    "upsert": upsert,
    "lookup": lookup,
    "hot": hot,
    "get": get,
}


def main() -> None:
    """Do what the first argument says with the paths that follow."""
    verb, *paths = sys.argv[1:]
    print(json.dumps({"seconds": VERBS[verb](*paths)}))


if __name__ == "__main__":
    main()
