"""Rows with different values, beside what Python says of the same values."""

from __future__ import annotations

import math
import random
from typing import Any

import pyarrow as pa
import pytest

from lookupstore.arrow.differences import differing

PLAIN = [pa.int32(), pa.float64(), pa.float16(), pa.string(), pa.binary(), pa.decimal128(5, 2)]


def random_type(rng: random.Random, depth: int) -> pa.DataType:
    kind = rng.randrange(7 if depth else 2)
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
    return pa.large_list(inner) if kind == 5 else pa.list_(inner, 2)


def random_value(kind: pa.DataType, rng: random.Random) -> Any:
    if rng.random() < 0.25:
        return None
    if pa.types.is_struct(kind):
        return {one.name: random_value(one.type, rng) for one in kind}
    if pa.types.is_map(kind):
        return [(key, random_value(kind.item_type, rng)) for key in ("a", "b")[: rng.randrange(3)]]
    if pa.types.is_fixed_size_list(kind):
        return [random_value(kind.value_type, rng) for _ in range(kind.list_size)]
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return [random_value(kind.value_type, rng) for _ in range(rng.randrange(3))]
    if pa.types.is_floating(kind):
        return rng.choice([0.0, -0.0, 1.5, math.nan])
    if pa.types.is_binary(kind):
        return rng.choice([b"", b"x"])
    if pa.types.is_string(kind) or pa.types.is_dictionary(kind):
        return rng.choice(["", "x"])
    return rng.randrange(2)


def is_same(one: Any, other: Any) -> bool:
    if type(one) is not type(other):
        return False
    if isinstance(one, dict):
        return all(is_same(one[name], other[name]) for name in one)
    if isinstance(one, (list, tuple)):
        return len(one) == len(other) and all(map(is_same, one, other))
    return bool(one == other or (one != one and other != other))


@pytest.mark.parametrize("number", range(300))
def test_random_columns(number: int, seed: int) -> None:
    rng = random.Random(seed + number)
    kind = random_type(rng, 3)
    values = [random_value(kind, rng) for _ in range(rng.randrange(3, 15))]
    others = [one if rng.random() < 0.5 else random_value(kind, rng) for one in values]
    # Slices: not all of what an array holds counts.
    start = rng.randrange(3)
    one, other = (pa.array(column, kind)[start:] for column in (values, others))
    expected = [not is_same(*pair) for pair in zip(one.to_pylist(), other.to_pylist(), strict=True)]
    assert differing(one, other).tolist() == expected, kind
