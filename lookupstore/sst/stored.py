"""One sorted file as regions and blocks: every handle and checksum is checked before use."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import cache, cached_property
from typing import Protocol

from lookupstore.errors import CorruptionError, FormatError
from lookupstore.sst._block import Block
from lookupstore.sst._map import FileMap, maps_open
from lookupstore.sst.codec import CODECS, decompress
from lookupstore.sst.format import (
    LONGEST_FOOTER,
    TRAILER_SIZE,
    Dialect,
    Footer,
    block_checksum,
    dialect_of,
    footer_in,
    unpack_footer,
    unpack_trailer,
)
from lookupstore.sst.zstd import PLAIN_FRAMES, Frames
from lookupstore.storage import descriptors
from lookupstore.storage.file_identity import identity_of
from lookupstore.storage.regular_file import open_regular

#: Bytes of blocks that are requested from the disk at once when a whole file is read in order.
AHEAD = 4 << 20


class Fill(Protocol):
    """A function that fetches bytes of a local copy before they are read.

    The file has its full size from the start. Only these calls change its bytes, and never bytes
    that were already correct.
    """

    @property
    def name(self) -> str:
        """Return the name of the file in errors."""

    @property
    def complete(self) -> bool:
        """Return whether all bytes are in the file."""

    def open(self) -> int:
        """Return a descriptor of the file; its path may name another file by now."""

    def __call__(self, ranges: Sequence[tuple[int, int]]) -> None:
        """Fetch the bytes of all ranges (offset, size), and return once they are in the file."""

    def expect(self, size: int) -> None:
        """Announce that a number of bytes will be requested, in the order of the file."""

    def repair(self, offset: int, size: int, is_right: Callable[[bytes], bool]) -> bool:
        """Fetch wrong bytes again, write them if they are correct now, and return whether so."""


# Size of the indexes and filters that are read in pieces of 2 MiB.
_LARGE = 1 << 20


class _Descriptor:
    """An open file, which is closed when its last user releases it."""

    def __init__(self, number: int) -> None:
        self.number = number

    def __del__(self) -> None:
        os.close(self.number)


@cache
def most_maps() -> int:
    """Return the maximum number of files to map: half of the maps that a process may have.

    A process without free maps could not allocate memory, either.
    """
    try:
        with open("/proc/sys/vm/max_map_count") as file:
            return int(file.read()) // 2
    except (OSError, ValueError):  # not on Linux
        return 1 << 15


class StoredFile(descriptors.Holder):
    """The regions and blocks of one file, with every handle and checksum verified.

    The file is mapped: bytes that are read are a view of the map, not a copy, and need no
    descriptor. Threads and children of fork may share it. It is closed when its last user releases
    it, so that closing a reader is safe while another thread is inside a call.

    A file that cannot be mapped is read through a descriptor, which may be closed to make room for
    others, and is opened again.

    Args:
        path: Path of the local file.
        fill: Function that fetches bytes before they are first read. Default: all bytes are in the
            file.

    Attributes:
        path: Name of the file in errors.
        map: Map of the whole file. None: its file system cannot map files, or too many are mapped.
        plain_bytes: Size of all data blocks before compression, in bytes, once the properties are
            read. None: the file does not record it.
    """

    plain_bytes: int | None = None

    def __init__(self, path: str, fill: Fill | None = None) -> None:
        self.path: str = path if fill is None else fill.name
        self._fill = fill
        if fill is None and os.path.isdir(path):
            raise IsADirectoryError(
                errno.EISDIR, "a folder, not a sorted file; lookupstore.open opens stores", path
            )
        self._descriptor: _Descriptor | None = self._open()
        status = os.fstat(self._descriptor.number)
        self._file = status.st_dev, status.st_ino
        self.size: int = status.st_size
        tail_size = min(self.size, LONGEST_FOOTER)
        tail = self._open_tail(tail_size)
        self.dialect: Dialect
        self.footer: Footer
        try:
            self.dialect, self.footer = self._parse_footer(tail)
        except (FormatError, CorruptionError):
            if fill is None or not fill.repair(
                self.size - tail_size, tail_size, self._is_right_tail
            ):
                raise
            tail = self._open_tail(tail_size)
            self.dialect, self.footer = self._parse_footer(tail)
        footer = self._footer_bytes = footer_in(self.dialect, tail)
        self.footer_offset: int = self.size - len(footer)
        # Files with one identity share blocks in a cache, even if their paths differ. A young file
        # shares nothing: storing its blocks twice is cheap.
        stored = identity_of("", status)
        self.identity: tuple[object, ...] = (
            status.st_dev,
            stored.parts,
            footer,
            object() if stored.is_young else None,
        )
        if self.map is None:
            descriptors.took(self, 1)
        else:
            self._descriptor = None

    def __del__(self) -> None:
        if self.descriptors:
            descriptors.gave(self)

    def give_way(self) -> None:
        """Close the file; the next read opens it again."""
        self._descriptor = None
        descriptors.gave(self)

    def _open(self) -> _Descriptor:
        if self._fill is not None:
            return _Descriptor(self._fill.open())
        return _Descriptor(open_regular(self.path))

    def _opened(self) -> _Descriptor:
        """Return the open file, and open it again if it was closed to make room."""
        descriptor = self._descriptor
        if descriptor is not None:
            descriptors.used(self)
            return descriptor
        descriptor = self._open()
        status = os.fstat(descriptor.number)
        if (status.st_dev, status.st_ino) != self._file:
            raise FileNotFoundError(errno.ENOENT, "replaced since it was opened", self.path)
        if self.map is None:
            self._descriptor = descriptor
            descriptors.took(self, 1)
        return descriptor

    def _open_tail(self, size: int) -> bytes:
        """Map the file, after its end was fetched, and return its last bytes."""
        self.fill([(self.size - size, size)])
        self.map: FileMap | None = self._open_map()
        tail = bytes(self.read(self.size - size, size, "footer"))
        self.check_whole()
        return tail

    def _parse_footer(self, tail: bytes) -> tuple[Dialect, Footer]:
        dialect = dialect_of(tail)
        if dialect is None:
            raise FormatError(
                f"{self.path}: not a sorted lookup file ({self.size} bytes, no known magic)"
            )
        try:
            return dialect, unpack_footer(dialect, footer_in(dialect, tail))
        except FormatError as error:
            raise FormatError(f"{self.path}: {error}") from None
        except ValueError as error:
            raise CorruptionError(
                self.path, self.size - dialect.footer_size, "a footer", error
            ) from None

    def _is_right_tail(self, tail: bytes) -> bool:
        try:
            self._parse_footer(tail)
        except (FormatError, CorruptionError):
            return False
        return True

    def _open_map(self) -> FileMap | None:
        if not self.size or maps_open() >= most_maps():
            return None
        try:
            descriptor = self._opened()
            return FileMap(descriptor.number, self.size)
        except OSError:
            return None  # ENODEV: some network and FUSE file systems

    @property
    def is_here(self) -> bool:
        """Return whether all bytes are in the file."""
        return self._fill is None or self._fill.complete

    def settled_identity(self) -> object | None:
        """Return an identity that no other file of this host has. None: there is none yet.

        A file that was written a moment ago may change again without a change of its time.
        """
        if not self.is_here:
            return None
        descriptor = self._opened()
        status = os.fstat(descriptor.number)
        now = identity_of("", status)
        if now.is_young or status.st_size != self.size:
            return None
        return status.st_dev, now.parts, self._footer_bytes

    def drop_scattered(self) -> None:
        """Release pages of the map that were read singly, before all of it is read."""
        if self.map is not None:
            # Its name may lead to another file by now: then they stay.
            with suppress(OSError):
                descriptor = self._opened()
                self.map.drop_scattered(descriptor.number)

    def is_cached(self) -> bool | None:
        """Return whether all of the file is in memory. None: the system does not tell."""
        with suppress(OSError):  # its name leads to another file by now
            descriptor = self._opened()  # without this reference, it would be closed at once
            return FileMap.is_cached(descriptor.number, self.size)
        return None

    def check_whole(self) -> None:
        """Raise CorruptionError if the file has been truncated since it was opened."""
        if self.map is not None and self.map.broken:
            size, found = self.size, "truncated meanwhile or unreadable"
            try:
                descriptor = self._opened()
                size = os.fstat(descriptor.number).st_size
                found = f"{size}" if size < self.size else f"{size}, {found}"
            except OSError:  # its path names another file, or no file
                pass
            raise CorruptionError(
                self.path, min(size, self.size), f"a file of {self.size} bytes", found
            )

    def fill(self, ranges: Sequence[tuple[int, int]]) -> None:
        """Fetch the bytes of all ranges that are in the file, in one call if there are many."""
        if self._fill is not None:
            self._fill([(at, size) for at, size in ranges if 0 <= at < at + size <= self.size])

    def fill_blocks(self, handles: Sequence[tuple[int, int]]) -> None:
        """Fetch blocks, including their trailers."""
        if self._fill is not None:
            self.fill([(offset, size + TRAILER_SIZE) for offset, size in handles])

    def filled(
        self, handles: Sequence[tuple[int, int]], numbers: Sequence[int], *, kept: bool = False
    ) -> Iterator[int]:
        """Yield numbers of adjacent blocks as soon as each block can be read.

        Args:
            handles: Handles of all blocks.
            numbers: Numbers of the blocks to read, in this order.
            kept: Whether to read a map in the way that is best for later lookups, not the fastest
                one.
        """
        if self.map is not None and self.is_here:
            yield from self._ahead(self.map, handles, numbers, kept)
            return
        if self._fill is None:
            yield from numbers
            return
        sizes = [handles[number][1] + TRAILER_SIZE for number in numbers]
        self._fill.expect(sum(sizes))
        filled = 0
        for position, number in enumerate(numbers):
            if position == filled:
                room = AHEAD
                while filled < len(sizes) and room > 0:
                    room -= sizes[filled]
                    filled += 1
                self.fill_blocks([handles[each] for each in numbers[position:filled]])
            yield number

    @staticmethod
    def _ahead(
        mapped: FileMap, handles: Sequence[tuple[int, int]], numbers: Sequence[int], kept: bool
    ) -> Iterator[int]:
        """Yield numbers of blocks, after requesting up to `AHEAD` bytes from the disk."""
        asked = ahead = 0
        for number in numbers:
            if ahead <= AHEAD // 2 and asked < len(numbers):
                first = asked
                while asked < len(numbers) and ahead < AHEAD:
                    ahead += handles[numbers[asked]][1]
                    asked += 1
                low, high = sorted((numbers[first], numbers[asked - 1]))
                start, end = handles[low][0], sum(handles[high]) + TRAILER_SIZE
                if kept:
                    mapped.populate(start, end - start)
                else:
                    mapped.ahead(start, end - start)
            yield number
            ahead -= handles[number][1]

    def read(self, offset: int, size: int, what: str) -> bytes | memoryview:
        """Return exactly `size` bytes, which must be inside the file."""
        self.fill([(offset, size)])
        if self.map is not None:
            self.map.ahead(offset, size)
            return memoryview(self.map)[offset : offset + size]
        descriptor = self._opened()
        parts = []
        have = 0
        while have < size:  # reads of more than 2 GiB return parts
            part = os.pread(descriptor.number, size - have, offset + have)
            if not part:
                raise CorruptionError(self.path, offset, f"{what} of {size} bytes", f"{have}")
            parts.append(part)
            have += len(part)
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def populate(self, handle: tuple[int, int]) -> None:
        """Read a large region that all lookups use, so that it stays in large pages.

        Args:
            handle: Handle of an index or a filter.
        """
        offset, size = handle
        if self.map is not None and _LARGE <= size <= self.size and 0 <= offset <= self.size:
            self.fill([(offset, size)])
            self.map.populate(offset, size)

    def region(self, handle: tuple[int, int], trailer: int, what: str) -> bytes | memoryview:
        """Return the bytes of a handle and its trailer, which must be before the footer."""
        offset, size = handle
        if offset < 0 or size < 0 or offset + size + trailer > self.footer_offset:
            raise CorruptionError(
                self.path,
                self.footer_offset,
                f"{what} before offset {self.footer_offset}",
                f"offset {offset} and size {size}",
            )
        return self.read(offset, size + trailer, what)

    def payload(self, handle: tuple[int, int], what: str) -> tuple[int, bytes | memoryview]:
        """Return codec id and payload of a block, after checking its checksum."""
        codec, payload, expected, found = self._checked(self.region(handle, TRAILER_SIZE, what))
        self.check_whole()
        if (
            found != expected
            and self._fill is not None
            and self._fill.repair(handle[0], handle[1] + TRAILER_SIZE, self._is_right_block)
        ):
            codec, payload, expected, found = self._checked(self.region(handle, TRAILER_SIZE, what))
            self.check_whole()
        if found != expected:
            raise CorruptionError(
                self.path,
                handle[0],
                f"{what} of {self.dialect.checksum_name} {expected:08x}",
                f"{found:08x}",
            )
        return codec, payload

    def _checked(self, stored: bytes | memoryview) -> tuple[int, bytes | memoryview, int, int]:
        """Return codec id, payload, the stored checksum and the computed checksum."""
        payload = stored[:-TRAILER_SIZE]
        codec, expected = unpack_trailer(stored[-TRAILER_SIZE:])
        return codec, payload, expected, block_checksum(self.dialect, codec, payload)

    def _is_right_block(self, stored: bytes) -> bool:
        _, _, expected, found = self._checked(stored)
        return expected == found

    def block(self, handle: tuple[int, int], what: str, order: str) -> Block:
        """Return a decoded block."""
        return self._decoded(handle, what, order, None, PLAIN_FRAMES)[1]

    def data_block(self, handle: tuple[int, int], number: int, order: str) -> Block:
        """Return a decoded data block."""
        return self.coded_block(handle, number, order)[1]

    def coded_block(self, handle: tuple[int, int], number: int, order: str) -> tuple[str, Block]:
        """Return the codec name of a stored data block, and the decoded block.

        The decoded block is not larger than the recorded size of all data blocks.
        """
        what = f"data block {number}"
        return self._decoded(handle, what, order, self.plain_bytes, self.frames)

    @cached_property
    def frames(self) -> Frames:
        """The decompressor of the data blocks, with the dictionary of the file if there is one."""
        handle = self.footer.dictionary
        if handle is None:
            return PLAIN_FRAMES
        codec, content = self.payload(handle, "dictionary")
        if codec != 0:
            raise CorruptionError(self.path, handle[0], "a plain dictionary", f"codec id {codec}")
        try:
            return Frames(content)
        except ValueError as error:
            raise CorruptionError(self.path, handle[0], "a dictionary", error) from None

    def _decoded(
        self, handle: tuple[int, int], what: str, order: str, most: int | None, frames: Frames
    ) -> tuple[str, Block]:
        """Return the codec name of a stored block, and the decoded block.

        Args:
            handle: Handle of the block: its offset, and its size without the trailer.
            what: Name of the block, for errors.
            order: Key order of the block.
            most: Largest number of bytes that the block may have. None: unknown.
            frames: Decompressor of the zstd frames of the file.
        """
        codec, payload = self.payload(handle, what)
        try:
            data = decompress(codec, payload, most, frames)
        except FormatError as error:
            raise FormatError(f"{self.path}: offset {handle[0]}: {what}: {error}") from None
        except ValueError as error:
            self.check_whole()
            raise CorruptionError(self.path, handle[0], what, error) from None
        self.check_whole()  # it may have been truncated since its checksum was checked
        return CODECS[codec].name, Block(data, self.path, handle[0], order)
