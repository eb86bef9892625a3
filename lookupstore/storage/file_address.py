"""A file somewhere: on a file system of pyarrow's, where readers of columnar files find it.

Of a file of this machine and of an object they read alike, but not as much at a time; errors of the
one say what is wrong, of the other they may be of the way there.
"""

from __future__ import annotations

import os
from contextlib import AbstractContextManager
from dataclasses import dataclass

import pyarrow as pa
from pyarrow import fs

from lookupstore.storage.read_errors import read_error, reading
from lookupstore.storage.uris import told_by

#: What one read of a column asks for. Of a disk little, since it is held for each column; of an
#: object store more, since each request takes its time.
DISK_BYTES = 256 << 10
_STORE_BYTES = 4 << 20


@dataclass(frozen=True)
class FileAddress:
    """Where a file is, and how it is read there.

    Attributes:
        filesystem: that has it.
        path: of the file on it.
        shown: what people see of it.
    """

    filesystem: fs.FileSystem
    path: str
    shown: str

    @classmethod
    def on(cls, filesystem: fs.FileSystem, path: str) -> FileAddress:
        """Return the address of a file, which people see as its path, or as a URI.

        >>> FileAddress.on(fs.LocalFileSystem(), "/data/a.parquet").shown
        '/data/a.parquet'
        """
        shown = path if is_local(filesystem) else f"{filesystem.type_name}://{path}"
        return cls(filesystem, path, shown)

    def open(self) -> pa.NativeFile:
        """Open the file."""
        return self.filesystem.open_input_file(self.path)

    def reading(self, what: str, *, gone: str | None = None) -> AbstractContextManager[None]:
        """Let errors of reading it name it, and say what is wrong; see `read_errors.reading`."""
        return reading(
            self.shown, what, local=is_local(self.filesystem), gone=gone, told=self._told
        )

    def read_error(self, error: Exception, what: str, *, gone: str | None = None) -> Exception:
        """Return what an error of reading it means; see `read_errors.read_error`."""
        return read_error(
            error, self.shown, what, local=is_local(self.filesystem), gone=gone, told=self._told
        )

    def _told(self, message: str) -> str:
        """Return a message of the file system without its options."""
        return told_by(self.filesystem, message, self.shown)

    @property
    def page_bytes(self) -> int:
        """Return how much of a column to read at a time, page after page."""
        return DISK_BYTES if is_local(self.filesystem) else _STORE_BYTES

    @property
    def column_bytes(self) -> int:
        """Return how much of a column to read at a time if all of it will be; 0: all at once."""
        return DISK_BYTES if is_local(self.filesystem) else 0

    @property
    def mode(self) -> int:
        """Return the most that a copy of it may let others do, as who wrote it wants it."""
        if not is_local(self.filesystem):
            return 0o666
        return os.stat(self.path).st_mode & 0o666


def is_local(filesystem: fs.FileSystem) -> bool:
    """Return whether files of a file system are on a disk of this machine."""
    return isinstance(filesystem, fs.LocalFileSystem)


def written_ns(info: fs.FileInfo) -> int | None:
    """Return when a file was last written, in nanoseconds since 1970; None if nobody knows.

    Arrow's S3 client reads a time with one or two digits after the point, which some servers list,
    as 1970: of such a file nobody may say that it is old.
    """
    return info.mtime_ns or None
