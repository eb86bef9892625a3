"""A folder of this machine, and files of it: links, renames and fsync keep what is promised.

A new file is written under a hidden temporary name, synced, linked to its own name, and the folder
is synced: a link fails where a rename would replace.

Hadoop's local file system keeps the checksums of a file NAME in `.NAME.crc` next to it, and refuses
to read a file that has other bytes. That file is therefore deleted before NAME is written, and with
it.
"""

from __future__ import annotations

import errno
import io
import os
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from datetime import datetime
from typing import Any

import xxhash
from pyarrow import fs

from lookupstore.storage._writeback import start_writeback
from lookupstore.storage.inside import entry_path, link_error, local_path
from lookupstore.storage.location import FoundFile, Location, address_of, local_folder
from lookupstore.storage.lock_file import LocalLockFile, LockFile
from lookupstore.storage.naming import (
    final_name,
    is_temporary,
    naming,
    sync_folder,
    temporary_name,
)
from lookupstore.storage.output import PIECE, WRITEBACK
from lookupstore.storage.regular_file import folder_error, open_regular
from lookupstore.storage.small_files import MOST_BYTES, read_descriptor


class LocalFolder(Location):
    """A location that is a folder of this machine."""

    in_place = True
    is_cheap_to_read = True
    creates_once = True
    default_compression = "none"

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        filesystem: Any = None,
        storage_options: Mapping[str, Any] | None = None,
    ) -> None:
        folder = local_folder(*address_of(path, filesystem, storage_options))
        if folder is None:
            raise ValueError(f"path is {os.fspath(path)!r}; give a folder of this machine")
        self._folder = folder
        self._arrow = fs.LocalFileSystem()
        self._given = (folder, None)  # a process that opens it again is in another folder
        self.uri = folder

    @property
    def _filesystem(self) -> fs.FileSystem:
        return self._arrow

    @property
    def _root(self) -> str:
        return self._folder

    def show(self, name: str) -> str:
        """Return the path of a file."""
        return f"{self._folder}/{name}" if name else self._folder

    def full(self, name: str) -> str:
        """Return the URI of a file, nothing in it escaped: so do other programs."""
        return f"file://{self._folder}/{name}"

    def readers(self, processors: int) -> int:
        """Return the number of processors: to read is to decode."""
        return processors

    def files(
        self, folder: str = "", *, recursive: bool = False, complete: bool = False
    ) -> list[FoundFile]:
        """Return the files in a folder, links passed over."""
        files = []
        folders = [folder]
        for below in folders:  # grows in the loop
            for entry in self._entries(below, complete):
                name = f"{below}/{entry.name}" if below else entry.name
                if entry.is_dir(follow_symlinks=False):
                    if recursive:
                        folders.append(name)
                    continue
                with suppress(FileNotFoundError):  # deleted while the folder was read
                    found = entry.stat(follow_symlinks=False)
                    if stat.S_ISREG(found.st_mode):
                        written = found.st_mtime_ns / 1e9 or None
                        files.append(FoundFile(name, found.st_size, written))
        return sorted(files, key=lambda file: file.name)

    def folders(self, folder: str = "", *, complete: bool = False) -> list[str]:
        """Return the names of the folders in a folder, links passed over."""
        return sorted(
            f"{folder}/{entry.name}" if folder else entry.name
            for entry in self._entries(folder, complete)
            if entry.is_dir(follow_symlinks=False)
        )

    def unfinished(self) -> dict[str, str]:
        """Return the temporary files, all in the root folder: files in other folders count."""
        names = ((file.name, final_name(file.name)) for file in self.files())
        return {name: final for name, final in names if final is not None}

    def write(
        self, name: str, chunks: Iterable[bytes], *, mode: int = 0o666, overwrite: bool = False
    ) -> None:
        """Write a new file by a temporary one."""
        self._write(name, chunks, mode=mode, overwrite=overwrite)

    @contextmanager
    def new_file(self, name: str) -> Iterator[Any]:
        """Write a temporary file piece by piece, and name it at the end."""
        with self._new(name) as path, open(path, "xb", buffering=0) as file:
            yield _Stream(file)

    def read(self, name: str, most: int = MOST_BYTES) -> bytes:
        """Read a whole small file, which is a regular one."""
        path = self._path(name)
        return read_descriptor(open_regular(path), path, most)

    def one_request(self) -> None:
        """Return None: a disk needs no such request."""

    def create(self, name: str, content: bytes, check: Callable[[], None] | None = None) -> None:
        """Write a new file by a temporary one, and call `check` before it is named."""
        self._write(name, [content], check)

    def check_creates_once(self, folder: str) -> None:
        """Do nothing: links are made once."""

    def replace(self, name: str, content: bytes) -> None:
        """Write a temporary file, and rename it."""
        path = self._path(name)
        temporary = self._path(temporary_name(path.rpartition("/")[2]))
        _write_synced(temporary, [content])
        _delete_checksums(path)
        os.replace(temporary, path)
        sync_folder(os.path.dirname(path))

    def move(self, name: str, to: str) -> None:
        """Link a file to its new name, and unlink the old one."""
        path = self._path(to)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        _delete_checksums(path)
        os.link(self._path(name), path)  # unlike a rename, fails if the new name exists
        os.unlink(self._path(name))
        sync_folder(os.path.dirname(path))

    def touch(self, name: str) -> bool:
        """Set the times of a file to now."""
        try:
            os.utime(self._path(name), None)
        except FileNotFoundError:
            return False
        return True

    def date(self, name: str, moment: datetime) -> None:
        """Set the times of a file, if the file exists."""
        with suppress(FileNotFoundError):
            os.utime(self._path(name), (moment.timestamp(),) * 2)

    def lock_file(self, name: str) -> LockFile:
        """Return a lock that is identified by its inode."""
        return LocalLockFile(self, name)

    def make_folder(self, folder: str) -> None:
        """Make a folder and those above it, unless it exists."""
        self._path(folder)  # `_path` follows no link
        for _ in self.make_missing(folder):
            pass

    def make_missing(self, folder: str) -> Iterator[str]:
        """Make folders, the outermost first, each synced in the one above it."""
        missing = []
        path = os.path.join(self._folder, folder)
        while not os.path.isdir(path):
            missing.append(path)
            path = os.path.dirname(path)
        for path in reversed(missing):
            with suppress(FileExistsError):
                os.mkdir(path)
            yield path
            sync_folder(os.path.dirname(path))

    def write_first(self, folder: str, name: str, content: bytes) -> bool:
        """Write a temporary folder, and rename it."""
        temporary = self._path(temporary_name(folder))
        os.mkdir(temporary)
        try:
            _write_synced(os.path.join(temporary, name), [content])
            sync_folder(temporary)
            try:
                os.rename(temporary, self._path(folder))
            except OSError:
                path = self._path(folder)
                if os.path.isdir(path) and os.listdir(path):
                    raise FileExistsError(errno.EEXIST, "has something in it", path) from None
                raise
        finally:
            with suppress(OSError):  # gone if it was renamed; hidden if it stays
                os.unlink(os.path.join(temporary, name))
            with suppress(OSError):
                os.rmdir(temporary)
        sync_folder(self._folder)
        return True

    def sync(self, folder: str = "") -> None:
        """Put the names in a folder on disk."""
        sync_folder(self._path(folder))

    def delete(self, name: str) -> None:
        """Unlink a file or link, and the temporary folder that it is in."""
        path = entry_path(self._folder, name)
        with suppress(FileNotFoundError):
            os.unlink(path)
        _delete_checksums(path)
        folder, slash, _ = name.partition("/")
        # The folder is left over from `write_first`; other writers may be about to use any other
        # folder.
        if slash and is_temporary(folder):
            with suppress(OSError):
                os.rmdir(entry_path(self._folder, folder))

    def delete_folder(self, folder: str) -> None:
        """Delete a folder and all that is in it, the innermost first."""
        path = entry_path(self._folder, folder)
        if not os.path.isdir(path) or os.path.islink(path):
            self.delete(folder)
            return
        folders = [path]
        for below in folders:  # grows in the loop
            with suppress(FileNotFoundError), os.scandir(below) as entries:
                for entry in sorted(entries, key=lambda one: one.name):
                    if entry.is_dir(follow_symlinks=False):
                        folders.append(entry.path)
                        continue
                    with suppress(FileNotFoundError):
                        os.unlink(entry.path)
        for below in reversed(folders):
            with suppress(OSError):
                os.rmdir(below)

    def delete_empty(self, folder: str) -> None:
        """Delete a folder unless anything is in it: `rmdir` follows no link."""
        with suppress(OSError):
            os.rmdir(os.path.join(self._folder, folder))

    def work_folder(
        self, folder: str, temp_dir: str | os.PathLike[str] | None = None
    ) -> AbstractContextManager[str]:
        """Give the folder itself: files are written to their final place."""
        return nullcontext(self._folder)

    def spill_folder(self) -> str:
        """Return the folder above: a user with room for a store may have it for the rows, too."""
        return os.path.dirname(self._folder)

    def upload(self, name: str, folder: str) -> None:
        """Do nothing: the file was written to its final place."""

    def download(self, name: str, folder: str) -> None:
        """Do nothing: the file is read in place."""

    def _path(self, name: str) -> str:
        return local_path(self._folder, name)

    def _telling(self, name: str) -> AbstractContextManager[None]:
        return nullcontext()  # errors of the system name the path

    def _entries(self, folder: str, complete: bool) -> list[os.DirEntry[str]]:
        """Return the entries of a folder, empty if it is missing; see `files`."""
        try:
            with os.scandir(self._path(folder)) as entries:
                found = list(entries)
        except (FileNotFoundError, NotADirectoryError):
            return []
        for entry in found if complete else ():
            if entry.is_symlink():
                raise link_error(entry.path)
        return found

    def _write(
        self,
        name: str,
        chunks: Iterable[bytes],
        check: Callable[[], None] | None = None,
        mode: int = 0o666,
        overwrite: bool = False,
    ) -> None:
        def opener(path: str, how: int) -> int:
            return os.open(path, how, mode)

        new = self._new(name, check, overwrite)
        with new as temporary, open(temporary, "xb", opener=opener) as file:
            for chunk in chunks:
                file.write(chunk)

    @contextmanager
    def _new(
        self, name: str, check: Callable[[], None] | None = None, overwrite: bool = False
    ) -> Iterator[str]:
        """Give the path of a temporary file, which the block makes, and publish it as the name."""
        path = self._path(name)
        folder, last = os.path.split(path)
        os.makedirs(folder, exist_ok=True)
        # In the root folder of the store, since files in its other folders have a meaning.
        temporary = self._path(temporary_name(last))
        try:
            with naming(path):
                yield temporary
                _sync_file(temporary)
            if check is not None:
                check()
            _delete_checksums(path)
            try:
                if overwrite:
                    os.replace(temporary, path)
                else:
                    os.link(temporary, path)  # unlike a rename, fails if another writer was first
            except (FileExistsError, IsADirectoryError):
                if os.path.isdir(path):
                    raise folder_error(path) from None
                raise
        finally:
            with suppress(OSError):  # a hidden file that is left over does no harm
                os.unlink(temporary)
        sync_folder(folder)


def file_hash(path: str | os.PathLike[str]) -> str:
    """Return the XXH64 of a whole local file as 16 hexadecimal digits."""
    digest = xxhash.xxh64()
    for chunk in file_chunks(path):
        digest.update(chunk)
    return digest.hexdigest()


def file_chunks(path: str | os.PathLike[str]) -> Iterator[bytes]:
    """Read a local file, a piece at a time."""
    with open(open_regular(os.fspath(path)), "rb") as file:
        while chunk := file.read(PIECE):
            yield chunk


class _Stream:
    """A stream of a new local file, which the system begins to write to the disk before its end."""

    def __init__(self, file: io.FileIO) -> None:
        self._file = file
        self._begun = 0
        self.closed = False

    def write(self, data: Any) -> None:
        rest = memoryview(data).cast("B")
        while rest:
            rest = rest[self._file.write(rest) :]
        end = self._file.tell()
        if end - self._begun >= WRITEBACK:
            start_writeback(self._file.fileno(), self._begun, end - self._begun)
            self._begun = end

    def tell(self) -> int:
        return self._file.tell()

    def flush(self) -> None:
        """Do nothing, for Arrow's writers: there is no buffer."""

    def close(self) -> None:
        """Do nothing: the file is named at the end of the block that writes it."""


def _delete_checksums(path: str) -> None:
    """Delete Hadoop's checksums of a file that is about to be rewritten or deleted."""
    folder, name = os.path.split(path)
    checksums = os.path.join(folder, f".{name}.crc")
    if os.path.lexists(checksums):
        with suppress(FileNotFoundError):
            os.unlink(checksums)


def _sync_file(path: str) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _write_synced(path: str, chunks: Iterable[bytes]) -> None:
    with open(path, "xb") as file:
        for chunk in chunks:
            file.write(chunk)
        file.flush()
        os.fsync(file.fileno())
