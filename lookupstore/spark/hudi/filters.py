"""Conversion of pushed-down filters of Spark to Arrow; Spark removes rows that pass only Arrow's.

Spark passes on comparisons of a column with a value, lists, `IS NULL`, prefixes, and `NOT` of one
of these; all that it passes on has to be true. To Spark, NaN equals itself and is more than all
other numbers, and `<=>` is never null.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Mapping
from datetime import datetime
from math import isnan
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

_COMPARISONS: Mapping[str, Callable[[pc.Expression, pa.Scalar], pc.Expression]] = {
    "EqualTo": operator.eq,
    "GreaterThan": operator.gt,
    "GreaterThanOrEqual": operator.ge,
    "LessThan": operator.lt,
    "LessThanOrEqual": operator.le,
}
# Comparisons that are true for NaN, which is greater than any number.
_IS_MORE = ("GreaterThan", "GreaterThanOrEqual")


def arrow_filter(schema: pa.Schema, one: Any) -> pc.Expression | None:
    """Return a filter of Spark as an Arrow expression. None: Arrow would treat it differently.

    The expression may keep some rows with a null in the column that Spark's filter drops.

    >>> from pyspark.sql.datasource import GreaterThan, Not
    >>> arrow_filter(pa.schema({"id": pa.int32()}), GreaterThan(("id",), 7))
    <pyarrow.compute.Expression (id > 7)>
    >>> arrow_filter(pa.schema({"id": pa.int32()}), Not(GreaterThan(("id",), 7)))
    <pyarrow.compute.Expression invert((id > 7))>
    """
    if type(one).__name__ == "Not":
        negated = arrow_filter(schema, one.child)
        return None if negated is None else ~negated
    attribute: tuple[str, ...] = getattr(one, "attribute", ())
    if len(attribute) != 1 or attribute[0] not in schema.names:
        return None
    column = schema.field(attribute[0])
    return _of(type(one).__name__, column.type, pc.field(column.name), getattr(one, "value", None))


def _of(kind: str, of: pa.DataType, field: pc.Expression, value: Any) -> pc.Expression | None:
    """Return a filter of a kind on a column of a type."""
    if kind in ("IsNull", "IsNotNull"):
        return field.is_null() if kind == "IsNull" else field.is_valid()
    if kind == "EqualNullSafe":
        equal = field.is_null() if value is None else _of("EqualTo", of, field, value)
        # False where it would be null, and therefore true under a negation.
        return equal if equal is None or value is None else equal & field.is_valid()
    if kind == "In" and isinstance(value, (list, tuple)):
        return _one_of(of, field, [item for item in value if item is not None])
    if kind == "StringStartsWith":
        return pc.starts_with(field, value) if pa.types.is_string(of) else None
    if kind not in _COMPARISONS or value is None:
        return None
    if isinstance(value, float) and isnan(value):
        is_nan = kind == "EqualTo" and pa.types.is_floating(of)
        return pc.is_nan(field) if is_nan else None
    scalar = _scalar(value, of)
    if scalar is None:
        return None
    compared = _COMPARISONS[kind](field, scalar)
    if pa.types.is_floating(of) and kind in _IS_MORE:
        return compared | pc.is_nan(field)
    return compared


def _one_of(of: pa.DataType, field: pc.Expression, given: list[Any]) -> pc.Expression | None:
    if pa.types.is_floating(of):
        # Arrow's lists distinguish 0.0 and -0.0.
        parts = [_of("EqualTo", of, field, item) for item in given]
        known = [one for one in parts if one is not None]
        if not known or len(known) < len(parts):
            return None
        return functools.reduce(operator.or_, known)
    scalars = [_scalar(item, of) for item in given]
    if None in scalars:
        return None
    return field.isin(pa.array(scalars, of))


def _scalar(value: Any, kind: pa.DataType) -> pa.Scalar | None:
    """Return a value of a column that Spark and Arrow compare in the same way, or None."""
    types = pa.types
    known = (
        types.is_signed_integer(kind)
        or types.is_floating(kind)
        or types.is_decimal(kind)
        or types.is_string(kind)
        or types.is_binary(kind)
        or types.is_fixed_size_binary(kind)
        or types.is_boolean(kind)
        or types.is_date32(kind)
        or (
            types.is_timestamp(kind)
            and isinstance(value, datetime)
            and (kind.tz is None) == (value.tzinfo is None)
        )
    )
    if not known:
        return None
    try:
        scalar = pa.scalar(value, kind)
    except (pa.ArrowException, TypeError, OverflowError, ValueError):
        return None
    # Arrow drops digits that the type of a column lacks, such as part of a millisecond.
    return scalar if scalar.as_py() == value else None
