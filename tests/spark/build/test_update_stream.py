"""A stream that changes a store while executors are killed, and one that joins with the store.

Each batch adds the same to every key, so that a version which is half there, or has a batch twice,
has keys that disagree. The oracle is a batch over all rows that were given.
"""

from __future__ import annotations

import os
import random
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession

import lookupstore
from lookupstore import Location
from lookupstore.spark import lookup_join, update_store
from lookupstore.store.version_files import read_newest, read_versions

pytestmark = [
    pytest.mark.spark,
    # PySpark 4.0 leaves sockets to the garbage collector.
    pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"),
]

KEYS = 200
FILES = 4


def executors() -> list[psutil.Process]:
    """Return the executors of the session of these tests."""
    found = []
    for process in psutil.Process().children(recursive=True):
        try:
            if any("CoarseGrainedExecutorBackend" in word for word in process.cmdline()):
                found.append(process)
        except psutil.Error:
            continue
    return found


def wait_until(done: Callable[[], bool], *queries: Any) -> None:
    until = time.monotonic() + 90
    while not done():
        assert time.monotonic() < until, "the stream came to nothing"
        for query in queries:
            assert query.exception() is None, query.exception()
        time.sleep(0.05)


def put(folder: Path, name: str, table: pa.Table) -> None:
    """Let a file appear as a whole, and later than the one before."""
    time.sleep(0.01)  # Spark takes files in order of their times, which are multiples of 4 ms
    pq.write_table(table, folder / f".{name}")
    (folder / f".{name}").rename(folder / f"{name}.parquet")


@pytest.mark.long
def test_exactly_once_while_executors_are_killed(
    spark: SparkSession, tmp_path: Path, seed: int
) -> None:
    rng = random.Random(seed)
    place = tmp_path / "s"
    lookupstore.build(
        pa.table({"id": range(KEYS), "n": [0] * KEYS}), place, key="id", buckets=3
    ).close()
    for name in ("changes", "facts"):
        (tmp_path / name).mkdir()
    changes = (
        spark.readStream.schema("id long, n long")
        .option("maxFilesPerTrigger", 1)
        .parquet(f"file://{tmp_path}/changes")
    )
    facts = (
        spark.readStream.schema("id long, part int")
        .option("maxFilesPerTrigger", 1)
        .parquet(f"file://{tmp_path}/facts")
    )
    limits: dict[str, Any] = rng.choice([{}, {"max_runs": 64, "max_run_share": 100}])
    fails = {rng.randrange(FILES - 1)}
    tried: list[int] = []
    seen: list[set[int]] = []

    def change(df: DataFrame, batch: int) -> None:
        tried.append(batch)
        update_store(df, place, rule="sum", batch=batch, **limits).close()
        if batch in fails:
            fails.remove(batch)
            raise RuntimeError("the driver died after this batch was published")

    def look(df: DataFrame, batch: int) -> None:
        seen.append({row.n for row in df.collect()})

    def changing() -> Any:
        return (
            changes.writeStream.foreachBatch(change)
            .option("checkpointLocation", f"file://{tmp_path}/changed")
            .start()
        )

    looking = (
        lookup_join(facts, place, "id", refresh="per_batch")
        .writeStream.foreachBatch(look)
        .option("checkpointLocation", f"file://{tmp_path}/looked")
        .start()
    )
    given: list[pa.Table] = []
    stop = threading.Event()
    killed: list[int] = []

    def kill() -> None:
        for _ in range(2):
            if stop.wait(rng.uniform(0.5, 2)):
                return
            if victims := executors():
                killed.append(rng.choice(victims).pid)
                os.kill(killed[-1], signal.SIGKILL)

    killer = threading.Thread(target=kill)
    query = changing()
    try:
        for number in range(FILES):
            each = rng.randrange(1, 10)
            ids = [*range(KEYS), *range(KEYS)]  # each key twice
            rng.shuffle(ids)
            given.append(pa.table({"id": ids, "n": [each] * len(ids)}))
            put(tmp_path / "changes", f"{number}", given[-1])
            parts = [part % 4 for part in range(KEYS)]
            put(tmp_path / "facts", f"{number}", pa.table({
                "id": range(KEYS), "part": pa.array(parts, pa.int32())}))  # fmt: skip
        killer.start()

        def is_done() -> bool:
            nonlocal query
            if query.exception() is not None:
                assert "the driver died" in str(query.exception())
                query = changing()
            return read_newest(Location(place)).batches.get(query.id, -1) == FILES - 1

        wait_until(is_done, looking)
        put(tmp_path / "facts", "last", pa.table({
            "id": range(KEYS), "part": pa.array([0] * KEYS, pa.int32())}))  # fmt: skip
        wait_until(lambda: len(seen) == FILES + 1, looking)
    finally:
        stop.set()
        killer.join()
        for one in (query, looking):
            one.stop()
    assert killed
    assert len(tried) > FILES  # one came again
    everything = pa.concat_tables(given).group_by("id").aggregate([("n", "sum")])
    with lookupstore.open(place) as store:
        found = dict(zip(*(store.scan().read_all()[name].to_pylist() for name in ("id", "n")),
                         strict=True))  # fmt: skip
        assert found == dict(zip(*(everything[name].to_pylist() for name in ("id", "n_sum")),
                                 strict=True))  # fmt: skip
        assert store.verify().num_rows == KEYS
        assert store.version == FILES + 1
        totals = {0}
        for table in given:
            totals.add(max(totals) + 2 * table["n"][0].as_py())
        assert [len(ns) for ns in seen] == [1] * len(seen)  # each version is whole
        assert [min(ns) for ns in seen] == sorted(min(ns) for ns in seen)
        assert {min(ns) for ns in seen} <= totals
        assert len(read_versions(store.location)) == FILES + 1
    wait_until(lambda: len(executors()) == 2)
