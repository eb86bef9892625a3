"""Joins that follow plain files: their paths are listed again for each query or micro-batch."""

from __future__ import annotations

import os
import shutil
import time
import warnings
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.errors import PythonException
from pyspark.sql import SparkSession

from lookupstore import StaleStoreError
from lookupstore.columnar import ColumnarFiles
from lookupstore.hudi import HudiTable
from lookupstore.spark import LookupMetrics, explain_join, lookup_join
from lookupstore.spark.join.plan import plan_join
from lookupstore.spark.join.request import LookupJoin
from lookupstore.spark.join.task import Task

pytestmark = [
    pytest.mark.spark,
    pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"),
]


def write(path: Path, rows: dict[int, int], written: float | None = None) -> None:
    """Write a file as if it had been there for some time."""
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table({"id": [*rows], "v": [*rows.values()]}), path)
    at = time.time() - 100 if written is None else written
    os.utime(path, (at, at))


@pytest.mark.parametrize("is_glob", [False, True])
def test_each_micro_batch_has_the_rows_of_the_files_that_are_there(
    spark: SparkSession, tmp_path: Path, is_glob: bool
) -> None:
    dim, facts = tmp_path / "dim", tmp_path / "facts"
    write(dim / "a.parquet", {1: 10})
    write(dim / "b.parquet", {2: 20})
    facts.mkdir()
    stream = spark.readStream.schema("id long").parquet(f"file://{facts}")
    metrics = LookupMetrics(spark)
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # a stream that joins the same files for ever would warn
        given = f"{dim}/*.parquet" if is_glob else str(dim)
        joined = lookup_join(stream, given, "id", max_staleness="1h", metrics=metrics)
    batches: dict[int, dict[int, int]] = {}

    def collect(found: Any, batch: int) -> None:
        batches[batch] = {row.id: row.v for row in found.collect() if row.v is not None}

    def batch(number: int) -> dict[int, int]:
        pq.write_table(pa.table({"id": range(6)}), facts / f".{number}")
        (facts / f".{number}").rename(facts / f"{number}.parquet")
        for _ in range(600):
            if number in batches:
                break
            assert query.exception() is None, query.exception()
            time.sleep(0.1)
        return batches[number]

    query = (
        joined.writeStream.foreachBatch(collect)
        .option("checkpointLocation", f"file://{tmp_path}/checkpoint")
        .start()
    )
    try:
        assert batch(0) == {1: 10, 2: 20}
        write(dim / "c.parquet", {3: 30})
        assert batch(1) == {1: 10, 2: 20, 3: 30}
        write(dim / "b.parquet", {2: 21, 4: 40}, written=time.time() - 50)
        os.unlink(dim / "a.parquet")
        assert batch(2) == {2: 21, 3: 30, 4: 40}
        assert batch(3) == batches[2]
    finally:
        query.stop()
    assert metrics.counts.failed_refreshes == 0
    assert metrics.counts.refreshes >= 4


def test_a_new_partition_is_the_latest_at_the_next_look(
    spark: SparkSession, tmp_path: Path
) -> None:
    write(tmp_path / "day=2026-11-30/0.parquet", {1: 10, 2: 20})
    facts = spark.range(4)
    files = ColumnarFiles(tmp_path, key="id", columns=["v"], latest_partition="day")
    planned = {
        refresh: lookup_join(facts, files, "id", refresh=refresh)
        for refresh in ("never", "per_batch", "1s")
    }
    write(tmp_path / "day=2026-12-01/0.parquet", {1: 11, 3: 31})
    found = {
        refresh: {row.id: row.v for row in joined.collect() if row.v is not None}
        for refresh, joined in planned.items()
    }
    new = {1: 11, 3: 31}
    assert found == {"never": {1: 10, 2: 20}, "per_batch": new, "1s": new}


def test_files_are_listed_once_for_each_moment(
    spark: SparkSession,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    dim = tmp_path / "dim"
    write(dim / "a.parquet", {1: 0}, written=1000)
    planned = ColumnarFiles(dim, key="id")
    looks: list[float] = []
    listed_before = ColumnarFiles.listed_before

    def counted(files: ColumnarFiles, moment: Any) -> ColumnarFiles:
        looks.append(moment.timestamp())
        return listed_before(files, moment)

    monkeypatch.setattr(ColumnarFiles, "listed_before", counted)

    def answer(refresh: Any, moment: float, **asked: Any) -> dict[int, int]:
        join = LookupJoin(planned, "id", refresh=refresh, **asked)
        plan = plan_join(spark, spark.range(1).schema, planned, join)
        with Task(plan.lookup) as task:
            found = task.dimension_at(moment)
            return {key: row["v"] for key in range(4) if (row := found.get(key)) is not None}

    assert answer(60, 1270) == answer(60, 1275) == {1: 0}
    assert looks == [1258]
    write(dim / "b.parquet", {2: 2}, written=1290)
    assert answer(60, 1299) == {1: 0}
    assert answer(60, 1330) == {1: 0, 2: 2}
    assert looks == [1258, 1318]
    assert answer("per_batch", 1340, max_staleness=50) == {1: 0, 2: 2}
    with pytest.raises(StaleStoreError, match=r"newest file was written 0:01:00 .*; write the fi"):
        answer("per_batch", 1350, max_staleness=50)
    with pytest.raises(StaleStoreError, match="newest file was written 0:05:00 before the query"):
        answer(None, 1300, max_staleness="1m")  # files as planned
    shutil.rmtree(dim)  # as when another program writes all files again
    assert answer("per_batch", 1400) == {1: 0, 2: 2}
    assert "could not check for newer files: source: " in caplog.text
    write(dim / "c.parquet", {3: 3}, written=1450)
    assert answer("per_batch", 1400) == {3: 3}


def test_missing_keys_are_looked_up_in_files_that_were_added(
    spark: SparkSession, tmp_path: Path
) -> None:
    write(tmp_path / "a.parquet", {1: 10})
    files = ColumnarFiles(tmp_path, key="id")
    joined = lookup_join(spark.range(1, 3), files, "id", "inner", on_miss=("retry", 1, 0))
    write(tmp_path / "b.parquet", {2: 20}, written=time.time())
    assert sorted((row.id, row.v) for row in joined.collect()) == [(1, 10), (2, 20)]
    write(tmp_path / "b.parquet", {1: 11, 2: 20})
    repeated = lookup_join(spark.range(1, 3), files, "id", refresh="per_batch")
    with pytest.raises(PythonException, match=r"DuplicateKeyError: the key id=1 is in .*a.parquet"):
        repeated.collect()
    said = explain_join(spark.range(3), str(tmp_path), "id", refresh="1 min", residents=False)
    assert said.format == "columnar files"
    assert "60 s" in said.refresh


def test_files_of_a_hudi_table_are_not_listed(spark: SparkSession, tmp_path: Path) -> None:
    table = HudiTable.create(tmp_path / "t", pa.schema({"id": pa.int64()}), record_key="id")
    table.insert(pa.table({"id": [1]}))
    files = ColumnarFiles(tmp_path / "t", key="id")
    for options in ({"refresh": "per_batch"}, {"max_staleness": 5}, {"on_miss": ("retry", 1, 0)}):
        with pytest.raises(ValueError, match="not for ColumnarFiles of a Hudi table; pass the pat"):
            lookup_join(spark.range(3), files, "id", **options)
