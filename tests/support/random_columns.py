"""Columns of random types, as deep as Arrow nests them."""

from __future__ import annotations

import decimal
import math
import random
from typing import Any

import pyarrow as pa

PLAIN = [
    pa.int32(), pa.float64(), pa.float16(), pa.string(), pa.binary(), pa.decimal128(5, 2),
    pa.string_view(), pa.binary_view(), pa.month_day_nano_interval(),
]  # fmt: skip


class Wrapped(pa.ExtensionType):  # type: ignore[misc]
    """A type of somebody's own, which has no hash."""

    def __init__(self, storage: pa.DataType) -> None:
        super().__init__(storage, "lookupstore.tests.wrapped")

    def __arrow_ext_serialize__(self) -> bytes:
        """Return what the type is, apart from its storage: nothing."""
        return b""

    @classmethod
    def __arrow_ext_deserialize__(cls, storage: pa.DataType, serialized: bytes) -> Wrapped:
        """Return the type again."""
        return cls(storage)


def random_type(rng: random.Random, depth: int) -> pa.DataType:
    """Return a type of Arrow, nested at most so deep."""
    kind = rng.randrange(9 if depth else 2)
    if kind < 2:
        return rng.choice([*PLAIN, pa.dictionary(pa.int8(), pa.string())])
    inner = random_type(rng, depth - 1)
    if pa.types.is_dictionary(inner):
        inner = pa.string()
    if kind == 2:
        return pa.list_(inner)
    if kind == 3:
        return pa.struct({"a": inner, "b": pa.int8()})
    if kind == 4:
        return pa.map_(pa.string(), inner)
    if kind == 5:
        return pa.list_(inner, 2)
    return rng.choice([pa.large_list, pa.list_view, pa.large_list_view])(inner)


def random_value(kind: pa.DataType, rng: random.Random) -> Any:
    """Return one of few values of a type, often null."""
    if rng.random() < 0.25:
        return None
    if pa.types.is_struct(kind):
        return {one.name: random_value(one.type, rng) for one in kind}
    if pa.types.is_map(kind):
        return [(key, random_value(kind.item_type, rng)) for key in ("a", "b")[: rng.randrange(3)]]
    if pa.types.is_fixed_size_list(kind):
        return [random_value(kind.value_type, rng) for _ in range(kind.list_size)]
    if hasattr(kind, "value_field"):
        return [random_value(kind.value_type, rng) for _ in range(rng.randrange(3))]
    if pa.types.is_floating(kind):
        return rng.choice([0.0, -0.0, 1.5, math.nan])
    if kind == pa.month_day_nano_interval():
        return pa.MonthDayNano([rng.randrange(2), 0, rng.randrange(2)])
    if kind in (pa.binary(), pa.binary_view()):
        return rng.choice([b"", b"x", b"longer than a view has in itself"])
    if kind in (pa.string(), pa.string_view()) or pa.types.is_dictionary(kind):
        return rng.choice(["", "x", "longer than a view has in itself"])
    number = rng.randrange(2)
    return decimal.Decimal(number) if pa.types.is_decimal(kind) else number
