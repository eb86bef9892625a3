"""Blocks: exact bytes, and each way to build and read them against plain Python."""

from __future__ import annotations

import bisect
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.sst_files import block as plain_block
from support.sst_files import record

from lookupstore.arrow._binary import BinaryColumn
from lookupstore.errors import CorruptionError
from lookupstore.sst._block import Block, BlockBuilder

RECORDS = st.dictionaries(st.binary(max_size=5), st.binary(max_size=200), max_size=40).map(
    lambda found: sorted(found.items())
)

EXACT = {
    "nothing": ([], "00 00 00 00 01"),
    "one": ([(b"k", b"vv")], "01 6b 02 76 76  05 00 00 00 00"),
    "one, empty": ([(b"", b"")], "00 00  02 00 00 00 00"),
    "two of a size": (
        [(b"a", b"bb"), (b"cc", b"d")],
        "01 61 02 62 62 02 63 63 01 64 05 00 00 00 00",
    ),
    "two sizes": (
        [(b"", b""), (b"a", b"")],
        "00 00 01 61 00 00 00 00 00 02 00 00 00 02 00 00 00 01",
    ),
}


def built(records: list[tuple[bytes, bytes]]) -> bytes:
    builder = BlockBuilder("bytes", False, 1 << 30)
    for key, value in records:
        builder.add(key, value)
    assert builder.count == len(records)
    finished: bytes = builder.finish()
    return finished


@pytest.mark.parametrize(("records", "expected"), EXACT.values(), ids=EXACT)
def test_exact_bytes(records: list[tuple[bytes, bytes]], expected: str) -> None:
    assert built(records) == bytes.fromhex(expected) == plain_block(records)


def test_sizes_of_more_than_a_byte() -> None:
    records = [(b"k" * 127, b"v" * 128), (b"l" * 16_383, b"w" * 16_384)]
    stored = built(records)
    assert stored[0] == 127
    assert stored[128:130] == b"\x80\x01"
    assert stored[258:260] == b"\xff\x7f"
    assert stored == plain_block(records)


@given(RECORDS)
def test_built_as_plain_python_does(records: list[tuple[bytes, bytes]]) -> None:
    assert built(records) == plain_block(records)
    builder = BlockBuilder("bytes", False, 1 << 30)
    keys, values = (BinaryColumn([one[i] for one in records]) for i in (0, 1))
    assert builder.add_many(keys, values, 0) == len(records)
    assert builder.last_key == (records[-1][0] if records else None)
    assert builder.finish() == plain_block(records)


@given(records=RECORDS, others=st.lists(st.binary(max_size=5)))
def test_read(records: list[tuple[bytes, bytes]], others: list[bytes]) -> None:
    one = Block(plain_block(records), "p", 7)
    keys = [key for key, _ in records]
    assert len(one) == len(records)
    assert one.nbytes == len(plain_block(records))
    assert one.aligned == (len({len(record(*pair)) for pair in records}) == 1)
    assert [one.record(i) for i in range(len(one))] == records
    one.validate(False)
    for key in keys + others:
        at = bisect.bisect_left(keys, key)
        assert one.lower_bound(key) == at
    for start in range(0, len(one) + 1, 3):
        for reverse in (False, True):
            arrow = one.to_arrow(start, len(one), reverse)
            pairs = list(zip(*(column.to_pylist() for column in arrow), strict=True))
            assert pairs == (records[start:][::-1] if reverse else records[start:])


def test_beyond_the_last_record() -> None:
    one = Block(plain_block([(b"a", b"1")]), "p", 0)
    with pytest.raises(IndexError, match="record 1 of 1"):
        one.record(1)
    for start, end in ((0, 2), (1, 0), (5, 5)):
        with pytest.raises(IndexError):
            one.to_arrow(start, end)


def test_an_error_names_path_offset_and_record() -> None:
    with pytest.raises(CorruptionError) as caught:
        Block(plain_block([(b"b", b""), (b"a", b"")]), "some.sst", 77).validate(False)
    error = caught.value
    assert (error.path, error.offset) == ("some.sst", 77)
    assert str(error) == (
        "some.sst: offset 77: expected record 1 of the block, "
        "found a key that does not come after the one before it"
    )


@pytest.mark.parametrize("size", [0, 1, 4])
def test_too_short(size: int) -> None:
    with pytest.raises(CorruptionError, match="a length that points past the end"):
        Block(bytes(size), "p", 0)


def test_repeats() -> None:
    records = [(b"a", b"1"), (b"a", b"2"), (b"b", b"3")]
    builder = BlockBuilder("bytes", True, 100)
    for pair in records:
        builder.add(*pair)
    one = Block(builder.finish(), "p", 0)
    one.validate(True)
    with pytest.raises(CorruptionError, match="does not come after"):
        one.validate(False)


def test_full() -> None:
    """The record that crosses the limit is in; the limit itself is not crossed."""
    builder = BlockBuilder("bytes", False, 13)
    builder.add(b"a", b"1")
    builder.add(b"b", b"2")  # 8 bytes and 5: as large as wanted
    assert not builder.full
    builder.add(b"c", b"3")
    assert builder.full
    builder.finish()
    assert not builder.full
    assert builder.count == 0
    with pytest.raises(ValueError, match="comes after b'c' but is smaller"):
        builder.add(b"b", b"")  # a new block does not start a new order
    unaligned = BlockBuilder("bytes", False, 16)
    unaligned.add(b"a", b"1")
    unaligned.add(b"b", b"")  # 7 bytes, two positions, and 5
    assert unaligned.full


@pytest.mark.parametrize("bad", ["utf8", "", "int128"])
def test_unknown_orders(bad: str) -> None:
    for make in (lambda: BlockBuilder(bad, False, 1), lambda: Block(bytes(5), "p", 0, bad)):
        with pytest.raises(ValueError, match="order must be 'bytes', 'int8', 'int16'"):
            make()


def test_none_is_refused() -> None:
    one = Block(plain_block([(b"a", b"")]), "p", 0)
    bad: Any = None
    with pytest.raises(TypeError):
        one.lower_bound(bad)
