"""Encode keys in the forms in which callers pass them.

Accepted forms, for a key of one field:

- a column: an Arrow array or chunked array, a one-dimensional NumPy array, a pandas Series, Index
  or array such as a Categorical, a polars Series, a range, or any object with `__arrow_c_array__`
  or `__arrow_c_stream__`;
- a list of values. An object column of NumPy or pandas counts as a list; missing values of pandas
  are null. A set, a view of a dict, a generator or another iterator counts as the list of its
  items.

For a key of one or more fields:

- a table: an Arrow table, record batch or struct array, a pandas or polars DataFrame, a NumPy
  structured array, or a dict of columns. Fields are found by name; other columns are ignored;
- a pandas MultiIndex: by name if all levels are named, else in the order of the key;
- a tuple of columns, one for each field, in the order of the key;
- a list of tuples, with the values in the order of the key, or of dicts by field name.

So a list holds keys and a tuple holds columns. A key in a list means the same as to
`KeySchema.encode_one`. If Arrow would choose a type that changes a value, because of other values
or because the type is too coarse, each value is encoded by itself.
"""

from __future__ import annotations

import datetime
import io
import reprlib
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set, ValuesView
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

from lookupstore.arrow.frames import check_polars, in_own_order, is_lazy
from lookupstore.arrow.relations import check_relation
from lookupstore.keys._texts import text_array
from lookupstore.keys.schema import KeySchema

#: A column: in Arrow, or as Python values that do not fit into one Arrow type.
Column: TypeAlias = "pa.Array | pa.ChunkedArray | list[Any]"

# Errors of pa.array for a value of an unknown type, including errors of its methods.
_CONVERSION_ERRORS = (pa.ArrowException, OverflowError, TypeError, ValueError)


def encode_keys(keys: Any, schema: KeySchema) -> pa.Array:
    """Encode a batch of keys in any of the forms above.

    A key that no store can hold (null in a field without nulls, or a value outside the field's
    type) is null in the result and matches nothing. It raises no error.

    Raises:
        TypeError: If the keys have a wrong type or form. The error names the field and the right
            type.
        KeyError: If a table or dict lacks a key field.
        ValueError: If columns have different lengths.

    >>> schema = KeySchema(pa.schema({"id": pa.int64()}))
    >>> encode_keys([1, None], schema).is_valid().to_pylist()
    [True, False]
    """
    if not isinstance(keys, (pa.Array, list)):
        keys = _known(keys_in_list(keys))
        text = _text_array(keys)
        if text is not None:
            keys = text
    if isinstance(keys, pa.Array):
        encoded = schema.encode_plain(keys)
        if encoded is not None:
            return encoded
    values = _python_values(keys)
    if values is not None:
        return _encode_list(values, schema)
    return _encode_columns(columns_of(keys, schema.names), schema)


def _encode_columns(columns: Sequence[Column], schema: KeySchema) -> pa.Array:
    if not any(isinstance(column, list) for column in columns):
        return schema.encode_masked(columns)[0]
    for name, column in zip(schema.names, columns, strict=True):
        if len(column) != len(columns[0]):
            raise ValueError(
                f"keys: the field {name!r} has {len(column)} values, "
                f"{schema.names[0]!r} has {len(columns[0])}"
            )
    rows = zip(*(map(_without_null_scalar, column) for column in columns), strict=True)
    return encode_each(rows, schema)


def _without_null_scalar(value: Any) -> Any:
    return None if isinstance(value, pa.Scalar) and not value.is_valid else value


def encode_each(keys: Iterable[Any], schema: KeySchema) -> pa.Array:
    """Encode keys one by one, which is slow."""
    return pa.array([schema.encode_one(key) for key in keys], pa.large_binary())


def keys_in_list(keys: Any) -> Any:
    """Return an iterator or set of keys as a list, and any other value unchanged.

    >>> keys_in_list({7}), keys_in_list((7, 8))
    ([7], (7, 8))
    """
    if isinstance(keys, (Set, ValuesView)):
        return list(keys)
    is_stream = hasattr(keys, "__arrow_c_stream__") or isinstance(keys, io.IOBase)
    return list(keys) if isinstance(keys, Iterator) and not is_stream else keys


def _known(value: Any) -> Any:
    """Return ranges as arrays, pandas arrays as Series, and other values unchanged.

    A returned NumPy array has the byte order of this machine.
    """
    if isinstance(value, range):
        ends = (*value[:1], *value[-1:], value.step)
        if max(map(abs, ends)) >= 2**63:  # NumPy would convert some of them to floats
            return list(value)
        return pa.array(np.arange(len(value)) * value.step + value.start)
    pandas = sys.modules.get("pandas")
    if pandas is not None and isinstance(value, pandas.api.extensions.ExtensionArray):
        return pandas.Series(value)
    return in_own_order(value)


def columns_of(keys: Any, names: Sequence[str]) -> list[Column]:
    """Return keys in any of the forms above except a list as columns, one for each field.

    Args:
        keys: Keys.
        names: Names of the key fields.

    Raises:
        TypeError: If the keys have another form.
        KeyError: If a table or dict lacks a key field.

    >>> columns_of(range(2), ["id"])[0].to_pylist()
    [0, 1]
    """
    keys = _known(keys)
    pandas = sys.modules.get("pandas")
    if isinstance(keys, tuple):
        keys = tuple(map(_known, keys))
        if len(keys) != len(names) or not all(_is_column(column) for column in keys):
            if len(keys) == len(names) and not any(map(_is_column, keys)):
                shown = reprlib.repr(keys)
                raise TypeError(
                    f"keys is {shown}, one key of {list(names)}; give a list of keys, such as "
                    f"[{shown}], or call get({shown})"
                )
            raise TypeError(
                f"keys: a tuple gives one column per key field, here {list(names)}; got "
                f"{_described(keys)}; for a batch of keys, give a list"
            )
        return [column_of(column) for column in keys]
    if pandas is not None and isinstance(keys, pandas.MultiIndex):
        if all(name is not None for name in keys.names):
            keys = {name: keys.get_level_values(name) for name in keys.names}
        elif keys.nlevels == len(names):
            return [column_of(keys.get_level_values(i)) for i in range(keys.nlevels)]
        else:
            raise TypeError(
                f"keys: the MultiIndex has {keys.nlevels} levels; the key has {list(names)}"
            )
    if is_lazy(keys):
        raise TypeError("keys is a polars LazyFrame, which has no rows yet; give its .collect()")
    if pandas is not None and isinstance(keys, pandas.DataFrame):
        without_rows, keys = not len(keys), _pandas_columns(keys)
        if without_rows:  # pandas makes up the types of its columns
            keys = dict.fromkeys(keys, pa.nulls(0))
    polars = sys.modules.get("polars")
    if polars is not None and isinstance(keys, polars.DataFrame):
        keys = {name: keys.get_column(name) for name in keys.columns}
    if isinstance(keys, np.ndarray) and keys.dtype.names is not None:
        keys = {name: keys[name] for name in keys.dtype.names}
    if isinstance(keys, (pa.Table, pa.RecordBatch)):
        keys = {field.name: keys.column(i) for i, field in enumerate(keys.schema)}
    if isinstance(keys, Mapping):
        return [column_of(keys[name]) for name in _needed(list(keys), names)]
    if not _is_column(keys):
        raise unknown_form_error("keys", keys, names)
    column = column_of(keys)
    if isinstance(column, list):
        return [column]
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


def unknown_form_error(what: str, keys: Any, names: Sequence[str]) -> TypeError:
    """Return the error for keys in none of the forms above.

    Args:
        what: Name of the argument.
        keys: Value of the argument.
        names: Names of the key fields.
    """
    return TypeError(
        f"{what} is {_described(keys)}; give a list of keys, an Arrow, NumPy, pandas or polars "
        f"column or table with {list(names)}, a range, a set, an iterator, or a tuple of columns"
    )


def _pandas_columns(frame: Any) -> dict[Any, Any]:
    """Return the columns of a DataFrame and the named levels of its index, by name."""
    index = frame.index
    levels = {
        name: index.get_level_values(i) for i, name in enumerate(index.names) if name is not None
    }
    return levels | {name: frame[name] for name in frame.columns}


def _needed(given: Sequence[str], names: Sequence[str]) -> Sequence[str]:
    for name in names:
        if name not in given:
            found = list(given) or "no columns"
            raise KeyError(f"keys: no column {name!r}; the key has {list(names)}, given {found}")
    return names


def is_nameless(value: Any) -> bool:
    """Return whether keys have no names of columns: a column, or a tuple of columns.

    >>> is_nameless(np.array([7])), is_nameless(pa.table({"id": [7]}))
    (True, False)
    """
    value = _known(value)
    polars = sys.modules.get("polars")
    if polars is not None and isinstance(value, polars.Series):
        return not isinstance(value.dtype, polars.Struct)
    if isinstance(value, np.ndarray):
        return value.dtype.names is None
    if isinstance(value, (pa.Array, pa.ChunkedArray)):
        return not pa.types.is_struct(value.type)
    return isinstance(value, tuple) or _is_pandas_column(value)


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


def _python_values(value: Any) -> list[Any] | None:
    """Return a list, or an object column of NumPy or pandas, as a list, else None."""
    if isinstance(value, list):
        return value
    pandas = sys.modules.get("pandas")
    if pandas is None or not _is_pandas_column(value) or isinstance(value, pandas.MultiIndex):
        is_objects = isinstance(value, np.ndarray) and value.dtype == object and value.ndim == 1
        return list(value) if is_objects else None
    kind = value.dtype
    if isinstance(kind, pandas.CategoricalDtype):
        categories = _python_values(kind.categories)
        is_objects = categories is not None and _exact_array(categories) is None
    else:
        is_objects = bool(kind == np.dtype(object))
    if not is_objects:
        return None
    values = np.array(value, dtype=object)
    values[pandas.isna(values)] = None
    return list(values)


def _text_array(value: Any) -> pa.Array | None:
    """Return an object column of pandas as an Arrow array of texts.

    Most text columns have this form. None: The column has other values than texts and missing ones.
    """
    if not _is_pandas_column(value) or value.dtype != np.dtype(object):
        return None
    return text_array(value.to_numpy().tolist(), sys.modules["pandas"].isna)


def _exact_array(values: Sequence[Any]) -> pa.Array | None:
    """Return Python values as an Arrow array, or None if Arrow could change a value.

    Arrow infers the type of a list from some of its values. In a list with a date, a datetime loses
    its time of day; in a list with a time zone, a datetime without a zone gets it. Arrow reads
    pandas values like Python's own, so nanoseconds and years beyond 9999 are lost.
    """
    kinds = set(map(type, values)) - {type(None)}  # not a loop in Python
    if len(kinds) > 1 and kinds != {int, float}:
        return None
    for kind in kinds:
        if not _keeps_values(kind, values):
            return None
    try:
        return pa.array(values)
    except _CONVERSION_ERRORS:
        return None


def _keeps_values(kind: type, values: Sequence[Any]) -> bool:
    """Return whether Arrow keeps all these values, which are of one kind or None."""
    if not issubclass(kind, (datetime.datetime, datetime.time, datetime.timedelta)):
        return True
    given = [value for value in values if value is not None]
    if issubclass(kind, datetime.timedelta):
        return not hasattr(kind, "nanoseconds") or all(
            value.nanoseconds == 0 and abs(value.days) < 10**8 for value in given
        )
    zoned = {value.tzinfo is not None for value in given}
    if issubclass(kind, datetime.time):
        return True not in zoned  # Arrow would drop the zone
    return len(zoned) == 1 and (
        not hasattr(kind, "nanosecond")
        or all(value.nanosecond == 0 and 1 <= value.year <= 9999 for value in given)
    )


def column_of(value: Any) -> Column:
    """Return a column of keys in any of the forms above as Arrow, or as a list.

    Raises:
        TypeError: If `value` is not a column.

    >>> column_of(["a", None]).type
    DataType(string)
    """
    value = _known(value)
    text = _text_array(value)
    if text is not None:
        return text
    values = _python_values(value)
    if values is None:
        return _arrow_column(value)
    array = _exact_array(values)
    return values if array is None else array


def _arrow_column(value: Any) -> pa.Array | pa.ChunkedArray:
    if isinstance(value, (pa.Array, pa.ChunkedArray)):
        return value
    if not _is_column(value):
        raise TypeError(f"keys: a column is {_described(value)}; give an array, Series or list")
    if isinstance(value, np.ndarray) and value.ndim != 1:
        raise TypeError(f"keys: an array of {value.ndim} dimensions; give one dimension")
    check_polars(value, "keys")
    check_relation(value, "keys")
    try:
        if _is_pandas_column(value):
            return pa.Array.from_pandas(value)
        if hasattr(value, "__arrow_c_stream__"):
            return pa.chunked_array(value)
        return pa.array(value)
    except _CONVERSION_ERRORS as error:
        raise TypeError(f"keys: {_described(value)} is not an Arrow column: {error}") from None


def _encode_list(keys: list[Any], schema: KeySchema) -> pa.Array:
    encoded = schema.encoder.encode_list(keys)
    if encoded is not NotImplemented:
        return encoded
    columns = _columns_of_list(keys, schema.names)
    arrays = [_exact_array(column) for column in columns or []]
    if columns is None or any(array is None for array in arrays):
        # Keys are encoded one by one, so that the error of the first invalid key is raised.
        return encode_each(keys, schema)
    return schema.encode_masked(arrays)[0]


def _columns_of_list(keys: list[Any], names: Sequence[str]) -> list[Sequence[Any]] | None:
    """Return the values of each field; None if the keys do not all have one form."""
    kinds = set(map(type, keys))  # not a loop in Python
    if not kinds:
        return [[] for _ in names]
    if all(issubclass(kind, dict) for kind in kinds):
        fields = set(names)
        if any(key.keys() != fields for key in keys):
            return None
        return [[key[name] for key in keys] for name in names]
    if all(issubclass(kind, (tuple, list)) for kind in kinds):
        return list(zip(*keys, strict=True)) if set(map(len, keys)) == {len(names)} else None
    if len(names) > 1 or any(issubclass(kind, (tuple, list, dict)) for kind in kinds):
        return None
    return [keys]


def _described(value: object) -> str:
    name = f"{type(value).__module__}.{type(value).__qualname__}".removeprefix("builtins.")
    if isinstance(value, tuple):
        return f"a tuple of {', '.join(type(item).__name__ for item in value) or 'nothing'}"
    return name
