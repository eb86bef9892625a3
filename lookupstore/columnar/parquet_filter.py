"""Read a Bloom filter of a Parquet file, and check whether it excludes all of some keys.

Source: parquet-format, BloomFilter.md; the header is Thrift's compact protocol.
"""

from __future__ import annotations

import pyarrow as pa

from lookupstore.arrow._binary import BinaryColumn
from lookupstore.sst._filter import Filter

# Header of field 1, an i32. It is followed by the only algorithm, hash and codec that exist, each a
# union with one field.
_SIZE_FIELD = 0x15
_REST = b"\x1c\x1c\x00\x00" * 3 + b"\x00"
_MOST_HEADER = 1 + 5 + len(_REST)
_MOST_BYTES = 128 << 20  # the format's own limit
_INTEGERS = {"INT32": pa.int32(), "INT64": pa.int64()}


def read_filter(file: pa.NativeFile, offset: int, length: int | None, nbytes: int) -> Filter | None:
    """Read a Bloom filter of a row group; None if its kind or size is unknown.

    Args:
        file: The Parquet file.
        offset: Offset of the filter in the file, from the footer.
        length: Size of the filter and its header, from the footer. None: the footer does not record
            it. If the header has another size, one of the two is damaged, and the filter is not
            used: with wrong bits, present keys would seem to be absent.
        nbytes: Size of the file in bytes.
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
    """Return whether the filter of a row group excludes all of some values.

    Args:
        bloom: Filter of the row group.
        values: Integers, dates, text or bytes, in the type of the column, without nulls.
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
    """Return the size at the beginning of a header, and the offset of the rest of the header."""
    if header[:1] != bytes([_SIZE_FIELD]):
        return None, 0
    value = 0
    for i, byte in enumerate(header[1:6]):
        value |= (byte & 0x7F) << (7 * i)
        if byte < 0x80:
            return (value >> 1) ^ -(value & 1), i + 2
    return None, 0
