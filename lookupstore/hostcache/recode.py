"""A plain file with the records of a compressed one, for lookups on the host that has it.

Lookups in a compressed file decompress blocks, repeatedly if the cache of blocks is smaller than
the file. Making a plain copy costs about as much as decompressing all blocks once. Therefore it is
made when lookups have cost that much: then no order of lookups costs more than twice what the best
choice would have cost.
"""

from __future__ import annotations

import pyarrow.compute as pc

from lookupstore.errors import CorruptionError
from lookupstore.hostcache.background import check_going_on
from lookupstore.sst import Reader, Writer
from lookupstore.sst.format import Info


class BreakEven:
    """The number of decompressed blocks after which a plain copy of a file pays.

    Args:
        blocks: Number of blocks of the file.

    >>> point = BreakEven(100)
    >>> point.is_paid(99), point.is_paid(100), point.try_now(100), point.try_now(150)
    (False, True, True, False)
    """

    def __init__(self, blocks: int) -> None:
        # The only block of a file is decompressed once and then cached: that does not justify a
        # copy.
        self._price = max(2, blocks)
        self._next = self._price

    def is_paid(self, paid: int) -> bool:
        """Return whether lookups have decompressed enough blocks to justify a copy."""
        return paid >= self._price

    def try_now(self, paid: int) -> bool:
        """Return whether to make the copy; after a failure, again when `paid` has doubled."""
        if paid < self._next:
            return False
        self._next = 2 * paid
        return True


def plain_size(info: Info) -> int | None:
    """Return an upper bound of the size of the file without compression. None: it has none."""
    if info.plain_bytes is None or info.num_records is None or not info.codecs:
        return None
    if set(info.codecs) == {"none"}:
        return None
    # The filter and the index take room in addition to the blocks.
    return info.plain_bytes + info.plain_bytes // 20 + 2 * info.num_records + (1 << 20)


def write_plain(source: Reader, path: str) -> None:
    """Write the records and properties of a native file to a new uncompressed one.

    Args:
        source: Reader of the file.
        path: Path of the new file, which is on disk under this name when the call returns.

    Raises:
        CorruptionError: The source is damaged.
        OSError: The new file cannot be written.
        ProcessEndingError: The process is ending.
    """
    info = source.info()
    with Writer(
        path,
        compression="none",
        bloom_fpp=0 if info.filter_kind == "none" else None,
        expected_entries=info.num_records,
        key_schema=info.key_schema,
        value_schema=info.value_schema,
        source=info.source,
        metadata=info.metadata,
    ) as writer:
        records = plain_bytes = 0
        for batch in source.scan():
            check_going_on()
            plain_bytes += sum(pc.sum(pc.binary_length(column)).as_py() for column in batch.columns)
            if info.plain_bytes is not None and plain_bytes > info.plain_bytes:
                expected = f"records of at most {info.plain_bytes} bytes"
                raise CorruptionError(info.path, 0, expected, f"{plain_bytes} and more")
            try:
                writer.put_many(batch.column(0), batch.column(1))
            except ValueError as error:
                raise CorruptionError(info.path, 0, "records in key order", error) from error
            records += batch.num_rows
        if records != info.num_records:
            raise CorruptionError(info.path, 0, f"{info.num_records} records", records)
