"""Key fields of numbers: bools, integers, floats and decimals."""

from __future__ import annotations

import decimal
import math
import struct
from abc import abstractmethod
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lookupstore.arrow.types import limits, validity
from lookupstore.errors import FormatError
from lookupstore.keys.fields import Holds, KeyField


class WholeField(KeyField):
    """A key field that Arrow holds as integers: whole numbers of some unit."""

    kind = "signed"

    def __init__(self, field: pa.Field, nullable: bool) -> None:
        super().__init__(field, nullable)
        self._low = 0 if self.kind == "unsigned" else -(2 ** (8 * self.width - 1))
        self._least, self._most = limits(self.plain)

    @abstractmethod
    def units(self, value: Any) -> int | float | Fraction:
        """Return the number of units that a value is: any rational, infinity or NaN.

        Raises:
            TypeError: If the value is of another kind.
        """

    def one(self, value: Any) -> bytes | None:
        """Return the bytes of a value."""
        number = self.units(value)
        if type(number) is int and self._least <= number <= self._most:
            return (number - self._low).to_bytes(self.width, "big")
        return None

    def ceiling(self, value: Any) -> tuple[bytes | None, bool]:
        """Return the bytes of the least value that is not less, and whether it is equal."""
        number = self.units(value)
        if not number <= self._most:  # NaN sorts last, too
            return None, False
        if number < self._least:
            return (self._least - self._low).to_bytes(self.width, "big"), False
        whole = math.ceil(number)
        return (whole - self._low).to_bytes(self.width, "big"), whole == number


class BoolField(WholeField):
    """A key field of bools, one byte each."""

    plural = "bool"
    wanted = "a bool"
    kind = "unsigned"
    holds: Holds = staticmethod(pa.types.is_boolean)
    in_place = False  # Arrow stores eight in a byte
    form = "true or false"

    def __init__(self, field: pa.Field, nullable: bool) -> None:
        super().__init__(field, nullable)
        self._least, self._most = 0, 1

    def units(self, value: Any) -> int:
        """Return 0 or 1."""
        return int(self.native(value, bool))

    def to_cells(self, array: pa.Array) -> pa.Array:
        """Return bools as the bytes that C reads."""
        return super().to_cells(array.cast(pa.uint8()))

    def _typed(self, cells: pa.Array) -> pa.Array:
        values = pa.Array.from_buffers(pa.uint8(), len(cells), cells.buffers(), cells.null_count)
        wrong = pc.fill_null(pc.greater(values, 1), False)
        first = pc.index(wrong, True).as_py()
        if first >= 0:
            raise FormatError(
                f"key {first}: its bytes do not fit the key field {self.name!r}: a bool is 0 or 1"
            )
        return values.cast(pa.bool_())


class IntegerField(WholeField):
    """A key field of signed integers."""

    plural = "integers"
    wanted = "an int"
    holds: Holds = staticmethod(pa.types.is_signed_integer)

    def one(self, value: Any) -> bytes | None:
        """Return the bytes of a value."""
        number = value if type(value) is int else self.units(value)
        if type(number) is int and self._least <= number <= self._most:
            return (number - self._low).to_bytes(self.width, "big")
        return None

    def units(self, value: Any) -> int | float | Fraction:
        """Return the number."""
        number = self.native(value, int, float, decimal.Decimal)
        return number if isinstance(number, int) else _rational(number)

    def accepts(self, kind: pa.DataType) -> bool:
        """Return whether a type is of numbers."""
        return _is_number(kind)

    def fit(self, array: pa.Array) -> tuple[pa.Array, pa.Array | None]:
        """Cast numbers to the type of the field."""
        if pa.types.is_decimal(array.type):
            kept, fits = _fit_digits(array, 0, limits(self.plain))
            return kept.cast(self.plain), fits
        if pa.types.is_floating(array.type):
            return self.cast_where(array, _is_whole_within(array, self.plain))
        return self.cast_where(array, _is_within(array, self.plain))

    @property
    def form(self) -> str:
        """Return a description of the text form of a value."""
        return f"a whole number from {self._least} to {self._most}"


class UnsignedField(IntegerField):
    """A key field of unsigned integers."""

    kind = "unsigned"
    holds: Holds = staticmethod(pa.types.is_unsigned_integer)


class FloatField(KeyField):
    """A key field of floats.

    -0.0 equals 0.0, and all NaNs are equal and sort last.
    """

    plural = "floats"
    wanted = "a float"
    kind = "float"
    holds: Holds = staticmethod(pa.types.is_floating)
    form = "a number"

    def __init__(self, field: pa.Field, nullable: bool) -> None:
        super().__init__(field, nullable)
        self._pack = struct.Struct({2: ">e", 4: ">f", 8: ">d"}[self.width])
        self._sign = 1 << (8 * self.width - 1)
        self._mask = 2 * self._sign - 1

    def one(self, value: Any) -> bytes | None:
        """Return the bytes of a value."""
        bits, side = self._nearest(value)
        return bits.to_bytes(self.width, "big") if side == 0 else None

    def ceiling(self, value: Any) -> tuple[bytes | None, bool]:
        """Return the bytes of the least value that is not less, and whether it is equal."""
        bits, side = self._nearest(value)
        return (bits + (side < 0)).to_bytes(self.width, "big"), side == 0

    def _nearest(self, value: Any) -> tuple[int, int]:
        """Return the ordered bits of a close float, and -1, 0 or 1: less, equal or more."""
        number = self.native(value, float, int)
        if isinstance(number, float):
            number = float(number)  # not a NumPy float, whose comparisons differ from Python's
        try:
            close = float(number)
            bits = self._ordered(close)
        except OverflowError:
            return (self._ordered(math.inf), 1) if number > 0 else (self._ordered(-math.inf), -1)
        if close != close:
            return bits, 0
        plain = bits ^ (self._sign if bits & self._sign else self._mask)
        (stored,) = self._pack.unpack(plain.to_bytes(self.width, "big"))
        return bits, (stored > number) - (stored < number)

    def _ordered(self, number: float) -> int:
        if number != number:
            number = math.nan  # the one of many NaNs that C code also writes
        elif number == 0:
            number = 0.0
        bits = int.from_bytes(self._pack.pack(number), "big")
        return bits ^ self._mask if bits & self._sign and number == number else bits | self._sign

    def accepts(self, kind: pa.DataType) -> bool:
        """Return whether a type is of floats or integers."""
        return bool(pa.types.is_floating(kind) or pa.types.is_integer(kind))

    def fit(self, array: pa.Array) -> tuple[pa.Array, pa.Array | None]:
        """Cast floats or integers to the type of the field."""
        if pa.types.is_integer(array.type):
            return self.cast_where(array, self._equals_integer(array))
        back = array.cast(self.plain, safe=False).cast(array.type, safe=False)
        return self.cast_where(array, pc.or_(pc.equal(back, array), pc.is_nan(array)))

    def _equals_integer(self, array: pa.Array) -> pa.Array:
        wide = array.cast(self.plain, safe=False).cast(pa.float64())
        inside = _is_inside(wide, array.type)
        back = pc.if_else(inside, wide, 0.0).cast(array.type, safe=False)
        return pc.and_(inside, pc.equal(back, array))

    def read(self, texts: pa.Array) -> pa.Array:
        """Return the values of texts; Arrow reads no half floats."""
        if pa.types.is_float16(self.plain):
            return texts.cast(pa.float32()).cast(self.plain)
        return super().read(texts)


class DecimalField(WholeField):
    """A key field of decimals, as whole numbers of units of the last digit."""

    plural = "decimals"
    wanted = "a decimal.Decimal"
    holds: Holds = staticmethod(pa.types.is_decimal)

    def units(self, value: Any) -> int | float | Fraction:
        """Return the number of units of the last digit."""
        number = self.native(value, decimal.Decimal, int)
        exact = number if isinstance(number, int) else _rational(number)
        if isinstance(exact, float):
            return exact
        return whole(Fraction(exact) * Fraction(10) ** self.plain.scale)

    def accepts(self, kind: pa.DataType) -> bool:
        """Return whether a type is of decimals or integers."""
        return bool(pa.types.is_decimal(kind) or pa.types.is_integer(kind))

    def fit(self, array: pa.Array) -> tuple[pa.Array, pa.Array | None]:
        """Cast decimals or integers to the type of the field."""
        kept, fits = _fit_digits(array, self.plain.scale, limits(self.plain))
        return _narrowed(kept, self.plain), fits

    @property
    def form(self) -> str:
        """Return a description of the text form of a value."""
        kind = self.plain
        return f"a number of at most {kind.precision} digits, {kind.scale} after the point"


#: The types of key of this module, in the order in which an error lists them.
NUMBERS: tuple[type[KeyField], ...] = (
    BoolField,
    IntegerField,
    UnsignedField,
    FloatField,
    DecimalField,
)


def whole(number: Fraction) -> int | Fraction:
    """Return a fraction as an int if it is a whole number.

    >>> whole(Fraction(4, 2)), whole(Fraction(1, 2))
    (2, Fraction(1, 2))
    """
    return number.numerator if number.denominator == 1 else number


def _rational(number: float | decimal.Decimal) -> int | float | Fraction:
    """Return the number exactly: an int where it is whole, a float where it is not finite."""
    if not math.isfinite(number):
        return float(number)
    if isinstance(number, decimal.Decimal) and abs(number.adjusted()) > 1000:
        # The number is far outside every type, or closer to zero than any digit: keep Fraction
        # small.
        if number == 0:
            return 0
        if number.adjusted() > 0:
            return math.copysign(math.inf, number)
        return Fraction(1 if number > 0 else -1, 10**999)
    return whole(Fraction(number))


def _is_number(kind: pa.DataType) -> bool:
    types = pa.types
    return bool(types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind))


def _is_within(array: pa.Array, wanted: pa.DataType) -> pa.Array:
    """Return whether an integer type can hold each integer."""
    low, high = limits(wanted)
    least, most = limits(array.type)
    return pc.and_(
        pc.greater_equal(array, pa.scalar(max(low, least), array.type)),
        pc.less_equal(array, pa.scalar(min(high, most), array.type)),
    )


def _is_whole_within(array: pa.Array, wanted: pa.DataType) -> pa.Array:
    """Return whether an integer type can hold each float."""
    wide = array.cast(pa.float64())
    return pc.and_(_is_inside(wide, wanted), pc.equal(pc.floor(wide), wide))


def _is_inside(wide: pa.Array, kind: pa.DataType) -> pa.Array:
    """Return whether each double is within the limits of an integer type; NaN is not."""
    low, high = limits(kind)
    # Both limits are powers of two and therefore exact.
    return pc.and_(pc.greater_equal(wide, float(low)), pc.less(wide, float(high + 1)))


def _fit_digits(
    array: pa.Array, scale: int, bounds: tuple[int, int]
) -> tuple[pa.Array, pa.Array | None]:
    """Return decimals or integers as digits of a scale.

    The digits are 256-bit decimals without scale, null where one is not within the bounds or was
    cut. The second value tells which ones fit. None: All do.
    """
    wide = array.cast(pa.decimal256(76, getattr(array.type, "scale", 0)))
    target = wide.cast(pa.decimal256(76, scale), safe=False)
    back = target.cast(wide.type, safe=False)  # values that overflowed or were truncated differ
    low, high = bounds
    digits = _digits(target)
    fits = pc.and_(
        pc.equal(_digits(back), _digits(wide)),
        pc.and_(
            pc.greater_equal(digits, pa.scalar(decimal.Decimal(low), digits.type)),
            pc.less_equal(digits, pa.scalar(decimal.Decimal(high), digits.type)),
        ),
    )
    fits = pc.fill_null(fits, True)
    if pc.all(fits).as_py() is not False:
        return digits, None
    return pc.if_else(fits, digits, pa.scalar(None, digits.type)), fits


def _digits(array: pa.Array) -> pa.Array:
    """Return the digits of 256-bit decimals as integers (Arrow compares no negative scales)."""
    kind = pa.decimal256(76, 0)
    return pa.Array.from_buffers(kind, len(array), array.buffers(), array.null_count, array.offset)


def _narrowed(array: pa.Array, wanted: pa.DataType) -> pa.Array:
    """Return 256-bit digits, which must fit, as decimals of a width and scale.

    Arrow's own cast from decimal256 to decimal32 gives zeros (pyarrow 26).
    """
    length, width = len(array), wanted.bit_width // 8
    words = np.frombuffer(array.buffers()[1], np.uint8)[array.offset * 32 :][: length * 32]
    cut = np.ascontiguousarray(words.reshape(length, 32)[:, :width])
    return pa.Array.from_buffers(wanted, length, [validity(array), pa.py_buffer(cut)])
