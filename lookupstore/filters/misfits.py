"""Name the column and the value of a filter that do not fit each other."""

from __future__ import annotations

import reprlib

import pyarrow as pa
import pyarrow.compute as pc

from lookupstore.filters.filter import Filter, filter_expression
from lookupstore.filters.struct_fields import path_of, type_at

_SHORT = reprlib.Repr()
_SHORT.maxstring = _SHORT.maxother = 80


def misfit(given: Filter, columns: pa.Schema) -> str | None:
    """Return why a tuple of a filter does not fit its column, and the remedy.

    Args:
        given: Filter of which `filter_expression` made an expression.
        columns: Columns of the table.

    Returns:
        Text for an error. None: all tuples fit; expressions and SQL are not looked at.

    >>> misfit([("day", "=", 5)], pa.schema({"day": pa.string()}))
    "the column 'day' is string, and 5 does not fit; give a text"
    >>> misfit(("day", "=", "mo"), pa.schema({"day": pa.string()}))
    """
    if isinstance(given, (str, pc.Expression)):
        return None
    if not isinstance(given, tuple) or not isinstance(given[0], str):
        return next((said for one in given if (said := misfit(one, columns)) is not None), None)
    name, word, *values = given
    path = path_of(name, columns)
    at = columns.get_field_index(path[0])
    if at < 0 or not values or _is_computed(filter_expression(given, columns), columns.field(at)):
        return None
    kind = type_at(path, columns)
    if word.strip().lower() in ("like", "starts_with"):
        return f"the column {name!r} is {kind}, and {word!r} needs texts; name a column of texts"
    shown = " and ".join(_SHORT.repr(one) for one in values)
    return f"the column {name!r} is {kind}, and {shown} does not fit; give {value_of(kind)}"


def _is_computed(where: pc.Expression, column: pa.Field) -> bool:
    """Return whether Arrow can compute a comparison of a column, here for a null."""
    try:
        pa.table([pa.nulls(1, column.type)], names=[column.name]).filter(where)
    except (pa.ArrowException, TypeError):
        return False
    return True


def value_of(kind: pa.DataType) -> str:
    """Return the words for a Python value of a type.

    >>> value_of(pa.timestamp("us", "UTC"))
    'a datetime with tzinfo'
    """
    types = pa.types
    if types.is_string(kind) or types.is_large_string(kind):
        return "a text"
    if types.is_boolean(kind):
        return "True or False"
    if types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind):
        return "a number"
    if types.is_date(kind):
        return "a datetime.date"
    if types.is_timestamp(kind):
        return f"a datetime {'without' if kind.tz is None else 'with'} tzinfo"
    return "a value of that type"
