"""Joins that follow Delta, Iceberg and Paimon tables: every query sees the rows of one commit."""

from __future__ import annotations

import random
import threading
import time
import warnings
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PythonException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

import lookupstore
from lookupstore.columnar import ColumnarFiles
from lookupstore.hostcache import stats
from lookupstore.hostcache.folder import default_folder
from lookupstore.hudi import HudiTable, TableLookup
from lookupstore.spark import LookupMetrics, explain_join, lookup_join
from lookupstore.spark.join.plan import plan_join
from lookupstore.spark.join.request import LookupJoin
from lookupstore.spark.join.task import Task

pytest.importorskip("deltalake")
pytest.importorskip("pyiceberg")
pytest.importorskip("fastavro")
import deltalake
import pyarrow as pa
import pyarrow.parquet as pq
from support.changing_tables import CHANGES, DeltaChanges, PaimonChanges

pytestmark = [
    pytest.mark.spark,
    pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"),
]

KEYS = 100
SETTLE = {"delta": 2.1, "iceberg": 5.1, "paimon": 1.1}


@pytest.fixture(params=sorted(CHANGES))
def format_name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def table(format_name: str, tmp_path: Path) -> Any:
    return CHANGES[format_name](tmp_path)


def random_rows(chance: random.Random, commit: int) -> dict[int, int]:
    """Return rows that say their commit, of some of the keys."""
    keys = chance.sample(range(KEYS), chance.randint(1, KEYS))
    return {key: 1000 * commit + key for key in keys}


def rows_of(joined: DataFrame) -> dict[int, int | None]:
    return {row.id: row.v for row in joined.collect()}


def wait_until(done: Any, query: Any) -> None:
    for _ in range(600):
        if done():
            return
        assert query.exception() is None, query.exception()
        time.sleep(0.1)
    raise AssertionError("the stream came to nothing")


@pytest.mark.few(1)
def test_each_micro_batch_has_the_rows_of_the_newest_commit(
    spark: SparkSession, table: Any, format_name: str, tmp_path: Path, seed: int
) -> None:
    chance = random.Random(seed)
    rows = random_rows(chance, 1)
    table.commit(rows)
    (tmp_path / "facts").mkdir()
    stream = spark.readStream.schema("id long, n long").parquet(f"file://{tmp_path}/facts")
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # a stream that joins one commit for ever would warn
        joined = lookup_join(stream, table.given, "id")
    batches: dict[int, list[Any]] = {}

    def collect(found: DataFrame, batch: int) -> None:
        batches[batch] = found.collect()

    query = (
        joined.writeStream.foreachBatch(collect)
        .option("checkpointLocation", f"file://{tmp_path}/checkpoint")
        .start()
    )
    try:
        for commit in (1, 2, 3):
            if commit > 1:
                rows = random_rows(chance, commit)
                table.commit(rows)
            time.sleep(SETTLE[format_name])
            ids = [chance.randrange(KEYS + 10) for _ in range(50)]
            facts = pa.table({"id": ids, "n": range(50)})
            pq.write_table(facts, tmp_path / "facts" / f".{commit}")
            (tmp_path / "facts" / f".{commit}").rename(tmp_path / "facts" / f"{commit}.parquet")
            wait_until(lambda commit=commit: len(batches) == commit, query)
            found = sorted(batches[commit - 1], key=lambda row: row.n)
            assert [row.v for row in found] == [rows.get(key) for key in ids]
    finally:
        query.stop()


@pytest.mark.few(1)
def test_tasks_of_one_query_never_mix_commits(
    spark: SparkSession, table: Any, format_name: str, tmp_path: Path
) -> None:
    if format_name == "iceberg":
        pytest.skip("its commits are used after five seconds: the stream above is enough")
    table.commit(dict.fromkeys(range(KEYS), 1))
    time.sleep(SETTLE[format_name])
    stop = threading.Event()

    def commit_on() -> None:
        commit = 2
        while not stop.is_set():
            table.commit(dict.fromkeys(range(KEYS), commit))
            commit += 1

    facts = spark.range(0, 4000, numPartitions=8).withColumn("id", F.col("id") % KEYS)
    joined = lookup_join(facts, table.given, "id", refresh="per_batch")
    committer = threading.Thread(target=commit_on)
    committer.start()
    try:
        seen = []
        for _ in range(6):
            found = {row.v for row in joined.select("v").distinct().collect()}
            assert len(found) == 1
            seen += found
    finally:
        stop.set()
        committer.join()
    assert seen == sorted(seen)
    assert len(set(seen)) > 1


@pytest.fixture
def paimon(tmp_path: Path) -> PaimonChanges:
    """Return a table whose commits have any times."""
    return PaimonChanges(tmp_path)


def test_a_commit_is_chosen_by_the_moment_of_the_query(
    spark: SparkSession, paimon: PaimonChanges
) -> None:
    """Whenever and wherever a task runs; `refresh=60` rounds the moment down."""
    for at in range(4):
        paimon.commit({1: at}, 1000 + 50 * at)
        if at == 0:
            planned = ColumnarFiles(paimon.given, key="id")

    def answer(refresh: Any, moment: float, **asked: Any) -> int:
        join = LookupJoin(planned, "id", refresh=refresh, **asked)
        schema = spark.range(1).schema
        plan = plan_join(spark, schema, planned, join)
        with Task(plan.lookup) as task:
            return int(task.dimension_at(moment).get(1)["v"])

    moments = (900, 1050.9, 1051, 1100.99, 1101, 1151, 9000)
    assert [answer("per_batch", one) for one in moments] == [0, 0, 1, 1, 2, 3, 3]
    assert [answer(60, one) for one in (1079.9, 1080, 1139.9, 1140, 1199, 1200)] == [
        0, 1, 1, 2, 2, 3,
    ]  # fmt: skip
    assert answer("per_batch", 1101, max_staleness=1) == 2
    with pytest.raises(lookupstore.StaleStoreError, match="newest commit was made 0:00:02 before"):
        answer("per_batch", 1102, max_staleness=1)
    with pytest.raises(lookupstore.StaleStoreError, match=r"made 0:00:20 .*; commit to the table"):
        answer(None, 1020, max_staleness="10s")


def test_an_explanation_has_the_time_of_the_commit(spark: SparkSession, table: Any) -> None:
    table.commit({1: 10})
    time_of, _ = table.latest()
    said = explain_join(spark.range(3), table.given, "id")
    created = datetime.fromisoformat(said.created or "")
    assert created.timestamp() == pytest.approx(time_of, abs=0.01)
    assert said.age == pytest.approx(time.time() - time_of, abs=60)
    assert " ago" in str(said)


def test_a_commit_that_is_too_old_raises(spark: SparkSession, table: Any) -> None:
    table.commit({1: 1})
    facts = spark.range(3)
    for refresh in ("never", "per_batch"):
        fresh = lookup_join(facts, table.given, "id", refresh=refresh, max_staleness="1h")
        assert rows_of(fresh) == {0: None, 1: 1, 2: None}
        stale = lookup_join(facts, table.given, "id", refresh=refresh, max_staleness=0)
        with pytest.raises(PythonException, match=r"StaleStoreError: .*max_staleness is 0:00:00"):
            stale.collect()


def test_missing_keys_are_looked_up_again_in_the_newest_commit(
    spark: SparkSession, table: Any
) -> None:
    table.commit({1: 1})
    metrics = LookupMetrics(spark)
    joined = lookup_join(
        spark.range(4), table.given, "id", on_miss=("retry", 2, 0.01), metrics=metrics
    )
    table.commit({1: 10, 2: 20})
    # Keys that were found have the rows of the commit that the join was planned on.
    found = rows_of(joined)
    assert found.pop(1) in (1, 10)  # tasks that retried go on with the newest
    assert found == {0: None, 2: 20, 3: None}
    assert metrics.counts.refreshes >= 1


def counted(spark: SparkSession, dimension: Any) -> stats.QueryStats:
    """Return the statistics of a task with a dimension, which this process runs."""
    schema = spark.range(1).schema
    plan = plan_join(spark, schema, dimension, LookupJoin(dimension, "id"))
    with Task(plan.lookup) as task:
        task.dimension_at(None).get(1)
    return stats.read(default_folder(), 1)[0]


def test_statistics_have_the_version_of_the_table(spark: SparkSession, table: Any) -> None:
    for commit in (1, 2):
        table.commit({1: commit})
        with ColumnarFiles(table.given, key="id") as files:
            assert counted(spark, files).version == files.version == table.latest()[1]


def test_statistics_have_the_commit_of_a_hudi_table(spark: SparkSession, tmp_path: Path) -> None:
    rows = pa.table({"id": [1], "v": [1]})
    table = HudiTable.create(tmp_path / "t", rows, record_key="id")
    commit = table.insert(rows).instant
    with TableLookup(tmp_path / "t") as lookup:
        assert counted(spark, lookup).version == int(commit.position)


def test_statistics_name_dimensions_alike_in_every_folder(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = pa.table({"id": [1], "v": [1]})
    pq.write_table(rows, tmp_path / "f.parquet")
    deltalake.write_deltalake(tmp_path / "t", rows)
    monkeypatch.chdir(tmp_path)
    for given in ("t", "f.parquet", "*.parquet", f"file://{tmp_path}/t"):
        with ColumnarFiles(given, key="id") as files:
            told = counted(spark, files)
        assert told.store == str(tmp_path / given.rpartition("/")[2])
        assert told.version == (None if given.endswith(".parquet") else 0)
    with ColumnarFiles(deltalake.DeltaTable("t"), key="id") as opened:
        assert counted(spark, opened).store == opened.path == "Delta table at version 0"


def test_a_table_at_one_version_never_changes(spark: SparkSession, tmp_path: Path) -> None:
    table = DeltaChanges(tmp_path)
    table.commit({1: 1})
    table.commit({1: 2})
    fixed = ColumnarFiles(table.given, key="id", version=0)
    facts = spark.range(1, 2)
    assert rows_of(lookup_join(facts, fixed, "id")) == {1: 1}
    with pytest.raises(ValueError, match="was opened with version, and so never changes; pass"):
        lookup_join(facts, fixed, "id", refresh="per_batch")
    with pytest.raises(ValueError, match="was opened with version, and so never changes"):
        lookup_join(facts, fixed, "id", on_miss=("retry", 1, 0.1))
    (tmp_path / "arriving").mkdir()
    stream = spark.readStream.schema("id long").parquet(f"file://{tmp_path}/arriving")
    with pytest.warns(UserWarning, match="as long as it runs; .* open it without version and as_o"):
        lookup_join(stream, fixed, "id")
    with pytest.warns(UserWarning, match=r"as long as it runs; .* leave refresh out"):
        lookup_join(stream, table.given, "id", refresh="never")


def test_a_table_that_is_read_in_other_columns_is_an_error(
    spark: SparkSession, tmp_path: Path
) -> None:
    table = DeltaChanges(tmp_path)
    table.commit({1: 1})
    joined = lookup_join(spark.range(3), table.given, "id", refresh="per_batch")
    other = pa.table({"id": [1], "w": [1]})
    deltalake.write_deltalake(table.given, other, mode="overwrite", schema_mode="overwrite")
    time.sleep(SETTLE["delta"])
    with pytest.raises(PythonException, match=r"StaleStoreError: .*no column 'v'.*look up again"):
        joined.collect()


def test_the_newest_partition_is_looked_at_again(spark: SparkSession, tmp_path: Path) -> None:
    path = str(tmp_path / "t")

    def write(day: int) -> None:
        rows = pa.table({"id": [1, day], "day": [day, day]})
        deltalake.write_deltalake(path, rows, mode="append", partition_by=["day"])

    write(8)
    prices = ColumnarFiles(path, key="id", latest_partition="day")
    joined = lookup_join(spark.range(1, 2), prices, "id", refresh="per_batch")
    assert [row.day for row in joined.collect()] == [8]
    write(9)
    time.sleep(SETTLE["delta"])
    again = lookup_join(spark.range(1, 2), prices, "id", refresh="per_batch")
    assert [row.day for row in again.collect()] == [9]
