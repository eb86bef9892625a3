"""Find the keys of a DataFrame in a Hudi table: executors search, the driver only plans.

Source: org.apache.hudi.index.SparkHoodieIndex (tagLocation).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import LongType, StringType, StructField, StructType

from lookupstore.hudi.index import (
    PLACE_COLUMNS,
    check_known_partitions,
    check_place_columns,
    index_of,
    keys_of,
    named_key,
    partitions_of,
)
from lookupstore.hudi.view import TableView
from lookupstore.spark.context import run_driver_python
from lookupstore.spark.frames import check_dataframe
from lookupstore.spark.hudi.keys import KeyTask, with_keys, with_place_columns
from lookupstore.spark.hudi.tables import Table, view_of
from lookupstore.spark.types import arrow_schema, column_named, numbered

#: Columns of rows in Spark, before their own columns.
KEY_FIELDS: tuple[StructField, ...] = (
    StructField("row", LongType()),
    StructField("key", StringType()),
    StructField("partition", StringType()),
)


def tag_location(
    df: DataFrame,
    table: Table,
    *,
    index: str = "bloom",
    storage_options: Mapping[str, Any] | None = None,
) -> DataFrame:
    """Return rows with the base file and row of their keys, as `HudiTable.tag` does.

    The table is read as it is at this call, whenever the result is computed. Rows are sorted into
    ranges of partition path and key, so that a task needs few files of a table that is sorted by
    key. Each task reads the footers, and the lookup files that its host has.

    Args:
        df: Rows with the columns of key and partition, or with the meta columns for them.
        table: Table, or its path or URI, which the driver and all executors can read.
        index: Name of an index of `lookupstore.hudi.index.names.INDEXES`, or of a class
            `package.module.Class` that executors can import.
        storage_options: Options of the URI of `table`, such as credentials; see
            `lookupstore.Location`.

    Returns:
        The columns of `df`, then `_partition`, `_file_id` and `_instant`, strings, and `_pos`,
        long, which are null where the table does not have the key. The order of rows changes.

    Raises:
        KeyError: If a column of key or partition is missing.
        TypeError: If `df` is not a DataFrame, a key has an unsupported type, `index` is not a name,
            or Arrow has no type for a column.
        ValueError: If there is no such index, or `df` already has one of the four columns.
        FormatError, CorruptionError: If the driver finds the table unsupported or damaged; see
            `HudiTable.tag`.

    If an executor fails, the action raises a `pyspark.errors.PythonException`, and a line of its
    text is the error of lookupstore.

    >>> new = tag_location(changes, "visits").where("_file_id IS NULL")  # doctest: +SKIP
    """
    check_dataframe(df)
    run_driver_python(df.sparkSession)
    names = df.columns
    check_place_columns("df", names)
    view = view_of(table, storage_options)
    task = key_task(view, index, named_key(view), arrow_schema(df.schema))
    check_known_partitions(view, names, index_of(index))
    empty = task.columns.empty_table()
    keys_of(empty, view.options, task.named)
    partitions_of(empty, view.options, is_global=index_of(index).is_global)
    rows = numbered_rows(df, names)
    keyed = rows.mapInArrow(partial(with_keys, task), keyed_schema(rows))
    spread = keyed.repartitionByRange("partition", "key")
    places = [StructField(name, StringType()) for name in PLACE_COLUMNS[:3]]
    given = [
        StructField(f"c{at}", field.dataType, True) for at, field in enumerate(df.schema.fields)
    ]
    schema = StructType([*given, *places, StructField(PLACE_COLUMNS[3], LongType())])
    tagged = spread.mapInArrow(partial(with_place_columns, task), schema)
    return tagged.toDF(*names, *PLACE_COLUMNS)


def key_task(view: TableView, index: str, named: bool | None, columns: pa.Schema) -> KeyTask:
    """Plan on the driver the keys that executors look up.

    Args:
        view: View of the table.
        index: Name of an index.
        named: Whether a record key of one column is written `name:value`. None: unknown.
        columns: Columns of the rows.

    Raises:
        TypeError: If `index` is not a name.
        ValueError: If there is no such index.
    """
    if not isinstance(index, str):
        raise TypeError(f"index is {index!r}; give a name, so that executors can create it")
    index_of(index)
    slices = tuple(view.current())
    return KeyTask(replace(view, commits={}), slices, index, named, columns)


def numbered_rows(df: DataFrame, names: Sequence[str]) -> DataFrame:
    """Return some columns under unambiguous names, after the number of the row."""
    columns = [
        column_named(name).alias(alias)
        for name, alias in zip(names, numbered(len(names)), strict=True)
    ]
    return df.select(F.monotonically_increasing_id().alias("row"), *columns)


def keyed_schema(rows: DataFrame) -> StructType:
    """Return the columns of numbered rows after they have their keys."""
    return StructType([*KEY_FIELDS, *rows.schema.fields[1:]])
