"""Convert pandas and polars frames to Arrow and back, or refuse their columns.

A caller that passes a frame has imported its library. A library is imported here only to return a
frame.
"""

from __future__ import annotations

import sys
from collections.abc import Collection
from typing import Any

import numpy as np
import pyarrow as pa

from lookupstore.arrow.objects import check_objects
from lookupstore.arrow.taking import movable
from lookupstore.arrow.typed_objects import has_map, is_of_objects, typed_column

# Polars writes the first type as meaningless addresses, and the others in no type of Arrow.
_REMEDIES = {
    "Object": "of Python objects; make it text, or leave it out: .drop(NAME)",
    "Int128": "which Arrow does not have; .cast it to pl.Int64 or pl.Decimal(38, 0)",
    "UInt128": "which Arrow does not have; .cast it to pl.UInt64 or pl.Decimal(38, 0)",
}


def in_own_order(value: Any) -> Any:
    """Return a NumPy or pandas array in the byte order of this machine.

    Arrow refuses other byte orders, which FITS and netCDF files use. Other values are returned
    unchanged.

    >>> in_own_order(np.array([1], ">i8")).dtype.isnative
    True
    """
    kind = getattr(value, "dtype", None)
    if isinstance(kind, np.dtype) and not kind.isnative:
        return value.astype(kind.newbyteorder("="))
    return value


def array_fields(value: Any) -> dict[str, Any] | None:
    """Return the fields of a structured NumPy array by name.

    None: `value` is not one.

    >>> array_fields(np.array([(1, 2.5)], [("id", "i8"), ("v", "f8")]))["v"].tolist()
    [2.5]
    """
    if type(value) not in (np.ndarray, np.recarray) or not value.dtype.names or value.ndim != 1:
        return None
    return {name: value[name] for name in value.dtype.names}


def is_lazy(value: object) -> bool:
    """Return whether a value is a polars LazyFrame, which has no rows yet."""
    polars = sys.modules.get("polars")
    return polars is not None and isinstance(value, polars.LazyFrame)


def is_polars(value: object) -> bool:
    """Return whether a value is a polars DataFrame."""
    polars = sys.modules.get("polars")
    return polars is not None and isinstance(value, polars.DataFrame)


def check_polars(value: Any, what: str) -> None:
    """Check that Arrow has the types of a polars DataFrame or Series, if it is one.

    Args:
        value: Value of any type. Other values than polars frames and series are accepted.
        what: Name of the value, which errors show.

    Raises:
        TypeError: If Arrow does not have the type of a column. The error names the column and a
            remedy.

    >>> import polars as pl
    >>> check_polars(pl.DataFrame({"n": [1]}).cast(pl.Int128), "source")
    Traceback (most recent call last):
    TypeError: source: the column 'n' is Int128, which Arrow does not have; ...
    """
    polars = sys.modules.get("polars")
    if polars is None:
        return
    if isinstance(value, polars.Series):
        columns = [(value.name, value.dtype)]
    elif isinstance(value, polars.DataFrame):
        columns = list(value.schema.items())
    else:
        return
    for name, kind in columns:
        found = _without_arrow(kind)
        if found is not None:
            where = f"is {found}" if found == str(kind) else f"is {kind}, with {found} in it"
            remedy = _REMEDIES[found].replace("NAME", repr(name))
            raise TypeError(f"{what}: the column {name!r} {where}, {remedy}")


def _without_arrow(kind: Any) -> str | None:
    """Return the name of a type, or of one inside it, that Arrow does not have."""
    if (own := str(kind)) in _REMEDIES:
        return own
    inner = [field.dtype for field in getattr(kind, "fields", ())]
    if getattr(kind, "inner", None) is not None:
        inner.append(kind.inner)
    return next((found for one in inner if (found := _without_arrow(one)) is not None), None)


def polars_frame(table: pa.Table) -> Any:
    """Return a table as a polars DataFrame.

    Raises:
        ImportError: If polars is not installed.

    >>> polars_frame(pa.table({"n": [1, 2]})).shape
    (2, 1)
    """
    try:
        import polars
    except ImportError as error:
        raise ImportError(
            "a polars DataFrame needs polars: pip install polars", name="polars"
        ) from error
    columns = [as_polars_has(column) for column in table.columns]
    fields = [one.with_type(column.type) for one, column in zip(table.schema, columns, strict=True)]
    return polars.from_arrow(pa.Table.from_arrays(columns, schema=pa.schema(fields)))


def as_polars_has(column: pa.Array | pa.ChunkedArray) -> pa.Array | pa.ChunkedArray:
    """Return texts and bytes as views, and other columns unchanged.

    Polars uses views without a copy. It converts other texts itself, which takes longer and holds
    the GIL.

    >>> as_polars_has(pa.array(["EWR", None])).type
    DataType(string_view)
    """
    kind = _VIEWS.get(column.type)
    if kind is None:
        return column
    try:
        return column.cast(kind)
    except (pa.ArrowNotImplementedError, pa.ArrowInvalid):  # old pyarrow, or too many bytes
        return column


_VIEWS = {
    pa.string(): pa.string_view(),
    pa.large_string(): pa.string_view(),
    pa.binary(): pa.binary_view(),
    pa.large_binary(): pa.binary_view(),
}


def pandas_frame(table: pa.Table, *, arrow: bool = False) -> Any:
    """Return a table as a pandas DataFrame, with lists of views as lists of values.

    Args:
        table: Table to convert.
        arrow: Whether columns keep their Arrow types, as `pandas.ArrowDtype`.

    Raises:
        ImportError: If pandas is not installed.

    >>> pandas_frame(pa.table({"n": [1, 2]})).shape
    (2, 1)
    """
    try:
        import pandas
    except ImportError as error:
        raise ImportError(
            "a pandas DataFrame needs pandas: pip install pandas", name="pandas"
        ) from error
    if not table.num_columns:  # a table without columns would have no rows
        return pandas.DataFrame(index=pandas.RangeIndex(table.num_rows))
    columns = [movable(column) for column in table.columns]
    table = pa.table(columns, names=table.column_names, metadata=table.schema.metadata)
    if not arrow:
        return table.to_pandas()
    return table.to_pandas(types_mapper=pandas.ArrowDtype)


def pandas_table(frame: Any, what: str, known: pa.Schema | None = None) -> pa.Table:
    """Return a pandas DataFrame as a table, with its index if all levels have names.

    Columns of a frame without rows have the types of the destination: pandas chooses types by
    values, and has none to choose by.

    Args:
        frame: DataFrame to convert.
        what: Name of the frame, which errors show.
        known: Schema of the destination of the rows, such as a table. None: unknown.

    Raises:
        TypeError: If Arrow does not have the type of a column, or a column has other objects next
            to dates or times. The error names the column.
        ValueError: If two columns have one name, or a column has integers beyond 64 bits.

    >>> import pandas as pd
    >>> pandas_table(pd.DataFrame({"n": [2**70]}), "source")
    Traceback (most recent call last):
    ValueError: source: the column 'n' has integers beyond 64 bits, such as ...
    """
    repeated = frame.columns[frame.columns.duplicated()]
    if len(repeated):
        raise ValueError(f"{what}: two columns have the name {repeated[0]!r}; rename one of them")
    named = all(name is not None for name in frame.index.names)
    kinds = {
        name: kind.newbyteorder("=")
        for name, kind in frame.dtypes.items()
        if isinstance(kind, np.dtype) and not kind.isnative
    }
    if kinds:
        frame = frame.astype(kinds)
    places = _places(frame, known)
    typed = {name: kind for name, kind in places.items() if has_map(kind)}
    try:
        table = _without(frame, typed, named)
    except (pa.ArrowException, OverflowError, TypeError, ValueError) as error:
        for name in frame.columns:
            if name not in places:
                _check_pandas_column(frame[name], name, what)
        if len(typed) == len(places):
            raise TypeError(f"{what}: pandas gives no Arrow table: {error}") from None
        typed = places
        table = _without(frame, typed, named)
    for name in frame.columns:
        if name in typed:
            column = typed_column(frame[name], typed[name], name, what)
            table = table.append_column(str(name), column)
        else:
            check_objects(frame[name], table.schema.field(str(name)).type, name, what)
    names = [str(name) for name in frame.columns]
    index = [one for one in table.column_names if one not in set(names)]
    table = table.select([*names, *index]) if typed else table
    return table if table.num_rows or known is None else _empty(table.schema, known)


def _empty(given: pa.Schema, known: pa.Schema) -> pa.Table:
    """Return a table without rows, whose known columns have their known types."""
    return pa.schema(
        one.with_type(known.field(one.name).type) if one.name in known.names else one
        for one in given
    ).empty_table()


def _places(frame: Any, known: pa.Schema | None) -> dict[Any, pa.DataType]:
    """Return the known types of the columns that hold Python objects."""
    if known is None:
        return {}
    return {
        name: known.field(str(name)).type
        for name in frame.columns
        if str(name) in known.names and is_of_objects(frame[name])
    }


def _without(frame: Any, names: Collection[Any], named: bool) -> pa.Table:
    """Return a frame as a table without some columns, with its index if it has names."""
    rest = frame.drop(columns=list(names)) if names else frame
    return pa.Table.from_pandas(rest, preserve_index=named)


def _check_pandas_column(column: Any, name: object, what: str) -> None:
    try:
        pa.Array.from_pandas(column)
    except OverflowError:
        beyond = next(value for value in column if isinstance(value, int) and abs(value) >= 2**63)
        raise ValueError(
            f"{what}: the column {name!r} has integers beyond 64 bits, such as {beyond}; make them "
            "decimal.Decimal or text"
        ) from None
    except (pa.ArrowException, TypeError, ValueError) as error:
        reason = error.args[0] if error.args else error
        raise TypeError(
            f"{what}: the column {name!r} of dtype {column.dtype} has no type of Arrow: "
            f"{reason}; give it one type, such as .astype('string')"
        ) from None
