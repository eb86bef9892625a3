"""Every function for Spark that takes a path takes the options of its object store, or a location.

Nothing in the environment says where the data is, or who asks for it.
"""

from __future__ import annotations

import inspect
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import fs
from pyspark.sql import DataFrame, SparkSession
from support.object_store import (
    BUCKET,
    SECRET,
    ObjectStore,
    deltalake_names,
    pandas_names,
    writable_object_store,
)

import lookupstore
import lookupstore.spark
from lookupstore.hudi import HudiTable
from lookupstore.spark import (
    LookupJoin,
    build_store,
    cluster_table,
    explain_join,
    hudi_sink,
    lookup_join,
    lookup_joins,
    read_table,
    register_lookup,
    tag_location,
    update_store,
    upsert,
)
from lookupstore.storage.location import Location

pytestmark = pytest.mark.spark

ROWS = pa.table({"id": pa.array(range(100), pa.int64()), "v": [str(k) for k in range(100)]})
WANTED = {k: str(k) if k < 100 else None for k in range(90, 110)}


@pytest.fixture(scope="module")
def server() -> Iterator[ObjectStore]:
    assert "AWS_ACCESS_KEY_ID" not in os.environ
    with writable_object_store() as server:
        yield server


def facts(spark: SparkSession) -> DataFrame:
    return spark.createDataFrame([(k,) for k in WANTED], "id long")


def found(joined: DataFrame) -> dict[int, str | None]:
    return {row.id: row.v for row in joined.collect()}


def test_stores(spark: SparkSession, server: ObjectStore) -> None:
    options = pandas_names(server)
    path = f"s3://{BUCKET}/store"
    df = spark.createDataFrame(ROWS.slice(0, 60).to_pandas())
    build_store(df, path, key="id", buckets=2, storage_options=options).close()
    more = spark.createDataFrame(ROWS.slice(60).to_pandas())
    update_store(more, path, storage_options=options).close()

    assert found(lookup_join(facts(spark), path, on="id", storage_options=options)) == WANTED
    other = LookupJoin(path, on="id", prefix="again_", storage_options=options)
    assert SECRET not in repr(other)
    twice = lookup_joins(facts(spark), [LookupJoin(path, on="id", storage_options=options), other])
    assert {row.id: row.again_v for row in twice.collect()} == found(twice) == WANTED
    told = explain_join(facts(spark), path, on="id", residents=False, storage_options=options)
    assert SECRET not in str(told)
    stored = register_lookup(spark, "stored", path, storage_options=options)
    assert found(facts(spark).select("id", stored("id").v.alias("v"))) == WANTED
    with pytest.raises(ValueError, match="storage_options are of URIs"):
        lookup_join(facts(spark), "/no/store", on="id", storage_options=options)


def test_columnar_files_and_hudi_tables(spark: SparkSession, server: ObjectStore) -> None:
    options = deltalake_names(server)
    folder = f"s3://{BUCKET}/other"
    with Location(folder, storage_options=options).new_file("rows.parquet") as file:
        pq.write_table(ROWS, file)
    files = f"{folder}/rows.parquet"
    assert found(lookup_join(facts(spark), files, on="id", storage_options=options)) == WANTED

    path = f"{folder}/table"
    HudiTable.create(path, ROWS, record_key=["id"], name="t", storage_options=options)
    df = spark.createDataFrame(ROWS.slice(0, 60).to_pandas())
    assert upsert(df, path, storage_options=options).rows_inserted == 60
    sink = hudi_sink(path, query="q", storage_options=options)
    sink(spark.createDataFrame(ROWS.slice(60).to_pandas()), 0)
    assert read_table(spark, path, columns=["id"], storage_options=options).count() == 100
    placed = tag_location(facts(spark), path, storage_options=options)
    assert placed.where("_file_id IS NOT NULL").count() == 10
    assert cluster_table(spark, path, "id", storage_options=options).files_after == 1
    joined = lookup_join(facts(spark), path, on="id", columns=["v"], storage_options=options)
    assert found(joined) == WANTED
    with pytest.raises(ValueError, match="storage_options are of URIs"):
        read_table(spark, "/no/table", storage_options=options)
    open_table = HudiTable.open(path, storage_options=options)
    with pytest.raises(ValueError, match="storage_options are of URIs"):
        upsert(df, open_table, storage_options=options)


@pytest.mark.parametrize("kind", ["store", "file", "table"])
def test_a_location_is_joined_with(spark: SparkSession, tmp_path: Path, kind: str) -> None:
    name = {"store": "store", "file": "file.parquet", "table": "table"}[kind]
    if kind == "store":
        lookupstore.build(ROWS, tmp_path / name, key="id").close()
    elif kind == "file":
        pq.write_table(ROWS, tmp_path / name)
    else:
        HudiTable.create(tmp_path / name, ROWS, record_key=["id"], name="t").insert(ROWS)
    place = Location(name, filesystem=fs.SubTreeFileSystem(str(tmp_path), fs.LocalFileSystem()))
    assert found(lookup_join(facts(spark), place, on="id", columns=["v"])) == WANTED


def test_no_function_that_takes_a_path_was_left_out() -> None:
    names: Any = {"store", "path", "table"}
    for name in [*lookupstore.spark.__all__, *lookupstore.spark._OF_HUDI]:
        one = getattr(lookupstore.spark, name)
        parameters = inspect.signature(one).parameters
        if names & set(parameters) and name != "JoinExplanation":
            assert "storage_options" in parameters, name
