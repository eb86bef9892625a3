"""Prepare all of a sorted file for lookups, step by step."""

from __future__ import annotations

import time
from collections.abc import Iterator

from lookupstore.sst._data_blocks import DataBlocks
from lookupstore.sst._making_places import adopt, check_places, checks, settle, settles
from lookupstore.sst.reader import Reader, lookup_of

# Work of a step, some milliseconds each: bytes of blocks, or records added to places. Seconds
# between two checks whether another process has made the places.
_STEP, _ADDED, _WAIT = 1 << 20, 100_000, 0.02


def warmed(reader: Reader) -> Iterator[int]:
    """Prepare all blocks of a reader for lookups, step by step.

    If another process of the host is making the lookup table of the file, the steps wait for it.
    Blocks that do not fit into the cache of decompressed blocks are only requested from the disk.

    Yields:
        Number of bytes of the blocks that a step has read; 0 for a step that waited for another
        process or checked its lookup table.

    Raises:
        ClosedError: The reader is closed.
        CorruptionError: A block is damaged.
    """
    data, handles = lookup_of(reader).data, reader._handles
    reader._check_open().drop_scattered()
    adopt(data)
    yield from _settled(reader, data)
    nbytes, has_room = 0, True
    for number in reader._check_open().filled(handles, range(len(handles)), kept=True):
        reader._check_open()
        if data.is_prepared(number):
            continue
        has_room = has_room and data.prepare(number)
        nbytes += handles[number][1]
        if nbytes >= _STEP:
            yield nbytes
            nbytes = 0
    if nbytes:
        yield nbytes
    yield from _settled(reader, data)


def _settled(reader: Reader, data: DataBlocks) -> Iterator[int]:
    """Make the places of a file, or check the places of another process, step by step."""
    while settles(data) or checks(data):
        reader._check_open()
        if checks(data):
            if not check_places(data, _STEP):
                yield 0
            continue
        nbytes = settle(data, _ADDED)
        if nbytes == 0 and settles(data):
            time.sleep(_WAIT)
        yield nbytes
