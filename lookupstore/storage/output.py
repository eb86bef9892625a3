"""A new file: written under a temporary name in large pieces, then synced and named."""

from __future__ import annotations

import contextlib
import errno
import os

import xxhash

from lookupstore.storage._writeback import start_writeback
from lookupstore.storage.naming import naming, sync_folder, temporary_name

# Size of a huge page: pieces have this size, at multiples of it. Where the file system supports it,
# the page cache then holds huge pages, with which lookups in the mapped file take two thirds of the
# time. It also takes such a piece in less than half of the time of blocks that end anywhere.
PIECE = 2 << 20
# Bytes to write before the disk is set to work on them; left to fsync, all of them would wait.
WRITEBACK = 4 << 20


class Output:
    """A file that becomes visible, complete and synced, in `finish`.

    The steps are a temporary name, fsync, link (rename with `overwrite`), fsync of the folder. One
    thread at a time may write.

    Raises:
        FileExistsError: The file exists and `overwrite` is False.
    """

    def __init__(self, path: str, *, overwrite: bool) -> None:
        self.path = path
        self.offset: int = 0
        self._overwrite = overwrite
        if not overwrite and os.path.lexists(path):
            raise FileExistsError(f"{path} exists; pass overwrite=True to replace it")
        folder, name = os.path.split(path)
        if not os.path.isdir(folder):
            raise FileNotFoundError(errno.ENOENT, "no such folder; make it first", folder)
        self._temporary = os.path.join(folder, temporary_name(name))
        # Own buffer instead of Python's, which a child of fork would flush, too.
        self._piece = memoryview(bytearray(PIECE))
        self._filled = 0
        self._writeback_from = 0
        self._hash = xxhash.xxh64()
        self._file = open(self._temporary, "xb", buffering=0)  # noqa: SIM115

    @property
    def closed(self) -> bool:
        """Return whether the file was finished or discarded."""
        return self._file.closed

    @property
    def xxh64(self) -> str:
        """Return the XXH64 of a finished file as `lookupstore.storage.local.file_hash` does."""
        return self._hash.hexdigest()

    def write(self, data: bytes | memoryview) -> None:
        """Append bytes."""
        rest = memoryview(data)
        while rest:
            taken = min(len(rest), len(self._piece) - self._filled)
            self._piece[self._filled : self._filled + taken] = rest[:taken]
            self._filled += taken
            self.offset += taken
            rest = rest[taken:]
            if self._filled == len(self._piece):
                self._flush()

    def _flush(self) -> None:
        rest = self._piece[: self._filled]
        self._hash.update(rest)
        with naming(self.path):
            while rest:
                rest = rest[self._file.write(rest) :]
        self._filled = 0
        if self.offset - self._writeback_from >= WRITEBACK:
            size = self.offset - self._writeback_from
            start_writeback(self._file.fileno(), self._writeback_from, size)
            self._writeback_from = self.offset

    def finish(self) -> None:
        """Write the rest, sync all of it, and give the file its name.

        Raises:
            FileExistsError: The file has appeared meanwhile and `overwrite` is False.
        """
        self._flush()
        with naming(self.path):
            os.fsync(self._file.fileno())
            self._file.close()
        if self._overwrite:
            os.replace(self._temporary, self.path)
            sync_folder(os.path.dirname(self.path))
        else:
            try:
                os.link(self._temporary, self.path)
            except FileExistsError:
                raise FileExistsError(
                    f"{self.path} was created meanwhile; pass overwrite=True to replace it"
                ) from None
            try:
                os.unlink(self._temporary)
                sync_folder(os.path.dirname(self.path))
            except BaseException:
                os.unlink(self.path)
                raise

    def discard(self) -> None:
        """Drop the data written so far; a finished file stays."""
        self._file.close()
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self._temporary)
