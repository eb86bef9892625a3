"""Columns of each type, made from a fixed seed."""

from __future__ import annotations

import re

import numpy as np
import pyarrow as pa
from workloads import SEED, fixed_size, random_bytes

#: Types of one value: of keys, and of columns of rows.
PLAIN = (
    pa.bool_(),
    pa.int8(),
    pa.int32(),
    pa.int64(),
    pa.float64(),
    pa.decimal128(12, 2),
    pa.date32(),
    pa.timestamp("us"),
    pa.string(),
    pa.binary(),
    pa.binary(16),
)
#: Types of columns of rows only.
NESTED = (
    pa.list_(pa.int64()),
    pa.list_(pa.float32(), 4),
    pa.struct({"x": pa.int64(), "y": pa.string()}),
    pa.map_(pa.string(), pa.int64()),
    pa.dictionary(pa.int32(), pa.string()),
)


def column(kind: pa.DataType, rows: int) -> pa.Array:
    """Return a column without nulls."""
    random = np.random.default_rng(SEED)
    numbers = random.integers(0, 1 << 30, rows)
    if pa.types.is_fixed_size_binary(kind):
        return fixed_size(random_bytes(random, rows, kind.byte_width))
    if pa.types.is_boolean(kind):
        return pa.array(numbers % 2 == 1)
    if pa.types.is_decimal(kind):
        return pa.array(numbers % 1_000_000).cast(pa.decimal128(19, 0)).cast(kind)
    if pa.types.is_date(kind):
        return pa.array((numbers % 30_000).astype(np.int32)).cast(kind)
    if pa.types.is_string(kind) or pa.types.is_binary(kind):
        return pa.array([f"name {number}" for number in numbers.tolist()]).cast(kind)
    if pa.types.is_dictionary(kind):
        return pa.array([f"name {number % 100}" for number in numbers.tolist()]).dictionary_encode()
    if pa.types.is_struct(kind):
        return pa.StructArray.from_arrays([column(f.type, rows) for f in kind], fields=list(kind))
    if pa.types.is_fixed_size_list(kind):
        size = kind.list_size
        return pa.FixedSizeListArray.from_arrays(column(kind.value_type, size * rows), type=kind)
    if pa.types.is_nested(kind):  # of none to three items each
        ends = np.concatenate([[0], np.cumsum(numbers % 4)]).astype(np.int32)
        if pa.types.is_map(kind):
            items = [column(kind.key_type, ends[-1]), column(kind.item_type, ends[-1])]
            return pa.MapArray.from_arrays(ends, *items)
        return pa.ListArray.from_arrays(ends, column(kind.value_type, ends[-1]))
    return pa.array(numbers % 128).cast(kind)


def name(kind: pa.DataType) -> str:
    """Return the name of a type without its parameters."""
    return re.split(r"\W", str(kind))[0]
