"""Filters against the `xxhash` package and plain Python; Java's tables are in test_golden.py."""

from __future__ import annotations

import math

import pytest
import xxhash
from hypothesis import given
from hypothesis import strategies as st
from support.paimon_filters import filter_of, murmur3, positions_of
from support.sst_files import block as plain_block
from support.sst_files import lets_pass

from lookupstore.arrow._binary import BinaryColumn
from lookupstore.errors import CorruptionError
from lookupstore.sst._block import Block
from lookupstore.sst._filter import (
    Filter,
    FilterBuilder,
    paimon_size,
    split_block_size,
)

SALT = (
    0x47B6137B, 0x44974D91, 0x8824AD5B, 0xA2B7289D, 0x705495C7, 0x2DF1424B, 0x9EFC4947, 0x5C6BFB31
)  # fmt: skip
KEYS = st.lists(st.binary(max_size=40), max_size=60)


def split_block_bits(keys: list[bytes], size: int) -> bytes:
    """Make the filter as parquet-format's BloomFilter.md says."""
    words = [0] * (size // 4)
    for key in keys:
        digest = xxhash.xxh64_intdigest(key)
        number = ((digest >> 32) * (size // 32)) >> 32
        for i, salt in enumerate(SALT):
            bit = ((digest & 0xFFFFFFFF) * salt & 0xFFFFFFFF) >> 27
            words[8 * number + i] |= 1 << bit
    return b"".join(word.to_bytes(4, "little") for word in words)


def made(kind: str, keys: list[bytes], size: int, entries: int, many: bool) -> bytes:
    """Make a filter with its size known at the start or only at the end: the same bytes."""
    at_end = built(FilterBuilder(kind), keys, size, entries, many)
    assert built(FilterBuilder(kind, size, entries), keys, size, entries, many) == at_end
    return at_end


def built(builder: FilterBuilder, keys: list[bytes], size: int, entries: int, many: bool) -> bytes:
    if many:
        column = BinaryColumn([b"not this one", *keys, b"nor this"])
        at = len(keys) // 2
        builder.add_many(column, 1, 1 + at)
        builder.add_many(column, 1 + at, 1 + len(keys))
    else:
        for key in keys:
            builder.add(key)
    bits: bytes = builder.finish(size, entries)
    return bits


@given(keys=KEYS, others=KEYS, blocks=st.integers(1, 9), many=st.booleans())
def test_split_blocks(keys: list[bytes], others: list[bytes], blocks: int, many: bool) -> None:
    bits = split_block_bits(keys, 32 * blocks)
    assert made("split-block-xxh64", keys, 32 * blocks, 0, many) == bits
    one = Filter("split-block-xxh64", bits)
    assert one.hides(BinaryColumn(keys)) == 0
    for key in others:
        alone = split_block_bits([key], 32 * blocks)
        may = all(b & a == a for a, b in zip(alone, bits, strict=True))
        assert lets_pass(one, key) == may


@given(
    keys=KEYS,
    others=KEYS,
    size=st.integers(1, 300),
    entries=st.integers(1, 1000),
    many=st.booleans(),
)
def test_paimon(
    keys: list[bytes], others: list[bytes], size: int, entries: int, many: bool
) -> None:
    hashes = max(1, math.floor(8.0 * size / entries * math.log(2) + 0.5))
    if hashes > 1100:
        with pytest.raises(ValueError, match="positions per key"):
            Filter("paimon-murmur3", bytes(size), entries)
        return
    expected = filter_of([murmur3(key) for key in keys], size, hashes)
    assert made("paimon-murmur3", keys, size, entries, many) == expected
    one = Filter("paimon-murmur3", expected, entries)
    assert one.hashes == hashes
    for key in keys + others:
        set_bits = [
            expected[at >> 3] >> (at & 7) & 1 for at in positions_of(murmur3(key), 8 * size, hashes)
        ]
        assert lets_pass(one, key) == all(set_bits)


def split_block_rate(load: float) -> float:
    """Return the rate of false positives with so many keys per block, by Poisson's law."""
    chances = [
        math.exp(i * math.log(load) - load - math.lgamma(i + 1)) * (1 - (31 / 32) ** i) ** 8
        for i in range(1, 1000)
    ]
    return math.fsum(chances)


def test_sizes() -> None:
    assert split_block_size(0, 0.01) == 32
    for entries in (1, 25, 26, 1000, 10**7):
        for fpp in (0.99, 0.3, 0.05, 0.001, 1e-6):
            blocks = split_block_size(entries, fpp) // 32
            assert split_block_rate(entries / blocks) <= fpp
            assert blocks == 1 or split_block_rate(entries / (blocks - 1)) > fpp
    assert paimon_size(10**6, 0.05) == 779403
    assert paimon_size(10**9, 0.05) == 0  # beyond Java's int
    assert paimon_size(1, 0.99) == 0  # no byte


@given(keys=st.sets(st.binary(max_size=9), max_size=20))
def test_keys_of_a_block(keys: set[bytes]) -> None:
    builder = FilterBuilder("split-block-xxh64")
    builder.add_block(Block(plain_block([(key, b"v") for key in sorted(keys)]), "p", 0))
    assert builder.finish(32, 0) == made("split-block-xxh64", [*keys], 32, 0, many=False)


@pytest.mark.parametrize("record", [0, 5])
def test_a_bad_record_of_a_block_is_an_error(record: int) -> None:
    content = bytearray(plain_block([(b"a", b"bb"), (b"cc", b"d")]))
    content[record] = 0x7F  # a key that would end behind the block
    builder = FilterBuilder("split-block-xxh64")
    with pytest.raises(CorruptionError, match="records of the block"):
        builder.add_block(Block(bytes(content), "p", 0))


def test_no_filter_lets_all_pass() -> None:
    assert lets_pass(Filter("none"), b"anything")


def test_refusals() -> None:
    with pytest.raises(ValueError, match="kind='bloom' is not a kind of filter"):
        Filter("bloom")
    with pytest.raises(ValueError, match="kind='bloom' is not a kind of filter"):
        FilterBuilder("bloom")
    for size in (0, 31, 33):
        with pytest.raises(ValueError, match="multiple of 32"):
            Filter("split-block-xxh64", bytes(size))
        with pytest.raises(ValueError, match="multiple of 32"):
            FilterBuilder("split-block-xxh64").finish(size, 0)
    with pytest.raises(ValueError, match="0 expected entries"):
        Filter("paimon-murmur3", bytes(8), 0)
    with pytest.raises(OverflowError):
        Filter("paimon-murmur3", bytes(8), -1)
    with pytest.raises(IndexError, match="row 3 of 2"):
        FilterBuilder("split-block-xxh64").add_many(BinaryColumn([b"a", b"b"]), 0, 3)
