"""Upsert or look up in a process of its own, for `changes.py`: prints what it took as JSON."""

from __future__ import annotations

import json
import statistics
import sys
import time

import pyarrow.parquet as pq

import lookupstore

#: Lookups of a round, whose median counts.
LOOKUPS = 9


def upsert(store: str, rows: str, deletes: str) -> float:
    """Upsert the rows of one Parquet file, and delete the keys of another; return the seconds."""
    keys = pq.read_table(deletes)["id"].combine_chunks()
    start = time.perf_counter()
    lookupstore.upsert(store, rows, deletes=keys).close()
    return time.perf_counter() - start


def lookup(store: str, rows: str) -> float:
    """Look up the keys of a Parquet file whose rows are right; return the seconds of a lookup."""
    expected = pq.read_table(rows)
    keys = expected["id"].combine_chunks()
    with lookupstore.open(store) as opened:
        # The first ones pay for what is read first, and for the filter over all runs.
        assert opened.lookup(keys).equals(expected.drop_columns("id"))
        opened.lookup(keys)
        seconds = []
        for _ in range(LOOKUPS):
            start = time.perf_counter()
            opened.lookup(keys)
            seconds.append(time.perf_counter() - start)
    return statistics.median(seconds)


def main() -> None:
    """Do what the first argument says with the paths that follow."""
    verb, *paths = sys.argv[1:]
    print(json.dumps({"seconds": {"upsert": upsert, "lookup": lookup}[verb](*paths)}))


if __name__ == "__main__":
    main()
