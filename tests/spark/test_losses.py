"""What Spark's columns lose on their way, as `lookupstore.source.losses` lists it."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import orc
from pyspark.sql import SparkSession

import lookupstore
from lookupstore.spark import build_store, lookup_join, register_lookup
from lookupstore.spark.types import arrow_schema

pytestmark = [
    pytest.mark.spark,
    pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"),
]


def test_a_function_compares_collated_text_as_bytes(spark: SparkSession, tmp_path: Path) -> None:
    lookupstore.build({"k": ["a"], "v": [1]}, tmp_path / "s", key="k").close()
    register_lookup(spark, "at_key", str(tmp_path / "s"))
    query = "SELECT at_key('A' COLLATE UTF8_LCASE).v AS found, at_key('a').v AS same"
    (row,) = spark.sql(query).collect()
    assert (row.found, row.same) == (None, 1)


@pytest.mark.parametrize("kind", ["parquet", "orc"])
def test_a_column_of_some_files_is_not_left_out(
    spark: SparkSession, tmp_path: Path, kind: str
) -> None:
    """Whichever file Spark takes the columns of; also where types differ, which it cannot merge."""
    write = {"parquet": pq.write_table, "orc": orc.write_table}[kind]
    said = rf"[ab]\.{kind} has the column '(more|other)', which other files lack.*mergeSchema"
    for number, key in enumerate((pa.array([2]), pa.array([2], pa.int32()))):
        path = tmp_path / f"{number}" / "day=1"
        path.mkdir(parents=True)
        write(pa.table({"id": [1], "v": ["a"], "other": [0.5]}), path / f"a.{kind}")
        write(pa.table({"id": key, "v": ["b"], "more": [1]}), path / f"b.{kind}")
        with pytest.raises(ValueError, match=said):
            build_store(tmp_path / f"{number}", tmp_path / "s", key="id", spark=spark)
    given = str(tmp_path / "0")
    with build_store(given, tmp_path / "s", key="id", columns=["v"], spark=spark) as store:
        assert [store[1], store[2]] == [{"v": "a"}, {"v": "b"}]
    merged = spark.read.option("mergeSchema", "true").format(kind).load(given)
    with build_store(merged, tmp_path / "s", key="id", overwrite=True) as store:
        assert store[1] == {"v": "a", "other": 0.5, "more": None, "day": 1}
        assert store[2] == {"v": "b", "other": None, "more": 1, "day": 1}
    joined = lookup_join(spark.range(3), given, on="id")
    assert set(joined.columns) == {"id", "v", "other", "more", "day"}


def test_local_times_of_orc_are_those_of_spark(spark: SparkSession, tmp_path: Path) -> None:
    """Also in other types, in which ORC has them as integers, too."""
    path = str(tmp_path / "t")
    local = "timestamp_ntz'0001-02-03 04:05:06.000007'"
    spark.sql(
        f"SELECT 1L AS id, {local} AS at, named_struct('a', array({local}, null)) AS s,"
        f" map('k', {local}) AS m, {local} IS NULL AS b, 5L AS n"
    ).coalesce(1).write.orc(path)
    (row,) = spark.read.orc(path).select("at", "s", "m", "n").toArrow().to_pylist()
    with (
        lookupstore.build(path, tmp_path / "a", key="id") as store,
        build_store(path, tmp_path / "b", key="id", spark=spark) as by_spark,
    ):
        assert store.value_schema.types == by_spark.value_schema.types
        assert {name: store[1][name] for name in row} == row
        assert store[1] == by_spark[1]
    facts = spark.read.orc(path).select("at")
    assert lookup_join(facts, path, on="at").select("id", "n").collect() == [(1, 5)]


@pytest.mark.parametrize("kind", ["parquet", "orc"])
def test_intervals_are_integers_in_files(spark: SparkSession, tmp_path: Path, kind: str) -> None:
    interval = "INTERVAL '1 00:00:00.000001' DAY TO SECOND AS d, INTERVAL '1-2' YEAR TO MONTH AS m"
    frame = spark.sql(f"SELECT 1L AS id, {interval}").coalesce(1)
    frame.write.format(kind).save(str(tmp_path / "t"))
    with lookupstore.build(tmp_path / "t", tmp_path / "s", key="id") as store:
        assert store[1] == {"d": 86_400_000_001, "m": 14}


@pytest.mark.parametrize("value", ["parse_json('{}')", "INTERVAL '1' YEAR", "make_interval(1, 2)"])
def test_types_that_spark_does_not_give_to_arrow(spark: SparkSession, value: str) -> None:
    schema = spark.sql(f"SELECT 1 AS id, {value} AS v").schema
    with pytest.raises(TypeError, match=r"column 'v' is .*, which Spark cannot give to Arrow; "):
        arrow_schema(schema)
