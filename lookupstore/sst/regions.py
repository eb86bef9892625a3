"""Read what follows the data blocks of a sorted file: its filter and its properties."""

from __future__ import annotations

from dataclasses import replace

from lookupstore.errors import CorruptionError
from lookupstore.sst._block import Block, Handles
from lookupstore.sst._filter import Filter
from lookupstore.sst.format import NATIVE, TRAILER_SIZE, Info, unpack_properties
from lookupstore.sst.stored import StoredFile


def read_filter(file: StoredFile) -> Filter:
    """Return the filter of a file.

    Raises:
        CorruptionError: The filter is damaged.
    """
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
    """Check the null bitmap of a file of Paimon, which has no other use.

    Raises:
        CorruptionError: The bitmap is damaged.
    """
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


def read_info(
    file: StoredFile, handles: Handles, index: Block, filters: Filter, order: str
) -> Info:
    """Return the description of a file, for a native file from its properties.

    Args:
        file: Open file.
        handles: Positions and sizes of its data blocks.
        index: Block with the last key of each data block.
        filters: Filter of the file.
        order: Key order of the file.

    Raises:
        CorruptionError: The properties are damaged, or contradict the other parts of the file.
    """
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
        filter_kind=filters.kind,
        filter_bytes=filters.nbytes,
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
