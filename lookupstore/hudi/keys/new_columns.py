"""The columns of a new table: which ones a caller means, and whether writes can use them.

A table that every write would refuse is refused when it is made.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pyarrow as pa

from lookupstore.errors import listed
from lookupstore.hudi.keys.avro_types import arrow_schema
from lookupstore.hudi.keys.column_names import check_names
from lookupstore.hudi.options import TableOptions
from lookupstore.keys.schema import KeySchema
from lookupstore.source.source import KNOWN, Source, in_columns


def columns_of(given: Any) -> pa.Schema:
    """Return a schema, or that of rows, which are not read.

    Raises:
        TypeError: it is neither, or rows that do not say their columns before they are read.
        FileNotFoundError, ValueError: as of `open_source`.

    >>> columns_of(pa.table({"id": [1]})).names
    ['id']
    """
    if isinstance(given, pa.Schema):
        return given
    if isinstance(getattr(given, "schema", None), pa.Schema):
        return given.schema
    if not isinstance(given, Iterator):  # whose first batch would be gone
        try:
            return _without_nanoseconds(in_columns(given, pa.schema([])))
        except TypeError:
            pass
    raise TypeError(
        f"schema is {type(given).__name__}; give a pyarrow.Schema, or rows that have these "
        f"columns: {KNOWN}"
    )


def _without_nanoseconds(source: Source) -> pa.Schema:
    """Return the columns of rows, times in microseconds if no digit is lost.

    Times of pandas are in nanoseconds, of which Hudi tables have none.
    """
    if source.table is None:
        return source.schema
    fields = []
    for field, column in zip(source.schema, source.table.columns, strict=True):
        kind = field.type
        if pa.types.is_timestamp(kind) and kind.unit == "ns":
            with suppress(pa.ArrowInvalid):  # it is refused as what it is
                kind = column.cast(pa.timestamp("us", kind.tz)).type
        fields.append(field.with_type(kind))
    return pa.schema(fields)


def check_columns(options: TableOptions, where: str) -> None:
    """Make sure that writes can make keys, folders and order of the columns that are to be these.

    Args:
        options: of the new table, with its columns.
        where: the table is, for errors.

    Raises:
        KeyError: there is no such column.
        TypeError: a column is of a type of which they cannot be made.
        ValueError: two names differ by case only.
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
                known = listed(stored.names)
                raise KeyError(f"{argument}: no column {name!r} in the schema, which has {known}")
            _check_type(argument, stored.field(name))


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
        raise TypeError(
            f"{argument}: the column {field.name!r} is {kind}, whose text depends on settings of "
            "Hudi; make it pa.string() in the schema, and cast its values to strings"
        )
