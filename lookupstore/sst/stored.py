"""One sorted file as regions and blocks: every handle and checksum is checked before use."""

from __future__ import annotations

import os
import time

from lookupstore.errors import CorruptionError, FormatError
from lookupstore.sst._block import Block
from lookupstore.sst._map import FileMap
from lookupstore.sst.codec import decompress
from lookupstore.sst.format import (
    CODECS,
    LONGEST_FOOTER,
    TRAILER_SIZE,
    Dialect,
    Footer,
    block_checksum,
    dialect_of,
    unpack_footer,
    unpack_trailer,
)

# FAT has the coarsest clock of the file systems in use: 2 seconds.
_YOUNG = 2_000_000_000


class StoredFile:
    """Read regions and blocks of one file, checking every handle and checksum.

    The file is mapped: what is read of it is a view of the map, not a copy. Threads and children of
    fork may share it. It is closed when the last user lets go, which makes closing a reader safe
    while another thread is inside a call.

    Attributes:
        map: of the whole file; None where its file system cannot map files.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self._descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_CLOEXEC", 0))
        status = os.fstat(self._descriptor)
        self.size = status.st_size
        self.map = self._open_map()
        tail = bytes(
            self.read(max(0, self.size - LONGEST_FOOTER), min(self.size, LONGEST_FOOTER), "footer")
        )
        self.check_whole()
        dialect = dialect_of(tail)
        if dialect is None:
            raise FormatError(
                f"{path}: not a sorted lookup file ({self.size} bytes, no known magic)"
            )
        self.dialect: Dialect = dialect
        self.footer_offset = self.size - dialect.footer_size
        footer = tail[-dialect.footer_size :]
        try:
            self.footer: Footer = unpack_footer(dialect, footer)
        except FormatError as error:
            raise FormatError(f"{path}: {error}") from None
        except ValueError as error:
            raise CorruptionError(path, self.footer_offset, "a footer", error) from None
        # Files of one identity share blocks in a cache. The clock of a file system can be coarser
        # than a rewrite is fast, so a young file is nobody's but its own.
        young = time.time_ns() - status.st_mtime_ns < _YOUNG
        self.identity = (
            status.st_dev,
            status.st_ino,
            status.st_mtime_ns,
            self.size,
            footer,
            object() if young else None,
        )

    def __del__(self) -> None:
        if hasattr(self, "_descriptor"):
            os.close(self._descriptor)

    def _open_map(self) -> FileMap | None:
        try:
            return FileMap(self._descriptor, self.size) if self.size else None
        except OSError:
            return None  # ENODEV: some network and FUSE file systems

    def check_whole(self) -> None:
        """Raise CorruptionError if the file has been cut since it was opened."""
        if self.map is not None and self.map.broken:
            size = os.fstat(self._descriptor).st_size
            found = f"{size}" if size < self.size else f"{size}, cut in between or not readable"
            raise CorruptionError(
                self.path, min(size, self.size), f"a file of {self.size} bytes", found
            )

    def read(self, offset: int, size: int, what: str) -> bytes | memoryview:
        """Return exactly `size` bytes, which must lie in the file."""
        if self.map is not None:
            return memoryview(self.map)[offset : offset + size]
        parts = []
        have = 0
        while have < size:  # reads of more than 2 GiB come in parts
            part = os.pread(self._descriptor, size - have, offset + have)
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
        stored = self.region(handle, TRAILER_SIZE, what)
        payload = stored[:-TRAILER_SIZE]
        codec, expected = unpack_trailer(stored[-TRAILER_SIZE:])
        found = block_checksum(self.dialect, codec, payload)
        self.check_whole()
        if found != expected:
            raise CorruptionError(
                self.path,
                handle[0],
                f"{what} of {self.dialect.checksum_name} {expected:08x}",
                f"{found:08x}",
            )
        return codec, payload

    def block(self, handle: tuple[int, int], what: str, order: str) -> Block:
        """Return a decoded block."""
        return self.coded_block(handle, what, order)[1]

    def coded_block(self, handle: tuple[int, int], what: str, order: str) -> tuple[str, Block]:
        """Return the name of the codec that a block was stored with, and the decoded block."""
        codec, payload = self.payload(handle, what)
        try:
            data = decompress(codec, payload)
        except FormatError as error:
            raise FormatError(f"{self.path}: offset {handle[0]}: {what}: {error}") from None
        except ValueError as error:
            self.check_whole()
            raise CorruptionError(self.path, handle[0], what, error) from None
        self.check_whole()  # it may have been cut since its checksum was right
        return CODECS[codec], Block(data, self.path, handle[0], order)
