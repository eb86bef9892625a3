"""A plain file with the records of a compressed one, for lookups on the host that has it.

Who looks up in a compressed file pays for each block that is decompressed, again and again where
the cache of blocks is smaller than the file. A plain copy costs about as much as all blocks once.
So it is made when lookups have paid that much: then no order of lookups costs more than twice what
it would have cost with the best choice.
"""

from __future__ import annotations

import pyarrow.compute as pc

from lookupstore.errors import CorruptionError
from lookupstore.sst import Reader, Writer
from lookupstore.sst.format import Info


class Rent:
    """What lookups have paid for a compressed file, in blocks, and when a plain copy pays.

    Args:
        blocks: of the file.

    >>> rent = Rent(100)
    >>> rent.is_paid(99), rent.is_paid(100), rent.try_now(100), rent.try_now(150)
    (False, True, True, False)
    """

    def __init__(self, blocks: int) -> None:
        # A block that is asked for once is decompressed once, and stays: that is no rent.
        self._price = max(2, blocks)
        self._next = self._price

    def is_paid(self, paid: int) -> bool:
        """Return whether lookups that have decompressed so many blocks have paid for a copy."""
        return paid >= self._price

    def try_now(self, paid: int) -> bool:
        """Return whether to make the copy; if that fails, again when twice as much is paid."""
        if paid < self._next:
            return False
        self._next = 2 * paid
        return True


def plain_size(info: Info) -> int | None:
    """Return bytes that are enough for a file without compression; None: it has none already."""
    if info.plain_bytes is None or info.num_records is None or not info.codecs:
        return None
    if set(info.codecs) == {"none"}:
        return None
    # Filter and index come on top of the blocks.
    return info.plain_bytes + info.plain_bytes // 20 + 2 * info.num_records + (1 << 20)


def write_plain(source: Reader, path: str) -> None:
    """Write the records and properties of a native file to a new one, without compression.

    Args:
        source: reader of the file.
        path: of the new file, on disk under this name when this returns.

    Raises:
        CorruptionError: the source is damaged.
        OSError: the new file cannot be written.
    """
    info = source.info()
    with Writer(
        path,
        compression="none",
        bloom_fpp=0 if info.filter_kind == "none" else 0.05,
        expected_entries=info.num_records,
        key_schema=info.key_schema,
        value_schema=info.value_schema,
        source=info.source,
        metadata=info.metadata,
    ) as writer:
        records = plain_bytes = 0
        for batch in source.scan():
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
