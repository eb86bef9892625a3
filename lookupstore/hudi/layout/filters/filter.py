"""Filters as people write them, as expressions of Arrow: tuples, SQL, and lists of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

#: Which rows: an expression of `pyarrow.compute`; SQL, such as `"a >= 3 and b is null"`;
#: `("a", ">=", 3)`; a list of these, all of which have to hold; or a list of such lists, of which
#: one has to.
Filter: TypeAlias = "pc.Expression | str | tuple[Any, ...] | Sequence[Any]"

_COMPARISONS: Mapping[str, Callable[[pc.Expression, Any], pc.Expression]] = {
    "=": lambda field, value: field == value,
    "==": lambda field, value: field == value,
    "!=": lambda field, value: field != value,
    "<": lambda field, value: field < value,
    "<=": lambda field, value: field <= value,
    ">": lambda field, value: field > value,
    ">=": lambda field, value: field >= value,
    "like": pc.match_like,
    "starts_with": pc.starts_with,
}
_OF_TEXT = ("like", "starts_with")
_OPERATORS = (*_COMPARISONS, "in", "not in", "between", "is null", "is not null")


def filter_expression(given: Filter, columns: pa.Schema) -> pc.Expression:
    """Return a filter as an expression of `pyarrow.compute`.

    Operators of tuples are those of SQL: a null is no value, and compares with nothing.

    Args:
        given: the filter.
        columns: of the table, by whose types SQL compares.

    Raises:
        TypeError: it is none of the things that a filter can be.
        ValueError: there is no such operator, or it has other operands; or SQL is not understood.
        ImportError: SQL needs a package that is not installed.

    >>> columns = pa.schema({"a": pa.int64(), "b": pa.string()})
    >>> filter_expression([("a", ">=", 3), ("b", "=", "x")], columns)
    <pyarrow.compute.Expression ((a >= 3) and (b == "x"))>
    >>> filter_expression("a >= 3 and b = 'x'", columns)
    <pyarrow.compute.Expression ((a >= 3) and (b == "x"))>
    """
    if isinstance(given, pc.Expression):
        return given
    if isinstance(given, tuple) and given and isinstance(given[0], str):
        try:
            return _of_tuple(given)
        except OverflowError as error:
            raise ValueError(f"filter: {given!r} has a number of more than 64 bits") from error
    if isinstance(given, str):
        return _of_sql(given, columns)
    if not isinstance(given, Sequence) or not given:
        raise TypeError(
            f"filter: {given!r} is no filter; give an expression of pyarrow.compute, SQL such as "
            "'a >= 3', a tuple such as ('a', '>=', 3), or a list of these"
        )
    parts = [filter_expression(one, columns) for one in given]
    alternatives = all(isinstance(one, list) for one in given)
    found = parts[0]
    for one in parts[1:]:
        found = found | one if alternatives else found & one
    return found


def _of_sql(given: str, columns: pa.Schema) -> pc.Expression:
    try:
        # Of all filters only this needs a parser.
        from lookupstore.hudi.layout.filters.sql import sql_expression
    except ModuleNotFoundError as error:
        if error.name != "sqlglot":
            raise
        raise ImportError(
            "a filter in SQL needs sqlglot: pip install 'lookupstore[hudi]'", name="sqlglot"
        ) from None
    return sql_expression(given, columns)


def _of_tuple(given: tuple[Any, ...]) -> pc.Expression:
    name, *rest = given
    word = " ".join(rest[0].split()).lower() if rest and isinstance(rest[0], str) else ""
    field, values = pc.field(name), rest[1:]
    if word in ("is null", "is not null") and not values:
        return field.is_null() if word == "is null" else field.is_valid()
    if word in _OF_TEXT and not all(isinstance(one, (str, bytes, type(None))) for one in values):
        raise ValueError(f"filter: {given!r} has other operands than {word!r} takes; give a text")
    if word in _COMPARISONS and len(values) == 1:
        return _compared(word, field, values[0])
    if word == "between" and len(values) == 2:
        return _compared(">=", field, values[0]) & _compared("<=", field, values[1])
    if word in ("in", "not in") and len(values) == 1 and (some := _listed(values[0])) is not None:
        # As SQL has it: a null is in no list, and also not outside of one.
        one_of = field.isin([one for one in some if one is not None])
        if word == "in":
            return one_of
        return ~one_of & field.is_valid() & _scalar(all(one is not None for one in some))
    if word in _OPERATORS:
        raise ValueError(f"filter: {given!r} has other operands than {word!r} takes")
    known = ", ".join(map(repr, _OPERATORS))
    raise ValueError(f"filter: {given!r} has no operator that is known; give one of {known}")


def _listed(values: Any) -> list[Any] | None:
    """Return the values of a list, an array, or whatever gives some; None: it gives none."""
    if isinstance(values, (str, bytes)):
        return None
    try:
        # Nulls of Arrow are not None.
        is_arrow = isinstance(values, (pa.Array, pa.ChunkedArray))
        return list(values.to_pylist() if is_arrow else values)
    except TypeError:
        return None


def _compared(word: str, field: pc.Expression, value: Any) -> pc.Expression:
    if value is None:
        return _scalar(None)  # with null nothing compares
    return _COMPARISONS[word](field, value)


def _scalar(value: bool | None) -> pc.Expression:
    return pc.scalar(pa.scalar(value, pa.bool_()))
