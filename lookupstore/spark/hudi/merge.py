"""Merge the rows of a DataFrame into a Hudi table: executors apply clauses, the driver commits.

One task gets all rows of a key. It finds the stored row, reads the columns that clauses need, and
computes the new row. The results are then written by the stages of an upsert.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyspark import StorageLevel
from pyspark.sql import DataFrame
from pyspark.sql.types import StructField, StructType

from lookupstore.arrow.types import concat
from lookupstore.errors import listed, meant
from lookupstore.hudi import HudiTable, WriteOptions, WriteResult
from lookupstore.hudi.index import index_of, written_name
from lookupstore.hudi.keys import Incoming, ordering_of, paths_of, read_keys
from lookupstore.hudi.meta_columns import META_COLUMNS
from lookupstore.hudi.table import TableMerge
from lookupstore.hudi.view import TableView
from lookupstore.hudi.write import (
    SOURCE,
    TARGET,
    UPSERT,
    ClauseRows,
    GivenMerge,
    GivenOptions,
    MergePlan,
    WritePipeline,
    check_same_keys,
    fixed_columns,
    given_options,
    planned_merge,
    retried_on,
)
from lookupstore.spark.frames import check_dataframe, check_no_stream
from lookupstore.spark.hudi.keys import Batches, KeyTask, RowTask, tables_of, with_keys
from lookupstore.spark.hudi.tables import Table, table_of
from lookupstore.spark.hudi.tag import KEY_FIELDS, key_task, keyed_schema, numbered_rows
from lookupstore.spark.hudi.write import PLACE_FIELDS, STEPS, SparkRows
from lookupstore.spark.jobs import watched_jobs
from lookupstore.spark.raised import raising
from lookupstore.spark.types import arrow_schema, numbered, spark_type

# Indexes that search all partitions, by the index that searches the row's own partition.
_EVERYWHERE = {"simple": "global-simple"}


@dataclass(frozen=True)
class MergeTask(KeyTask):
    """The description of a merge for executors.

    Attributes:
        plan: Checked clauses.
        key_fields: Columns of the record key, with the table's types.
        fixed: Names of the columns of key and partition.
        together: Names of columns that are equal in rows of the same key.
    """

    plan: MergePlan
    key_fields: pa.Schema
    fixed: tuple[str, ...]
    together: tuple[str, ...]


def hudi_merge(
    df: DataFrame,
    table: Table,
    on: str | Sequence[str] | None = None,
    *,
    storage_options: Mapping[str, Any] | None = None,
) -> TableMerge:
    """Begin a merge of a DataFrame into a Hudi table.

    Add clauses with the methods of the returned object. Nothing changes before
    `TableMerge.execute`, which makes one commit. Rows stay on executors. The clause
    `when_not_matched_by_source_delete` is not supported.

    Args:
        df: Rows, with each key once. Spark must compute the same rows each time. Conditions and
            values can use columns that the table does not have.
        table: Table, or its path or URI, which the driver and all executors can read.
        on: Columns to match rows by: those of the record key, or these and the partition columns.
            Default: the record key, and the partition columns if `df` has them.
        storage_options: Options of the URI of `table`, such as credentials; see
            `lookupstore.Location`.

    Raises:
        TypeError: If `df` is not a DataFrame.
        ValueError: If `df` is a stream, or `on` names other columns.

    `TableMerge.execute` raises the errors of the merge itself.

    >>> merge = hudi_merge(spark.read.parquet("s3://bucket/news"), "visits")  # doctest: +SKIP
    >>> merge.when_matched_update().when_not_matched_insert().execute()  # doctest: +SKIP
    """
    check_dataframe(df)
    check_no_stream(df, "df", "merge its batches, in foreachBatch")
    opened = table_of(table, storage_options)
    checked = opened.merge_keys(on)
    return TableMerge(partial(_executed, df, opened, checked))


def _executed(
    df: DataFrame,
    table: HudiTable,
    on: Sequence[str] | None,
    clauses: GivenMerge,
    options: GivenOptions | None,
    dry_run: bool,
) -> WriteResult:
    if clauses.left:
        raise ValueError(
            f"{clauses.left[0].name}: not supported in Spark; use HudiTable.merge in one process, "
            "or delete the rows with upsert(..., operation='delete')"
        )
    given = given_options(options, table.options, UPSERT)
    if not isinstance(given.index, str):
        raise TypeError(
            f"options.index is {given.index!r}; give a name, so that executors can create it"
        )
    uri = table.location.uri
    with watched_jobs(df.sparkSession, f"lookupstore: merge {uri}", "Writing") as done:

        def write(view: TableView, attempt: int) -> WriteResult:
            with raising((with_keys, rows_to_merge, *STEPS)):
                merged = _merged(df, view, on, clauses, given, dry_run, done)
            return replace(merged, retries=attempt)

        current = partial(table.writable, given, dry_run=dry_run)
        result = retried_on(current, write, given.retries)
    return table.after_write(result, given)


def _merged(
    df: DataFrame,
    view: TableView,
    on: Sequence[str] | None,
    clauses: GivenMerge,
    options: WriteOptions,
    dry_run: bool,
    done: Any,
) -> WriteResult:
    columns = view.table_schema.columns
    names = [name for name in df.columns if name not in META_COLUMNS]
    given = arrow_schema(df.select(*(df[f"`{name}`"] for name in names)).schema)
    task = _task(view, given, on, clauses, str(options.index))
    rows = numbered_rows(df, names)
    keyed = rows.mapInArrow(partial(with_keys, task), keyed_schema(rows))
    spread = keyed.repartitionByRange(*task.together).sortWithinPartitions(*task.together, "row")
    own = [
        StructField(alias, spark_type(field.type, field.name)[0])
        for alias, field in zip(numbered(len(columns)), columns, strict=True)
    ]
    schema = StructType([*KEY_FIELDS, *PLACE_FIELDS, *own])
    found = spread.mapInArrow(partial(rows_to_merge, task), schema)
    merged = found.persist(StorageLevel.MEMORY_AND_DISK)
    row_task = RowTask(
        task.view, task.slices, task.index, task.named, columns, UPSERT, view.table_schema,
        combines=False, drops=False, moves=False, kept=task.plan.kept, ordered=False,
    )  # fmt: skip
    pipeline = WritePipeline(view, options)
    pipeline.files = len(task.slices)
    try:
        with pipeline.step("tag"):
            spark_rows = SparkRows(merged, row_task, options.format, done)
        plan = pipeline.plan(UPSERT, spark_rows, None)
        if dry_run:
            return spark_rows.planned(plan, pipeline)
        return pipeline.run(plan, spark_rows)
    finally:
        with suppress(Exception):  # the merge is committed, or its error is raised
            merged.unpersist()


def _task(
    view: TableView,
    given: pa.Schema,
    on: Sequence[str] | None,
    clauses: GivenMerge,
    index: str,
) -> MergeTask:
    """Check a merge on the driver, and return it as executors need it."""
    columns, options = view.table_schema.columns, view.options
    for name in on or ():
        if name not in given.names:
            others = meant(name, given.names, f"it has {listed(given.names)}")
            raise KeyError(f"on: df has no column {name!r}{others}")
    keys = given if on is None else pa.schema([given.field(name) for name in on])
    named = written_name(view)
    _, paths = read_keys(keys.empty_table(), columns, options, named=named)
    if (paths is None or not options.partition_by) and not index_of(index).is_global:
        index = _EVERYWHERE.get(index, "global-bloom") if options.partition_by else index
    fixed = fixed_columns(options)
    plan = planned_merge(clauses, given, columns, fixed, ordering_of(options))
    known = key_task(view, index, named, given)
    is_global = index_of(index).is_global
    return MergeTask(
        known.view, known.slices, index, named, given, plan,
        pa.schema([columns.field(name) for name in options.record_key]),
        tuple(dict.fromkeys(fixed)),
        ("key",) if is_global else ("partition", "key"),
    )  # fmt: skip


def rows_to_merge(task: MergeTask, batches: Batches) -> Iterator[pa.RecordBatch]:
    """Yield changed, deleted and new rows with their places; `moved` marks deleted rows.

    Args:
        task: The merge.
        batches: Rows sorted by `task.together` and number, with all rows of a key.
    """
    plan, view = task.plan, task.view
    numbers = {file: number for number, file in enumerate(task.slices)}
    for table in tables_of(batches, task.together):
        _check_each_once(table, task.together)
        own = task.rows(table)
        keys = concat(table.column("key").chunks, pa.string())
        paths = concat(table.column("partition").chunks, pa.string())
        found = task.tag(table, repeated=True)
        fields = [own[one.name].cast(one.type) for one in task.key_fields]
        incoming = Incoming(
            pa.table(fields, schema=task.key_fields),
            pa.chunked_array([keys]),
            paths.dictionary_encode(),
        )
        check_same_keys(view, incoming, found)
        rows = np.arange(table.num_rows) if found.rows is None else found.rows
        where = np.flatnonzero(found.found)
        changed = ClauseRows(
            view.location, plan.columns, plan.matched, TARGET, flagged=True, also=task.fixed
        )
        given = own.rename_columns([f"{SOURCE}{one}" for one in own.column_names])
        met = rows[where]
        at, positions = found.slice_numbers[where], found.positions[where]
        order = np.lexsort((positions, at))
        for number in np.unique(at).tolist() if plan.matched else ():
            which = order[at[order] == number]
            file = found.slices[number]
            mine = pa.array(met[which])
            for one, places in changed.of_file(
                file, keys.take(mine), positions[which], given.take(mine)
            ):
                count = len(one)
                yield _batch(
                    np.zeros(count, np.int64),
                    one.keys,
                    pa.repeat(pa.scalar(file.group.partition), count),
                    pa.array(np.full(count, numbers[file], np.int32)),
                    pa.array(places.positions),
                    one.deleted,
                    one.rows,
                )
        lacking = np.setdiff1d(np.arange(table.num_rows), met)
        of_rows = concat(table.column("row").chunks, pa.int64()).to_numpy()
        for new, stored in plan.new_rows(given, keys, lacking):
            count = len(new)
            yield _batch(
                of_rows[new],
                pa.chunked_array([keys.take(pa.array(new))]),
                paths_of(stored, view.options).dictionary_decode(),
                pa.nulls(count, pa.int32()),
                pa.nulls(count, pa.int64()),
                np.zeros(count, bool),
                stored,
            )


def _batch(
    rows: npt.NDArray[np.int64],
    keys: pa.ChunkedArray,
    partitions: pa.Array,
    slices: pa.Array,
    positions: pa.Array,
    deleted: npt.NDArray[np.bool_] | None,
    own: pa.Table,
) -> pa.RecordBatch:
    columns = [
        pa.array(rows),
        concat(keys.chunks, pa.string()),
        partitions.cast(pa.string()),
        slices,
        positions,
        pa.array(deleted),
        *(concat(column.chunks, column.type) for column in own.columns),
    ]
    names = ["row", "key", "partition", "slice", "pos", "moved", *numbered(own.num_columns)]
    return pa.RecordBatch.from_arrays(columns, names=names)


def _check_each_once(table: pa.Table, together: Sequence[str]) -> None:
    """Check that no two rows, which are sorted by key, have one key."""
    if table.num_rows < 2:
        return
    same = np.ones(table.num_rows - 1, bool)
    for name in together:
        column = concat(table.column(name).chunks, pa.string())
        same &= pc.equal(column[1:], column[:-1]).to_numpy(zero_copy_only=False)
    if same.any():
        key = table.column("key")[int(np.flatnonzero(same)[0])].as_py()
        raise ValueError(
            f"df: several rows have the key {key!r}; give each key once, such as with "
            "df.dropDuplicates"
        )
