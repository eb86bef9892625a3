"""What a statement sets: columns of the table, and the values that rows get in them.

A value is SQL, an expression of Arrow, or a value of Python or Arrow, and becomes one of the
column's type. Nothing is cut or wrapped on the way: what does not fit is an error that names the
column, the row and the value.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from lookupstore.arrow.types import concat, plain_type, unwrap
from lookupstore.errors import listed
from lookupstore.hudi.layout import (
    Aliases,
    Filter,
    filter_expression,
    names_of,
    sql_condition,
    sql_value,
)
from lookupstore.hudi.meta_columns import META_COLUMNS
from lookupstore.hudi.options import TableOptions

_TEXTS = "to set a text, write it in single quotes, those in it twice, or give pyarrow.scalar(text)"
#: Values by the names of the columns that get them.
Assigned = Mapping[str, Any]


@dataclass(frozen=True)
class Assignments:
    """The columns that a statement sets.

    Attributes:
        fields: of the table.
        values: of each, computed from the columns of a row.
    """

    fields: tuple[pa.Field, ...]
    values: tuple[pc.Expression, ...]

    def computed(self, rows: pa.Table, keys: pa.Array) -> list[pa.Array]:
        """Return the columns, in the types of the table.

        Args:
            rows: of which they are computed.
            keys: their record keys, for errors.

        Raises:
            ValueError: a value cannot be computed, or does not fit its column.
        """
        return [
            _column(rows, keys, field, value)
            for field, value in zip(self.fields, self.values, strict=True)
        ]


def planned_assignments(
    given: Assigned, columns: pa.Schema, fixed: Sequence[str], aliases: Aliases, what: str
) -> Assignments:
    """Return what a statement sets, if the table has these columns, and values may fit them.

    Args:
        given: the values.
        columns: of the table.
        fixed: names of columns that cannot be set.
        aliases: what values are computed from.
        what: the name of the argument, for errors.

    Raises:
        TypeError: `given` is no dict, or values of a type that does not fit a column.
        KeyError: a column that the table does not have.
        ValueError: nothing is set, a column that is fixed, or a value is not read.
    """
    if not isinstance(given, Mapping):
        raise TypeError(
            f"{what} is {type(given).__name__}; give a dict of values by column, such as "
            "{'hits': 'hits + 1'}"
        )
    if not given:
        raise ValueError(f"{what} is empty; name at least one column, and its value")
    fields, values = [], []
    for name, value in given.items():
        if name not in columns.names:
            raise KeyError(
                f"{what}: the table has no column {name!r}; it has {listed(columns.names)}"
            )
        if name in fixed or name in META_COLUMNS:
            raise ValueError(
                f"{what}: {name!r} says which row it is, or where it is, and cannot be set; delete "
                "the row, and insert another one"
            )
        field = columns.field(name)
        fields.append(field)
        values.append(_value(value, field, aliases, f"{what}: {name!r}"))
    return Assignments(tuple(fields), tuple(values))


def condition(given: Filter | None, aliases: Aliases, what: str) -> pc.Expression | None:
    """Return a condition on the columns of a row, as of `where`; None: there is none.

    Raises:
        TypeError, ValueError: it is no condition.
        ImportError: it is SQL, and what parses that is not installed.
    """
    if given is None:
        return None
    with_what = f"{what}: "
    try:
        if isinstance(given, str):
            return sql_condition(given, aliases)
        found = filter_expression(given, aliases.columns)
        _kind_of(found, aliases.columns)
        return found
    except (TypeError, ValueError) as error:
        said = with_what + str(error).removeprefix("filter: ")
        raise (TypeError if isinstance(error, TypeError) else ValueError)(said) from None


def holds(rows: pa.Table, where: pc.Expression | None) -> npt.NDArray[np.bool_]:
    """Return of which rows a condition is true; None: of all.

    Raises:
        ValueError: it cannot be computed.
    """
    if where is None:
        return np.ones(rows.num_rows, bool)
    try:
        found = _computed(rows, where)
    except pa.ArrowException as error:
        raise ValueError(f"where: {error}") from None
    true: npt.NDArray[np.bool_] = pc.fill_null(found, False).to_numpy(zero_copy_only=False)
    return true


def _value(given: Any, field: pa.Field, aliases: Aliases, what: str) -> pc.Expression:
    """Return what a column is set to, as an expression."""
    if isinstance(given, str):
        try:
            found = sql_value(given, aliases)
        except ValueError as error:
            said = str(error).removeprefix("filter: ").replace("no condition in SQL", "no SQL")
            hint = "" if "single quotes" in said else f"; {_TEXTS}"
            raise ValueError(f"{what}: {said}{hint}") from None
    elif isinstance(given, pc.Expression):
        found = given
    else:
        return pc.scalar(_literal(given, field, what))
    kind = _kind_of(found, aliases.columns, what)
    if not _may_become(kind, field.type):
        remedy = _cast_remedy(kind, field.type)
        raise TypeError(f"{what} is {field.type}, and the value is {kind}{remedy}")
    return found


def _literal(given: Any, field: pa.Field, what: str) -> pa.Scalar:
    """Return a value of Python or Arrow as one of a column's type, if it is one."""
    value = given.as_py() if isinstance(given, pa.Scalar) else given
    # Python takes True for 1.
    is_other = value is not None and isinstance(value, bool) != pa.types.is_boolean(field.type)
    try:
        found = pa.scalar(value, field.type)
    except (pa.ArrowException, TypeError, ValueError, OverflowError):
        is_other = True
    if is_other or not _is_same(found.as_py(), value, field.type):
        raise TypeError(
            f"{what} is {field.type}, and {value!r} is no value of that; give "
            f"{_example(field.type)}"
        )
    return found


def _example(kind: pa.DataType) -> str:
    """Return what values of a type are in Python."""
    types = pa.types
    if types.is_boolean(kind):
        return "True or False"
    if types.is_decimal(kind):
        return f"a decimal.Decimal with at most {kind.scale} digits behind the point"
    if types.is_date(kind):
        return "a datetime.date"
    if types.is_timestamp(kind):
        return f"a datetime {'without' if kind.tz is None else 'with'} tzinfo"
    if types.is_struct(kind):
        return "a dict with all of its fields"
    return "a value of that type, or None"


def _is_same(found: Any, value: Any, kind: pa.DataType) -> bool:
    if pa.types.is_floating(kind) and isinstance(value, (int, float)):
        return math.isinf(found) == math.isinf(value)  # else it is the nearest one
    if pa.types.is_map(kind) and isinstance(value, Mapping):
        return bool(found is not None and dict(found) == dict(value))
    return bool(found == value)


def _kind_of(value: pc.Expression, columns: pa.Schema, what: str = "where") -> pa.DataType:
    """Return the type of what an expression computes."""
    try:
        scanner = ds.dataset(columns.empty_table()).scanner(columns={"value": value})
    except (pa.ArrowException, TypeError, KeyError) as error:
        unknown = sorted((names_of(value) or set()) - set(columns.names))
        said = f"{unknown[0]!r} is no column" if unknown else str(error)
        raise ValueError(f"{what}: {said}; columns are {listed(columns.names)}") from None
    return scanner.projected_schema.field(0).type


def _may_become(kind: pa.DataType, to: pa.DataType) -> bool:
    """Return whether values of a type become values of another one, or are refused one by one."""
    types, kind = pa.types, plain_type(kind)
    if kind == to or types.is_null(kind):
        return True
    exact = types.is_integer(kind) or types.is_decimal(kind)
    if types.is_integer(to):
        return bool(exact or types.is_floating(kind))
    if types.is_decimal(to):
        return bool(exact)
    if types.is_floating(to):
        return bool(exact or types.is_floating(kind))
    if types.is_timestamp(to):
        with_zone = types.is_timestamp(kind) and (kind.tz is None) == (to.tz is None)
        return bool(with_zone or (types.is_date32(kind) and to.tz is None))
    if types.is_time(to):
        return bool(types.is_time(kind))
    texts = (types.is_string, types.is_large_string)
    if any(one(to) for one in texts):
        return any(one(kind) for one in texts)
    if types.is_binary(to):
        return bool(types.is_large_binary(kind) or types.is_fixed_size_binary(kind))
    return False


def _column(rows: pa.Table, keys: pa.Array, field: pa.Field, value: pc.Expression) -> pa.Array:
    def attempt(first: int, count: int) -> pa.Array:
        return _stored(_computed(rows.slice(first, count), value), field.type)

    try:
        return attempt(0, rows.num_rows)
    except (pa.ArrowException, ValueError) as error:
        row, problem = _failing(attempt, rows.num_rows, error)
        raise ValueError(
            f"{field.name!r} of the row with the key {keys[row].as_py()!r} does not get a value of "
            f"{field.type}: {problem}"
        ) from None


def _failing(
    attempt: Callable[[int, int], pa.Array], count: int, error: Exception
) -> tuple[int, Exception]:
    """Return the first row for which an attempt fails, and why; it is looked for in halves."""
    first = 0
    while count > 1:
        half = count // 2
        try:
            attempt(first, half)
        except (pa.ArrowException, ValueError) as found:
            error, count = found, half
        else:
            first, count = first + half, count - half
    return first, error


def _computed(rows: pa.Table, value: pc.Expression) -> pa.Array:
    if not rows.num_rows:
        return pa.array([], _kind_of(value, rows.schema))
    found = ds.dataset(rows).to_table(columns={"value": value}, use_threads=False).column(0)
    return unwrap(concat(found.chunks, found.type))


def _stored(values: pa.Array, kind: pa.DataType) -> pa.Array:
    """Return values as ones of a column's type.

    Raises:
        pyarrow.ArrowInvalid: one does not fit.
        ValueError: one is too large for a float.
    """
    if values.type == kind:
        return values
    types = pa.types
    if not types.is_floating(kind):
        return values.cast(kind)
    if types.is_decimal(values.type):
        # Arrow scales the digits as a float, and so misses the nearest one.
        return values.cast(pa.string()).cast(kind)
    found = values.cast(kind, safe=False)  # the nearest one, as floats are
    if types.is_floating(values.type):
        lost = pc.and_(pc.is_finite(values), pc.invert(pc.is_finite(found)))
        if pc.any(lost).as_py():
            raise ValueError(f"{values.filter(lost)[0].as_py()} is too large")
    return found


def _cast_remedy(kind: pa.DataType, to: pa.DataType) -> str:
    """Return how SQL makes values of one type those of another, behind a semicolon, if it does."""
    types = pa.types
    if types.is_decimal(to) and types.is_floating(kind):
        name = f"decimal({to.precision}, {to.scale})"
    elif types.is_integer(kind) and types.is_string(to):
        name = "varchar"
    elif types.is_date32(to) and types.is_timestamp(kind):
        name = "date"
    elif types.is_string(kind) and types.is_date32(to):
        return "; write date '2026-03-07'"
    elif types.is_string(kind) and types.is_timestamp(to):
        word = "timestamp" if to.tz is None else "timestamptz"
        return f"; write {word} '2026-03-07 12:30:00{'' if to.tz is None else 'Z'}'"
    else:
        return ""
    return f"; write cast(... as {name})"


def fixed_columns(options: TableOptions) -> list[str]:
    """Return the columns of a table that no statement sets: those of key and partition."""
    return [*options.record_key, *options.partition_by]
