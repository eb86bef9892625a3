"""Take rows by index or by mask, from columns of any type.

Arrow itself cannot take rows of text and byte views, which polars uses for all text.
"""

from __future__ import annotations

from typing import TypeVar

import pyarrow as pa
import pyarrow.compute as pc

_Column = TypeVar("_Column", pa.Array, pa.ChunkedArray)
_Rows = TypeVar("_Rows", pa.RecordBatch, pa.Table)


def take(column: _Column, places: pa.Array) -> _Column:
    """Return the values at some indices, null where an index is null.

    Args:
        column: Array or chunked array of any type.
        places: Indices of rows, in any order and any number of times.

    >>> take(pa.array(["EWR", "JFK"], pa.string_view()), pa.array([1, None, 0])).to_pylist()
    ['JFK', None, 'EWR']
    """
    return _in_type(movable(column).take(places), column.type)


def take_rows(rows: _Rows, places: pa.Array) -> _Rows:
    """Return the rows at some indices.

    >>> rows = pa.table({"origin": pa.array(["EWR", "JFK"], pa.string_view())})
    >>> take_rows(rows, pa.array([1])).to_pylist()
    [{'origin': 'JFK'}]
    """
    if _are_movable(rows.schema):
        return rows.take(places)
    columns = [take(column, places) for column in rows.columns]
    return type(rows).from_arrays(columns, schema=rows.schema)


def movable(column: _Column) -> _Column:
    """Return the values in a type from which Arrow (and pandas) can take rows.

    >>> movable(pa.array([["EWR"]], pa.list_(pa.string_view()))).type.value_type
    DataType(large_string)
    """
    return _in_type(column, _movable(column.type))


def keep(column: _Column, mask: pa.BooleanArray) -> _Column:
    """Return the values for which a mask is true.

    >>> keep(pa.array(["EWR", "JFK"], pa.string_view()), pa.array([False, True])).to_pylist()
    ['JFK']
    """
    return _in_type(movable(column).filter(mask), column.type)


def keep_rows(rows: _Rows, mask: pa.BooleanArray) -> _Rows:
    """Return the rows for which a mask is true.

    >>> rows = pa.table({"origin": pa.array(["EWR", "JFK"], pa.string_view())})
    >>> keep_rows(rows, pa.array([False, True])).to_pylist()
    [{'origin': 'JFK'}]
    """
    if _are_movable(rows.schema):
        return rows.filter(mask)
    return take_rows(rows, pc.indices_nonzero(mask))


def _in_type(column: _Column, kind: pa.DataType) -> _Column:
    return column if column.type == kind else column.cast(kind)


def _are_movable(schema: pa.Schema) -> bool:
    return all(_movable(field.type) == field.type for field in schema)


def _movable(kind: pa.DataType) -> pa.DataType:
    """Return a type for the same values from which Arrow can take rows."""
    if isinstance(kind, pa.BaseExtensionType):
        inner = _movable(kind.storage_type)
        return kind if inner == kind.storage_type else inner
    if kind == pa.string_view():
        return pa.large_string()
    if kind == pa.binary_view():
        return pa.large_binary()
    if pa.types.is_struct(kind):
        return pa.struct([_movable_field(kind.field(at)) for at in range(kind.num_fields)])
    if pa.types.is_map(kind):
        key, item = _movable_field(kind.key_field), _movable_field(kind.item_field)
        return pa.map_(key, item, keys_sorted=kind.keys_sorted)
    if pa.types.is_fixed_size_list(kind):
        return pa.list_(_movable_field(kind.value_field), kind.list_size)
    if pa.types.is_large_list(kind):
        return pa.large_list(_movable_field(kind.value_field))
    if pa.types.is_list(kind):
        return pa.list_(_movable_field(kind.value_field))
    return kind  # for lists that are views, Arrow moves the views and leaves their elements


def _movable_field(field: pa.Field) -> pa.Field:
    return field.with_type(_movable(field.type))
