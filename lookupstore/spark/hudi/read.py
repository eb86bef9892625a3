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
from lookupstore.hudi import FileSlice
from lookupstore.hudi.layout import Filter
from lookupstore.hudi.read import (
    ChangePlan,
    ScanPlan,
    plan_changes,
    plan_row_changes,
    plan_scan,
)
from lookupstore.hudi.timeline import When
from lookupstore.hudi.view import TableView
from lookupstore.spark.hudi.tables import Table, view_of
from lookupstore.spark.jobs import parallelism
from lookupstore.spark.types import arrow_schema, spark_type, to_spark

# Most bytes of files that one task reads, if they are several: `spark.sql.files.maxPartitionBytes`.
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
    """Read a Hudi table; the rows are those of now, whenever the query runs.

    The driver reads the timeline and lists the files; each task reads some of them. Types are those
    of the latest commit, also of older rows. With `since` or `until` these are the rows that
    changed in that range, as `HudiTable.incremental` gives them; with `changes` what became of each
    row, as `HudiTable.changes` does.

    Args:
        spark: any session.
        path: folder or URI of the table, which executors must see, too; or the table, such as one
            that `HudiTable.open` opened for read-optimized queries.
        columns: that are wanted, in this order; None: the meta columns, then the data columns.
            Nothing else is read of the files: Spark does not tell what a query needs.
        filter: which rows, as of `HudiTable.scan`; files of partitions that it leaves out are not
            opened, and row groups without any are not read.
        as_of: request time of the last instant that counts; None: the latest.
        since: position of the last instant whose rows are known already: its completion time, in
            tables of version 6 its request time.
        until: position of the last instant whose rows are wanted; None: of the latest.
        changes: whether deletes and both images of updates are wanted, too; the first column is
            `change`. Of each record key and partition there is one change, of two rows if it is an
            update, whose order Spark does not keep. One task looks at each partition path.
        ignore: with `changes`, columns in which a change does not count.
        skipping: Whether statistics of columns may leave out files.
        storage_options: of a URI, as of `lookupstore.Location`.

    Returns:
        The columns in Spark's types; each may be null. One partition for each file, or for several
        small ones.

    Raises:
        FileNotFoundError: there is no such table.
        KeyError: a column that the table does not have.
        TypeError: a column for which Spark has no type: leave it out.
        ValueError: a time is not that of an instant, `as_of` is given with another time, or
            `filter` does not fit the columns.
        FormatError: the table, or a type in it, is of a kind that is not read.
        CorruptionError: the timeline is damaged.

    Tasks raise `StaleStoreError` if a clean took a file, `CorruptionError` if one is damaged; what
    the action raises is a `pyspark.errors.PythonException` whose text has it.

    `docs/hudi-tables.md` shows it in use.
    """
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
    # A column in which the tasks find the numbers of their parts: one each.
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
    """Return what says the change, and the columns of a plan, in Spark's types."""
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
    """Plan what `read_table` reads: changes if `since` or `until` is given, else all rows.

    Raises: what `read_table` does.
    """
    if since is None and until is None:
        return plan_scan(view, columns, filter, as_of=as_of, skipping=skipping)
    if as_of is not None:
        raise ValueError("as_of cannot be combined with since or until; give one or the others")
    return plan_changes(view, columns, filter, since=since, until=until, skipping=skipping)


def spark_columns(schema: pa.Schema) -> StructType:
    """Return columns of a Hudi table in Spark's types; each may be null.

    Raises:
        TypeError: a column for which Spark has no type.
        ValueError: there are none, since rows without columns have no number in Arrow; or one comes
            twice.
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
