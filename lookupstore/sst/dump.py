"""The layout of one sorted file: every region in file order, checked, damaged or not.

Unlike `Reader`, which stops at the first wrong byte, `layout` continues as far as it can follow the
bytes and records each error in its region. `dump_lines` formats a layout as text, `hex` shows the
meaning of each byte.
"""

from __future__ import annotations

import os
import struct
from collections import Counter
from collections.abc import Iterator
from typing import Any, BinaryIO

import pyarrow as pa

from lookupstore.arrow._binary import BinaryColumn
from lookupstore.errors import CorruptionError, FormatError
from lookupstore.sst._block import Block, check_order
from lookupstore.sst._filter import Filter
from lookupstore.sst.codec import ZSTD, codec_name, decompress
from lookupstore.sst.dump_lines import dump_text
from lookupstore.sst.format import (
    LONGEST_FOOTER,
    NATIVE,
    TRAILER_SIZE,
    Dialect,
    block_checksum,
    dialect_of,
    footer_in,
    unpack_footer,
    unpack_handle,
    unpack_properties,
    unpack_trailer,
)
from lookupstore.sst.hex import hexdump
from lookupstore.sst.layout import (
    FOOTER_FIELDS,
    Checksum,
    FileLayout,
    IndexEntry,
    Record,
    Region,
    text,
)
from lookupstore.sst.zstd import PLAIN_FRAMES, Frames
from lookupstore.storage.home import path_here
from lookupstore.storage.regular_file import open_regular

__all__ = [
    "Checksum",
    "FileLayout",
    "IndexEntry",
    "Record",
    "Region",
    "cut_layout",
    "dump_text",
    "hexdump",
    "layout",
    "text",
]

Handle = tuple[int, int]


def layout(
    path: str | os.PathLike[str], order: str = "bytes", *, records: bool = False
) -> FileLayout:
    """Return the checked layout of a file of any dialect.

    Args:
        path: Path of a local file.
        order: Key order of a ``paimon`` file, which does not record it: ``bytes``, ``int8``,
            ``int16``, ``int32``, ``int64``, or ``row(int32,bytes,...)`` for rows of such fields.
        records: Whether to include every record of every block, for small files.

    Raises:
        FileNotFoundError: There is no such file.
        FormatError: If the file does not end with a known magic. All other damage is in the layout.
        ValueError: If the key order is unknown, or is not ``bytes`` for a native file.

    Example:
        >>> from lookupstore.sst import Writer
        >>> with Writer("ages.sst") as writer:
        ...     writer.put_many([b"ada", b"alan"], [b"36", b"41"])
        >>> [(region.name, region.offset, region.size) for region in layout("ages.sst").regions][:3]
        [('data block 0', 0, 33), ('filter', 33, 37), ('index block', 70, 18)]
    """
    check_order(order)
    path = path_here(path)
    with open(open_regular(path), "rb") as file:
        size = os.fstat(file.fileno()).st_size
        file.seek(max(0, size - LONGEST_FOOTER))
        tail = file.read(LONGEST_FOOTER)
        dialect = dialect_of(tail)
        if dialect is None:
            raise FormatError(f"{path}: not a sorted lookup file ({size} bytes, no known magic)")
        if dialect is NATIVE and order != "bytes":
            raise ValueError(f"order={order!r}: {path} is a native file, whose order is 'bytes'")
        return _Survey(file, path, size, dialect, order, records).layout(tail)


def cut_layout(path: str, size: int, expected: int) -> FileLayout:
    """Return the layout of a native file of a wrong size, whose footer is not where it should be.

    Args:
        path: Path of the file.
        size: Size of the file in bytes.
        expected: Size in bytes that the file should have.

    >>> found = cut_layout("users/data/a.sst", 100, 300)
    >>> [(one.name, one.offset, one.errors) for one in found.regions]
    [('unknown', 0, []), ('end of the file', 100, ['expected 300 bytes, found 100 bytes'])]
    """
    error = f"expected {expected} bytes, found {size} bytes"
    end = Region("end of the file", min(size, expected), 0, errors=[error])
    regions = (Region("unknown", 0, size), end)
    return FileLayout(path, NATIVE.name, "bytes", size, regions, ())


def missing_layout(path: str) -> FileLayout:
    """Return the layout of a file that a store names and does not have.

    Args:
        path: Path of the file.

    >>> [(one.name, one.errors) for one in missing_layout("users/data/a.sst").regions]
    [('the file', ['expected a data file that the manifest names, found no file'])]
    """
    error = "expected a data file that the manifest names, found no file"
    region = Region("the file", 0, 0, errors=[error])
    return FileLayout(path, NATIVE.name, "bytes", 0, (region,), ())


class _Survey:
    """A pass over one open file: footer, index, filter, properties, blocks."""

    def __init__(
        self, file: BinaryIO, path: str, size: int, dialect: Dialect, order: str, records: bool
    ) -> None:
        self.file = file
        self.path = path
        self.size = size
        self.dialect = dialect
        self.order = order
        self.keep_records = records
        self.repeats = dialect is not NATIVE
        self.end = size
        self.regions: list[Region] = []

    def layout(self, tail: bytes) -> FileLayout:
        footer = self.footer(tail)
        handles = {
            name: (footer.fields[f"{name} offset"], footer.fields[f"{name} size"])
            for name in ("filter", "index", "properties", "null bitmap", "dictionary")
            if f"{name} offset" in footer.fields
        }
        index: Block | None = None
        entries: list[IndexEntry] = []
        region, block = self.block_at("index block", handles["index"], self.order, footer)
        if region is not None and block is not None:
            entries = self.index_entries(region, block)
            index = None if region.errors else block
        filter = self.filter(handles["filter"], footer)
        properties = None
        if "properties" in handles:
            properties, _ = self.block_at("properties", handles["properties"], "bytes", footer)
        if handles.get("null bitmap", (0, 0)) != (0, 0):
            self.null_bitmap(handles["null bitmap"], footer)
        frames: Frames | None = PLAIN_FRAMES
        if "dictionary" in handles:
            frames = self.dictionary(handles["dictionary"], footer)
        blocks = self.data_blocks(region or footer, entries, index, filter, frames)
        if properties is not None:
            whole = index is not None and frames is not None
            self.properties(properties, blocks if whole else None)
        self.cover()
        return FileLayout(
            self.path,
            self.dialect.name,
            self.order,
            self.size,
            tuple(self.regions),
            tuple(entries),
        )

    # -- regions

    def footer(self, tail: bytes) -> Region:
        errors = []
        try:
            data = footer_in(self.dialect, tail)
        except (ValueError, FormatError) as error:
            data = tail[-self.dialect.footer_size :]
            errors.append(str(error))
        self.end = self.size - len(data)
        region = Region("footer", self.end, len(data), errors=errors)
        fields = FOOTER_FIELDS[len(data)]
        values = struct.unpack("<" + "".join(code for _, code in fields), data)
        region.fields = {name: value for (name, _), value in zip(fields, values, strict=True)}
        if self.dialect is NATIVE:
            stored = region.fields["checksum"]
            found = self.dialect.checksum(data[-4:], self.dialect.checksum(data[:-8], 0))
            region.checksum = Checksum(self.dialect.checksum_name, stored, found)
        try:
            unpack_footer(self.dialect, data)
        except (ValueError, FormatError) as error:
            region.errors.append(str(error))
        self.regions.append(region)
        return region

    def bytes_at(
        self, kind: str, handle: Handle, tail: int, pointer: Region
    ) -> tuple[Region, bytes] | None:
        """Return a new region and its bytes. None, and an error at `pointer`: it is outside."""
        offset, size = handle
        if offset < 0 or size < 0 or offset + size + tail > self.end:
            pointer.errors.append(
                f"{kind} at offset {offset} of {size} bytes does not lie before the footer"
            )
            return None
        region = Region(kind, offset, size + tail)
        self.regions.append(region)
        self.file.seek(offset)
        return region, self.file.read(size + tail)

    def block_at(
        self,
        kind: str,
        handle: Handle,
        order: str,
        pointer: Region,
        frames: Frames | None = PLAIN_FRAMES,
    ) -> tuple[Region | None, Block | None]:
        """Return the region of a block, and the block if it can be opened."""
        found = self.bytes_at(kind, handle, TRAILER_SIZE, pointer)
        if found is None:
            return None, None
        region, stored = found
        codec, payload = self.trailer(region, stored)
        block = None
        if frames is None and codec == ZSTD.id:
            return region, None  # no error of the block: the dictionary has the error
        try:
            data = decompress(codec, payload, frames=frames or PLAIN_FRAMES)
            block = Block(data, self.path, region.offset, order)
            region.plain_size = len(data)
            region.aligned = block.aligned
            region.records = len(block)
            if len(block):
                region.first_key = block.record(0)[0]
                region.last_key = block.record(len(block) - 1)[0]
            if self.keep_records:
                region.contents.extend(_records(block, data))
            block.validate(self.repeats and kind != "properties")
        except (ValueError, FormatError, CorruptionError) as error:
            region.errors.append(_reason(error))
        return region, block

    def trailer(self, region: Region, stored: bytes) -> tuple[int, bytes]:
        payload = stored[:-TRAILER_SIZE]
        codec, checksum = unpack_trailer(stored[-TRAILER_SIZE:])
        region.codec = codec_name(codec) or f"id {codec}"
        self.checksum(region, checksum, block_checksum(self.dialect, codec, payload))
        return codec, payload

    def checksum(self, region: Region, stored: int, found: int) -> None:
        region.checksum = Checksum(self.dialect.checksum_name, stored, found)
        if stored != found:
            region.errors.append(
                f"{self.dialect.checksum_name} {stored:08x} for bytes of {found:08x}"
            )

    def index_entries(self, region: Region, block: Block) -> list[IndexEntry]:
        entries = []
        for number in range(len(block)):
            try:
                last_key, value = block.record(number)
                entries.append(IndexEntry(last_key, *unpack_handle(value)))
            except (ValueError, CorruptionError) as error:
                region.errors.append(f"entry {number}: {_reason(error)}")
                break
        return entries

    def filter(self, handle: Handle, footer: Region) -> Filter | None:
        """Return the filter. None: there is none, or it cannot be used."""
        entries = footer.fields.get("filter entries", 0)
        if handle[1] == 0 and (self.dialect is NATIVE or (handle[0] == 0 and entries == 0)):
            return None
        trailer = TRAILER_SIZE if self.dialect is NATIVE else 0
        found = self.bytes_at("filter", handle, trailer, footer)
        if found is None:
            return None
        region, bits = found
        if self.dialect is NATIVE:
            codec, bits = self.trailer(region, bits)
            if codec != 0:
                region.errors.append(f"codec id {codec}; a filter is stored plain")
        ones = int.from_bytes(bits, "little").bit_count()
        region.fields = {"kind": self.dialect.filter_kind, "bytes": len(bits)}
        try:
            filter = Filter(self.dialect.filter_kind, bits, max(0, entries))
        except (ValueError, OverflowError) as error:
            region.errors.append(f"no {self.dialect.filter_kind} filter: {error}")
            return None
        if self.dialect is NATIVE:
            region.fields["blocks"] = len(bits) // 32
        else:
            region.fields |= {"expected entries": entries, "positions per key": filter.hashes}
        region.fields["bits set"] = ones
        return None if region.errors else filter

    def dictionary(self, handle: Handle, footer: Region) -> Frames | None:
        """Return the decompressor of the frames of the file. None: its dictionary is damaged."""
        found = self.bytes_at("dictionary", handle, TRAILER_SIZE, footer)
        if found is None:
            return None
        region, stored = found
        codec, content = self.trailer(region, stored)
        if codec != 0:
            region.errors.append(f"codec id {codec}; a dictionary is stored plain")
        region.fields = {"bytes": len(content)}
        try:
            frames = Frames(content)
        except ValueError as error:
            region.errors.append(str(error))
        return None if region.errors else frames

    def null_bitmap(self, handle: Handle, footer: Region) -> None:
        found = self.bytes_at("null bitmap", handle, 4, footer)
        if found is not None:
            region, stored = found
            self.checksum(
                region,
                int.from_bytes(stored[-4:], "little"),
                self.dialect.checksum(stored[:-4], 0),
            )

    def data_blocks(
        self,
        index_region: Region,
        entries: list[IndexEntry],
        index: Block | None,
        filter: Filter | None,
        frames: Frames | None,
    ) -> list[Region]:
        regions: list[Region] = []
        before: bytes | None = None
        for number, entry in enumerate(entries):
            region, block = self.block_at(
                "data block", (entry.offset, entry.size), self.order, index_region, frames
            )
            if region is None:
                continue
            regions.append(region)
            region.number = number
            # A damaged index has its own errors; blocks get no errors because of it.
            if block is not None and index is not None and not region.errors:
                self.check_block(region, block, entry.last_key, before)
                if filter is not None and not region.errors:
                    self.check_filter(region, block, filter)
            before = entry.last_key
        return regions

    def check_block(
        self, region: Region, block: Block, last_key: bytes, before: bytes | None
    ) -> None:
        """Check that a block's keys lie between the index's last keys."""
        if len(block) == 0:
            region.errors.append("a data block without records")
            return
        if region.last_key != last_key:
            region.errors.append(
                f"last key {self.key(region.last_key)}, the index says {self.key(last_key)}"
            )
        if before is None:
            return
        try:
            late = block.lower_bound(before) == 0
        except ValueError:
            return  # the index has an error about a key of a wrong size
        if not late or (region.first_key == before and not self.repeats):
            region.errors.append(
                f"first key {self.key(region.first_key)} does not come after {self.key(before)}"
            )

    def check_filter(self, region: Region, block: Block, filter: Filter) -> None:
        """Check that the filter lets every key of a block pass."""
        hidden = filter.hides(BinaryColumn(block.to_arrow(0, len(block))[0]))
        if hidden:
            guilty = next(one for one in self.regions if one.kind == "filter")
            guilty.errors.append(f"hides {hidden} of {len(block)} keys of {region.name}")

    def key(self, key: bytes | None) -> str:
        return "none" if key is None else text(key, self.order)

    def properties(self, region: Region, blocks: list[Region] | None) -> None:
        """Decode the properties and compare them with the blocks, if these are known."""
        self.file.seek(region.offset)
        stored = self.file.read(region.size)
        try:
            block = Block(
                decompress(stored[-TRAILER_SIZE], stored[:-TRAILER_SIZE]),
                self.path,
                region.offset,
                "bytes",
            )
            records = dict(block.record(i) for i in range(len(block)))
        except (ValueError, FormatError, CorruptionError):
            return  # there is an error already
        region.fields = {name.decode(errors="replace"): _property(name, value)
                         for name, value in records.items()}  # fmt: skip
        try:
            said = unpack_properties(records)
        except ValueError as error:
            region.errors.append(str(error))
            return
        if blocks is None or any(block.errors for block in blocks):
            return  # damaged blocks cannot be counted
        codecs = dict(Counter(one.codec for one in blocks))
        for name, key, found in (
            ("records", "num_records", sum(one.records or 0 for one in blocks)),
            ("data.plain_bytes", "plain_bytes", sum(one.plain_size or 0 for one in blocks)),
            ("data.codec", "codecs", codecs),
            ("key.min", "min_key", blocks[0].first_key if blocks else None),
            ("key.max", "max_key", blocks[-1].last_key if blocks else None),
        ):
            if said[key] != found:
                region.errors.append(f"property {name} is {said[key]!r}, the blocks have {found!r}")

    def cover(self) -> None:
        """Sort the regions, and add regions for the bytes that none of them covers."""
        self.regions.sort(key=lambda region: (region.offset, region.size))
        covered = []
        at = 0
        for region in self.regions:
            if region.offset > at:
                gap = Region("unknown", at, region.offset - at)
                gap.errors.append("nothing points at these bytes")
                covered.append(gap)
            elif region.offset < at and covered[-1].errors and _has_right_checksum(region):
                covered[-1].errors.append(f"reaches into {region.name}, at offset {region.offset}")
            elif region.offset < at:
                region.errors.append(f"starts inside the region before it, which ends at {at}")
            covered.append(region)
            at = max(at, region.offset + region.size)
        self.regions = covered


def _has_right_checksum(region: Region) -> bool:
    checksum = region.checksum
    return checksum is not None and checksum.stored == checksum.found


def _records(block: Block, data: bytes | memoryview) -> Iterator[Record]:
    """Yield every record of a block with its offset in the bytes of the block, `data`."""
    count = len(block)
    tail = len(data) - 5
    (each,) = struct.unpack_from("<i", data, tail)
    for i in range(count):
        if block.aligned:
            offset = i * each
        else:
            (offset,) = struct.unpack_from("<i", data, tail - 4 * (count - i))
        yield Record(offset, *block.record(i))


def _reason(error: Exception) -> str:
    if isinstance(error, CorruptionError):
        return f"{error.expected}: {error.found}"
    return str(error)


def _property(name: bytes, value: bytes) -> Any:
    """Return a property as text, schemas as lists of fields, other bytes as hex."""
    if name in (b"key.schema", b"value.schema"):
        try:
            schema = pa.ipc.read_schema(pa.py_buffer(value))
            # A name that is not UTF-8 raises an error only when it is read.
            return [f"{one.name}: {one.type}{'' if one.nullable else ' not null'}"
                    for one in schema]  # fmt: skip
        except (pa.ArrowException, OSError, ValueError):
            return value.hex()
    if name in (b"key.min", b"key.max") or name.startswith(b"user."):
        return text(value)
    return value.decode(errors="replace")
