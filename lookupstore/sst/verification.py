"""Read all of one sorted file and check it against itself."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from lookupstore.arrow._binary import BinaryColumn
from lookupstore.errors import CorruptionError
from lookupstore.sst._batch import contains
from lookupstore.sst._block import Block, records_of
from lookupstore.sst._data_blocks import DataBlocks
from lookupstore.sst._filter import Filter
from lookupstore.sst._layer import Layer
from lookupstore.sst._lookup import Lookup
from lookupstore.sst._table import FileTable
from lookupstore.sst.cache import BlockCache
from lookupstore.sst.format import NATIVE, TRAILER_SIZE, Info
from lookupstore.sst.stored import StoredFile

Handle = tuple[int, int]
# Bytes of blocks with keys that are looked up at once.
_BYTES_AT_ONCE = 256 << 10


def measure(
    file: StoredFile,
    handles: Sequence[Handle],
    info: Info,
    check: Callable[[int, Block], None] | None = None,
) -> Info:
    """Return the info with values that require reading every block; check each block."""
    records = plain = 0
    codecs: dict[str, int] = {}
    for number in file.filled(handles, range(len(handles))):
        handle = handles[number]
        codec, block = file.coded_block(handle, number, info.order)
        codecs[codec] = codecs.get(codec, 0) + 1
        records += len(block)
        plain += block.nbytes
        if check is not None:
            check(number, block)
    return replace(info, num_records=records, plain_bytes=plain, codecs=codecs)


def verify(
    file: StoredFile, index: Block, handles: Sequence[Handle], filter: Filter, info: Info
) -> Info:
    """Check every byte of an open file, and return its complete info.

    Raises:
        CorruptionError: The file is damaged; the error names the first damage that was found.
    """
    repeats = file.dialect is not NATIVE
    first_key: bytes | None = None
    # Blocks by number, with keys that have not been looked up yet.
    waiting: dict[int, Block] = {}
    nbytes = 0

    def load(number: int) -> Block:
        block = waiting.get(number)
        return file.data_block(handles[number], number, info.order) if block is None else block

    # Without a cache, a table would keep every block that was searched.
    table = FileTable(len(handles), BlockCache(0))
    layer = Layer((Lookup(DataBlocks(index, table, load), filter),))

    def check(number: int, block: Block) -> None:
        nonlocal first_key, nbytes
        check_block(file, index, number, block, repeats)
        if number == 0:
            first_key = block.record(0)[0]
        waiting[number] = block
        nbytes += block.nbytes
        if nbytes >= _BYTES_AT_ONCE:
            check_keys(file, layer, list(waiting.values()))
            waiting.clear()
            nbytes = 0

    found = measure(file, handles, info, check)
    check_keys(file, layer, list(waiting.values()))
    check_tiling(file, info.data_bytes)
    if file.footer.properties is None:
        return found
    for name, said, is_ in (
        ("records", info.num_records, found.num_records),
        ("data.plain_bytes", info.plain_bytes, found.plain_bytes),
        ("data.codec", info.codecs, found.codecs),
        ("key.min", info.min_key, first_key),
    ):
        if said != is_:
            raise CorruptionError(
                file.path, file.footer.properties[0], f"property {name} {is_!r}", f"{said!r}"
            )
    return found


def check_block(file: StoredFile, index: Block, number: int, block: Block, repeats: bool) -> None:
    """Check the records of a block, and that its keys lie between the index's last keys."""
    block.validate(repeats)
    if len(block) == 0:
        raise CorruptionError(file.path, block.offset, "records", "an empty data block")
    first, last = block.record(0)[0], block.record(len(block) - 1)[0]
    indexed = index.record(number)[0]
    if last != indexed:
        raise CorruptionError(file.path, block.offset, f"last key {indexed!r}", f"{last!r}")
    if number > 0:
        before = index.record(number - 1)[0]
        # No key of the block is smaller than the last key of the previous block in the order of the
        # file.
        if block.lower_bound(before) > 0 or (first == before and not repeats):
            raise CorruptionError(
                file.path, block.offset, f"a key greater than {before!r}", f"{first!r}"
            )


def check_keys(file: StoredFile, layer: Layer, blocks: Sequence[Block]) -> None:
    """Check that a lookup finds every key of some blocks: filter, index and search agree."""
    keys, _ = records_of([(block, 0, len(block)) for block in blocks])
    if (found := contains(layer, BinaryColumn(keys))).false_count == 0:
        return
    row = 0
    for block in blocks:
        count = found[row : row + len(block)].true_count
        if count < len(block):
            raise CorruptionError(
                file.path, block.offset, f"{len(block)} keys that a lookup finds", f"{count}"
            )
        row += len(block)


def check_tiling(file: StoredFile, data_bytes: int) -> None:
    """Check that the regions are contiguous, so that every byte is in one of them."""
    trailer = TRAILER_SIZE if file.dialect is NATIVE else 0
    at = data_bytes
    for name, handle, tail in (
        ("dictionary", file.footer.dictionary, TRAILER_SIZE),
        ("null bitmap", file.footer.null_bitmap, 4),
        ("filter", file.footer.filter, trailer),
        ("index block", file.footer.index, TRAILER_SIZE),
        ("properties", file.footer.properties, TRAILER_SIZE),
    ):
        if handle is None:
            continue
        if handle[0] != at:
            raise CorruptionError(file.path, at, f"{name} at offset {at}", f"{handle[0]}")
        at += handle[1] + tail
    if at != file.footer_offset:
        raise CorruptionError(file.path, at, f"the footer at offset {at}", f"{file.footer_offset}")
