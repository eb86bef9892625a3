"""Choose the parts of a filter by which Arrow may skip row groups.

Footers contain nothing about NaN, and Arrow treats them as if no value were NaN. For `not x < 5`,
for `x != 1` if all other values are 1, and for lists with NaN, it skips row groups with matching
rows. For `a or x < NaN` it returns rows that do not match. For a list with 0.0 it skips row groups
that have no other value, because their footers have -0.0 as the least value. Arrow therefore
chooses row groups only by parts of a filter that are never true of NaN. The whole filter is then
evaluated on the rows.

Source: Arrow, compute/expression.cc (SimplifyWithGuarantee), seen up to version 26.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Collection, Mapping
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from lookupstore.arrow.types import has_part
from lookupstore.filters.parsed_expression import (
    Call,
    Field,
    Literal,
    Node,
    StructField,
    parse_expression,
)
from lookupstore.filters.predicates import (
    And,
    Compare,
    Constant,
    IsNan,
    IsNull,
    Not,
    OneOf,
    Or,
    Predicate,
    StartsWith,
    Unknown,
    conjuncts,
    predicate_of,
)

_COMPARISONS: Mapping[str, Callable[[pc.Expression, Any], pc.Expression]] = {
    "==": operator.eq,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


def names_of(where: pc.Expression) -> set[str] | None:
    """Return the columns that a filter names, or None if parts of it are not supported."""
    return _names(parse_expression(where))


def columns_in(where: pc.Expression) -> set[str]:
    """Return the columns in the parts of a filter that are understood."""
    return _columns(parse_expression(where))


def told_to_arrow(where: pc.Expression, columns: pa.Schema) -> pc.Expression | None:
    """Return the part of a filter by which Arrow may choose row groups.

    The result is the filter itself or a part of it. None: Arrow must read all row groups.

    Args:
        where: Filter of the query.
        columns: All columns of the table.

    >>> columns = pa.schema({"x": pa.float64(), "a": pa.int64()})
    >>> told_to_arrow((pc.field("x") != 1) & (pc.field("a") > 3), columns)
    <pyarrow.compute.Expression (a > 3)>
    """
    # Numbers inside of structs may also be NaN.
    floats = {one.name for one in columns if has_part(one.type, pa.types.is_floating)}
    node = parse_expression(where)
    if _has_nan(node):
        return None  # bounds compare differently with it
    names = _names(node)
    if names is not None and not names & floats:
        return where
    if names is None and not floats:
        return where
    parts = [(one, _is_safe(one, floats, negated=False)) for one in conjuncts(predicate_of(where))]
    if all(is_safe for _, is_safe in parts):
        return where
    told = [found for one, is_safe in parts if is_safe and (found := _expression(one)) is not None]
    return functools.reduce(operator.and_, told) if told else None


def _columns(node: Node) -> set[str]:
    if isinstance(node, Call):
        return set[str]().union(*map(_columns, node.arguments))
    if isinstance(node, StructField):
        return {node.path[0]}
    return {node.name} if isinstance(node, Field) else set()


def _names(node: Node) -> set[str] | None:
    if isinstance(node, (Field, StructField, Literal)):
        return _columns(node)
    if not isinstance(node, Call):
        return None
    found: set[str] = set()
    for one in node.arguments:
        names = _names(one)
        if names is None:
            return None
        found |= names
    return found


def _has_nan(node: Node) -> bool:
    """Return whether a filter compares with NaN."""
    if isinstance(node, Literal):
        # Python has no day after the year 9999, but a filter may compare with such a day.
        return pa.types.is_floating(node.value.type) and pc.is_nan(node.value).as_py() is True
    return isinstance(node, Call) and any(map(_has_nan, node.arguments))


def _is_safe(predicate: Predicate, floats: Collection[str], *, negated: bool) -> bool:
    """Return whether Arrow skips no matching row by footers, despite NaN and zeros."""
    if isinstance(predicate, (And, Or)):
        both = (predicate.left, predicate.right)
        return all(_is_safe(one, floats, negated=negated) for one in both)
    if isinstance(predicate, Not):
        return _is_safe(predicate.part, floats, negated=not negated)
    if isinstance(predicate, Constant):
        return True
    if isinstance(predicate, Unknown):
        return False
    if predicate.column.name not in floats:
        return True
    if isinstance(predicate, Compare):
        return not negated
    if isinstance(predicate, OneOf):
        values = predicate.values
        if not pa.types.is_floating(values.type):
            return not negated and len(values) == 0
        # Lists distinguish 0.0 and -0.0, and footers do not.
        odd = pc.or_(pc.is_nan(values), pc.equal(values, 0))
        return not negated and not pc.any(odd).as_py()
    return isinstance(predicate, IsNull) and not predicate.nan_is_null


def _expression(predicate: Predicate) -> pc.Expression | None:
    """Return a predicate as an expression, or None if Arrow gains little by it."""
    if isinstance(predicate, (And, Or)):
        left, right = _expression(predicate.left), _expression(predicate.right)
        if left is None or right is None:
            return None
        return left & right if isinstance(predicate, And) else left | right
    if isinstance(predicate, Not):
        part = _expression(predicate.part)
        return None if part is None else ~part
    if isinstance(predicate, Constant):
        return pc.scalar(pa.scalar(predicate.value, pa.bool_()))
    if isinstance(predicate, (Unknown, StartsWith, IsNan)) or predicate.column.casts:
        return None
    field = pc.field(predicate.column.name)
    if isinstance(predicate, IsNull):
        return field.is_null()
    if isinstance(predicate, OneOf):
        return None if predicate.with_null else field.isin(predicate.values)
    return _COMPARISONS[predicate.operator](field, pc.scalar(predicate.value))
