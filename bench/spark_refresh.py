"""Time a warm lookup join in Spark right after a version with runs of changes was published.

The store is on an S3 server of this machine, all of it on the host before. Rounds take turns: a
batch without a new version, and one that finds a version with changes of one row in a hundred. What
that one takes longer, it waits for the new runs, which are all that the host may fetch.
"""

from __future__ import annotations

import argparse
import os
import random
import statistics
import sys
import time
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pyarrow as pa
from harness import clocked, command_line
from joins_rivals import to_nowhere
from pyspark.sql import DataFrame, SparkSession
from report import print_head
from workloads import SEED

import lookupstore
from lookupstore.spark import explain_join, lookup_join, session
from lookupstore.spark.join.freshness import SETTLE_SECONDS

# The S3 server that the tests use, too.
sys.path.append(str(Path(__file__).parents[1] / "tests"))
from support.object_store import FOR_WRITES, Proxy, object_store

#: What a warm join with a new version may take longer, in seconds.
BOUND = 0.3
#: What a host may fetch for it, as a share of its runs.
BYTES_BOUND = 1.05
#: So that every change is a run.
KEEP: dict[str, Any] = {"max_runs": 64, "max_run_share": 100.0}


def rows_of(keys: Any, value: int) -> pa.Table:
    """Return rows of an int64 key and four columns."""
    ids = np.asarray(keys, np.int64)
    columns = {name: ids * (place + 2) + value for place, name in enumerate("abcd")}
    return pa.table({"id": ids, **columns})


def fetched(proxy: Proxy) -> int:
    """Return how many bytes of data files the server was asked for."""
    return sum(each.size for each in proxy.gets if each.path.endswith(".sst"))


def wait_until_warm(facts: DataFrame, store: str) -> None:
    """Join until this host has all of the store."""
    while True:
        to_nowhere(lookup_join(facts, store, "id", refresh="per_batch"))
        if explain_join(facts, store, "id", refresh="per_batch").warm:
            return
        time.sleep(0.2)


def measured(spark: SparkSession, asked: argparse.Namespace, proxy: Proxy, folder: Path) -> bool:
    """Print what was measured; return whether both bounds were met."""
    rng = random.Random(SEED)
    table = rows_of(range(asked.records), 0)
    lookupstore.build(table, folder, key="id", buckets=8).close()
    store = proxy.store.uri("store")
    facts = spark.range(asked.few).selectExpr(f"(id * 7919) % {asked.records} AS id").cache()
    facts.count()
    wait_until_warm(facts, store)
    without, new, shares = [], [], []
    old_runs = 0

    def batch() -> float:
        joined = lookup_join(facts, store, "id", refresh="per_batch")
        return clocked(lambda: to_nowhere(joined))()

    for number in range(asked.rounds):
        without.append(batch())
        keys = rng.sample(range(asked.records), asked.records // 100)
        # In its folder: no process of this host has fetched anything of it.
        with lookupstore.upsert(folder, rows_of(keys, number), **KEEP) as newer:
            runs = newer.info().run_bytes
        time.sleep(SETTLE_SECONDS + 0.2)
        before = fetched(proxy)
        new.append(batch())
        wait_until_warm(facts, store)
        shares.append((fetched(proxy) - before) / (runs - old_runs))
        old_runs = runs
    extra = statistics.median(new) - statistics.median(without)
    print(f"warm batch, no new version    {statistics.median(without):8.3f} s")
    print(f"warm batch, a new version     {statistics.median(new):8.3f} s")
    print(f"longer by                     {extra:8.3f} s (at most {BOUND} s)")
    print(f"fetched, of the new runs      {max(shares):8.3f} (at most {BYTES_BOUND})")
    return extra <= BOUND and max(shares) <= BYTES_BOUND


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, and end with 1 if a bound was not met."""
    program = "bench/spark_refresh.py"
    parser = command_line(program, __doc__, rounds=5, records=2_000_000, few=1_000_000)
    asked = parser.parse_args(arguments)
    print_head({"records": asked.records, "facts": asked.few, "rounds": asked.rounds})
    with TemporaryDirectory() as temporary:
        os.environ.update(FOR_WRITES, LOOKUPSTORE_CACHE=str(Path(temporary, "copies")))
        with object_store(Path(temporary, "s3")) as server, closing(Proxy(server)) as proxy:
            spark = session("bench", "local[2]", **{"spark.log.level": "ERROR"})
            try:
                met = measured(spark, asked, proxy, proxy.store.folder / "store")
            finally:
                spark.stop()
    sys.exit(not met)


if __name__ == "__main__":
    main()
