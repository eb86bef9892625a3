"""Files of a host that are made one after another, for which room is reserved together.

`LookupFiles.make` looks at all files of the cache for each file that it makes, and syncs the file.
That takes longer than it takes to write a small file, of which a table has thousands.
"""

from __future__ import annotations

import os
import shutil
import threading
import uuid
from contextlib import ExitStack, suppress
from functools import cached_property
from types import TracebackType

from lookupstore.hostcache.folder import (
    BLOCK_BYTES,
    COPY,
    LOOKUP_FILE_NAME,
    ROOM,
    HostFolder,
    room_of,
)
from lookupstore.hostcache.lookup_files import LookupFiles
from lookupstore.hostcache.own_folder import open_own

# Room that is reserved at a time: this many bytes, but at most this part of the quota. To reserve
# it, all files of the cache are looked at.
_STEP = 256 << 20
_SHARE = 16


class FileSeries:
    """Files of a host that one call makes, in any number of threads.

    The files are not synced: after a crash of the host they may lack bytes, which their readers
    have to notice. Nothing is left of a file that was not finished.

    Args:
        folder: Folder of the host's files.
        files: Its lookup files, among which these are kept.
    """

    def __init__(self, folder: HostFolder, files: LookupFiles) -> None:
        self._folder = folder
        self._files = files
        self._lock = threading.Lock()
        self._held = ExitStack()
        self._own: str | None = None  # folder of the files that are being made
        self._reserved = 0
        self._free = 0  # part of the reserved bytes that no file needs
        self._begun = 0

    def begin(self, name: str) -> SeriesFile:
        """Begin a file, which the host has when it is finished.

        Args:
            name: Name that identifies the content of the file: 32 hexadecimal digits.

        Raises:
            DiskQuotaError: Files in use leave no room.
            OSError: The folder cannot be written.
            ValueError: If the name is not that of a file.
        """
        if LOOKUP_FILE_NAME.fullmatch(name) is None:
            raise ValueError(f"name={name!r}; give 32 hexadecimal digits")
        with self._lock:
            if self._own is None:
                maker = self._files.maker_of(f"{uuid.uuid4().hex}{COPY}")
                self._own = self._held.enter_context(maker)
            self._begun += 1
            path = os.path.join(self._own, f"{name}-{self._begun}")
        self.take(BLOCK_BYTES, path)
        return SeriesFile(self, path, self._files.path_of(name))

    def take(self, nbytes: int, path: str) -> None:
        """Reserve bytes for a file.

        Args:
            nbytes: Number of bytes that the file will have more.
            path: Path of the file, for errors.

        Raises:
            DiskQuotaError: Files in use leave no room.
        """
        with self._lock:
            if nbytes > self._free:
                more = max(nbytes, self._step)
                name = os.path.basename(path)
                self._folder.give_room(self._room, name, "it takes", self._reserved + more)
                self._reserved += more
                self._free += more
            self._free -= nbytes

    def give_back(self, nbytes: int) -> None:
        """Free bytes that were reserved for a file."""
        with self._lock:
            self._free += nbytes

    def finish(self, path: str, target: str, taken: int) -> None:
        """Give a file its name; one of that name, which has the same content, is replaced.

        Args:
            path: Path of the file.
            target: Path under which the host has the file.
            taken: Number of bytes that were reserved for it.
        """
        with self._lock, self._folder.locked():
            nbytes = room_of(os.stat(path).st_size)
            os.rename(path, target)
            # From now on the file itself counts.
            self._reserved -= nbytes
            self._free += taken - nbytes
            os.truncate(self._room, self._reserved)

    @property
    def _room(self) -> str:
        assert self._own is not None
        return os.path.join(self._own, ROOM)

    @cached_property
    def _step(self) -> int:
        return min(_STEP, self._folder.quota // _SHARE)

    def close(self) -> None:
        """Remove files that were not finished, and the room for others."""
        with self._lock:
            own, self._own = self._own, None
            if own is not None:
                shutil.rmtree(own, ignore_errors=True)
            self._reserved = self._free = 0
            self._held.close()

    def __enter__(self) -> FileSeries:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


class SeriesFile:
    """A file of a series that is being written.

    Args:
        series: The series.
        path: Path of the file until it is finished.
        target: Path of the finished file.
    """

    def __init__(self, series: FileSeries, path: str, target: str) -> None:
        self._series = series
        self._path = path
        self._target = target
        self._taken = BLOCK_BYTES
        self._file = open(  # noqa: SIM115
            open_own(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL), "wb", buffering=1 << 18
        )

    def write(self, data: bytes | memoryview) -> int:
        """Append bytes.

        Raises:
            DiskQuotaError: Files in use leave no room.
            OSError: The disk is full.
        """
        nbytes = memoryview(data).nbytes
        self._series.take(nbytes, self._path)
        self._taken += nbytes
        return self._file.write(data)

    def finish(self) -> None:
        """Let the host have the file."""
        self._file.close()
        self._series.finish(self._path, self._target, self._taken)

    def discard(self) -> None:
        """Remove the file, unless it is finished."""
        with suppress(OSError):  # a full disk refuses the rest
            self._file.close()
        with suppress(FileNotFoundError):
            os.unlink(self._path)
            self._series.give_back(self._taken)
