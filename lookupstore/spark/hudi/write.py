"""Write the rows of a DataFrame to a Hudi table: executors tag and merge, the driver commits.

The steps, and what each does with a row, are those of `lookupstore.hudi.write.write`: rows of one
key meet in one task, which resolves and tags them; the driver plans files from their numbers; rows
go to the task of their file, which merges and writes it; the driver gives one file of each group
its name, looks at the commits of others, and completes the instant.

Source: org.apache.hudi.table.action.commit.BaseSparkCommitActionExecutor.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Literal, get_args

import pyarrow as pa
from pyspark import StorageLevel
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import (
    ArrayType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
)

from lookupstore.hudi import HudiTable, WriteOptions, WriteResult
from lookupstore.hudi.file_group.groups import FileSlice
from lookupstore.hudi.index.funnel import Tally
from lookupstore.hudi.index.names import index_of
from lookupstore.hudi.keys.incoming import IS_DELETED, IncomingRows, read_keys
from lookupstore.hudi.timeline.names import GroupId
from lookupstore.hudi.view import TableView
from lookupstore.hudi.write.conflict import SAMPLE
from lookupstore.hudi.write.partitioner import Load, Packing
from lookupstore.hudi.write.plan import plan_files, workload_profile
from lookupstore.hudi.write.staged_files import name_staged_files
from lookupstore.hudi.write.transaction import Outcome, Transaction, begun
from lookupstore.hudi.write.write import (
    groups_to_cluster,
    keys_are_there_error,
    keys_in_other_partitions_error,
    written_name,
)
from lookupstore.spark.buckets import in_buckets
from lookupstore.spark.hudi.files import (
    WRITTEN,
    FileTask,
    PlannedFile,
    WrittenFile,
    with_buckets,
    write_files,
    written_file,
)
from lookupstore.spark.hudi.keys import (
    KeyTask,
    RowTask,
    keys_in_files,
    keys_to_delete,
    rows_to_write,
    with_row_keys,
)
from lookupstore.spark.hudi.tables import Table, location_of
from lookupstore.spark.hudi.tag import (
    KEY_FIELDS,
    key_task,
    keyed_schema,
    numbered_rows,
)
from lookupstore.spark.jobs import watched_jobs
from lookupstore.spark.raised import raised_in
from lookupstore.spark.types import arrow_schema

Operation = Literal["upsert", "insert", "delete"]

_PLACE_FIELDS = (StructField("slice", IntegerType()), StructField("pos", LongType()))
_FOUND = StructType(
    [StructField("file", IntegerType()), StructField("keys", ArrayType(StringType()))]
)
# What fails in these is what a caller has to know, as it was raised.
_STEPS = (with_row_keys, keys_to_delete, rows_to_write, with_buckets, write_files, keys_in_files)


def upsert(
    df: DataFrame,
    table: Table,
    *,
    operation: Operation = "upsert",
    options: WriteOptions | None = None,
) -> WriteResult:
    """Change the rows of a Hudi table whose keys are there, and insert the others, in one commit.

    The table is then as after `HudiTable.upsert` of the same rows, whose order is that of Spark: by
    partition, then as they come. Tasks that fail, or run twice, do no harm: of each file group one
    file gets its name.

    Args:
        df: rows that are the same each time Spark computes them; if they are not, nothing is
            committed.
        table: a table, or the path or URI of one, which the driver and all executors see.
        operation: `upsert`; `insert`: no key may exist in the table; `delete`: `df` has keys, whose
            rows are deleted, as by `HudiTable.delete`.
        options: how it is done. `index` is a name; `threads` does not apply to executors.

    Returns:
        what was done, as `HudiTable.upsert` does.

    Raises:
        ValueError: `operation` is unknown, a column is new or missing, a row has no key or no
            ordering value, a key to insert exists, or `df` had other rows when it was computed
            again.
        TypeError: a column is not of the table's type, or `options.index` is not a name.
        FormatError, CommitConflictError, CommitUnknownError, LockedError, CorruptionError,
        StaleStoreError: as of `HudiTable.upsert`.

    >>> upsert(spark.read.parquet("s3://bucket/changes"), "visits").rows_updated  # doctest: +SKIP
    """
    if operation not in get_args(Operation):
        known = ", ".join(map(repr, get_args(Operation)))
        raise ValueError(f"operation is {operation!r}; give one of {known}")
    options = options or WriteOptions()
    table = table if isinstance(table, HudiTable) else HudiTable.open(location_of(table))
    uri = table.location.uri
    try:
        with watched_jobs(df.sparkSession, f"lookupstore: {operation} {uri}", "Writing") as done:
            return _SparkWrite(df, table, operation, options).run(done)
    except PySparkException as error:
        raised = raised_in(error, _STEPS)
        if raised is None:
            raise
        raise raised from None


class _SparkWrite:
    """One write, as the driver sees it."""

    def __init__(
        self, df: DataFrame, table: HudiTable, operation: Operation, options: WriteOptions
    ) -> None:
        columns = arrow_schema(df.schema)
        # The class of an index is looked for before anything is done.
        if not isinstance(options.index, str):
            raise TypeError(
                f"options.index is {options.index!r}; give a name, so that executors can create it"
            )
        if index_of(options.index).everywhere and operation != "delete":
            raise keys_in_other_partitions_error(options.index)
        self._view = table.writable(options)
        self._df = df
        self._options = options
        self._tally = Tally()
        self._task = _row_task(self._view, columns, operation, options)

    def run(self, done: Any) -> WriteResult:
        """Write and commit; `done` takes how many rows were."""
        rows = self._tagged().persist(StorageLevel.MEMORY_AND_DISK)
        try:
            with self._tally.step("tag"):
                loads = self._loads(rows)
            if self._task.operation == "insert":
                _check_new(rows, loads)
            with self._tally.step("plan"):
                view = self._view
                small, sizing = self._task.slices, self._options.sizing
                packing = plan_files(view, loads, small, sizing, groups_to_cluster(view))
                files = self._files(packing)
            operation = self._task.operation.upper()
            current = [file.current for file in files if file.current is not None]
            profile = workload_profile(operation, loads, current)
            with begun(self._view, operation, profile, replaces=False) as transaction:
                with self._tally.step("write"):
                    task = FileTask(self._task, files, self._options.format, transaction.time, done)
                    written = _write(rows, task, packing) if files else []
                    _check_counts(written, packing, loads)
                    _name_files(self._view, written, transaction)
                return self._complete(transaction, rows, files, written)
        finally:
            rows.unpersist()

    def _tagged(self) -> DataFrame:
        """Return the rows that are going to be written, each with its place."""
        task = self._task
        rows = numbered_rows(self._df, task.columns.names)
        if task.operation == "delete":
            kept = StructType([*KEY_FIELDS])
            keyed = rows.mapInArrow(partial(keys_to_delete, task), kept)
        else:
            kept = keyed_schema(rows)
            keyed = rows.mapInArrow(partial(with_row_keys, task), kept)
        spread = keyed.repartitionByRange("partition", "key")
        ordered = spread.sortWithinPartitions("partition", "key", "row")
        schema = StructType([*KEY_FIELDS, *_PLACE_FIELDS, *kept.fields[len(KEY_FIELDS) :]])
        return ordered.mapInArrow(partial(rows_to_write, task), schema)

    def _loads(self, rows: DataFrame) -> dict[str, Load]:
        """Return how many rows there are to insert and to update, by partition path and file."""
        inserts: dict[str, int] = {}
        updates: dict[str, dict[str, int]] = {}
        for row in rows.groupBy("partition", "slice").count().collect():
            path, number, count = row
            inserts.setdefault(path, 0)
            updates.setdefault(path, {})
            if number is None:
                inserts[path] = count
            else:
                updates[path][self._task.slices[number].group.file_id] = count
        # By name, as `workload` has them.
        return {
            path: Load(inserts[path], dict(sorted(updates[path].items())))
            for path in sorted(inserts)
        }

    def _files(self, packing: Packing) -> tuple[PlannedFile, ...]:
        current = {one.group: one for one in self._task.slices}
        files = []
        for bucket in packing.buckets:
            file_id = bucket.file_id or self._options.new_file_id()
            before = current[GroupId(bucket.partition, file_id)] if bucket.file_id else None
            files.append(PlannedFile(bucket.partition, file_id, before))
        return tuple(files)

    def _complete(
        self,
        transaction: Transaction,
        rows: DataFrame,
        files: Sequence[PlannedFile],
        written: Sequence[WrittenFile],
    ) -> WriteResult:
        stats = [one.stat for one in written]
        groups = [
            GroupId(files[one.bucket].partition, files[one.bucket].file_id) for one in written
        ]
        has_new = any(one.inserts for one in written)
        outcome = Outcome(
            stats,
            self._task.schema.avro,
            touched={group: one.keys for group, one in zip(groups, written, strict=True)},
            inserted=_RowsToInsert(rows, self._task) if has_new else None,
        )
        with self._tally.step("commit"):
            instant = transaction.complete(outcome, self._options.extra_metadata)
        current = [files[one.bucket].current for one in written]
        return WriteResult.of(
            instant,
            self._task.operation.upper(),
            stats,
            [one for one in current if one is not None],
            (),
            self._tally.funnel().seconds,
        )


class _RowsToInsert:
    """Keys that are inserted, which executors look for."""

    def __init__(self, rows: DataFrame, task: RowTask) -> None:
        self._rows = rows
        self._task = task

    def found_in(
        self, view: TableView, files: Sequence[FileSlice]
    ) -> Iterator[tuple[FileSlice, Sequence[str]]]:
        """Yield the base files that have some of the keys, each with a few of these."""
        # What a tag is given is by partition path and file id.
        files = sorted(files, key=lambda file: file.group)
        task = KeyTask(replace(view, commits={}), tuple(files), "bloom", None, pa.schema([]))
        new = self._rows.where("slice IS NULL").select("partition", "key")
        found = new.mapInArrow(partial(keys_in_files, task), _FOUND).collect()
        for row in sorted(found, key=lambda row: row.file):
            yield files[row.file], row.keys


def _row_task(
    view: TableView, columns: pa.Schema, operation: Operation, options: WriteOptions
) -> RowTask:
    """Plan what executors find, after a look at the columns of the rows."""
    named = written_name(view)
    schema = view.table_schema
    if operation == "delete":
        read_keys(columns.empty_table(), schema.columns, view.options, named=named)
        needed = {*view.options.record_key, *view.options.partition_by}
    else:
        given = IncomingRows(
            columns.empty_table(), schema, view.options, named=named, evolve=options.evolve
        )
        schema = given.schema
        needed = {*schema.columns.names, IS_DELETED}
    kept = pa.schema([one for one in columns if one.name in needed])
    index = str(options.index)
    task = key_task(view, index, named, kept)
    return RowTask(task.view, task.slices, index, named, kept, operation, schema)


def _check_new(rows: DataFrame, loads: Mapping[str, Load]) -> None:
    count = sum(sum(load.updates.values()) for load in loads.values())
    if count:
        known = rows.where("slice IS NOT NULL").select("key").limit(SAMPLE).collect()
        raise keys_are_there_error(count, [row.key for row in known])


def _write(rows: DataFrame, task: FileTask, packing: Packing) -> list[WrittenFile]:
    """Let executors write files, one task per file, and return what they wrote, by bucket."""
    ids = {file: number for number, file in enumerate(task.rows.slices)}
    file_ids = {ids[file.current]: file.file_id for file in task.files if file.current is not None}
    schema = StructType([StructField("bucket", IntegerType()), *rows.schema.fields])
    assigned = rows.mapInArrow(partial(with_buckets, packing, file_ids), schema)
    count = len(task.files)
    # Where several files meet in one task, it writes one after the other.
    spread = in_buckets(assigned, count)
    ordered = spread.sortWithinPartitions("bucket", F.col("pos").asc_nulls_last(), "row")
    found = ordered.mapInArrow(partial(write_files, task), WRITTEN).collect()
    return sorted(map(written_file, found), key=lambda one: one.bucket)


def _check_counts(
    written: Sequence[WrittenFile], packing: Packing, loads: Mapping[str, Load]
) -> None:
    """Check that the rows that were written are those that the plan was made for."""
    updates = {one.bucket: one.changes for one in written}
    inserts = dict.fromkeys(loads, 0)
    for one in written:
        inserts[packing.buckets[one.bucket].partition] += one.inserts
    if (
        len(updates) < len(written)
        or any(one.updates != updates.get(one.number, 0) for one in packing.buckets)
        or any(load.inserts != inserts[path] for path, load in loads.items())
    ):
        raise ValueError(
            "df had other rows when Spark computed it again, so that nothing was committed; write "
            "what stays the same: df.localCheckpoint(), or what it was saved to"
        )


def _name_files(view: TableView, written: Sequence[WrittenFile], transaction: Transaction) -> None:
    """Give the files that count their names."""
    paths = []
    for one in written:
        transaction.open_partition(one.stat.partition_path or "")
        paths.append(str(one.stat.path))
    transaction.check()
    name_staged_files(view.location, transaction.time, paths)
