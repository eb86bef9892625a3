"""Estimate sizes of native files that are not open, or not written yet."""

from __future__ import annotations

from lookupstore.sst._filter import split_block_size

#: Bytes of a table of places for each record: ``csrc/ls_places.h``.
PLACE_BYTES = 8

# Bytes for the footer, the properties, and other regions.
_OTHERS = 64 << 10
# Bytes of an index entry besides its key: sizes, a handle, and its position in the index.
_ENTRY = 16
# Number of keys of the filter from whose size that of any filter follows.
_FILTER_KEYS = 1_000_000
# Bytes of an index record beside the key: its size, the handle, and the size of the handle.
_INDEX_RECORD = 8
# Bytes at the end of a block: the size or number of its records, the flag, and the trailer.
_BLOCK_END = 10


def bytes_per_record(
    key_bytes: int, value_bytes: int, *, block_size: int, bloom_fpp: float
) -> float:
    """Return the bytes that an uncompressed native file has per record.

    Args:
        key_bytes: Size of a key in bytes.
        value_bytes: Size of a value in bytes.
        block_size: Size of the blocks in bytes.
        bloom_fpp: Rate of false positives of the filter.

    >>> round(bytes_per_record(8, 17, block_size=8192, bloom_fpp=0.005), 2)
    28.61

    Source: docs/reference/format.md, "Block" and "Filters".
    """
    record = _varint_bytes(key_bytes) + key_bytes + _varint_bytes(value_bytes) + value_bytes
    in_block = max(1, block_size // record)
    of_block = _BLOCK_END + _INDEX_RECORD + _varint_bytes(key_bytes) + key_bytes
    filter_bytes = split_block_size(_FILTER_KEYS, bloom_fpp) / _FILTER_KEYS
    return record + of_block / in_block + filter_bytes


def _varint_bytes(number: int) -> int:
    return max(1, -(-number.bit_length() // 7))


def tail_size(
    nbytes: int, records: int, *, block_size: int, bloom_fpp: float, key_bytes: int
) -> int:
    """Estimate, rather high, the bytes that a native file has behind its blocks.

    The last bytes of a file, as many as this function returns, contain its filter, its index and
    the footer that locates them.

    Args:
        nbytes: Size of the file in bytes.
        records: Number of records in the file.
        block_size: Size of its blocks before compression, in bytes.
        bloom_fpp: Rate of false positives of its filter; 0 if it has none.
        key_bytes: Size of one of its keys in bytes.

    >>> tail_size(22 << 20, 500_000, block_size=4096, bloom_fpp=0.05, key_bytes=9)
    728357
    """
    filter_bytes = split_block_size(records, bloom_fpp) if bloom_fpp > 0 else 0
    # A compressed file has more blocks than its size suggests, but its index is then smaller.
    blocks = nbytes // block_size + 1
    index_bytes = blocks * (key_bytes + _ENTRY) * 3 // 2
    return min(nbytes, filter_bytes + index_bytes + _OTHERS)
