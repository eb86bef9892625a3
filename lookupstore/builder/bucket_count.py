"""Choose the number of buckets of a new store.

`lookupstore.build`, `lookupstore.spark.build_store` and Spark's `df.write` follow this rule: they
estimate the size of the data files, and `bucket_count` converts it to a number. A store that is
overwritten keeps its number.
"""

from __future__ import annotations

from lookupstore.store.manifest import MAX_BUCKETS

#: Bytes that a data file should have, before compression, since hosts make plain copies of
#: compressed files. A host fetches, copies and rewrites files whole, so that they should be small;
#: but each further one makes a batch of keys slower. An estimate that is wrong by a factor of two
#: still gives files of less than 1 GiB. A file of more than 8 GiB cannot have a table of places,
#: which is what makes lookups in a hot file fast.
FILE_BYTES = 512 << 20

#: Buckets of a store whose size is unknown, and may exceed one file. Files have less than 1 GiB for
#: 8 GiB of rows, and less than 8 GiB for 64 GiB.
BUCKETS_OF_UNKNOWN = 8


def bucket_count(nbytes: int | None) -> int:
    """Return the number of buckets for a store of about so many bytes.

    Args:
        nbytes: Estimate of the size of all data files before compression. None: it is unknown.

    >>> [bucket_count(nbytes) for nbytes in (0, 100 << 20, 10 << 30, None)]
    [1, 1, 20, 8]
    """
    if nbytes is None:
        return BUCKETS_OF_UNKNOWN
    return min(max(1, -(-nbytes // FILE_BYTES)), MAX_BUCKETS)


def worth_counting(nbytes: int) -> bool:
    """Return whether so many bytes of source files may fill several data files.

    If not, footers need not be read: requests, if the files are remote.

    >>> worth_counting(1 << 20), worth_counting(1 << 30)
    (False, True)
    """
    return nbytes >= FILE_BYTES // 32


def too_large_for_one(nbytes: int) -> bool:
    """Return whether rows of so many bytes are too many for one file.

    This is asked while rows come whose number was unknown, or was estimated wrongly.

    >>> too_large_for_one(700 << 20), too_large_for_one(1 << 30)
    (False, True)
    """
    # Before rows are spilled, with the default budget for them: there they are spread in place.
    return nbytes > 3 * FILE_BYTES // 2


def check_buckets(buckets: object) -> None:
    """Check a number of buckets that a caller has given; None is to be chosen.

    Raises:
        ValueError: it is not a number from 1 to 65,536.

    >>> check_buckets(None)
    """
    if buckets is not None and (not isinstance(buckets, int) or not 1 <= buckets <= MAX_BUCKETS):
        raise ValueError(
            f"buckets is {buckets!r}; give a number from 1 to {MAX_BUCKETS}, or leave it out"
        )
