"""The writer of the base files of a Hudi table in the Python workers of executors.

Each file is written by the same code as in one process. A task that is retried, or runs twice,
writes another file under another name, and all files wait in a folder of the instant: the driver
decides which of them count.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark import TaskContext

from lookupstore.arrow.types import concat
from lookupstore.hudi import WriteOptions
from lookupstore.hudi.file_group import FileFormat
from lookupstore.hudi.keys import Incoming
from lookupstore.hudi.layout import KeptLayout
from lookupstore.hudi.timeline import WriteStat, from_record, staging_folder, to_record
from lookupstore.hudi.view import TableView
from lookupstore.hudi.write import (
    DELETE,
    SAMPLE,
    FilePlan,
    FileRows,
    FileWrites,
    Packing,
    PlannedFile,
    Transaction,
    name_staged_files,
    positions_in,
)
from lookupstore.spark.buckets import by_bucket
from lookupstore.spark.hudi.keys import RowTask

Batches = Iterable[pa.RecordBatch]

#: Spark's schema of the report of a task about a file.
WRITTEN = "bucket int, stat string, changes long, inserts long, keys array<string>"
_WRITTEN = pa.schema(
    {
        "bucket": pa.int32(),
        "stat": pa.string(),
        "changes": pa.int64(),
        "inserts": pa.int64(),
        "keys": pa.list_(pa.string()),
    }
)


@dataclass(frozen=True)
class FileTask:
    """The base files that executors write.

    Attributes:
        rows: Description of the rows.
        files: Planned files, in the order of the numbers of their buckets.
        format: Format of the base files.
        time: Time of the instant.
        done: Accumulator of the number of written rows. None: they are not counted.
    """

    rows: RowTask
    files: tuple[PlannedFile, ...]
    format: FileFormat
    time: str
    done: Any = None


@dataclass(frozen=True)
class WrittenBucket:
    """The base file that a task wrote.

    Attributes:
        bucket: Number of the bucket.
        stat: Statistics of the file for the commit.
        changes: Number of rows that change or delete a row of the current file.
        inserts: Number of new rows.
        keys: Some keys of the rows.
    """

    bucket: int
    stat: WriteStat
    changes: int
    inserts: int
    keys: tuple[str, ...]


def positions_of(
    task: RowTask, layouts: Mapping[str, KeptLayout], shares: Mapping[str, float], batches: Batches
) -> Iterator[pa.RecordBatch]:
    """Yield the positions of some new rows in the layouts of their partitions.

    Args:
        task: Description of the rows.
        layouts: Layouts to find positions in, by partition path.
        shares: Share of the new rows of a partition to sample, by partition path.
        batches: New rows.
    """
    reader = task.row_reader()
    chance = np.random.default_rng(this_task().partitionId())
    for batch in batches:
        for path, kept in layouts.items():
            here = pc.equal(batch.column("partition"), path).to_numpy(zero_copy_only=False)
            taken = np.flatnonzero(here & (chance.random(batch.num_rows) < shares[path]))
            if len(taken):
                rows = reader.incoming(task.rows(batch.take(pa.array(taken)))).rows
                places = positions_in(kept, rows).cast(pa.binary())
                yield pa.RecordBatch.from_arrays(
                    [pa.repeat(path, len(places)), places], names=["partition", "place"]
                )


def with_buckets(
    task: RowTask, packing: Packing, file_ids: Mapping[int, str], batches: Batches
) -> Iterator[pa.RecordBatch]:
    """Put the number of its bucket before each row.

    Args:
        task: Description of the rows.
        packing: Plan that assigns rows to buckets.
        file_ids: File identifiers of the current base files that have keys of rows, by their
            numbers.
        batches: Rows with their places.
    """
    reader = task.row_reader() if packing.boxes else None
    for batch in batches:
        rows = None if reader is None else reader.incoming(task.rows(batch)).rows
        coded = batch.column("slice").dictionary_encode()
        ids = pa.array([file_ids[number] for number in coded.dictionary.to_pylist()], pa.string())
        groups = pa.DictionaryArray.from_arrays(coded.indices, ids)
        partitions = batch.column("partition").dictionary_encode()
        buckets = pa.array(packing.assign(partitions, groups, batch.column("key"), rows))
        yield pa.RecordBatch.from_arrays(
            [buckets, *batch.columns], names=["bucket", *batch.schema.names]
        )


def write_files(task: FileTask, batches: Batches) -> Iterator[pa.RecordBatch]:
    """Write the base file of each bucket, and yield its statistics.

    Args:
        task: Description of the base files.
        batches: Rows sorted by bucket, then by position with new rows last, then by number, with
            all rows of a bucket.
    """
    for bucket, parts in itertools.groupby(by_bucket(batches), key=lambda part: part[0]):
        rows = pa.Table.from_batches([batch for _, batch in parts])
        stat, changes = _write(task, bucket, rows)
        if task.done is not None:
            task.done.add(rows.num_rows)
        keys = rows.column("key").slice(0, SAMPLE).to_pylist()
        yield pa.RecordBatch.from_pylist(
            [
                {
                    "bucket": bucket,
                    "stat": json.dumps(to_record(stat)),
                    "changes": changes,
                    "inserts": rows.num_rows - changes,
                    "keys": keys,
                }
            ],
            _WRITTEN,
        )


def written_bucket(row: Any) -> WrittenBucket:
    """Return the record in a row of `write_files`."""
    stat = from_record(WriteStat, json.loads(row.stat))
    return WrittenBucket(row.bucket, stat, row.changes, row.inserts, tuple(row.keys))


def _write(task: FileTask, bucket: int, rows: pa.Table) -> tuple[WriteStat, int]:
    known, file = task.rows, task.files[bucket]
    positions = concat(rows.column("pos").chunks, pa.int64())
    changes = len(positions) - positions.null_count
    is_delete = known.operation == DELETE
    if is_delete:
        incoming = Incoming(
            known.schema.columns.empty_table(),
            rows.column("key"),
            concat(rows.column("partition").chunks, pa.string()).dictionary_encode(),
        )
    else:
        incoming = known.row_reader().incoming(known.rows(rows))
        moved = rows.column("moved").to_numpy()
        if moved.any():
            deleted = moved if incoming.deleted is None else moved | incoming.deleted
            incoming = replace(incoming, deleted=deleted)
    numbers = np.arange(rows.num_rows)
    at = positions.slice(0, changes).to_numpy()
    plan = FilePlan(file, FileRows(numbers[:changes], at, numbers[changes:]))
    options = WriteOptions(format=task.format, threads=1)
    writes = FileWrites(
        known.view,
        incoming,
        known.schema,
        options,
        task.time,
        is_delete,
        known.kept,
        ordered=known.ordered,
    )
    return writes.one(bucket, plan, attempt_of(this_task()), staging_folder(task.time)), changes


def this_task() -> TaskContext:
    """Return the id that Spark gives to the running task."""
    context = TaskContext.get()
    assert context is not None, "a task of Spark"
    return context


def attempt_of(context: TaskContext) -> str:
    """Return stage and attempt, as names of Hudi's files have them: no two attempts have both."""
    return f"{context.stageId()}-{context.taskAttemptId()}"


def name_files(view: TableView, stats: Iterable[WriteStat], transaction: Transaction) -> None:
    """Give the files that count their names, on the driver."""
    files = {}
    for stat in stats:
        transaction.open_partition(stat.partition_path or "")
        files[str(stat.path)] = stat.replaces
    transaction.check()
    name_staged_files(view.location, transaction.time, files)
