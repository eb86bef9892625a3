"""Put the rows of a Hudi table in order: executors sample, place and write them, the driver plans.

The plan and the commit are those of `HudiTable.cluster`, and so is what is known of an order. What
goes through Spark's shuffle is rows, each with the number of its file, which is that of its task,
and with its position, by which the task has them sorted. All of it comes of base files, which never
change: a task that is tried again makes the same.

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
from lookupstore.hudi.layout import (
    Curve,
    CurveMapping,
    Filter,
    KeptLayout,
    LayoutChoice,
)
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

# Most bytes of files that one task reads, and what opening a file is reckoned as: as of a scan.
_TASK_BYTES, _OPEN_BYTES = 128 << 20, 4 << 20
# Rows of a file are numbered from a multiple of it.
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
    """Put the rows of a Hudi table in order in new files, as `HudiTable.cluster` does.

    The driver plans, and what others may do meanwhile is the same. Tasks sample the columns of the
    layout; then each reads some files, and each new file is sorted and written by one.

    Args:
        spark: any session.
        table: a table, or the path or URI of one, which the driver and all executors see.
        by: as of `HudiTable.cluster`, as all that follows.
        curve: how several columns become one order; None, the default: `grid`, or `hilbert` by
            value.
        mapping: how values become places in it. Default: `sample`.
        target_file_size: bytes of a file, about. Default: 120 MiB.
        small_file_limit: files of at least so many bytes stay as they are. None, the default: none
            does.
        partitions: paths of the partitions whose rows are put in order.
        where: the same, by a filter on partition columns.
        options: `threads`, `memory` and `spill_folder` do not apply: Spark sorts, and spills.
        dry_run: change nothing, and return what would be done, which is planned without Spark.
        storage_options: of a URI, as of `lookupstore.Location`.

    Returns:
        what was done. Of `seconds`, `write` has what Spark does with all rows; what that spilled is
        told in Spark's UI.

    Raises:
        TypeError: a column has a type without an order, or Spark has no type for one.

    And all else that `HudiTable.cluster` raises: `KeyError`, `ValueError`, `FormatError`,
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
    """What executors read and write.

    Attributes:
        files: of the clustering.
        parts: of the files that go, one for a task: each file with its number, and with that of its
            partition.
        columns: of the rows, as Spark has them.
        done: takes how many rows were taken care of; None: nobody asked.
    """

    files: ClusterFiles
    parts: tuple[tuple[tuple[int, int, FileSlice], ...], ...]
    columns: StructType
    done: Any = None


class SparkRewrite:
    """A writer of the new files of a clustering by tasks of Spark; see `Rewrite`.

    Args:
        spark: a session.
        done: takes how many rows were written.
        view: of the table, by which the clustering was planned.
        choice: of the layout.
        options: of the write.
        transaction: of the clustering.
        steps: whose times are taken.

    Raises:
        TypeError: Spark has no type for a column.
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
        #: Rows that were written.
        self.rows: int = 0
        #: Of what Spark spills, it tells itself.
        self.spilled_bytes: int = 0
        #: Only what goes on with layouts keeps them.
        self.kept: dict[str, KeptLayout] = {}

    def write_all(self, plans: Sequence[PartitionPlan]) -> list[WriteStat]:
        """Write the files of all partitions, and return what is said of each.

        Raises: what `Rewrite.write` does.
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
        # Where several files meet in one task, it writes one after the other.
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
        """Check that as many rows were written as footers say that there are."""
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
    """Yield samples of parts, one of each of their partitions.

    Args:
        task: what is read.
        most: of each part, by partition, how many rows.
        batches: numbers of parts.
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
    """Yield all rows of parts, after the number of their file, their position and their own number.

    Args:
        task: what is read.
        places: of partitions, the number of the first file that comes, and where rows go.
        batches: numbers of parts.
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
    """Write the files that rows have the numbers of, and yield what is said of each.

    Args:
        task: how they are written.
        coming: the files.
        batches: rows sorted by file and position; all those of a file are here.
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
    """Return the files that go in groups, each for a task, with their numbers.

    Args:
        plans: of the partitions.
        tasks: that can run at one time.
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
