"""Put the rows of a Hudi table in order: executors sample, place and write them, the driver plans.

The plan and the commit are those of `HudiTable.cluster`, and so is the estimate of an order.
Spark's shuffle moves rows, each with the number of its file, which is that of its task, and with
its position, by which the task sorts them. All of this is computed from base files, which never
change: a task that is retried has the same result.

Source: org.apache.hudi.client.clustering.run.strategy.SparkSortAndSizeExecutionStrategy.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from operator import itemgetter
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.types import BinaryType, IntegerType, LongType, StructField, StructType

from lookupstore.errors import CorruptionError
from lookupstore.filters import Filter
from lookupstore.hudi import FileSlice, WriteOptions
from lookupstore.hudi.clustering import (
    ClusterFiles,
    ClusterResult,
    PartitionPlan,
    PartSample,
    Placement,
    cluster,
    rows_to_sample,
)
from lookupstore.hudi.file_group import NewFile
from lookupstore.hudi.layout import Curve, CurveMapping, KeptLayout, LayoutChoice
from lookupstore.hudi.read import partitions_of
from lookupstore.hudi.timeline import WriteStat, from_record, staging_folder, to_record
from lookupstore.hudi.view import TableView
from lookupstore.hudi.write import (
    CLUSTER,
    GivenOptions,
    Steps,
    Transaction,
    given_options,
    layout_choice,
)
from lookupstore.keywords import ABSENT, Absent, only_given
from lookupstore.spark.buckets import by_bucket, in_buckets
from lookupstore.spark.hudi.files import attempt_of, name_files, this_task
from lookupstore.spark.hudi.read import spark_columns
from lookupstore.spark.hudi.tables import Table, table_of
from lookupstore.spark.jobs import parallelism, watched_jobs
from lookupstore.spark.raised import raised_in
from lookupstore.spark.types import arrow_schema, numbered, to_spark

Batches = Iterable[pa.RecordBatch]

# Maximum size of the files that one task reads, and estimated cost of opening a file, as for a
# scan.
_TASK_BYTES, _OPEN_BYTES = 128 << 20, 4 << 20
# Rows of a file are numbered from a multiple of this.
_FILE_ROWS = 1 << 40
_SAMPLED = "partition int, share double, stored long, rows binary"
_WRITTEN = "stat string"
_PLACE = (
    StructField("bucket", IntegerType()),
    StructField("position", BinaryType()),
    StructField("row", LongType()),
)


def cluster_table(
    spark: SparkSession,
    table: Table,
    by: str | Sequence[str] | Absent = ABSENT,
    *,
    curve: Curve | Absent | None = ABSENT,
    mapping: CurveMapping | Absent = ABSENT,
    target_file_size: int | Absent = ABSENT,
    small_file_limit: int | Absent | None = ABSENT,
    partitions: str | Sequence[str] | None = None,
    where: Filter | None = None,
    options: GivenOptions | None = None,
    dry_run: bool = False,
    storage_options: Mapping[str, Any] | None = None,
) -> ClusterResult:
    """Sort the rows of a Hudi table into new files, as `HudiTable.cluster` does.

    The driver plans, and other writers may do the same as during `HudiTable.cluster`. Tasks sample
    the columns of the layout. Then each task reads some files, and one task sorts and writes each
    new file.

    Args:
        spark: Session that runs the tasks.
        table: Table, or its path or URI, which the driver and all executors can read.
        by: Columns to sort by, or the name of one, with the most queried columns first. Default:
            the columns in `options`.
        curve: Order of the rows by several columns: `grid` (boxes of equal numbers of rows),
            `hilbert` or `zorder` (curves), or `linear` (by the first column, then by the next).
            Default: `grid`, or `hilbert` if `mapping` is `value`.
        mapping: Position of a value on the curve: `sample` (its rank in a sample) or `value` (the
            value itself). Default: `sample`.
        target_file_size: Approximate size of a new file: bytes, or a text such as `"120MiB"`.
            Default: 120 MiB.
        small_file_limit: Size from which files are left unchanged: bytes, or a text. Default: every
            file is rewritten.
        partitions: Paths of the partitions to sort, or one path. Default: all.
        where: Filter on partition columns that chooses the partitions to sort. Default: all.
        options: Options of the write; see `HudiTable.cluster`. `threads`, `memory` and
            `spill_folder` are ignored, because Spark sorts and spills.
        dry_run: Whether to change nothing, and to return the planned result. The driver plans it
            without Spark tasks.
        storage_options: Options of the URI of `table`, such as credentials; see
            `lookupstore.Location`.

    Returns:
        Result of the clustering. In its `seconds`, `write` is the time in which Spark sorts and
        writes all rows. Spark's UI shows how much it spilled.

    Raises:
        TypeError: If a column has a type without an order, or Spark has no type for one.

    It also raises the other errors of `HudiTable.cluster`: `KeyError`, `ValueError`, `FormatError`,
    `CommitConflictError`, `CommitUnknownError`, `LockedError`, `CorruptionError` and
    `StaleStoreError`.

    >>> cluster_table(spark, "visits", ["day", "page"]).files_after  # doctest: +SKIP
    """
    table = table_of(table, storage_options)
    chosen = given_options(options, table.options, CLUSTER)
    choice = layout_choice(
        only_given(
            by=by,
            curve=curve,
            mapping=mapping,
            target_file_size=target_file_size,
            small_file_limit=small_file_limit,
        ),
        options,
        incremental=False,
    )
    partitions = [partitions] if isinstance(partitions, str) else partitions
    view = table.writable(chosen, dry_run=dry_run)
    if where is not None:
        partitions = partitions_of(view, where, partitions)
    uri = table.location.uri
    try:
        with watched_jobs(spark, f"lookupstore: cluster {uri}", "Clustering") as done:
            rewriting = partial(SparkRewrite, spark, done)
            return cluster(
                view,
                choice,
                partitions,
                chosen,
                incremental=False,
                dry_run=dry_run,
                rewriting=rewriting,
            )
    except PySparkException as error:
        raised = raised_in(error, (sample_parts, place_rows, write_ordered))
        if raised is None:
            raise
        raise raised from None


@dataclass(frozen=True)
class ClusterTask:
    """The description of a clustering for executors.

    Attributes:
        files: Reader and writer of the files of the clustering.
        parts: Files to replace, in one group for each task. Each file follows its number and the
            number of its partition.
        columns: Columns of the rows, in Spark's types.
        done: Accumulator of the number of written rows. None: they are not counted.
    """

    files: ClusterFiles
    parts: tuple[tuple[tuple[int, int, FileSlice], ...], ...]
    columns: StructType
    done: Any = None


class SparkRewrite:
    """A writer of the new files of a clustering with tasks of Spark; see `Rewrite`.

    Args:
        spark: Session that runs the tasks.
        done: Accumulator of the number of written rows. None: they are not counted.
        view: View of the table that the clustering was planned on.
        choice: Layout of the new files.
        options: Options of the write.
        transaction: Transaction of the clustering.
        steps: Steps of the clustering, which record their times.

    Raises:
        TypeError: If Spark has no type for a column.
    """

    def __init__(
        self,
        spark: SparkSession,
        done: Any,
        view: TableView,
        choice: LayoutChoice,
        options: WriteOptions,
        transaction: Transaction,
        steps: Steps,
    ) -> None:
        self._spark = spark
        self._done = done
        self._view = view
        self._files = ClusterFiles(view.location, view.table_schema, choice, options.format)
        self._new_file_id = options.new_file_id
        self._transaction = transaction
        self._step = steps.step
        self._columns = spark_columns(self._files.rows)
        #: Number of rows that were written.
        self.rows: int = 0
        #: Always 0: Spark reports the bytes that it spills itself.
        self.spilled_bytes: int = 0
        #: Always empty: only a clustering that continues layouts keeps them.
        self.kept: dict[str, KeptLayout] = {}

    def write_all(self, plans: Sequence[PartitionPlan]) -> list[WriteStat]:
        """Write the files of all partitions, and return the statistics of each file.

        Raises the errors of `Rewrite.write`.
        """
        parts = _parts(plans, parallelism(self._spark))
        task = ClusterTask(self._files, parts, self._columns, self._done)
        with self._step("sample"):
            samples = self._samples(task, plans)
            counts = [sum(one.count for one in every) for every in samples]
            places: dict[int, tuple[int, Placement]] = {}
            new: list[str] = []
            for number, (plan, every) in enumerate(zip(plans, samples, strict=True)):
                if counts[number]:
                    places[number] = len(new), Placement.of(every, task.files.choice, plan.files)
                    new += [plan.partition] * plan.files
        with self._step("write"):
            stats = self._write(task, places, new) if new else []
            self._check_counts(plans, counts, stats)
            name_files(self._view, stats, self._transaction)
        self.rows = sum(counts)
        return stats

    def _samples(self, task: ClusterTask, plans: Sequence[PartitionPlan]) -> list[list[PartSample]]:
        """Return samples of the parts of each partition."""
        most = [
            {
                number: rows_to_sample(
                    sum(one.bytes for _, of, one in part if of == number),
                    plans[number].bytes,
                    plans[number].files,
                )
                for number in {of for _, of, _ in part}
            }
            for part in task.parts
        ]
        found = self._numbers(task).mapInArrow(partial(sample_parts, task, most), _SAMPLED)
        samples: list[list[PartSample]] = [[] for _ in plans]
        for row in found.collect():
            with pa.ipc.open_stream(bytes(row.rows)) as rows:
                samples[row.partition].append(PartSample(rows.read_all(), row.share, row.stored))
        return samples

    def _write(
        self, task: ClusterTask, places: Mapping[int, tuple[int, Placement]], new: Sequence[str]
    ) -> list[WriteStat]:
        """Let tasks place all rows, and write the files that get some."""
        time = self._transaction.time
        coming = [
            NewFile(path, self._new_file_id(), number, time, waits_in=staging_folder(time))
            for number, path in enumerate(new)
        ]
        columns = zip(numbered(len(self._columns)), self._columns, strict=True)
        own = [StructField(name, field.dataType) for name, field in columns]
        placed = self._numbers(task).mapInArrow(
            partial(place_rows, task, places), StructType([*_PLACE, *own])
        )
        # If several files are assigned to one task, it writes one after the other.
        spread = in_buckets(placed, len(coming)).sortWithinPartitions("bucket", "position", "row")
        found = spread.mapInArrow(partial(write_ordered, task, coming), _WRITTEN).collect()
        stats = [from_record(WriteStat, json.loads(row.stat)) for row in found]
        return sorted(stats, key=lambda stat: (stat.partition_path or "", stat.path or ""))

    def _numbers(self, task: ClusterTask) -> Any:
        """Return a column in which tasks find the numbers of their parts: one each."""
        return self._spark.range(0, len(task.parts), 1, len(task.parts))

    def _check_counts(
        self, plans: Sequence[PartitionPlan], counts: Sequence[int], stats: Sequence[WriteStat]
    ) -> None:
        """Check that the number of written rows is that in the footers of the replaced files."""
        written = dict.fromkeys((one.partition for one in plans), 0)
        for stat in stats:
            written[stat.partition_path or ""] += stat.num_writes or 0
        for plan, rows in zip(plans, counts, strict=True):
            if written[plan.partition] != rows:
                shown = self._view.location.show(plan.partition)
                expected = f"{rows} rows, as footers say"
                raise CorruptionError(shown, 0, expected, written[plan.partition])


def sample_parts(
    task: ClusterTask, most: Sequence[Mapping[int, int]], batches: Batches
) -> Iterator[pa.RecordBatch]:
    """Yield samples of parts, one for each partition of a part.

    Args:
        task: Description of the clustering.
        most: Greatest number of rows to sample from each part, by the number of the partition.
        batches: Numbers of the parts.
    """
    for batch in batches:
        for at in batch.column(0).to_pylist():
            for number, many in itertools.groupby(task.parts[at], key=itemgetter(1)):
                found = task.files.sample([file for _, _, file in many], most[at][number])
                sink = pa.BufferOutputStream()
                with pa.ipc.new_stream(sink, found.rows.schema) as into:
                    into.write_table(found.rows)
                yield pa.RecordBatch.from_pydict(
                    {
                        "partition": pa.array([number], pa.int32()),
                        "share": [found.share],
                        "stored": [found.count],
                        "rows": pa.array([sink.getvalue().to_pybytes()], pa.binary()),
                    }
                )


def place_rows(
    task: ClusterTask, places: Mapping[int, tuple[int, Placement]], batches: Batches
) -> Iterator[pa.RecordBatch]:
    """Yield all rows of parts, each after its file number, position and own number.

    Args:
        task: Description of the clustering.
        places: Number of the first new file of each partition, and the placement of its rows, by
            the number of the partition.
        batches: Numbers of the parts.
    """
    schema = arrow_schema(task.columns)
    names = [*(one.name for one in _PLACE), *numbered(len(schema))]
    for batch in batches:
        for file_number, of, file in (
            one for at in batch.column(0).to_pylist() for one in task.parts[at]
        ):
            row = 0
            # A partition whose files have no rows has no place.
            for rows in task.files.batches(file) if of in places else ():
                start, placement = places[of]
                positions, numbers = placement.files(rows, row)
                first = file_number * _FILE_ROWS + row
                columns = [
                    to_spark(column, field.type, field.name)
                    for column, field in zip(rows.columns, schema, strict=True)
                ]
                place = [
                    pa.array(start + numbers),
                    positions.cast(pa.binary()),
                    pa.array(np.arange(first, first + rows.num_rows)),
                ]
                yield pa.RecordBatch.from_arrays([*place, *columns], names=names)
                row += rows.num_rows


def write_ordered(
    task: ClusterTask, coming: Sequence[NewFile], batches: Batches
) -> Iterator[pa.RecordBatch]:
    """Write rows to the files of their numbers, and yield the statistics of each file.

    Args:
        task: Description of the clustering.
        coming: New files, by number.
        batches: Rows sorted by file and position, with all rows of a file.
    """
    attempt = attempt_of(this_task())
    for number, rows in itertools.groupby(by_bucket(batches), key=itemgetter(0)):
        # An attempt that runs twice must not write to the file of the other.
        known = coming[number]
        file = NewFile(known.partition, known.file_id, number, known.time, attempt, known.waits_in)
        stat = task.files.write(file, (_stored(task, batch) for _, batch in rows))
        yield pa.RecordBatch.from_pydict({"stat": [json.dumps(to_record(stat))]})


def _stored(task: ClusterTask, batch: pa.RecordBatch) -> list[pa.Array]:
    """Return the columns of placed rows in the types of the table."""
    if task.done is not None:
        task.done.add(batch.num_rows)
    own = batch.columns[len(_PLACE) :]
    return [
        column if column.type == field.type else column.cast(field.type)
        for column, field in zip(own, task.files.rows, strict=True)
    ]


def _parts(
    plans: Sequence[PartitionPlan], tasks: int
) -> tuple[tuple[tuple[int, int, FileSlice], ...], ...]:
    """Return the files to replace in groups, one for each task, with their numbers.

    Args:
        plans: Plans of the partitions.
        tasks: Number of tasks that can run at the same time.
    """
    every = [(number, file) for number, plan in enumerate(plans) for file in plan.slices]
    total = sum(file.bytes + _OPEN_BYTES for _, file in every)
    most = min(_TASK_BYTES, max(_OPEN_BYTES, total // max(1, tasks)))
    parts: list[list[tuple[int, int, FileSlice]]] = []
    size = 0
    for at, (number, file) in enumerate(every):
        if not parts or size + file.bytes + _OPEN_BYTES > most:
            parts.append([])
            size = 0
        parts[-1].append((at, number, file))
        size += file.bytes + _OPEN_BYTES
    return tuple(map(tuple, parts))
