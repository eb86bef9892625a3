"""Convert rows of Python: pandas frames, dicts of columns, lists of dicts.

Arrow infers their types from the values. If the columns of the destination are known, their types
guide the conversion of Python objects.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from operator import itemgetter
from typing import Any

import pyarrow as pa

from lookupstore.arrow.frames import array_fields, check_polars, in_own_order, pandas_table
from lookupstore.arrow.objects import check_objects
from lookupstore.arrow.typed_objects import is_of_objects, typed_column


def table_of(given: Any, known: pa.Schema | None) -> tuple[pa.Table, str] | None:
    """Return Python rows as a table, and the name of their kind.

    None: The value is of another kind.

    Args:
        given: Value of any type.
        known: Schema of the destination of the rows, such as a table. None: unknown.

    Raises:
        TypeError: If a column has no Arrow type, or an object does not fit the type of the
            destination.
        ValueError: If a column is repeated, or shorter than others, or if a dict lacks a key.

    >>> table_of([{"id": 1}, {"id": None}], None)[0].column("id").to_pylist()
    [1, None]
    """
    pandas = sys.modules.get("pandas")
    if pandas is not None and isinstance(given, pandas.DataFrame):
        # A named index is a column that the user cares about; the default index is not.
        return pandas_table(given, "source", known), "pandas DataFrame"
    fields = array_fields(given)
    if fields is not None:
        return _of_columns(fields, known), "dict of columns"
    if isinstance(given, dict):
        return _of_columns(given, known), "dict of columns"
    if isinstance(given, (list, tuple)) and given and isinstance(given[0], dict):
        return _of_columns(_columns(given), known), "list of dicts"
    return None


def _columns(rows: Sequence[Any]) -> dict[Any, list[Any]]:
    """Return dicts with the same keys as columns."""
    names = list(rows[0])
    for at, row in enumerate(rows):
        if not isinstance(row, dict):
            raise TypeError(
                f"source: row {at + 1} is {type(row).__name__}, and row 1 a dict; give dicts alone"
            )
        if row.keys() != rows[0].keys():
            lacking = [name for name in names if name not in row]
            name = lacking[0] if lacking else next(one for one in row if one not in rows[0])
            without, other = (at + 1, 1) if lacking else (1, at + 1)
            raise ValueError(
                f"source: row {without} has no {name!r}, which row {other} has; give each dict the "
                "same keys, and None for a null"
            )
    return {name: list(map(itemgetter(name), rows)) for name in names}


def _of_columns(columns: Mapping[Any, Any], known: pa.Schema | None) -> pa.Table:
    """Return columns by name, such as lists and arrays, as a table."""
    arrays = {}
    for name, column in columns.items():
        if isinstance(column, (str, bytes)) or not isinstance(column, Iterable):
            kind = f"{type(column).__module__}.{type(column).__qualname__}"
            raise TypeError(
                f"source: the column {name!r} is {kind.removeprefix('builtins.')}; give a list or "
                "an array"
            )
        if known is not None and name in known.names and is_of_objects(column):
            arrays[name] = typed_column(column, known.field(name).type, name, "source")
            continue
        try:
            check_polars(column, "source")
            arrays[name] = pa.table({name: in_own_order(column)})[name]
        except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
            raise TypeError(
                f"source: the column {name!r} has no Arrow type: {error}; give its values one "
                "type, or pass it as pa.array(values, type)"
            ) from None
        check_objects(column, arrays[name].type, name, "source")
    lengths = {name: len(array) for name, array in arrays.items()}
    if len(set(lengths.values())) > 1:
        raise ValueError(f"source: columns of different lengths: {lengths}")
    return pa.table(arrays)
