"""Lookups as functions of Spark SQL; the oracle is Spark's own join on the same rows."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import deltalake
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.errors import PythonException
from pyspark.sql import SparkSession

import lookupstore
from lookupstore.columnar import ColumnarFiles
from lookupstore.hudi import HudiTable
from lookupstore.spark import register_lookup
from lookupstore.spark.join import trip

pytestmark = [
    pytest.mark.spark,
    pytest.mark.skipif(trip.arrow_udf is None, reason="Arrow UDFs came with Spark 4.1"),
]

KEYS = 300


def table(rng: random.Random) -> pa.Table:
    """Return rows of a key of two columns, with value columns whose names SQL has to quote."""
    ids = rng.sample(range(2 * KEYS), KEYS)
    return pa.table(
        {
            "region": [f"r{one % 3}" for one in ids],
            "id": pa.array(ids, pa.int32()),
            "a.b": [rng.choice([None, one, -one]) for one in ids],
            "Name": [rng.choice([None, "", f"n{one}"]) for one in ids],
            "list of": [rng.choice([None, [], [one, None]]) for one in ids],
            "deep": [rng.choice([None, {"x": one, "y": None}]) for one in ids],
        }
    )


def test_a_function_gives_what_a_join_gives(spark: SparkSession, tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    rows = table(rng)
    with lookupstore.build(rows, tmp_path / "s", key=["region", "id"], buckets=3) as store:
        row = register_lookup(spark, "row_of", store)
        register_lookup(spark, "some_of", store, ["deep", "a.b"])
        register_lookup(spark, "is_there", store, [])
    keys = [(one["region"], one["id"]) for one in rows.to_pylist()]
    others = [(region, i) for region in (None, "r0", "r9") for i in (None, *range(9))]
    facts = [(n, *rng.choice(rng.choice([keys, others]))) for n in range(1000)]
    given = spark.createDataFrame(facts, "n int, region string, i bigint").repartition(5)
    given.createOrReplaceTempView("facts")
    oracle = {(one["region"], one["id"]): one for one in rows.to_pylist()}
    query = """
        SELECT n, row_of(region, i).`a.b` AS a, row_of(region, i).Name AS name,
            row_of(region, i).deep.x AS x,
            some_of(region, i) AS some, is_there(region, i) AS there,
            row_of(region, i).`list of` AS l
        FROM facts
        """
    found = {one.n: one for one in spark.sql(query).collect()}
    assert sum(one.there for one in found.values()) > 50
    for n, region, i in facts:
        wanted = oracle.get((region, i))
        one = found[n]
        assert one.there == (wanted is not None)
        if wanted is None:
            assert (one.a, one.name, one.x, one.some, one.l) == (None,) * 5
            continue
        deep = wanted["deep"]
        assert (one.a, one.name, one.l) == (wanted["a.b"], wanted["Name"], wanted["list of"])
        assert one.x == (None if deep is None else deep["x"])
        assert one.some.asDict(recursive=True) == {"deep": deep, "a.b": wanted["a.b"]}
    # In a filter, and by the function that was returned.
    named = {n for n, one in found.items() if one.there and (one.name or "") > "n4"}
    assert {
        one.n
        for one in spark.sql("SELECT n FROM facts WHERE row_of(region, i).Name > 'n4'").collect()
    } == named
    assert {
        one.n for one in given.where(row("region", "i").Name > "n4").select("n").collect()
    } == named


def test_it_stays_on_its_version_until_it_is_registered_again(
    spark: SparkSession, tmp_path: Path
) -> None:
    path = tmp_path / "s"
    lookupstore.build(pa.table({"id": [1], "v": [1]}), path, key="id").close()
    register_lookup(spark, "versioned", path)
    lookupstore.upsert(path, pa.table({"id": [1], "v": [2]})).close()
    query = "SELECT versioned(id).v FROM range(2) ORDER BY id"
    assert [row.v for row in spark.sql(query.replace(").v", ").v AS v")).collect()] == [None, 1]
    register_lookup(spark, "versioned", str(path))
    assert [row.v for row in spark.sql(query.replace(").v", ").v AS v")).collect()] == [None, 2]


def test_files_as_they_are(spark: SparkSession, tmp_path: Path) -> None:
    rows = pa.table({"id": range(50), "v": [f"v{i}" for i in range(50)]})
    pq.write_table(rows, tmp_path / "rows.parquet")
    files = ColumnarFiles(str(tmp_path / "rows.parquet"), key="id")
    for store, key in ((files, None), (tmp_path / "rows.parquet", "id")):
        register_lookup(spark, "of_files", store, key=key)
        found = spark.sql("SELECT of_files(id + 40).v AS v FROM range(20) ORDER BY id").collect()
        assert [row.v for row in found] == [f"v{i}" if i < 50 else None for i in range(40, 60)]


@pytest.mark.parametrize(
    ("call", "error"),
    [
        ("bad('a')", "bad(): the value for the key column 'id' is string, but the key is int64"),
        ("bad('a')", "the key is int64; cast it to bigint"),
        ("bad(1, 2)", "bad() takes (id), the key, but got 2 arguments"),
    ],
)
def test_arguments_that_are_no_keys_fail_the_query(
    spark: SparkSession, tmp_path: Path, call: str, error: str
) -> None:
    with lookupstore.build(pa.table({"id": [1], "v": [1]}), tmp_path / "s", key="id") as store:
        register_lookup(spark, "bad", store)
        with pytest.raises(PythonException) as caught:
            spark.sql(f"SELECT {call}").collect()
    assert "TypeError: bad()" in str(caught.value)
    assert error in str(caught.value)


def test_errors_when_registered(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    deltalake.write_deltalake(tmp_path / "delta", pa.table({"id": [1], "v": [1]}))
    with lookupstore.build(pa.table({"id": [1], "v": [1]}), tmp_path / "s", key="id") as store:
        wrong: list[tuple[Any, ...]] = [
            (("a b", store), ValueError, "letters, digits and underscores"),
            (("f", store, ["w"]), KeyError, "w"),
            (("f", tmp_path / "none"), FileNotFoundError, "none"),
            (("Upper", store), ValueError, "'Upper', a function of Spark; give another name"),
            (("f", tmp_path / "delta"), ValueError, "key is empty; .*, such as key='id'"),
            (("f", 7), TypeError, "store is a int"),
            (("f", store, None, "v"), ValueError, "the key of .* is"),
        ]
        for arguments, kind, text in wrong:
            with pytest.raises(kind, match=text):
                register_lookup(spark, *arguments[:3], key=(*arguments, None, None)[3])
        monkeypatch.setattr(trip, "arrow_udf", None)
        with pytest.raises(RuntimeError, match=r"need Spark 4\.1"):
            register_lookup(spark, "f", store)


def test_a_hudi_table_is_looked_up_by_its_record_key(spark: SparkSession, tmp_path: Path) -> None:
    rows = pa.table({"id": ["a", "b"], "day": ["x", "y"], "v": [1, 2]})
    made = HudiTable.create(tmp_path / "t", rows, record_key="id", partition_by="day", name="t")
    made.insert(rows)
    for number, table in enumerate((tmp_path / "t", HudiTable.open(tmp_path / "t"))):
        register_lookup(spark, f"hudi_{number}", table, ["v"])
        query = f"SELECT hudi_{number}('b').v, hudi_{number}('c').v"
        assert spark.sql(query).collect() == [(2, None)]
    register_lookup(spark, "in_day", tmp_path / "t", ["v"], key=["id", "day"])
    assert spark.sql("SELECT in_day('b', 'y').v, in_day('b', 'x').v").collect() == [(2, None)]
