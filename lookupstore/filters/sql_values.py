"""Compare columns with the values of a filter in SQL, in the type of the column.

A value is converted to the type of the column. If the type does not have the value, the next
smaller or greater one is used, whichever matches the same rows: for an integer column, `km > 1.5`
is `km > 1`. Therefore nothing is rounded, and bounds of columns can answer the comparison. Floats
are the exception, because SQL compares them approximately.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from fractions import Fraction
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

_DAY = 86_400
_UNITS = {"s": Fraction(1), "ms": Fraction(1, 10**3), "us": Fraction(1, 10**6),
          "ns": Fraction(1, 10**9)}  # fmt: skip
# Maximum number of digits and maximum exponent of a number: no type has as many.
_MOST_DIGITS, _MOST_EXPONENT = 400, 400
_NUMBER = re.compile(r"\s*[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE](?P<exponent>[+-]?\d{1,9}))?\s*", re.ASCII)
_DATE = r"(?P<year>\d{4})-(?P<month>\d{1,2})-(?P<day>\d{1,2})"
_TIME = r"(?P<hour>\d{1,2}):(?P<minute>\d{2})(?::(?P<second>\d{2})(?:\.(?P<fraction>\d{1,18}))?)?"
_ZONE = r"(?:\s*(?P<utc>Z|UTC)|\s*(?P<sign>[+-])(?P<hours>\d{2})(?::?(?P<minutes>\d{2}))?)"
_DATES = re.compile(rf"\s*{_DATE}\s*", re.ASCII)
_TIMES = re.compile(rf"\s*{_TIME}\s*", re.ASCII)
_TIMESTAMPS = re.compile(rf"\s*{_DATE}(?:[ T]\s*{_TIME}{_ZONE}?)?\s*", re.ASCII)


@dataclass(frozen=True)
class Number:
    """A number.

    Attributes:
        value: Exact value of the number.
        is_double: Whether the number is a double in SQL, and not a decimal.
    """

    value: Fraction
    is_double: bool = False


@dataclass(frozen=True)
class Text:
    """A text; dates, timestamps and times can be written as texts, too."""

    value: str


@dataclass(frozen=True)
class Flag:
    """True or false."""

    value: bool


@dataclass(frozen=True)
class Moment:
    """A date, a timestamp, or a time of day.

    Attributes:
        kind: Kind of the moment: `date`, `timestamp` or `time`.
        seconds: Seconds since 1970-01-01, or for a time since midnight; in UTC with a zone.
        has_zone: Whether the moment has a time zone.
    """

    kind: str
    seconds: Fraction
    has_zone: bool = False


@dataclass(frozen=True)
class Null:
    """The value null."""


Value: TypeAlias = Number | Text | Flag | Moment | Null


@dataclass(frozen=True)
class _Steps:
    """A type whose values are whole numbers of a unit.

    Attributes:
        unit: Value of one unit: a number, or for dates and times a number of seconds.
        least: Least value of the type, in units.
        greatest: Greatest value of the type, in units.
        array: Function that converts numbers of units to an array of the type.
    """

    unit: Fraction
    least: int
    greatest: int
    array: Callable[[Sequence[int]], pa.Array]

    def scalar(self, number: int) -> pa.Scalar:
        return self.array([number])[0]


def compared(field: pc.Expression, kind: pa.DataType, word: str, value: Value) -> pc.Expression:
    """Return a comparison of a field with a value, which is null where the field is.

    Args:
        field: Field to compare.
        kind: Arrow type of the field.
        word: Operator: `=`, `!=`, `<`, `<=`, `>` or `>=`.
        value: Value to compare with; a comparison with null is null.

    Raises:
        ValueError: If SQL does not compare the type with the value, or a text cannot be converted
            to the type.
    """
    if isinstance(value, Null):
        return pc.scalar(pa.scalar(None, pa.bool_()))
    steps = _steps(kind)
    if steps is None:
        return OPERATORS[word](field, pc.scalar(_plain(kind, value)))
    return _in_steps(field, steps, word, _measure(kind, value) / steps.unit)


def is_one_of(field: pc.Expression, kind: pa.DataType, values: Sequence[Value]) -> pc.Expression:
    """Return whether a field has one of some values, and false where it is null.

    Args:
        field: Field to compare.
        kind: Arrow type of the field.
        values: Values to look for, without null.

    Raises:
        ValueError: If SQL does not compare the type with a value, or a text cannot be converted to
            the type.
    """
    if pa.types.is_nested(kind):
        raise ValueError(f"nothing is in a list for {kind}; {_ONLY_NULL}")
    steps = _steps(kind)
    if steps is not None:
        numbers = [_measure(kind, one) / steps.unit for one in values]
        whole = [
            int(one)
            for one in numbers
            if one.denominator == 1 and steps.least <= one <= steps.greatest
        ]
        return field.isin(steps.array(whole))
    plain = [_plain(kind, one) for one in values]
    if pa.types.is_floating(kind):
        # A list distinguishes 0.0 and -0.0, SQL does not; and a double may not be equal to any
        # float.
        numbers_of = [one.as_py() for one in plain]
        if pa.types.is_float32(kind):
            numbers_of = [one for one in numbers_of if float(np.float32(one)) == one]
        numbers_of += [-0.0, 0.0] * any(one == 0 for one in numbers_of)
        return field.isin(pa.array(numbers_of, kind))
    return field.isin(pa.array([one.as_py() for one in plain], kind))


def scalar_of(kind: pa.DataType, value: Value) -> pa.Scalar:
    """Return a value as a scalar of a type.

    Raises:
        ValueError: If the type does not have the value.
    """
    if isinstance(value, Null):
        return pa.scalar(None, kind)
    steps = _steps(kind)
    if steps is None:
        return _plain(kind, value)
    number = _measure(kind, value) / steps.unit
    if number.denominator != 1 or not steps.least <= number <= steps.greatest:
        raise ValueError(f"{kind} does not have this value")
    return steps.scalar(int(number))


def number_of(text: str) -> Number:
    """Parse a number.

    Raises:
        ValueError: If the text is not a number, or has too many digits.
    """
    found = _NUMBER.fullmatch(text)
    if found is None:
        is_nan = text.strip().lower() == "nan"
        remedy = "call isnan(column) to find NaN" if is_nan else "write one, such as 1.5"
        raise ValueError(f"{_short(text)} is no number; {remedy}")
    exponent = found["exponent"]
    if len(text) > _MOST_DIGITS or (exponent and abs(int(exponent)) > _MOST_EXPONENT):
        raise ValueError(f"{_short(text)} is a number that no type has")
    return Number(Fraction(text.strip()), exponent is not None)


def moment_of(text: str, kind: str) -> Moment:
    """Parse a date, a timestamp or a time.

    Args:
        text: Text to parse, such as `2026-03-07 12:30:00.5+01:00`.
        kind: Kind of the moment: `date`, `timestamp` or `time`.

    Raises:
        ValueError: If the text is not a moment of this kind.
    """
    pattern = {"date": _DATES, "timestamp": _TIMESTAMPS, "time": _TIMES}[kind]
    found = pattern.fullmatch(text)
    try:
        if found is None:
            raise ValueError
        parts = found.groupdict()
        seconds = Fraction(0)
        if kind != "time":
            day = date(int(parts["year"]), int(parts["month"]), int(parts["day"]))
            seconds += (day.toordinal() - date(1970, 1, 1).toordinal()) * _DAY
        seconds += _of_day(parts)
    except ValueError:
        raise ValueError(f"{_short(text)} is no {kind}; write it as {_EXAMPLES[kind]}") from None
    return Moment(kind, seconds, _has_zone(parts))


_TEXTS = {
    "date": "'2026-03-07'",
    "timestamp": "'2026-03-07 12:30:00.5'",
    "time": "'12:30:00.5'",
}
_ZONED = "with 'Z' or '+01:00' behind it if it has a zone"
_EXAMPLES = _TEXTS | {"timestamp": f"{_TEXTS['timestamp']}, {_ZONED}"}
_ONLY_NULL = "only `is null` is read of such columns"
#: Comparisons by operators of SQL.
OPERATORS: Mapping[str, Callable[[pc.Expression, Any], pc.Expression]] = {
    "=": lambda field, value: field == value,
    "!=": lambda field, value: field != value,
    "<": lambda field, value: field < value,
    "<=": lambda field, value: field <= value,
    ">": lambda field, value: field > value,
    ">=": lambda field, value: field >= value,
}


def _has_zone(parts: Mapping[str, str | None]) -> bool:
    return bool(parts.get("utc") or parts.get("sign"))


def _of_day(parts: Mapping[str, str | None]) -> Fraction:
    """Return the seconds since midnight, in UTC if there is a zone."""
    hour, minute, second = (int(parts.get(one) or 0) for one in ("hour", "minute", "second"))
    hours, minutes = (int(parts.get(one) or 0) for one in ("hours", "minutes"))
    if hour > 23 or minute > 59 or second > 59 or hours > 23 or minutes > 59:
        raise ValueError
    digits = parts.get("fraction") or "0"
    found = hour * 3600 + minute * 60 + second + Fraction(int(digits), 10 ** len(digits))
    away = (hours * 3600 + minutes * 60) * (-1 if parts.get("sign") == "-" else 1)
    return found - away


def _steps(kind: pa.DataType) -> _Steps | None:
    """Return the unit and range of a type whose values are whole numbers, or None."""
    types = pa.types
    if types.is_integer(kind):
        bits, is_signed = kind.bit_width, types.is_signed_integer(kind)
        least = -(2 ** (bits - 1)) if is_signed else 0
        greatest = 2 ** (bits - 1 if is_signed else bits) - 1
        return _Steps(Fraction(1), least, greatest, lambda them: pa.array(them, kind))
    if types.is_decimal(kind):
        most = 10**kind.precision - 1

        def decimals(them: Sequence[int]) -> pa.Array:
            return pa.array([_decimal(one, kind.scale) for one in them], kind)

        return _Steps(Fraction(10) ** -kind.scale, -most, most, decimals)
    if types.is_date32(kind):
        return _Steps(Fraction(_DAY), -(2**31), 2**31 - 1, _casting(pa.int32(), kind))
    if types.is_timestamp(kind):
        return _Steps(_UNITS[kind.unit], -(2**63), 2**63 - 1, _casting(pa.int64(), kind))
    if types.is_time(kind):
        of = pa.int32() if types.is_time32(kind) else pa.int64()
        unit = _UNITS[kind.unit]
        return _Steps(unit, 0, int(_DAY / unit) - 1, _casting(of, kind))
    return None


def _casting(of: pa.DataType, kind: pa.DataType) -> Callable[[Sequence[int]], pa.Array]:
    return lambda them: pa.array(them, of).cast(kind)


def _decimal(number: int, scale: int) -> Decimal:
    digits = tuple(map(int, str(abs(number))))
    return Decimal((int(number < 0), digits, -scale))


def _in_steps(field: pc.Expression, steps: _Steps, word: str, number: Fraction) -> pc.Expression:
    least, greatest = steps.least, steps.greatest
    if word in ("=", "!="):
        if number.denominator == 1 and least <= number <= greatest:
            return OPERATORS[word](field, pc.scalar(steps.scalar(int(number))))
        holds: bool | None = word == "!="
    else:
        # For integers, `< 1.5` is equivalent to `< 2`, and `<= 1.5` to `<= 1`.
        near = math.ceil(number) if word in ("<", ">=") else math.floor(number)
        if least <= near <= greatest:
            return OPERATORS[word](field, pc.scalar(steps.scalar(near)))
        holds = (near > greatest) == (word in ("<", "<="))
    # The same result for all values, and null for null.
    nothing = pc.scalar(pa.scalar(None, pa.bool_()))
    return field.is_valid() | nothing if holds else field.is_null() & nothing


def _measure(kind: pa.DataType, value: Value) -> Fraction:
    """Return a value as a number or in seconds, for a type that has steps."""
    types = pa.types
    if types.is_integer(kind) or types.is_decimal(kind):
        if isinstance(value, Number):
            return value.value
        if isinstance(value, Text):
            number = number_of(value.value).value
            unit = Fraction(10) ** -kind.scale if types.is_decimal(kind) else Fraction(1)
            if (number / unit).denominator == 1:
                return number
        raise _mismatch_error(kind, value, "write the number without quotes")
    wanted = "date" if types.is_date32(kind) else "time" if types.is_time(kind) else "timestamp"
    if isinstance(value, Text):
        value = moment_of(value.value, wanted)
    is_fit = isinstance(value, Moment) and (value.kind == "time") == (wanted == "time")
    if not is_fit or not isinstance(value, Moment):
        raise _mismatch_error(kind, value, f"write {wanted.upper()} {_EXAMPLES[wanted]}")
    if value.has_zone and not (types.is_timestamp(kind) and kind.tz is not None):
        raise _mismatch_error(kind, value, "leave out the zone")
    return value.seconds


def _plain(kind: pa.DataType, value: Value) -> pa.Scalar:
    """Return a value as a scalar, for a type that has no steps."""
    types = pa.types
    if types.is_floating(kind):
        if isinstance(value, Text):
            value = number_of(value.value)
        if isinstance(value, Number):
            return _float(kind, value)
        raise _mismatch_error(kind, value, "write a number")
    if types.is_string(kind) or types.is_large_string(kind):
        if isinstance(value, Text):
            return pa.scalar(value.value, kind)
        remedy = "put it in single quotes"
        if isinstance(value, Moment):
            remedy = f"give only the text of the {value.kind}, such as {_TEXTS[value.kind]}"
        raise _mismatch_error(kind, value, remedy)
    if types.is_binary(kind) or types.is_large_binary(kind):
        if isinstance(value, Text) and value.value.isascii() and "\\" not in value.value:
            return pa.scalar(value.value.encode(), kind)
        raise _mismatch_error(kind, value, "give an expression of pyarrow.compute")
    if types.is_boolean(kind):
        if isinstance(value, Flag):
            return pa.scalar(value.value)
        raise _mismatch_error(kind, value, "write true or false")
    remedy = _ONLY_NULL
    if types.is_struct(kind) and kind.num_fields:
        remedy += f"; compare one of its fields, such as COLUMN.{kind.field(0).name}"
    raise _mismatch_error(kind, value, remedy)


def _float(kind: pa.DataType, value: Number) -> pa.Scalar:
    try:
        number = float(value.value)
    except OverflowError:
        raise ValueError("a number is beyond what a double can be; leave it out") from None
    if not value.is_double:
        with np.errstate(over="ignore"):
            near = float(np.float32(number))
        if pa.types.is_float32(kind) and math.isfinite(near):
            return pa.scalar(near, kind)
    return pa.scalar(number, pa.float64())


def _mismatch_error(kind: pa.DataType, value: Value, remedy: str) -> ValueError:
    noun = value.kind if isinstance(value, Moment) else type(value).__name__.lower()
    return ValueError(f"a {noun} does not compare with {kind}; {remedy}")


def _short(text: str) -> str:
    return repr(text if len(text) <= 40 else f"{text[:40]}...")
