"""Upsert once in a process of its own, for `changes.py`: prints what it took as JSON."""

from __future__ import annotations

import json
import sys
import time

import pyarrow.parquet as pq

import lookupstore


def main() -> None:
    """Upsert the rows of one Parquet file, and delete the keys of another."""
    store, rows, deletes = sys.argv[1:]
    keys = pq.read_table(deletes)["id"].combine_chunks()
    start = time.perf_counter()
    lookupstore.upsert(store, rows, deletes=keys).close()
    print(json.dumps({"seconds": time.perf_counter() - start}))


if __name__ == "__main__":
    main()
