"""Turn filters into expressions of Arrow, from tuples, SQL, and lists of them."""

from __future__ import annotations

import operator
import reprlib
import warnings
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from lookupstore.filters.limits import (
    MOST_NESTED,
    balanced,
    check_parts,
    check_size,
)
from lookupstore.filters.struct_fields import path_of, type_at

#: A filter of rows: an expression of `pyarrow.compute`; SQL, such as `"a >= 3 and b is null"`;
#: `("a", ">=", 3)`; a list of these, all of which must be true; or a list of such lists, of which
#: one must be true.
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
# Operators that a warning suggests instead of a comparison with None.
_EQUALITIES = {"=": "is null", "==": "is null", "!=": "is not null"}
_OF_TEXT = ("like", "starts_with")
_SHORT = reprlib.Repr()
_SHORT.maxstring = _SHORT.maxother = _SHORT.maxlong = 80
_OPERATORS = (*_COMPARISONS, "in", "not in", "between", "is null", "is not null")


def filter_expression(given: Filter, columns: pa.Schema) -> pc.Expression:
    """Return a filter as an expression of `pyarrow.compute`.

    Operators in tuples work as in SQL: a comparison with null is null, and matches no row.

    Args:
        given: Filter as an expression, SQL, a tuple, or a list.
        columns: Columns of the table; SQL compares in their types.

    Raises:
        TypeError: If `given` is not a filter.
        ValueError: If an operator is unknown or has wrong operands, SQL is not understood, or the
            filter has too many levels or parts.
        ImportError: If the filter is SQL, and sqlglot is not installed.

    >>> columns = pa.schema({"a": pa.int64(), "b": pa.string()})
    >>> filter_expression([("a", ">=", 3), ("b", "=", "x")], columns)
    <pyarrow.compute.Expression ((a >= 3) and (b == "x"))>
    >>> filter_expression("a >= 3 and b = 'x'", columns)
    <pyarrow.compute.Expression ((a >= 3) and (b == "x"))>
    """
    builder = _Builder(columns)
    found = builder.built(given, 1)
    check_size(found, may_be_deep=builder.has_given)
    return found


class _Builder:
    """A builder of one filter.

    Args:
        columns: Columns of the table, with their types.

    Attributes:
        has_given: Whether the filter contains an expression that the caller made.
    """

    def __init__(self, columns: pa.Schema) -> None:
        self.has_given = False
        self._columns = columns
        self._parts = 0

    def built(self, given: Filter, levels: int) -> pc.Expression:
        """Return the expression of a filter, or of a part of one.

        Args:
            given: Filter, or a part of one.
            levels: Number of lists around `given`, plus 1.
        """
        if levels > MOST_NESTED:
            raise ValueError(
                f"filter: it has more than {MOST_NESTED} lists in one another; give one list"
            )
        self._parts += 1
        check_parts(self._parts)  # a list may be contained in another list many times
        if isinstance(given, pc.Expression):
            self.has_given = True
            return given
        if isinstance(given, tuple) and given and isinstance(given[0], str):
            self.has_given |= any(isinstance(one, pc.Expression) for one in given)
            return _of_tuple(given, self._columns)
        if isinstance(given, str):
            return _of_sql(given, self._columns)
        if not isinstance(given, Sequence) or not given:
            raise TypeError(
                f"filter: {_shown(given)} is no filter; give an expression of pyarrow.compute, SQL "
                "such as 'a >= 3', a tuple such as ('a', '>=', 3), or a list of these"
            )
        first, second = (*given, None)[:2]
        # An expression has no truth: it is not compared with names.
        if isinstance(first, str) and isinstance(second, str) and second in _OPERATORS:
            raise TypeError(
                f"filter: {_shown(given)} is a list, whose parts are filters; give a tuple: "
                f"{_shown(tuple(given))}"
            )
        parts = [self.built(one, levels + 1) for one in given]
        alternatives = all(isinstance(one, list) for one in given)
        return balanced(parts, operator.or_ if alternatives else operator.and_)


def _of_sql(given: str, columns: pa.Schema) -> pc.Expression:
    try:
        # Only filters in SQL need a parser.
        from lookupstore.filters.sql import sql_expression
    except ModuleNotFoundError as error:
        if error.name != "sqlglot":
            raise
        raise ImportError(
            "a filter in SQL needs sqlglot: pip install 'lookupstore[hudi]'", name="sqlglot"
        ) from None
    return sql_expression(given, columns)


def _in_types(given: tuple[Any, ...], path: Sequence[str], columns: pa.Schema) -> tuple[Any, ...]:
    """Return a filter with decimals instead of integers, if its column is of decimals.

    Arrow compares a decimal with an integer as if the integer had 19 digits.
    """
    is_known = columns.get_field_index(path[0]) >= 0
    if not is_known or not pa.types.is_decimal(type_at(path, columns)):
        return given
    return (*given[:2], *map(_decimal, given[2:]))


def _decimal(value: Any) -> Any:
    if isinstance(value, (list, tuple)):
        return [_decimal(one) for one in value]
    return Decimal(value) if isinstance(value, int) and not isinstance(value, bool) else value


def _of_tuple(given: tuple[Any, ...], columns: pa.Schema) -> pc.Expression:
    try:
        path = path_of(given[0], columns)
    except ValueError as error:
        raise ValueError(f"filter: {_shown(given)} is not read; {error}") from None
    try:
        return _condition(_in_types(given, path, columns), pc.field(*path))
    except OverflowError as error:
        raise ValueError(f"filter: {_shown(given)} has a number of more than 64 bits") from error
    except (pa.ArrowException, TypeError, ValueError) as error:
        if str(error).startswith("filter: "):
            raise
        said = " ".join(str(error).split())
        raise ValueError(
            f"filter: {_shown(given)} has a value that Arrow does not have: {said}"
        ) from error


def _condition(given: tuple[Any, ...], field: pc.Expression) -> pc.Expression:
    _, *rest = given
    word = " ".join(rest[0].split()).lower() if rest and isinstance(rest[0], str) else ""
    values = rest[1:]
    if word in ("is null", "is not null") and not values:
        return field.is_null() if word == "is null" else field.is_valid()
    if word in _OF_TEXT and not all(isinstance(one, (str, bytes, type(None))) for one in values):
        raise ValueError(
            f"filter: {_shown(given)} has other operands than {word!r} takes; give a text"
        )
    if word in _COMPARISONS and len(values) == 1:
        if values[0] is None and word in _EQUALITIES:
            _warn_of_null(given, _EQUALITIES[word])
        return _compared(word, field, values[0])
    if word == "between" and len(values) == 2:
        return _compared(">=", field, values[0]) & _compared("<=", field, values[1])
    if word in ("in", "not in") and len(values) == 1 and (some := _listed(values[0])) is not None:
        # As in SQL, a null is not in any list, and not outside of any list.
        one_of = field.isin([one for one in some if one is not None])
        if word == "in":
            return one_of
        return ~one_of & field.is_valid() & _scalar(all(one is not None for one in some))
    if word in _OPERATORS:
        raise ValueError(f"filter: {_shown(given)} has other operands than {word!r} takes")
    known = ", ".join(map(repr, _OPERATORS))
    raise ValueError(f"filter: {_shown(given)} has no operator that is known; give one of {known}")


def _warn_of_null(given: tuple[Any, ...], instead: str) -> None:
    warnings.warn(
        f"filter: {_shown(given)} finds no row, since null equals nothing and differs from "
        f"nothing, as in SQL; give {_shown((given[0], instead))}",
        stacklevel=2,
    )


def _shown(given: Any) -> str:
    """Return the `repr` of a value, truncated if it is long or deep."""
    try:
        return _SHORT.repr(given)
    except Exception:  # an error in a class of the caller
        return f"a {type(given).__name__}"


def _listed(values: Any) -> list[Any] | None:
    """Return the values of a list, an array or another iterable, or None."""
    if isinstance(values, (str, bytes)):
        return None
    try:
        # Nulls of Arrow are not None and must be converted.
        is_arrow = isinstance(values, (pa.Array, pa.ChunkedArray))
        return list(values.to_pylist() if is_arrow else values)
    except TypeError:
        return None


def _compared(word: str, field: pc.Expression, value: Any) -> pc.Expression:
    if value is None:
        return _scalar(None)  # a comparison with null is null
    return _COMPARISONS[word](field, value)


def _scalar(value: bool | None) -> pc.Expression:
    return pc.scalar(pa.scalar(value, pa.bool_()))
