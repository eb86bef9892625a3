"""Read Hudi tables into DataFrames: planned on the driver, read by tasks through Arrow."""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructField, StructType

from lookupstore.arrow.changelog import CHANGE
from lookupstore.filters import Filter
from lookupstore.hudi import FileSlice
from lookupstore.hudi.read import (
    ChangePlan,
    ScanPlan,
    plan_changes,
    plan_row_changes,
    plan_scan,
)
from lookupstore.hudi.timeline import When
from lookupstore.hudi.view import TableView
from lookupstore.spark.context import run_driver_python
from lookupstore.spark.hudi.tables import Table, view_of
from lookupstore.spark.jobs import parallelism
from lookupstore.spark.types import arrow_schema, spark_type, to_spark

# Maximum size of the files that one task reads, if there are several:
# `spark.sql.files.maxPartitionBytes`.
_TASK_BYTES = 128 << 20


def read_table(
    spark: SparkSession,
    path: Table,
    *,
    columns: Sequence[str] | None = None,
    filter: Filter | None = None,
    as_of: When | None = None,
    since: When | None = None,
    until: When | None = None,
    changes: bool = False,
    ignore: Sequence[str] = (),
    skipping: bool = True,
    storage_options: Mapping[str, Any] | None = None,
) -> DataFrame:
    """Read a Hudi table as it is at this call, whenever the query runs.

    The driver reads the timeline and lists the files, and each task reads some of them. Types are
    those of the latest commit, even for older rows. With `since` or `until`, the result is the rows
    that changed in that range, as in `HudiTable.incremental`. With `changes`, it is the changes of
    each row, as in `HudiTable.changes`.

    Args:
        spark: Session that runs the tasks.
        path: Folder or URI of the table, which executors must be able to read; or the table, such
            as one that `HudiTable.open` opened for read-optimized queries.
        columns: Columns to read, in this order. No others are read from the files, because Spark
            does not report which columns a query needs. Default: the meta columns, then the data
            columns; with `changes`, the data columns.
        filter: Condition for the rows to read: SQL such as `"a >= 3 and b is null"`, an expression
            of `pyarrow.compute`, a tuple such as `("a", ">=", 3)`, or a list of conditions that
            must all hold. Files of excluded partitions are not opened, and row groups without
            matching rows are not read. Default: all rows.
        as_of: Request time of the last instant to read. Default: the latest.
        since: Position of the last instant before the range: its completion time, or in tables of
            version 6 its request time. The request time of a commit stands for its position.
            Default: the range starts at the beginning.
        until: Position of the last instant of the range. Default: the latest.
        changes: Whether to return the changes of rows, including deletes and both images of
            updates. The first column is `change`. Each record key and partition has at most one
            change. An update has two rows, in any order. One task reads each partition path.
        ignore: Columns in which a difference is not a change, with `changes`.
        skipping: Whether statistics of columns may exclude files.
        storage_options: Options of the URI of `path`, such as credentials; see
            `lookupstore.Location`.

    Returns:
        The columns in Spark's types, with nulls allowed in all of them, and one partition for each
        file, or for several small ones.

    Raises:
        FileNotFoundError: If there is no such table.
        KeyError: If the table lacks a column.
        TypeError: If Spark has no type for a column. Leave that column out.
        ValueError: If a time is not that of an instant, `as_of` is given with another time,
            `filter` does not fit the columns, `filter` or `as_of` is given with `changes`, or
            `ignore` without it.
        FormatError: If the table, or a type in it, is of an unsupported kind.
        CorruptionError: If the timeline is damaged.

    Tasks raise `StaleStoreError` if a clean removed a file, and `CorruptionError` if a file is
    damaged. The action raises a `pyspark.errors.PythonException`, and its text contains that error.

    `docs/how-to/hudi-spark-read.md` shows an example.
    """
    run_driver_python(spark)
    view = view_of(path, storage_options)
    if changes:
        if filter is not None or as_of is not None:
            raise ValueError("changes cannot be combined with filter or as_of; filter what comes")
        return _changes(spark, plan_row_changes(view, since, until, columns, ignore))
    if ignore:
        raise ValueError("ignore is for changes=True, whose rows may have only changed there")
    times = {"as_of": as_of, "since": since, "until": until}
    plan = planned_read(view, columns, filter, **times, skipping=skipping)
    schema = spark_columns(plan.wanted)
    parts = plan.parts(_TASK_BYTES, parallelism(spark))
    # Column in which each task finds the number of its part.
    numbers = spark.range(0, len(parts), 1, max(1, len(parts)))
    return numbers.mapInArrow(functools.partial(_rows, plan, parts, arrow_schema(schema)), schema)


def _changes(spark: SparkSession, plan: ChangePlan) -> DataFrame:
    schema = change_columns(plan)
    parts = plan.parts()
    numbers = spark.range(0, len(parts), 1, max(1, len(parts)))
    return numbers.mapInArrow(functools.partial(_changed, parts, arrow_schema(schema)), schema)


def _changed(
    parts: Sequence[ChangePlan], schema: pa.Schema, batches: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        for number in batch.column(0).to_pylist():
            yield from change_rows(parts[number], schema)


def change_columns(plan: ChangePlan) -> StructType:
    """Return the column of kinds of changes and the columns of a plan, in Spark's types."""
    kind = pa.field(CHANGE, pa.string())
    return spark_columns(pa.schema([kind, *(one for one in plan.schema if one.name != CHANGE)]))


def change_rows(plan: ChangePlan, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Yield changes in the Arrow form of Spark's types; see `ChangePlan.batches`."""
    for found in plan.batches():
        kinds, *values = found.columns
        columns = [kinds.dictionary_decode(), *values]
        fitted = [
            to_spark(column, field.type, field.name)
            for column, field in zip(columns, schema, strict=True)
        ]
        yield pa.RecordBatch.from_arrays(fitted, schema=schema)


def planned_read(
    view: TableView,
    columns: Sequence[str] | None = None,
    filter: Filter | None = None,
    *,
    as_of: When | None = None,
    since: When | None = None,
    until: When | None = None,
    skipping: bool = True,
) -> ScanPlan:
    """Plan `read_table`: changed rows if `since` or `until` is given, else all rows.

    Raises the errors of `read_table`.
    """
    if since is None and until is None:
        return plan_scan(view, columns, filter, as_of=as_of, skipping=skipping)
    if as_of is not None:
        raise ValueError("as_of cannot be combined with since or until; give one or the others")
    return plan_changes(view, columns, filter, since=since, until=until, skipping=skipping)


def spark_columns(schema: pa.Schema) -> StructType:
    """Return columns of a Hudi table in Spark's types, all nullable.

    Raises:
        TypeError: If Spark has no type for a column.
        ValueError: If there are no columns, since rows without columns have no number in Arrow; or
            if a column is named twice.
    """
    if not schema.names:
        raise ValueError("columns is empty; name at least one column")
    for name, count in Counter(schema.names).items():
        if count > 1:
            raise ValueError(f"columns names {name!r} twice")
    return StructType(
        [StructField(field.name, spark_type(field.type, field.name)[0]) for field in schema]
    )


def part_rows(
    plan: ScanPlan, files: Sequence[FileSlice], schema: pa.Schema
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of some files in the Arrow form of Spark's types; see `ScanPlan.batches`."""
    for batch in plan.batches(files):
        columns = [to_spark(batch.column(field.name), field.type, field.name) for field in schema]
        yield pa.RecordBatch.from_arrays(columns, schema=schema)


def _rows(
    plan: ScanPlan,
    parts: Sequence[Sequence[FileSlice]],
    schema: pa.Schema,
    batches: Iterable[pa.RecordBatch],
) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        for number in batch.column(0).to_pylist():
            yield from part_rows(plan, parts[number], schema)
