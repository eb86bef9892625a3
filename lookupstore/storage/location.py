"""Where a store lives: a folder of this machine, or of any file system that pyarrow has.

Names inside a location are relative, with `/`, and lead nowhere else: see
`lookupstore.storage.inside`. A file of a store never changes once it is named, so there are few
operations, and each is one that local disks, object stores and HDFS can keep: list, read, write a
new file in one step, delete.

What differs between them is a member here, and nobody asks which of them it is: `local` and
`object_store` are the two. See docs/decisions/0022-locations.md.

A URI may carry credentials: see `lookupstore.storage.uris`.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

import xxhash
from pyarrow import fs

from lookupstore.storage.file_address import FileAddress
from lookupstore.storage.home import expanded
from lookupstore.storage.output import PIECE
from lookupstore.storage.small_files import MOST_BYTES
from lookupstore.storage.storage_options import in_filesystem, with_options
from lookupstore.storage.uris import check_path, open_uri

if TYPE_CHECKING:
    from lookupstore.storage.lock_file import LockFile


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
        filesystem: an open file system of pyarrow or fsspec; `path` is then a path in it, with or
            without its scheme. One of s3fs, gcsfs or adlfs is taken for the options it was made
            with: pyarrow's own reads and writes there.
        storage_options: credentials, region, endpoint and the like of a URI, by the names that
            pandas or deltalake have for them: `{"key": ..., "secret": ..., "endpoint_url": ...}`,
            or `{"AWS_ACCESS_KEY_ID": ...}`.

    Raises:
        TypeError: `path` is no path, or `filesystem` no file system.
        ValueError: `path` is empty, or a URI that pyarrow does not know or that lacks its slashes;
            an option is not known, or `path` is no URI and has none.

    >>> Location("file:///data/users").uri
    '/data/users'
    """

    #: What people see: the local path, or the URI without what is secret in it.
    uri: str
    #: Whether files are written and read where they are; elsewhere there are local copies of them.
    in_place: bool
    #: Whether all of a file can be read again without a second thought.
    is_cheap_to_read: bool
    #: What files are compressed with, if nobody says it: nothing where they are looked up in place,
    #: zstd where they travel.
    default_compression: str

    # What is pickled: made of it, a location is the same in every process and folder.
    _given: tuple[str, fs.FileSystem | None]

    def __new__(
        cls,
        path: str | os.PathLike[str],
        *,
        filesystem: Any = None,
        storage_options: Mapping[str, Any] | None = None,
    ) -> Location:
        kind = cls
        if cls is Location:
            # Both are kinds of this class, and import it.
            from lookupstore.storage.local import LocalFolder
            from lookupstore.storage.object_store import RemoteFolder

            given = address_of(path, filesystem, storage_options)
            kind = RemoteFolder if local_folder(*given) is None else LocalFolder
        return super().__new__(kind)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Location) and self._given == other._given

    def __hash__(self) -> int:
        return hash(self._given[0])

    def __reduce__(self) -> tuple[Any, ...]:
        return _reopen, self._given

    def __repr__(self) -> str:
        return f"<Location {self.uri!r}>"

    # How it is reached.

    @property
    def given(self) -> tuple[str, fs.FileSystem | None]:
        """Return the path in a file system; or a URI with what is secret in it, and None."""
        return self._given

    def show(self, name: str) -> str:
        """Return the path or URI of a file, for people and errors."""
        raise NotImplementedError

    def full(self, name: str) -> str:
        """Return the URI of a file as other programs write it down, without options."""
        raise NotImplementedError

    def resolve(self, name: str) -> tuple[fs.FileSystem, str]:
        """Return the file system, and the path of a file in it."""
        return self._filesystem, self._path(name)

    def address(self, name: str) -> FileAddress:
        """Return where a file is, for readers of columnar files."""
        return FileAddress(*self.resolve(name), self.show(name))

    def readers(self, processors: int) -> int:
        """Return how many threads read many small parts soonest, with so many processors."""
        raise NotImplementedError

    # What is there.

    def is_file(self) -> bool:
        """Return whether there is a file where a folder should be."""
        return self._kind() is fs.FileType.File

    def is_there(self) -> bool:
        """Return whether the folder exists; an object store has it as soon as anything is in it."""
        return self._kind() is fs.FileType.Directory

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
        raise NotImplementedError

    def folders(self, folder: str = "", *, complete: bool = False) -> list[str]:
        """Return the names of the folders in a folder, sorted; see `files`."""
        raise NotImplementedError

    def unfinished(self) -> dict[str, str]:
        """Return what files that are not whole are to be called, without folders, by their names.

        Their writers are at work, or dead. None where a file is there when it is whole, and where
        those that are not are elsewhere than beside the folders.
        """
        raise NotImplementedError

    def size(self, name: str) -> int | None:
        """Return the size of a file, or None if it is not there."""
        with self._telling(name):
            info = self._filesystem.get_file_info(self._path(name))
        return int(info.size) if info.is_file else None

    def check_size(self, name: str, nbytes: int) -> None:
        """Check that a file that was written has arrived.

        Raises:
            OSError: it has not, or in part.
        """
        size = self.size(name)
        if size != nbytes:
            found = "nothing" if size is None else f"{size} bytes"
            reason = f"{nbytes} bytes were written, found {found}"
            raise OSError(errno.EIO, reason, self.show(name))

    # What is read.

    def chunks(self, name: str) -> Iterator[bytes]:
        """Read a file, a piece at a time.

        Raises:
            FileNotFoundError: there is none.
        """
        with self._telling(name), self._filesystem.open_input_stream(self._path(name)) as stream:
            while chunk := stream.read(PIECE):
                yield chunk

    def read(self, name: str, most: int = MOST_BYTES) -> bytes:
        """Read a whole small file.

        Args:
            name: of the file.
            most: how many bytes one of its kind may have.

        Raises:
            FileNotFoundError: there is none.
            CorruptionError: it has more bytes; nothing is read of one that says so.
        """
        raise NotImplementedError

    def one_request(self) -> Callable[[str, int], bytes] | None:
        """Return what reads a whole small file by one request that others need not wait for.

        It is called as `read`, and raises an OSError if the file is not there, or whatever else
        keeps it from that. None: there is no such request, or no need for it.
        """
        raise NotImplementedError

    def hash(self, name: str) -> str:
        """Return the XXH64 of a whole file as 16 hexadecimal digits."""
        digest = xxhash.xxh64()
        for chunk in self.chunks(name):
            digest.update(chunk)
        return digest.hexdigest()

    # What is written.

    def write(self, name: str, chunks: Iterable[bytes], *, mode: int = 0o666) -> None:
        """Write a new file, which is seen whole or not at all, and lasts when this returns.

        Args:
            name: of the file.
            chunks: its bytes.
            mode: most that a local file lets others do.

        Raises:
            FileExistsError: the file is there already, on a local disk; elsewhere names of files
                must be such that nobody else writes them.
        """
        raise NotImplementedError

    def new_file(self, name: str) -> AbstractContextManager[Any]:
        """Write a new file piece by piece into a stream; when the block ends it is as of `write`.

        A block that fails leaves no file.

        Raises:
            FileExistsError: the file is there already, on a local disk.
        """
        raise NotImplementedError

    @property
    def creates_once(self) -> bool:
        """Return whether `create` keeps two of one name apart: on local disks and object stores."""
        raise NotImplementedError

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
            ImportError: on an object store, obstore is not installed.
        """
        raise NotImplementedError

    def check_creates_once(self, folder: str) -> None:
        """Make sure, once in a process, that whoever has the files keeps `creates_once`.

        Args:
            folder: where something may be written, for as long as that takes.

        Raises:
            FormatError: it does not.
            ImportError: on an object store, obstore is not installed.
        """
        raise NotImplementedError

    def replace(self, name: str, content: bytes) -> None:
        """Write a file in the place of another, in one step, on a local disk or an object store.

        The caller holds what keeps others from doing the same.
        """
        raise NotImplementedError

    def move(self, name: str, to: str) -> None:
        """Rename a file durably.

        An object store copies it, and deletes what was copied.

        Raises:
            FileExistsError: there is one of the new name already, on a local disk.
            OSError: there is none of that name, or it cannot be moved.
        """
        raise NotImplementedError

    def touch(self, name: str) -> bool:
        """Let a file be written now, as it is; return False if it is not there.

        Raises:
            FormatError: it is neither on a local disk nor on an object store.
        """
        raise NotImplementedError

    def date(self, name: str, moment: datetime) -> None:
        """Let a file that was just named be written at a moment.

        An object is dated when it is named; on a local disk a file that has waited for its name is
        older than that.
        """
        raise NotImplementedError

    def lock_file(self, name: str) -> LockFile:
        """Return a file that is a lock.

        Raises:
            FormatError: it is neither on a local disk nor on an object store.
            ImportError: on an object store, obstore is not installed.
        """
        raise NotImplementedError

    # Folders, as far as there are some.

    def make_folder(self, folder: str) -> None:
        """Make a folder and those above it, unless it exists; object stores have none."""
        raise NotImplementedError

    def make_missing(self, folder: str) -> Iterator[str]:
        """Make a local folder and those above it, to last; yield the path of each that is new."""
        raise NotImplementedError

    def write_first(self, folder: str, name: str, content: bytes) -> bool:
        """Make a folder with one file in it, in one step; return False where that is no step.

        Of those who do that at once, one succeeds: renaming a folder fails if the target holds
        anything.

        Raises:
            FileExistsError: there is something in the folder.
        """
        raise NotImplementedError

    def sync(self, folder: str = "") -> None:
        """Put the names in a local folder on disk; elsewhere a name lasts when it is written."""
        raise NotImplementedError

    # What goes.

    def delete(self, name: str) -> None:
        """Delete a file, if it exists; of a symbolic link, not what it leads to."""
        raise NotImplementedError

    def delete_folder(self, folder: str) -> None:
        """Delete a folder that nobody writes to, and all that is in it; links are not followed."""
        raise NotImplementedError

    def delete_empty(self, folder: str) -> None:
        """Delete a folder unless anything is in it; object stores have none."""
        raise NotImplementedError

    # Files on their way.

    def work_folder(
        self, folder: str, temp_dir: str | os.PathLike[str] | None = None
    ) -> AbstractContextManager[str]:
        """Give a local folder in which new files are written: its own, or a temporary one.

        Args:
            folder: name of the folder in it that they are written to, which is there.
            temp_dir: where a temporary one is made; None: where the system has them.
        """
        raise NotImplementedError

    def spill_folder(self) -> str:
        """Return a local folder for what does not fit into memory."""
        raise NotImplementedError

    def upload(self, name: str, folder: str) -> None:
        """Bring a file from the work folder to where it belongs, all of it.

        Raises:
            OSError: it has not arrived, or in part.
        """
        raise NotImplementedError

    def download(self, name: str, folder: str) -> None:
        """Bring a file to the work folder, if it is not there."""
        raise NotImplementedError

    # Of each kind.

    @property
    def _filesystem(self) -> fs.FileSystem:
        raise NotImplementedError

    @property
    def _root(self) -> str:
        raise NotImplementedError

    def _path(self, name: str) -> str:
        """Return the path of a name on the file system: each that is read or written goes here."""
        raise NotImplementedError

    def _telling(self, name: str) -> AbstractContextManager[None]:
        """Let errors of the file system say where they are, and nothing that is secret."""
        raise NotImplementedError

    def _kind(self) -> fs.FileType:
        with self._telling(""):
            return self._filesystem.get_file_info(self._root).type

    def _relative(self, path: str) -> str:
        root = self._root.rstrip("/")
        below = path[len(root) + 1 :] if root or path.startswith("/") else path
        return below.rstrip("/")


def address_of(
    path: str | os.PathLike[str],
    filesystem: Any = None,
    storage_options: Mapping[str, Any] | None = None,
) -> tuple[str, fs.FileSystem | None]:
    """Return the path or URI that a location is given, and the file system of pyarrow it is in.

    None: it is what the URI names, or this machine's.

    Raises: what `Location` raises of its arguments.
    """
    text = os.fspath(path)
    if not isinstance(text, str):
        raise TypeError(f"path is {type(text).__name__}; give a str or an os.PathLike of str")
    if not text:
        raise ValueError("path is empty; give the folder or URI of a store")
    if filesystem is not None:
        if storage_options:
            raise ValueError("storage_options: filesystem has options of its own; give one of both")
        return in_filesystem(text, filesystem)
    check_path(text)
    if storage_options and "://" not in text:
        raise ValueError(f"storage_options are of URIs, and path is {text!r}; leave them out")
    return with_options(expanded(text), storage_options), None


def as_location(
    path: str | os.PathLike[str] | Location, storage_options: Mapping[str, Any] | None = None
) -> Location:
    """Return the location of a path or URI, or the one that is given.

    Raises: what `Location` raises; ValueError: a location has no use for options.
    """
    if not isinstance(path, Location):
        return Location(path, storage_options=storage_options)
    if storage_options:
        raise ValueError("storage_options: path is a Location; give them to that")
    return path


def local_folder(text: str, filesystem: fs.FileSystem | None) -> str | None:
    """Return the absolute path of what `address_of` returned, if that is on this machine."""
    if isinstance(filesystem, fs.LocalFileSystem) or (filesystem is None and "://" not in text):
        return os.path.abspath(text)
    if filesystem is None and text.startswith("file://"):
        return os.path.abspath(open_uri(text)[1])
    return None


def _reopen(path: str, filesystem: fs.FileSystem | None) -> Location:
    return Location(path, filesystem=filesystem)
