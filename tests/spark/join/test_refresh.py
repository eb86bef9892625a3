"""Versions that change under queries and streams, and keys that are missing."""

from __future__ import annotations

import logging
import random
import shutil
import threading
import time
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, cast

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.errors import PythonException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

import lookupstore
from lookupstore.errors import FormatError, StaleStoreError
from lookupstore.hudi import HudiTable, TableLookup
from lookupstore.spark import LookupMetrics, lookup_join
from lookupstore.spark.join import freshness
from lookupstore.spark.join import trip as spark_trip
from lookupstore.spark.join.freshness import SETTLE_SECONDS, ChosenVersion, Freshness
from lookupstore.spark.join.task import Task
from lookupstore.storage.location import Location

pytestmark = [
    pytest.mark.spark,
    # PySpark 4.0 leaves sockets to the garbage collector.
    pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"),
]


@pytest.fixture(params=["arrow_udf", "mapInArrow"])
def transport(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Run a test by both ways through Spark."""
    if request.param == "mapInArrow":
        monkeypatch.setattr(spark_trip, "arrow_udf", None)
    elif spark_trip.arrow_udf is None:
        pytest.skip("Arrow UDFs came with Spark 4.1")
    return str(request.param)


def publish(path: Path, version: int, keys: int = 100) -> lookupstore.LookupStore:
    """Publish a version whose rows say its number."""
    table = pa.table({"id": range(keys), "v": [version] * keys})
    store = lookupstore.build(table, path, key="id", buckets=2, overwrite=True)
    assert store.version == version
    return store


def hudi_table(path: Path) -> HudiTable:
    """Make a Hudi table whose rows say how many commits there were when they were written."""
    rows = pa.table({"id": range(100), "v": [1] * 100})
    table = HudiTable.create(path, rows, record_key="id")
    table.insert(rows)
    return table


def settle() -> None:
    """Wait until the newest version answers."""
    time.sleep(SETTLE_SECONDS + 0.1)


def versions_of(joined: DataFrame) -> set[Any]:
    return {row.v for row in joined.select("v").distinct().collect()}


@pytest.mark.few(1)
def test_a_query_takes_the_newest_version_when_it_runs(
    spark: SparkSession, transport: str, tmp_path: Path
) -> None:
    publish(tmp_path / "s", 1).close()
    settle()
    facts = spark.range(0, 100, numPartitions=8)
    metrics = LookupMetrics(spark)
    joins = {
        "per_batch": lookup_join(facts, tmp_path / "s", "id", refresh="per_batch", metrics=metrics),
        "never": lookup_join(facts, tmp_path / "s", "id"),
        "daily": lookup_join(facts, tmp_path / "s", "id", refresh=timedelta(days=1)),
    }
    for version in (1, 2, 3):
        if version > 1:
            publish(tmp_path / "s", version).close()
            settle()
        expected = {"per_batch": version, "never": 1, "daily": 1}
        assert {name: versions_of(join) for name, join in joins.items()} == {
            name: {number} for name, number in expected.items()
        }
    assert metrics.counts.rows == metrics.counts.hits == 300
    assert 1 <= metrics.counts.refreshes <= metrics.counts.tasks


@pytest.mark.few(1)
def test_tasks_of_one_query_never_mix_versions(
    spark: SparkSession, transport: str, tmp_path: Path
) -> None:
    publish(tmp_path / "s", 1).close()
    settle()
    stop = threading.Event()

    def publish_on() -> None:
        version = 2
        while not stop.is_set():
            publish(tmp_path / "s", version).close()
            version += 1

    publisher = threading.Thread(target=publish_on)
    publisher.start()
    try:
        facts = spark.range(0, 4000, numPartitions=8).withColumn("id", F.col("id") % 100)
        joined = lookup_join(facts, tmp_path / "s", "id", refresh="per_batch")
        seen = []
        for _ in range(6):
            found = versions_of(joined)
            assert len(found) == 1
            seen += found
    finally:
        stop.set()
        publisher.join()
    assert seen == sorted(seen)
    assert len(set(seen)) > 1


def wait_until(done: Callable[[], bool], query: Any) -> None:
    for _ in range(600):
        if done():
            return
        assert query.exception() is None, query.exception()
        time.sleep(0.1)
    raise AssertionError("the stream came to nothing")


@pytest.mark.few(1)
def test_a_stream_takes_new_versions_batch_by_batch(
    spark: SparkSession, transport: str, tmp_path: Path, seed: int
) -> None:
    rng = random.Random(seed)
    publish(tmp_path / "s", 1).close()
    (tmp_path / "facts").mkdir()
    stream = spark.readStream.schema("id long, n long").parquet(f"file://{tmp_path}/facts")
    sides = {"per_batch": {}, "never": {}}  # type: dict[str, dict[int, list[Any]]]

    def collect(rows: DataFrame, batch: int, side: str) -> None:
        sides[side][batch] = rows.collect()

    newest = lookup_join(stream, tmp_path / "s", "id")
    with pytest.warns(UserWarning, match=r"the stream joins .*/s at version 1, as long as it runs"):
        planned = lookup_join(stream, tmp_path / "s", "id", refresh="never")
    queries = [
        joined.writeStream.foreachBatch(lambda rows, batch, side=side: collect(rows, batch, side))
        .option("checkpointLocation", f"file://{tmp_path}/checkpoint-{side}")
        .start()
        for side, joined in zip(sides, (newest, planned), strict=True)
    ]
    try:
        given: list[list[int]] = []
        for version in (1, 2, 3):
            if version > 1:
                publish(tmp_path / "s", version, keys=100 + version).close()
            settle()
            ids = [rng.randrange(110) for _ in range(50)]
            given.append(ids)
            table = pa.table({"id": ids, "n": range(50)})
            pq.write_table(table, tmp_path / "facts" / f".{version}")
            (tmp_path / "facts" / f".{version}").rename(tmp_path / "facts" / f"{version}.parquet")
            for refresh, query in zip(sides, queries, strict=True):
                wait_until(lambda r=refresh, v=version: len(sides[r]) == v, query)
    finally:
        for query in queries:
            query.stop()
    for i, ids in enumerate(given):
        for refresh, version, keys in (
            ("per_batch", i + 1, 100 + (i + 1 if i else 0)),
            ("never", 1, 100),
        ):
            rows = sorted(sides[refresh][i], key=lambda row: row.n)
            assert [row.v for row in rows] == [version if id < keys else None for id in ids]


def test_a_version_that_is_too_old_raises(
    spark: SparkSession, transport: str, tmp_path: Path
) -> None:
    publish(tmp_path / "s", 1).close()
    facts = spark.range(10)
    fresh = lookup_join(facts, tmp_path / "s", "id", max_staleness="1h")
    assert versions_of(fresh) == {1}
    settle()
    for refresh in ("never", "per_batch"):
        stale = lookup_join(facts, tmp_path / "s", "id", refresh=refresh, max_staleness=0.5)
        with pytest.raises(PythonException, match=r"StaleStoreError: .*version 1 was published"):
            stale.collect()


def test_a_newer_version_of_other_columns_is_an_error(spark: SparkSession, tmp_path: Path) -> None:
    publish(tmp_path / "s", 1).close()
    joined = lookup_join(spark.range(10), tmp_path / "s", "id", refresh="per_batch")
    lookupstore.build(
        pa.table({"id": range(3), "w": range(3)}), tmp_path / "s", key="id", overwrite=True
    ).close()
    settle()
    with pytest.raises(PythonException, match=r"StaleStoreError: .*version 2 lacks .*'v'"):
        joined.collect()


def test_a_newer_version_of_other_types_is_an_error(spark: SparkSession, tmp_path: Path) -> None:
    """Texts that are numbers are not read as numbers either; a wider number is one."""
    publish(tmp_path / "s", 1).close()
    wider = lookup_join(spark.range(3), tmp_path / "s", "id", refresh="per_batch")
    rows = pa.table({"id": range(3), "v": pa.array([1, 2, 3], pa.int32())})
    lookupstore.build(rows, tmp_path / "s", key="id", overwrite=True).close()
    settle()
    assert versions_of(wider) == {1, 2, 3}
    joined = lookup_join(spark.range(3), tmp_path / "s", "id", refresh="per_batch")
    rows = pa.table({"id": range(3), "v": ["1", "2", "3"]})
    lookupstore.build(rows, tmp_path / "s", key="id", overwrite=True).close()
    settle()
    with pytest.raises(PythonException, match=r"version 3 has string in the column 'v', .* again"):
        joined.collect()


@pytest.mark.few(1)
def test_misses_are_dropped_marked_or_raise(
    spark: SparkSession, transport: str, tmp_path: Path
) -> None:
    store = publish(tmp_path / "s", 1)
    facts = spark.createDataFrame([(98,), (99,), (100,), (None,)], "id long")

    def rows(**asked: Any) -> list[tuple[Any, ...]]:
        return sorted(map(tuple, lookup_join(facts, store, "id", **asked).collect()), key=str)

    assert rows(on_miss="drop") == [(98, 1), (99, 1)]
    marked = [(100, None, False), (98, 1, True), (99, 1, True), (None, None, False)]
    assert rows(found="known") == marked
    assert rows(found="known", columns=[]) == [(one, known) for one, _, known in marked]
    assert rows(found="known", how="inner") == marked[1:3]
    with pytest.raises(
        PythonException,
        match=r"MissingKeyError: .* has no rows for 1 of \d+ keys, such as \{'id': 100\}",
    ):
        rows(on_miss="raise")
    with pytest.raises(PythonException, match=r"MissingKeyError"):
        rows(on_miss="raise", columns=[])
    known = facts.where("id < 100 OR id IS NULL")
    assert lookup_join(known, store, "id", on_miss="raise").count() == 3


@pytest.mark.few(1)
def test_a_stream_writes_its_misses_to_the_side(
    spark: SparkSession, transport: str, tmp_path: Path, seed: int
) -> None:
    """Versions have more and more keys: a fact is a miss of the batch that it came in."""
    rng = random.Random(seed)
    publish(tmp_path / "s", 1, keys=50).close()
    (tmp_path / "facts").mkdir()
    arriving = spark.readStream.schema("id long, n long").parquet(f"file://{tmp_path}/facts")
    metrics = LookupMetrics(spark)
    joined = lookup_join(
        arriving, tmp_path / "s", "id", found="known", refresh="per_batch", metrics=metrics
    )
    written: list[int] = []

    def write(rows: DataFrame, batch: int) -> None:
        marked = rows.persist()
        for name, wanted in (("hits", "known"), ("misses", "NOT known")):
            part = marked.where(wanted).drop("known")
            part.write.mode("overwrite").parquet(f"file://{tmp_path}/{name}/batch={batch}")
        marked.unpersist()
        written.append(batch)

    query = (
        joined.writeStream.foreachBatch(write)
        .option("checkpointLocation", f"file://{tmp_path}/checkpoint")
        .start()
    )
    expected: dict[str, list[tuple[Any, ...]]] = {"hits": [], "misses": []}
    try:
        for batch, keys in enumerate((50, 80)):
            if batch:
                publish(tmp_path / "s", 2, keys=keys).close()
            settle()
            ids = [rng.choice([None, *range(100)]) for _ in range(60)]
            table = pa.table({"id": pa.array(ids, pa.int64()), "n": range(60)})
            pq.write_table(table, tmp_path / "facts" / f".{batch}")
            (tmp_path / "facts" / f".{batch}").rename(tmp_path / "facts" / f"{batch}.parquet")
            wait_until(lambda batch=batch: batch in written, query)  # type: ignore[misc]
            for n, key in enumerate(ids):
                hit = key is not None and key < keys
                row = (key, n, batch + 1 if hit else None, batch)
                expected["hits" if hit else "misses"].append(row)
    finally:
        query.stop()
    for name, rows in expected.items():
        found = spark.read.parquet(f"file://{tmp_path}/{name}").select("id", "n", "v", "batch")
        assert sorted(map(tuple, found.collect()), key=lambda row: row[1:2] + row[3:]) == sorted(
            rows, key=lambda row: row[1:2] + row[3:]
        )
    assert metrics.counts.rows == 120, "a key is looked up once for both tables"
    assert metrics.counts.misses == len(expected["misses"])


def test_misses_are_looked_up_again_in_newer_versions(
    spark: SparkSession, transport: str, tmp_path: Path
) -> None:
    publish(tmp_path / "s", 1).close()
    answered = tmp_path / "answered"

    def noted(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            answered.touch()
            yield batch

    def publish_after_the_first_answer() -> None:
        while not answered.exists():
            time.sleep(0.05)
        time.sleep(2)
        publish(tmp_path / "s", 2, keys=120).close()

    facts = spark.range(0, 120, numPartitions=2)
    metrics = LookupMetrics(spark)
    joined = lookup_join(
        facts, tmp_path / "s", "id", on_miss=("retry", 40, 0.5), metrics=metrics, found="known"
    )
    publisher = threading.Thread(target=publish_after_the_first_answer, daemon=True)
    publisher.start()
    # The first half of the rows has no misses, and is answered while the others are asked again.
    noting = joined.mapInArrow(noted, joined.schema)
    rows = {row.id: row for row in noting.collect()}
    publisher.join()
    assert {id: (row.v, row.known) for id, row in rows.items()} == {
        id: (1 if id < 100 else 2, True) for id in range(120)
    }
    assert metrics.counts.refreshes >= 2
    assert metrics.counts.misses == 0
    given_up = lookup_join(spark.range(119, 122), tmp_path / "s", "id", on_miss=("retry", 2, 0.01))
    assert sorted(map(tuple, given_up.collect()), key=str) == [(119, 2), (120, None), (121, None)]


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"refresh": "sometimes"}, "refresh is 'sometimes'; give 'never', 'per_batch', or a"),
        ({"refresh": 0}, "refresh is 0; give"),
        ({"refresh": -1.5}, r"refresh is -1\.5; give"),
        ({"max_staleness": "old"}, "max_staleness is 'old'; give a number of seconds"),
        ({"on_miss": "explode"}, "on_miss is 'explode'; give 'null', 'drop', 'raise' or"),
        ({"on_miss": ("retry", 0, 1)}, "on_miss is .*'retry', attempts, delay"),
        (
            {"on_miss": "raise", "how": "semi"},
            "on_miss is 'raise', which is for left and inner joins",
        ),
        (
            {"found": "known", "how": "anti"},
            "found is 'known'; anti joins add no columns: leave",
        ),
        ({"found": "id"}, "found='id': the facts have a column 'id'; give another name"),
    ],
)
def test_arguments_that_are_wrong(
    spark: SparkSession, tmp_path: Path, asked: dict[str, Any], message: str
) -> None:
    store = publish(tmp_path / "s", 1)
    with pytest.raises(ValueError, match=message):
        lookup_join(spark.range(1), store, "id", **asked)


def test_a_storage_that_does_not_answer_leaves_the_version_that_was_seen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    stores = [publish(tmp_path / "s", version) for version in (1, 2)]
    location = Location(tmp_path / "s")
    first, second = (ChosenVersion(store.version, store.id) for store in stores)
    moment = stores[1].created.timestamp() + SETTLE_SECONDS
    fresh = Freshness(every=0)
    assert fresh.version_at(location, first, moment - 0.01)[:2] == first[:2]
    found = fresh.version_at(location, first, moment + 5)
    assert found == (*second[:2], True, False)
    assert fresh.version_at(location, first, moment + 5) == second  # not asked again

    def down(location: Location) -> None:
        raise OSError("503 Slow Down")

    monkeypatch.setattr(freshness, "list_names", down)
    with caplog.at_level(logging.WARNING):
        assert fresh.version_at(location, first, moment + 6) == (*second[:2], False, True)
    assert "could not check for a newer version: 503 Slow Down" in caplog.text
    with pytest.raises(StaleStoreError, match="max_staleness is 0:00:03"):
        Freshness(every=0, max_staleness=3).version_at(location, first, moment + 6)
    # A listing that lags behind takes nothing back, and neither does one that is empty.
    for listed in ([], [freshness.VersionName(*first[:2])]):
        monkeypatch.setattr(freshness, "list_names", lambda location, listed=listed: listed)
        assert fresh.version_at(location, first, moment + 7 + len(listed))[:2] == second[:2]


@pytest.mark.parametrize("every", [0, 1000])
def test_a_store_that_is_deleted_and_built_again_does_not_answer_with_old_rows(
    tmp_path: Path, every: int
) -> None:
    """Numbers of versions begin again, and workers have the files of the old ones open."""
    old = [publish(tmp_path / "s", version) for version in (1, 2, 3)]
    location, fresh = Location(tmp_path / "s"), Freshness(every=every)
    planned = [ChosenVersion(store.version, store.id) for store in old]
    moment = old[-1].created.timestamp() + 2000
    for each in planned:
        assert fresh.version_at(location, each, moment)[:2] == planned[-1][:2]
    shutil.rmtree(tmp_path / "s")
    store = publish(tmp_path / "s", 1)
    new = ChosenVersion(store.version, store.id)
    for later in (moment + 1, moment + 2, moment + 3000):
        assert fresh.version_at(location, new, later)[:2] == new[:2]
        for each in planned:
            with pytest.raises(StaleStoreError, match=r"deleted and built again.*call lookup_join"):
                fresh.version_at(location, each, later)
    # An expired version has newer ones beside it.
    publish(tmp_path / "s", 2)
    newest = publish(tmp_path / "s", 3)
    lookupstore.expire(tmp_path / "s", retain=0)
    found = fresh.version_at(location, new, moment + 9000)
    assert found[:2] == (3, newest.id)


def test_an_interval_takes_the_version_at_its_last_multiple(tmp_path: Path) -> None:
    stores = [publish(tmp_path / "s", version) for version in (1, 2)]
    first = ChosenVersion(stores[0].version, stores[0].id)
    fresh = Freshness(every=100)
    settled = stores[1].created.timestamp() + SETTLE_SECONDS
    following = settled - settled % 100 + 100
    location = Location(tmp_path / "s")
    assert fresh.version_at(location, first, settled).number == 1
    assert fresh.version_at(location, first, following - 0.1).number == 1
    assert fresh.version_at(location, first, following).number == 2


def test_a_hudi_table_answers_with_the_newest_commit(
    spark: SparkSession, transport: str, tmp_path: Path
) -> None:
    """As a store does: all tasks of a query see the same commit."""
    table = hudi_table(tmp_path / "t")
    facts = spark.range(0, 100, numPartitions=4)
    joins = {
        refresh: lookup_join(facts, tmp_path / "t", "id", refresh=refresh)
        for refresh in ("never", "per_batch")
    }
    assert {name: versions_of(one) for name, one in joins.items()} == {
        "never": {1}, "per_batch": {1},
    }  # fmt: skip
    table.upsert(pa.table({"id": range(100), "v": [2] * 100}))
    table.delete([7])
    settle()
    assert versions_of(joins["never"]) == {1}
    assert versions_of(joins["per_batch"]) == {2, None}
    planned_later = lookup_join(facts, HudiTable.open(tmp_path / "t"), "id", refresh=3600)
    assert versions_of(planned_later) == {2, None}, "never an older one than was planned on"


def test_a_commit_of_a_hudi_table_that_is_too_old_raises(
    spark: SparkSession, tmp_path: Path
) -> None:
    hudi_table(tmp_path / "t")
    rows = pa.table({"id": range(100), "v": [1] * 100})
    old = HudiTable.create(tmp_path / "old", rows, record_key="id", version=6)
    old.insert(rows)
    facts = spark.range(0, 100, numPartitions=2)
    for path, refreshes in ((tmp_path / "t", ("never", "per_batch")), (old, ("never",))):
        for refresh in refreshes:
            fresh = lookup_join(facts, path, "id", refresh=refresh, max_staleness="1h")
            assert versions_of(fresh) == {1}
            stale = lookup_join(facts, path, "id", refresh=refresh, max_staleness=0)
            said = r"StaleStoreError: .*newest commit was made .*max_staleness is 0:00:00; commit"
            with pytest.raises(PythonException, match=said):
                stale.collect()
    empty = HudiTable.create(tmp_path / "empty", rows, record_key="id")
    early = lookup_join(facts, empty, "id", refresh="per_batch", max_staleness="1d")
    with pytest.raises(PythonException, match=r"no commit with a time, .* leave out max_staleness"):
        early.collect()


def test_missing_keys_are_looked_up_again_in_the_newest_commit(
    spark: SparkSession, tmp_path: Path
) -> None:
    table = hudi_table(tmp_path / "t")
    facts = spark.range(0, 121, numPartitions=2)
    again = lookup_join(facts, tmp_path / "t", "id", on_miss=("retry", 2, 0.01))
    table.upsert(pa.table({"id": range(90, 120), "v": [2] * 30}))
    rows = {row.id: row.v for row in again.collect()}
    # Keys that were found have the rows of the commit that the join was planned on.
    found = {id: 1 for id in range(100)} | {id: 2 for id in range(100, 120)} | {120: None}
    changed = found | {id: 2 for id in range(90, 100)}
    assert rows in (found, changed)
    assert rows[120] is None


def test_what_a_hudi_table_cannot_be_asked(spark: SparkSession, tmp_path: Path) -> None:
    table = hudi_table(tmp_path / "t")
    facts = spark.range(3)
    fixed = TableLookup(tmp_path / "t", as_of=table.timeline()[-1])
    with pytest.raises(ValueError, match="opened with as_of, and so never change"):
        lookup_join(facts, fixed, "id", refresh="per_batch")
    rows = pa.table({"id": [1], "v": [1]})
    old = HudiTable.create(tmp_path / "old", rows, record_key="id", version=6)
    with pytest.raises(FormatError, match="version 6 do not say when they were completed"):
        lookup_join(facts, old, "id", refresh="per_batch")
    (tmp_path / "arriving").mkdir()
    stream = spark.readStream.schema("id long").parquet(f"file://{tmp_path}/arriving")
    remedies = {fixed: "open it without as_of", old: "call lookup_join in foreachBatch"}
    for given, remedy in remedies.items():
        with pytest.warns(UserWarning, match=f"at one commit, .*; to join newer rows, {remedy}$"):
            lookup_join(stream, given, "id")


class FollowedTable:
    """A Hudi table for lookups, whose storage answers while there are `commits`."""

    path = "table"

    def __init__(self, position: str, commits: list[str]) -> None:
        self.position, self.commits = position, commits

    def position_at(self, moment: datetime) -> str:
        if not self.commits:
            raise OSError("no answer")
        return self.commits.pop(0)

    def at(self, position: str) -> FollowedTable:
        return FollowedTable(position, [])


def test_commits_of_a_table_do_not_go_back_when_the_storage_does_not_answer() -> None:
    """A task goes on with the newest commit of its process, not with that of the plan."""
    planned: Any = FollowedTable("planned", [])

    def position(moment: float) -> str:
        found: Any = Task(cast(Any, None))._table_at(planned, moment)
        return str(found.position)

    assert position(1000.0) == "planned"
    planned.commits[:] = ["second", "third"]
    assert position(1100.0) == "second"
    assert position(1200.0) == "third"
    assert position(1300.0) == "third"
    assert position(1150.0) == "planned"  # a query that began before the third
