"""Keys as callers hold them, to encoded keys.

What is accepted, for a key of one field:

- a column: an Arrow array or chunked array, a one-dimensional NumPy array, a pandas Series or
  Index, a polars Series, or any object with `__arrow_c_array__` or `__arrow_c_stream__`;
- a list of values.

For a key of one or more fields:

- a table: an Arrow table, record batch or struct array, a pandas or polars DataFrame, a NumPy
  structured array, or a dict of columns. Fields are found by name; other columns are ignored;
- a pandas MultiIndex: by name if all levels are named, else in the order of the key;
- a tuple of columns, one for each field, in the order of the key;
- a list of tuples, with the values in the order of the key, or of dicts by field name.

So a list holds keys and a tuple holds columns.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from lookupstore.keys import KeySchema

_CONVERSION_ERRORS = (pa.ArrowException, OverflowError)


def encode_keys(keys: Any, schema: KeySchema) -> pa.Array:
    """Encode a batch of keys given in any of the forms above.

    A key that no store can hold (null in a field without nulls, or a value outside the field's
    type) is no error: it is null in the result, and matches nothing.

    Raises:
        TypeError: keys of a wrong type or form; the error names the field and the right type.
        KeyError: a table or dict without a key field.
        ValueError: columns of different lengths.

    >>> schema = KeySchema(pa.schema({"id": pa.int64()}))
    >>> encode_keys([1, None], schema).is_valid().to_pylist()
    [True, False]
    """
    if isinstance(keys, list):
        return _encode_list(keys, schema)
    return schema.encode_masked(_columns(keys, schema))[0]


def _columns(keys: Any, schema: KeySchema) -> list[Any]:
    names = schema.names
    pandas = sys.modules.get("pandas")
    if isinstance(keys, tuple):
        if len(keys) != len(names) or not all(_is_column(column) for column in keys):
            raise TypeError(
                f"keys: a tuple holds one column for each key field, here {list(names)}; got "
                f"{_described(keys)}; give a list for a batch of keys"
            )
        return [_column(column) for column in keys]
    if pandas is not None and isinstance(keys, pandas.MultiIndex):
        if all(name is not None for name in keys.names):
            keys = {name: keys.get_level_values(name) for name in keys.names}
        elif keys.nlevels == len(names):
            return [_column(keys.get_level_values(i)) for i in range(keys.nlevels)]
        else:
            raise TypeError(
                f"keys: a MultiIndex of {keys.nlevels} levels; the key has {list(names)}"
            )
    if pandas is not None and isinstance(keys, pandas.DataFrame):
        keys = {name: keys[name] for name in keys.columns if name in names}
    if isinstance(keys, np.ndarray) and keys.dtype.names is not None:
        keys = {name: keys[name] for name in keys.dtype.names}
    if isinstance(keys, (pa.Table, pa.RecordBatch)):
        keys = {field.name: keys.column(i) for i, field in enumerate(keys.schema)}
    if isinstance(keys, Mapping):
        return [_column(keys[name]) for name in _needed(list(keys), names)]
    if not _is_column(keys):
        raise TypeError(
            f"keys is {_described(keys)}; give a list of keys, an Arrow, NumPy, pandas or polars "
            f"column or table with {list(names)}, or a tuple of columns"
        )
    column = _column(keys)
    if pa.types.is_struct(column.type):
        chunks = column.chunks if isinstance(column, pa.ChunkedArray) else [column]
        table = pa.Table.from_batches(
            [pa.RecordBatch.from_struct_array(chunk) for chunk in chunks],
            pa.schema(list(column.type)),
        )
        return [table.column(name) for name in _needed(table.column_names, names)]
    if len(names) > 1:
        raise TypeError(
            f"keys is one column of {column.type}; the key has {len(names)} fields: give a table "
            f"with {list(names)}, a tuple of columns, or a list of tuples"
        )
    return [column]


def _needed(given: Sequence[str], names: Sequence[str]) -> Sequence[str]:
    for name in names:
        if name not in given:
            raise KeyError(f"keys: no column {name!r}; the key has {list(names)}, given {given}")
    return names


def _is_column(value: Any) -> bool:
    return (
        isinstance(value, (pa.Array, pa.ChunkedArray, np.ndarray, list))
        or hasattr(value, "__arrow_c_array__")
        or hasattr(value, "__arrow_c_stream__")
        or _is_pandas_column(value)
    )


def _is_pandas_column(value: Any) -> bool:
    pandas = sys.modules.get("pandas")
    return pandas is not None and isinstance(value, (pandas.Series, pandas.Index))


def _column(value: Any) -> pa.Array | pa.ChunkedArray:
    if isinstance(value, (pa.Array, pa.ChunkedArray)):
        return value
    if not _is_column(value):
        raise TypeError(f"keys: a column is {_described(value)}; give an array, Series or list")
    try:
        if _is_pandas_column(value):
            return pa.Array.from_pandas(value)
        if isinstance(value, np.ndarray):
            if value.ndim != 1:
                raise TypeError(f"keys: an array of {value.ndim} dimensions; give one dimension")
            return pa.array(value)
        if hasattr(value, "__arrow_c_stream__"):
            return pa.chunked_array(value)
        return pa.array(value)
    except _CONVERSION_ERRORS as error:
        raise TypeError(f"keys: {_described(value)} is no Arrow column: {error}") from None


def _encode_list(keys: list[Any], schema: KeySchema) -> pa.Array:
    names = schema.names
    try:
        if keys and all(isinstance(key, dict) for key in keys):
            columns = [pa.array([key[name] for key in keys]) for name in names]
            whole = all(len(key) == len(names) for key in keys)
        elif len(names) == 1 and not any(isinstance(key, tuple) for key in keys):
            columns, whole = [pa.array(keys)], True
        else:
            whole = all(isinstance(key, tuple) and len(key) == len(names) for key in keys)
            columns = [pa.array(column) for column in zip(*keys, strict=True)] if whole else []
            columns = columns or [pa.nulls(0) for _ in names]
    except (*_CONVERSION_ERRORS, KeyError):
        whole = False
    if whole:
        return schema.encode_masked(columns)[0]
    # Values that no one Arrow type holds, or a key of a wrong form: each for itself, which says
    # what is wrong with the first bad one.
    return pa.array([schema.encode_one(key) for key in keys], pa.large_binary())


def _described(value: object) -> str:
    name = f"{type(value).__module__}.{type(value).__qualname__}".removeprefix("builtins.")
    if isinstance(value, tuple):
        return f"a tuple of {', '.join(type(item).__name__ for item in value) or 'nothing'}"
    return name
