"""How much there is behind the data blocks of a file, as far as can be known before it is open."""

from __future__ import annotations

from lookupstore.sst._filter import split_block_size

# Footer, properties, and what else files may have there.
_OTHERS = 64 << 10
# Of an entry of the index beside its key: sizes, a handle, and its place in the index.
_ENTRY = 16


def tail_size(
    nbytes: int, records: int, *, block_size: int, bloom_fpp: float, key_bytes: int
) -> int:
    """Return about how many bytes a native file has behind its blocks, rather more than less.

    Whoever reads so many at the end of a file has its filter and its index with the footer that
    says where they are.

    Args:
        nbytes: of the file.
        records: in it.
        block_size: of its blocks before compression.
        bloom_fpp: rate of false positives of its filter; 0: it has none.
        key_bytes: of one of its keys.

    >>> tail_size(22 << 20, 500_000, block_size=4096, bloom_fpp=0.05, key_bytes=9)
    728357
    """
    filter_bytes = split_block_size(records, bloom_fpp) if bloom_fpp > 0 else 0
    # Compressed, it has more blocks than its bytes say; but its index is smaller then, too.
    blocks = nbytes // block_size + 1
    index_bytes = blocks * (key_bytes + _ENTRY) * 3 // 2
    return min(nbytes, filter_bytes + index_bytes + _OTHERS)
