"""One Python value as the bytes of a key field: what `encode_one` and bounds are made of.

A batch goes through C (``csrc/ls_keys.h``), which gives the same bytes. A single value is faster
here, and only here can a bound lie between the values of a type.
"""

from __future__ import annotations

import datetime
import decimal
import functools
import math
import struct
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa

from lookupstore.arrow.types import family_of, limits, plain_type, value_width

_EPOCH = datetime.datetime(1970, 1, 1)
_EPOCH_UTC = datetime.datetime(1970, 1, 1, tzinfo=datetime.timezone.utc)
_EPOCH_DAY = datetime.date(1970, 1, 1).toordinal()
_TICKS = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
_DAY = 86_400

_WANTED = {
    "bool": "a bool",
    "integer": "an int",
    "float": "a float",
    "decimal": "a decimal.Decimal",
    "date": "a datetime.date",
    "time": "a datetime.time without a time zone",
    "duration": "a datetime.timedelta",
    "timestamp": "a datetime.datetime without a time zone",
    "timestamp with a time zone": "a datetime.datetime with a time zone",
    "string": "a str",
    "binary": "bytes",
}


@dataclass(frozen=True)
class ValueCodec:
    """How one Python value becomes the bytes of a key field (without marker and escapes).

    Attributes:
        one: the bytes of a value, or None if the type holds no equal one.
        ceiling: the bytes of the least value of the type that is not less, or None if there is
            none; and whether it is equal.
        beginning: of text and bytes, the bytes that every value begins with that begins with this
            one, or None if there is none; None itself for a type whose values do not begin so.
    """

    one: Callable[[object], bytes | None]
    ceiling: Callable[[object], tuple[bytes | None, bool]]
    beginning: Callable[[object], bytes | None] | None


def value_codec(field: pa.Field) -> ValueCodec:
    """Return the codec of a field.

    Args:
        field: its type, unwrapped, is of one of the families that have an order.

    >>> value_codec(pa.field("id", pa.uint8())).ceiling(2.5)
    (b'\\x03', False)
    """
    plain = plain_type(field.type)
    family = family_of(plain)
    width = value_width(plain)
    if width is None:
        return _bytes_codec(field, family)
    if family == "binary":
        return _fixed_codec(field, width)
    if family == "float":
        return _float_codec(field, width)
    unsigned = family == "bool" or pa.types.is_unsigned_integer(plain)
    return _integer_codec(field, plain, family, width, unsigned)


def successor(prefix: bytes) -> bytes | None:
    """Return the least bytes behind all that start with `prefix`; None if there are none.

    >>> successor(b"ab"), successor(b"a\\xff"), successor(b"\\xff")
    (b'ac', b'b', None)
    """
    kept = prefix.rstrip(b"\xff")
    return kept[:-1] + bytes([kept[-1] + 1]) if kept else None


def _wrong_kind_error(field: pa.Field, value: object) -> TypeError:
    wanted = _WANTED[family_of(plain_type(field.type))]
    if "uuid" in str(field.type):
        wanted = "a uuid.UUID or its 16 bytes"
    return TypeError(
        f"the key field {field.name!r} is {field.type}; found {type(value).__name__} {value!r}, "
        f"give {wanted}"
    )


def _scalar(field: pa.Field, value: object) -> pa.Scalar:
    """Return an Arrow scalar of a value from NumPy, pandas or Arrow."""
    try:
        if isinstance(value, np.generic):
            return pa.array(np.asarray([value]))[0]
        if getattr(value, "tzinfo", None) is not None:
            raise ValueError("Arrow would drop the time zone")  # of a datetime.time
        scalar = value if isinstance(value, pa.Scalar) else pa.scalar(value)
        while isinstance(scalar, (pa.ExtensionScalar, pa.DictionaryScalar)):
            scalar = scalar.value
        return scalar
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        raise _wrong_kind_error(field, value) from error


def _native(field: pa.Field, value: object, *kinds: type) -> Any:
    """Return a value from NumPy or Arrow as a Python value of one of these kinds."""
    if not isinstance(value, kinds) or (isinstance(value, bool) and bool not in kinds):
        converted = _scalar(field, value).as_py()
        if not isinstance(converted, kinds) or (isinstance(converted, bool) and bool not in kinds):
            raise _wrong_kind_error(field, value)
        return converted
    return value


def _bytes_codec(field: pa.Field, family: str) -> ValueCodec:
    def one(value: object) -> bytes | None:
        if family == "string":
            try:
                return _native(field, value, str).encode()  # type: ignore[no-any-return]
            except UnicodeEncodeError:
                return None  # Arrow holds no lone surrogates
        return bytes(_native(field, value, bytes, bytearray, memoryview))

    def ceiling(value: object) -> tuple[bytes | None, bool]:
        found = one(value)
        if found is None:
            raise ValueError(f"the bound {value!r} of the key field {field.name!r} is not UTF-8")
        return found, True

    return ValueCodec(one, ceiling, one)


def _fixed_codec(field: pa.Field, width: int) -> ValueCodec:
    def raw(value: object) -> bytes:
        return bytes(_native(field, value, bytes, bytearray, memoryview))

    def one(value: object) -> bytes | None:
        found = raw(value)
        return found if len(found) == width else None

    def beginning(value: object) -> bytes | None:
        found = raw(value)
        return found if len(found) <= width else None

    def ceiling(value: object) -> tuple[bytes | None, bool]:
        found = raw(value)
        if len(found) <= width:
            return found.ljust(width, b"\x00"), len(found) == width
        after = successor(found[:width])
        return (None, False) if after is None else (after.ljust(width, b"\x00"), False)

    return ValueCodec(one, ceiling, beginning)


def _float_codec(field: pa.Field, width: int) -> ValueCodec:
    pack = struct.Struct({2: ">e", 4: ">f", 8: ">d"}[width])
    sign = 1 << (8 * width - 1)
    mask = 2 * sign - 1

    def ordered(number: float) -> int:
        if number != number:
            number = math.nan  # of the many, the one that C writes, too
        elif number == 0:
            number = 0.0
        bits = int.from_bytes(pack.pack(number), "big")
        return bits ^ mask if bits & sign and number == number else bits | sign

    def nearest(value: object) -> tuple[int, int]:
        """Return the ordered bits of a float nearby, and -1, 0, 1 as it is less, equal, more."""
        number = _native(field, value, float, int)
        if isinstance(number, float):
            number = float(number)  # not NumPy's, whose comparisons are not Python's
        try:
            close = float(number)
            bits = ordered(close)
        except OverflowError:
            return (ordered(math.inf), 1) if number > 0 else (ordered(-math.inf), -1)
        if close != close:
            return bits, 0
        stored = pack.unpack((bits ^ sign if bits & sign else bits ^ mask).to_bytes(width, "big"))
        return bits, (stored[0] > number) - (stored[0] < number)

    def one(value: object) -> bytes | None:
        bits, side = nearest(value)
        return bits.to_bytes(width, "big") if side == 0 else None

    def ceiling(value: object) -> tuple[bytes | None, bool]:
        bits, side = nearest(value)
        return (bits + (side < 0)).to_bytes(width, "big"), side == 0

    return ValueCodec(one, ceiling, None)


def _integer_codec(
    field: pa.Field, plain: pa.DataType, family: str, width: int, unsigned: bool
) -> ValueCodec:
    """Encode what Arrow holds as an integer: `units` gives the number of its units, any rational
    or infinity."""
    low = 0 if unsigned else -(2 ** (8 * width - 1))
    least, most = (low, (1 if family == "bool" else 2 ** (8 * width) - 1 + low))
    if family == "decimal":
        least, most = limits(plain)
    units: Callable[[object], int | float | Fraction]
    if family in ("bool", "integer"):
        units = functools.partial(_number, field, family)
    elif family == "decimal":
        units = functools.partial(_decimal_units, field, plain.scale)
    else:
        units = functools.partial(_time_units, field, plain, family)
    plainly_int = family == "integer"

    def one(value: object) -> bytes | None:
        number = value if plainly_int and type(value) is int else units(value)
        if type(number) is int and least <= number <= most:
            return (number - low).to_bytes(width, "big")
        return None

    def ceiling(value: object) -> tuple[bytes | None, bool]:
        number = units(value)
        if not number <= most:  # NaN sorts last, too
            return None, False
        if number < least:
            return (least - low).to_bytes(width, "big"), False
        whole = math.ceil(number)
        return (whole - low).to_bytes(width, "big"), whole == number

    return ValueCodec(one, ceiling, None)


def _number(field: pa.Field, family: str, value: object) -> int | float | Fraction:
    if family == "bool":
        return int(_native(field, value, bool))
    number = _native(field, value, int, float, decimal.Decimal)
    return number if isinstance(number, int) else _rational(number)


def _rational(number: float | decimal.Decimal) -> int | float | Fraction:
    """Return the number exactly: an int where it is whole, a float where it is not finite."""
    if not math.isfinite(number):
        return float(number)
    if isinstance(number, decimal.Decimal) and abs(number.adjusted()) > 1000:
        # Far outside every type, or nearer to zero than any digit of one: keep Fraction small.
        if number == 0:
            return 0
        if number.adjusted() > 0:
            return math.copysign(math.inf, number)
        return Fraction(1 if number > 0 else -1, 10**999)
    exact = Fraction(number)
    return exact.numerator if exact.denominator == 1 else exact


def _decimal_units(field: pa.Field, scale: int, value: object) -> int | float | Fraction:
    number = _native(field, value, decimal.Decimal, int)
    exact = number if isinstance(number, int) else _rational(number)
    if isinstance(exact, float):
        return exact
    return _whole(Fraction(exact) * Fraction(10) ** scale)


def _whole(number: Fraction) -> int | Fraction:
    return number.numerator if number.denominator == 1 else number


def _time_units(
    field: pa.Field, plain: pa.DataType, family: str, value: object
) -> int | float | Fraction:
    """Return the ticks of a date, time, timestamp or duration in the unit of the field."""
    if family == "date":
        per_day = 1 if pa.types.is_date32(plain) else _DAY * 1000
        if isinstance(value, datetime.date) and not isinstance(value, datetime.datetime):
            return (value.toordinal() - _EPOCH_DAY) * per_day
        if value != value:  # the NaT of NumPy and pandas
            return math.nan
        if (nanoseconds := _nanoseconds("timestamp", value)) is not None:
            # A day and a part of it: midnight is the day itself.
            return _whole(Fraction(nanoseconds * per_day, _DAY * 10**9))
        scalar = _scalar(field, value)
        if not scalar.is_valid:
            return math.nan
        if family_of(scalar.type) == "timestamp":
            ticks = _TICKS[scalar.type.unit] * _DAY
            return _whole(Fraction(scalar.value * per_day, ticks))
        scalar = _same_family(field, family, value)
        given_per_day = 1 if pa.types.is_date32(scalar.type) else _DAY * 1000
        return _whole(Fraction(scalar.value * per_day, given_per_day))
    if value != value:  # the NaT of NumPy and pandas
        return math.nan
    ticks = _TICKS[plain.unit]
    nanoseconds = _nanoseconds(family, value)
    if nanoseconds is not None:
        whole, rest = divmod(nanoseconds * ticks, 10**9)
        return whole if rest == 0 else Fraction(nanoseconds * ticks, 10**9)
    scalar = _same_family(field, family, value)
    if not scalar.is_valid:
        return math.nan
    return _whole(Fraction(scalar.value * ticks, _TICKS[scalar.type.unit]))


def _same_family(field: pa.Field, family: str, value: object) -> pa.Scalar:
    scalar = _scalar(field, value)
    if scalar.is_valid and family_of(scalar.type) != family:
        raise _wrong_kind_error(field, value)
    return scalar


def _nanoseconds(family: str, value: object) -> int | None:
    """Return the nanoseconds that a Python (or pandas) value of the family stands for."""
    if family == "time":
        if not isinstance(value, datetime.time) or value.tzinfo is not None:
            return None
        seconds = (value.hour * 60 + value.minute) * 60 + value.second
        return seconds * 10**9 + value.microsecond * 1000
    if family == "duration":
        span = value
    elif not isinstance(value, datetime.datetime):
        return None
    elif family == "timestamp":
        span = value - _EPOCH if value.tzinfo is None else None
    else:
        span = value - _EPOCH_UTC if value.tzinfo is not None else None
    if not isinstance(span, datetime.timedelta):
        return None
    micros = (span.days * _DAY + span.seconds) * 10**6 + span.microseconds
    return micros * 1000 + int(getattr(span, "nanoseconds", 0))  # pandas.Timedelta has those
