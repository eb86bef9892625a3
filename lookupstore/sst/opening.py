"""Read and check what a sorted file contains besides its records, when it is opened."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from lookupstore.errors import CorruptionError
from lookupstore.sst._block import Block
from lookupstore.sst._filter import Filter
from lookupstore.sst.format import NATIVE, TRAILER_SIZE, Info, unpack_properties
from lookupstore.sst.stored import StoredFile


def fill_regions(file: StoredFile) -> None:
    """Fetch the regions besides the data blocks if the file is an incomplete local copy."""
    footer = file.footer
    regions = (
        footer.dictionary, footer.null_bitmap, footer.filter, footer.index, footer.properties
    )  # fmt: skip
    file.fill_blocks([handle for handle in regions if handle is not None])


def load_index(file: StoredFile, order: str) -> Block:
    """Return the index block, checked."""
    file.populate(file.footer.index)
    index = file.block(file.footer.index, "index block", order)
    index.validate(file.dialect is not NATIVE)
    return index


def load_filter(file: StoredFile) -> Filter:
    """Return the filter, checked; a file without a filter has one that all keys pass."""
    handle = file.footer.filter
    if handle is None:
        return Filter("none")
    kind = file.dialect.filter_kind
    file.populate(handle)
    if file.dialect is NATIVE:
        codec, bits = file.payload(handle, "filter")
        if codec != 0:
            raise CorruptionError(file.path, handle[0], "a plain filter", f"codec id {codec}")
    else:
        bits = file.region(handle, 0, "filter")
    try:
        return Filter(kind, bits, file.footer.filter_entries)
    except (ValueError, OverflowError) as error:
        raise CorruptionError(file.path, handle[0], f"a {kind} filter", error) from None


def check_null_bitmap(file: StoredFile) -> None:
    """Check the checksum of the null bitmap, which nothing else reads."""
    handle = file.footer.null_bitmap
    if handle is None:
        return
    stored = file.region(handle, 4, "null bitmap")
    found = file.dialect.checksum(stored[:-4], 0)
    expected = int.from_bytes(stored[-4:], "little")
    if found != expected:
        raise CorruptionError(
            file.path, handle[0], f"null bitmap of CRC-32 {expected:08x}", f"{found:08x}"
        )


def load_info(
    file: StoredFile,
    index: Block,
    handles: Sequence[tuple[int, int]],
    filter: Filter,
    order: str,
) -> Info:
    """Return the description of a file, with its properties if it has any."""
    blocks = len(handles)
    last = handles[-1] if blocks else (0, -TRAILER_SIZE)
    info = Info(
        path=file.path,
        dialect=file.dialect.name,
        order=order,
        num_records=None if blocks else 0,
        file_bytes=file.size,
        data_blocks=blocks,
        data_bytes=last[0] + last[1] + TRAILER_SIZE,
        plain_bytes=None if blocks else 0,
        codecs=None if blocks else {},
        filter_kind=filter.kind,
        filter_bytes=filter.nbytes,
        filter_entries=file.footer.filter_entries or None,
        min_key=None,
        max_key=index.record(blocks - 1)[0] if blocks else None,
    )
    if file.dialect is not NATIVE:
        if blocks:
            first = file.data_block(handles[0], 0, order)
            info = replace(info, min_key=first.record(0)[0])
        return info
    assert file.footer.properties is not None
    properties = file.block(file.footer.properties, "properties", "bytes")
    properties.validate(False)
    records = dict(properties.record(i) for i in range(len(properties)))
    try:
        found = unpack_properties(records)
    except ValueError as error:
        raise CorruptionError(file.path, file.footer.properties[0], "properties", error) from None
    for name, said, is_ in (
        ("key.order", found["order"], info.order),
        ("key.max", found["max_key"], info.max_key),
    ):
        if said != is_:
            raise CorruptionError(
                file.path, file.footer.properties[0], f"property {name} {is_!r}", f"{said!r}"
            )
    return replace(info, format_version=file.footer.native_version, **found)
