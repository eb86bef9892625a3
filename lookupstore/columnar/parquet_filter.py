"""Bloom filters of Parquet files: read one, and say that a row group has none of some keys.

Source: parquet-format, BloomFilter.md; the header is Thrift's compact protocol.
"""

from __future__ import annotations

import pyarrow as pa

from lookupstore.arrow._binary import BinaryColumn
from lookupstore.sst._filter import Filter

# Field 1, an i32; then the only algorithm, hash and codec that there are, each a union of one.
_SIZE_FIELD = 0x15
_REST = b"\x1c\x1c\x00\x00" * 3 + b"\x00"
_MOST_HEADER = 1 + 5 + len(_REST)
_MOST_BYTES = 128 << 20  # the format's own limit
_INTEGERS = {"INT32": pa.int32(), "INT64": pa.int64()}


def read_filter(file: pa.NativeFile, offset: int, length: int | None, nbytes: int) -> Filter | None:
    """Read a Bloom filter of a row group; None if its kind is unknown, or nobody knows its size.

    Args:
        file: the Parquet file.
        offset: of the filter, as the footer says.
        length: of the filter and its header, as the footer says; None: it does not. A header that
            says something else is wrong, or the footer is: of some bits, keys seem to be absent.
        nbytes: size of the file.
    """
    header: bytes = file.read_at(min(_MOST_HEADER, max(0, nbytes - offset)), offset)
    size, at = _size(header)
    if size is None or header[at : at + len(_REST)] != _REST:
        return None
    start = offset + at + len(_REST)
    if length is not None and length != start - offset + size:
        return None
    if not 0 < size <= min(_MOST_BYTES, nbytes - start) or size % 32:
        return None
    return Filter("split-block-xxh64", file.read_at(size, start))


def none_of(bloom: Filter, values: pa.Array, physical_type: str) -> bool:
    """Return whether none of some values can be in a row group, by its filter.

    Args:
        bloom: the filter.
        values: integers, dates, text or bytes, in the type of the column; no nulls.
        physical_type: Parquet's type of the column.
    """
    if physical_type in _INTEGERS:
        width = _INTEGERS[physical_type].bit_width // 8
        integers = values.cast(pa.int32()) if pa.types.is_date32(values.type) else values
        plain = pa.Array.from_buffers(
            pa.binary(width), len(values), [None, _data_of(integers.cast(_INTEGERS[physical_type]))]
        )
    elif physical_type == "BYTE_ARRAY":
        plain = values.cast(pa.large_binary())
    else:
        return False
    return bloom.hides(BinaryColumn(plain)) == len(values)


def _data_of(integers: pa.Array) -> pa.Buffer:
    width = integers.type.bit_width // 8
    return integers.buffers()[1].slice(integers.offset * width, len(integers) * width)


def _size(header: bytes) -> tuple[int | None, int]:
    """Return the size that a header begins with, and where the rest of it is."""
    if header[:1] != bytes([_SIZE_FIELD]):
        return None, 0
    value = 0
    for i, byte in enumerate(header[1:6]):
        value |= (byte & 0x7F) << (7 * i)
        if byte < 0x80:
            return (value >> 1) ^ -(value & 1), i + 2
    return None, 0
