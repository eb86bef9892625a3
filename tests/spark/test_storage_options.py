"""Every function for Spark that takes a path takes the options of its object store, or a location.

Nothing in the environment says where the data is, or who asks for it.
"""

from __future__ import annotations

import inspect
import json
import os
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import fs
from pyspark.sql import DataFrame, SparkSession
from support.echo_store import EchoStore, echo_store
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
    with pytest.raises(ValueError, match="storage_options are for URIs"):
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
    with pytest.raises(ValueError, match="storage_options are for URIs"):
        read_table(spark, "/no/table", storage_options=options)
    open_table = HudiTable.open(path, storage_options=options)
    with pytest.raises(ValueError, match="storage_options are for URIs"):
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
    for name in lookupstore.spark._MODULES:
        one = getattr(lookupstore.spark, name)
        parameters = inspect.signature(one).parameters
        if names & set(parameters) and name != "JoinExplanation":
            assert "storage_options" in parameters, name


# ---- what nobody is told

MARK = "Wj4lrXUtn9"
WRONG: list[Any] = [
    MARK, [MARK], {MARK: MARK}, {"sekret": MARK}, {f"key {MARK}": "x"}, {"client_kwargs": MARK},
    {"client_kwargs": {"secret": {"a": MARK}}}, {"anon": MARK}, {"request_timeout": MARK},
    {"key": [MARK]}, {"key": MARK, "AWS_ACCESS_KEY_ID": f"{MARK}2"},
]  # fmt: skip


def takers() -> dict[str, Callable[..., Any]]:
    """Return the functions for Spark that take `storage_options`."""
    found = {name: getattr(lookupstore.spark, name) for name in lookupstore.spark._MODULES}
    return {
        name: one
        for name, one in found.items()
        if "storage_options" in inspect.signature(one).parameters
    }


def call(spark: SparkSession, name: str, uri: str, options: Any) -> Any:
    """Call a function with options, and do what it returns."""
    given: dict[str, Any] = {
        "spark": spark, "df": facts(spark), "df_or_path": facts(spark), "store": uri, "path": uri,
        "table": uri, "on": "id", "key": "id", "by": "id", "name": "found", "query": "q",
        "changes": facts(spark), "rows": facts(spark), "keys": facts(spark),
    }  # fmt: skip
    parameters = inspect.signature(takers()[name]).parameters.values()
    for one in parameters:
        assert one.default is not one.empty or one.name in given, (
            f"{name} has an argument {one.name}: say here what it is given"
        )
    words = {one.name: given[one.name] for one in parameters if one.default is one.empty}
    answer = takers()[name](**words, storage_options=options)
    if isinstance(answer, LookupJoin):
        shown = repr(answer)
        answer = lookup_joins(facts(spark), [answer])
        return shown, answer.collect()
    if isinstance(answer, DataFrame):
        return answer.collect()
    if callable(answer) and name == "hudi_sink":
        answer(facts(spark), 0)
    return answer


def told_by(use: Callable[[], Any], server: EchoStore | None = None) -> str:
    """Return what a call says; it has no marker, and no address of the server."""
    try:
        said = str(use())
    except Exception as error:
        said = "".join(traceback.format_exception(error)) + str(getattr(error, "desc", ""))
    assert MARK.lower() not in said.lower(), said
    assert server is None or server.address not in said, said
    return said


def plans(df: DataFrame) -> str:
    """Return all that Spark says of a query."""
    execution: Any = df._jdf.queryExecution()
    mode = df.sparkSession._jvm.org.apache.spark.sql.execution.ExplainMode
    modes = ("extended", "formatted", "cost", "codegen")
    return execution.toString() + "".join(
        execution.explainString(mode.fromString(one)) for one in modes
    )


def shown_in_the_ui(spark: SparkSession) -> str:
    """Return what Spark's UI has of queries and jobs."""
    sql = spark._jsparkSession.sharedState().statusStore()
    queries = [sql.executionsList().apply(i) for i in range(sql.executionsCount())]
    told = [
        f"{one.physicalPlanDescription()} {one.description()} {one.details()}" for one in queries
    ]
    jobs = spark.sparkContext._jsc.sc().statusStore().jobsList(None)
    told += [f"{jobs.apply(i).name()} {jobs.apply(i).description()}" for i in range(jobs.size())]
    return "\n".join(told)


def marked(address: str) -> dict[str, Any]:
    return {
        "key": f"{MARK}key", "secret": f"{MARK}secret", "token": f"{MARK}token",
        "region": f"{MARK}-region".lower(), "endpoint_url": f"http://{address}",
    }  # fmt: skip


def test_no_option_is_told(spark: SparkSession, server: ObjectStore) -> None:
    """By errors of the driver and of executors, plans, names of jobs, a server that repeats all."""
    assert {"lookup_join", "build_store", "read_table", "upsert", "LookupJoin"} <= set(takers())
    for name in takers():
        for wrong in WRONG if name == "lookup_join" else WRONG[2:5]:
            told_by(lambda name=name, wrong=wrong: call(spark, name, "s3://b/x", wrong))
    with echo_store(server.address) as echo:
        options = marked(echo.address)
        for name in takers():
            said = told_by(lambda name=name: call(spark, name, f"s3://{BUCKET}/no", options), echo)
            assert "Error" in said, name
        path = f"s3://{BUCKET}/marked"
        echo.left = 10**6
        df = spark.createDataFrame(ROWS.slice(0, 60).to_pandas())
        built = build_store(df, path, key="id", buckets=2, storage_options=options)
        told_by(lambda: f"{built!r} {built.path}", echo)
        built.close()
        joined = lookup_join(facts(spark), path, on="id", storage_options=options)
        told_by(lambda: plans(joined), echo)
        told_by(lambda: explain_join(facts(spark), path, on="id", storage_options=options), echo)
        text = json.dumps(options)
        read = spark.read.format("lookupstore").option("storage_options", text).load(path)
        told_by(lambda: plans(read), echo)
        for use in (joined.collect, read.collect):  # in executors
            echo.left = 0
            assert "PythonException" in told_by(use, echo) or "Error" in told_by(use, echo)
        for wrong in ("[]", f"{{{MARK}", json.dumps({"sekret": MARK}), json.dumps({"key": [MARK]})):
            load = spark.read.format("lookupstore").option("storage_options", wrong).load
            told_by(lambda load=load: load(path))
            write = df.write.format("lookupstore").option("storage_options", wrong)
            told_by(lambda write=write: write.option("key", "id").mode("append").save(path))
        told_by(lambda: shown_in_the_ui(spark), echo)
