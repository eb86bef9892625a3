"""Columns of every type that keys and values have, for tests of other engines."""

from __future__ import annotations

import math
import random
import uuid
from decimal import Decimal
from typing import Any

import pyarrow as pa

INTEGERS = [
    *(pa.int8(), pa.int16(), pa.int32(), pa.int64()),
    *(pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64()),
]
TIMES = [
    *(pa.date32(), pa.date64()),
    *(pa.time32("s"), pa.time32("ms"), pa.time64("us"), pa.time64("ns")),
    *(pa.timestamp(unit) for unit in ("s", "ms", "us", "ns")),
    *(pa.timestamp(unit, "UTC") for unit in ("s", "ms", "us", "ns")),
    pa.timestamp("us", "Europe/Berlin"),
    *(pa.duration(unit) for unit in ("s", "ms", "us", "ns")),
]
TEXTS = [pa.string(), pa.large_string(), pa.string_view()]
BYTES = [pa.binary(), pa.large_binary(), pa.binary_view(), pa.binary(3)]
KEY_TYPES = [
    *INTEGERS,
    *(pa.float32(), pa.float64()),
    *(pa.decimal128(7, 2), pa.decimal128(38, 9)),
    *TIMES,
    *TEXTS,
    *BYTES,
    *(pa.bool_(), pa.dictionary(pa.int32(), pa.string()), pa.uuid()),
]
VALUE_TYPES = [
    *KEY_TYPES,
    *(pa.float16(), pa.decimal256(50, 3), pa.month_day_nano_interval()),
    *(pa.list_(pa.int64()), pa.large_list(pa.string()), pa.list_(pa.int32(), 2)),
    *(pa.struct([("a", pa.int64()), ("b", pa.string())]), pa.map_(pa.string(), pa.int32())),
]
_WIDTHS = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}


def values_of(kind: pa.DataType, seed: int) -> tuple[list[Any], list[Any]]:
    """Return different values of a type, as `column_of` takes them, and others than these."""
    rng = random.Random(f"{seed} {kind}")
    found = {repr(value): value for value in (_value(kind, rng) for _ in range(300))}
    values = list(found.values())[:60]
    rng.shuffle(values)
    most = max(1, len(values) * 2 // 3)
    return values[:most], values[most:]


def _value(kind: pa.DataType, rng: random.Random) -> Any:
    """Return a value of a type; of times, the number that Arrow keeps."""
    types = pa.types
    if types.is_boolean(kind):
        return rng.random() < 0.5
    if types.is_integer(kind):
        low, high = (0, 1 << kind.bit_width) if str(kind)[0] == "u" else (
            -1 << kind.bit_width - 1, 1 << kind.bit_width - 1
        )  # fmt: skip
        near = rng.choice([low, 0, high - 30])
        return rng.choice([rng.randrange(low, high), near + rng.randrange(30)])
    if types.is_floating(kind):
        few = [math.inf, -math.inf, math.nan, 0.0, 0.5, -1.0]
        return rng.choice([*few, rng.randrange(-2000, 2000) / 16])
    if types.is_decimal(kind):
        digits = rng.choice([3, kind.precision])
        return Decimal(rng.randrange(-(10**digits) + 1, 10**digits)).scaleb(-kind.scale)
    if types.is_time(kind):
        return rng.randrange(86400 * _WIDTHS[kind.unit])
    if types.is_date64(kind):
        return rng.randrange(-20000, 20000) * 86_400_000
    if types.is_date32(kind):
        return rng.randrange(-20000, 20000)
    if types.is_timestamp(kind) or types.is_duration(kind):
        near = rng.randrange(20)
        return rng.choice([near, rng.randrange(-(2**30), 2**30) * _WIDTHS[kind.unit] + near])
    if kind == pa.uuid():
        return uuid.UUID(int=rng.getrandbits(128)).bytes
    if types.is_fixed_size_binary(kind):
        return bytes(rng.choices(b"\0\1ab\xff", k=kind.byte_width))
    if kind in BYTES:
        return bytes(rng.choices(b"\0\1ab\xff", k=rng.randrange(5)))
    if kind in TEXTS or types.is_dictionary(kind):
        return "".join(rng.choices("ab~é\U0001f600", k=rng.randrange(5)))
    return _nested(kind, rng)


def _nested(kind: pa.DataType, rng: random.Random) -> Any:
    types = pa.types
    if types.is_interval(kind):
        return (rng.randrange(30), rng.randrange(30), rng.randrange(10**6) * 1000)
    if types.is_map(kind):
        return [(key, rng.choice([None, rng.randrange(9)])) for key in rng.sample("abc", 2)]
    if types.is_struct(kind):
        return {field.name: rng.choice([None, _value(field.type, rng)]) for field in kind}
    size = kind.list_size if types.is_fixed_size_list(kind) else rng.randrange(4)
    return [rng.choice([None, _value(kind.value_type, rng)]) for _ in range(size)]


def column_of(values: list[Any], kind: pa.DataType) -> pa.Array:
    """Return values as an array of a type."""
    if pa.types.is_temporal(kind) and not pa.types.is_interval(kind):
        return pa.array(values, pa.int32() if kind.bit_width == 32 else pa.int64()).cast(kind)
    if kind == pa.uuid():
        return pa.ExtensionArray.from_storage(kind, pa.array(values, pa.binary(16)))
    if pa.types.is_dictionary(kind):
        return pa.array(values, pa.string()).dictionary_encode()
    return pa.array(values, kind)


def planes_of(seed: int) -> pa.Table:
    """Return rows of a dimension by id, in no order, with nulls among its values."""
    rng = random.Random(seed)
    ids = rng.sample(range(1000), 300)
    return pa.table(
        {
            "id": pa.array(ids, pa.int64()),
            "seats": pa.array([rng.choice([None, rng.randrange(500)]) for _ in ids], pa.int64()),
            "model": [rng.choice([None, f"model {key}", ""]) for key in ids],
        }
    )
