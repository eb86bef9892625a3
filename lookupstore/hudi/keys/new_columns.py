"""Columns of a new table, with a check that writes can use them.

`create` refuses a table that every write would refuse.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa

from lookupstore.arrow.frames import is_lazy
from lookupstore.errors import listed, meant
from lookupstore.hudi.keys.avro_types import arrow_schema, in_microseconds
from lookupstore.hudi.keys.column_names import check_names
from lookupstore.hudi.meta_columns import META_COLUMNS
from lookupstore.hudi.options import TableOptions
from lookupstore.keys.schema import KeySchema
from lookupstore.source.argument_names import as_argument
from lookupstore.source.opening import KNOWN, UnknownSourceError, in_columns
from lookupstore.source.source import Source

_log = logging.getLogger(__name__)


def columns_of(given: Any, partition_by: Sequence[str] = ()) -> pa.Schema:
    """Return a schema, or the schema of rows without reading them, without meta columns.

    Args:
        given: Schema, or rows.
        partition_by: Partition columns. They are text if they are in the names of folders only,
            such as `day=2026-11-20`, and not integers.

    Raises:
        TypeError: If `given` is neither a schema nor rows, the rows show their columns only when
            read, or a column has values of several types.
        FileNotFoundError, ValueError: See `open_source`.

    >>> columns_of(pa.table({"id": [1], "_hoodie_record_key": ["1"]})).names
    ['id']
    """
    schema = _given_columns(given, partition_by)
    return pa.schema([field for field in schema if field.name not in META_COLUMNS])


def _given_columns(given: Any, partition_by: Sequence[str]) -> pa.Schema:
    if isinstance(given, pa.Schema):
        return given
    if isinstance(given, pa.RecordBatch):
        given = pa.Table.from_batches([given])
    # polars warns when the attribute `schema` of a LazyFrame is read.
    has_schema = not is_lazy(given) and isinstance(getattr(given, "schema", None), pa.Schema)
    if has_schema and not isinstance(given, Source):
        return _in_microseconds(given.schema, given if isinstance(given, pa.Table) else None)
    if not isinstance(given, Iterator):  # the first batch of an iterator would be lost
        try:
            with as_argument("schema"):
                source = in_columns(given, pa.schema([]))
        except UnknownSourceError:
            pass
        except TypeError as error:  # a column has no type
            raise TypeError(f"{error}, or give a pyarrow.Schema") from None
        else:
            source = _with_texts_of_folders(source, partition_by)
            return _in_microseconds(source.schema, source.table)
    raise TypeError(
        f"schema is {type(given).__name__}; give a pyarrow.Schema, or rows that have these "
        f"columns: {KNOWN}"
    )


def _with_texts_of_folders(source: Source, partition_by: Sequence[str]) -> Source:
    if source.folders_with_texts is None:
        return source
    texts = [
        field.with_type(pa.string())
        for field in source.schema
        if field.name in partition_by and not pa.types.is_integer(field.type)
    ]
    return source.folders_with_texts(pa.schema(texts))


def _in_microseconds(schema: pa.Schema, rows: pa.Table | None) -> pa.Schema:
    """Return the columns of rows, with times in microseconds unless known rows would lose digits.

    Args:
        schema: Columns of the rows.
        rows: The rows. None: they are not read here, and the write checks them.
    """
    fields = []
    for at, field in enumerate(schema):
        stored = in_microseconds(field)
        if rows is not None and stored.type != field.type:
            try:
                rows.column(at).cast(stored.type)
            except pa.ArrowInvalid:
                stored = field  # it is refused in its own type
        fields.append(stored)
    return pa.schema(fields)


def check_columns(options: TableOptions, where: str) -> None:
    """Check that writes can make keys, folders and order of the columns.

    Args:
        options: Options of the new table, with its columns.
        where: Location of the table, for errors.

    Raises:
        KeyError: If the table does not have a column.
        TypeError: If keys, folders or order cannot be made of the type of a column.
        ValueError: If two names differ only by case.
    """
    stored = arrow_schema(options.create_schema or "", where)
    check_names(stored, "schema")
    for argument, columns in (
        ("record_key", options.record_key),
        ("partition_by", options.partition_by),
        ("ordering", options.ordering),
    ):
        for name in columns:
            if name not in stored.names:
                others = meant(name, stored.names, f"it has {listed(stored.names)}")
                raise KeyError(f"{argument}: no column {name!r} in the schema{others}")
            _check_type(argument, stored.field(name))


def note_times_without_zone(columns: Mapping[str, Any], where: str) -> None:
    """Log which columns of a new table keep hudi-rs from opening it.

    Args:
        columns: Avro schema of the columns.
        where: Location of the table.
    """
    names = [one["name"] for one in columns["fields"] if '"local-timestamp' in json.dumps(one)]
    if names:
        _log.info(
            "%s: timestamps without a time zone (%s): hudi-rs 0.5 cannot open the table; if you "
            "need it, create the table with a zone, such as by .dt.tz_localize('UTC')",
            where,
            listed(names),
        )


def _check_type(argument: str, field: pa.Field) -> None:
    kind = field.type
    if argument == "ordering":
        try:
            KeySchema(pa.schema([field]))
        except TypeError as error:
            raise TypeError(
                f"ordering: the column {field.name!r} is {kind}, whose values have no order; give "
                "another column"
            ) from error
    elif not (pa.types.is_string(kind) or pa.types.is_signed_integer(kind)):
        texts = "make it pa.string() in the schema, and cast its values to strings"
        if pa.types.is_timestamp(kind):
            form = "%Y-%m-%d" if argument == "partition_by" else "%Y-%m-%d %H:%M:%S.%f"
            texts += f", such as by .dt.strftime({form!r})"
        elif pa.types.is_date(kind):
            texts += ", such as by .astype('string') in pandas"
        if pa.types.is_floating(kind):
            texts = (
                "if its values are whole numbers, leave out rows without one and give integers, "
                f"such as by .astype('int64'); else {texts}"
            )
        raise TypeError(
            f"{argument}: the column {field.name!r} is {kind}, whose text depends on settings of "
            f"Hudi; {texts}"
        )
