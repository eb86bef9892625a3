"""The data source, compared with Spark SQL's own filters and rows."""

from __future__ import annotations

import datetime
import decimal
import functools
import inspect
import json
import os
import random
import shutil
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark import TaskContext
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql import types as sql
from support.object_store import (
    BUCKET,
    SECRET,
    Proxy,
    deltalake_names,
    has_server,
    object_store,
    writable_object_store,
)

import lookupstore
from lookupstore.builder import bucket_count
from lookupstore.errors import DuplicateKeyError
from lookupstore.hudi import HudiTable
from lookupstore.spark import build_store, lookup_join, register
from lookupstore.spark import session as any_session
from lookupstore.spark.types import arrow_schema

datasource = pytest.importorskip("pyspark.sql.datasource", reason="came with Spark 4.0")

from lookupstore.spark.format import sink  # noqa: E402
from lookupstore.spark.format.options import WRITE_OPTIONS  # noqa: E402
from lookupstore.spark.format.source import StoreSource  # noqa: E402
from lookupstore.spark.options import SCANS_ARE_SEPARATE  # noqa: E402

PUSHES = hasattr(datasource, "EqualTo")  # since Spark 4.1
needs_pushdown = pytest.mark.skipif(not PUSHES, reason="filters are pushed down since Spark 4.1")

pytestmark = [
    pytest.mark.spark,
    # PySpark 4.0 leaves sockets to the garbage collector.
    pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"),
]

PROFILE = os.environ.get("LOOKUPSTORE_TEST_PROFILE", "default")

D = decimal.Decimal
UTC = datetime.timezone.utc
NAN, INF = float("nan"), float("inf")
NOON = datetime.datetime(2024, 2, 29, 12, 30, 1, 999_999)
PAST = datetime.datetime(1900, 1, 1, 0, 0, 0, 1)


def days(*shifts: int) -> list[datetime.date]:
    return [datetime.date(2024, 2, 29) + datetime.timedelta(shift) for shift in shifts]


def zoned(*values: datetime.datetime) -> list[datetime.datetime]:
    return [value.replace(tzinfo=UTC) for value in values]


# Type of the key column, Spark's type for it, values that are stored, and some that are not.
KEYS: list[tuple[pa.DataType, str, list[Any], list[Any]]] = [
    (pa.bool_(), "boolean", [True, False], []),
    (pa.int8(), "tinyint", [-128, -1, 0, 5, 127], [3]),
    (pa.int16(), "smallint", [-32768, 0, 7, 32767], [-5]),
    (pa.int32(), "int", [-(2**31), -9, 0, 9, 2**31 - 1], [10]),
    (pa.int64(), "bigint", [-(2**63), -9, 0, 9, 2**63 - 1], [8]),
    (pa.uint8(), "smallint", [0, 1, 254, 255], [-1, 256, 7]),
    (pa.uint16(), "int", [0, 1, 65535], [-1, 65536, 7]),
    (pa.uint32(), "bigint", [0, 1, 2**32 - 1], [-1, 2**32, 7]),
    (pa.uint64(), "decimal(20,0)", [D(0), D(1), D(2**64 - 1)], [D(-1), D(2**64), D(7)]),
    (pa.float16(), "float", [-INF, -2.0, 0.0, 0.5, INF, NAN], [-0.0, 0.1, 1e30]),
    (pa.float32(), "float", [-INF, -2.5, 0.0, 0.25, INF, NAN], [-0.0, 1.5]),
    (pa.float64(), "double", [-INF, -2.5, 0.0, 0.1, 1e300, INF, NAN], [-0.0, 0.2]),
    (pa.decimal128(12, 3), "decimal(12,3)", [D("-1.125"), D("0.000"), D("9.001")], [D("1.100")]),
    (pa.decimal128(5, -2), "decimal(7,0)", [D("-1200"), D("0"), D("99900")], [D("50"), D("1201")]),
    (pa.decimal256(38, 10), "decimal(38,10)", [D("-7.0000000001"), D("1.0000000001")], [D("1")]),
    (pa.string(), "string", ["", "a", "a\0b", "ab", "b", "é", "\U0001f600"], ["A", "ac"]),
    (pa.large_string(), "string", ["large", "larger", "lb"], ["larg", ""]),
    (pa.dictionary(pa.int8(), pa.string()), "string", ["one", "two", "twofold"], ["t"]),
    (pa.binary(), "binary", [b"", b"\x00", b"a", b"a\xff", b"\xff"], [b"b"]),
    (pa.binary(2), "binary", [b"\x00\x00", b"ab", b"a\xff", b"\xff\xff"], [b"a", b"abc", b""]),
    (pa.date32(), "date", days(-90_000, 0, 1, 90_000), days(2)),
    (pa.date64(), "date", days(-90_000, 0, 1), days(2)),
    (pa.timestamp("s"), "timestamp_ntz", [t.replace(microsecond=0) for t in (PAST, NOON)], [NOON]),
    (pa.timestamp("us"), "timestamp_ntz", [PAST, NOON], [NOON.replace(microsecond=0)]),
    (pa.timestamp("ns"), "timestamp_ntz", [PAST, NOON], [NOON.replace(microsecond=0)]),
    (
        pa.timestamp("ms", "Asia/Tokyo"),
        "timestamp",
        zoned(PAST.replace(microsecond=0), NOON.replace(microsecond=7000)),
        zoned(NOON),
    ),
    (
        pa.timestamp("us", "UTC"),
        "timestamp",
        zoned(PAST, NOON),
        zoned(NOON.replace(year=2023, day=1)),
    ),
    (
        pa.duration("us"),
        "interval day to second",
        [datetime.timedelta(-3, 7, 11), datetime.timedelta(0)],
        [datetime.timedelta(1)],
    ),
]
if hasattr(sql, "TimeType"):  # came with Spark 4.1
    times = [datetime.time(1, 2, 3), datetime.time(23, 59, 59)]
    KEYS.append((pa.time32("s"), "time(6)", times, [datetime.time(5)]))


def literal(value: Any, kind: str) -> Column:
    if isinstance(value, datetime.datetime):
        return F.lit(str(value)).cast(kind)
    return F.lit(value).cast(kind)


def conditions(name: str, kind: str, values: list[Any]) -> list[Column]:
    """Return filters of every kind that Spark pushes, and some that it does not."""
    column = F.col(name)
    text = kind == "string"
    found = [column.isNull(), column.isNotNull(), column.eqNullSafe(F.lit(None).cast(kind))]
    for value in values:
        right = literal(value, kind)
        found += [column == right, column.eqNullSafe(right), column != right]
        found += [column < right, column <= right, column > right, column >= right]
        if text:
            found += [column.startswith(value), column.contains(value), column.endswith(value)]
    lists = [[literal(value, kind) for value in values[i : i + 3]] for i in range(len(values))]
    found += [column.isin(some) for some in lists]
    found += [column.isin([*some, F.lit(None).cast(kind)]) for some in lists[:2]]
    found += [~column.isin(some) for some in lists[:1]]
    found += [column.between(low, high) for low, high in zip(lists[0], lists[-1], strict=False)]
    return found


def key_column(values: list[Any], arrow: pa.DataType) -> pa.Array:
    """Return values as they are in Spark in the type of a store."""
    if pa.types.is_dictionary(arrow):
        return pa.array(values, arrow.value_type).dictionary_encode()
    if pa.types.is_decimal(arrow) and arrow.scale < 0:
        return pa.array(values, pa.decimal128(7, 0)).cast(arrow)
    if arrow == pa.uint64():
        return pa.array([None if value is None else int(value) for value in values], arrow)
    return pa.array(values, arrow)


def load(spark: SparkSession, path: Path, **options: Any) -> DataFrame:
    return spark.read.format("lookupstore").options(**options).load(os.fspath(path))


def tagged(parts: list[DataFrame]) -> dict[int, list[str]]:
    """Return the rows of many DataFrames by their place, in one job."""
    # Rows of a part come in any order, so they are sorted as text: NaN is not equal to itself.
    rows = functools.reduce(
        DataFrame.union, [part.select(F.lit(i).alias("part"), "*") for i, part in enumerate(parts)]
    ).collect()
    found: dict[int, list[str]] = {i: [] for i in range(len(parts))}
    for row in rows:
        found[row.part].append(repr(tuple(row)[1:]))
    return {i: sorted(texts) for i, texts in found.items()}


def scanned(df: DataFrame) -> int:
    """Return how many rows the scan of a query gave to Spark; runs the query."""
    plan = df._jdf.queryExecution().executedPlan()
    df._jdf.collectToPython()
    leaves = plan.collectLeaves()
    return sum(
        leaves.apply(i).metrics().apply("numOutputRows").value() for i in range(leaves.size())
    )


def left_over(path: Path) -> list[str]:
    """Return the names of what a failed write left beside or in a store's folder."""
    return sorted(one.relative_to(path).as_posix() for one in path.rglob("*"))


def left_in_the_end(path: Path, expected: list[str]) -> list[str]:
    """Return the same when tasks that Spark has not stopped yet have ended, too."""
    end = time.monotonic() + 60
    while (found := left_over(path)) != expected and time.monotonic() < end:
        time.sleep(0.1)
    return found


def data_files(path: Path) -> set[str]:
    return {file.name for file in (path / "data").iterdir()}


@pytest.mark.few(6)
@needs_pushdown
@pytest.mark.parametrize("kind", KEYS, ids=lambda kind: str(kind[0]).replace(" ", ""))
def test_every_filter_on_every_key_type_gives_what_spark_gives(
    spark: SparkSession, tmp_path, seed, kind
) -> None:
    arrow, name, stored, absent = kind
    rng = random.Random(seed)
    values = [*stored, None]
    rows = pa.table({"k": key_column(values, arrow), "v": range(len(values))})
    lookupstore.build(rows, tmp_path / "one", key="k", nullable_keys="k", buckets=3).close()
    schema = f"k {name}, v bigint"
    own = spark.createDataFrame(list(zip(values, range(len(values)), strict=True)), schema)
    found = conditions("k", name, rng.sample([*stored, *absent], min(3, len([*stored, *absent]))))
    # Each load costs two processes of Python; what is left out here is in the test of all kinds.
    some = rng.sample(range(len(found)), len(found) if PROFILE == "thorough" else 6)
    pushed = [load(spark, tmp_path / "one", pushdown=True).where(found[i]) for i in some]
    expected = tagged([own.where(found[i]) for i in some])
    got = tagged(pushed)
    for place, i in enumerate(some):
        assert got[place] == expected[place], found[i]


def rank(value: Any) -> tuple[bool, Any]:
    """Return what sorts as Spark sorts: NaN behind all numbers and equal to itself."""
    is_nan = isinstance(value, float) and value != value
    return is_nan, 0 if is_nan else value


def holds(one: Any, row: dict[str, Any]) -> bool:
    """Say whether a filter is true for a row, as Spark's documentation of it says."""
    kind = type(one).__name__
    value = row[one.attribute[0]]
    if kind == "IsNull":
        return value is None
    if kind == "IsNotNull":
        return value is not None
    if kind == "EqualNullSafe" and (value is None or one.value is None):
        return value is None and one.value is None
    if value is None:
        return False
    if kind == "In":
        return any(other is not None and rank(value) == rank(other) for other in one.value)
    if kind == "StringStartsWith":
        return bool(value.startswith(one.value))
    if isinstance(value, str):
        value, right = value.encode(), one.value.encode()
    else:
        right = one.value
    compared: dict[str, Callable[[Any, Any], bool]] = {
        "EqualTo": lambda a, b: a == b,
        "EqualNullSafe": lambda a, b: a == b,
        "GreaterThan": lambda a, b: a > b,
        "GreaterThanOrEqual": lambda a, b: a >= b,
        "LessThan": lambda a, b: a < b,
        "LessThanOrEqual": lambda a, b: a <= b,
    }
    return compared[kind](rank(value), rank(right))


def random_filter(rng: random.Random, name: str, values: list[Any]) -> Any:
    kinds = ["EqualTo", "EqualNullSafe", "GreaterThan", "GreaterThanOrEqual", "LessThan"]
    kinds += ["LessThanOrEqual", "In", "IsNull", "IsNotNull", "EqualTo"]
    if isinstance(values[0], str):
        kinds.append("StringStartsWith")
    kind = rng.choice(kinds)
    make = getattr(datasource, kind)
    if kind in ("IsNull", "IsNotNull"):
        return make((name,))
    if kind == "In":
        return make((name,), rng.choices([*values, None], k=rng.randint(1, 4)))
    value = rng.choice(values)
    if kind == "StringStartsWith":
        value = value[: rng.randint(0, 2)]
    if kind == "EqualNullSafe" and rng.random() < 0.2:
        value = None
    return make((name,), value)


@pytest.mark.few(6)
@needs_pushdown
@pytest.mark.parametrize("kind", KEYS, ids=lambda kind: str(kind[0]).replace(" ", ""))
def test_filters_on_keys_of_several_fields_leave_the_right_rows(tmp_path, seed, kind) -> None:
    arrow, _, stored, absent = kind
    rng = random.Random(seed)
    order = rng.sample(["s", "k", "n"], 3)
    rows = [
        {"s": s, "k": k, "n": n}
        for s in ("", "a", "a\0", "ab", None)
        for k in [*stored, None]
        for n in (1, 2, 255)
        if rng.random() < 0.8
    ]
    table = pa.table(
        {
            "s": pa.array([row["s"] for row in rows]),
            "k": key_column([row["k"] for row in rows], arrow),
            "n": pa.array([row["n"] for row in rows], pa.uint8()),
        }
    )
    path = tmp_path / "store"
    lookupstore.build(table, path, key=order, nullable_keys=["s", "k"], buckets=3).close()
    choices = {"s": ["", "a", "a\0", "ab", "b"], "k": [*stored, *absent], "n": [0, 1, 2, 256]}
    for _ in range(400 if PROFILE == "thorough" else 40):
        filters = [
            random_filter(rng, name, choices[name])
            for name in rng.choices(order, [4, 3, 2], k=rng.randint(1, 4))
        ]
        source = StoreSource({"path": os.fspath(path), "pushdown": "true"})
        reader = source.reader(source.schema())
        rest = reader.pushFilters(filters)
        read = [
            row
            for partition in reader.partitions()
            for batch in reader.read(partition)
            for row in batch.to_pylist()
        ]
        assert all(any(one is other for other in filters) for one in rest)
        shown = sorted(shown_row(row) for row in read if all(holds(one, row) for one in rest))
        wanted = [
            {name: row[name] for name in order}
            for row in rows
            if all(holds(one, row) for one in filters)
        ]
        assert shown == sorted(shown_row(row) for row in wanted), filters


def shown_row(row: dict[str, Any]) -> str:
    """Return a row as text, in which NaN equals NaN, and UTC has one name."""
    return repr(
        {
            name: value.astimezone(UTC) if getattr(value, "tzinfo", None) else value
            for name, value in row.items()
        }
    )


@needs_pushdown
def test_filters_that_contradict_each_other_leave_nothing(tmp_path) -> None:
    rows = pa.table({"k": [None, 1, 2], "n": [1, 1, 1]})
    lookupstore.build(rows, tmp_path / "s", key=["k", "n"], nullable_keys="k").close()
    source = StoreSource({"path": os.fspath(tmp_path / "s"), "pushdown": "true"})
    null, some = datasource.IsNull(("k",)), datasource.IsNotNull(("k",))
    one, two = datasource.EqualTo(("k",), 1), datasource.EqualTo(("k",), 2)
    for filters, rest in [([null, some], [some]), ([one, null], [null]), ([one, two], [two])]:
        reader = source.reader(source.schema())
        assert reader.pushFilters(filters) == rest


@pytest.fixture(scope="module")
def visits(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build a store of 4,000 rows in 4 buckets, whose blocks hold few of them."""
    path = tmp_path_factory.mktemp("visits") / "store"
    rows = pa.table(
        {
            "region": [region for region in ("eu", "na", "sa", "us") for _ in range(1000)],
            "id": pa.array([i for _ in range(4) for i in range(1000)], pa.int32()),
            "page": [f"/{i}" for i in range(4000)],
        }
    )
    lookupstore.build(rows, path, key=["region", "id"], buckets=4, block_size=1024).close()
    return path


@pytest.mark.few(3)
@needs_pushdown
@pytest.mark.parametrize(
    ("where", "rows", "tasks"),
    [
        ("region = 'na' and id = 7", 1, 1),
        ("id = 7 and region in ('na', 'us', 'none')", 2, 2),
        ("region = 'na' and id in (7, 2000)", 1, 2),
        ("region = 'na' and id > 990", 9, 4),
        ("region = 'na' and id >= 990 and id < 992", 2, 4),
        ("region in ('eu', 'us') and id <= 1", 4, 4),
        ("region > 'sa'", 1000, 4),
        ("region like 'n%'", 1000, 4),
        ("region <=> 'na'", 1000, 4),
        ("region = 'na' and page = '/1001'", 1000, 4),
        ("region = 'na' and id % 2 = 0", 1000, 4),
        ("region = 'a'", 0, 1),
        ("region = 'na' and id = 2000", 0, 1),
        ("id = 7", 4000, 4),
        ("region = 'na' or id = 7", 4000, 4),
    ],
)
def test_filters_reduce_what_is_read(spark: SparkSession, visits, where, rows, tasks) -> None:
    own = spark.createDataFrame(
        [
            (region, i, f"/{1000 * n + i}")
            for n, region in enumerate(("eu", "na", "sa", "us"))
            for i in range(1000)
        ],
        "region string, id int, page string",
    )
    df = load(spark, visits, pushdown=True).where(where)
    assert scanned(df) == rows
    assert df.rdd.getNumPartitions() <= tasks
    assert sorted(df.collect()) == sorted(own.where(where).collect())


@needs_pushdown
def test_filters_that_are_all_pushed_are_not_checked_again(spark: SparkSession, visits) -> None:
    df = load(spark, visits, pushdown=True)
    where = "region = 'na' and id >= 7 and id < 9"
    plan = df.where(where)._jdf.queryExecution().executedPlan().toString()
    assert "Filter" not in plan.replace("RuntimeFilters", "")


def test_scans_of_one_dataframe_do_not_disturb_each_other(spark: SparkSession, visits) -> None:
    """What Spark up to 4.3 does wrong when filters are pushed down, and why they are not."""
    df = load(spark, visits)
    first, second = df.where("region = 'na' and id = 7"), df.where("region = 'us' and id < 3")
    assert (first.count(), df.count(), second.count(), df.count()) == (1, 4000, 3, 4000)
    assert sorted(row.id for row in first.union(second).collect()) == [0, 1, 2, 7]
    if not SCANS_ARE_SEPARATE:
        assert scanned(load(spark, visits).where("region = 'na'")) == 4000
        disturbed = load(spark, visits, pushdown=True)
        disturbed.where("id = 7 and region = 'na'").collect()
        # When this fails, Spark is mended before `pushLimit` came: say so in SCANS_ARE_SEPARATE.
        assert not PUSHES or disturbed.count() == 1


@pytest.mark.few(3)
@pytest.mark.parametrize(
    ("options", "rows"),
    [
        ({"prefix": '"na"'}, 1000),
        ({"prefix": '["na", 7]'}, 1),
        ({"prefix": '["na", 2000]'}, 0),
        ({"prefix": '["na", 3000000000]'}, 0),
        ({"start": '["us", 990]'}, 10),
        ({"start": '["us", 990.5]'}, 9),
        ({"stop": '["eu", 5]'}, 5),
        ({"start": '["eu", 998]', "stop": '["na", 3]'}, 5),
        ({"start": '"us"', "stop": '"na"'}, 0),
        ({"start": '"ut"'}, 0),
        ({"prefix": '["na", "7"]'}, 1),
    ],
)
def test_a_range_of_keys_is_read(spark: SparkSession, visits, options, rows) -> None:
    df = load(spark, visits, **options)
    assert scanned(df) == rows
    assert df.count() == rows
    if PUSHES:
        where = "region = 'na' and id < 5"
        expected = sorted(df.where(where).collect())
        assert sorted(load(spark, visits, pushdown=True, **options).where(where).collect()) == (
            expected
        )


def test_dates_and_decimals_are_named_as_text(spark: SparkSession, tmp_path) -> None:
    day = datetime.date(2024, 2, 29)
    rows = pa.table(
        {
            "day": [day, day],
            "at": pa.array(zoned(PAST, NOON), pa.timestamp("us", "UTC")),
            "price": pa.array([D("1.50"), D("2.25")]),
            "raw": [b"a", b"b"],
        }
    )
    lookupstore.build(rows, tmp_path / "s", key=["day", "at", "price", "raw"]).close()
    found = load(spark, tmp_path / "s", start='["2024-02-29", "2024-02-29T12:00:00Z"]')
    assert [row.price for row in found.collect()] == [D("2.25")]
    whole = '["2024-02-29", "1900-01-01 00:00:00.000001Z", "1.5", "a"]'
    assert load(spark, tmp_path / "s", prefix=whole).count() == 1
    with pytest.raises(
        AnalysisException, match=r"'29\.2\.' is not a value of the key column 'day'"
    ):
        load(spark, tmp_path / "s", prefix='"29.2."').collect()


def test_columns_are_chosen(spark: SparkSession, visits) -> None:
    df = load(spark, visits, columns="page,id", prefix='["na", 7]')
    assert [tuple(row) for row in df.collect()] == [("/1007", 7)]
    by_schema = spark.read.format("lookupstore").schema("id int").load(os.fspath(visits))
    assert by_schema.columns == ["id"]
    assert by_schema.agg(F.sum("id")).first()[0] == 4 * sum(range(1000))
    assert load(spark, visits).columns == ["region", "id", "page"]
    assert [field.nullable for field in load(spark, visits).schema] == [False, False, True]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"key": "id"}, "no option 'key'; reading a store has path, version, columns"),
        ({"colums": "id"}, r"no option 'colums'; did you mean 'columns'\? Reading a store has"),
        ({"versionOf": 1}, r"no option 'versionof'; did you mean 'versionAsOf'\? Reading"),
        ({"columns": "id,paeg"}, r"the store has no column 'paeg'; did you mean 'page'\? It has"),
        ({"version": "newest"}, "version is 'newest'; give a whole number"),
        ({"columns": "id,name"}, "the store has no column 'name'"),
        ({"pushdown": "yes"}, "pushdown is 'yes'; give true or false"),
        ({"prefix": "na"}, "prefix is 'na', which is not JSON"),
        ({"prefix": '["na", 1, 2]'}, r"prefix has 3 values; the key is \['region', 'id'\]"),
        ({"prefix": '"a"', "stop": '"b"'}, "start or stop is given with prefix"),
        ({"start": "[7]"}, "the key field 'region' is string; found int 7"),
    ],
)
def test_bad_options_of_a_read_say_what_is_right(
    spark: SparkSession, visits, options, message
) -> None:
    with pytest.raises(AnalysisException, match=message):
        load(spark, visits, **options).collect()


def test_several_paths_and_catalog_tables_are_refused(spark: SparkSession, visits) -> None:
    with pytest.raises(AnalysisException, match="several paths; load one store at a time"):
        spark.read.format("lookupstore").load([os.fspath(visits)] * 2)
    for place in (f"OPTIONS (path '{visits}')", f"LOCATION '{visits}'"):
        with pytest.raises(AnalysisException, match="use CREATE TEMPORARY VIEW name USING"):
            spark.sql(f"CREATE TABLE made_of_a_store USING lookupstore {place}")


def test_partition_columns_are_refused_as_the_guide_says(spark: SparkSession, tmp_path) -> None:
    for name in ("lookupstore", "lookupstore.hudi"):
        writer = spark.range(3).write.format(name).mode("append").option("key", "id")
        with pytest.raises(Exception, match="partitioning or clustering columns do not match"):
            writer.partitionBy("id").save(str(tmp_path / "t"))
    assert left_over(tmp_path) == []


def test_what_cannot_be_read_says_so(spark: SparkSession, visits, tmp_path) -> None:
    with pytest.raises(AnalysisException, match="no such store folder"):
        load(spark, tmp_path / "none")
    reader = spark.read.format("lookupstore").schema("id string")
    with pytest.raises(AnalysisException, match="'id' is string; in the store it is int"):
        reader.load(os.fspath(visits)).collect()
    wide = pa.table({"k": [1], "d": pa.array([D(1)], pa.decimal256(60, 0))})
    lookupstore.build(wide, tmp_path / "wide", key="k").close()
    with pytest.raises(AnalysisException, match="Spark has no type; leave it out with columns="):
        load(spark, tmp_path / "wide")
    assert load(spark, tmp_path / "wide", columns="k").first().k == 1


def test_a_dataframe_stays_on_its_version(spark: SparkSession, tmp_path) -> None:
    path = tmp_path / "store"
    lookupstore.build(pa.table({"k": [1]}), path, key="k").close()
    df = load(spark, path)
    lookupstore.build(pa.table({"k": [1, 2]}), path, key="k", overwrite=True).close()
    assert df.count() == 1  # on the version that was the newest when it was loaded
    assert load(spark, path).count() == 2
    assert load(spark, path, version=1).count() == 1
    with pytest.raises(AnalysisException, match="no version 3; the store has 1, 2"):
        load(spark, path, version=3)


def test_versions_are_named_as_in_other_formats(spark: SparkSession, tmp_path) -> None:
    """By number, or by a time at which they were the current ones, as Delta's users do."""
    path = tmp_path / "store"
    times = []
    for count in (1, 2, 3):
        rows = pa.table({"k": range(count)})
        with lookupstore.build(rows, path, key="k", overwrite=True) as store:
            times.append(store.created)
    for version, created in enumerate(times, 1):
        assert load(spark, path, versionAsOf=version).count() == version
        assert load(spark, path, timestampAsOf=created.isoformat()).count() == version
    zone = datetime.timezone(datetime.timedelta(hours=-7))
    assert load(spark, path, timestampAsOf=times[1].astimezone(zone).isoformat()).count() == 2
    before = (times[0] - datetime.timedelta(days=1)).isoformat()
    for options, message in (
        ({"timestampAsOf": before}, "when the store did not have a version yet"),
        ({"timestampAsOf": "noon"}, "timestampAsOf is 'noon'; give"),
        ({"timestampAsOf": "2026-11-22T07:30:00"}, r"give one, such as 2026-11-22T07:30:00\+01:00"),
        ({"timestampAsOf": "9999-01-01T00:00Z"}, "after now .*leave timestampAsOf out"),
        ({"versionAsOf": "new"}, "versionAsOf is 'new'; give a whole number"),
        ({"versionAsOf": 1, "version": 1}, "give one of version, versionAsOf and timestampAsOf"),
    ):
        with pytest.raises(AnalysisException, match=message):
            load(spark, path, **options)
    with pytest.raises(ValueError, match=r"does not read streams; join .*refresh='per_batch'"):
        StoreSource({"path": str(path)}).streamReader(sql.StructType())


def test_a_store_with_runs_of_changes(spark: SparkSession, tmp_path) -> None:
    """Read as a format, with filters, and joined: changed rows are, and deleted ones are not."""
    stored = pa.table({"id": range(200), "name": [f"n{i}" for i in range(200)]})
    lookupstore.build(stored, tmp_path / "s", key="id", buckets=3).close()
    changes = pa.table({"id": range(150, 260), "name": ["new"] * 110})
    limits = {"max_runs": 64, "max_run_share": 100}
    with lookupstore.upsert(tmp_path / "s", changes, deletes=[3, 4], **limits) as store:
        assert store.info().runs == 3
        expected = {row["id"]: row["name"] for row in store.scan().read_all().to_pylist()}
    assert len(expected) == 258
    df = load(spark, tmp_path / "s")
    assert {row["id"]: row["name"] for row in df.collect()} == expected
    some = df.where("id in (3, 5, 170, 259, 300)").collect()
    assert {row["id"]: row["name"] for row in some} == {5: "n5", 170: "new", 259: "new"}
    facts = spark.range(0, 300)
    joined = lookup_join(facts, str(tmp_path / "s"), on="id", strategy="bucketed").collect()
    assert {row["id"]: row["name"] for row in joined} == {
        key: expected.get(key) for key in range(300)
    }


def test_a_dataframe_without_its_version_is_stale(spark: SparkSession, tmp_path) -> None:
    path = tmp_path / "store"
    lookupstore.build(pa.table({"k": [1]}), path, key="k").close()
    df = load(spark, path)
    ready = load(spark, path)
    ready._jdf.queryExecution().executedPlan()
    two = pa.table({"k": [1, 2]})
    lookupstore.build(two, path, key="k", overwrite=True, retain=0).close()
    for stale in (df, ready):
        with pytest.raises(PySparkException, match=r"StaleStoreError: .*load the DataFrame again"):
            stale.collect()
    with pytest.raises(AnalysisException, match="no version 1; the store has 2"):
        load(spark, path, version=1)
    assert load(spark, path).count() == 2


def test_batches_are_of_bounded_size(tmp_path) -> None:
    rows = pa.table({"k": range(50_000), "v": ["x" * 100] * 50_000})
    lookupstore.build(rows, tmp_path / "s", key="k", block_size=256).close()
    source = StoreSource({"path": os.fspath(tmp_path / "s")})
    reader = source.reader(source.schema())
    (partition,) = reader.partitions()
    sizes = [batch.nbytes for batch in reader.read(partition)]
    assert 4 <= len(sizes) <= 10
    assert max(sizes) < 2 << 20
    assert sum(sizes) > 50_000 * 100


def test_an_empty_store_has_no_rows(spark: SparkSession, tmp_path) -> None:
    lookupstore.build(pa.table({"k": pa.array([], pa.int8())}), tmp_path / "s", key="k").close()
    assert load(spark, tmp_path / "s").collect() == []
    assert scanned(load(spark, tmp_path / "s").where("k = 1")) == 0


ALL_TYPES: dict[str, list[Any]] = {
    "boolean": [True, False],
    "tinyint": [-128, 127],
    "smallint": [-32768, 5],
    "int": [-(2**31), 2**31 - 1],
    "bigint": [-(2**63), 2**63 - 1],
    "float": [0.5, NAN],
    "double": [0.1, -INF],
    "decimal(38,10)": [D("1.0000000001"), D("-7.0000000000")],
    "string": ["", "a\0é"],
    "binary": [b"", b"\x00\xff"],
    "date": days(0, -90_000),
    "timestamp": zoned(PAST, NOON),
    "timestamp_ntz": [PAST, NOON],
    "interval day to second": [datetime.timedelta(-3, 7, 11), None],
    "array<struct<x:int,y:string>>": [[(1, "q"), None], []],
    "map<string,array<double>>": [{"k": [0.5, None]}, {}],
    "struct<a:date,b:struct<c:timestamp>>": [(None, (zoned(NOON)[0],)), (days(1)[0], None)],
}


def write(df: DataFrame, path: Path, mode: str = "append", **options: Any) -> None:
    df.write.format("lookupstore").options(**options).mode(mode).save(os.fspath(path))


def test_every_type_is_written_and_read_as_it_was(spark: SparkSession, tmp_path) -> None:
    schema = ", ".join(f"`c{i}` {kind}" for i, kind in enumerate(ALL_TYPES))
    cells = zip(*ALL_TYPES.values(), strict=True)
    rows = [(n, *row) for n, row in enumerate(cells)] + [(2, *[None] * len(ALL_TYPES))]
    df = spark.createDataFrame(rows, f"`the key, and.dots` int not null, {schema}").repartition(2)
    write(df, tmp_path / "s", key='["the key, and.dots"]', buckets=2)
    found = load(spark, tmp_path / "s")
    assert found.schema == df.schema
    assert sorted(map(repr, found.collect())) == sorted(map(repr, df.collect()))
    with lookupstore.open(tmp_path / "s") as store:
        store.verify()
        assert store.schema == arrow_schema(df.schema)


@pytest.mark.parametrize("rule", ["first", "last", "max:at", "error"])
def test_a_write_builds_what_the_rows_say(spark: SparkSession, tmp_path, seed, rule) -> None:
    rng = random.Random(seed)
    count = 3000
    ids = rng.sample(range(count), count) if rule == "error" else rng.choices(range(900), k=count)
    rows = [(str(i % 3) if i % 7 else None, i, rng.randrange(5), n) for n, i in enumerate(ids)]
    schema = "region string, id long, at int, n int"
    rdd = spark.sparkContext.parallelize(rows, 5)  # keeps the order of the rows
    df = spark.createDataFrame(rdd, schema)
    options = {"key": "region,id", "nullable_keys": "region", "buckets": 3, "on_duplicate": rule}
    write(df, tmp_path / "s", **options, compression="lz4", block_size=512, bloom_fpp=0.2)
    expected: dict[Any, Any] = {}
    for row in rows:
        old = expected.get(row[:2])
        kept = {"first": False, "max:at": old is not None and row[2] >= old[2]}.get(rule, True)
        if old is None or kept:
            expected[row[:2]] = row
    assert sorted(map(repr, map(tuple, load(spark, tmp_path / "s").collect()))) == sorted(
        map(repr, expected.values())
    )
    with lookupstore.open(tmp_path / "s") as store:
        assert store.verify().stray == ()
        info = store.info()
        assert (info.buckets, info.num_rows, info.source) == (3, len(expected), "Spark DataFrame")
        assert dict(info.options) == {
            "on_duplicate": ["max", "at"] if rule == "max:at" else rule,
            "compression": "lz4",
            "level": None,
            "block_size": 512,
            "bloom_fpp": 0.2,
        }
    assert left_over(tmp_path) == sorted(
        [
            "s",
            "s/data",
            "s/versions",
            *(f"s/data/{name}" for name in data_files(tmp_path / "s")),
            *(f"s/versions/{name}" for name in os.listdir(tmp_path / "s" / "versions")),
        ]
    )


def test_a_write_is_the_store_that_build_makes(spark: SparkSession, tmp_path) -> None:
    df = spark.range(5000).select((F.col("id") * 7919 % 5003).alias("k"), "id")
    write(df, tmp_path / "written", key="k", buckets=4)
    built = build_store(df, tmp_path / "built", key="k", buckets=4)
    with lookupstore.open(tmp_path / "written") as store:
        assert store.scan().read_all() == built.scan().read_all()
        assert store.info().options == built.info().options
        assert store.info().options["compression"] == "none"


def test_modes_of_a_write(spark: SparkSession, tmp_path) -> None:
    path = tmp_path / "s"
    one, two = spark.range(1), spark.range(2)
    for mode in ("error", "ignore"):
        with pytest.raises(AnalysisException, match="UNSUPPORTED_DATA_SOURCE_SAVE_MODE"):
            write(one, path, mode, key="id")
    assert left_over(tmp_path) == []
    write(one, path, key="id")
    with pytest.raises(
        AnalysisException, match=r"nothing can be appended.*mode\('overwrite'\) publishes"
    ):
        write(two, path, key="id")
    assert load(spark, path).count() == 1
    write(two, path, "overwrite", key="id")
    assert load(spark, path).count() == 2
    assert load(spark, path, version=1).count() == 1
    write(load(spark, path).where("id = 0"), path, "overwrite", key="id")  # onto what it reads
    assert load(spark, path).count() == 1
    (tmp_path / "foreign").mkdir()
    (tmp_path / "foreign" / "file").touch()
    for mode in ("append", "overwrite"):
        with pytest.raises(
            AnalysisException, match="not a store and not empty \\(it has 'file'\\)"
        ):
            write(two, tmp_path / "foreign", mode, key="id")
    write(two.where("id > 7"), tmp_path / "empty", key="id")
    assert load(spark, tmp_path / "empty").collect() == []


@pytest.mark.few(6)
@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, r"no key; give option\('key', 'a,b'\)"),
        ({"key": "id", "version": 1}, "no option 'version'; writing a store has path, key, col"),
        ({"key": "id", "keys": "id"}, r"no option 'keys'; did you mean 'key'\? Writing a store"),
        ({"key": "name"}, "the source has no column 'name'"),
        ({"key": "[id"}, r"key is '\[id', which is not a JSON list"),
        ({"key": "id", "buckets": "many"}, "buckets is 'many'; give a whole number"),
        ({"key": "id", "buckets": 0}, "buckets is 0; give a number from 1 to 65536"),
        ({"key": "id", "on_duplicate": "max"}, "on_duplicate is 'max'; give error, first, last or"),
        ({"key": "id", "on_duplicate": "max:x"}, "on_duplicate: the source has no column 'x'"),
        ({"key": "id", "nullable_keys": "n"}, "nullable_keys: 'n' is not a key column"),
        ({"key": "id", "compression": "zip"}, "compression must be .* not 'zip'"),
        ({"key": "id", "level": "best"}, "level is 'best'; give a whole number"),
        ({"key": "id", "block_size": "big"}, "block_size is 'big'; give bytes, or a size"),
        ({"key": "id", "bloom_fpp": "low"}, "bloom_fpp is 'low'; give a number"),
        ({"key": "id", "bloom_fpp": 2}, "bloom_fpp"),
        ({"key": "id", "columns": "name"}, "columns: the source has no column 'name'"),
        ({"key": "id", "retain": "soon"}, "retain is 'soon'; give seconds, or a time such as"),
        ({"key": "id", "retain": -1}, "retain is '-1'; give seconds, or a time such as"),
    ],
)
def test_bad_options_of_a_write_say_what_is_right(
    spark: SparkSession, tmp_path, options, message
) -> None:
    with pytest.raises(AnalysisException, match=message):
        write(spark.range(3), tmp_path / "s", **options)
    assert left_over(tmp_path) == []


Batches = Iterator[pa.RecordBatch]


def breaking() -> Callable[[Batches], Batches]:
    """Return what breaks the task of one partition in the midst of its rows, whenever it runs."""

    def run(batches: Batches) -> Batches:
        for batch in batches:
            yield batch
            if TaskContext.get().partitionId() == 1:
                raise RuntimeError("broken on purpose")

    return run  # not of this module, which executors do not have


def breaking_once(how: str) -> Callable[[Batches], Batches]:
    """Return what breaks the first attempt of each task when it has given all of its rows."""

    def run(batches: Batches) -> Batches:
        yield from batches
        if TaskContext.get().attemptNumber() == 0:
            if how == "killed":
                os.kill(os.getpid(), signal.SIGKILL)
            raise RuntimeError("broken on purpose")

    return run


def test_a_write_that_fails_leaves_nothing(spark: SparkSession, tmp_path) -> None:
    rows = spark.range(0, 2000, numPartitions=4)
    broken = rows.mapInArrow(breaking(), "id long")
    repeated = rows.select((F.col("id") % 1999).alias("id"))  # in two tasks
    repeated_in_one = rows.select((F.col("id") - F.col("id") % 2).alias("id"))
    null = rows.select(F.when(F.col("id") != 7, F.col("id")).alias("id"))
    cases = [
        (broken, "broken on purpose"),
        (repeated, "the key id=0 occurs more than once in the source"),
        (repeated_in_one, "occurs more than once in the source"),
        (null, r"is null in a row of the source; add .option\(\"nullable_keys\", \"id\"\)"),
    ]
    for df, message in cases:
        with pytest.raises(PySparkException, match=message):
            write(df, tmp_path / "s", key="id", buckets=2)
        assert left_in_the_end(tmp_path, []) == []
    write(rows, tmp_path / "s", key="id", buckets=2)
    before = left_over(tmp_path)
    for df, message in cases:
        with pytest.raises(PySparkException, match=message):
            write(df, tmp_path / "s", "overwrite", key="id", buckets=2)
        assert left_in_the_end(tmp_path, before) == before
    assert load(spark, tmp_path / "s").count() == 2000


@pytest.mark.few(1)
@pytest.mark.parametrize("how", ["failed", "killed"])
def test_a_task_that_is_tried_again_counts_once(spark: SparkSession, tmp_path, how) -> None:
    rows = spark.range(0, 2000, numPartitions=3)
    broken = rows.mapInArrow(breaking_once(how), "id long")
    write(broken, tmp_path / "s", key="id", buckets=2)
    assert sorted(row.id for row in load(spark, tmp_path / "s").collect()) == list(range(2000))
    with lookupstore.open(tmp_path / "s") as store:
        assert store.verify().stray == ()
    assert [name for name in os.listdir(tmp_path) if name != "s"] == []


def writer_of(tmp_path: Path, *, overwrite: bool = False, **options: Any) -> sink.StoreWriter:
    schema = sql.StructType().add("k", "long", False).add("v", "string")
    given = {"path": os.fspath(tmp_path / "s"), "key": "k"}
    given |= {name: str(value) for name, value in options.items()}
    return sink.StoreWriter.plan(schema, given, overwrite=overwrite)


def task_rows(keys: list[int], task: int) -> Iterator[pa.RecordBatch]:
    values = [f"{task}/{n}" for n in range(len(keys))]
    for start in range(0, len(keys), 100):
        yield pa.record_batch(
            {"k": keys[start : start + 100], "v": values[start : start + 100]}
        ).cast(pa.schema([pa.field("k", pa.int64(), False), ("v", pa.string())]))


def test_remedies_of_a_write_are_options(tmp_path) -> None:
    """Who has written `.option(...)` is told options, which are right as they are typed."""
    writer = writer_of(tmp_path)
    with pytest.raises(DuplicateKeyError, match=r'; add \.option\("on_duplicate", RULE\) with fi'):
        writer.write(task_rows([1, 1], 0))
    writer.commit([writer.write(task_rows([1, 2], 0))])
    writer = writer_of(tmp_path, overwrite=True)
    with pytest.raises(ValueError, match=r'no rows, .*; add \.option\("allow_empty", "true"\) t'):
        writer.commit([writer.write(task_rows([], 0))])
    writer = writer_of(tmp_path, overwrite=True, allow_empty="true")
    writer.commit([writer.write(task_rows([], 0))])
    with lookupstore.open(tmp_path / "s") as store:
        assert (store.version, len(store)) == (2, 0)


@pytest.mark.parametrize("rule", ["first", "last", "max:v"])
def test_many_runs_are_merged_in_several_rounds(tmp_path, seed, monkeypatch, rule) -> None:
    monkeypatch.setattr(sink, "FAN_IN", 3)
    monkeypatch.setattr(sink, "TASK_MEMORY", 1 << 16)  # spills
    rng = random.Random(seed)
    writer = writer_of(tmp_path, buckets=2, on_duplicate=rule)
    tasks = [[rng.randrange(4000) for _ in range(rng.choice([0, 1, 1500]))] for _ in range(20)]
    messages: list[Any] = [writer.write(task_rows(keys, i)) for i, keys in enumerate(tasks)]
    writer.write(task_rows([4001], 99))  # an attempt that Spark does not count
    writer.commit(messages)
    expected: dict[int, str] = {}
    for i, keys in enumerate(tasks):
        for n, key in enumerate(keys):
            new, old = f"{i}/{n}", expected.get(key)
            if old is None or rule == "last" or (rule == "max:v" and new >= old):
                expected[key] = new
    with lookupstore.open(tmp_path / "s") as store:
        assert store.scan().read_all().to_pylist() == [
            {"k": key, "v": expected[key]} for key in sorted(expected)
        ]
        store.verify()
    assert os.listdir(tmp_path) == ["s"]


@pytest.mark.parametrize("rule", ["first", "last", "max:v"])
def test_the_driver_chooses_buckets_by_the_rows(tmp_path, seed, monkeypatch, rule) -> None:
    """A source in Python knows nothing of the DataFrame before its tasks have written."""
    monkeypatch.setattr(bucket_count, "FILE_BYTES", 30_000)
    monkeypatch.setattr(sink, "TASK_MEMORY", 1 << 16)  # spills
    rng = random.Random(seed)
    tasks = [[rng.randrange(9000) for _ in range(1200)] for _ in range(6)]
    expected: dict[int, str] = {}
    for i, keys in enumerate(tasks):
        for n, key in enumerate(keys):
            new, old = f"{i}/{n}", expected.get(key)
            if old is None or rule == "last" or (rule == "max:v" and new >= old):
                expected[key] = new

    def written(tasks: list[list[int]], **options: Any) -> int:
        writer = writer_of(tmp_path, on_duplicate=rule, **options)
        writer.commit([writer.write(task_rows(keys, i)) for i, keys in enumerate(tasks)])
        with lookupstore.open(tmp_path / "s") as store:
            assert store.verify().stray == ()
            if tasks[0]:
                assert store.scan().read_all().to_pylist() == [
                    {"k": key, "v": expected[key]} for key in sorted(expected)
                ]
                assert store.lookup(list(expected))["v"].to_pylist() == list(expected.values())
            return store.info().buckets

    buckets = written(tasks)
    sizes = [path.stat().st_size for path in (tmp_path / "s" / "data").glob("*.sst")]
    assert buckets == len(sizes) > 2
    assert 30_000 / 3 < min(sizes) <= max(sizes) < 2 * 30_000
    assert written(tasks, overwrite=True, retain=0) == buckets
    assert written(tasks, overwrite=True, retain=0, buckets=2) == 2
    assert written(tasks, overwrite=True, retain=0) == 2
    shutil.rmtree(tmp_path / "s")
    assert written([[]]) == 1
    assert os.listdir(tmp_path) == ["s"]


def test_a_key_of_two_tasks_is_found_where_the_driver_chooses(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(bucket_count, "FILE_BYTES", 30_000)
    writer = writer_of(tmp_path)
    tasks = [range(2000), range(1999, 4000)]
    messages: list[Any] = [writer.write(task_rows(list(keys), i)) for i, keys in enumerate(tasks)]
    with pytest.raises(ValueError, match="the key k=1999 occurs more than once"):
        writer.commit(messages)
    assert left_over(tmp_path) == []


def test_nothing_is_seen_before_the_commit_nor_after_an_abort(tmp_path) -> None:
    writer = writer_of(tmp_path)
    message = writer.write(task_rows([1, 2], 0))
    with pytest.raises(lookupstore.errors.FormatError, match="no version found"):
        lookupstore.open(tmp_path / "s")
    writer.abort([message, None])
    assert left_over(tmp_path) == []
    with pytest.raises(FileNotFoundError, match="an executor does not see it"):
        writer.write(task_rows([1], 0))  # an attempt that outlives the abort
    assert left_over(tmp_path) == []


def test_a_commit_that_fails_leaves_nothing(tmp_path) -> None:
    writer = writer_of(tmp_path, buckets=2)
    message = writer.write(task_rows(list(range(100)), 0))
    for run in (tmp_path / "s" / "data").glob("*.arrow"):
        run.unlink()
    with pytest.raises(FileNotFoundError, match="the driver does not see it"):
        writer.commit([message])
    assert left_over(tmp_path) == []
    writer = writer_of(tmp_path)
    messages: list[Any] = [writer.write(task_rows([7], task)) for task in range(2)]
    with pytest.raises(ValueError, match="the key k=7 occurs more than once"):
        writer.commit(messages)
    assert left_over(tmp_path) == []
    first, second = writer_of(tmp_path), writer_of(tmp_path)
    first.commit([first.write(task_rows([1], 0))])
    with pytest.raises(FileExistsError, match=r"there is already a store.*mode\('overwrite'\)"):
        second.commit([second.write(task_rows([2], 0))])
    with lookupstore.open(tmp_path / "s") as store:
        assert store.get(1) == {"v": "0/0"}
        assert store.verify().stray == ()
    assert os.listdir(tmp_path) == ["s"]


def test_registering_again_does_nothing(spark: SparkSession, visits) -> None:
    register(spark)
    assert load(any_session(), visits).count() == 4000
    fresh = spark.newSession()
    assert load(fresh, visits).count() == 4000  # Spark finds it: test_found.py
    register(fresh)
    register(fresh)
    assert load(fresh, visits).count() == 4000


@needs_pushdown
def test_a_session_pushes_filters_down_once_the_format_is_registered(
    spark: SparkSession, visits
) -> None:
    fresh = spark.newSession()
    pushing = load(fresh, visits, pushdown="true").where("region = 'na'")
    with pytest.raises(AnalysisException, match=r"python\.filterPushdown\.enabled"):
        pushing.count()
    register(fresh)
    assert load(fresh, visits, pushdown="true").where("region = 'na'").count() == 1000


def test_sql_reads_a_store(spark: SparkSession, visits) -> None:
    load(spark, visits).createOrReplaceTempView("visits")
    found = spark.sql("select max(id) from visits where region = 'na'").first()
    assert found is not None
    assert found[0] == 999
    spark.sql(
        "create temporary view some using lookupstore "
        f"""options (path '{visits}', version 1, columns 'id', prefix '["na", 7]')"""
    )
    assert [row.id for row in spark.sql("select * from some").collect()] == [7]


def test_the_options_of_a_write_are_the_arguments_of_build_store() -> None:
    arguments = set(inspect.signature(build_store).parameters)
    assert set(WRITE_OPTIONS) == arguments - {"df_or_path", "overwrite", "spark"}


@pytest.mark.few(1)
@pytest.mark.parametrize("name", ["lookupstore", "lookupstore.hudi"])
def test_options_of_an_object_store(spark: SparkSession, name: str) -> None:
    """Nothing in the environment says where the data is, or who asks for it."""
    assert "AWS_ACCESS_KEY_ID" not in os.environ
    df = spark.createDataFrame([(k, str(k)) for k in range(100)], "id long, v string")
    with writable_object_store() as server:
        given = deltalake_names(server)
        path = f"s3://{BUCKET}/there"
        writer = df.write.format(name).option("storage_options", json.dumps(given))
        if name == "lookupstore":
            writer = writer.option("key", "id")
        else:
            schema = arrow_schema(df.schema)
            HudiTable.create(path, schema, record_key=["id"], storage_options=given)
        writer.mode("append").save(path)
        reader = spark.read.format(name).options(storage_options=json.dumps(given), columns="id,v")
        assert sorted(reader.load(path).collect()) == [(k, str(k)) for k in range(100)]
        if name == "lookupstore.hudi":
            stream = spark.readStream.format(name).options(columns="id,v", start="earliest")
            rows = stream.option("storage_options", json.dumps(given)).load(path)
            sink = rows.writeStream.format("memory").queryName("behind_s3")
            sink.trigger(availableNow=True).start().awaitTermination()
            assert spark.table("behind_s3").count() == 100
    for text in (SECRET, f'["{SECRET}"]'):
        with pytest.raises(AnalysisException, match="storage_options is no JSON object") as caught:
            spark.read.format(name).option("storage_options", text).load(path)
        assert "give json.dumps" in str(caught.value)
        assert SECRET not in str(caught.value)


def test_a_write_of_chosen_columns(spark: SparkSession, tmp_path) -> None:
    df = spark.range(9).selectExpr("id * 2 as a", "id as at", "'x' as b", "id % 3 as k")
    write(df, tmp_path / "s", key="k", columns="b,a", on_duplicate="max:at")
    found = load(spark, tmp_path / "s")
    assert found.columns == ["k", "b", "a"]
    assert sorted(map(tuple, found.collect())) == [(0, "x", 12), (1, "x", 14), (2, "x", 16)]


def test_a_write_makes_the_next_version(spark: SparkSession, tmp_path) -> None:
    path = tmp_path / "s"
    rows = spark.range(1000).withColumn("v", F.lit(1))
    options = {"key": "id", "buckets": 4}
    write(rows, path, **options)
    changed = rows.withColumn("v", F.when(F.col("id") == 7, 2).otherwise(1))
    write(changed, path, "overwrite", **options)
    with lookupstore.open(path) as store:
        assert (store.version, store.info().rewritten_buckets) == (2, 1)
        assert (store.get(7), store.get(8)) == ({"v": 2}, {"v": 1})
        assert store.verify().stray == ()
    assert load(spark, path, version=1).where("id = 7").first().v == 1
    write(rows, path, "overwrite", **options, retain=0)
    assert [one.number for one in lookupstore.versions(path)] == [3]


def test_what_may_have_been_published_stays(tmp_path, monkeypatch) -> None:
    """Spark calls `abort` when `commit` has failed, whatever the reason."""
    writer = writer_of(tmp_path)
    message = writer.write(task_rows([1, 2], 0))

    def published(location: Any, manifest: Any, **_: Any) -> None:
        raise lookupstore.CommitUnknownError("nobody knows")

    monkeypatch.setattr("lookupstore.store.new_version.publish_version", published)
    with pytest.raises(lookupstore.CommitUnknownError):
        writer.commit([message])
    writer.abort([message])
    kept = data_files(tmp_path / "s")
    assert len([name for name in kept if name.endswith(".sst")]) == 1


@pytest.mark.skipif(not has_server(), reason="rclone is not installed")
def test_a_store_on_an_object_store(spark: SparkSession, tmp_path) -> None:
    rows = spark.range(0, 1000, numPartitions=3).withColumn("v", F.lit("old"))
    options = {"key": "id", "buckets": 3}
    with object_store(tmp_path) as server:
        proxy = Proxy(server)
        uri = proxy.store.uri("some/store")

        def load(**given: Any) -> DataFrame:
            return spark.read.format("lookupstore").options(**given).load(uri)

        def write(df: DataFrame, mode: str) -> None:
            df.write.format("lookupstore").options(**options).mode(mode).save(uri)

        def objects() -> set[str]:
            found = server.folder.rglob("*")
            return {one.relative_to(server.folder).as_posix() for one in found if one.is_file()}

        write(rows, "append")
        assert sorted(load().collect()) == sorted(rows.collect())
        before = objects()
        assert len(before) == 5  # three files, the manifest and its copy
        with pytest.raises(AnalysisException, match=r"mode\('overwrite'\)"):
            write(rows, "append")
        with pytest.raises(PySparkException, match="occurs more than once") as error:
            write(rows.union(rows), "overwrite")
        assert SECRET not in str(error.value)
        assert objects() == before
        new = rows.withColumn("v", F.when(F.col("id") < 2, "new").otherwise("old"))
        write(new, "overwrite")
        assert load().where("v = 'new'").count() == 2
        assert load(version=1).where("v = 'new'").count() == 0
        assert load(prefix="7").first().v == "old"
        with lookupstore.open(uri) as store:
            assert store.verify().stray == ()
            assert store.info().options["compression"] == "zstd"
        proxy.close()
