"""Write the rows of a DataFrame to a Hudi table: executors tag and merge, the driver commits.

The steps are those of `lookupstore.hudi.write.pipeline`, with the same effect on each row as in one
process: rows of one key are sent to one task, which resolves and tags them. The driver plans files
from their numbers. Rows are sent to the task of their file, which merges and writes it. The driver
renames one file of each group, checks the commits of others, and completes the instant. Operations
that look up no keys skip steps; `bulk` contains the remaining ones for a bulk insert.

Source: org.apache.hudi.table.action.commit.BaseSparkCommitActionExecutor.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any, Literal, get_args

import pyarrow as pa
from pyspark import StorageLevel
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import (
    ArrayType,
    BooleanType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
)

from lookupstore.hudi import FileSlice, HudiTable, WriteOptions, WriteResult
from lookupstore.hudi.file_group import FileFormat
from lookupstore.hudi.index import index_of, partitions_of, written_name
from lookupstore.hudi.keys import (
    IS_DELETED,
    NOTHING_MISSING,
    IncomingRows,
    MissingColumns,
    read_keys,
)
from lookupstore.hudi.layout import KeptLayout
from lookupstore.hudi.view import TableView
from lookupstore.hudi.write import (
    BULK_INSERT,
    DELETE,
    INSERT,
    INSERT_OVERWRITE,
    INSERT_OVERWRITE_TABLE,
    RETRIED,
    SAMPLE,
    UPSERT,
    FoundRows,
    GivenOptions,
    Load,
    Missing,
    Packing,
    PlannedFile,
    Replaced,
    Transaction,
    WritePipeline,
    WritePlan,
    WrittenFile,
    bulk_order,
    given_options,
    option_advice,
    retried_on,
    with_missing,
)
from lookupstore.keywords import with_advice
from lookupstore.progress import Advance
from lookupstore.spark.buckets import in_buckets
from lookupstore.spark.frames import check_dataframe, check_no_stream
from lookupstore.spark.hudi.bulk import bulk_insert, insert_rows
from lookupstore.spark.hudi.files import (
    WRITTEN,
    FileTask,
    WrittenBucket,
    name_files,
    positions_of,
    with_buckets,
    write_files,
    written_bucket,
)
from lookupstore.spark.hudi.keys import (
    KeyTask,
    RowTask,
    keys_in_files,
    keys_to_delete,
    partitions_in,
    rows_to_add,
    rows_to_write,
    with_row_keys,
)
from lookupstore.spark.hudi.tables import Table, table_of
from lookupstore.spark.hudi.tag import (
    KEY_FIELDS,
    key_task,
    keyed_schema,
    numbered_rows,
)
from lookupstore.spark.jobs import watched_jobs
from lookupstore.spark.raised import raising
from lookupstore.spark.types import arrow_schema, column_named, spark_type

Operation = Literal[
    "upsert",
    "insert",
    "delete",
    "bulk_insert",
    "insert_overwrite",
    "insert_overwrite_table",
    "delete_partition",
]

#: Columns of the place of a row, after its key.
PLACE_FIELDS = (
    StructField("slice", IntegerType()),
    StructField("pos", LongType()),
    StructField("moved", BooleanType()),
)
_FOUND = StructType(
    [StructField("file", IntegerType()), StructField("keys", ArrayType(StringType()))]
)
# Operations that may look up keys, and add rows to small files.
_FINDS = (UPSERT, INSERT, DELETE)
# Maximum number of positions that the driver reads for each partition that keeps a layout.
_SAMPLE = 1 << 16
#: Errors of these steps are raised unchanged, because callers handle them.
STEPS = (
    partitions_in,
    insert_rows,
    with_row_keys,
    keys_to_delete,
    rows_to_write,
    rows_to_add,
    positions_of,
    with_buckets,
    write_files,
    keys_in_files,
)


@with_advice(option_advice)
def upsert(
    df: DataFrame,
    table: Table,
    *,
    operation: Operation = "upsert",
    missing: Missing | None = None,
    options: GivenOptions | None = None,
    dry_run: bool = False,
    storage_options: Mapping[str, Any] | None = None,
) -> WriteResult:
    """Update rows of a Hudi table by key, and insert the others, in one commit.

    The table is then the same as after `HudiTable.upsert` of the same rows, ordered by Spark's
    partitions, then by their position there. Tasks that fail, or run twice, do no harm: one file of
    each file group gets its name.

    The other operations match the other methods of `HudiTable` in the same way.

    Args:
        df: Rows to write. If Spark computes other rows a second time, nothing is committed.
        table: Table, or its path or URI, which the driver and all executors can read.
        operation: Operation on the rows. `upsert` updates or inserts them. `insert` adds them, and
            `options.duplicates` decides about existing keys. `delete` deletes the rows of the keys
            in `df`, as `HudiTable.delete` does. `bulk_insert` writes them to new files in each
            task, after Spark sorted them by `options.sort_mode`. `insert_overwrite` and
            `insert_overwrite_table` replace the rows of their partitions, or all rows.
            `delete_partition` deletes the partitions of the rows, and reads only their partition
            columns.
        missing: Handling of columns of the table that `df` lacks: `keep` keeps the stored values,
            and new rows get nulls; `null` sets all rows to null. Default: the choice in `options`,
            or else `ValueError`.
        options: Options of the write; see `HudiTable.upsert`. `index` must be a name. Executors
            ignore `threads`, `memory` and `spill_folder`, and for a bulk insert also `new_file_id`.
        dry_run: Whether to change nothing, and to return the planned result.
        storage_options: Options of the URI of `table`, such as credentials; see
            `lookupstore.Location`.

    Returns:
        Result of the write, as `HudiTable.upsert` returns it.

    Raises:
        ValueError: If `operation` is unknown, `df` is a stream, a column is new or missing, a row
            has no key or no ordering value, a key to insert exists and may not, or `df` has other
            rows when it is computed again.
        TypeError: If `df` is not a DataFrame, a column does not have the table's type,
            `options.index` is not a name, or a column to sort by has no order.
        KeyError: If there is no such partition to delete, or no such column to sort by.

    It also raises the other errors of `HudiTable.upsert`: `FormatError`, `CommitConflictError`,
    `CommitUnknownError`, `LockedError`, `CorruptionError` and `StaleStoreError`.

    >>> upsert(spark.read.parquet("s3://bucket/changes"), "visits").rows_updated  # doctest: +SKIP
    """
    if operation not in get_args(Operation):
        known = ", ".join(map(repr, get_args(Operation)))
        raise ValueError(f"operation is {operation!r}; give one of {known}")
    check_dataframe(df)
    check_no_stream(df, "df", "write it with df.writeStream.foreachBatch(hudi_sink(TABLE))")
    table = table_of(table, storage_options)
    given = with_missing(given_options(options, table.options, operation.upper()), missing)
    uri = table.location.uri
    with watched_jobs(df.sparkSession, f"lookupstore: {operation} {uri}", "Writing") as done:
        if operation == "delete_partition":
            with raising(STEPS):
                paths = _partitions(df, table)
            return table.delete_partition(paths, options=given, dry_run=dry_run)
        verb = operation.upper()
        _check_options(verb, given)

        def write(view: TableView, attempt: int) -> WriteResult:
            with raising(STEPS):
                written = _write_rows(df, view, verb, given, dry_run, done)
            return replace(written, retries=attempt)

        current = partial(table.writable, given, dry_run=dry_run)
        result = retried_on(current, write, given.retries if verb in RETRIED else 0)
    return table.after_write(result, given)


def _partitions(df: DataFrame, table: HudiTable) -> list[str]:
    """Return the paths of the partitions that rows are in."""
    view = table.view()
    partitions_of(arrow_schema(df.schema).empty_table(), view.options, is_global=False)
    names = [name for name in df.columns if name in view.options.partition_by]
    kept = df.select(*map(column_named, names))
    task = KeyTask(replace(view, commits={}), (), "bloom", None, arrow_schema(kept.schema))
    paths = numbered_rows(df, names).mapInArrow(partial(partitions_in, task), "partition string")
    return sorted(row.partition for row in paths.distinct().collect())


def _check_options(operation: str, options: WriteOptions) -> None:
    """Check the options that Spark restricts, before any other work."""
    if not isinstance(options.index, str):
        raise TypeError(
            f"options.index is {options.index!r}; give a name, so that executors can create it"
        )
    if operation in _FINDS:
        index_of(options.index)
    if options.on_error != "raise":
        raise ValueError(
            f"options.on_error is {options.on_error!r}; in Spark a row that cannot be written "
            "fails the write: leave the option out, and filter such rows first"
        )


def _write_rows(
    df: DataFrame,
    view: TableView,
    operation: str,
    options: WriteOptions,
    dry_run: bool,
    done: Any,
) -> WriteResult:
    """Find rows, write and commit; `done` is called with the number of written rows."""
    columns = arrow_schema(df.schema)
    task, missing = _row_task(view, columns, operation, options)
    if operation == UPSERT and task.brings:
        df = _with_kept(df, task)
        needed = {*task.schema.columns.names, IS_DELETED}
        with_kept = pa.schema([one for one in arrow_schema(df.schema) if one.name in needed])
        task = replace(task, columns=with_kept)
    pipeline = WritePipeline(view, options)
    pipeline.given.missing = missing
    if operation == BULK_INSERT:
        bulk_order(view, task.schema.columns, options)
        if not dry_run:
            return bulk_insert(df, task, pipeline, options, done)
    else:
        pipeline.files = len(task.slices)
    tagged = _tagged(df, task, options).persist(StorageLevel.MEMORY_AND_DISK)
    try:
        with pipeline.step("tag"):
            rows = SparkRows(tagged, task, options.format, done)
        plan = pipeline.plan(operation, rows, _replaced(task, rows.loads))
        if dry_run:
            return rows.planned(plan, pipeline)
        return pipeline.run(plan, rows)
    finally:
        with suppress(Exception):  # the write is committed, or its error is raised
            tagged.unpersist()


def _with_kept(df: DataFrame, task: RowTask) -> DataFrame:
    """Return rows with nulls in kept columns, where rows that move get the stored values."""

    def nulls(field: pa.Field) -> Column:
        return F.lit(None).cast(spark_type(field.type, field.name)[0])

    def filled(struct: Column, kind: pa.StructType, kept: MissingColumns) -> Column:
        for name, inside in kept.fields.items():
            field = kind.field(name)
            value = nulls(field)
            if inside is not None:
                value = filled(struct.getField(name), field.type, inside)
            struct = struct.withField(name, value)
        return struct

    for name, inside in task.kept.fields.items():
        field = task.schema.columns.field(name)
        column = nulls(field) if inside is None else filled(df[name], field.type, inside)
        df = df.withColumn(name, column)
    return df


def _replaced(task: RowTask, loads: Mapping[str, Load]) -> Replaced | None:
    """Return the additional data of a write whose number of rows per partition is known."""
    if task.operation == INSERT_OVERWRITE_TABLE:
        return Replaced(task.slices, None)
    if task.operation == INSERT_OVERWRITE:
        return Replaced([one for one in task.slices if one.group.partition in loads], set(loads))
    return None


def _tagged(df: DataFrame, task: RowTask, options: WriteOptions) -> DataFrame:
    """Return the rows that are going to be written, each with its place."""
    looks_up = options.looks_up(task.operation)
    rows = numbered_rows(df, task.columns.names)
    own = rows.schema.fields[1:]
    if task.operation == DELETE:
        told_apart = [own[task.columns.names.index(name)] for name in task.told_apart.names]
        kept = StructType([*KEY_FIELDS, *told_apart])
        keyed = rows.mapInArrow(partial(keys_to_delete, task), kept)
        own = []
    else:
        keyed = rows.mapInArrow(partial(with_row_keys, task), keyed_schema(rows))
    if looks_up or task.combines:
        together = task.together
        keyed = keyed.repartitionByRange(*together).sortWithinPartitions(*together, "row")
    # Partition columns are those of the table if rows stay in another partition, including nulls.
    nullable = [StructField(one.name, one.dataType) for one in own]
    schema = StructType([*KEY_FIELDS, *PLACE_FIELDS, *nullable])
    return keyed.mapInArrow(partial(rows_to_write if looks_up else rows_to_add, task), schema)


class SparkRows(FoundRows):
    """Rows of a DataFrame on executors, each with its place.

    Args:
        rows: Rows with their places, as `rows_to_write` returns them.
        task: Description of the rows.
        file_format: Format of the base files.
        done: Accumulator of the number of written rows. None: they are not counted.
    """

    def __init__(self, rows: DataFrame, task: RowTask, file_format: FileFormat, done: Any) -> None:
        self.schema = task.schema
        # All rows of other operations are new, and are written to new files.
        self.slices = task.slices if task.operation in _FINDS else ()
        self.loads = _loads(rows, task)
        self._rows = rows
        self._task = task
        self._format = file_format
        self._done = done
        self._packing = Packing((), {})

    def planned(self, plan: WritePlan, pipeline: WritePipeline) -> WriteResult:
        """Return the result of a planned write: the files of a plan that get rows.

        Args:
            plan: Plan of the write.
            pipeline: Pipeline that made the plan.
        """
        assigned = _assigned(self._rows, self._task, plan.files, self._packing)
        used = [row.bucket for row in assigned.select("bucket").distinct().collect()]
        files = tuple(plan.files[number] for number in sorted(used))
        return WriteResult.planned(
            replace(plan, files=files),
            pipeline.given,
            self._deleted(),
            pipeline.files,
            pipeline.seconds,
        )

    def _deleted(self) -> int:
        """Return the number of rows to delete, as far as it is known before the merge."""
        if self._task.operation == DELETE:
            return sum(sum(load.updates.values()) for load in self.loads.values())
        if not self._task.ordered:
            return self._rows.where("moved").count()
        at = self._task.columns.get_field_index(IS_DELETED)
        if at < 0:
            return 0
        own = len(self._rows.columns) - len(self._task.columns)
        return self._rows.where(F.col(self._rows.columns[own + at])).count()

    def known_keys(self) -> list[str]:
        """Return a few keys that the table has, each once."""
        known = self._rows.where("slice IS NOT NULL").select("key").distinct()
        return [row.key for row in known.limit(SAMPLE).collect()]

    def new_positions(self, layouts: Mapping[str, KeptLayout]) -> dict[str, pa.Array]:
        """Return the positions of a sample of the new rows, by partition path."""
        shares = {path: _SAMPLE / self.loads[path].inserts for path in layouts}
        new = self._rows.where("slice IS NULL")
        run = partial(positions_of, self._task, dict(layouts), shares)
        found: dict[str, list[bytes]] = {}
        for path, place in new.mapInArrow(run, "partition string, place binary").collect():
            found.setdefault(path, []).append(bytes(place))
        return {path: pa.array(some, pa.binary(len(some[0]))) for path, some in found.items()}

    def assign(self, packing: Packing) -> Sequence[int]:
        """Return all buckets: tasks assign each row to one, and some may get none."""
        self._packing = packing
        return range(len(packing.buckets))

    def write(
        self, files: Sequence[PlannedFile], transaction: Transaction, advance: Advance
    ) -> list[WrittenFile]:
        """Let tasks write the files, and rename one file of each group."""
        packing, known = self._packing, self._task
        task = FileTask(known, tuple(files), self._format, transaction.time, self._done)
        written = _write(self._rows, task, packing) if files else []
        _check_counts(written, packing, self.loads)
        name_files(known.view, [one.stat for one in written], transaction)
        return [WrittenFile(files[one.bucket], one.stat, one.keys) for one in written]

    def keys_to_insert(self) -> _RowsToInsert:
        """Return the keys of the new rows, which executors look up."""
        return _RowsToInsert(self._rows, self._task)


class _RowsToInsert:
    """Inserted keys, which executors look up."""

    def __init__(self, rows: DataFrame, task: RowTask) -> None:
        self._rows = rows
        self._task = task

    def found_in(
        self, view: TableView, files: Sequence[FileSlice]
    ) -> Iterator[tuple[FileSlice, Sequence[str]]]:
        """Yield the base files that have some of the keys, each with a few of these."""
        # The input of a tag is sorted by partition path and file id.
        files = sorted(files, key=lambda file: file.group)
        index = "global-bloom" if index_of(self._task.index).is_global else "bloom"
        task = KeyTask(replace(view, commits={}), tuple(files), index, None, pa.schema([]))
        new = self._rows.where("slice IS NULL").select("partition", "key")
        found = new.mapInArrow(partial(keys_in_files, task), _FOUND).collect()
        for row in sorted(found, key=lambda row: row.file):
            yield files[row.file], row.keys


def _loads(rows: DataFrame, task: RowTask) -> dict[str, Load]:
    """Return the number of rows to insert and to update, by partition path and file."""
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
    # They are in the order of names, as in `workload`.
    return {
        path: Load(inserts[path], dict(sorted(updates[path].items()))) for path in sorted(inserts)
    }


def _row_task(
    view: TableView, columns: pa.Schema, operation: str, options: WriteOptions
) -> tuple[RowTask, list[str]]:
    """Plan the lookups of executors, and return the columns of the table that rows lack, too."""
    named = written_name(view)
    schema, lacking = view.table_schema, NOTHING_MISSING
    missing: list[str] = []
    if operation == DELETE:
        read_keys(columns.empty_table(), schema.columns, view.options, named=named)
        needed = {*view.options.record_key, *view.options.partition_by}
    else:
        given = IncomingRows(
            columns.empty_table(),
            schema,
            view.options,
            named=named,
            evolve=options.evolve,
            missing=options.missing,
            keeps=operation == UPSERT,
        )
        schema, lacking, missing = given.schema, given.kept, given.missing.names()
        needed = {*schema.columns.names, IS_DELETED}
    kept = pa.schema([one for one in columns if one.name in needed])
    index = str(options.index)
    task = key_task(view, index, named, kept)
    row_task = RowTask(
        task.view,
        task.slices,
        index,
        named,
        kept,
        operation,
        schema,
        options.combines(operation),
        operation == INSERT and options.duplicates == "drop",
        options.update_partition_path,
        lacking,
    )
    return row_task, missing


def _write(rows: DataFrame, task: FileTask, packing: Packing) -> list[WrittenBucket]:
    """Let executors write files, one task per file, and return what they wrote, by bucket."""
    assigned = _assigned(rows, task.rows, task.files, packing)
    count = len(task.files)
    # If several files are assigned to one task, it writes one after the other.
    spread = in_buckets(assigned, count)
    ordered = spread.sortWithinPartitions("bucket", F.col("pos").asc_nulls_last(), "row")
    found = ordered.mapInArrow(partial(write_files, task), WRITTEN).collect()
    return sorted(map(written_bucket, found), key=lambda one: one.bucket)


def _assigned(
    rows: DataFrame, task: RowTask, files: Sequence[PlannedFile], packing: Packing
) -> DataFrame:
    """Return rows after the numbers of their buckets."""
    ids = {file: number for number, file in enumerate(task.slices)}
    file_ids = {ids[file.current]: file.file_id for file in files if file.current is not None}
    schema = StructType([StructField("bucket", IntegerType()), *rows.schema.fields])
    return rows.mapInArrow(partial(with_buckets, task, packing, file_ids), schema)


def _check_counts(
    written: Sequence[WrittenBucket], packing: Packing, loads: Mapping[str, Load]
) -> None:
    """Check that the written rows are those for which the plan was made."""
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
