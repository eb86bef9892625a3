"""Estimate the size of a file after its data blocks before the file is open."""

from __future__ import annotations

from lookupstore.sst._filter import split_block_size

# Bytes for the footer, the properties, and other regions.
_OTHERS = 64 << 10
# Bytes of an index entry besides its key: sizes, a handle, and its position in the index.
_ENTRY = 16


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
