"""Several lookup joins of the same facts, compared with Spark SQL's own joins of them."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors import PythonException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

import lookupstore
from lookupstore.keys.joins import HOWS
from lookupstore.spark import (
    LookupJoin,
    LookupMetrics,
    explain_join,
    lookup_join,
    lookup_joins,
)
from lookupstore.spark.join import trip as spark_trip

pytestmark = [
    pytest.mark.spark,
    # PySpark 4.0 leaves sockets to the garbage collector.
    pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"),
]

SPARK_HOWS = dict(zip(HOWS, ("left", "inner", "left_semi", "left_anti"), strict=True))


@pytest.fixture(params=["arrow_udf", "mapInArrow"])
def transport(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Run a test by both ways through Spark: the newest one's and that of all others."""
    if request.param == "mapInArrow":
        monkeypatch.setattr(spark_trip, "arrow_udf", None)
    elif spark_trip.arrow_udf is None:
        pytest.skip("Arrow UDFs came with Spark 4.1")
    return str(request.param)


class Dimensions:
    """Three stores and what Spark sees of the same rows: keys of int64, of text, of two columns.

    `people` have a `town`, which is the key of `towns`, and for some is null or has no row.
    """

    def __init__(self, spark: SparkSession, folder: Path, rng: random.Random) -> None:
        people = [
            (i, f"p{i}", rng.choice([None, f"t{rng.randrange(12)}"]))
            for i in rng.sample(range(60), 40)
        ]
        towns = [(f"t{i}", rng.choice([None, i])) for i in rng.sample(range(12), 8)]
        pairs = {(rng.choice(["x", "y"]), rng.randrange(10)) for _ in range(14)}
        prices = [(kind, n, rng.choice([None, n / 4])) for kind, n in pairs]
        self.frames: dict[str, DataFrame] = {}
        self.stores: dict[str, str] = {}
        for name, key, ddl, rows in (
            ("people", ["id"], "id bigint, name string, town string", people),
            ("towns", ["town_id"], "town_id string, size bigint", towns),
            ("prices", ["kind", "number"], "kind string, number int, price double", prices),
        ):
            self.frames[name] = frame = spark.createDataFrame(rows, ddl)
            path = str(folder / name)
            columns = zip(*rows, strict=True)
            kinds = {"bigint": pa.int64(), "string": pa.string(), "int": pa.int32()}
            table = pa.table(
                {
                    field: pa.array(column, kinds.get(kind, pa.float64()))
                    for (field, kind), column in zip(frame.dtypes, columns, strict=True)
                }
            )
            lookupstore.build(table, path, key=key, buckets=2).close()
            self.stores[name] = path


@pytest.fixture
def dimensions(spark: SparkSession, tmp_path: Path, seed: int) -> Dimensions:
    return Dimensions(spark, tmp_path, random.Random(seed))


@pytest.fixture
def facts(spark: SparkSession, seed: int) -> DataFrame:
    """Return facts that repeat keys, and have null and missing ones of each dimension."""
    rng = random.Random(seed + 1)
    rows = [
        (
            i,
            rng.choice([None, *range(-2, 64)]),
            rng.choice([None, *range(-2, 64)]),
            rng.choice([None, "x", "y", "z"]),
            rng.choice([None, *range(-1, 12)]),
        )
        for i in range(500)
    ]
    ddl = "i int, buyer bigint, seller int, kind string, n bigint"
    return spark.createDataFrame(rows, ddl).repartition(3)


# A name of the join, its store, and fact column to key column.
JOINS: dict[str, tuple[str, dict[str, str]]] = {
    "buyer": ("people", {"buyer": "id"}),
    "seller": ("people", {"seller": "id"}),
    "price": ("prices", {"n": "number", "kind": "kind"}),
    "town": ("towns", {"buyer_town": "town_id"}),
}


def by_spark(df: DataFrame, dimensions: Dimensions, name: str, how: str) -> DataFrame:
    """Return what Spark's own join gives: the facts, and prefixed columns of the dimension."""
    store, on = JOINS[name]
    other = dimensions.frames[store]
    keys = [other[key] for key in on.values()]
    renamed = other.select(
        *[key.alias(f"__{i}") for i, key in enumerate(keys)],
        *[other[c].alias(f"{name}_{c}") for c in other.columns if c not in on.values()],
    )
    condition = [df[fact] == renamed[f"__{i}"] for i, fact in enumerate(on)]
    return df.join(renamed, condition, SPARK_HOWS[how]).drop(*(f"__{i}" for i in range(len(on))))


def asked(dimensions: Dimensions, name: str, how: str = "left", **options: Any) -> LookupJoin:
    store, on = JOINS[name]
    prefix = None if how in ("semi", "anti") else f"{name}_"
    return LookupJoin(dimensions.stores[store], on, how, prefix=prefix, **options)


def chained(df: DataFrame, joins: list[LookupJoin]) -> DataFrame:
    for one in joins:
        options = {name: getattr(one, name) for name in ("prefix", "found", "strategy", "on_miss")}
        df = lookup_join(df, one.store, one.on, one.how, **options)
    return df


def shown(df: DataFrame) -> list[str]:
    return sorted(repr(row) for row in df.collect())


def crossings(df: DataFrame) -> int:
    """Return how often rows go to Python, by the physical plan that has not run yet."""
    plan = df.select("*")._jdf.queryExecution().executedPlan().toString()
    return sum("EvalPython [" in line or "InArrow" in line for line in plan.splitlines())


@pytest.mark.few(1)
def test_mixed_joins_are_those_of_spark_sql(
    spark: SparkSession, transport: str, facts: DataFrame, dimensions: Dimensions, seed: int
) -> None:
    rng = random.Random(seed + 2)
    for _ in range(6):
        names = rng.sample(["buyer", "seller", "price"], rng.randint(2, 3))
        hows = [rng.choice([*HOWS, "left"]) for _ in names]
        if "buyer" in names and hows[names.index("buyer")] in ("left", "inner"):
            # What an earlier join has answered is the key of a later one.
            names.append("town")
            hows.append(rng.choice(HOWS))
        joins = [asked(dimensions, *one) for one in zip(names, hows, strict=True)]
        expected = facts
        for name, how in zip(names, hows, strict=True):
            expected = by_spark(expected, dimensions, name, how)
        rows = shown(expected)
        for joined in (lookup_joins(facts, joins), chained(facts, joins)):
            assert joined.columns == expected.columns, (names, hows)
            assert shown(joined) == rows, (names, hows)
            assert crossings(joined) == 1, (names, hows)


@pytest.mark.few(1)
def test_filters_after_joins_are_those_of_spark_sql(
    spark: SparkSession, transport: str, facts: DataFrame, dimensions: Dimensions
) -> None:
    names = ["buyer", "seller", "price"]
    joined = lookup_joins(facts, [asked(dimensions, name) for name in names])
    expected = facts
    for name in names:
        expected = by_spark(expected, dimensions, name, "left")
    for query in (
        lambda df: df.where("buyer_name > 'p3' AND price_price IS NOT NULL AND i % 2 = 0"),
        lambda df: df.where("buyer_name IS NULL OR seller_town = 't3'").select("i", "seller_name"),
        lambda df: df.groupBy("buyer_town", "seller_town").agg(F.count("*"), F.sum("price_price")),
    ):
        assert shown(query(joined)) == shown(query(expected))
        assert crossings(query(joined)) == 1


@pytest.mark.few(1)
def test_bucketed_joins_move_facts_once_a_trip(
    spark: SparkSession, transport: str, facts: DataFrame, dimensions: Dimensions
) -> None:
    names = ["buyer", "seller", "price"]
    expected = facts
    for name in names:
        expected = by_spark(expected, dimensions, name, "left")
    rows = shown(expected)
    # Each move asks Python for buckets, and each trip for rows.
    for moving, count in ((["seller"], 2), (["buyer", "price"], 4)):
        joins = [
            asked(dimensions, name, strategy="bucketed" if name in moving else "auto")
            for name in names
        ]
        joined = lookup_joins(facts, joins)
        assert shown(joined) == rows
        assert shown(chained(facts, joins)) == rows
        assert crossings(joined) == count, moving
    # The key is known only after a trip.
    town = asked(dimensions, "town", strategy="bucketed")
    joined = lookup_joins(facts, [asked(dimensions, "buyer"), town])
    with_town = by_spark(by_spark(facts, dimensions, "buyer", "left"), dimensions, "town", "left")
    assert shown(joined) == shown(with_town)
    assert crossings(joined) == 3


def test_what_is_between_chained_joins(
    spark: SparkSession, facts: DataFrame, dimensions: Dimensions
) -> None:
    """A result that is persisted is not computed again; names of columns go on as they are."""
    first = lookup_joins(facts, [asked(dimensions, "buyer")])
    second = asked(dimensions, "price")
    expected = shown(
        by_spark(by_spark(facts, dimensions, "buyer", "left"), dimensions, "price", "left")
    )
    assert crossings(lookup_joins(first, [second])) == 1
    if spark_trip.arrow_udf is not None:
        between = lookup_joins(first.where("i >= 0"), [second])
        assert crossings(between) == 2
        assert shown(between) == expected
    first.persist()
    try:
        first.count()
        joined = lookup_joins(first, [second])
        assert "InMemoryTableScan" in joined._jdf.queryExecution().executedPlan().toString()
        assert shown(joined) == expected
    finally:
        first.unpersist()
    assert lookup_joins(first, []) is first
    nothing = LookupJoin(dimensions.stores["people"], {"buyer": "id"}, columns=[])
    assert lookup_joins(first, [nothing]) is first


@pytest.mark.few(1)
def test_missing_keys_marks_and_counts(
    spark: SparkSession, transport: str, facts: DataFrame, dimensions: Dimensions
) -> None:
    """What a join drops is neither found nor missed by those after it, and raises nothing."""
    metrics = [LookupMetrics(spark) for _ in range(3)]
    joins = [
        asked(dimensions, "buyer", "inner", metrics=metrics[0], found="known"),
        asked(dimensions, "seller", on_miss="drop", metrics=metrics[1]),
        asked(dimensions, "price", found="priced", metrics=metrics[2]),
    ]
    buyers = by_spark(facts, dimensions, "buyer", "inner").withColumn("known", F.lit(True))
    sellers = by_spark(buyers, dimensions, "seller", "inner")
    there = dimensions.frames["prices"].selectExpr("kind AS k", "number AS m", "true AS priced")
    expected = (
        by_spark(sellers, dimensions, "price", "left")
        .join(there, [F.col("kind") == F.col("k"), F.col("n") == F.col("m")], "left")
        .drop("k", "m")
        .fillna({"priced": False})
    )
    joined = lookup_joins(facts, joins)
    assert joined.columns == expected.columns
    rows = shown(joined)
    assert rows == shown(expected)
    counted = [(one.counts.rows, one.counts.hits) for one in metrics]
    priced = expected.where("priced").count()
    assert counted == [
        (facts.count(), buyers.count()),
        (buyers.count(), sellers.count()),
        (sellers.count(), priced),
    ]
    # Every buyer with a town that has a row: dropped facts do not raise.
    towns = [row.town_id for row in dimensions.frames["towns"].collect()]
    known = [
        row.id for row in dimensions.frames["people"].where(F.col("town").isin(towns)).collect()
    ]
    ids = pa.table({"id": pa.array(known, pa.int64())})
    path = str(Path(dimensions.stores["people"]).with_name("known"))
    lookupstore.build(ids, path, key="id").close()
    strict = [
        LookupJoin(path, {"buyer": "id"}, "semi"),
        asked(dimensions, "buyer"),
        asked(dimensions, "town", on_miss="raise"),
    ]
    assert lookup_joins(facts, strict).count() == facts.where(F.col("buyer").isin(known)).count()
    with pytest.raises(PythonException, match="MissingKeyError"):
        lookup_joins(facts, strict[1:]).collect()


def test_no_columns_at_all(
    spark: SparkSession, transport: str, facts: DataFrame, dimensions: Dimensions
) -> None:
    joins = [asked(dimensions, "buyer", "semi"), asked(dimensions, "price", "anti")]
    expected = by_spark(by_spark(facts, dimensions, "buyer", "semi"), dimensions, "price", "anti")
    joined = lookup_joins(facts, joins)
    assert shown(joined) == shown(expected)
    assert crossings(joined) == 1
    strict = LookupJoin(dimensions.stores["people"], {"buyer": "id"}, columns=[], on_miss="raise")
    with pytest.raises(PythonException, match="MissingKeyError"):
        lookup_joins(facts, [strict]).count()
    known = lookup_joins(facts, [joins[0]])
    assert lookup_joins(known, [strict]).count() == known.count()
    empty = facts.where("i < 0")
    names = ("buyer", "price")
    every = [asked(dimensions, name, refresh="per_batch") for name in names]
    assert lookup_joins(empty, every).collect() == []


def test_refresh_of_one_of_several(
    spark: SparkSession, transport: str, facts: DataFrame, dimensions: Dimensions
) -> None:
    joins = [asked(dimensions, "buyer"), asked(dimensions, "price", refresh=60, max_staleness=900)]
    expected = by_spark(by_spark(facts, dimensions, "buyer", "left"), dimensions, "price", "left")
    assert shown(lookup_joins(facts, joins)) == shown(expected)
    late = [asked(dimensions, "price", max_staleness=1e-6), asked(dimensions, "buyer")]
    with pytest.raises(PythonException, match="StaleStoreError"):
        lookup_joins(facts, late).collect()


def test_a_stream_joins_several(
    spark: SparkSession, facts: DataFrame, dimensions: Dimensions, tmp_path: Path
) -> None:
    facts.write.parquet(f"file://{tmp_path}/arriving")
    stream = spark.readStream.schema(facts.schema).parquet(f"file://{tmp_path}/arriving")
    joins = [asked(dimensions, name, refresh="per_batch") for name in ("buyer", "price")]
    written = f"file://{tmp_path}/written"
    query = lookup_joins(stream, joins).writeStream.format("parquet").option("path", written)
    query = query.option("checkpointLocation", f"file://{tmp_path}/checkpoint")
    query.trigger(availableNow=True).start().awaitTermination()
    expected = by_spark(by_spark(facts, dimensions, "buyer", "left"), dimensions, "price", "left")
    assert shown(spark.read.parquet(written)) == shown(expected)


def test_what_is_wrong_is_said_before_anything_runs(
    facts: DataFrame, dimensions: Dimensions
) -> None:
    people = dimensions.stores["people"]
    buyer = LookupJoin(people, {"buyer": "id"})
    seller = LookupJoin(people, {"seller": "id"})
    other = LookupJoin(people, {"name": "id"}, prefix="x")
    cases: list[tuple[type[Exception], str, Any]] = [
        (ValueError, r"both have the columns \['name', 'town'\]; give a prefix=", [buyer, seller]),
        (KeyError, "the facts have no column 'buyer_town'", [asked(dimensions, "town"), buyer]),
        (TypeError, r"^joins is a LookupJoin; give a list of LookupJoin\(", buyer),
        (TypeError, r"^joins\[1\] is a dict; give LookupJoin\(", [buyer, {"store": people}]),
        (TypeError, r"'name' is string, the key column 'id'", [buyer, other]),
    ]  # fmt: skip
    for kind, message, joins in cases:
        with pytest.raises(kind, match=message):
            lookup_joins(facts, joins)
    with pytest.raises(ValueError, match=r"both have the columns \['name', 'town'\]"):
        lookup_join(lookup_joins(facts, [buyer]), people, {"seller": "id"})
    with pytest.raises(TypeError, match=r"store is a DataFrame; build a store of it first"):
        lookup_join(facts, facts, on="buyer")
    with pytest.raises(TypeError, match="columns: found a Column; give names"):
        lookup_join(facts, people, {"buyer": "id"}, columns=[F.col("name")])  # type: ignore[list-item]
    with pytest.raises(TypeError, match="give a Spark DataFrame"):
        lookup_joins(facts.toPandas(), [buyer])  # type: ignore[arg-type]


def test_explain_says_what_goes_together(facts: DataFrame, dimensions: Dimensions) -> None:
    first = lookup_joins(facts, [asked(dimensions, "buyer")])
    second = asked(dimensions, "town")
    for df, together in ((facts.withColumn("buyer_town", F.lit("t1")), False), (first, True)):
        said = explain_join(df, second.store, second.on, residents=False)
        assert ("one trip for 2 joins" in said.transport) == together


def test_plans_name_stores_and_keys(
    facts: DataFrame, dimensions: Dimensions, transport: str
) -> None:
    joined = lookup_joins(facts, [asked(dimensions, "buyer"), asked(dimensions, "town")])
    plan = joined._jdf.queryExecution().executedPlan().toString()
    assert "lookup people on buyer, towns on buyer_town(" in plan
    people = dimensions.stores["people"]
    moved = lookup_join(facts, people, {"seller": "id"}, "semi", strategy="bucketed")
    plan = moved._jdf.queryExecution().executedPlan().toString()
    assert "bucket of people on seller(" in plan
    assert "lookup people on seller(" in plan


def test_facts_of_files_are_rows_behind_joins_in_our_sessions(
    spark: SparkSession, facts: DataFrame, dimensions: Dimensions, tmp_path: Path
) -> None:
    """Spark would make columns of them once more, and rows again."""
    if spark_trip.arrow_udf is None:
        pytest.skip("Arrow UDFs came with Spark 4.1")
    facts.write.parquet(f"file://{tmp_path}/facts")
    read = spark.read.parquet(f"file://{tmp_path}/facts")
    joined = lookup_joins(read, [asked(dimensions, "buyer")])
    plan = joined._jdf.queryExecution().executedPlan().toString()
    assert 0 < plan.index("ArrowEvalPython") < plan.index("ColumnarToRow")


@pytest.fixture(autouse=True)
def _no_trip_outlives_its_result() -> Iterator[None]:
    yield
    assert len(spark_trip._made) < 50
