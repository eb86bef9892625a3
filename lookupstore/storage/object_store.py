"""A folder on another file system of pyarrow's: an object store, or HDFS.

An object store keeps an object when its stream is closed, whole or not at all, and has no folders.
Elsewhere a new file has a hidden temporary name until it is moved to its own.
"""

from __future__ import annotations

import errno
import os
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, suppress
from datetime import datetime
from typing import Any

import pyarrow as pa
from pyarrow import fs

from lookupstore.errors import LookupStoreError
from lookupstore.storage.conditional_puts import ConditionalPuts
from lookupstore.storage.file_address import written_ns
from lookupstore.storage.inside import joined
from lookupstore.storage.local import file_chunks
from lookupstore.storage.location import FoundFile, Location, address_of
from lookupstore.storage.lock_file import LockFile, ObjectLockFile
from lookupstore.storage.naming import temporary_name
from lookupstore.storage.put_clients import put_clients
from lookupstore.storage.s3_client import reads_of
from lookupstore.storage.small_files import MOST_BYTES, whole
from lookupstore.storage.uris import (
    open_uri,
    shown_uri,
    tells_secrets,
    without_credentials_error,
)

# File systems that show an object whole or not at all, when its stream is closed; renaming copies.
_ONE_PUT = frozenset({"s3", "gcs", "abfs"})
# Small parts to read at the same time: each waits for its answer.
_READERS = 16
# Servers and buckets that are known to obey conditions.
_CHECKED: set[tuple[str, ...]] = set()


class RemoteFolder(Location):
    """A location that others serve, an answer for each request."""

    in_place = False
    is_cheap_to_read = False
    default_compression = "zstd"

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        filesystem: Any = None,
        storage_options: Mapping[str, Any] | None = None,
    ) -> None:
        text, given = self._given = address_of(path, filesystem, storage_options)
        self._opened: tuple[fs.FileSystem, str] | None = None
        self._puts: ConditionalPuts | None = None
        shown = text if given is None else f"{given.type_name}://{text}"
        uri = shown_uri(shown).rstrip("/")
        self.uri: str = f"{uri}//" if uri.endswith(":") else uri

    @property
    def _filesystem(self) -> fs.FileSystem:
        return self._open()[0]

    @property
    def _root(self) -> str:
        return self._open()[1]

    def _open(self) -> tuple[fs.FileSystem, str]:
        """Return file system and path, opened on first use, since some need the network."""
        if self._opened is None:
            text, filesystem = self._given
            path = text
            if filesystem is None:
                filesystem, path = open_uri(text)
            self._opened = filesystem, path.rstrip("/")
        return self._opened

    def read(self, name: str, most: int = MOST_BYTES) -> bytes:
        """Read a whole small object, by one request where that is possible."""
        path, shown = self._path(name), self.show(name)
        reads = reads_of(self._filesystem)
        if reads is not None:
            with suppress(OSError):  # pyarrow reports the fault, if there is one
                return reads.read_whole(path, most, shown)
        with self._telling(name), self._filesystem.open_input_file(path) as stream:
            return whole(stream.read, shown, most, stream.size())

    def one_request(self) -> Callable[[str, int], bytes] | None:
        """Return a function that reads an object of S3, or None."""
        reads = reads_of(self._filesystem)
        if reads is None:
            return None
        return lambda name, most: reads.read_whole(self._path(name), most, self.show(name))

    @property
    def _is_one_put(self) -> bool:
        return self._filesystem.type_name.removeprefix("py::") in _ONE_PUT

    def show(self, name: str) -> str:
        """Return the URI of a file, with options and without secrets."""
        if not name:
            return self.uri
        folder, mark, options = self.uri.partition("?")
        return f"{folder.rstrip('/')}/{name}{mark}{options}"

    def full(self, name: str) -> str:
        """Return the URI of a file, without options."""
        return f"{self.uri.partition('?')[0].rstrip('/')}/{name}"

    def readers(self, processors: int) -> int:
        """Return how many requests may wait at the same time, on any number of processors."""
        return _READERS

    def files(
        self, folder: str = "", *, recursive: bool = False, complete: bool = False
    ) -> list[FoundFile]:
        """Return the files in a folder; there are no links."""
        with self._telling(folder):
            found = self._filesystem.get_file_info(
                fs.FileSelector(self._path(folder), allow_not_found=True, recursive=recursive)
            )
        files = []
        for info in found:
            if info.is_file:  # not deleted while the folder was read
                written = written_ns(info)
                modified = None if written is None else written / 1e9
                files.append(FoundFile(self._relative(info.path), info.size, modified))
        return sorted(files, key=lambda file: file.name)

    def folders(self, folder: str = "", *, complete: bool = False) -> list[str]:
        """Return the names of the folders in a folder; there are no links."""
        with self._telling(folder):
            found = self._filesystem.get_file_info(
                fs.FileSelector(self._path(folder), allow_not_found=True)
            )
        return sorted(
            self._relative(info.path) for info in found if info.type is fs.FileType.Directory
        )

    def unfinished(self) -> dict[str, str]:
        """Return an empty dict: objects appear complete; temporary files are in the folders."""
        return {}

    def write(
        self, name: str, chunks: Iterable[bytes], *, mode: int = 0o666, overwrite: bool = False
    ) -> None:
        """Put an object; or write a temporary file, and move it."""
        path = self._path(name)
        if self._is_one_put:
            self._put(name, path, chunks)
            return
        temporary = self._temporary(name, path)
        try:
            self._put(name, temporary, chunks)
            if overwrite:  # not every file system moves a file to a name that exists
                self.delete(name)
            with self._telling(name):
                self._filesystem.move(temporary, path)
        except BaseException:
            with suppress(OSError, pa.ArrowException):
                self._filesystem.delete_file(temporary)
            raise

    @contextmanager
    def new_file(self, name: str) -> Iterator[Any]:
        """Put an object, or write a temporary file, piece by piece."""
        path = self._path(name)
        temporary = path if self._is_one_put else self._temporary(name, path)
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

    @property
    def creates_once(self) -> bool:
        """Return whether there are conditional puts: on S3, Azure and Google Cloud Storage."""
        return put_clients(self._filesystem) is not None

    def create(self, name: str, content: bytes, check: Callable[[], None] | None = None) -> None:
        """Put a new object on the condition that it is missing, if the store has conditions."""
        if check is not None:
            check()
        if self.creates_once:
            with self._telling(name):
                self.conditional_puts().create(self._path(name), content)
        elif self.size(name) is not None:
            raise FileExistsError(errno.EEXIST, "exists", self.show(name))
        else:
            self.write(name, [content])

    def check_creates_once(self, folder: str) -> None:
        """Put an object twice: some servers pass over conditions."""
        puts = self.conditional_puts()
        server = puts.server(self._path(folder))
        if server not in _CHECKED:
            puts.check(self._path(folder))
            _CHECKED.add(server)

    def conditional_puts(self) -> ConditionalPuts:
        """Return the client for conditional puts to this store.

        Raises:
            FormatError: The store does not support conditional puts.
            ImportError: If obstore is not installed.
        """
        if self._puts is None:
            self._puts = ConditionalPuts(self._filesystem)
        return self._puts

    def replace(self, name: str, content: bytes) -> None:
        """Put an object in the place of another."""
        self._put(name, self._path(name), [content])

    def move(self, name: str, to: str) -> None:
        """Copy an object and delete the original, or move a file."""
        path = self._path(to)
        with self._telling(name):
            if self._is_one_put:
                self._filesystem.copy_file(self._path(name), path)
                self._filesystem.delete_file(self._path(name))
            else:
                self._filesystem.create_dir(path.rpartition("/")[0], recursive=True)
                self._filesystem.move(self._path(name), path)

    def touch(self, name: str) -> bool:
        """Put an object again, unchanged."""
        with self._telling(name):
            puts, path = self.conditional_puts(), self._path(name)
            try:
                content, tag = puts.read(path)
            except FileNotFoundError:
                return False
            return puts.replace(path, content, tag) is not None

    def date(self, name: str, moment: datetime) -> None:
        """Do nothing: an object has the time at which it is named."""

    def lock_file(self, name: str) -> LockFile:
        """Return a lock that is identified by its tag."""
        return ObjectLockFile(self, self.conditional_puts(), name)

    def make_folder(self, folder: str) -> None:
        """Make a folder and those above it, if the file system has folders."""
        if not self._is_one_put:
            with self._telling(folder):
                self._filesystem.create_dir(self._path(folder), recursive=True)

    def make_missing(self, folder: str) -> Iterator[str]:
        """Make no folder: folders come with the files that are written to them."""
        return iter(())

    def write_first(self, folder: str, name: str, content: bytes) -> bool:
        """Do nothing: no folder can be made together with a file in one step."""
        return False

    def sync(self, folder: str = "") -> None:
        """Do nothing: a name lasts when it is written."""

    def delete(self, name: str) -> None:
        """Delete an object or file, if it exists."""
        with self._telling(name), suppress(FileNotFoundError):
            self._filesystem.delete_file(self._path(name))

    def delete_folder(self, folder: str) -> None:
        """Delete all files below a folder."""
        names = [file.name for file in self.files(folder, recursive=True)]
        if len(names) <= _READERS:  # so few requests are not worth a thread
            for name in names:
                self.delete(name)
            return
        with ThreadPoolExecutor(_READERS, thread_name_prefix="lookupstore-delete") as pool:
            for _ in pool.map(self.delete, names):
                pass

    def delete_empty(self, folder: str) -> None:
        """Do nothing: an empty folder is as good as none."""

    @contextmanager
    def work_folder(
        self, folder: str, temp_dir: str | os.PathLike[str] | None = None
    ) -> Iterator[str]:
        """Give a temporary folder of this machine, which is gone after the block."""
        path = tempfile.mkdtemp(
            prefix="lookupstore-", dir=_temporary_folder() if temp_dir is None else temp_dir
        )
        try:
            os.mkdir(joined(path, folder))
            yield path
        finally:
            shutil.rmtree(path, ignore_errors=True)

    def spill_folder(self) -> str:
        """Return the folder of the system for temporary files."""
        return _temporary_folder()

    def upload(self, name: str, folder: str) -> None:
        """Write a file of the work folder to its place, and remove it from there."""
        path = joined(folder, name)
        nbytes = os.path.getsize(path)
        self.write(name, file_chunks(path))
        self.check_size(name, nbytes)
        os.unlink(path)

    def download(self, name: str, folder: str) -> None:
        """Copy a file to the work folder."""
        with open(joined(folder, name), "xb") as file:
            file.writelines(self.chunks(name))

    def _path(self, name: str) -> str:
        return joined(self._root, name)

    def _temporary(self, name: str, path: str) -> str:
        """Return the path of a temporary file beside another file; make their folder."""
        folder, _, last = path.rpartition("/")
        if folder:
            with self._telling(name):
                self._filesystem.create_dir(folder, recursive=True)
        return joined(folder, temporary_name(last))

    def _put(self, name: str, path: str, chunks: Iterable[bytes]) -> None:
        # An error while a chunk is made belongs to another place, and is reported there.
        with self._telling(name):
            stream = self._filesystem.open_output_stream(path)
        try:
            for chunk in chunks:
                with self._telling(name):
                    stream.write(chunk)
        except BaseException:
            # A stream can end only by being closed, which makes a file of what was written.
            with suppress(OSError, pa.ArrowException):
                stream.close()
            with suppress(OSError, pa.ArrowException):
                self._filesystem.delete_file(path)
            raise
        with self._telling(name):
            stream.close()

    @contextmanager
    def _telling(self, name: str) -> Iterator[None]:
        """Let errors of the file system name the URI, and nothing that is secret in it."""
        try:
            yield
        except LookupStoreError:
            raise
        except Exception as error:
            opened = None if self._opened is None else self._opened[0]
            is_usual = isinstance(error, (OSError, pa.ArrowException))
            if not is_usual and not tells_secrets(str(error), self._given[0], opened):
                raise
            where, uri = self.show(name), self._given[0]
            raise without_credentials_error(error, where, uri, opened) from None


def _temporary_folder() -> str:
    """Return the folder of the system for temporary files.

    Raises:
        OSError: The system has no temporary folder that can be written.
    """
    try:
        return tempfile.gettempdir()
    except FileNotFoundError as error:  # a missing file would mean something else to callers
        reason = f"{error.strerror or error}; set TMPDIR to a writable folder, or pass temp_dir"
        raise OSError(errno.EROFS, reason) from None


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
        """Do nothing: the code that ends the stream also decides whether the file counts."""

    def end(self) -> None:
        with self._telling():
            self._stream.close()
