"""Paimon's lookup files as typed keys and rows: conversion between bytes and columns."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from lookupstore.arrow._binary import BinaryColumn
from lookupstore.arrow.texts import check_texts
from lookupstore.compacted._codec import (
    BadCellError,
    CompactedRowError,
    read_positions,
    write_positions,
)
from lookupstore.compacted.rows import CompactedRows
from lookupstore.compacted.schema import Types, arrow_schema
from lookupstore.sst._block import sortable_keys

#: Names of the columns that a mode adds: the names of Paimon where it has one.
SEQUENCE, KIND, POSITION = "_SEQUENCE_NUMBER", "_VALUE_KIND", "_POSITION"

_TYPES = {SEQUENCE: pa.int64(), KIND: pa.int8(), POSITION: pa.int64()}


class Mode(NamedTuple):
    """The content of a value.

    Attributes:
        has_row: Whether a value begins with a row.
        columns: Names of the columns after the row, in this order.
        is_varint: Whether the value is one position as a varint.
    """

    has_row: bool
    columns: tuple[str, ...]
    is_varint: bool = False


#: Contents of values by mode. The names are those of Paimon, except `row`: a row and nothing else.
MODES = {
    "value": Mode(True, (SEQUENCE, KIND)),
    "position": Mode(False, (POSITION,), is_varint=True),
    "position-and-value": Mode(True, (POSITION, SEQUENCE, KIND)),
    "empty": Mode(False, ()),
    "row": Mode(True, ()),
}


class TypedRecords:
    """The types of the keys and values of a Paimon lookup file.

    Args:
        key_types: Arrow schema of the keys, or the list of their fields.
        value_types: Arrow schema of the rows in values, or the list of their fields, if the mode
            has rows.
        mode: Content of the values, one of `MODES`.
    """

    def __init__(self, key_types: Types, value_types: Types | None, mode: str = "value") -> None:
        key_types = arrow_schema(key_types)
        value_types = None if value_types is None else arrow_schema(value_types)
        if mode not in MODES:
            raise ValueError(f"mode must be one of {', '.join(map(repr, MODES))}, not {mode!r}")
        self._mode = MODES[mode]
        if value_types is None and self._mode.has_row:
            raise ValueError(f"mode={mode!r} needs value_types=")
        self._keys = CompactedRows(key_types, "key_types")
        # Nulls may be looked up in every key field; in fields that are not nullable they are not
        # found.
        asked = pa.schema([field.with_nullable(True) for field in key_types])
        self._asked = CompactedRows(asked, "key_types")
        self._widths = [_TYPES[name].bit_width // 8 for name in self._mode.columns]
        self._values: CompactedRows | None = None
        if self._mode.has_row:
            assert value_types is not None
            self._values = CompactedRows(value_types, "value_types")
        self.arguments: tuple[pa.Schema, pa.Schema | None, str] = (key_types, value_types, mode)
        self.order: str = self._keys.order()
        fields = [] if self._values is None else list(self._values.schema)
        fields += [pa.field(name, _TYPES[name]) for name in self._mode.columns]
        self.key_schema: pa.Schema = key_types
        self.value_schema: pa.Schema = pa.schema(fields)
        #: Schema of the columns of lookups; all are nullable, because keys may be missing.
        self.answer_schema: pa.Schema = pa.schema([field.with_nullable(True) for field in fields])
        self.scan_schema: pa.Schema = pa.schema([*key_types, *fields])
        for name, count in Counter(self.scan_schema.names).items():
            if count > 1:
                raise ValueError(
                    f"{name!r} is the name of two columns of keys and values; call that of the key "
                    f"'_KEY_{name}', as Paimon does"
                )

    # -- to bytes

    def asked_keys(self, keys: Any) -> BinaryColumn:
        """Return keys to look up as bytes: columns in a table or dict, or a single column."""
        return BinaryColumn(self._asked.encode(_columns(keys, self.key_schema, "keys")), "keys")

    def key_rows(self, keys: Any) -> BinaryColumn:
        """Return keys to write as bytes: columns in a table or dict, or a single column."""
        columns = _columns(keys, self.key_schema, "keys")
        _check_texts(columns, self.key_schema, "keys")
        return BinaryColumn(self._keys.encode(columns), "keys")

    def sort_keys(self, rows: pa.Array) -> pa.LargeBinaryArray:
        """Return bytes that sort like the keys, and are equal for keys that are equal in Paimon."""
        return sortable_keys(self.order, BinaryColumn(rows, "keys"))

    def key(self, key: Any) -> bytes:
        """Return one key as bytes, from a value, or from a tuple or mapping with all fields."""
        row: bytes = self._asked.encode(_columns_of_one(key, self.key_schema, "key"))[0].as_py()
        return row

    def value_rows(self, values: Any, count: int) -> BinaryColumn:
        """Return `count` values as bytes: columns in a table or dict, or a single column.

        Values are None if the mode has no columns.
        """
        columns: list[pa.Array] = []
        if self.value_schema.names:
            columns = _columns(values, self.value_schema, "values")
            _check_texts(columns, self.value_schema, "values")
        elif values is not None:
            raise TypeError("values have no columns in this mode; give None")
        return BinaryColumn(self._value_bytes(columns, count), "values")

    def _value_bytes(self, columns: list[pa.Array], count: int) -> pa.Array:
        width = 0 if self._values is None else len(self._values.schema)
        added = dict(zip(self._mode.columns, columns[width:], strict=True))
        for name, column in added.items():
            if column.null_count:
                raise ValueError(f"the column {name!r} has nulls")
        if KIND in added and count:
            bounds = pc.min_max(added[KIND]).as_py()
            if bounds["min"] < 0 or bounds["max"] > 3:
                raise ValueError(f"the column {KIND!r} has a kind that is not from 0 to 3")
        if self._mode.is_varint:
            (positions,) = columns
            try:
                return write_positions(_buffer(positions), len(positions))
            except BadCellError as error:
                raise ValueError(f"row {error.args[0] + 1}: {POSITION!r} is below 0") from None
        if self._values is None:  # the mode records only presence
            return pa.array([b""] * count, pa.large_binary())
        tails = [(_buffer(column), column.type.bit_width // 8) for column in added.values()]
        return self._values.encode(columns[:width], tails)

    # -- from bytes

    def keys_of(self, rows: pa.Array) -> list[pa.Array]:
        """Return the columns of keys.

        Raises:
            CompactedRowError: A key is not a row of its types.
        """
        return self._keys.decode(rows)[0]

    def values_of(self, rows: pa.Array) -> list[pa.Array]:
        """Return the columns of values; a null value is null in all of them.

        Raises:
            CompactedRowError: A value does not have the types and the mode.
        """
        if self._mode.is_varint:
            return [_array(read_positions(rows), POSITION, rows)]
        if self._values is None:
            sizes = pc.fill_null(pc.binary_length(rows), 0)
            if len(rows) and pc.max(sizes).as_py() > 0:
                raise CompactedRowError(pc.index(pc.greater(sizes, 0), True).as_py(), 0)
            return []
        columns, tails = self._values.decode(rows, self._widths)
        added = zip(tails, self._mode.columns, strict=True)
        return columns + [_array(buffer, name, rows) for buffer, name in added]


def _buffer(column: pa.Array) -> pa.Buffer:
    """Return the buffer of the numbers of a column without nulls."""
    width = column.type.bit_width // 8
    data = column.buffers()[1]
    return data.slice(column.offset * width) if data is not None else pa.py_buffer(b"")


def _array(buffer: pa.Buffer, name: str, rows: pa.Array) -> pa.Array:
    """Return numbers as an array that is null where the rows are null."""
    array = pa.Array.from_buffers(_TYPES[name], len(rows), [None, buffer])
    if rows.null_count:
        array = pc.if_else(rows.is_valid(), array, pa.scalar(None, array.type))
    return array


def _columns(given: Any, schema: pa.Schema, name: str) -> list[pa.Array]:
    """Return a column for each field, in its type, from a table, a batch, a dict, or one array."""
    if isinstance(given, (pa.Array, pa.ChunkedArray)) and not pa.types.is_struct(given.type):
        if len(schema) != 1:
            raise TypeError(f"{name} is one array for {len(schema)} columns; give a table")
        columns: list[Any] = [given]
    elif isinstance(given, (list, tuple)) and len(schema) == 1:
        columns = [given]
    else:
        if isinstance(given, pa.StructArray):
            given = pa.RecordBatch.from_struct_array(given)
        if not isinstance(given, (pa.Table, pa.RecordBatch, Mapping)):
            raise TypeError(
                f"{name} is {type(given).__name__}; give a pyarrow table or record batch, or a "
                "dict of columns"
            )
        there = list(given) if isinstance(given, Mapping) else given.schema.names
        counts = Counter(there)
        for field in schema.names:
            if counts[field] != 1:
                raise KeyError(f"{name} has no single column {field!r} among {there}")
        columns = [given[field] for field in schema.names]
    made = [_cast(column, field, name) for column, field in zip(columns, schema, strict=True)]
    if len({len(column) for column in made}) > 1:
        raise ValueError(f"{name} has columns of different lengths")
    return made


def _cast(column: Any, field: pa.Field, name: str) -> pa.Array:
    try:
        if isinstance(column, pa.ChunkedArray):
            column = column.combine_chunks()
            if isinstance(column, pa.ChunkedArray):
                column = pa.concat_arrays(column.chunks)
        if not isinstance(column, pa.Array):
            return pa.array(column, field.type)
        return column if column.type.equals(field.type) else column.cast(field.type)
    except (pa.ArrowException, OverflowError) as error:
        raise ValueError(f"{name}: column {field.name!r}, which is {field.type}: {error}") from None


def _check_texts(columns: list[pa.Array], schema: pa.Schema, name: str) -> None:
    check_texts(pa.RecordBatch.from_arrays(columns, names=schema.names), name)


def _columns_of_one(given: Any, schema: pa.Schema, name: str) -> list[pa.Array]:
    if isinstance(given, Mapping) and set(given) == set(schema.names):
        values: Sequence[Any] = [given[field] for field in schema.names]
    elif isinstance(given, tuple) and len(given) == len(schema):
        values = given
    elif len(schema) == 1 and not isinstance(given, (Mapping, tuple)):
        values = [given]
    else:
        raise TypeError(
            f"{name} is {given!r}; give a value for each of {schema.names}, as tuple or dict"
        )
    return [_cast([value], field, name) for value, field in zip(values, schema, strict=True)]
