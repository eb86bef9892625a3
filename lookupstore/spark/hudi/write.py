"""Write the rows of a DataFrame to a Hudi table: executors tag and merge, the driver commits.

The steps are those of `lookupstore.hudi.write.pipeline`, and what each does with a row is what it
does in one process: rows of one key meet in one task, which resolves and tags them; the driver
plans files from their numbers; rows go to the task of their file, which merges and writes it; the
driver gives one file of each group its name, looks at the commits of others, and completes the
instant.

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

from lookupstore.hudi import FileSlice, HudiTable, WriteOptions, WriteResult
from lookupstore.hudi.file_group import FileFormat
from lookupstore.hudi.index import written_name
from lookupstore.hudi.keys import IS_DELETED, IncomingRows, read_keys
from lookupstore.hudi.view import TableView
from lookupstore.hudi.write import (
    DELETE,
    INSERT,
    SAMPLE,
    FoundRows,
    GivenOptions,
    Load,
    Packing,
    Pipeline,
    PlannedFile,
    Transaction,
    WrittenFile,
    given_options,
    index_of_write,
    name_staged_files,
)
from lookupstore.spark.buckets import in_buckets
from lookupstore.spark.hudi.files import (
    WRITTEN,
    FileTask,
    WrittenBucket,
    with_buckets,
    write_files,
    written_bucket,
)
from lookupstore.spark.hudi.keys import (
    KeyTask,
    RowTask,
    keys_in_files,
    keys_to_delete,
    rows_to_add,
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
_STEPS = (
    with_row_keys,
    keys_to_delete,
    rows_to_write,
    rows_to_add,
    with_buckets,
    write_files,
    keys_in_files,
)


def upsert(
    df: DataFrame,
    table: Table,
    *,
    operation: Operation = "upsert",
    options: GivenOptions | None = None,
) -> WriteResult:
    """Change the rows of a Hudi table whose keys are there, and insert the others, in one commit.

    The table is then as after `HudiTable.upsert` of the same rows, whose order is that of Spark: by
    partition, then as they come. Tasks that fail, or run twice, do no harm: of each file group one
    file gets its name.

    Args:
        df: rows that are the same each time Spark computes them; if they are not, nothing is
            committed.
        table: a table, or the path or URI of one, which the driver and all executors see.
        operation: `upsert`; `insert`: rows are added, and `options.duplicates` says what happens
            to those whose keys exist; `delete`: `df` has keys, whose rows are deleted, as by
            `HudiTable.delete`.
        options: how it is done, as of `HudiTable.upsert`. `index` is a name; `threads` does not
            apply to executors.

    Returns:
        what was done, as `HudiTable.upsert` does.

    Raises:
        ValueError: `operation` is unknown, a column is new or missing, a row has no key or no
            ordering value, a key to insert exists and may not, or `df` had other rows when it was
            computed again.
        TypeError: a column is not of the table's type, or `options.index` is not a name.
        FormatError, CommitConflictError, CommitUnknownError, LockedError, CorruptionError,
        StaleStoreError: as of `HudiTable.upsert`.

    >>> upsert(spark.read.parquet("s3://bucket/changes"), "visits").rows_updated  # doctest: +SKIP
    """
    if operation not in get_args(Operation):
        known = ", ".join(map(repr, get_args(Operation)))
        raise ValueError(f"operation is {operation!r}; give one of {known}")
    table = table if isinstance(table, HudiTable) else HudiTable.open(location_of(table))
    given = given_options(options, table.options, operation.upper())
    uri = table.location.uri
    try:
        with watched_jobs(df.sparkSession, f"lookupstore: {operation} {uri}", "Writing") as done:
            result = _write_rows(df, table, operation, given, done)
    except PySparkException as error:
        raised = raised_in(error, _STEPS)
        if raised is None:
            raise
        raise raised from None
    return table.after_write(result, given)


def _write_rows(
    df: DataFrame, table: HudiTable, operation: Operation, options: WriteOptions, done: Any
) -> WriteResult:
    """Find rows, write and commit; `done` takes how many were written."""
    columns = arrow_schema(df.schema)
    # The class of an index is looked for before anything is done.
    if not isinstance(options.index, str):
        raise TypeError(
            f"options.index is {options.index!r}; give a name, so that executors can create it"
        )
    name = operation.upper()
    index_of_write(options.index, name)
    view = table.writable(options)
    task = _row_task(view, columns, name, options)
    pipeline = Pipeline(view, options)
    tagged = _tagged(df, task, options).persist(StorageLevel.MEMORY_AND_DISK)
    try:
        with pipeline.step("tag"):
            rows = _SparkRows(tagged, task, options.format, done)
        return pipeline.run(pipeline.plan(name, rows), rows)
    finally:
        tagged.unpersist()


def _tagged(df: DataFrame, task: RowTask, options: WriteOptions) -> DataFrame:
    """Return the rows that are going to be written, each with its place."""
    looks_up = options.looks_up(task.operation)
    rows = numbered_rows(df, task.columns.names)
    if task.operation == DELETE:
        kept = StructType([*KEY_FIELDS])
        keyed = rows.mapInArrow(partial(keys_to_delete, task), kept)
    else:
        kept = keyed_schema(rows)
        keyed = rows.mapInArrow(partial(with_row_keys, task), kept)
    if looks_up or task.combines:
        spread = keyed.repartitionByRange("partition", "key")
        keyed = spread.sortWithinPartitions("partition", "key", "row")
    schema = StructType([*KEY_FIELDS, *_PLACE_FIELDS, *kept.fields[len(KEY_FIELDS) :]])
    return keyed.mapInArrow(partial(rows_to_write if looks_up else rows_to_add, task), schema)


class _SparkRows(FoundRows):
    """Rows of a DataFrame, each with its place, which stay on executors.

    Args:
        rows: of `rows_to_write`.
        task: what is known of them.
        file_format: of base files.
        done: takes how many were written.
    """

    def __init__(self, rows: DataFrame, task: RowTask, file_format: FileFormat, done: Any) -> None:
        self.schema = task.schema
        self.slices = task.slices
        self.loads = _loads(rows, task)
        self._rows = rows
        self._task = task
        self._format = file_format
        self._done = done
        self._packing = Packing((), {})

    def known_keys(self) -> list[str]:
        """Return a few keys that the table has."""
        known = self._rows.where("slice IS NOT NULL").select("key").limit(SAMPLE).collect()
        return [row.key for row in known]

    def assign(self, packing: Packing) -> Sequence[int]:
        """Return all buckets: tasks give each row to one, and some may get none."""
        self._packing = packing
        return range(len(packing.buckets))

    def write(self, files: Sequence[PlannedFile], transaction: Transaction) -> list[WrittenFile]:
        """Let tasks write the files, and give one file of each group its name."""
        packing, known = self._packing, self._task
        task = FileTask(known, tuple(files), self._format, transaction.time, self._done)
        written = _write(self._rows, task, packing) if files else []
        _check_counts(written, packing, self.loads)
        _name_files(known.view, written, transaction)
        return [WrittenFile(files[one.bucket], one.stat, one.keys) for one in written]

    def keys_to_insert(self) -> _RowsToInsert:
        """Return the keys of the new rows, which executors look for."""
        return _RowsToInsert(self._rows, self._task)


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


def _loads(rows: DataFrame, task: RowTask) -> dict[str, Load]:
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
            updates[path][task.slices[number].group.file_id] = count
    # By name, as `workload` has them.
    return {
        path: Load(inserts[path], dict(sorted(updates[path].items()))) for path in sorted(inserts)
    }


def _row_task(
    view: TableView, columns: pa.Schema, operation: str, options: WriteOptions
) -> RowTask:
    """Plan what executors find, after a look at the columns of the rows."""
    named = written_name(view)
    schema = view.table_schema
    if operation == DELETE:
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
    return RowTask(
        task.view,
        task.slices,
        index,
        named,
        kept,
        operation,
        schema,
        options.combines(operation),
        operation == INSERT and options.duplicates == "drop",
    )


def _write(rows: DataFrame, task: FileTask, packing: Packing) -> list[WrittenBucket]:
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
    return sorted(map(written_bucket, found), key=lambda one: one.bucket)


def _check_counts(
    written: Sequence[WrittenBucket], packing: Packing, loads: Mapping[str, Load]
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


def _name_files(
    view: TableView, written: Sequence[WrittenBucket], transaction: Transaction
) -> None:
    """Give the files that count their names."""
    files = {}
    for one in written:
        transaction.open_partition(one.stat.partition_path or "")
        files[str(one.stat.path)] = one.stat.replaces
    transaction.check()
    name_staged_files(view.location, transaction.time, files)
