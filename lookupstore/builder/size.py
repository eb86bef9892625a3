"""Estimate what a store will need of disk and memory, before it is built."""

from __future__ import annotations

from dataclasses import dataclass

from lookupstore.builder.bucket_count import bucket_count
from lookupstore.sst.codec import FALSE_POSITIVES, PLAIN_BLOCK
from lookupstore.sst.estimates import PLACE_BYTES, bytes_per_record

#: Private memory of a process that looks up, beyond that of Python and pyarrow, in bytes.
PROCESS_BYTES = 15_000_000
#: Private memory of such a process for each row, in bytes.
PROCESS_BYTES_PER_ROW = 0.2


@dataclass(frozen=True)
class StoreSize:
    """An estimate of the disk and memory that an uncompressed store needs.

    Attributes:
        rows: Number of rows.
        row_bytes: Bytes of the data files per row.
        data_bytes: Bytes of all data files.
        buckets: Number of data files that a build makes by default.
        table_bytes: Bytes of the tables of places that each host makes, on its disk and in its
            memory.
        process_bytes: Private memory of each process that looks up, beyond that of Python and
            pyarrow, in bytes.
    """

    rows: int
    row_bytes: float
    data_bytes: int
    buckets: int
    table_bytes: int
    process_bytes: int


def store_size(rows: int, key_bytes: int, value_bytes: int) -> StoreSize:
    """Estimate the disk and memory that a store needs with default options, uncompressed.

    Args:
        rows: Number of rows.
        key_bytes: Bytes of a key: the sum of its columns. Text counts its UTF-8 bytes.
        value_bytes: Bytes of the values of a row: the sum of its columns. Text, binary and lists
            count 4 bytes more than their content.

    Raises:
        ValueError: If a number is negative.

    >>> size = store_size(10_000_000, key_bytes=8, value_bytes=16)
    >>> size.data_bytes, size.buckets, size.table_bytes
    (286146129, 1, 80000000)
    """
    for name, number in (("rows", rows), ("key_bytes", key_bytes), ("value_bytes", value_bytes)):
        if number < 0:
            raise ValueError(f"{name} is {number}; give a number of at least 0")
    # The values of a row follow their null bits.
    packed = value_bytes and value_bytes + 1
    row_bytes = bytes_per_record(
        key_bytes, packed, block_size=PLAIN_BLOCK, bloom_fpp=FALSE_POSITIVES
    )
    data_bytes = round(rows * row_bytes)
    return StoreSize(
        rows=rows,
        row_bytes=row_bytes,
        data_bytes=data_bytes,
        buckets=bucket_count(data_bytes),
        table_bytes=rows * PLACE_BYTES,
        process_bytes=round(PROCESS_BYTES + rows * PROCESS_BYTES_PER_ROW),
    )
