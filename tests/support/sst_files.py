"""Sorted files made by hand: every part can be broken and the checksums are still right.

Blocks are encoded here in plain Python, after the format note and not after `lookupstore`, so that
they also serve as an oracle for the writer.
"""

from __future__ import annotations

import struct
import sys
import threading
from collections.abc import Callable, Sequence
from pathlib import Path

from lookupstore.arrow._binary import BinaryColumn
from lookupstore.sst import Reader, Writer
from lookupstore.sst._filter import Filter
from lookupstore.sst.cache import BlockCache
from lookupstore.sst.codec import COMPRESSIONS
from lookupstore.sst.format import (
    NATIVE,
    PAIMON,
    Dialect,
    Footer,
    pack_footer,
    pack_trailer,
)

Record = tuple[bytes, bytes]

DIALECTS = {"native": NATIVE, "paimon": PAIMON}
CODECS = COMPRESSIONS


def lets_pass(one: Filter, key: bytes) -> bool:
    """Return whether a filter does not rule out a key."""
    return one.hides(BinaryColumn([key])) == 0


def varint(number: int) -> bytes:
    """Encode a number as LEB128, 7 bits per byte, least significant first."""
    groups = []
    while True:
        number, low = divmod(number, 128)
        groups.append(low)
        if number == 0:
            return bytes([group | 0x80 for group in groups[:-1]] + groups[-1:])


def record(key: bytes, value: bytes) -> bytes:
    """Encode one record."""
    return varint(len(key)) + key + varint(len(value)) + value


def block(records: Sequence[Record]) -> bytes:
    """Encode a block."""
    encoded = [record(*one) for one in records]
    body = b"".join(encoded)
    if len({len(one) for one in encoded}) == 1:
        return body + struct.pack("<iB", len(encoded[0]), 0)
    starts = [sum(map(len, encoded[:i])) for i in range(len(encoded))]
    return body + struct.pack(f"<{len(starts)}iiB", *starts, len(starts), 1)


def cut(records: Sequence[Record], block_size: int) -> list[list[Record]]:
    """Cut records into blocks by the rule of the format note, section 5."""
    blocks: list[list[Record]] = []
    current: list[Record] = []
    sizes: list[int] = []
    for one in records:
        current.append(one)
        sizes.append(len(record(*one)))
        memory = sum(sizes) + 5 + (4 * len(sizes) if len(set(sizes)) > 1 else 0)
        if memory > block_size:
            blocks.append(current)
            current, sizes = [], []
    return [*blocks, current] if current else blocks


class Stored:
    """One data block as it will be stored, and what the index says of it."""

    def __init__(
        self,
        last_key: bytes,
        payload: bytes,
        codec: int = 0,
        handle: bytes | None = None,
    ) -> None:
        self.last_key = last_key
        self.payload = payload
        self.codec = codec
        self.handle = handle

    @classmethod
    def of(cls, records: Sequence[Record]) -> Stored:
        """Store records plainly."""
        return cls(records[-1][0], block(records))


def properties_of(records: Sequence[Record], blocks: Sequence[Stored]) -> dict[bytes, bytes]:
    """Return right properties for a native file."""
    properties = {
        b"data.plain_bytes": b"%d" % sum(len(one.payload) for one in blocks),
        b"key.order": b"bytes",
        b"records": b"%d" % len(records),
        b"writer": b"by hand",
    }
    if records:
        properties |= {
            b"data.codec.none": b"%d" % len(blocks),
            b"key.max": records[-1][0],
            b"key.min": records[0][0],
        }
    return properties


def craft(
    dialect: Dialect,
    blocks: Sequence[Stored],
    *,
    records: Sequence[Record] = (),
    index: tuple[int, bytes] | None = None,
    index_handle: tuple[int, int] | None = None,
    dictionary: bytes | None = None,
    dictionary_handle: tuple[int, int] | None = None,
    dictionary_codec: int = 0,
    bits: bytes | None = None,
    filter_handle: tuple[int, int] | None = None,
    filter_entries: int = 0,
    properties: bytes | None = None,
    properties_handle: tuple[int, int] | None = None,
    footer: bytes | None = None,
) -> bytes:
    """Return a file of these parts with right checksums; what is not given is made right.

    `index` is (codec, payload), `bits` the filter, `properties` a block, `footer` all its bytes.
    `records` are what right properties count.
    """
    out = bytearray()

    def put(payload: bytes, codec: int = 0) -> tuple[int, int]:
        handle = len(out), len(payload)
        out.extend(payload + pack_trailer(dialect, codec, payload))
        return handle

    entries = []
    for one in blocks:
        handle = put(one.payload, one.codec)
        right = varint(handle[0]) + varint(handle[1])
        entries.append((one.last_key, right if one.handle is None else one.handle))
    put_dictionary = None
    if dictionary is not None:
        put_dictionary = put(dictionary, dictionary_codec)
    put_filter = None
    if bits is not None and dialect is NATIVE:
        put_filter = put(bits)
    elif bits is not None:
        put_filter = len(out), len(bits)
        out.extend(bits)
    empty_index = bytes.fromhex("0000000001")
    codec, payload = index or (0, block(entries) if entries else empty_index)
    put_index = put(payload, codec)
    put_properties = None
    if dialect is NATIVE:
        put_properties = put(properties or block(sorted(properties_of(records, blocks).items())))
    handles = Footer(
        index_handle or put_index,
        filter_handle or put_filter,
        filter_entries,
        properties_handle or put_properties,
        dictionary=dictionary_handle or put_dictionary,
    )
    return bytes(out) + (footer or pack_footer(dialect, handles))


def fresh(path: Path, order: str = "bytes") -> Reader:
    """Open a file with a cache of its own: a test may rewrite the file in place."""
    return Reader(path, order=order, cache=BlockCache())


def written(path: Path, records: Sequence[Record], **options: object) -> Path:
    """Write records one by one; with zstd where nothing else is asked for."""
    with Writer(path, **{"compression": "zstd", **options}) as writer:  # type: ignore[arg-type]
        for key, value in records:
            writer.put(key, value)
    return path


def run_all(workers: list[Callable[[], None]]) -> None:
    """Run each in a thread, and raise what any of them raised."""
    errors: list[BaseException] = []

    def guarded(work: Callable[[], None]) -> None:
        try:
            work()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=guarded, args=(work,)) for work in workers]
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(interval)
    for error in errors:
        raise error
