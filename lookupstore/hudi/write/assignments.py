"""The columns that an update or merge sets, and their values.

A value is SQL, an Arrow expression, or a value of Python or Arrow. It is converted to the column's
type. If it does not fit, an error names the column, the row's key and the value.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from lookupstore.arrow.exact_casts import cast_exactly, is_castable
from lookupstore.arrow.fitting import first_unfit
from lookupstore.arrow.types import concat, unwrap
from lookupstore.errors import listed, meant
from lookupstore.filters import (
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
#: Values by the names of their columns.
Assigned = Mapping[str, Any]


@dataclass(frozen=True)
class Assignments:
    """The columns that an update or merge sets.

    Attributes:
        fields: Columns of the table.
        values: Value of each column, computed from the columns of a row.
    """

    fields: tuple[pa.Field, ...]
    values: tuple[pc.Expression, ...]

    def computed(self, rows: pa.Table, keys: pa.Array) -> list[pa.Array]:
        """Compute the columns, in the types of the table.

        Args:
            rows: Rows that the values are computed from.
            keys: Record keys of these rows, which errors name.

        Raises:
            ValueError: If a value cannot be computed, or does not fit its column.
        """
        return [
            _column(rows, keys, field, value)
            for field, value in zip(self.fields, self.values, strict=True)
        ]


def planned_assignments(
    given: Assigned, columns: pa.Schema, fixed: Sequence[str], aliases: Aliases, what: str
) -> Assignments:
    """Check the values that a caller gives for columns, and return assignments.

    Args:
        given: Values by column name.
        columns: Columns of the table.
        fixed: Names of columns that cannot be set.
        aliases: Columns that values may be computed from.
        what: Name of the caller's argument, which errors name.

    Raises:
        TypeError: If `given` is not a dict, or the type of a value does not fit its column.
        KeyError: If the table does not have a column.
        ValueError: If `given` is empty, names a fixed column, or has a value that cannot be parsed.
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
            others = meant(name, columns.names, f"it has {listed(columns.names)}")
            raise KeyError(f"{what}: the table has no column {name!r}{others}")
        if name in fixed or name in META_COLUMNS:
            raise ValueError(
                f"{what}: {name!r} is a column of the key, the partition or Hudi, and cannot be "
                "set; delete the row, and insert another one"
            )
        field = columns.field(name)
        fields.append(field)
        values.append(_value(value, field, aliases, f"{what}: {name!r}"))
    return Assignments(tuple(fields), tuple(values))


def condition(given: Filter | None, aliases: Aliases, what: str) -> pc.Expression | None:
    """Return a condition as an Arrow expression, or None if there is no condition.

    Raises:
        TypeError: If `given` is not a condition.
        ValueError: If `given` cannot be parsed, or names a column that does not exist.
        ImportError: If `given` is SQL, and sqlglot is not installed.
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
    """Return a mask of the rows for which a condition is true.

    Args:
        rows: Rows to look at.
        where: Condition. None: every row.

    Raises:
        ValueError: If the condition cannot be computed.
    """
    if where is None:
        return np.ones(rows.num_rows, bool)
    try:
        found = _computed(rows, where)
    except pa.ArrowException as error:
        raise ValueError(f"where: the condition cannot be computed: {error}") from None
    true: npt.NDArray[np.bool_] = pc.fill_null(found, False).to_numpy(zero_copy_only=False)
    return true


def _value(given: Any, field: pa.Field, aliases: Aliases, what: str) -> pc.Expression:
    """Return the value of a column as an Arrow expression."""
    if isinstance(given, str):
        try:
            found = sql_value(given, aliases)
        except ValueError as error:
            said = str(error).removeprefix("filter: ").replace("no condition in SQL", "no SQL")
            remedy = _time_remedy(field.type)
            if remedy is None and ("is no SQL" in said or "is empty" in said):
                remedy = _TEXTS
            has_one = "single quotes" in said or "leave out the cast" in said
            hint = "" if remedy is None or has_one else f"; {remedy}"
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
    """Convert a value of Python or Arrow to a column's type, or raise TypeError."""
    value = given.as_py() if isinstance(given, pa.Scalar) else given
    # Python treats True as equal to 1.
    is_other = value is not None and isinstance(value, bool) != pa.types.is_boolean(field.type)
    try:
        found = pa.scalar(value, field.type)
    except (pa.ArrowException, TypeError, ValueError, OverflowError):
        is_other = True
    if is_other or not _is_same(found.as_py(), value, field.type):
        raise TypeError(
            f"{what} is {field.type}, and the value {value!r} does not fit; give "
            f"{_example(field.type)}"
        )
    return found


def _example(kind: pa.DataType) -> str:
    """Describe the Python values of a type."""
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
        return math.isinf(found) == math.isinf(value)  # otherwise it is the nearest number
    if pa.types.is_map(kind) and isinstance(value, Mapping):
        return bool(found is not None and dict(found) == dict(value))
    return bool(found == value)


def _kind_of(value: pc.Expression, columns: pa.Schema, what: str = "where") -> pa.DataType:
    """Return the type of an expression's values."""
    try:
        scanner = ds.dataset(columns.empty_table()).scanner(columns={"value": value})
    except (pa.ArrowException, TypeError, KeyError) as error:
        unknown = sorted((names_of(value) or set()) - set(columns.names))
        said = f"there is no column {unknown[0]!r}" if unknown else str(error)
        raise ValueError(f"{what}: {said}; columns are {listed(columns.names)}") from None
    return scanner.projected_schema.field(0).type


def _may_become(kind: pa.DataType, to: pa.DataType) -> bool:
    """Return whether values of a type can be converted to another type.

    Values that do not fit are refused later, one by one.
    """
    types = pa.types
    if types.is_floating(kind) and types.is_decimal(to):
        return False  # few fractions are equal in both types: a cast defines the rounding
    if types.is_date32(kind) and types.is_timestamp(to):
        return to.tz is None
    return is_castable(kind, to)


def _column(rows: pa.Table, keys: pa.Array, field: pa.Field, value: pc.Expression) -> pa.Array:
    def stored(part: pa.Table) -> pa.Array:
        return _stored(_computed(part, value), field.type)

    try:
        return stored(rows)
    except ValueError:  # errors of Arrow are of this class, too
        places = pa.array(np.arange(rows.num_rows))
        row = first_unfit(places, lambda some: stored(rows.take(some)))
        try:
            stored(rows.slice(row, 1))
        except ValueError as error:
            found = None
            with suppress(ValueError):  # the error may be that of computing it
                found = _computed(rows.slice(row, 1), value)[0].as_py()
            remedy = _rounding_remedy(found, field.type)
            raise ValueError(
                f"{field.name!r} of the row with the key {keys[row].as_py()!r}: the value does not "
                f"fit {field.type}: {error}{remedy}"
            ) from None
        raise


def _rounding_remedy(found: Any, kind: pa.DataType) -> str:
    """Return how to round a number to the type of its column. Empty: rounding does not help."""
    is_number = isinstance(found, (float, Decimal)) and not math.isnan(found)
    if pa.types.is_integer(kind) and is_number and abs(found) < 2**63:
        return "; to round it, write cast(... as bigint)"
    if pa.types.is_decimal(kind) and is_number and abs(found) < 10 ** (kind.precision - kind.scale):
        return f"; to round it, write round(..., {kind.scale})"
    return ""


def _computed(rows: pa.Table, value: pc.Expression) -> pa.Array:
    if not rows.num_rows:
        return pa.array([], _kind_of(value, rows.schema))
    found = ds.dataset(rows).to_table(columns={"value": value}, use_threads=False).column(0)
    return unwrap(concat(found.chunks, found.type))


def _stored(values: pa.Array, kind: pa.DataType) -> pa.Array:
    """Return values in the type of a column.

    Raises:
        ValueError: If a value does not fit.
    """
    types = pa.types
    if values.type == kind:
        return values
    if types.is_floating(kind):
        return _nearest(values, kind)
    if types.is_date32(values.type):
        return values.cast(kind)
    if types.is_floating(values.type) and pc.any(pc.is_nan(values)).as_py():
        raise ValueError("it is NaN")
    return cast_exactly(values, kind)


def _nearest(values: pa.Array, kind: pa.DataType) -> pa.Array:
    """Return numbers as the nearest floats.

    Raises:
        ValueError: If a number is too large for a float.
    """
    if pa.types.is_decimal(values.type):
        # Arrow scales the digits as a float, so the result may not be the nearest number.
        return values.cast(pa.string()).cast(kind)
    found = values.cast(kind, safe=False)
    if pa.types.is_floating(values.type):
        lost = pc.and_(pc.is_finite(values), pc.invert(pc.is_finite(found)))
        if pc.any(lost).as_py():
            raise ValueError(f"{values.filter(lost)[0].as_py()} is too large")
    return found


def _time_remedy(kind: pa.DataType) -> str | None:
    """Return how to write a value of a type for dates or times. None: it is another type."""
    if pa.types.is_date(kind):
        return f"to set a day, write date '2026-03-07', or give {_example(kind)}"
    if not pa.types.is_timestamp(kind):
        return None
    word, zone = ("timestamp", "") if kind.tz is None else ("timestamptz", "Z")
    written = f"{word} '2026-03-07 12:30:00{zone}'"
    return f"to set a time, write {written}, or give {_example(kind)}"


def _cast_remedy(kind: pa.DataType, to: pa.DataType) -> str:
    """Return the end of an error that says how to convert in SQL, or an empty text."""
    types = pa.types
    if types.is_decimal(to) and types.is_floating(kind):
        name = f"decimal({to.precision}, {to.scale})"
    elif types.is_integer(kind) and types.is_string(to):
        name = "varchar"
    elif types.is_date32(to) and types.is_timestamp(kind):
        name = "date"
    elif types.is_string(kind) and types.is_date32(to):
        return "; write date '2026-03-07'"
    elif types.is_timestamp(to) and (types.is_string(kind) or types.is_timestamp(kind)):
        word = "timestamp" if to.tz is None else "timestamptz"
        others = ", or convert the column of your rows" if types.is_timestamp(kind) else ""
        return f"; write {word} '2026-03-07 12:30:00{'' if to.tz is None else 'Z'}'{others}"
    else:
        return ""
    return f"; write cast(... as {name})"


def fixed_columns(options: TableOptions) -> list[str]:
    """Return the key and partition columns, which updates and merges cannot set."""
    return [*options.record_key, *options.partition_by]
