"""Columns of every type that has an order, with the values that are most often got wrong.

`ordered_key` is the oracle: Python's own order of the values.
"""

from __future__ import annotations

import decimal
import math
import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa

LONG = "the same beginning of every text, which goes on and on " * 180
FLOATS = [math.inf, -math.inf, math.nan, -0.0, 0.0, 5e-324, 1.5, -1.5, 65504.0]
TEXTS = ["", "a", "b", "ab", "a\0", "a\0b", "é", "zz", "\ue000", "\U0001f600", LONG, LONG + "x"]


def ordered_key(value: Any) -> tuple[Any, ...]:
    """Return what sorts as a value should: null first, NaN last, text by its UTF-8."""
    if value is None:
        return (0,)
    if isinstance(value, str):
        return (1, value.encode())
    if isinstance(value, float) and value != value:
        return (2,)
    return (1, value)


def _whole(low: int, high: int) -> Callable[[random.Random], int]:
    def one(draw: random.Random) -> int:
        return draw.choice(
            [low, high, draw.randint(low, high), max(low, min(high, draw.randint(-3, 300)))]
        )

    return one


def _float(draw: random.Random) -> float:
    near = draw.gauss(0, 1)
    return draw.choice([*FLOATS, near, near * float(10 ** draw.randint(-3, 4))])


def _text(draw: random.Random) -> str:
    made = "".join(draw.choice("ab\0zé\ue000\U0001f600") for _ in range(draw.randrange(12)))
    return draw.choice([draw.choice(TEXTS), made, "http://" + made, LONG + made])


def _bytes(draw: random.Random) -> bytes:
    made = bytes(draw.choice([0, 1, 254, 255]) for _ in range(draw.randrange(12)))
    return draw.choice([b"", b"\0", b"\xff" * 9, made, bytes(9000) + made])


def _fixed(width: int) -> Callable[[random.Random], bytes]:
    return lambda draw: bytes(draw.choice([0, 1, 255]) for _ in range(width))


def _decimal(precision: int, scale: int) -> Callable[[random.Random], decimal.Decimal]:
    most = 10**precision - 1
    whole = _whole(-most, most)
    context = decimal.Context(prec=80)
    return lambda draw: decimal.Decimal(whole(draw)).scaleb(-scale, context)


_INT32, _INT64 = _whole(-(2**31), 2**31 - 1), _whole(-(2**63), 2**63 - 1)


def _units(kind: pa.DataType, whole: Callable[[random.Random], int]) -> Any:
    """Return what draws values of a type that holds integers, as integers."""
    return kind, whole, True


#: Of each column: its type, what draws a value, whether that is the integer that Arrow holds.
COLUMNS: dict[str, tuple[pa.DataType, Callable[[random.Random], Any], bool]] = {
    "bool": (pa.bool_(), lambda draw: draw.random() < 0.5, False),
    **{
        str(kind): (
            kind,
            _whole(-(2 ** (kind.bit_width - 1)), 2 ** (kind.bit_width - 1) - 1),
            False,
        )
        for kind in (pa.int8(), pa.int16(), pa.int32(), pa.int64())
    },
    **{
        str(kind): (kind, _whole(0, 2**kind.bit_width - 1), False)
        for kind in (pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64())
    },
    "half": (pa.float16(), lambda draw: float(np.float16(_float(draw))), False),
    "float": (pa.float32(), lambda draw: float(np.float32(_float(draw))), False),
    "double": (pa.float64(), _float, False),
    **{
        f"decimal{bits}(7, 2)": (getattr(pa, f"decimal{bits}")(7, 2), _decimal(7, 2), False)
        for bits in (32, 64)
        if hasattr(pa, f"decimal{bits}")  # from pyarrow 19 on
    },
    "decimal128(38, 5)": (pa.decimal128(38, 5), _decimal(38, 5), False),
    "decimal128(4, 4)": (pa.decimal128(4, 4), _decimal(4, 4), False),
    "decimal256(76, 10)": (pa.decimal256(76, 10), _decimal(76, 10), False),
    "date32": _units(pa.date32(), _INT32),
    "date64": _units(pa.date64(), lambda draw: _whole(-100_000, 100_000)(draw) * 86_400_000),
    "time32[s]": _units(pa.time32("s"), _whole(0, 86_399)),
    "time32[ms]": _units(pa.time32("ms"), _whole(0, 86_399_999)),
    "time64[us]": _units(pa.time64("us"), _whole(0, 86_400 * 10**6 - 1)),
    "time64[ns]": _units(pa.time64("ns"), _whole(0, 86_400 * 10**9 - 1)),
    **{
        f"timestamp[{unit}{zone}]": _units(pa.timestamp(unit, zone or None), _INT64)
        for unit in ("s", "ms", "us", "ns")
        for zone in ("", "Asia/Kolkata")
    },
    **{f"duration[{unit}]": _units(pa.duration(unit), _INT64) for unit in ("s", "ms", "us", "ns")},
    "string": (pa.string(), _text, False),
    "large_string": (pa.large_string(), _text, False),
    "string_view": (pa.string_view(), _text, False),
    "dictionary": (pa.dictionary(pa.int16(), pa.string()), _text, False),
    "binary": (pa.binary(), _bytes, False),
    "large_binary": (pa.large_binary(), _bytes, False),
    "binary_view": (pa.binary_view(), _bytes, False),
    "binary(0)": (pa.binary(0), _fixed(0), False),
    "binary(5)": (pa.binary(5), _fixed(5), False),
    "binary(32)": (pa.binary(32), _fixed(32), False),
    "binary(50)": (pa.binary(50), _fixed(50), False),
}
#: Types whose values are in positions with the most telling of their bytes only.
CUT = {
    "string", "large_string", "string_view", "dictionary", "binary", "large_binary", "binary_view",
    "binary(0)", "binary(50)",
}  # fmt: skip


def random_column(
    name: str, draw: random.Random, count: int, *, nulls: float = 0.1
) -> tuple[pa.Array, list[Any]]:
    """Return a random array of a type, and its values (of times, the integers that Arrow has)."""
    kind, one, is_units = COLUMNS[name]
    few = [one(draw) for _ in range(max(1, count // 3))]
    values = [
        None if draw.random() < nulls else draw.choice(few) if draw.random() < 0.3 else one(draw)
        for _ in range(count)
    ]
    if is_units:
        held = pa.int32() if kind.bit_width == 32 else pa.int64()
        return pa.array(values, held).view(kind), values
    if pa.types.is_float16(kind):
        return pa.array([None if one is None else np.float16(one) for one in values], kind), values
    if pa.types.is_dictionary(kind):
        return pa.array(values, kind.value_type).dictionary_encode().cast(kind), values
    return pa.array(values, kind), values
