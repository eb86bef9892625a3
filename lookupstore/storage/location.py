"""The place of a store: a folder of this machine, or of any file system that pyarrow has.

Names inside a location are relative, with `/`, and lead nowhere else: see
`lookupstore.storage.inside`. A file of a store never changes once it is named, so there are few
operations, and each is one that local disks, object stores and HDFS can keep: list, read, write a
new file in one step, delete.

The differences between them are in the two subclasses, in `local` and `object_store`, so that no
caller asks which of them it has. See docs/decisions/0022-locations.md.

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
        name: Name of the file relative to the location, with `/`.
        bytes: Size of the file.
        modified: Time of its last change, in seconds since 1970. None: it is not known.
    """

    name: str
    bytes: int
    modified: float | None


class Location:
    """A folder for a store, which may exist already.

    Args:
        path: Local path, where `~` is the home folder, or a URI: `file://`, `s3://`, `gs://`,
            `abfs://`, `hdfs://`. Credentials are found in the usual ways of each: the environment,
            files of the user, the machine.
        filesystem: Open file system of pyarrow or fsspec; `path` is then a path in it, with or
            without its scheme. For one of s3fs, gcsfs or adlfs, pyarrow's own file system is opened
            with its options. Default: the file system of the URI, or of this machine.
        storage_options: Credentials, region, endpoint and similar options of a URI, by the names
            that pandas or deltalake have for them: `{"key": ..., "secret": ..., "endpoint_url":
            ...}`, or `{"AWS_ACCESS_KEY_ID": ...}`.

    Raises:
        TypeError: If `path` is not a path, or `filesystem` is not a file system.
        ValueError: If `path` is empty, or is a URI that pyarrow does not know or that lacks its
            slashes; if an option is not known; or if options are given and `path` is not a URI or
            has a `filesystem`.

    >>> Location("file:///data/users").uri
    '/data/users'
    """

    #: Name of the location for people: the local path, or the URI without its secrets.
    uri: str
    #: Whether files are written and read in place; elsewhere there are local copies of them.
    in_place: bool
    #: Whether reading all of a file once more costs little.
    is_cheap_to_read: bool
    #: Compression of files if the caller chooses none: no compression where files are looked up in
    #: place, zstd where they are transferred.
    default_compression: str

    # State that is pickled: made from it, a location is the same in every process and folder.
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
            # Both modules import this one, since their classes are subclasses of this class.
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

    # Addresses.

    @property
    def given(self) -> tuple[str, fs.FileSystem | None]:
        """Return the path and its file system; or a URI with its secrets, and None."""
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
        """Return the address of a file, for readers of columnar files."""
        return FileAddress(*self.resolve(name), self.show(name))

    def readers(self, processors: int) -> int:
        """Return the number of threads that read many small parts fastest on so many processors."""
        raise NotImplementedError

    # Listing.

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
        """Return the files in a folder, by name; empty if there is no such folder.

        On a local disk symbolic links are skipped, so that no listing is endless.

        Args:
            folder: Folder to list, relative to the location. Default: the location itself.
            recursive: Whether to list the files in folders below it, too.
            complete: Whether a symbolic link is an error, because the files that it leads to would
                be missing.

        Raises:
            FormatError: There is a symbolic link, and `complete` is True.
        """
        raise NotImplementedError

    def folders(self, folder: str = "", *, complete: bool = False) -> list[str]:
        """Return the names of the folders in a folder, sorted; see `files`."""
        raise NotImplementedError

    def unfinished(self) -> dict[str, str]:
        """Return the final names of incomplete files, without folders, by their present names.

        Their writers are at work, or dead. There are none where a file appears only when it is
        complete, and where incomplete files are elsewhere than beside the folders.
        """
        raise NotImplementedError

    def size(self, name: str) -> int | None:
        """Return the size of a file, or None if it is not there."""
        with self._telling(name):
            info = self._filesystem.get_file_info(self._path(name))
        return int(info.size) if info.is_file else None

    def check_size(self, name: str, nbytes: int) -> None:
        """Check that a file that was written has arrived in full.

        Raises:
            OSError: The file is missing, or has another size.
        """
        size = self.size(name)
        if size != nbytes:
            found = "nothing" if size is None else f"{size} bytes"
            reason = f"{nbytes} bytes were written, found {found}"
            raise OSError(errno.EIO, reason, self.show(name))

    # Reading.

    def chunks(self, name: str) -> Iterator[bytes]:
        """Read a file, a piece at a time.

        Raises:
            FileNotFoundError: There is no such file.
        """
        with self._telling(name), self._filesystem.open_input_stream(self._path(name)) as stream:
            while chunk := stream.read(PIECE):
                yield chunk

    def read(self, name: str, most: int = MOST_BYTES) -> bytes:
        """Read a whole small file.

        Args:
            name: Name of the file.
            most: Largest size that a file of its kind may have, in bytes.

        Raises:
            FileNotFoundError: There is no such file.
            CorruptionError: The file has more bytes. If its size says so, nothing is read.
        """
        raise NotImplementedError

    def one_request(self) -> Callable[[str, int], bytes] | None:
        """Return a function that reads a whole small file by one request, without delaying others.

        It is called like `read`, and raises an OSError if the file is missing, or if anything else
        keeps it from reading the file. None: there is no such request, or no need for it.
        """
        raise NotImplementedError

    def hash(self, name: str) -> str:
        """Return the XXH64 of a whole file as 16 hexadecimal digits."""
        digest = xxhash.xxh64()
        for chunk in self.chunks(name):
            digest.update(chunk)
        return digest.hexdigest()

    # Writing.

    def write(
        self, name: str, chunks: Iterable[bytes], *, mode: int = 0o666, overwrite: bool = False
    ) -> None:
        """Write a new file durably, so that readers see all of it or nothing.

        Args:
            name: Name of the file.
            chunks: Content of the file, in pieces.
            mode: Largest permissions of a local file.
            overwrite: Whether to replace a file of that name, in one step on a local disk or an
                object store.

        Raises:
            FileExistsError: The file exists already, on a local disk, and `overwrite` is False.
                Elsewhere, choose names that no other writer uses.
        """
        raise NotImplementedError

    def new_file(self, name: str) -> AbstractContextManager[Any]:
        """Write a new file through a stream; it exists durably when the block ends.

        A block that fails leaves no file.

        Raises:
            FileExistsError: The file exists already, on a local disk.
        """
        raise NotImplementedError

    @property
    def creates_once(self) -> bool:
        """Return whether `create` makes a name only once: on local disks and object stores."""
        raise NotImplementedError

    def create(self, name: str, content: bytes, check: Callable[[], None] | None = None) -> None:
        """Write a new file durably; of several callers at once, one succeeds.

        This holds if `creates_once` is True; otherwise the call looks for the name before it
        writes.

        Args:
            name: Name of the file.
            content: Content of the file.
            check: Function that raises if the file must not be made any more. It is called as late
                as possible: on a local disk, when only the naming of the temporary file is left to
                do.

        Raises:
            FileExistsError: The file exists already.
            FileNotFoundError: On a local disk, another process has deleted the temporary file.
            ImportError: On an object store, obstore is not installed.
        """
        raise NotImplementedError

    def check_creates_once(self, folder: str) -> None:
        """Check, once in a process, that the disk or server keeps `creates_once`.

        Args:
            folder: Folder in which something may be written during the check.

        Raises:
            FormatError: The disk or server does not keep it.
            ImportError: On an object store, obstore is not installed.
        """
        raise NotImplementedError

    def replace(self, name: str, content: bytes) -> None:
        """Write a file in the place of another, in one step, on a local disk or an object store.

        The caller holds a lock that keeps other writers from doing the same.
        """
        raise NotImplementedError

    def move(self, name: str, to: str) -> None:
        """Rename a file durably.

        An object store copies the object, and deletes the original.

        Raises:
            FileExistsError: A file of the new name exists already, on a local disk.
            OSError: There is no file of that name, or it cannot be moved.
        """
        raise NotImplementedError

    def touch(self, name: str) -> bool:
        """Set the time of a file to now; return False if the file is missing.

        Raises:
            FormatError: The file is neither on a local disk nor on an object store.
        """
        raise NotImplementedError

    def date(self, name: str, moment: datetime) -> None:
        """Set the time of a file that was just named.

        An object has the time at which it is named; on a local disk a file that has waited for its
        name is older than that.
        """
        raise NotImplementedError

    def lock_file(self, name: str) -> LockFile:
        """Return a file that serves as a lock.

        Raises:
            FormatError: The file is neither on a local disk nor on an object store.
            ImportError: On an object store, obstore is not installed.
        """
        raise NotImplementedError

    # Folders, where a file system has any.

    def make_folder(self, folder: str) -> None:
        """Make a folder and those above it, unless it exists; object stores have none."""
        raise NotImplementedError

    def make_missing(self, folder: str) -> Iterator[str]:
        """Make a durable local folder and those above it; yield the path of each new one."""
        raise NotImplementedError

    def write_first(self, folder: str, name: str, content: bytes) -> bool:
        """Make a folder with one file in one step; return False where that is impossible.

        Of several callers at once, one succeeds: renaming a folder fails if the target holds
        anything.

        Raises:
            FileExistsError: The folder is not empty.
        """
        raise NotImplementedError

    def sync(self, folder: str = "") -> None:
        """Put the names in a local folder on disk; elsewhere a name lasts when it is written."""
        raise NotImplementedError

    # Deleting.

    def delete(self, name: str) -> None:
        """Delete a file, if it exists; of a symbolic link, delete the link and not its target."""
        raise NotImplementedError

    def delete_folder(self, folder: str) -> None:
        """Delete a folder without writers, and all that is in it; links are not followed."""
        raise NotImplementedError

    def delete_empty(self, folder: str) -> None:
        """Delete a folder unless anything is in it; object stores have none."""
        raise NotImplementedError

    # Transfers.

    def work_folder(
        self, folder: str, temp_dir: str | os.PathLike[str] | None = None
    ) -> AbstractContextManager[str]:
        """Enter a local folder for new files: that of the location, or a temporary one.

        Args:
            folder: Name of the existing folder in it that the files are written to.
            temp_dir: Folder in which a temporary folder is made. Default: the system's temporary
                folder.
        """
        raise NotImplementedError

    def spill_folder(self) -> str:
        """Return a local folder for rows that do not fit into memory."""
        raise NotImplementedError

    def upload(self, name: str, folder: str) -> None:
        """Bring all of a file from the work folder to the location.

        Raises:
            OSError: The file has not arrived, or only a part of it.
        """
        raise NotImplementedError

    def download(self, name: str, folder: str) -> None:
        """Bring a file to the work folder, unless it is there."""
        raise NotImplementedError

    # Members that the subclasses provide.

    @property
    def _filesystem(self) -> fs.FileSystem:
        raise NotImplementedError

    @property
    def _root(self) -> str:
        raise NotImplementedError

    def _path(self, name: str) -> str:
        """Return the path of a name on the file system; all reads and writes use it."""
        raise NotImplementedError

    def _telling(self, name: str) -> AbstractContextManager[None]:
        """Let errors of the file system name the place, and show no secret."""
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
    """Return the path or URI of a location, and its file system of pyarrow.

    If the file system is None, it is that of the URI, or of this machine.

    Raises: what `Location` raises for its arguments.
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
        raise ValueError(f"storage_options are for URIs, and path is {text!r}; leave them out")
    return with_options(expanded(text), storage_options), None


def as_location(
    path: str | os.PathLike[str] | Location, storage_options: Mapping[str, Any] | None = None
) -> Location:
    """Return the location of a path or URI, or the given location.

    Raises: what `Location` raises, and ValueError if options are given for a location.
    """
    if not isinstance(path, Location):
        return Location(path, storage_options=storage_options)
    if storage_options:
        raise ValueError("storage_options: path is a Location; give them to that")
    return path


def local_folder(text: str, filesystem: fs.FileSystem | None) -> str | None:
    """Return the absolute path of a result of `address_of`, if that is on this machine."""
    if isinstance(filesystem, fs.LocalFileSystem) or (filesystem is None and "://" not in text):
        return os.path.abspath(text)
    if filesystem is None and text.startswith("file://"):
        return os.path.abspath(open_uri(text)[1])
    return None


def _reopen(path: str, filesystem: fs.FileSystem | None) -> Location:
    return Location(path, filesystem=filesystem)
