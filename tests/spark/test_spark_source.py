"""The data source, compared with Spark SQL's own filters and rows."""

from __future__ import annotations

import datetime
import decimal
import functools
import os
import random
import signal
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

import lookupstore
from lookupstore.spark import build_store, register, sink
from lookupstore.spark import session as any_session
from lookupstore.spark.key_ranges import push
from lookupstore.spark.source import SCANS_ARE_SEPARATE, StoreSource
from lookupstore.spark.types import arrow_schema

datasource = pytest.importorskip("pyspark.sql.datasource")
PUSHES = hasattr(datasource, "EqualTo")  # since Spark 4.1
needs_pushdown = pytest.mark.skipif(not PUSHES, reason="filters are pushed down since Spark 4.1")

pytestmark = [
    pytest.mark.spark,
    # PySpark 4.0 leaves sockets to the garbage collector.
    pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"),
]

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
    (pa.timestamp("us", "UTC"), "timestamp", zoned(PAST, NOON), zoned(NOON.replace(year=2023, day=1))),
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


def data_files(path: Path) -> set[str]:
    return {file.name for file in (path / "data").iterdir()}


@needs_pushdown
@pytest.mark.parametrize("kind", KEYS, ids=lambda kind: str(kind[0]).replace(" ", ""))
def test_every_filter_on_every_key_type_gives_what_spark_gives(
    spark: SparkSession, tmp_path, seed, kind
) -> None:
    arrow, name, stored, absent = kind
    rng = random.Random(seed)
    plain = arrow.value_type if pa.types.is_dictionary(arrow) else arrow
    values = [*stored, None]
    if pa.types.is_decimal(plain) and plain.scale < 0:
        keys = pa.array(values, pa.decimal128(7, 0)).cast(plain)
    elif arrow == pa.uint64():
        keys = pa.array([None if value is None else int(value) for value in values], arrow)
    else:
        keys = pa.array(values, plain)
    keys = keys.dictionary_encode() if plain != arrow else keys
    rows = pa.table({"k": keys, "v": range(len(values))})
    lookupstore.build(rows, tmp_path / "one", key="k", nullable_keys="k", buckets=3).close()
    schema = f"k {name}, v bigint"
    own = spark.createDataFrame(list(zip(values, range(len(values)), strict=True)), schema)
    found = conditions("k", name, rng.sample([*stored, *absent], min(3, len([*stored, *absent]))))
    some = rng.sample(range(len(found)), min(24, len(found)))
    pushed = [load(spark, tmp_path / "one", pushdown=True).where(found[i]) for i in some]
    expected = tagged([own.where(found[i]) for i in some])
    got = tagged(pushed)
    for place, i in enumerate(some):
        assert got[place] == expected[place], found[i]
