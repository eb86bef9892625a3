"""Lookup joins, compared with Spark SQL's own joins on the same rows."""

from __future__ import annotations

import datetime
import decimal
import functools
import os
import random
import resource
import signal
import time
import uuid
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import MagicMock

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from pyspark import TaskContext
from pyspark.errors import PythonException
from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql import types as sql_types

import lookupstore
from lookupstore.hostcache.folder import default_folder
from lookupstore.keys.joins import HOWS
from lookupstore.spark import lookup_join
from lookupstore.spark.join import plan as spark_plan
from lookupstore.spark.join import task as spark_task
from lookupstore.spark.join import trip as spark_trip
from lookupstore.spark.join import worker
from lookupstore.spark.join.freshness import Freshness
from lookupstore.spark.join.plan import JoinPlan, plan_join
from lookupstore.spark.join.request import LookupJoin
from lookupstore.spark.types import TIME_SETTING, spark_type
from lookupstore.sst import Reader
from lookupstore.sst.reader import reads_of

pytestmark = [
    pytest.mark.spark,
    # PySpark 4.0 leaves sockets to the garbage collector.
    pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"),
]

D = decimal.Decimal
UTC = datetime.timezone.utc
DAY = datetime.date(2024, 2, 29)
NOON = datetime.datetime(2024, 2, 29, 12, 30, 1, 999_999)

# Arrow type, the Spark type that a join gives for it, and some values.
VALUES: list[tuple[pa.DataType, str, list[Any]]] = [
    (pa.null(), "void", []),
    (pa.bool_(), "boolean", [True, False]),
    (pa.int8(), "tinyint", [-128, 127]),
    (pa.int16(), "smallint", [-32768, 5]),
    (pa.int32(), "int", [-(2**31), 2**31 - 1]),
    (pa.int64(), "bigint", [-(2**63), 2**63 - 1]),
    (pa.uint8(), "smallint", [0, 255]),
    (pa.uint16(), "int", [0, 65535]),
    (pa.uint32(), "bigint", [0, 2**32 - 1]),
    (pa.uint64(), "decimal(20,0)", [D(0), D(2**64 - 1)]),
    (pa.float16(), "float", [0.5, -2.0]),
    (pa.float32(), "float", [0.25, float("inf")]),
    (pa.float64(), "double", [0.1, float("nan"), -0.0]),
    (pa.decimal128(12, 3), "decimal(12,3)", [D("-1.125"), D("123456789.001")]),
    (pa.decimal128(5, -2), "decimal(7,0)", [D("1200"), D("-100")]),
    (pa.decimal256(38, 10), "decimal(38,10)", [D("1.0000000001")]),
    (pa.string(), "string", ["", "a\0b", "é"]),
    (pa.large_string(), "string", ["large"]),
    (pa.string_view(), "string", ["a view of more than twelve bytes"]),
    (pa.dictionary(pa.int8(), pa.string()), "string", ["one", "two"]),
    (pa.binary(), "binary", [b"", b"\x00\xff"]),
    (pa.large_binary(), "binary", [b"large"]),
    (pa.binary(3), "binary", [b"abc"]),
    (pa.date32(), "date", [DAY, datetime.date(1, 1, 1)]),
    (pa.date64(), "date", [DAY]),
    (pa.time32("s"), "time(6)", [datetime.time(1, 2, 3)]),
    (pa.time64("us"), "time(6)", [datetime.time(23, 59, 59, 999_999)]),
    (pa.timestamp("s"), "timestamp_ntz", [NOON.replace(microsecond=0)]),
    (pa.timestamp("us"), "timestamp_ntz", [NOON]),
    (pa.timestamp("ns"), "timestamp_ntz", [NOON]),
    (pa.timestamp("ms", "Asia/Tokyo"), "timestamp", [NOON.replace(microsecond=7000, tzinfo=UTC)]),
    (pa.timestamp("ns", "UTC"), "timestamp", [NOON.replace(tzinfo=UTC)]),
    (pa.duration("us"), "interval day to second", [datetime.timedelta(-3, 7, 11)]),
    (pa.duration("s"), "interval day to second", [datetime.timedelta(400)]),
    (pa.list_(pa.int32()), "array<int>", [[], [1, None]]),
    (pa.large_list(pa.uint8()), "array<smallint>", [[255]]),
    (pa.list_(pa.int16(), 2), "array<smallint>", [[1, 2]]),
    (
        pa.struct([("x", pa.uint16()), ("y", pa.list_(pa.dictionary(pa.int8(), pa.string())))]),
        "struct<x:int,y:array<string>>",
        [{"x": 1, "y": ["q", None]}, {"x": None, "y": None}],
    ),
    (pa.map_(pa.string(), pa.list_(pa.float16())), "map<string,array<float>>", [{"k": [0.5]}, {}]),
]


if not hasattr(sql_types, "TimeType"):  # came with Spark 4.1
    VALUES = [value for value in VALUES if not pa.types.is_time(value[0])]
KINDS = [kind for kind, _, _ in VALUES]


@pytest.fixture(params=["arrow_udf", "mapInArrow"])
def transport(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Run a test by both ways through Spark: the newest one's and that of all others."""
    if request.param == "mapInArrow":
        monkeypatch.setattr(spark_trip, "arrow_udf", None)
    elif spark_trip.arrow_udf is None:
        pytest.skip("Arrow UDFs came with Spark 4.1")
    return str(request.param)


def by_column(df: DataFrame) -> dict[str, list[str]]:
    """Return the columns as text, in the order of the first one."""
    rows = sorted(df.collect(), key=lambda row: (row[0], repr(row)))
    return {name: [repr(row[i]) for row in rows] for i, name in enumerate(df.columns)}


def shown(df: DataFrame) -> list[str]:
    """Return the rows in an order of their own, as text, so that NaN equals NaN."""
    return sorted(repr(row) for row in df.collect())


def test_every_value_type_gives_what_spark_sql_gives(
    spark: SparkSession, transport, tmp_path, seed
):
    rng = random.Random(seed)
    names = [f"v{i}" for i in range(len(VALUES))]
    rows = [
        {
            "id": key,
            **{
                name: None if rng.random() < 0.2 or not values else rng.choice(values)
                for name, (_, _, values) in zip(names, VALUES, strict=True)
            },
        }
        for key in range(40)
    ]
    table = pa.table(
        {
            "id": pa.array([row["id"] for row in rows], pa.int64()),
            **{
                name: pa.array([_given(row[name], kind) for row in rows], kind)
                for name, (kind, _, _) in zip(names, VALUES, strict=True)
            },
        }
    )
    store = lookupstore.build(table, tmp_path / "store", key="id", buckets=2)
    ddl = ", ".join(f"{name} {kind}" for name, (_, kind, _) in zip(names, VALUES, strict=True))
    dimension = spark.createDataFrame(
        [tuple(row.values()) for row in rows], f"id bigint, {ddl}", verifySchema=False
    )
    facts = spark.createDataFrame([(rng.randrange(-5, 45),) for _ in range(300)], "id bigint")
    for how in ("left", "inner"):
        joined = lookup_join(facts, store, on="id", how=how)
        assert joined.schema == facts.join(dimension, "id", "left").schema
        expected = by_column(facts.join(dimension, "id", how))
        for (name, found), kind in zip(
            by_column(joined).items(), [pa.int64(), *KINDS], strict=True
        ):
            assert found == expected[name], kind


def _given(value: Any, kind: pa.DataType) -> Any:
    if value is None:
        return None
    if kind == pa.uint64():
        return int(value)
    if kind == pa.float16():
        return np.float16(value)
    if pa.types.is_map(kind):
        return [(key, [np.float16(one) for one in item]) for key, item in value.items()]
    return value


@pytest.mark.few(1)
def test_composite_keys_with_nulls_repeats_and_misses(
    spark: SparkSession, transport, tmp_path, seed
):
    rng = random.Random(seed)
    pairs = {(rng.choice(["eu", "us", None]), rng.randrange(50)) for _ in range(60)}
    dimension = spark.createDataFrame(
        [(region, number, f"{region}{number}") for region, number in pairs],
        "region string, number int, name string",
    )
    table = pa.Table.from_pylist(
        [row.asDict() for row in dimension.collect()],
        pa.schema([("region", pa.string()), ("number", pa.int32()), ("name", pa.string())]),
    )
    store = lookupstore.build(
        table, tmp_path / "store", key=["region", "number"], nullable_keys=["region"], buckets=3
    )
    assert store.get((None, next(n for r, n in pairs if r is None))) is not None
    rows = [
        (i, rng.choice(["eu", "us", "af", None]), rng.choice([None, *range(-1, 50)]))
        for i in range(1000)
    ]
    facts = spark.createDataFrame(rows, "i int, where string, n bigint")
    condition = [facts["where"] == dimension["region"], facts["n"] == dimension["number"]]
    for how in HOWS:
        expected = facts.join(dimension, condition, f"left_{how}" if how in HOWS[2:] else how)
        joined = lookup_join(facts, store.path, on={"n": "number", "where": "region"}, how=how)
        assert joined.columns == [name for name in expected.columns if name not in store.key]
        assert shown(joined) == shown(expected.drop(*store.key))


@pytest.mark.few(3)
@pytest.mark.parametrize(
    ("kind", "keys", "fact_kind", "facts"),
    [
        (pa.int32(), [1, -5, 2**31 - 1], "bigint", [1, -5, 2**31 - 1, 2**31, 2**40 + 1, None]),
        (pa.int64(), [1, 300, -1], "tinyint", [1, -1, 44, None]),
        (pa.uint64(), [0, 2**64 - 1], "decimal(20,0)", [D(0), D(2**64 - 1), D(-1), None]),
        (pa.float64(), [0.0, float("nan"), 1.5], "float", [-0.0, float("nan"), 1.5, 2.0, None]),
        (pa.decimal128(10, 2), [D("1.50")], "decimal(6,3)", [D("1.500"), D("1.501"), None]),
        (pa.string(), ["", "a", "é\0"], "string", ["", "a", "é\0", "A", None]),
        (pa.dictionary(pa.int32(), pa.large_string()), ["a", "b"], "string", ["b", "c", None]),
        (pa.binary(2), [b"ab"], "binary", [b"ab", b"abc", b"a", None]),
        (pa.date32(), [DAY], "date", [DAY, datetime.date(2024, 3, 1), None]),
        (pa.timestamp("s"), [NOON.replace(microsecond=0)], "timestamp_ntz",
         [NOON, NOON.replace(microsecond=0), None]),
        (pa.timestamp("ns", "Asia/Tokyo"), [NOON.replace(tzinfo=UTC)], "timestamp",
         [NOON.replace(tzinfo=UTC), NOON.replace(microsecond=0, tzinfo=UTC), None]),
        (pa.bool_(), [True], "boolean", [True, False, None]),
    ],
    ids=str,
)  # fmt: skip
def test_keys_of_every_kind(spark: SparkSession, tmp_path, kind, keys, fact_kind, facts):
    table = pa.table({"key": pa.array(keys, kind), "value": range(len(keys))})
    store = lookupstore.build(table, tmp_path / "store", key="key")
    sql_kind = spark_type(kind, "key")[0]
    dimension = spark.createDataFrame(
        list(zip(keys if kind != pa.uint64() else map(D, keys), range(len(keys)), strict=True)),
        sql_types.StructType().add("key", sql_kind).add("value", "long"),
    )
    df = spark.createDataFrame([(fact,) for fact in facts], f"fact {fact_kind}")
    expected = df.join(dimension, df["fact"] == dimension["key"], "left").drop("key")
    assert shown(lookup_join(df, store, on={"fact": "key"})) == shown(expected)


@pytest.fixture
def small(tmp_path):
    table = pa.table({"id": range(100), "name": [f"n{i}" for i in range(100)], "found": [1] * 100})
    return lookupstore.build(table, tmp_path / "small", key="id", buckets=2)


def test_columns_prefix_and_names_that_spark_finds_hard(spark: SparkSession, transport, small):
    facts = spark.range(98, 102).selectExpr("id", "'x' AS `a.b`", "1 AS twice", "2 AS twice")
    joined = lookup_join(facts, small, on="id", columns=["found", "name"], prefix="dim.")
    assert joined.columns == ["id", "a.b", "twice", "twice", "dim.found", "dim.name"]
    assert sorted(map(tuple, joined.collect())) == [
        (98, "x", 1, 2, 1, "n98"),
        (99, "x", 1, 2, 1, "n99"),
        (100, "x", 1, 2, None, None),
        (101, "x", 1, 2, None, None),
    ]
    keyed = lookup_join(facts.select("id"), small, on=["id"], columns=[], how="inner")
    assert [row.id for row in keyed.orderBy("id").collect()] == [98, 99]
    assert lookup_join(facts.limit(0).select("id"), small, on="id").count() == 0


SETTINGS = [
    # Of toPandas and createDataFrame: what goes to workers is Arrow in any case.
    ("spark.sql.execution.arrow.pyspark.enabled", "false"),
    ("spark.sql.execution.arrow.maxRecordsPerBatch", "3"),
    ("spark.sql.execution.arrow.maxRecordsPerBatch", "0"),
    ("spark.sql.execution.arrow.useLargeVarTypes", "true"),
    ("spark.sql.codegen.wholeStage", "false"),
    ("spark.sql.adaptive.enabled", "false"),
]


@pytest.mark.few(3)
@pytest.mark.parametrize(("setting", "value"), SETTINGS)
def test_settings_of_spark_change_no_row(
    spark: SparkSession, transport, small, setting: str, value: str
):
    facts = spark.range(0, 300, numPartitions=2).selectExpr("id % 150 AS id", "'x' || id AS fact")
    dimension = spark.createDataFrame(
        [(key, f"n{key}", 1) for key in range(100)], "id long, name string, found long"
    )
    before = spark.conf.get(setting, None)
    spark.conf.set(setting, value)
    try:
        for how, name in zip(HOWS, ("left", "inner", "left_semi", "left_anti"), strict=True):
            expected = facts.join(dimension, "id", name)
            assert shown(lookup_join(facts, small, on="id", how=how)) == shown(expected)
    finally:
        if before is None:
            spark.conf.unset(setting)
        else:
            spark.conf.set(setting, before)


def test_lazy_and_part_of_a_larger_query(spark: SparkSession, transport, small):
    facts = spark.range(1000).withColumn("k", F.col("id") % 150)
    joined = lookup_join(facts, small, on={"k": "id"}, prefix="d_")
    counted = joined.where("d_name IS NOT NULL").groupBy("d_name").count()
    again = lookup_join(joined, small, on={"k": "id"}, prefix="e_")
    assert counted.count() == 100
    assert again.where("d_name <=> e_name").count() == 1000


def patch_worker(monkeypatch: pytest.MonkeyPatch, around: Any) -> None:
    """Let `around(real function, *its arguments)` run in the workers, in place of the function."""
    for name in ("look_up", "goes_on", "joined"):
        monkeypatch.setattr(spark_trip, name, functools.partial(around, getattr(spark_trip, name)))


def test_first_attempt_is_killed(spark: SparkSession, transport, small, monkeypatch):
    def killed(real, *arguments: Any) -> Iterator[Any]:
        context = TaskContext.get()
        for i, batch in enumerate(real(*arguments)):
            if context.attemptNumber() == 0 and context.partitionId() == 1 and i == 2:
                os.kill(os.getpid(), signal.SIGKILL)
            yield batch

    patch_worker(monkeypatch, killed)
    facts = spark.range(0, 1000, numPartitions=2).withColumn("k", F.col("id") % 150)
    rows = lookup_join(facts, small, on={"k": "id"}, columns="name").collect()
    assert sorted(map(tuple, rows)) == [
        (i, i % 150, f"n{i % 150}" if i % 150 < 100 else None) for i in range(1000)
    ]


def test_a_worker_process_opens_the_store_once(
    spark: SparkSession, transport, small, monkeypatch, tmp_path
):
    log = str(tmp_path)

    def counted(real, *arguments: Any) -> Iterator[Any]:
        yield from real(*arguments)
        opened = spark_task.opened_version.cache_info()
        with open(os.path.join(log, f"{os.getpid()}-{uuid.uuid4().hex}"), "w") as file:
            file.write(f"{opened.misses} {opened.hits}")

    before = spark.range(8, numPartitions=8).mapInArrow(_misses(), "pid long, n long").collect()
    held = {row.pid: row.n for row in before}
    patch_worker(monkeypatch, counted)
    for _ in range(3):
        facts = spark.range(0, 400, numPartitions=8)
        assert lookup_join(facts, small, on="id").count() == 400
    counts: dict[int, list[tuple[int, int]]] = {}
    for name in os.listdir(log):
        if name == "small":
            continue
        with open(os.path.join(log, name)) as file:
            misses, hits = map(int, file.read().split())
        counts.setdefault(int(name.split("-")[0]), []).append((misses, hits))
    assert sum(len(tasks) for tasks in counts.values()) == 24
    assert os.getpid() not in counts
    assert len(counts) < 24
    for pid, tasks in counts.items():
        assert max(misses for misses, _ in tasks) - held.get(pid, 0) <= 1


def _misses() -> Any:
    def run(batches):
        for _ in batches:
            yield pa.record_batch(
                {"pid": [os.getpid()], "n": [spark_task.opened_version.cache_info()[1]]}
            )

    return run


def test_a_key_is_looked_up_once_whatever_follows(spark: SparkSession, small, monkeypatch):
    if spark_trip.arrow_udf is None:
        pytest.skip("Arrow UDFs came with Spark 4.1")
    seen = spark.sparkContext.accumulator(0)

    def counted(real, *arguments: Any):
        *arguments, given = arguments

        def passed():
            for keys in given:
                seen.add(len(keys))
                yield keys

        return real(*arguments, passed())

    patch_worker(monkeypatch, counted)
    facts = spark.range(0, 1000, numPartitions=4).withColumn("k", F.col("id") % 150)
    on = {"k": "id"}
    window = Window.partitionBy("name").orderBy("id")
    queries: list[tuple[int, Any]] = [
        (1000, lambda df: df),
        (1000, lambda df: df.select("name", F.upper("name"), "found", F.length("name"))),
        (1000, lambda df: df.where("name > 'n5' AND found = 1").select("id", "name", "found")),
        (1000, lambda df: df.withColumn("rank", F.row_number().over(window)).where("rank < 3")),
        (1000, lambda df: df.where("name IS NULL").groupBy("found").count()),
        # What asks for facts alone goes below the join: fewer keys are looked up.
        (100, lambda df: df.where("id < 100 AND name LIKE 'n%'")),
    ]
    for how in ("left", "inner"):
        for rows, query in queries:
            seen.value = 0
            found = query(lookup_join(facts, small, on, how)).collect()
            assert seen.value == rows, (how, rows)
            joined = facts.join(
                spark.createDataFrame(small.scan().read_all().to_pandas())
                .withColumnRenamed("id", "k"), "k", how,
            ).select("id", "k", "name", "found")  # fmt: skip
            assert sorted(map(str, found)) == sorted(map(str, query(joined).collect()))
    for how in ("semi", "anti"):
        seen.value = 0
        assert lookup_join(facts, small, on, how).where("id < 300 AND k % 2 = 0").count() == (
            100 if how == "semi" else 50
        )
        assert seen.value == 150


@pytest.mark.few(1)
def test_both_strategies_give_the_same_rows(spark: SparkSession, transport, small, seed):
    rng = random.Random(seed)
    rows = [(i, rng.choice([None, *range(-10, 150)]), {"m": i}) for i in range(3000)]
    facts = spark.createDataFrame(rows, "n int, k int, extra map<string,int>")
    for how in HOWS:
        moved = lookup_join(facts, small, {"k": "id"}, how, strategy="bucketed")
        stayed = lookup_join(facts, small, {"k": "id"}, how, strategy="replicated")
        assert moved.columns == stayed.columns
        assert shown(moved) == shown(stayed)
    with_task = lookup_join(facts, small, {"k": "id"}, strategy="bucketed").select(
        "k", "name", F.spark_partition_id().alias("task")
    )
    tasks: dict[int, set[int]] = {}
    nulls = set()
    for row in with_task.collect():
        if row.k is None:
            nulls.add(row.task)
        else:
            tasks.setdefault(row.task, set()).add(row.k)
    if not hasattr(facts, "repartitionById"):
        return  # both buckets may meet in one task
    assert len(tasks) == len(nulls) == 2
    assert not set.intersection(*tasks.values())
    held = {tuple(sorted(k for k in keys if 0 <= k < 100)) for keys in tasks.values()}
    stored = {
        tuple(Reader(path).scan().__next__().column("key").to_pylist())
        for path in Path(small.path, "data").glob("*.sst")
    }
    assert {
        tuple(small.key_schema.decode(pa.array(keys, pa.large_binary())).column(0).to_pylist())
        for keys in stored
    } == held


def test_auto_takes_the_strategy_of_the_size(spark: SparkSession, small, tmp_path, monkeypatch):
    facts = spark.range(5)

    def planned(store: lookupstore.LookupStore) -> JoinPlan:
        return plan_join(spark, facts.schema, store, LookupJoin(store, "id"))

    assert planned(small).strategy == "replicated"
    monkeypatch.setattr(spark_plan, "REPLICATED_BYTES", 100)
    plan = planned(small)
    assert plan.strategy == "bucketed"
    assert plan.reason.endswith("bytes, more than 100, in 2 buckets")
    one = lookupstore.build(pa.table({"id": range(100)}), tmp_path / "one", key="id")
    assert planned(one).strategy == "replicated"
    with pytest.raises(ValueError, match="one bucket; build it with buckets="):
        lookup_join(facts, one, "id", strategy="bucketed")
    with pytest.raises(ValueError, match="strategy is 'broadcast'; give one of 'auto'"):
        lookup_join(facts, one, "id", strategy="broadcast")


def test_a_join_finishes_on_the_version_that_it_was_planned_on(spark: SparkSession, small):
    joined = lookup_join(spark.range(2), small, on="id")
    table = pa.table({"id": [1], "name": ["new"], "found": [2]})
    new = lookupstore.build(table, small.path, key="id", overwrite=True)
    assert sorted(map(tuple, joined.collect())) == [(0, "n0", 1), (1, "n1", 1)]
    again = lookup_join(spark.range(2), new, on="id")
    assert sorted(map(tuple, again.collect()), key=str) == [(0, None, None), (1, "new", 2)]
    later = lookup_join(spark.range(2), small.path, on="id")
    assert sorted(map(tuple, later.collect()), key=str) == [(0, None, None), (1, "new", 2)]


def test_a_version_that_is_gone_is_stale(spark: SparkSession, small):
    joined = lookup_join(spark.range(10), small, on="id")
    table = pa.table({"id": [1], "name": ["new"], "found": [2]})
    lookupstore.build(table, small.path, key="id", overwrite=True, retain=0).close()
    # What docs/how-to/spark-missing-keys-and-errors.md says to look for.
    line = r"(?m)^lookupstore\.errors\.StaleStoreError: .*no version 1; .*call lookup_join"
    with pytest.raises(PythonException, match=line):
        joined.collect()


def test_damage_is_found_in_the_text_of_what_spark_raises(spark: SparkSession, small, tmp_path):
    for path in Path(small.path, "data").iterdir():
        data = bytearray(path.read_bytes())
        data[20] ^= 0xFF
        path.write_bytes(data)
    line = r"(?m)^lookupstore\.errors\.CorruptionError: .*\.sst: offset \d+: expected "
    with pytest.raises(PythonException, match=line):
        lookup_join(spark.range(10), small, on="id").collect()
    with pytest.raises(PythonException, match=line):
        lookup_join(spark.range(10), small, on="id").write.parquet(f"file://{tmp_path}/written")


@pytest.mark.skipif(not hasattr(sql_types, "TimeType"), reason="times came with Spark 4.1")
@pytest.mark.parametrize(
    ("kind", "column"),
    [
        (pa.time64("us"), "t"),
        (pa.time32("s"), "t"),
        (pa.list_(pa.time64("ns")), "t.element"),
        (pa.struct([("a", pa.time64("us"))]), "t.a"),
        (pa.map_(pa.string(), pa.time64("us")), "t.value"),
    ],
    ids=str,
)
def test_times_where_the_session_has_them_off(spark: SparkSession, tmp_path, kind, column):
    table = pa.table({"id": [1], "n": [5], "t": pa.array([None], kind)})
    store = lookupstore.build(table, tmp_path / "store", key="id")
    assert lookup_join(spark.range(3), store, on="id", prefix="p_").count() == 3
    spark.conf.set(TIME_SETTING, "false")
    try:
        with pytest.raises(TypeError, match=f"column '{column}' .* times off; set {TIME_SETTING}"):
            lookup_join(spark.range(3), store, on="id")
        assert lookup_join(spark.range(3), store, on="id", columns="n").count() == 3
        assert lookup_join(spark.range(3), store, on="id", how="semi").count() == 1
    finally:
        spark.conf.set(TIME_SETTING, "true")


@pytest.mark.few(1)
@pytest.mark.parametrize(
    ("names", "how"),
    [
        (("LEFT", "left_outer", "leftouter"), "left"),
        (("Inner",), "inner"),
        (("left_semi", "leftsemi", "LEFT_SEMI", "Semi"), "semi"),
        (("left_anti", "leftAnti", "ANTI"), "anti"),
    ],
)
def test_spark_names_of_joins(spark: SparkSession, small, names, how):
    facts = spark.range(98, 102)
    key = spark.range(100)
    expected = lookup_join(facts, small, on="id", how=how)
    for name in names:
        joined = lookup_join(facts, small, on="id", how=name)
        assert joined.schema == expected.schema
        assert shown(joined) == shown(expected)
        assert joined.count() == facts.join(key, "id", name).count()


def test_arguments_of_another_kind(spark: SparkSession, small):
    facts = spark.range(3).withColumn("k", F.col("id"))
    pandas = facts.toPandas()
    for df in (pandas, pa.table({"id": [1]}), [(1,)]):
        name = f"{type(df).__module__}.{type(df).__name__}"
        with pytest.raises(TypeError, match=f"^df is a {name}; give a Spark DataFrame .*$"):
            lookup_join(df, small, on="id")
    for store in ({"a": 1}, None, pandas):
        kind = type(store).__name__
        right = (
            "a LookupStore, ColumnarFiles, a HudiTable, a TableLookup, or a table of deltalake or "
            "pyiceberg, or a path or location"
        )
        with pytest.raises(TypeError, match=f"^store is a {kind}; give {right}$"):
            lookup_join(facts, store, on="id")
    for on in (facts.k == facts.id, [facts.k], {"k": facts.id}):
        with pytest.raises(TypeError, match=r"^on: found a Column; give names .*{'fact': 'key'}$"):
            lookup_join(facts, small, on=on)
    for on in (None, 3, [3]):
        with pytest.raises(TypeError, match=r"^on: found a (NoneType|int); give names"):
            lookup_join(facts, small, on=on)
    with pytest.raises(ValueError, match=r"^how is 'right_outer'; give one of 'left', 'inner', "):
        lookup_join(facts, small, on="id", how="right_outer")


def test_parts_of_microseconds_are_an_error(spark: SparkSession, tmp_path):
    table = pa.table({"id": [1], "at": pa.array([1001], pa.timestamp("ns"))})
    store = lookupstore.build(table, tmp_path / "store", key="id")
    with pytest.raises(
        Exception, match=r"column 'at' of the store is timestamp\[ns\], and Spark cannot"
    ):
        lookup_join(spark.range(3), store, on="id").collect()


def test_errors_when_planned(spark: SparkSession, small, tmp_path):
    facts = spark.range(3).selectExpr(
        "id", "cast(id AS string) AS text", "1 AS NAME", "current_date() AS day",
        "named_struct('at', named_struct('id', id)) AS deep",
    )  # fmt: skip
    cases: list[tuple[type[Exception], str, dict[str, Any]]] = [
        (KeyError, r"facts have no column 'nope'; they have \['id', 'text', 'NAME', 'day', 'd",
         {"on": "nope"}),
        (KeyError, r"no key column 'text'; its key is \['id'\].*give a dict", {"on": "text"}),
        (KeyError, "no fact column for the key column 'id'", {"on": {}}),
        (ValueError, "key column 'id' is given twice", {"on": {"id": "id", "NAME": "id"}}),
        (TypeError, "column 'text' is string, .* 'id' of the store is int64; cast .* to bigint",
         {"on": {"text": "id"}}),
        (ValueError, r"both have the columns \['name'\] \(in the facts \['NAME'\]; letter case is "
         r"ignored\); give a prefix=", {"on": "id"}),
        (ValueError, "give another prefix=", {"on": "id", "columns": "found", "prefix": "id"[:0]}),
        (KeyError, r"no value column 'nope'; value columns: \['name', 'found'\]",
         {"on": "id", "columns": ["nope"]}),
        (ValueError, "columns names 'found' twice", {"on": "id", "columns": ["found", "found"]}),
        (ValueError, "how is 'outer'; give one of 'left', 'inner', 'semi', 'anti'",
         {"on": "id", "how": "outer"}),
        (ValueError, "semi joins add no columns", {"on": "id", "how": "semi", "prefix": "x"}),
        (TypeError, "found is True; give the name of the column", {"on": "id", "found": True}),
        (TypeError, "prefix is 5; give a text that goes before", {"on": "id", "prefix": 5}),
        (TypeError, "^columns: found a dict; give a list of names of value columns, and rename",
         {"on": "id", "columns": {"found": "known"}}),
        (KeyError, r"on: 'deep.at.id' is a field of the fact column 'deep'; add .* such as "
         r"df.withColumn\('deep_at_id', F.col\('deep.at.id'\)\)", {"on": {"deep.at.id": "id"}}),
        (KeyError, "facts have no column 'deep.at.x'", {"on": {"deep.at.x": "id"}}),
        (KeyError, "facts have no column 'text.id'", {"on": {"text.id": "id"}}),
        (TypeError, "column 'deep' is struct<.*, the key .* is int64; cast the fact column$",
         {"on": {"deep": "id"}}),
        (TypeError, "column 'day' is date, the key .* is int64; cast the fact column$",
         {"on": {"day": "id"}}),
    ]  # fmt: skip
    taken = facts.withColumn("found", F.lit(1))
    for kind, message, arguments in cases:
        with pytest.raises(kind, match=message):
            lookup_join(taken if "another" in message else facts, small, **arguments)
    twice = spark.range(1).selectExpr("id", "id")
    with pytest.raises(ValueError, match="more than one column 'id'"):
        lookup_join(twice, small, on="id")
    with pytest.raises(FileNotFoundError, match="no such store folder"):
        lookup_join(facts, tmp_path / "nope", on="id")
    remedy = (
        r"one; if it is a table of Spark's catalog, build a store from "
        r"spark.table\('shop.users'\); if it is an Iceberg table, pass "
        "'iceberg:CATALOG.NAMESPACE.TABLE'$"
    )
    with pytest.raises(FileNotFoundError, match=remedy):
        lookup_join(facts, "shop.users", on="id")
    with pytest.raises(FileNotFoundError, match=r"lookupstore\.build makes one$"):
        lookup_join(facts, str(tmp_path / "users"), on="id")
    wide = pa.table({"id": [1], "d": pa.array([1], pa.decimal256(60, 0))})
    with pytest.raises(
        TypeError, match=r"'d' of the store is decimal256\(60, 0\), for which Spark"
    ):
        lookup_join(spark.range(1), lookupstore.build(wide, tmp_path / "wide", key="id"), on="id")


def test_batches_are_looked_up_together(monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    """Few calls, whose answers come batch by batch; wide answers are of fewer keys."""
    rng = random.Random(seed)
    sizes = [rng.choice([0, 1, 700, 10_000]) for _ in range(300)]
    numbers = iter(range(10**9))
    batches = [pa.array([next(numbers) for _ in range(size)], pa.int64()) for size in sizes]
    for width in (1, 2000):
        calls: list[int] = []

        def answered(*asked: Any, width: int = width, calls: list[int] = calls) -> Any:
            _, _, keys, moment, count = asked
            assert (moment, count) == (None, len(keys[0]))
            calls.append(len(keys[0]))
            found = pa.array([key % 3 != 0 for key in keys[0].to_pylist()], pa.bool_())
            return found, [keys[0], pa.repeat("x" * width, len(keys[0]))]

        monkeypatch.setattr(worker, "Task", lambda lookup: nullcontext())
        monkeypatch.setattr(worker, "answers_to", answered)
        lookup: Any = SimpleNamespace(freshness=Freshness())
        step = worker.Step(lookup, (0,), "inner", False)
        found = list(worker.look_up([step], iter(batches)))
        assert [len(answers) for answers in found] == sizes
        for keys, answers in zip(batches, found, strict=True):
            expected = [None if key % 3 == 0 else key for key in keys.to_pylist()]
            assert pc.struct_field(answers, "c0").to_pylist() == expected
        most = min(worker.CALL_KEYS, worker.CALL_BYTES // width)
        assert max(calls) < most + 10_000
        assert len(calls) < sum(sizes) / most + 10


@pytest.mark.parametrize(
    ("limit", "remedy"),
    [
        (512 << 20, r"at most 536\.9 MB\); leave spark\.executor\.pyspark\.memory unset"),
        (resource.RLIM_INFINITY, r"raise spark\.executor\.memoryOverhead$"),
    ],
)
def test_too_little_memory_of_a_worker_has_a_remedy(
    monkeypatch: pytest.MonkeyPatch, limit: int, remedy: str
) -> None:
    task = MagicMock()
    task.name = "/users: version 3"
    monkeypatch.setattr(worker, "Task", lambda lookup: task)
    monkeypatch.setattr(worker, "answers_to", MagicMock(side_effect=MemoryError))
    monkeypatch.setattr(resource, "getrlimit", lambda kind: (limit, limit))
    lookup: Any = SimpleNamespace(freshness=Freshness())
    step = worker.Step(lookup, (0,), "inner", False)
    said = f"^/users: version 3: too little memory to look up 3 keys.*{remedy}"
    with pytest.raises(MemoryError, match=said):
        list(worker.look_up([step], iter([pa.array([1, 2, 3])])))


def test_hosts_prepare_a_store_once(spark: SparkSession, tmp_path: Path) -> None:
    """The first Python worker makes the table of places, and all of the host use it."""
    rows = 200_000
    table = pa.table({"id": range(rows), "name": [f"name {i}" for i in range(rows)]})
    lookupstore.build(table, tmp_path / "store", key="id", compression="none").close()
    an_hour_ago = time.time() - 3600
    for file in (tmp_path / "store" / "data").iterdir():
        os.utime(file, (an_hour_ago, an_hour_ago))
    before = set(Path(default_folder()).glob("*.sst"))
    facts = spark.range(rows - 50, rows + 50, 1, 8)
    joined = lookup_join(facts, tmp_path / "store", on="id", warm=True).collect()
    assert {row.id: row.name for row in joined} == {
        id: f"name {id}" if id < rows else None for id in range(rows - 50, rows + 50)
    }
    (made,) = set(Path(default_folder()).glob("*.sst")) - before
    assert made.stat().st_size > 8 * rows
    with lookupstore.open(tmp_path / "store") as store:
        assert store.warm()
        assert store._files.with_reader(0, lambda one: reads_of(one).blocks_read) == 0


def test_what_cannot_be_prepared(spark: SparkSession, small: Any, tmp_path: Path) -> None:
    facts = spark.range(98, 102)
    with pytest.raises(ValueError, match=r"warm is for strategy='replicated'"):
        lookup_join(facts, small, on="id", warm=True, strategy="bucketed")
    pq.write_table(pa.table({"id": [98], "name": ["n"]}), tmp_path / "one.parquet")
    with pytest.raises(ValueError, match=r"warm is for stores; leave it out"):
        lookup_join(facts, tmp_path / "one.parquet", on="id", warm=True)
