"""Choose the number of buckets of a new store.

`lookupstore.build`, `lookupstore.spark.build_store` and Spark's `df.write` follow this rule: they
estimate the size of the data files, and `bucket_count` converts it to a number. A store that is
overwritten keeps its number.
"""

from __future__ import annotations

from lookupstore.store.manifest import MAX_BUCKETS

#: Intended size of a data file in bytes, before compression, since hosts make plain copies of
#: compressed files. Hosts fetch, copy and rewrite whole files, so files should be small; but each
#: additional file makes lookups of a batch of keys slower. If an estimate is wrong by a factor of
#: two, files still have less than 1 GiB. A file of more than 8 GiB cannot have a table of places,
#: which makes lookups in a hot file fast.
FILE_BYTES = 512 << 20

#: Number of buckets of a store whose size is unknown and may exceed one file. Files have less than
#: 1 GiB for 8 GiB of rows, and less than 8 GiB for 64 GiB.
BUCKETS_OF_UNKNOWN = 8


def bucket_count(nbytes: int | None) -> int:
    """Return the number of buckets for a store of a given size.

    Args:
        nbytes: Estimate of the size of all data files before compression. None: The size is
            unknown.

    >>> [bucket_count(nbytes) for nbytes in (0, 100 << 20, 10 << 30, None)]
    [1, 1, 20, 8]
    """
    if nbytes is None:
        return BUCKETS_OF_UNKNOWN
    return min(max(1, -(-nbytes // FILE_BYTES)), MAX_BUCKETS)


def worth_counting(nbytes: int) -> bool:
    """Return whether source files of this size may fill several data files.

    If not, a build need not read their footers, which costs requests for remote files.

    >>> worth_counting(1 << 20), worth_counting(1 << 30)
    (False, True)
    """
    return nbytes >= FILE_BYTES // 32


def too_large_for_one(nbytes: int) -> bool:
    """Return whether rows of this size are too many for one file.

    A build calls it while it reads rows whose number was unknown or wrongly estimated.

    >>> too_large_for_one(700 << 20), too_large_for_one(1 << 30)
    (False, True)
    """
    # This is less than the default budget for rows, so they are spread in memory, before a spill.
    return nbytes > 3 * FILE_BYTES // 2


def check_buckets(buckets: object) -> None:
    """Check a number of buckets from a caller.

    None: The build chooses it.

    Raises:
        ValueError: If it is not a number from 1 to 65,536.

    >>> check_buckets(None)
    """
    if buckets is not None and (not isinstance(buckets, int) or not 1 <= buckets <= MAX_BUCKETS):
        raise ValueError(
            f"buckets is {buckets!r}; give a number from 1 to {MAX_BUCKETS}, or leave it out"
        )
