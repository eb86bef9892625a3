"""Records of a block: two varint lengths, a key and a value each.

Lengths below 128 are one byte, and the others two.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from workloads import SEED, fixed_size, int_keys, random_bytes

from lookupstore.arrow._binary import BinaryColumn
from lookupstore.sst._block import Block, BlockBuilder

RECORDS = 1_000
WHOLE = 1 << 30


@pytest.fixture(params=[32, 300], ids=["one-byte", "two-byte"])
def columns(request: pytest.FixtureRequest) -> tuple[pa.Array, pa.Array]:
    """Return 1,000 keys and values whose lengths are varints of one or two bytes."""
    random = np.random.default_rng(SEED)
    keys = int_keys(np.arange(RECORDS))
    return keys, fixed_size(random_bytes(random, RECORDS, request.param))


def built(columns: tuple[pa.Array, pa.Array]) -> bytes:
    """Return the block of all records."""
    builder = BlockBuilder("bytes", False, WHOLE)
    keys, values = columns
    assert builder.add_many(BinaryColumn(keys), BinaryColumn(values), 0) == RECORDS
    return builder.finish()


def test_records_write(benchmark: Any, columns: tuple[pa.Array, pa.Array]) -> None:
    """Measure `ls_block_add_column` by `BlockBuilder.add_many`."""
    benchmark(built, columns)


def test_records_validate(benchmark: Any, columns: tuple[pa.Array, pa.Array]) -> None:
    """Measure `ls_block_validate` by `Block.validate`."""
    benchmark(Block(built(columns), "", 0).validate, False)


def test_records_copy(benchmark: Any, columns: tuple[pa.Array, pa.Array]) -> None:
    """Measure `ls_block_sizes` and `ls_block_copy` by `Block.to_arrow`."""
    keys, values = benchmark(Block(built(columns), "", 0).to_arrow, 0, RECORDS)
    assert keys.equals(columns[0].cast(pa.large_binary()))
    assert values.equals(columns[1].cast(pa.large_binary()))


def test_handles_read(benchmark: Any) -> None:
    """Measure `ls_get_varint64` by `Block.handles`: two numbers for each record of an index."""
    builder = BlockBuilder("bytes", False, WHOLE)
    size, trailer = 70_000, 5
    for number in range(RECORDS):
        handle = varint(number * (size + trailer)) + varint(size)
        builder.add(number.to_bytes(8, "big"), handle)
    handles = benchmark(Block(builder.finish(), "", 0).handles, RECORDS * (size + trailer), trailer)
    assert handles[-1] == ((RECORDS - 1) * (size + trailer), size)


def varint(number: int) -> bytes:
    """Return a number as a varint."""
    out = bytearray()
    while number >= 0x80:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*out, number])
