"""Interpret filters as predicates that bounds of single columns can answer.

A part of a filter that is not understood is `Unknown`. It counts as possibly true and possibly
false of every row.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from lookupstore.errors import printable
from lookupstore.filters.parsed_expression import (
    Call,
    Field,
    Literal,
    Node,
    parse_expression,
)


@dataclass(frozen=True)
class ColumnRef:
    """A column in its own type, or after one or more casts in that order."""

    name: str
    casts: tuple[pa.DataType, ...] = ()


@dataclass(frozen=True)
class Compare:
    """A comparison with a value that is not null: `==`, `<`, `<=`, `>` or `>=`."""

    column: ColumnRef
    operator: str
    value: pa.Scalar


@dataclass(frozen=True)
class OneOf:
    """The question whether a value is in a list; the answer is never null.

    Attributes:
        column: Column of the value.
        values: Values of the list, without nulls.
        with_null: Whether the list also has a null.
    """

    column: ColumnRef
    values: pa.Array
    with_null: bool


@dataclass(frozen=True)
class StartsWith:
    """The question whether a text begins with another one.

    Attributes:
        column: Column of the text.
        prefix: Prefix that the text must have.
        is_all: Whether the prefix is the whole condition. False: a pattern asks for more.
    """

    column: ColumnRef
    prefix: pa.Scalar
    is_all: bool


@dataclass(frozen=True)
class IsNull:
    """The question whether a value is null; NaN may count as null."""

    column: ColumnRef
    nan_is_null: bool = False


@dataclass(frozen=True)
class IsNan:
    """The question whether a number is NaN."""

    column: ColumnRef


@dataclass(frozen=True)
class Not:
    """The opposite of a predicate, and null where the predicate is null."""

    part: Predicate


@dataclass(frozen=True)
class And:
    """A predicate that is true where both parts are true."""

    left: Predicate
    right: Predicate


@dataclass(frozen=True)
class Or:
    """A predicate that is true where at least one part is true."""

    left: Predicate
    right: Predicate


@dataclass(frozen=True)
class Constant:
    """A predicate with the same answer for every row, which is true, false or null."""

    value: bool | None


@dataclass(frozen=True)
class Unknown:
    """A predicate that bounds cannot answer."""


Predicate = Compare | OneOf | StartsWith | IsNull | IsNan | Not | And | Or | Constant | Unknown

_FLIPPED = {
    "equal": "equal",
    "not_equal": "not_equal",
    "less": "greater",
    "less_equal": "greater_equal",
    "greater": "less",
    "greater_equal": "less_equal",
}
_OPERATORS = {
    "equal": "==",
    "not_equal": "==",
    "less": "<",
    "less_equal": "<=",
    "greater": ">",
    "greater_equal": ">=",
}
# Maximum number of values of a list that are shown.
_MOST_SHOWN = 5
# Treatment of nulls in a list, as numbered by Arrow: they match, or are skipped.
_MATCH, _SKIP = 0, 1


def predicate_of(expression: pc.Expression) -> Predicate:
    """Return the predicate of an expression of Arrow.

    >>> predicate_of(pc.field("a").is_valid())
    Not(part=IsNull(column=ColumnRef(name='a', casts=()), nan_is_null=False))
    """
    return _of(parse_expression(expression))


def conjuncts(predicate: Predicate) -> Iterator[Predicate]:
    """Yield the parts of a predicate that must all be true."""
    if isinstance(predicate, And):
        yield from conjuncts(predicate.left)
        yield from conjuncts(predicate.right)
    else:
        yield predicate


def columns_of(predicate: Predicate) -> list[str]:
    """Return the names of the columns of a predicate, in order of appearance."""
    if isinstance(predicate, (And, Or)):
        both = columns_of(predicate.left) + columns_of(predicate.right)
        return list(dict.fromkeys(both))
    if isinstance(predicate, Not):
        return columns_of(predicate.part)
    return [] if isinstance(predicate, (Constant, Unknown)) else [predicate.column.name]


def shown(predicate: Predicate) -> str:
    """Return a predicate as readable text.

    >>> shown(predicate_of((pc.field("a") > 3) | ~pc.field("b").isin(["x"])))
    "(a > 3 or not b in ['x'])"
    """
    if isinstance(predicate, And):
        return f"({shown(predicate.left)} and {shown(predicate.right)})"
    if isinstance(predicate, Or):
        return f"({shown(predicate.left)} or {shown(predicate.right)})"
    if isinstance(predicate, Not):
        return f"not {shown(predicate.part)}"
    if isinstance(predicate, Constant):
        return "null" if predicate.value is None else str(predicate.value).lower()
    if isinstance(predicate, Unknown):
        return "what statistics cannot answer"
    name = printable(predicate.column.name)
    for kind in predicate.column.casts:
        name = f"{name} as {kind}"
    if isinstance(predicate, IsNull):
        return f"{name} is null"
    if isinstance(predicate, IsNan):
        return f"{name} is nan"
    if isinstance(predicate, StartsWith):
        return f"{name} starts with {predicate.prefix.as_py()!r}"
    if isinstance(predicate, Compare):
        return f"{name} {predicate.operator} {_shown_value(predicate.value)}"
    few = [_shown_value(one) if pa.types.is_temporal(one.type) else repr(one.as_py())
           for one in predicate.values[:_MOST_SHOWN]]  # fmt: skip
    more = ["..."] * (len(predicate.values) > _MOST_SHOWN)
    return f"{name} in [{', '.join([*few, *more])}]"


def _shown_value(value: pa.Scalar) -> str:
    if isinstance(value, pa.BinaryScalar):  # strings, too
        return repr(value.as_py())
    try:
        return str(value)
    except (OverflowError, ValueError):  # a time that Python cannot represent
        return f"{value.value} {value.type}"


def _of(node: Node) -> Predicate:
    if isinstance(node, Literal) and pa.types.is_boolean(node.value.type):
        return Constant(node.value.as_py())
    if isinstance(node, Literal) and pa.types.is_null(node.value.type):
        return Constant(None)
    if isinstance(node, Field):  # of a boolean column: no other is a filter
        return Compare(ColumnRef(node.name), "==", pa.scalar(True))
    if not isinstance(node, Call):
        return Unknown()
    function, arguments, options = node.function, node.arguments, node.options
    if function in ("and", "and_kleene", "or", "or_kleene") and len(arguments) == 2:
        left, right = map(_of, arguments)
        return And(left, right) if function.startswith("and") else Or(left, right)
    if function == "invert" and len(arguments) == 1:
        return Not(_of(arguments[0]))
    if function == "coalesce" and len(arguments) == 2:
        return _coalesced(*arguments)
    if function in _OPERATORS and len(arguments) == 2:
        return _comparison(function, *arguments)
    column = _column(arguments[0]) if len(arguments) == 1 else None
    if column is None:
        return Unknown()
    if function in ("is_null", "is_valid"):
        nan_too = "nan_is_null" in options and options["nan_is_null"].as_py()
        # A value that does not fit in a cast is an error, or no value.
        is_null = Unknown() if column.casts else IsNull(column, bool(nan_too))
        return is_null if function == "is_null" else Not(is_null)
    if function == "is_nan":
        return IsNan(column)
    if function == "is_in":
        return _one_of(column, options)
    if function in ("starts_with", "match_like"):
        return _prefix(column, options, is_like=function == "match_like")
    return Unknown()


def _coalesced(asked: Node, instead: Node) -> Predicate:
    """Return the predicate of a `coalesce` that turns null into true or false."""
    if not isinstance(instead, Literal) or not pa.types.is_boolean(instead.value.type):
        return Unknown()
    value = instead.value.as_py()
    if value is None:
        return _of(asked)
    return Or(_of(asked), Unknown()) if value else And(_of(asked), Unknown())


def _comparison(function: str, left: Node, right: Node) -> Predicate:
    if isinstance(left, Literal):
        function, left, right = _FLIPPED[function], right, left
    column = _column(left)
    if column is None or not isinstance(right, Literal):
        return Unknown()
    if not right.value.is_valid:
        return Constant(None)
    compared = Compare(column, _OPERATORS[function], right.value)
    return Not(compared) if function == "not_equal" else compared


def _column(node: Node) -> ColumnRef | None:
    """Return the column of a node, with its casts, or None for other nodes."""
    if isinstance(node, Field):
        return ColumnRef(node.name)
    if isinstance(node, Call) and node.function == "cast" and len(node.arguments) == 1:
        inner = _column(node.arguments[0])
        to = node.options.get("to_type")
        if inner is not None and to is not None:
            return ColumnRef(inner.name, (*inner.casts, to.type))
    return None


def _one_of(column: ColumnRef, options: Mapping[str, pa.Scalar]) -> Predicate:
    values, nulls = options.get("value_set"), options.get("null_matching_behavior")
    if not isinstance(values, (pa.ListScalar, pa.LargeListScalar)) or nulls is None:
        return Unknown()
    given = values.values
    if given is None or nulls.as_py() not in (_MATCH, _SKIP):
        return Unknown()
    with_null = nulls.as_py() == _MATCH and given.null_count > 0
    return OneOf(column, given.drop_null(), with_null)


def _prefix(column: ColumnRef, options: Mapping[str, pa.Scalar], *, is_like: bool) -> Predicate:
    pattern = options.get("pattern")
    if pattern is None or not pattern.is_valid or options["ignore_case"].as_py():
        return Unknown()
    try:
        text = pattern.as_py()  # Arrow has bytes that are no UTF-8 as a text, too
        text = text.decode() if isinstance(text, bytes) else text
    except UnicodeDecodeError:
        return Unknown()
    if not is_like:
        return StartsWith(column, pa.scalar(text), is_all=True)
    # A backslash may make what follows a usual character.
    end = min((at for at in map(text.find, "%_\\") if at >= 0), default=len(text))
    return StartsWith(column, pa.scalar(text[:end]), is_all=False)
