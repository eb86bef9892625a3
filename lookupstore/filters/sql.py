"""Turn filters in SQL into expressions of Arrow.

Null has the three-valued logic of SQL. sqlglot parses the text in DuckDB's dialect, and runs
nothing. Only known nodes of its tree, with known arguments, are accepted. Otherwise an error names
the part. A text therefore has its meaning in SQL, or is refused. The names of columns are
case-sensitive, as in Arrow.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, ClassVar

import pyarrow as pa
import pyarrow.compute as pc
from sqlglot import exp

from lookupstore.errors import listed, meant
from lookupstore.filters.limits import MOST_NESTED, balanced
from lookupstore.filters.sql_text import (
    CONDITIONS,
    OPERANDS,
    PARTS,
    REMEDY,
    UNCAST,
    check_times,
    is_value,
    naming,
    parsed_sql,
    path_in_sql,
    plain_node,
    refused_error,
    shown_node,
    text_error,
)
from lookupstore.filters.sql_values import (
    OPERATORS,
    Flag,
    Moment,
    Null,
    Number,
    Text,
    Value,
    compared,
    is_one_of,
    moment_of,
    number_of,
)
from lookupstore.filters.struct_fields import type_at

# Maximum number of digits of the size of a type.
_MOST_DIGITS = 4

_COMPARISONS: Mapping[type[exp.Expression], str] = {
    exp.EQ: "=", exp.NEQ: "!=", exp.LT: "<", exp.LTE: "<=", exp.GT: ">", exp.GTE: ">=",
}  # fmt: skip
_FLIPPED = {"=": "=", "!=": "!=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
_FUNCTIONS: Mapping[type[exp.Expression], Callable[[pc.Expression], pc.Expression]] = {
    exp.Lower: pc.utf8_lower,
    exp.Upper: pc.utf8_upper,
    exp.Length: pc.utf8_length,
}
# Arrow types by their names in sqlglot.
_TYPES: Mapping[str, pa.DataType] = {
    "TINYINT": pa.int8(), "SMALLINT": pa.int16(), "INT": pa.int32(), "BIGINT": pa.int64(),
    "FLOAT": pa.float32(), "DOUBLE": pa.float64(), "TEXT": pa.string(), "VARCHAR": pa.string(),
    "DATE": pa.date32(), "TIMESTAMP": pa.timestamp("us"), "TIMESTAMPNTZ": pa.timestamp("us"),
    "TIMESTAMPTZ": pa.timestamp("us", "UTC"), "TIMESTAMP_NS": pa.timestamp("ns"),
    "TIMESTAMP_MS": pa.timestamp("ms"), "TIMESTAMP_S": pa.timestamp("s"),
    "TIME": pa.time64("us"), "BOOLEAN": pa.bool_(),
}  # fmt: skip
_OTHER_TYPE = "cast to a number, decimal(p, s), varchar, boolean, date, time or timestamp"


@dataclass(frozen=True)
class Operand:
    """A column, or a value that is computed from columns.

    Attributes:
        expression: Arrow expression of the values.
        kind: Arrow type of the values.
    """

    expression: pc.Expression
    kind: pa.DataType


def sql_expression(text: str, columns: pa.Schema) -> pc.Expression:
    """Parse a condition in SQL, and return it as an expression of Arrow.

    Args:
        text: Condition as after `where`, such as
            `km > 5 and (day = '2026-03-07' or name like 'ab%')`.
        columns: Columns of the table; values in the text are converted to their types.

    Raises:
        ValueError: If the text is not a condition, or has a part that is not supported; the error
            names the part.

    >>> columns = pa.schema({"km": pa.int64(), "day": pa.date32()})
    >>> sql_expression("km > 1.5 and day is not null", columns)
    <pyarrow.compute.Expression ((km > 1) and is_valid(day))>
    """
    try:
        return ConditionReader(columns).condition(parsed_sql(text), whole=False)
    except RecursionError:
        raise text_error(text, "is nested too deeply", REMEDY) from None
    except ValueError:
        name = _unquoted_name(text, columns.names)
        if name is None:
            raise
        raise text_error(text, "is not understood", f'write the column as "{name}"') from None


def _unquoted_name(text: str, names: Iterable[str]) -> str | None:
    """Return the first name in a condition that needs double quotes and lacks them, if any."""
    plain = re.sub(r"""'[^']*'|"[^"]*"|`[^`]*`""", "''", text)
    odd = (name for name in names if re.search(r"[^\w.]", name) and name in plain)
    return next((name.replace('"', '""') for name in odd), None)


class ConditionReader:
    """A reader of conditions on the columns of a table.

    Args:
        columns: Columns of the table, with their types.
    """

    # Remedy in errors of values in comparisons that are not supported.
    _remedy: ClassVar[str] = OPERANDS

    def __init__(self, columns: pa.Schema) -> None:
        self._columns = columns
        self._levels = 0

    @contextmanager
    def level(self, node: exp.Expression) -> Iterator[None]:
        """Count one level of nesting during a block, and refuse too many levels."""
        self._levels += 1
        if self._levels > MOST_NESTED:
            raise refused_error(node, f"is in more than {MOST_NESTED} levels")
        yield
        self._levels -= 1

    def condition(self, node: exp.Expression, *, whole: bool) -> pc.Expression:
        """Return a condition as an expression of Arrow.

        Args:
            node: Node of the condition.
            whole: Whether the result must distinguish null from false. False: only true matters.
        """
        with self.level(node):
            return self._condition(plain_node(node), whole=whole)

    def _condition(self, node: exp.Expression, *, whole: bool) -> pc.Expression:
        if isinstance(node, (exp.And, exp.Or)):
            return self._chain(node, whole=whole)
        if isinstance(node, exp.Not):
            inner = plain_node(node.this)
            if isinstance(inner, exp.In):
                return self._not_in(inner, whole=whole)
            if isinstance(inner, exp.Is):
                return self._is(inner, whole=whole, negated=True)
            return ~self.condition(inner, whole=True)
        if type(node) in _COMPARISONS:
            return self._comparison(node)
        if isinstance(node, exp.In):
            return self._in(node, whole=whole)
        if isinstance(node, exp.Between):
            return self._between(node)
        if isinstance(node, (exp.Like, exp.Escape)):
            return self._like(node)
        if isinstance(node, exp.StartsWith):
            return self._starts_with(node)
        if isinstance(node, exp.Is):
            return self._is(node, whole=whole, negated=False)
        if isinstance(node, exp.IsNan):
            operand = self.operand(node.this)
            if not pa.types.is_floating(operand.kind):
                raise refused_error(node, f"is asked of {operand.kind}", "only floats are NaN")
            return pc.is_nan(operand.expression)
        if isinstance(node, (exp.Boolean, exp.Null)):
            value = node.this if isinstance(node, exp.Boolean) else None
            return pc.scalar(pa.scalar(value, pa.bool_()))
        if isinstance(node, (exp.Column, exp.Dot, exp.Cast)):
            operand = self.operand(node)
            if not pa.types.is_boolean(operand.kind):
                raise refused_error(node, f"is {operand.kind}, and no condition", "compare it")
            return operand.expression
        raise refused_error(node, "is not read", CONDITIONS)

    def _chain(self, node: exp.Expression, *, whole: bool) -> pc.Expression:
        kind = type(node)
        parts, waiting = [], [node]
        while waiting:
            one = plain_node(waiting.pop())
            if type(one) is kind:
                waiting += [one.args["expression"], one.this]
            else:
                parts.append(self.condition(one, whole=whole))
        return balanced(parts, operator.and_ if kind is exp.And else operator.or_)

    def _comparison(self, node: exp.Expression) -> pc.Expression:
        word = _COMPARISONS[type(node)]
        left, right = node.this, node.args["expression"]
        if is_value(left):
            if is_value(right):
                return self._constant(node, word, self.value(left), self.value(right))
            word, left, right = _FLIPPED[word], right, left
        if is_value(right):
            return self._compared(node, left, word, right)
        one, other = self.operand(left), self.operand(right)
        if not _compare_as_they_are(one.kind, other.kind):
            raise refused_error(node, f"compares {one.kind} with {other.kind}")
        if pa.types.is_null(one.kind):  # Arrow does not compare nulls, whose comparison is null
            return pc.scalar(pa.scalar(None, pa.bool_()))
        return OPERATORS[word](one.expression, other.expression)

    def _compared(
        self, node: exp.Expression, left: exp.Expression, word: str, right: exp.Expression
    ) -> pc.Expression:
        operand = self.operand(left)
        with naming(node):
            return compared(operand.expression, operand.kind, word, self.value(right))

    def _constant(self, node: exp.Expression, word: str, left: Any, right: Any) -> pc.Expression:
        answer: bool | None
        if Null() in (left, right):
            answer = None
        elif type(left) is type(right) and isinstance(left, (Number, Text)):
            signs = {"=": (0,), "!=": (-1, 1), "<": (-1,), "<=": (-1, 0), ">": (1,), ">=": (0, 1)}
            one: Any = left.value
            other: Any = right.value
            if isinstance(left, Text):  # in the order of their UTF-8 bytes
                one, other = one.encode(), other.encode()
            answer = (one > other) - (one < other) in signs[word]
        else:
            raise refused_error(node, "compares two values", "compare a column with a value")
        return pc.scalar(pa.scalar(answer, pa.bool_()))

    def _in(self, node: exp.Expression, *, whole: bool) -> pc.Expression:
        operand, found, with_null = self._list(node)
        if not whole:
            return found
        nothing = pc.scalar(pa.scalar(None, pa.bool_()))
        return found | (nothing if with_null else operand.expression.is_null() & nothing)

    def _not_in(self, node: exp.Expression, *, whole: bool) -> pc.Expression:
        if whole:
            return ~self._in(node, whole=True)
        operand, found, with_null = self._list(node)
        if with_null:
            return pc.scalar(pa.scalar(False))
        return ~found & operand.expression.is_valid()

    def _list(self, node: exp.Expression) -> tuple[Operand, pc.Expression, bool]:
        """Return the operand, whether it is in the list, and whether the list has a null."""
        operand = self.operand(node.this)
        given = node.args.get("expressions") or []
        if not given or not all(map(is_value, given)):
            raise refused_error(node, "is not read", "give a list of values, in parentheses")
        values = [self.value(one) for one in given]
        some = [one for one in values if not isinstance(one, Null)]
        with naming(node):
            found = is_one_of(operand.expression, operand.kind, some)
        return operand, found, len(some) < len(values)

    def _between(self, node: exp.Expression) -> pc.Expression:
        low, high = node.args["low"], node.args["high"]
        if not is_value(low) or not is_value(high):
            check_times(node)
            raise refused_error(node, "is not read", "give two values, or two comparisons")
        above = self._compared(node, node.this, ">=", low)
        return above & self._compared(node, node.this, "<=", high)

    def _like(self, node: exp.Expression) -> pc.Expression:
        escape, whole = None, node
        if isinstance(node, exp.Escape):
            escape = self._text(node.args["expression"], node)
            node = plain_node(node.this)
            if not isinstance(node, exp.Like) or len(escape) != 1:
                raise refused_error(whole, "is not read", "escape a pattern with one character")
        operand = self._texts(node.this, whole)
        with naming(whole):
            parts = _pattern(self._text(node.args["expression"], whole), escape)
        found = _matches(operand, parts)
        return ~found if node.args.get("negate") else found

    def _starts_with(self, node: exp.Expression) -> pc.Expression:
        operand = self._texts(node.this, node)
        return pc.starts_with(operand, self._text(node.args["expression"], node))

    def _is(self, node: exp.Expression, *, whole: bool, negated: bool) -> pc.Expression:
        asked, answer = plain_node(node.this), plain_node(node.args["expression"])
        if isinstance(answer, exp.Null):
            if isinstance(asked, (exp.Column, exp.Dot, exp.Cast, *_FUNCTIONS)):
                found = self.operand(asked).expression
                return found.is_valid() if negated else found.is_null()
            found = self.condition(asked, whole=True).is_null()
            return ~found if negated else found
        if isinstance(answer, exp.Boolean):
            wanted = bool(answer.this)
            if not negated and not whole:  # only true counts, so this is the condition itself
                found = self.condition(asked, whole=not wanted)
                return found if wanted else ~found
            # Null counts as false if true is requested, and as true if false is requested.
            found = pc.coalesce(self.condition(asked, whole=True), pc.scalar(not wanted))
            return found if wanted != negated else ~found
        raise refused_error(node, "is not read", "ask `is null`, `is true` or `is false`")

    def _texts(self, node: exp.Expression, whole: exp.Expression) -> pc.Expression:
        operand = self.operand(node)
        self.check_text(operand, whole)
        return operand.expression

    def check_text(self, operand: Operand, whole: exp.Expression) -> None:
        """Raise an error if an operand of the part `whole` is not a text."""
        if not is_text(operand.kind):
            raise refused_error(whole, f"asks {operand.kind} for a text", "ask a column of texts")

    def _text(self, node: exp.Expression, whole: exp.Expression) -> str:
        node = plain_node(node)
        if not isinstance(node, exp.Literal) or not node.args.get("is_string"):
            raise refused_error(whole, "is not read", "write the text itself, in single quotes")
        return str(node.this)

    def operand(self, node: exp.Expression) -> Operand:
        """Return the operand of a comparison."""
        with self.level(node):
            try:
                return self.operand_of(plain_node(node, self._remedy))
            except ValueError:
                check_times(node)
                raise

    def operand_of(self, node: exp.Expression) -> Operand:
        """Return the operand of a node without parentheses."""
        if isinstance(node, (exp.Column, exp.Dot)):
            return self._column(node)
        if isinstance(node, exp.Cast) and type(node) is exp.Cast:
            operand, kind = self.operand(node.this), self.type_of(node)
            if operand.kind == kind or (is_text(operand.kind) and is_text(kind)):
                return operand
            if not _casts_safely(operand.kind, kind):
                problem = f"makes {kind} of {operand.kind}, which may lose something"
                is_exact = all(
                    pa.types.is_integer(one) or pa.types.is_decimal(one)
                    for one in (kind, operand.kind)
                )
                # A comparison or assignment of exact numbers needs no cast.
                raise refused_error(node, problem, "leave out the cast" if is_exact else UNCAST)
            return Operand(operand.expression.cast(kind), kind)
        function = _FUNCTIONS.get(type(node))
        if function is not None:
            argument = self.operand(node.this)
            self.check_text(argument, node)
            kind = argument.kind
            if isinstance(node, exp.Length):
                kind = pa.int32() if pa.types.is_string(kind) else pa.int64()
            return Operand(function(argument.expression), kind)
        if isinstance(node, exp.Sub) and node.find(exp.Column) is None:  # day = 2026-03-01
            remedy = "texts and dates are in single quotes, such as '2026-03-01'"
            raise refused_error(node, "is no column, and not read", remedy)
        raise refused_error(node, "is no column, and not read", self._remedy)

    def _column(self, node: exp.Expression) -> Operand:
        path = path_in_sql(node)
        if self._columns.get_field_index(path[0]) < 0:
            whole = ".".join(path)
            if whole in self._columns.names:
                raise refused_error(node, "is not a field of a struct", f'write "{whole}"')
            if path[1:] and path[1] in self._columns.names:
                raise refused_error(node, "is no column", f"write {'.'.join(path[1:])}")
            known = listed(self._columns.names)
            others = f"the table has {known}, whose case counts; texts are in single quotes"
            remedy = meant(path[0], self._columns.names, others).removeprefix("; ")
            raise refused_error(node, "is no column", remedy)
        with naming(node):
            return Operand(pc.field(*path), type_at(path, self._columns))

    def value(self, node: exp.Expression) -> Value:
        """Return the value of a literal, with its sign and casts."""
        with self.level(node):
            return self._value_of(plain_node(node))

    def _value_of(self, node: exp.Expression) -> Value:
        if isinstance(node, exp.Null):
            return Null()
        if isinstance(node, exp.Boolean):
            return Flag(bool(node.this))
        with naming(node):
            if isinstance(node, exp.Literal):
                return Text(node.this) if node.args.get("is_string") else number_of(node.this)
            value = self.value(node.this)
            if isinstance(node, exp.Neg) and isinstance(value, Number):
                return Number(-value.value, value.is_double)
            if type(node) is exp.Cast:
                return _cast_value(node, value, self.type_of(node))
        raise refused_error(node, "is not a value of a kind that filters have")

    def type_of(self, node: exp.Expression) -> pa.DataType:
        """Return the type of a cast."""
        given = node.args.get("to")
        if not isinstance(given, exp.DataType):
            raise refused_error(node, "casts to a type that is not read", _OTHER_TYPE)
        known = [name for name, value in given.args.items() if value]
        name = str(getattr(given.this, "value", given.this)).upper()
        sizes = [_size(one) for one in given.args.get("expressions") or ()]
        is_plain = set(known) <= set(PARTS[exp.DataType]) and None not in sizes
        if is_plain and name == "DECIMAL" and len(sizes) in (1, 2):
            precision, scale = (*sizes, 0)[:2]
            if precision and scale is not None and 0 < precision <= 38 and scale <= precision:
                return pa.decimal128(precision, scale)
        if not is_plain or name not in _TYPES or (sizes and name not in ("TEXT", "VARCHAR")):
            problem = f"casts to {shown_node(given)}, a type that is not read"
            raise refused_error(node, problem, _OTHER_TYPE)
        if sizes:
            raise refused_error(node, "cuts texts", "leave out the length")
        return _TYPES[name]


def _size(node: Any) -> int | None:
    """Return a size in a type, such as the 9 in decimal(9, 2), or None."""
    node = node.this if isinstance(node, exp.DataTypeParam) else node
    if not isinstance(node, exp.Literal) or node.args.get("is_string"):
        return None
    digits = str(node.this)
    is_number = digits.isascii() and digits.isdecimal() and len(digits) <= _MOST_DIGITS
    return int(digits) if is_number else None


def _cast_value(node: exp.Expression, value: Value, kind: pa.DataType) -> Value:
    """Return the value of a cast literal, such as `date '2026-03-07'`."""
    types = pa.types
    if isinstance(value, Null) or (isinstance(value, Text) and is_text(kind)):
        return value
    if isinstance(value, Flag) and types.is_boolean(kind):
        return value
    if isinstance(value, Text) and types.is_temporal(kind):
        word = "date" if types.is_date(kind) else "time" if types.is_time(kind) else "timestamp"
        found = moment_of(value.value, word)
        if word != "timestamp":
            return found
        if found.has_zone and kind.tz is None:
            raise refused_error(node, "has a zone", "write TIMESTAMPTZ")
        return Moment(word, found.seconds, kind.tz is not None)
    if isinstance(value, Text) and (types.is_integer(kind) or types.is_decimal(kind)):
        value = Number(number_of(value.value).value)
    elif isinstance(value, Text) and types.is_floating(kind):
        value = number_of(value.value)
    if isinstance(value, Number):
        if types.is_float64(kind):
            return Number(value.value, is_double=True)
        scale = kind.scale if types.is_decimal(kind) else 0
        is_whole = (value.value * 10**scale).denominator == 1
        if (types.is_integer(kind) or types.is_decimal(kind)) and is_whole:
            return Number(value.value)
    raise refused_error(node, "is not read", "write the value as it is")


def is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def _compare_as_they_are(one: pa.DataType, other: pa.DataType) -> bool:
    """Return whether Arrow compares columns of two types as SQL does."""
    types = pa.types
    if one == other:
        return not types.is_nested(one)
    if is_text(one) and is_text(other):
        return True
    exact = [types.is_signed_integer(kind) or types.is_decimal(kind) for kind in (one, other)]
    numbers = [types.is_signed_integer(kind) or types.is_floating(kind) for kind in (one, other)]
    times = types.is_timestamp(one) and types.is_timestamp(other)
    return all(exact) or all(numbers) or (times and (one.tz is None) == (other.tz is None))


def _casts_safely(kind: pa.DataType, to: pa.DataType) -> bool:
    """Return whether a cast has the result of SQL for every value, without errors."""
    types = pa.types
    if types.is_signed_integer(kind):
        if types.is_signed_integer(to):
            return bool(kind.bit_width <= to.bit_width)
        if types.is_decimal(to):
            return bool(to.precision - to.scale >= len(str(2 ** (kind.bit_width - 1))))
        return bool(types.is_float64(to))
    if types.is_float32(kind):
        return bool(types.is_float64(to))
    if types.is_decimal(kind) and types.is_decimal(to):
        return bool(
            to.scale >= kind.scale and to.precision - to.scale >= kind.precision - kind.scale
        )
    if types.is_timestamp(kind):
        return bool(types.is_date32(to)) and kind.tz in (None, "UTC")
    return bool(types.is_date32(kind) and types.is_timestamp(to) and to.unit == "us"
                and to.tz is None)  # fmt: skip


def _pattern(text: str, escape: str | None) -> list[str | None]:
    """Return the parts of a pattern.

    A part is a character as it is, `None` for any text, or "" for any one character.

    Raises:
        ValueError: If the pattern ends with the escape character.
    """
    parts: list[str | None] = []
    letters = iter(text)
    for one in letters:
        if one == escape:
            escaped = next(letters, None)
            if escaped is None:
                raise ValueError(f"the pattern ends with {escape!r}, which escapes what follows")
            parts.append(escaped)
        else:
            parts.append({"%": None, "_": ""}.get(one, one))
    return parts


def _matches(field: pc.Expression, parts: Sequence[str | None]) -> pc.Expression:
    """Return whether a text matches a pattern, and null where the text is null."""
    plain = [one for one in parts if one]
    prefix = "".join(plain[: next((at for at, one in enumerate(parts) if not one), len(parts))])
    if len(plain) == len(parts):
        return field == pc.scalar(prefix)
    if len(prefix) == len(plain) and parts[-1] is None and not any(one == "" for one in parts):
        return pc.starts_with(field, prefix)
    regex = "".join(".*" if one is None else _quoted(one) if one else "." for one in parts)
    found = pc.match_substring_regex(field, rf"(?s)\A{regex}\z")
    # Bounds can be compared with prefixes.
    return pc.starts_with(field, prefix) & found if prefix else found


def _quoted(letter: str) -> str:
    """Return the regular expression in RE2 that matches one character only."""
    if letter == "\0":
        return r"\x00"
    return re.sub(r"([^0-9A-Za-z_\x80-\U0010ffff])", r"\\\1", letter)
