"""What Arrow may be told of a filter when it chooses row groups.

Footers say nothing of NaN, and Arrow goes by them as if it were not there: of `not x < 5`, of
`x != 1` where all others are 1, and of lists with NaN it passes over row groups that have such
rows; of `a or x < NaN` it takes rows that it should not. Of a list with 0.0 it passes over row
groups of nothing else, whose least value a footer calls -0.0. So it is told of parts of a filter
for which NaN is never true; all of it is then asked of the rows that come.

Source: Arrow, compute/expression.cc (SimplifyWithGuarantee), seen up to version 26.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Collection, Mapping
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from lookupstore.hudi.layout.filters.parsed_expression import (
    Call,
    Field,
    Literal,
    Node,
    parse_expression,
)
from lookupstore.hudi.layout.filters.predicates import (
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
    """Return the columns that a filter names; None: nobody knows."""
    return _names(parse_expression(where))


def columns_in(where: pc.Expression) -> set[str]:
    """Return the columns that a filter names, as far as it is read."""
    return _columns(parse_expression(where))


def told_to_arrow(where: pc.Expression, columns: pa.Schema) -> pc.Expression | None:
    """Return what may choose row groups: the filter itself, or parts of it; None: nothing.

    Args:
        where: the filter.
        columns: all columns of the table.

    >>> columns = pa.schema({"x": pa.float64(), "a": pa.int64()})
    >>> told_to_arrow((pc.field("x") != 1) & (pc.field("a") > 3), columns)
    <pyarrow.compute.Expression (a > 3)>
    """
    floats = {one.name for one in columns if pa.types.is_floating(one.type)}
    # Numbers in a struct have NaN as well.
    nested = any(pa.types.is_nested(one.type) for one in columns)
    node = parse_expression(where)
    if _has_nan(node):
        return None  # with which bounds compare in ways of their own
    names = _names(node)
    if names is not None and not names & floats:
        return where
    if names is None and not floats and not nested:
        return where
    parts = [(one, _is_safe(one, floats, negated=False)) for one in conjuncts(predicate_of(where))]
    if all(is_safe for _, is_safe in parts):
        return where
    told = [found for one, is_safe in parts if is_safe and (found := _expression(one)) is not None]
    return functools.reduce(operator.and_, told) if told else None


def _columns(node: Node) -> set[str]:
    if isinstance(node, Call):
        return set[str]().union(*map(_columns, node.arguments))
    return {node.name} if isinstance(node, Field) else set()


def _names(node: Node) -> set[str] | None:
    if isinstance(node, Field):
        return {node.name}
    if isinstance(node, Literal):
        return set()
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
    """Return whether a value is NaN that a filter compares with."""
    if isinstance(node, Literal):
        # Python has no day after the year 9999, which a comparison may be with.
        return pa.types.is_floating(node.value.type) and pc.is_nan(node.value).as_py() is True
    return isinstance(node, Call) and any(map(_has_nan, node.arguments))


def _is_safe(predicate: Predicate, floats: Collection[str], *, negated: bool) -> bool:
    """Return whether bounds of footers tell Arrow of no row wrongly for its NaN or its zero."""
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
        # Lists tell 0.0 from -0.0, and footers do not.
        odd = pc.or_(pc.is_nan(values), pc.equal(values, 0))
        return not negated and not pc.any(odd).as_py()
    return isinstance(predicate, IsNull) and not predicate.nan_is_null


def _expression(predicate: Predicate) -> pc.Expression | None:
    """Return a predicate as an expression; None: it is not worth it."""
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
