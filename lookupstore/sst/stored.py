"""One sorted file as regions and blocks: every handle and checksum is checked before use."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator, Sequence
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

#: Bytes of blocks that are asked for at once where all of a file is read, in its order.
AHEAD = 4 << 20


class Fill(Protocol):
    """A function that fetches bytes of a local copy before they are read.

    The file has its full size from the start. Its bytes change by these calls only, and never where
    they were right.
    """

    @property
    def name(self) -> str:
        """Return what errors call the file."""

    def open(self) -> int:
        """Return a descriptor of the file; another file may have its path."""

    def __call__(self, ranges: Sequence[tuple[int, int]]) -> None:
        """Return when the bytes of all ranges (offset, size) are in the file."""

    def expect(self, size: int) -> None:
        """Take note that so many bytes are going to be asked for, in the order of the file."""

    def repair(self, offset: int, size: int, is_right: Callable[[bytes], bool]) -> bool:
        """Fetch bytes again that are wrong, and write them if they are right now; whether so."""


class _Descriptor:
    """An open file, which is closed when its last user lets go."""

    def __init__(self, number: int) -> None:
        self.number = number

    def __del__(self) -> None:
        os.close(self.number)


@cache
def most_maps() -> int:
    """Return how many files are mapped at most: half of the maps that a process may have.

    Without a map left, memory could not be had either.
    """
    try:
        with open("/proc/sys/vm/max_map_count") as file:
            return int(file.read()) // 2
    except (OSError, ValueError):  # not on Linux
        return 1 << 15


class StoredFile(descriptors.Holder):
    """The regions and blocks of one file, with every handle and checksum verified.

    The file is mapped: what is read of it is a view of the map, not a copy, and no descriptor is
    needed for it. Threads and children of fork may share it. It is closed when the last user lets
    go, which makes closing a reader safe while another thread is inside a call.

    A file that cannot be mapped is read through a descriptor, which gives way to others.

    Args:
        path: local file.
        fill: asked for all bytes before they are first read; None: they are there.

    Attributes:
        path: what errors call the file.
        map: of the whole file; None where its file system cannot map files, or too many are.
        plain_bytes: of all data blocks before compression, once the file has been asked; None: it
            does not say.
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
        footer = footer_in(self.dialect, tail)
        self.footer_offset: int = self.size - len(footer)
        # Files of one identity share blocks in a cache, whatever their paths are. A young file is
        # nobody's but its own: what is in a cache is cheap to have twice.
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
        """Return the open file, which is opened again if it has given way."""
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
        """Map the file, whose end must be there before, and return its last bytes."""
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

    def check_whole(self) -> None:
        """Raise CorruptionError if the file has been cut since it was opened."""
        if self.map is not None and self.map.broken:
            size, found = self.size, "truncated meanwhile or unreadable"
            try:
                descriptor = self._opened()
                size = os.fstat(descriptor.number).st_size
                found = f"{size}" if size < self.size else f"{size}, {found}"
            except OSError:  # its name leads to another file, or nowhere
                pass
            raise CorruptionError(
                self.path, min(size, self.size), f"a file of {self.size} bytes", found
            )

    def fill(self, ranges: Sequence[tuple[int, int]]) -> None:
        """Fill the bytes of all ranges that lie in the file: one call where many are read."""
        if self._fill is not None:
            self._fill([(at, size) for at, size in ranges if 0 <= at < at + size <= self.size])

    def fill_blocks(self, handles: Sequence[tuple[int, int]]) -> None:
        """Fill blocks, with their trailers."""
        if self._fill is not None:
            self.fill([(offset, size + TRAILER_SIZE) for offset, size in handles])

    def filled(self, handles: Sequence[tuple[int, int]], numbers: Sequence[int]) -> Iterator[int]:
        """Yield numbers of blocks that lie one after the other, each when its block is there.

        Args:
            handles: of all blocks.
            numbers: of those that are read, in this order.
        """
        if self._fill is None:
            yield from numbers if self.map is None else self._ahead(self.map, handles, numbers)
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
        mapped: FileMap, handles: Sequence[tuple[int, int]], numbers: Sequence[int]
    ) -> Iterator[int]:
        """Yield numbers of blocks, with up to `AHEAD` bytes asked for from the disk before them."""
        asked = ahead = 0
        for number in numbers:
            if ahead <= AHEAD // 2 and asked < len(numbers):
                first = asked
                while asked < len(numbers) and ahead < AHEAD:
                    ahead += handles[numbers[asked]][1]
                    asked += 1
                low, high = sorted((numbers[first], numbers[asked - 1]))
                start = handles[low][0]
                mapped.ahead(start, sum(handles[high]) + TRAILER_SIZE - start)
            yield number
            ahead -= handles[number][1]

    def read(self, offset: int, size: int, what: str) -> bytes | memoryview:
        """Return exactly `size` bytes, which must lie in the file."""
        self.fill([(offset, size)])
        if self.map is not None:
            self.map.ahead(offset, size)
            return memoryview(self.map)[offset : offset + size]
        descriptor = self._opened()
        parts = []
        have = 0
        while have < size:  # reads of more than 2 GiB come in parts
            part = os.pread(descriptor.number, size - have, offset + have)
            if not part:
                raise CorruptionError(self.path, offset, f"{what} of {size} bytes", f"{have}")
            parts.append(part)
            have += len(part)
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def region(self, handle: tuple[int, int], trailer: int, what: str) -> bytes | memoryview:
        """Return the bytes of a handle and its trailer, which must lie before the footer."""
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
        """Return codec id and payload of a block whose checksum is right."""
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
        """Return codec id, payload, and the checksum as it is stored and as it is."""
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
        """Return the name of the codec that a data block was stored with, and the decoded block.

        It is no more than the file says that all of them are.
        """
        what = f"data block {number}"
        return self._decoded(handle, what, order, self.plain_bytes, self.frames)

    @cached_property
    def frames(self) -> Frames:
        """What decompresses the data blocks; it has the dictionary of the file, if there is one."""
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
        """Return the name of the codec that a block was stored with, and the decoded block.

        Args:
            handle: of the block.
            what: it is, for errors.
            order: of its keys.
            most: bytes of it; None: nobody knows.
            frames: what decompresses it, if it is of zstd.
        """
        codec, payload = self.payload(handle, what)
        try:
            data = decompress(codec, payload, most, frames)
        except FormatError as error:
            raise FormatError(f"{self.path}: offset {handle[0]}: {what}: {error}") from None
        except ValueError as error:
            self.check_whole()
            raise CorruptionError(self.path, handle[0], what, error) from None
        self.check_whole()  # it may have been cut since its checksum was right
        return CODECS[codec].name, Block(data, self.path, handle[0], order)
