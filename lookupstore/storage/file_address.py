"""The address of a file on a file system of pyarrow's, for readers of columnar files.

A local file and an object are read alike, but not with reads of the same size. An error of a local
file tells what is wrong with it; one of an object may be an error of the connection.
"""

from __future__ import annotations

import os
from bisect import bisect_left
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass

import pyarrow as pa
from pyarrow import fs

from lookupstore.errors import CorruptionError
from lookupstore.storage.read_errors import read_error, reading
from lookupstore.storage.remote_file import RemoteArrowFile, RemoteFile, RemoteStream, at_once
from lookupstore.storage.s3_client import reads_of
from lookupstore.storage.uris import told_by

#: Bytes of a column that one read asks for: few on a disk, since they are held for each column, and
#: more on an object store, since each request takes its time.
DISK_BYTES = 256 << 10
_STORE_BYTES = 4 << 20
# Bytes between two ranges that are read, too, rather than by another read: a request of an object
# store takes as long as these bytes of an answer.
_DISK_GAP, _STORE_GAP = 4 << 10, 512 << 10
# Bytes of a read from which on no further range is read by it: the bytes between ranges are in
# memory, too.
_MOST_AT_ONCE = 4 << 20
# Bytes to read at the end of a Parquet file at first: most footers are shorter. On a disk, a second
# read takes no time.
_DISK_ENDING, _STORE_ENDING = 4 << 10, 64 << 10


@dataclass(frozen=True)
class FileAddress:
    """The address of a file, with the way to read it there.

    Attributes:
        filesystem: File system of pyarrow that has the file.
        path: Path of the file in the file system.
        shown: Path or URI of the file for people.
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

    @property
    def is_remote(self) -> bool:
        """Return whether most of the time of a read is spent waiting for an answer."""
        return not is_local(self.filesystem)

    def open(self, nbytes: int | None = None) -> pa.NativeFile:
        """Open the file.

        Args:
            nbytes: Size of the file, if it is known: then S3 is not asked for it. A file of another
                size raises CorruptionError when it is opened or first read. None: unknown.
        """
        if nbytes is not None and reads_of(self.filesystem) is not None:
            remote = RemoteFile(self.filesystem, self.path, nbytes=nbytes, uri=self.shown)
            return RemoteArrowFile(RemoteStream(remote), mode="r")
        file = self.filesystem.open_input_file(self.path)
        if nbytes is not None and file.size() != nbytes:
            found = file.size()
            file.close()
            raise CorruptionError(self.shown, 0, f"{nbytes} bytes", f"{found} bytes")
        return file

    def fetched(self, nbytes: int) -> FetchedFile:
        """Read all bytes of the file, and return its address with them.

        Args:
            nbytes: Size of the file, as for `open`.
        """
        with self.open(nbytes) as file:
            content = file.read_at(nbytes, 0)
        return FetchedFile(self.filesystem, self.path, self.shown, content)

    def open_whole(self, nbytes: int | None = None, most: int = _STORE_BYTES) -> pa.NativeFile:
        """Open the file to read most of it: a small object is read at once, by one request.

        Args:
            nbytes: Size of the file, as for `open`.
            most: Largest size of such an object.
        """
        file = self.open(nbytes)
        if is_local(self.filesystem) or file.size() > most:
            return file
        with file:
            return pa.BufferReader(file.read_at(file.size(), 0))

    def read_ranges(self, file: pa.NativeFile, ranges: Sequence[tuple[int, int]]) -> list[bytes]:
        """Return ranges of bytes; those that are near each other are read at once.

        Args:
            file: The file, open.
            ranges: Offset and size of each range, which may have no bytes.
        """
        wanted = sorted({one for one in ranges if one[1]})
        runs: list[list[int]] = []
        for offset, size in wanted:
            end = offset + size
            if runs and self._is_near(offset, *runs[-1]):
                runs[-1][1] = max(runs[-1][1], end)
            else:
                runs.append([offset, end])
        found: dict[tuple[int, int], bytes] = {}

        def read(start: int, end: int) -> None:
            data = file.read_at(end - start, start)
            first, last = bisect_left(wanted, (start, 0)), bisect_left(wanted, (end, 0))
            for offset, size in wanted[first:last]:
                found[offset, size] = data[offset - start : offset - start + size]

        if is_local(self.filesystem):
            for start, end in runs:
                read(start, end)
        elif runs:
            at_once(read, [(start, end) for start, end in runs])
        return [found[one] if one[1] else b"" for one in ranges]

    def _is_near(self, offset: int, start: int, end: int) -> bool:
        """Return whether a range that begins at an offset belongs to the read of another one."""
        gap = _DISK_GAP if is_local(self.filesystem) else _STORE_GAP
        return offset < end or (offset <= end + gap and offset - start < _MOST_AT_ONCE)

    def reading(
        self,
        what: str,
        *,
        gone: str | None = None,
        place: Callable[[], int | None] | None = None,
    ) -> AbstractContextManager[None]:
        """Let errors of reading name the file and the fault; see `read_errors.reading`."""
        local = is_local(self.filesystem)
        return reading(self.shown, what, local=local, gone=gone, told=self._told, place=place)

    def read_error(
        self,
        error: Exception,
        what: str,
        *,
        gone: str | None = None,
        place: Callable[[], int | None] | None = None,
    ) -> Exception:
        """Return the meaning of an error of reading the file; see `read_errors.read_error`."""
        local = is_local(self.filesystem)
        return read_error(
            error, self.shown, what, local=local, gone=gone, told=self._told, place=place
        )

    def _told(self, message: str) -> str:
        """Return a message of the file system without its options."""
        return told_by(self.filesystem, message, self.shown)

    @property
    def page_bytes(self) -> int:
        """Return how many bytes of a column to read at a time, page after page."""
        return DISK_BYTES if is_local(self.filesystem) else _STORE_BYTES

    @property
    def ending_bytes(self) -> int:
        """Return how many bytes to read first at the end of a Parquet file."""
        return _DISK_ENDING if is_local(self.filesystem) else _STORE_ENDING

    @property
    def column_bytes(self) -> int:
        """Return how many bytes to read at a time of a whole column; 0 for all at once."""
        return DISK_BYTES if is_local(self.filesystem) else 0

    @property
    def mode(self) -> int:
        """Return the most permissions that a copy of the file may have, as its writer wants it."""
        if not is_local(self.filesystem):
            return 0o666
        return os.stat(self.path).st_mode & 0o666


@dataclass(frozen=True)
class FetchedFile(FileAddress):
    """The address of a file whose bytes are in memory.

    Attributes:
        content: The bytes.
    """

    content: bytes

    def open(self, nbytes: int | None = None) -> pa.NativeFile:
        """Open the bytes; see `FileAddress.open`."""
        return pa.BufferReader(self.content)


def is_local(filesystem: fs.FileSystem) -> bool:
    """Return whether files of a file system are on a disk of this machine."""
    return isinstance(filesystem, fs.LocalFileSystem)


def written_ns(info: fs.FileInfo) -> int | None:
    """Return when a file was last written, in nanoseconds since 1970; None if it is not known.

    Arrow's S3 client reads a time with one or two digits after the point, which some servers list,
    as 1970: such a file must not be taken for an old one.
    """
    return info.mtime_ns or None
