"""Bulk inserts, overwrites, deleted partitions and dry runs from Spark, as in one process.

The oracles are the verbs of `HudiTable` on a copy of the table, hudi-rs, and Spark's own reader of
Parquet files. Executors are processes of their own.
"""

from __future__ import annotations

import itertools
import os
import random
import shutil
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark import TaskContext, cloudpickle
from pyspark.sql import SparkSession
from support.hudi.oracle import assert_same_rows, other_scan
from support.hudi.spark_rows import (
    SCHEMA,
    Row,
    check,
    commits,
    instants,
    local_rows,
    make,
    numbers,
    spark_rows,
)

import lookupstore
from lookupstore.hudi import HudiTable, WriteOptions
from lookupstore.hudi.timeline.work_files import STAGED
from lookupstore.hudi.write.partitioner import FileSizing
from lookupstore.spark import hudi_merge, tag_location, upsert
from lookupstore.spark.hudi import bulk

pytestmark = [
    pytest.mark.spark,
    # PySpark 4.0 leaves sockets to the garbage collector.
    pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"),
]
# Executors cannot import this module: what they run of it is sent to them.
cloudpickle.register_pickle_by_value(sys.modules[__name__])

#: What only a process that has all rows counts.
UNCOUNTED: dict[str, Any] = {"rows_read": None, "rows_combined": None}


def all_rows(path: Path) -> Counter[Row]:
    rows = HudiTable.open(path).scan(columns=SCHEMA.names).to_pylist()
    return Counter(tuple(one.values()) for one in rows)


def some_rows(rng: random.Random, count: int, days: str, value: str) -> list[Row]:
    """Return rows with repeated keys, of which some delete; all ordering values are different."""
    return [
        (rng.randrange(90), rng.choice(days), float(rng.randrange(99) * 1000 + n), value,
         rng.random() < 0.1)
        for n in range(count)
    ]  # fmt: skip


def contents(path: Path) -> dict[str, bytes]:
    return {
        str(file.relative_to(path)): file.read_bytes() for file in path.rglob("*") if file.is_file()
    }


@pytest.mark.few(1)
@pytest.mark.parametrize("version", [6, 9])
def test_overwrites_deletes_and_dry_runs(
    spark: SparkSession, tmp_path: Path, version: int, seed: int
) -> None:
    rng = random.Random(seed)
    ours = tmp_path / "spark"
    make(ours, ordering="ts", version=version, hive_style=version == 9)
    # Several files in a partition.
    sizing = FileSizing(max_file_size=8_000, small_file_limit=4_000, record_size=200)
    plain, all_come = WriteOptions(sizing=sizing), WriteOptions(sizing=sizing, combine=False)
    steps: list[tuple[Any, WriteOptions, str, int]] = [
        ("insert_overwrite", plain, "abc", 150),
        ("upsert", plain, "abc", 60),
        ("insert_overwrite", plain, "bd", 120),
        ("insert_overwrite", all_come, "a", 70),
        ("delete_partition", plain, "bc", 9),
        ("delete", plain, "ad", 40),
        ("insert_overwrite_table", plain, "ce", 130),
        ("insert_overwrite_table", all_come, "c", 40),
        ("insert_overwrite", plain, "c", 0),
        ("insert_overwrite_table", plain, "c", 0),
    ]
    for step, (verb, options, days, count) in enumerate(steps):
        rows = some_rows(rng, count, days, f"{step}")
        local = HudiTable.open(shutil.copytree(ours, tmp_path / f"local-{step}"))
        given: Any = local_rows(rows)
        df = spark_rows(spark, rows)
        if verb == "delete_partition":
            found = {row[1] for row in rows}
            given = sorted(f"day={one}" if version == 9 else one for one in found)
            df = df.select("value", "day")
        before = contents(ours)
        tried = upsert(df, ours, operation=verb, options=options, dry_run=True)
        assert contents(ours) == before
        expected = getattr(local, verb)(given, options=options, dry_run=True)
        uncounted = {} if verb == "delete_partition" else UNCOUNTED
        assert tried == replace(expected, **uncounted), verb
        done = upsert(df, ours, operation=verb, options=options)
        expected = getattr(local, verb)(given, options=options)
        same = {"instant": None, "bytes_written": 0, "files_new": 0, "files_written": ()}
        assert replace(done, **same) == replace(expected, **same, **uncounted), verb
        assert done.files_new == expected.files_new == tried.files_new, verb
        folders, local_folders = (
            sorted(Path(file).parent for file in one.files_written) for one in (done, expected)
        )
        assert folders == local_folders
        planned, written = commits(ours)[-1]
        local_plan, local_written = commits(tmp_path / f"local-{step}")[-1]
        assert numbers(planned) == numbers(local_plan)
        assert numbers(written) == numbers(local_written)
        assert written.replaced == local_written.replaced
        assert written.operation == local_written.operation == verb.upper()
        assert all_rows(ours) == all_rows(tmp_path / f"local-{step}"), verb
        assert_same_rows(HudiTable.open(ours).scan(), other_scan(ours))
    assert not all_rows(ours)
    assert len(instants(ours)) == len(steps)
    if version == 9:
        check(ours)


SORTS = [
    WriteOptions(),
    WriteOptions(sort_mode="global_sort"),
    WriteOptions(sort_mode="global_sort", sort_by=["value", "ts"]),
    WriteOptions(sort_mode="partition_sort"),
]


@pytest.mark.few(1)
@pytest.mark.parametrize("options", SORTS, ids=lambda one: f"{one.sort_mode}-{len(one.sort_by)}")
def test_bulk_inserts(
    spark: SparkSession, tmp_path: Path, options: WriteOptions, seed: int
) -> None:
    rng = random.Random(seed)
    path = tmp_path / "t"
    make(path, ordering="ts")
    rows = [
        (rng.randrange(2000), rng.choice("abc"), rng.choice([float(rng.randrange(9)), None]),
         rng.choice(["x", "y", None, "é"]), rng.random() < 0.1)
        for _ in range(3000)
    ]  # fmt: skip
    kept = Counter(row[:4] for row in rows if not row[4])
    format = replace(options.format, row_group_bytes=4096)
    options = replace(options, sizing=FileSizing(max_file_size=12_000), format=format)
    df = spark_rows(spark, rows, 4)
    local = HudiTable.open(shutil.copytree(path, tmp_path / "local"))
    tried = upsert(df, path, operation="bulk_insert", options=options, dry_run=True)
    expected = local.bulk_insert(local_rows(rows), options=options, dry_run=True)
    assert tried == replace(expected, **UNCOUNTED)
    assert not instants(path)
    # Twice: a bulk insert goes to files of its own, and looks at no key.
    for times in (1, 2):
        done = upsert(df, path, operation="bulk_insert", options=options)
        assert done.rows_inserted == done.rows_written == sum(kept.values()) == tried.rows_inserted
        assert all_rows(path) == Counter({row: times * count for row, count in kept.items()})
        assert done.instant == instants(path)[-1]
    assert commits(path)[-1][1].operation == "BULK_INSERT"
    groups = HudiTable.open(path).file_groups()
    assert done.instant is not None
    last = [one.current for one in groups if one.current.time == done.instant.time]
    assert len(last) == done.files_new > 3
    read = spark.read.parquet(*[str(path / one.path) for one in last])
    assert Counter(tuple(row) for row in read.select(*SCHEMA.names).collect()) == kept
    # No two rows of a commit have one number.
    assert read.select("_hoodie_commit_seqno").distinct().count() == done.rows_written
    names = [options.sort_by[0], options.sort_by[1]] if options.sort_by else ["_hoodie_record_key"]
    orders: dict[str, list[list[Any]]] = {}
    for one in last:
        columns = pq.read_table(path / one.path, partitioning=None).select(names).to_pydict()
        values = zip(*columns.values(), strict=True)
        # Nulls first, texts by their bytes.
        keys = [
            tuple(
                (part is not None, part.encode() if isinstance(part, str) else part or 0)
                for part in value
            )
            for value in values
        ]
        if options.sort_mode != "none":
            assert keys == sorted(keys), one.path
        orders.setdefault(one.group.partition, []).append(keys)
    assert set(orders) == set("abc")
    if options.sort_mode == "global_sort":  # each file has a range of its own
        for files in orders.values():
            files.sort()
            assert all(a[-1] <= b[0] for a, b in itertools.pairwise(files))
    assert not list(path.glob(f"{STAGED}/*"))
    found = HudiTable.open(path).verify()
    assert {one.kind for one in found.findings} <= {"duplicate"}, found
    assert_same_rows(HudiTable.open(path).scan(), other_scan(path))


class Fails:
    """The first attempt of each task, which fails after its files are written."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        self._folder = str(folder)

    def __call__(self, task: Any, batches: Any) -> Iterator[pa.RecordBatch]:
        from lookupstore.spark.hudi.bulk import insert_rows

        context = TaskContext.get()
        assert context is not None
        written = list(insert_rows(task, batches))
        yield from written[1:]
        number = context.partitionId()
        with open(f"{self._folder}/{number}-{context.taskAttemptId()}", "x"):
            pass
        if sum(name.startswith(f"{number}-") for name in os.listdir(self._folder)) == 1:
            raise RuntimeError("a task fails for a test")
        yield from written[:1]


def test_tasks_of_a_bulk_insert_that_fail_after_they_wrote(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "t"
    make(path)
    rows = [(n, "ab"[n % 2], float(n), "x") for n in range(200)]
    fails = Fails(tmp_path / "attempts")
    monkeypatch.setattr(bulk, "insert_rows", fails)
    done = upsert(spark_rows(spark, rows), path, operation="bulk_insert")
    assert len(os.listdir(tmp_path / "attempts")) == 6
    assert (done.rows_inserted, done.files_new) == (200, 6)
    assert all_rows(path) == Counter(rows)
    check(path)


def test_errors_of_operations(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "t"
    table = make(path)
    table.insert(local_rows([(1, "a", 1.0, "x")]))
    before = contents(path)
    df = spark_rows(spark, [(1, "a", 1.0, "y"), (2, "b", 1.0, "y")])
    no_key = spark_rows(spark, [(None, "a", 1.0, "y")], 1)
    by = WriteOptions(sort_mode="global_sort", sort_by="no")
    refused: list[tuple[Any, dict[str, Any], type[Exception], str]] = [
        (df, {"operation": "delete_partition"}, KeyError, "no partition 'b'; it has 'a'"),
        (
            df.drop("day"),
            {"operation": "delete_partition"},
            KeyError,
            "no single column 'day'; there are 'id'",
        ),
        (df, {"operation": "bulk_insert", "options": by}, KeyError, "sort_by: the table has no"),
        (
            df,
            {"operation": "bulk_insert", "options": WriteOptions(combine=True)},
            ValueError,
            "a bulk insert does not compare rows",
        ),
        (no_key, {"operation": "bulk_insert"}, ValueError, "has no record key: id is null"),
        (no_key, {"operation": "insert_overwrite"}, ValueError, "has no record key: id is null"),
    ]
    for rows, arguments, kind, text in refused:
        for dry_run in (True, False):
            with pytest.raises(kind, match=text):
                upsert(rows, path, **arguments, dry_run=dry_run)
    files = {name for name in contents(path) if name.endswith(".parquet")}
    assert files == {name for name in before if name.endswith(".parquet")}
    assert not list(path.glob(f"{STAGED}/*"))
    assert len(instants(path)) == 1
    assert all_rows(path) == Counter([(1, "a", 1.0, "x")])
    # Columns that rows lack are null, and so sort nothing.
    by = WriteOptions(sort_mode="global_sort", sort_by=["value"], missing="null")
    done = upsert(df.drop("value"), path, operation="bulk_insert", options=by)
    assert done.rows_inserted == 2
    assert len(upsert(df, path, operation="delete_partition").files_replaced) == 3
    assert not all_rows(path)


def test_keys_to_delete_that_have_the_text_of_others(spark: SparkSession, tmp_path: Path) -> None:
    """A row is not deleted by the key of another one, as in one process."""
    schema = pa.schema({"a": pa.string(), "b": pa.string(), "n": pa.int32(), "v": pa.int64()})
    table = HudiTable.create(tmp_path / "t", schema, record_key=["a", "b", "n"])
    stored = {"a": "x,b:y", "b": "z", "n": 1}
    other = {"a": "x", "b": "y,b:z", "n": 1}
    table.insert([{**stored, "v": 1}, {"a": "k", "b": "k", "n": 2, "v": 2}])

    def keys(*given: dict[str, Any]) -> Any:
        return spark.createDataFrame([*given], "b string, a string, n long")

    for rows in (keys(other), keys(stored, other)):
        with pytest.raises(ValueError, match="have different keys and one record key"):
            upsert(rows, table, operation="delete")
    assert len(table) == 2
    assert upsert(keys(stored, stored), table, operation="delete").rows_deleted == 1
    found = table.scan(columns=["_hoodie_record_key", "n"]).to_pylist()
    assert found == [{"_hoodie_record_key": "a:k,b:k,n:2", "n": 2}]


def test_frames_of_pandas(tmp_path: Path) -> None:
    make(tmp_path / "t")
    frame: Any = local_rows([(1, "a", 1.0, "x")]).to_pandas()
    for call in (upsert, hudi_merge, tag_location):
        with pytest.raises(TypeError, match=r"^df is a pandas.*; give a Spark DataFrame \("):
            call(frame, tmp_path / "t")


def test_streams_are_written_in_batches(spark: SparkSession, tmp_path: Path) -> None:
    make(tmp_path / "t")
    stream = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 1).load()
    with pytest.raises(ValueError, match=r"^df is a stream; write it with .*hudi_sink\(TABLE\)\)$"):
        upsert(stream, tmp_path / "t")
    with pytest.raises(ValueError, match=r"^df is a stream; merge its batches, in foreachBatch$"):
        hudi_merge(stream, tmp_path / "t")


def test_dataframes_in_one_process(spark: SparkSession, tmp_path: Path) -> None:
    """PySpark does not export timestamps as an Arrow stream; `toArrow` returns them."""
    df = spark.createDataFrame([(1,)], "id long").selectExpr("id", "timestamp'2026-03-01' AS at")
    if hasattr(df, "__arrow_c_stream__"):
        with pytest.raises(TypeError, match=r"^schema: pyspark.* timestamps; give .toArrow\(\)"):
            HudiTable.create(tmp_path / "t", df, record_key="id")
    table = HudiTable.create(tmp_path / "t", df.limit(0).toArrow(), record_key="id")
    assert upsert(df, table).rows_inserted == 1
    expected = [{"id": 1, "at": datetime(2026, 3, 1, tzinfo=timezone.utc)}]
    assert table.scan(columns=["id", "at"]).to_pylist() == expected

    store = lookupstore.build({"id": [1], "v": [2]}, tmp_path / "s", key="id")
    with pytest.raises(TypeError, match=r"rows is pyspark.*; for a DataFrame of Spark, call"):
        store.join(df, "id")
