"""Scans of a sorted file: its records in key order, as batches or as the views of a mapping."""

from __future__ import annotations

from collections.abc import Callable, ItemsView, Iterator, ValuesView
from itertools import islice
from typing import TYPE_CHECKING

import pyarrow as pa

from lookupstore.sst._block import Block, records_of

if TYPE_CHECKING:
    from lookupstore.sst.reader import Reader

SCAN_SCHEMA = pa.schema([("key", pa.large_binary()), ("value", pa.large_binary())])
# Bytes of blocks in one batch of a scan: with this size, the work in Python for each batch is small
# compared with reading the blocks, and they stay in the cache of the processor.
_BATCH = 256 << 10
# Number of blocks in one batch, and bytes from which on none is added, whatever the file records
# about their size.
_MOST_BLOCKS = 1024
_MOST_BYTES = 2 * _BATCH

#: A block and the range of its records that a scan reads.
BlockRange = tuple[Block, int, int]


def scan_batches(
    reader: Reader, start: bytes | None, stop: bytes | None, reverse: bool
) -> Iterator[pa.RecordBatch]:
    """Return the batches of the records from one key up to another, in key order."""
    return (batch for _, batch in scan_parts(reader, start, stop, reverse))


def scan_parts(
    reader: Reader, start: bytes | None, stop: bytes | None, reverse: bool
) -> Iterator[tuple[list[BlockRange], pa.RecordBatch]]:
    """Yield batches of records with their blocks, and the range of records of each block."""
    # If the file was truncated, errors of its bytes are replaced by the error of the truncation.
    file = reader._check_open()
    try:
        first = 0 if start is None else reader._index.lower_bound(start)
        last = len(reader._handles)
        if stop is not None:
            last = min(last, reader._index.lower_bound(stop) + 1)
    finally:
        file.check_whole()
    numbers = range(first, last)[::-1] if reverse else range(first, last)
    filled = file.filled(reader._handles, numbers)
    waiting: list[int] = []
    while waiting := waiting or list(islice(filled, _blocks_at_once(reader))):
        data, file = reader._search().data, reader._check_open()
        try:
            parts = [(block, 0, len(block)) for block in data.scanned(waiting, _MOST_BYTES)]
            some, waiting = waiting[: len(parts)], waiting[len(parts) :]
            # Only the blocks at the ends of the range have records outside of it.
            if start is not None and first in some:
                at = some.index(first)
                block, _, high = parts[at]
                parts[at] = block, block.lower_bound(start), high
            if stop is not None and last - 1 in some:
                at = some.index(last - 1)
                block, low, _ = parts[at]
                parts[at] = block, low, max(low, block.lower_bound(stop))
            keys, values = records_of(parts, reverse)
        finally:
            file.check_whole()
        if len(keys):
            yield parts, pa.RecordBatch.from_arrays([keys, values], schema=SCAN_SCHEMA)


def _blocks_at_once(reader: Reader) -> int:
    """Return the number of blocks of which a batch is made."""
    info = reader.info()
    plain = info.data_bytes if info.plain_bytes is None else info.plain_bytes
    return min(max(1, _BATCH * info.data_blocks // max(plain, 1)), _MOST_BLOCKS)


def scan_after(
    reader: Reader,
    last: bytes | None,
    *,
    start: bytes | None = None,
    stop: bytes | None = None,
    reverse: bool = False,
) -> Iterator[pa.RecordBatch]:
    """Yield the records of a range of keys, or only those after a given key.

    Args:
        reader: Reader of the file.
        last: Key of the last record that the caller already has. None: yield the whole range.
        start: First key of the range. Default: the first key of the file.
        stop: Key that ends the range, and is not part of it. Default: no end.
        reverse: Whether to read from the last record to the first.
    """
    if last is not None and reverse:
        stop = last
    elif last is not None:
        start = last + b"\0"
    return scan_batches(reader, start, stop, reverse)


def after_prefix(prefix: bytes) -> bytes | None:
    """Return the smallest key greater than every key with a prefix. None: there is none."""
    stripped = prefix.rstrip(b"\xff")
    return stripped[:-1] + bytes([stripped[-1] + 1]) if stripped else None


class Records(ItemsView[bytes, bytes]):
    """The pairs of key and value of a scan, which is repeated for each iteration."""

    def __init__(self, reader: Reader, scan: Callable[[], pa.RecordBatchReader]) -> None:
        super().__init__(reader)
        self._reader = reader
        self._scan = scan

    def __iter__(self) -> Iterator[tuple[bytes, bytes]]:
        for batch in self._scan():
            yield from self._reader._pairs(batch)

    def __len__(self) -> int:
        return sum(batch.num_rows for batch in self._scan())

    def __contains__(self, pair: object) -> bool:
        return any(one == pair for one in self)


class ScannedValues(ValuesView[bytes]):
    """The values of a reader."""

    _mapping: Reader

    def __iter__(self) -> Iterator[bytes]:
        return (value for _, value in self._mapping.items())

    def __contains__(self, value: object) -> bool:
        return any(one == value for one in self)
