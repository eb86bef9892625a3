"""Where a store lives: a folder of this machine, or of any file system that pyarrow has.

Names inside a location are relative, with `/`, and lead nowhere else: see
`lookupstore.storage.inside`. A file of a store never changes once it is named, so there are few
operations, and each is one that local disks, object stores and HDFS can keep: list, read, write a
new file in one step, delete.

A URI may carry credentials: see `lookupstore.storage.uris`.
"""

from __future__ import annotations

import errno
import io
import os
import stat
import uuid
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import pyarrow as pa
import xxhash
from pyarrow import fs

from lookupstore.errors import FormatError
from lookupstore.storage._writeback import start_writeback
from lookupstore.storage.conditional_puts import ConditionalPuts
from lookupstore.storage.home import expanded
from lookupstore.storage.inside import entry_path, joined, link_error, local_path
from lookupstore.storage.output import WRITEBACK, naming
from lookupstore.storage.regular_file import open_regular
from lookupstore.storage.uris import check_path, open_uri, shown_uri, without_credentials_error

# What is written there is seen whole or not at all, when the stream is closed; renaming copies.
_ONE_PUT = frozenset({"s3", "gcs", "abfs"})
# Written as it was read, and a huge page of the page cache: see `lookupstore.storage.output`.
_CHUNK_BYTES = 2 << 20


@dataclass(frozen=True)
class FoundFile:
    """A file that a listing found.

    Attributes:
        name: relative to the location, with `/`.
        bytes: its size.
        modified: when it was last written, in seconds since 1970; None if nobody knows.
    """

    name: str
    bytes: int
    modified: float | None


class Location:
    """A folder that holds a store, or will.

    Args:
        path: a local path, where `~` is the home folder, or a URI: `file://`, `s3://`, `gs://`,
            `abfs://`, `hdfs://`. Credentials are found in the usual ways of each: the environment,
            files of the user, the machine.
        filesystem: an open file system of pyarrow; `path` is then a path in it.

    Raises:
        TypeError: `path` is no path.
        ValueError: `path` is empty, or a URI that pyarrow does not know or that lacks its slashes.

    >>> Location("file:///data/users").local
    '/data/users'
    """

    def __init__(
        self, path: str | os.PathLike[str], *, filesystem: fs.FileSystem | None = None
    ) -> None:
        text = os.fspath(path)
        if not isinstance(text, str):
            raise TypeError(f"path is {type(text).__name__}; give a str or an os.PathLike of str")
        if not text:
            raise ValueError("path is empty; give the folder or URI of a store")
        if filesystem is None:
            check_path(text)
            text = expanded(text)
        self._given = (text, filesystem)
        self._opened: tuple[fs.FileSystem, str] | None = None
        self._puts: ConditionalPuts | None = None
        #: The folder's absolute path, if it is local; else None.
        self.local: str | None = None
        if isinstance(filesystem, fs.LocalFileSystem) or (filesystem is None and "://" not in text):
            self.local = os.path.abspath(text)
        elif filesystem is None and text.startswith("file://"):
            self.local = os.path.abspath(open_uri(text)[1])
        if self.local is not None:
            self._given = (self.local, None)  # a process that opens it again is in another folder
        shown = text if filesystem is None else f"{filesystem.type_name}://{text}"
        #: What people see: the local path, or the URI without what is secret in it.
        self.uri = self.local or shown_uri(shown).rstrip("/")

    @property
    def _filesystem(self) -> fs.FileSystem:
        return self._open()[0]

    @property
    def _root(self) -> str:
        return self._open()[1]

    def _open(self) -> tuple[fs.FileSystem, str]:
        """Return file system and path, when they are first asked for: some ask the network."""
        if self._opened is None:
            text, filesystem = self._given
            if self.local is not None:
                self._opened = fs.LocalFileSystem(), self.local
            elif filesystem is not None:
                self._opened = filesystem, text.rstrip("/")
            else:
                filesystem, path = open_uri(text)
                self._opened = filesystem, path.rstrip("/")
        return self._opened

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Location) and self._given == other._given

    def __hash__(self) -> int:
        return hash(self._given[0])

    def __reduce__(self) -> tuple[Any, ...]:
        return _reopen, self._given

    def __repr__(self) -> str:
        return f"<Location {self.uri!r}>"

    def show(self, name: str) -> str:
        """Return the path or URI of a file, for people and errors."""
        if not name:
            return self.uri
        if self.local is not None:
            return f"{self.local}/{name}"
        folder, mark, options = self.uri.partition("?")
        return f"{folder.rstrip('/')}/{name}{mark}{options}"

    def full(self, name: str) -> str:
        """Return the URI of a file as other programs write it down, without options."""
        if self.local is not None:
            return f"file://{self.local}/{name}"
        return f"{self.uri.partition('?')[0].rstrip('/')}/{name}"

    def resolve(self, name: str) -> tuple[fs.FileSystem, str]:
        """Return the file system, and the path of a file in it."""
        return self._filesystem, self._path(name)

    def is_file(self) -> bool:
        """Return whether there is a file where a folder should be."""
        return self._kind() is fs.FileType.File

    def is_there(self) -> bool:
        """Return whether the folder exists; an object store has it as soon as anything is in it."""
        return self._kind() is fs.FileType.Directory

    def _kind(self) -> fs.FileType:
        with self._telling(""):
            return self._filesystem.get_file_info(self._root).type

    def names(self) -> list[str]:
        """Return the names of the files and folders in the location, sorted."""
        with self._telling(""):
            found = self._filesystem.get_file_info(
                fs.FileSelector(self._root, allow_not_found=True)
            )
        names = (self._relative(info.path) for info in found if info.type != fs.FileType.NotFound)
        return sorted(name for name in names if name)

    def files(
        self, folder: str = "", *, recursive: bool = False, complete: bool = False
    ) -> list[FoundFile]:
        """Return the files in a folder, by name; none if there is no such folder.

        On a local disk symbolic links are passed over, so that no listing goes in circles.

        Args:
            folder: whose files are wanted.
            recursive: whether those in folders below it are wanted, too.
            complete: whether a link is an error: what it leads to would be missing.

        Raises:
            FormatError: there is one.
        """
        if self.local is not None:
            return self._local_files(folder, recursive, complete)
        with self._telling(folder):
            found = self._filesystem.get_file_info(
                fs.FileSelector(self._path(folder), allow_not_found=True, recursive=recursive)
            )
        files = []
        for info in found:
            if info.is_file:  # not one that went while the folder was read
                written = written_ns(info)
                modified = None if written is None else written / 1e9
                files.append(FoundFile(self._relative(info.path), info.size, modified))
        return sorted(files, key=lambda file: file.name)

    def folders(self, folder: str = "", *, complete: bool = False) -> list[str]:
        """Return the names of the folders in a folder, sorted; see `files`."""
        if self.local is not None:
            entries = self._entries(folder, complete)
            return sorted(
                f"{folder}/{entry.name}" if folder else entry.name
                for entry in entries
                if entry.is_dir(follow_symlinks=False)
            )
        with self._telling(folder):
            found = self._filesystem.get_file_info(
                fs.FileSelector(self._path(folder), allow_not_found=True)
            )
        return sorted(
            self._relative(info.path) for info in found if info.type is fs.FileType.Directory
        )

    def make_folder(self, folder: str) -> None:
        """Make a folder and those above it, unless it exists; object stores have none."""
        if self._filesystem.type_name.removeprefix("py::") not in _ONE_PUT:
            with self._telling(folder):
                self._filesystem.create_dir(self._path(folder), recursive=True)

    def size(self, name: str) -> int | None:
        """Return the size of a file, or None if it is not there."""
        with self._telling(name):
            info = self._filesystem.get_file_info(self._path(name))
        return int(info.size) if info.is_file else None

    def chunks(self, name: str) -> Iterator[bytes]:
        """Read a file, a piece at a time.

        Raises:
            FileNotFoundError: there is none.
        """
        with self._telling(name), self._filesystem.open_input_stream(self._path(name)) as stream:
            while chunk := stream.read(_CHUNK_BYTES):
                yield chunk

    def read(self, name: str) -> bytes:
        """Read a whole file.

        Raises:
            FileNotFoundError: there is none.
        """
        return b"".join(self.chunks(name))

    def hash(self, name: str) -> str:
        """Return the XXH64 of a whole file as 16 hexadecimal digits."""
        digest = xxhash.xxh64()
        for chunk in self.chunks(name):
            digest.update(chunk)
        return digest.hexdigest()

    def write(self, name: str, chunks: Iterable[bytes], *, mode: int = 0o666) -> None:
        """Write a new file, which is seen whole or not at all, and lasts when this returns.

        On a local disk: hidden temporary name, fsync, link, fsync of the folder. An object store
        keeps an object when its stream is closed. Elsewhere: hidden temporary name, then a move.

        Args:
            name: of the file.
            chunks: its bytes.
            mode: most that a local file lets others do.

        Raises:
            FileExistsError: the file is there already, on a local disk; elsewhere names of files
                must be such that nobody else writes them.
        """
        if self.local is not None:
            self._write_local(name, chunks, mode=mode)
            return
        path = self._path(name)
        if self._filesystem.type_name.removeprefix("py::") in _ONE_PUT:
            self._put(name, path, chunks)
            return
        folder, _, last = path.rpartition("/")
        temporary = f"{folder}/.{last}.{uuid.uuid4().hex}.tmp"
        with self._telling(name):
            self._filesystem.create_dir(folder, recursive=True)
        try:
            self._put(name, temporary, chunks)
            with self._telling(name):
                self._filesystem.move(temporary, path)
        except BaseException:
            with suppress(OSError, pa.ArrowException):
                self._filesystem.delete_file(temporary)
            raise

    @contextmanager
    def new_file(self, name: str) -> Iterator[Any]:
        """Write a new file piece by piece into a stream; when the block ends it is as of `write`.

        A block that fails leaves no file.

        Raises:
            FileExistsError: the file is there already, on a local disk.
        """
        if self.local is not None:
            with self._new_local(name) as path, open(path, "xb", buffering=0) as file:
                yield _LocalStream(file)
            return
        path = self._path(name)
        temporary = path
        if self._filesystem.type_name.removeprefix("py::") not in _ONE_PUT:
            folder, _, last = path.rpartition("/")
            temporary = f"{folder}/.{last}.{uuid.uuid4().hex}.tmp"
            with self._telling(name):
                self._filesystem.create_dir(folder, recursive=True)
        with self._telling(name):
            stream = self._filesystem.open_output_stream(temporary)
        told = _ToldStream(stream, lambda: self._telling(name))
        try:
            yield told
            told.end()
            if temporary != path:
                with self._telling(name):
                    self._filesystem.move(temporary, path)
        except BaseException:
            with suppress(OSError, pa.ArrowException):
                stream.close()
            with suppress(OSError, pa.ArrowException):
                self._filesystem.delete_file(temporary)
            raise

    def replace(self, name: str, content: bytes) -> None:
        """Write a file in the place of another, in one step, on a local disk or an object store.

        The caller holds what keeps others from doing the same.
        """
        if self.local is None:
            self._put(name, self._path(name), [content])
            return
        path = self._path(name)
        temporary = self._path(f".{path.rpartition('/')[2]}.{uuid.uuid4().hex}.tmp")
        _write_synced(temporary, [content])
        os.replace(temporary, path)
        sync_folder(os.path.dirname(path))

    def move(self, name: str, to: str) -> None:
        """Rename a file durably.

        An object store copies it, and deletes what was copied.

        Raises:
            FileExistsError: there is one of the new name already, on a local disk.
            OSError: there is none of that name, or it cannot be moved.
        """
        path = self._path(to)
        if self.local is None:
            with self._telling(name):
                if self._filesystem.type_name.removeprefix("py::") in _ONE_PUT:
                    self._filesystem.copy_file(self._path(name), path)
                    self._filesystem.delete_file(self._path(name))
                else:
                    self._filesystem.create_dir(path.rpartition("/")[0], recursive=True)
                    self._filesystem.move(self._path(name), path)
            return
        os.makedirs(os.path.dirname(path), exist_ok=True)
        os.link(self._path(name), path)  # unlike a rename, fails if there is one
        os.unlink(self._path(name))
        sync_folder(os.path.dirname(path))

    @property
    def creates_once(self) -> bool:
        """Return whether `create` keeps two of one name apart: on local disks and on S3."""
        return self.local is not None or self._filesystem.type_name == "s3"

    def create(self, name: str, content: bytes, check: Callable[[], None] | None = None) -> None:
        """Write a new file, as `write` does; of those who do that at once, one succeeds.

        That is so if `creates_once`; elsewhere the name is looked for before.

        Args:
            name: of the file.
            content: of the file.
            check: raises if the file must not be there any more; called as late as can be, on a
                local disk when all that is left to do is to name the temporary file.

        Raises:
            FileExistsError: the file is there already.
            FileNotFoundError: on a local disk, somebody has deleted the temporary file.
            ImportError: on S3, obstore is not installed.
        """
        if self.local is not None:
            self._write_local(name, [content], check)
            return
        if check is not None:
            check()
        if self.creates_once:
            with self._telling(name):
                self.conditional_puts().create(self._path(name), content)
        elif self.size(name) is not None:
            raise FileExistsError(errno.EEXIST, "exists", self.show(name))
        else:
            self.write(name, [content])

    def conditional_puts(self) -> ConditionalPuts:
        """Return what puts objects of this store on conditions.

        Raises:
            FormatError: it is not on S3.
            ImportError: obstore is not installed.
        """
        if self._filesystem.type_name != "s3":
            raise FormatError(f"{self.uri}: conditional puts are supported on S3 only")
        if self._puts is None:
            self._puts = ConditionalPuts(self._filesystem)
        return self._puts

    def touch(self, name: str, moment: datetime | None = None) -> bool:
        """Let a file be written now, as it is; return False if it is not there.

        Args:
            name: of the file.
            moment: what time it is, on a local disk; None asks the system.

        Raises:
            FormatError: it is neither on a local disk nor on S3.
        """
        if self.local is not None:
            times = None if moment is None else (moment.timestamp(),) * 2
            try:
                os.utime(self._path(name), times)
            except FileNotFoundError:
                return False
            return True
        with self._telling(name):
            puts, path = self.conditional_puts(), self._path(name)
            try:
                content, tag = puts.read(path)
            except FileNotFoundError:
                return False
            return puts.replace(path, content, tag) is not None

    def write_first(self, folder: str, name: str, content: bytes) -> bool:
        """Make a local folder with one file in it, in one step; return False if it has something.

        Of those who do that at once, one succeeds: renaming a folder fails if the target holds
        anything.
        """
        temporary = self._path(f".{folder}.{uuid.uuid4().hex}.tmp")
        os.mkdir(temporary)
        try:
            _write_synced(os.path.join(temporary, name), [content])
            sync_folder(temporary)
            try:
                os.rename(temporary, self._path(folder))
            except OSError:
                if os.path.isdir(self._path(folder)) and os.listdir(self._path(folder)):
                    return False
                raise
        finally:
            with suppress(OSError):  # gone if it was renamed; hidden if it stays
                os.unlink(os.path.join(temporary, name))
            with suppress(OSError):
                os.rmdir(temporary)
        sync_folder(self._root)
        return True

    def delete(self, name: str) -> None:
        """Delete a file, if it exists; of a symbolic link, not what it leads to."""
        if self.local is not None:
            with suppress(FileNotFoundError):
                os.unlink(entry_path(self.local, name))
            folder, slash, _ = name.partition("/")
            # Left by `write_first`; others may be about to write into any other folder.
            if slash and folder.startswith(".") and folder.endswith(".tmp"):
                with suppress(OSError):
                    os.rmdir(entry_path(self.local, folder))
            return
        with self._telling(name), suppress(FileNotFoundError):
            self._filesystem.delete_file(self._path(name))

    def delete_folder(self, folder: str) -> None:
        """Delete a folder that nobody writes to, and all that is in it; links are not followed."""
        if self.local is None:
            for file in self.files(folder, recursive=True):
                self.delete(file.name)
            return
        path = entry_path(self.local, folder)
        if not os.path.isdir(path) or os.path.islink(path):
            self.delete(folder)
            return
        folders = [path]
        for below in folders:  # which grows meanwhile
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

    def sync(self, folder: str = "") -> None:
        """Put the names in a local folder on disk; elsewhere a name lasts when it is written."""
        if self.local is not None:
            sync_folder(self._path(folder))

    def _path(self, name: str) -> str:
        """Return the path of a name on the file system: each that is read or written goes here."""
        return joined(self._root, name) if self.local is None else local_path(self.local, name)

    def _local_files(self, folder: str, recursive: bool, complete: bool) -> list[FoundFile]:
        files = []
        folders = [folder]
        for below in folders:  # which grows meanwhile
            for entry in self._entries(below, complete):
                name = f"{below}/{entry.name}" if below else entry.name
                if entry.is_dir(follow_symlinks=False):
                    if recursive:
                        folders.append(name)
                    continue
                with suppress(FileNotFoundError):  # it went while the folder was read
                    found = entry.stat(follow_symlinks=False)
                    if stat.S_ISREG(found.st_mode):
                        written = found.st_mtime_ns / 1e9 or None
                        files.append(FoundFile(name, found.st_size, written))
        return sorted(files, key=lambda file: file.name)

    def _entries(self, folder: str, complete: bool) -> list[os.DirEntry[str]]:
        """Return what is in a local folder, none if there is no such; `complete` as of `files`."""
        try:
            with os.scandir(self._path(folder)) as entries:
                found = list(entries)
        except (FileNotFoundError, NotADirectoryError):
            return []
        for entry in found if complete else ():
            if entry.is_symlink():
                raise link_error(entry.path)
        return found

    def _relative(self, path: str) -> str:
        return path[len(self._root.rstrip("/")) + 1 :].rstrip("/")

    def _put(self, name: str, path: str, chunks: Iterable[bytes]) -> None:
        # What fails while a chunk is made is the error of another place, and told there.
        with self._telling(name):
            stream = self._filesystem.open_output_stream(path)
        try:
            for chunk in chunks:
                with self._telling(name):
                    stream.write(chunk)
        except BaseException:
            # Closing is the only way to end a stream, and makes a file of what there is.
            with suppress(OSError, pa.ArrowException):
                stream.close()
            with suppress(OSError, pa.ArrowException):
                self._filesystem.delete_file(path)
            raise
        with self._telling(name):
            stream.close()

    def _write_local(
        self,
        name: str,
        chunks: Iterable[bytes],
        check: Callable[[], None] | None = None,
        mode: int = 0o666,
    ) -> None:
        def opener(path: str, how: int) -> int:
            return os.open(path, how, mode)

        with (
            self._new_local(name, check) as temporary,
            open(temporary, "xb", opener=opener) as file,
        ):
            for chunk in chunks:
                file.write(chunk)

    @contextmanager
    def _new_local(self, name: str, check: Callable[[], None] | None = None) -> Iterator[str]:
        """Give the path of a temporary file, which the block makes, and publish it as the name."""
        path = self._path(name)
        folder, last = os.path.split(path)
        os.makedirs(folder, exist_ok=True)
        # Beside the folders of the store: what is in those has a meaning.
        temporary = self._path(f".{last}.{uuid.uuid4().hex}.tmp")
        try:
            with naming(path):
                yield temporary
                _sync_file(temporary)
            if check is not None:
                check()
            os.link(temporary, path)  # unlike a rename, fails if another was first
        finally:
            with suppress(OSError):  # a hidden file that stays does no harm
                os.unlink(temporary)
        sync_folder(folder)

    @contextmanager
    def _telling(self, name: str) -> Iterator[None]:
        """Let errors of a remote file system name the URI, and nothing that is secret in it."""
        try:
            yield
        except (OSError, pa.ArrowException) as error:
            if self.local is not None:
                raise
            raise without_credentials_error(error, self.show(name), self._given[0]) from None


def written_ns(info: fs.FileInfo) -> int | None:
    """Return when a file was last written, in nanoseconds since 1970; None if nobody knows.

    Arrow's S3 client reads a time with one or two digits after the point, which some servers list,
    as 1970: of such a file nobody may say that it is old.
    """
    return info.mtime_ns or None


def file_hash(path: str | os.PathLike[str]) -> str:
    """Return the XXH64 of a whole local file as 16 hexadecimal digits."""
    digest = xxhash.xxh64()
    for chunk in file_chunks(path):
        digest.update(chunk)
    return digest.hexdigest()


def file_chunks(path: str | os.PathLike[str]) -> Iterator[bytes]:
    """Read a local file, a piece at a time."""
    with open(open_regular(os.fspath(path)), "rb") as file:
        while chunk := file.read(_CHUNK_BYTES):
            yield chunk


def sync_folder(folder: str) -> None:
    """Put the names in a folder on disk, so that a crash cannot undo a link or rename."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


class _LocalStream:
    """A stream of a new local file, which the system begins to write to the disk before its end."""

    def __init__(self, file: io.FileIO) -> None:
        self._file = file
        self._begun = 0

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


class _ToldStream:
    """A stream of a remote file for Arrow's writers, whose errors name the file."""

    def __init__(self, stream: Any, telling: Callable[[], AbstractContextManager[None]]) -> None:
        self._stream = stream
        self._telling = telling
        self.closed = False

    def write(self, data: bytes) -> int:
        with self._telling():
            return int(self._stream.write(data) or 0)

    def tell(self) -> int:
        return int(self._stream.tell())

    def flush(self) -> None:
        with self._telling():
            self._stream.flush()

    def close(self) -> None:
        """Do nothing: what ends the stream also says whether the file counts."""

    def end(self) -> None:
        with self._telling():
            self._stream.close()


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


def _reopen(path: str, filesystem: fs.FileSystem | None) -> Location:
    return Location(path, filesystem=filesystem)
