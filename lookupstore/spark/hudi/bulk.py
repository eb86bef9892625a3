"""Insert rows in bulk: each task writes the files of its rows, without looking up keys.

There is no plan and no cache: rows are written where they are computed, sorted by Spark if
requested, into files that grow to their size. This takes one pass, and a task has row groups and
keys of its open files in memory.

Source: org.apache.hudi.execution.bulkinsert (NonSortPartitionerWithRows,
GlobalSortPartitionerWithRows, PartitionSortPartitionerWithRows).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame

from lookupstore.hudi import WriteOptions, WriteResult
from lookupstore.hudi.file_group import NewFile
from lookupstore.hudi.keys import Incoming
from lookupstore.hudi.timeline import WriteStat, from_record, staging_folder, to_record
from lookupstore.hudi.write import (
    BulkInsert,
    Outcome,
    Stretch,
    Transaction,
    WritePipeline,
    new_file_id,
)
from lookupstore.spark.hudi.files import attempt_of, name_files, this_task
from lookupstore.spark.hudi.keys import RowTask, with_row_keys
from lookupstore.spark.hudi.tag import keyed_schema, numbered_rows

_STATS = "stat string"


@dataclass(frozen=True)
class BulkTask:
    """The description of a bulk insert for executors.

    Attributes:
        rows: Description of the rows.
        options: Options of the write.
        time: Time of the instant.
        done: Accumulator of the number of written rows. None: they are not counted.
    """

    rows: RowTask
    options: WriteOptions
    time: str
    done: Any = None


def bulk_insert(
    df: DataFrame, task: RowTask, pipeline: WritePipeline, options: WriteOptions, done: Any
) -> WriteResult:
    """Let tasks write rows to new files, and commit the files.

    Args:
        df: Rows to insert.
        task: Description of the rows.
        pipeline: Pipeline of the write, which commits it.
        options: Options of the write.
        done: Accumulator of the number of written rows. None: they are not counted.
    """
    rows = _ordered(df, task, options)

    def write(transaction: Transaction) -> Outcome:
        # No keys are looked up, so the list of current files is not sent to the tasks.
        insert = BulkTask(replace(task, slices=()), options, transaction.time, done)
        found = rows.mapInArrow(partial(insert_rows, insert), _STATS).collect()
        stats = [from_record(WriteStat, json.loads(row.stat)) for row in found]
        name_files(task.view, stats, transaction)
        return Outcome(stats, task.schema.avro)

    return pipeline.run_unplanned(write)


def _ordered(df: DataFrame, task: RowTask, options: WriteOptions) -> DataFrame:
    """Return numbered rows in the tasks and the order in which they are written."""
    rows = numbered_rows(df, task.columns.names)
    if options.sort_mode == "none":
        return rows
    columns = dict(zip(task.columns.names, rows.columns[1:], strict=True))
    # Columns that the rows lack are null in each of them.
    by = [columns[name] for name in options.sort_by if name in columns]
    by = by if options.sort_by else ["key"]
    rows = rows.mapInArrow(partial(with_row_keys, task), keyed_schema(rows))
    if options.sort_mode == "global_sort":
        rows = rows.repartitionByRange("partition", *by)
    return rows.sortWithinPartitions("partition", *by, "row")


def insert_rows(task: BulkTask, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Write rows to new files, and yield the statistics of each file.

    Args:
        task: Description of the bulk insert.
        batches: Rows in the order in which to write them.
    """
    known, context = task.rows, this_task()
    reader = known.row_reader()

    def given() -> Iterator[Incoming]:
        for batch in batches:
            yield reader.incoming(known.rows(batch)).without_deleted()
            if task.done is not None:
                task.done.add(batch.num_rows)

    def new_file(partition: str, number: int) -> NewFile:
        # An attempt that runs twice must not write to the file groups of the other.
        return NewFile(
            partition,
            new_file_id(),
            _file_number(context.partitionId(), number),
            task.time,
            attempt_of(context),
            staging_folder(task.time),
        )

    insert = BulkInsert(
        known.view,
        known.schema,
        task.options,
        new_file,
        by_partition=task.options.sort_mode != "none",
    )
    for stat in chain(*insert.write([Stretch(given())])):
        yield pa.RecordBatch.from_pydict({"stat": [json.dumps(to_record(stat))]})


def _file_number(task: int, number: int) -> int:
    """Return the number of a file of a task, which no file of another task has.

    Rows have it in their sequence numbers. How many files the others write, a task does not know.

    >>> [_file_number(0, 0), _file_number(1, 0), _file_number(0, 1), _file_number(2, 0)]
    [0, 1, 2, 3]
    """
    diagonal = task + number
    return diagonal * (diagonal + 1) // 2 + number
