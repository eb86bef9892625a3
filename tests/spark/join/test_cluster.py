"""Joins on executors that are other processes, with stores behind S3: what may go wrong there.

The oracle of every join is Spark SQL on the same rows.
"""

from __future__ import annotations

import os
import random
import shutil
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from pyspark.errors import PythonException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from support.object_store import (
    FOR_WRITES,
    SECRET,
    ObjectStore,
    Proxy,
    Request,
    has_server,
    object_store,
)

import lookupstore
from lookupstore import Location, LookupStore
from lookupstore.hostcache.folder import default_folder
from lookupstore.spark import build_store, explain_join, lookup_join
from lookupstore.spark.join.freshness import SETTLE_SECONDS
from lookupstore.store.version_files import read_newest

pytestmark = [
    pytest.mark.spark,
    pytest.mark.skipif(not has_server(), reason="rclone is not installed"),
    # PySpark 4.0 leaves sockets to the garbage collector.
    pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"),
]

KEYS = 2000
HOWS = ("left", "inner", "anti")
STRATEGIES = ("replicated", "bucketed")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ObjectStore]:
    with pytest.MonkeyPatch.context() as patched:
        for name, value in FOR_WRITES.items():
            patched.setenv(name, value)
        with object_store(tmp_path_factory.mktemp("s3")) as server:
            proxy = Proxy(server)  # it knows more of the protocol
            yield proxy.store
            proxy.close()


@pytest.fixture
def proxy(server: ObjectStore) -> Iterator[Proxy]:
    proxy = Proxy(server)
    yield proxy
    proxy.close()


@pytest.fixture(scope="module")
def facts(spark: SparkSession) -> DataFrame:
    """Return facts in 8 partitions: keys that are there, several times, missing, and null."""
    rng = random.Random(1)
    ids = [rng.choice([None, *range(0, 2 * KEYS, 3)]) for _ in range(3000)]
    rows = [(id, n) for n, id in enumerate(ids)]
    return spark.createDataFrame(rows, "id long, n long").repartition(8).cache()


def rows_of(version: int, size: int = 10) -> pa.Table:
    """Return rows that say their version, with as many bytes per row as are asked for."""
    rng = random.Random(version)
    return pa.table(
        {
            "id": pa.array(range(KEYS), pa.int64()),
            "v": pa.array([version] * KEYS, pa.int64()),
            "text": [rng.randbytes(size // 2).hex() for _ in range(KEYS)],
        }
    )


def put(server: ObjectStore, name: str, version: int, size: int = 10, **options: Any) -> pa.Table:
    """Put the next version of a store into the bucket, without its protocol."""
    table = rows_of(version, size)
    options = {"buckets": 4, "overwrite": True, **options}
    lookupstore.build(table, server.folder / name, key="id", **options).close()
    return table


def place_of(store: ObjectStore, name: str) -> Location:
    return Location(f"bucket/{name}", filesystem=store.filesystem(1))


def counted(joined: DataFrame) -> Counter[Any]:
    return Counter(map(tuple, joined.collect()))


def by_spark(facts: DataFrame, table: pa.Table, how: str = "left") -> Counter[Any]:
    """Return what Spark SQL's join gives."""
    rows = facts.sparkSession.createDataFrame(table.to_pandas())
    return counted(facts.join(rows, "id", how).select(joined_columns(facts, table, how)))


def joined_columns(facts: DataFrame, table: pa.Table, how: str) -> list[str]:
    return facts.columns + ([] if how == "anti" else table.column_names[1:])


def check_joins(
    facts: DataFrame, store: str | LookupStore, table: pa.Table, hows: Sequence[str] = HOWS
) -> None:
    for how in hows:
        expected = by_spark(facts, table, how)
        for strategy in STRATEGIES:
            joined = lookup_join(facts, store, "id", how, strategy=strategy)
            assert counted(joined) == expected, (how, strategy)


def the_error(joined: DataFrame, *kinds: str) -> str:
    """Return the line of the one error of ours that a join ends with."""
    with pytest.raises(PythonException) as caught:
        joined.collect()
    text = str(caught.value)
    assert SECRET not in text
    lines = [
        line for line in text.splitlines() if line.startswith(("lookupstore.errors.", "OSError: "))
    ]
    assert len(lines) == 1, text
    assert lines[0].split(":")[0].rpartition(".")[2] in kinds, lines
    return lines[0]


def test_a_store_is_built_and_published_behind_s3(
    spark: SparkSession, server: ObjectStore, facts: DataFrame, tmp_path: Path
) -> None:
    table = rows_of(1)
    pq.write_table(table, tmp_path / "rows.parquet", row_group_size=500)
    rows = spark.read.parquet(f"file://{tmp_path}/rows.parquet")
    uri = server.uri("built")
    with build_store(rows, uri, key="id", buckets=3) as built:
        assert built.scan().read_all().to_pylist() == table.to_pylist()
        assert built.verify().stray == ()
    published = server.uri("published")
    lookupstore.publish(uri, published).close()
    check_joins(facts, published, table)


def test_a_stream_takes_a_version_that_is_published_behind_s3(
    spark: SparkSession, server: ObjectStore, facts: DataFrame, tmp_path: Path
) -> None:
    tables = {1: put(server, "stream", 1)}
    (tmp_path / "facts").mkdir()
    stream = spark.readStream.schema("id long, n long").parquet(f"file://{tmp_path}/facts")
    found: dict[int, Counter[Any]] = {}

    def collect(rows: DataFrame, batch: int) -> None:
        found[batch] = counted(rows)

    query = (
        lookup_join(stream, server.uri("stream"), "id", refresh="per_batch")
        .writeStream.foreachBatch(collect)
        .option("checkpointLocation", f"file://{tmp_path}/checkpoint")
        .start()
    )
    try:
        for batch, version in enumerate((1, 2)):
            if version not in tables:
                tables[version] = put(server, "stream", version)
            time.sleep(SETTLE_SECONDS + 0.1)
            part = facts.where(F.col("n") % 2 == batch)
            part.coalesce(1).write.parquet(f"file://{tmp_path}/part-{batch}")
            (written,) = (tmp_path / f"part-{batch}").glob("*.parquet")
            written.rename(tmp_path / "facts" / f"{batch}.parquet")
            until = time.monotonic() + 60
            while batch not in found:
                assert query.exception() is None, query.exception()
                assert time.monotonic() < until
                time.sleep(0.05)
            assert found[batch] == by_spark(part, tables[version])
    finally:
        query.stop()


def processes(of: str) -> list[psutil.Process]:
    """Return the executors, or the Python workers, of the cluster that this process started."""
    executors = [
        child
        for child in psutil.Process().children(recursive=True)
        if "CoarseGrainedExecutorBackend" in " ".join(command_of(child))
    ]
    if of == "executors":
        return executors
    daemons = [child for executor in executors for child in executor.children()]
    return [worker for daemon in daemons for worker in daemon.children() if command_of(worker)]


def command_of(process: psutil.Process) -> list[str]:
    try:
        return list(process.cmdline())
    except psutil.Error:  # it has ended
        return []


@contextmanager
def acting(proxy: Proxy, act: Callable[[], None], after: int = 3) -> Iterator[None]:
    """Let something happen as soon as the block has read a little of a store."""
    done = threading.Event()

    def wait_and_act() -> None:
        while len(proxy.gets) < after and not done.wait(0.005):
            pass
        act()

    actor = threading.Thread(target=wait_and_act)
    actor.start()
    try:
        yield
    finally:
        done.set()
        actor.join()


@pytest.mark.few(1)
@pytest.mark.parametrize("killed", ["workers", "executors"])
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_join_whose_processes_are_killed(
    spark: SparkSession,
    server: ObjectStore,
    proxy: Proxy,
    facts: DataFrame,
    killed: str,
    strategy: str,
    seed: int,
) -> None:
    name = f"killed-{killed}-{strategy}"
    table = put(server, name, seed, 400)
    expected = by_spark(facts, table)
    proxy.delay = 0.3
    victims: list[int] = []

    def kill() -> None:
        victims.append(random.Random(seed).choice(processes(killed)).pid)
        os.kill(victims[0], signal.SIGKILL)

    joined = lookup_join(facts, LookupStore(place_of(proxy.store, name)), "id", strategy=strategy)
    with acting(proxy, kill):
        assert counted(joined) == expected
    assert victims
    proxy.delay = 0.0
    assert counted(joined) == expected
    until = time.monotonic() + 30
    while len(processes("executors")) < 2:  # Spark starts another one
        assert time.monotonic() < until
        time.sleep(0.1)


@pytest.fixture
def quota(spark: SparkSession) -> int:
    """Return the most bytes of local copies of the executors."""
    return int(spark.sparkContext.getConf().get("spark.executorEnv.LOOKUPSTORE_CACHE_BYTES", ""))


def used() -> int:
    return sum(path.stat().st_blocks * 512 for path in Path(default_folder()).glob("*.sst"))


def test_a_bucket_larger_than_the_quota_is_one_error(
    quota: int, server: ObjectStore, facts: DataFrame
) -> None:
    put(server, "large", 1, 2 * quota // KEYS, buckets=1)
    line = the_error(lookup_join(facts.coalesce(1), server.uri("large"), "id"), "DiskQuotaError")
    assert f"is {quota} bytes; raise LOOKUPSTORE_CACHE_BYTES" in line


def test_buckets_that_fit_the_quota_one_by_one(
    quota: int, server: ObjectStore, facts: DataFrame
) -> None:
    table = put(server, "tight", 1, 2 * quota // KEYS, buckets=7)
    files = read_newest(Location(server.folder / "tight")).files
    assert max(file.bytes for file in files) < quota < sum(file.bytes for file in files)
    check_joins(facts, server.uri("tight"), table, ["left"])
    assert used() <= quota


@pytest.mark.few(1)
@pytest.mark.parametrize("kind", ["busy", "cut", "stall", "slow"])
def test_an_object_store_that_fails_now_and_then(
    spark: SparkSession, server: ObjectStore, proxy: Proxy, facts: DataFrame, kind: str, seed: int
) -> None:
    rng = random.Random(seed)
    table = put(server, f"faulty-{kind}", rng.randrange(10**9), 400)
    joined = lookup_join(facts, LookupStore(place_of(proxy.store, f"faulty-{kind}")), "id")
    spoiled: list[Request] = []

    def fault(request: Request) -> str:
        if request.size and (len(spoiled) < 1 or rng.random() < 0.1):
            spoiled.append(request)
            return kind
        return "ok"

    proxy.fault = fault
    assert counted(joined) == by_spark(facts, table)
    assert spoiled


@pytest.mark.long
def test_an_object_store_that_is_gone_for_a_while(
    spark: SparkSession, server: ObjectStore, proxy: Proxy, facts: DataFrame, seed: int
) -> None:
    table = put(server, "away", seed)
    facts = facts.coalesce(1)
    store = LookupStore(place_of(proxy.store, "away"))
    # A join that is made again: Spark keeps the failure of a DataFrame.
    joined = [lookup_join(facts, store, "id") for _ in range(2)]
    proxy.fault = lambda request: "busy"
    assert "s3://bucket/away" in the_error(joined[0], "OSError")
    proxy.fault = lambda request: "ok"
    assert counted(joined[1]) == by_spark(facts, table)


def test_a_listing_that_lags_behind(
    spark: SparkSession, server: ObjectStore, proxy: Proxy, facts: DataFrame, seed: int
) -> None:
    """It never gives an older version than the one that was planned on."""
    put(server, "late", seed)
    place = place_of(proxy.store, "late")
    LookupStore(place).close()  # the proxy has seen a listing with version 1
    table = put(server, "late", seed + 1)
    time.sleep(SETTLE_SECONDS + 0.1)
    facts = facts.coalesce(1)
    store = LookupStore(place)
    joined = [lookup_join(facts, store, "id", refresh="per_batch") for _ in range(2)]
    proxy.fault = lambda request: "stale" if "list-type" in request.path else "ok"
    assert LookupStore(place).version == 1
    assert "no version 2" in the_error(joined[0], "StaleStoreError")
    proxy.fault = lambda request: "ok"
    assert counted(joined[1]) == by_spark(facts, table)


def test_a_store_that_is_deleted_under_a_query(
    spark: SparkSession, server: ObjectStore, proxy: Proxy, facts: DataFrame, seed: int
) -> None:
    put(server, "gone", seed, 1000)
    joined = lookup_join(facts.coalesce(1), LookupStore(place_of(proxy.store, "gone")), "id")
    proxy.delay = 0.3
    with acting(proxy, lambda: shutil.rmtree(server.folder / "gone")):
        the_error(joined, "StaleStoreError", "CorruptionError")


def test_of_a_change_workers_fetch_the_runs_only(
    spark: SparkSession, server: ObjectStore, facts: DataFrame, seed: int
) -> None:
    """Executors that have a version fetch for the next one what is new, and say how much."""
    put(server, "delta", seed, 60)
    place = server.uri("delta")

    def joined() -> Counter[Any]:
        return counted(lookup_join(facts, place, "id", refresh="per_batch"))

    assert joined() == by_spark(facts, rows_of(seed, 60))
    before = explain_join(facts, place, "id", refresh="per_batch")
    until = time.monotonic() + 30
    while not before.warm:  # copies are completed in the background
        assert time.monotonic() < until
        time.sleep(0.1)
        before = explain_join(facts, place, "id", refresh="per_batch")
    # Changed in its folder: this process, whose copies executors share, must not fetch the runs.
    keys = random.Random(seed).sample(range(KEYS), 100)
    changes = pa.table({"id": keys, "v": [-1] * 100, "text": ["new"] * 100})
    lookupstore.upsert(server.folder / "delta", changes, max_runs=64, max_run_share=100).close()
    manifest = read_newest(Location(server.folder / "delta"))
    time.sleep(SETTLE_SECONDS + 0.1)
    table = rows_of(seed, 60).filter(pc.invert(pc.is_in(pc.field("id"), changes["id"])))
    assert joined() == by_spark(facts, pa.concat_tables([table, changes]))
    (host,) = explain_join(facts, place, "id", refresh="per_batch").hosts or ()
    assert 0 < host.fetched <= 1.05 * manifest.run_bytes
    assert host.bytes == manifest.bytes


def test_a_compaction_comes_while_the_version_before_answers(
    spark: SparkSession, server: ObjectStore, proxy: Proxy, facts: DataFrame, seed: int
) -> None:
    """No query waits for the files of a compacted version: the rows are the same."""
    for path in Path(default_folder()).glob("*.sst"):
        path.unlink()  # of other tests: without room for both versions, none stands in
    put(server, "compacted", seed, 60)
    keys = random.Random(seed).sample(range(KEYS), 100)
    changes = pa.table({"id": keys, "v": [-1] * 100, "text": ["new"] * 100})
    folder = server.folder / "compacted"
    lookupstore.upsert(folder, changes, max_runs=64, max_run_share=100).close()
    place = place_of(proxy.store, "compacted")
    table = rows_of(seed, 60).filter(pc.invert(pc.is_in(pc.field("id"), changes["id"])))
    expected = by_spark(facts, pa.concat_tables([table, changes]))

    def joined() -> Counter[Any]:
        return counted(lookup_join(facts, LookupStore(place), "id", refresh="per_batch"))

    def wait_until_warm() -> None:
        until = time.monotonic() + 30
        while True:
            assert joined() == expected
            (host,) = explain_join(facts, LookupStore(place), "id").hosts or ()
            manifest = read_newest(Location(folder))
            if (host.files, host.bytes) == (len(manifest.data_files), manifest.bytes):
                return
            assert time.monotonic() < until, host
            time.sleep(0.1)

    time.sleep(SETTLE_SECONDS + 0.1)
    wait_until_warm()
    with LookupStore(folder) as store:
        store.compact().close()
    time.sleep(SETTLE_SECONDS + 0.1)
    new = {file.name for file in read_newest(Location(folder)).data_files}
    asked, gate, late = threading.Event(), threading.Event(), threading.Event()

    def held(request: Request) -> str:
        if any(name in request.path for name in new):
            asked.set()
            if not gate.wait(60):
                late.set()
        return "ok"

    proxy.fault = held
    assert joined() == joined() == expected
    assert not late.is_set(), "a query has waited"
    assert asked.wait(60)
    gate.set()
    wait_until_warm()
