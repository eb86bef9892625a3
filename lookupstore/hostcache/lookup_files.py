"""Lookup files of a host: each is made once, for all processes that need it."""

from __future__ import annotations

import fcntl
import logging
import mmap
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from types import TracebackType

from lookupstore.hostcache.folder import (
    COPY,
    LOOKUP_FILE_NAME,
    MAKING,
    ROOM,
    HostFolder,
    NoFolderError,
    flock,
    inode_of,
    remove,
    touch,
)
from lookupstore.hostcache.own_folder import NotOwnError, open_own
from lookupstore.storage.naming import sync_folder

_log = logging.getLogger(__name__)


class PinnedLookupFile:
    """A lookup file of this host that is not evicted before `close`.

    Attributes:
        path: Path of the file.
    """

    def __init__(self, path: str, descriptor: int) -> None:
        self.path = path
        self._descriptor: int | None = descriptor

    def close(self) -> None:
        """Release the file; closing it again does nothing."""
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            os.close(descriptor)

    def __del__(self) -> None:
        if hasattr(self, "_descriptor"):
            self.close()

    def __enter__(self) -> PinnedLookupFile:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<PinnedLookupFile {self.path}>"


class Room:
    """Quota reserved for a file being written, as a sparse file of that size."""

    def __init__(self, folder: HostFolder, path: str, name: str, what: str) -> None:
        self._folder = folder
        self._path = path
        self._name = name
        self._what = what
        self._nbytes = 0

    def ensure(self, nbytes: int) -> None:
        """Reserve at least a number of bytes.

        Raises:
            DiskQuotaError: If that is more than the quota, or files in use leave no room.
        """
        if nbytes > self._nbytes:
            self._folder.give_room(self._path, self._name, self._what, nbytes)
            self._nbytes = nbytes

    def give_back(self) -> None:
        """Release the reservation; the caller holds the folder's lock, and moves the file there."""
        os.unlink(self._path)


class LookupFiles:
    """The lookup files of a host, under names that identify their contents.

    Args:
        folder: Folder that holds the files.
    """

    def __init__(self, folder: HostFolder) -> None:
        self._folder = folder

    def has(self, name: str) -> bool:
        """Return whether this host has a lookup file.

        Args:
            name: Name under which the file was made.
        """
        return self.size(name) is not None

    def size(self, name: str) -> int | None:
        """Return the size of a lookup file. None: this host does not have it.

        Args:
            name: Name under which the file was made.
        """
        try:
            return os.stat(self.path_of(name)).st_size
        except OSError:
            return None

    def pin(self, name: str) -> PinnedLookupFile | None:
        """Pin a lookup file of this host. None: there is none.

        Args:
            name: Name under which the file was made.
        """
        descriptor = self._descriptor_of(name)
        if descriptor is None:
            return None
        # Eviction happens under the folder's lock, so this does not wait for long.
        with self._folder.locked():
            fcntl.flock(descriptor, fcntl.LOCK_SH)
            pinned = PinnedLookupFile(self.path_of(name), descriptor)
            if inode_of(pinned.path) != os.fstat(descriptor).st_ino:
                pinned.close()
                return None
            touch(descriptor)
            return pinned

    def mapped(self, name: str) -> mmap.mmap | bytes | None:
        """Return the bytes of a lookup file, which stay when the file is evicted.

        This takes no lock, unlike `pin`.

        Args:
            name: Name under which the file was made.

        Returns:
            The bytes. None: this host does not have the file.

        Raises:
            OSError: The file cannot be read.
        """
        descriptor = self._descriptor_of(name)
        if descriptor is None:
            return None
        try:
            touch(descriptor)
            if not os.fstat(descriptor).st_size:  # no bytes cannot be mapped
                return b""
            return mmap.mmap(descriptor, 0, prot=mmap.PROT_READ)
        finally:
            os.close(descriptor)

    def _descriptor_of(self, name: str) -> int | None:
        """Open a lookup file. None: this host does not have it."""
        try:
            return open_own(self.path_of(name))
        except (FileNotFoundError, NotADirectoryError, NoFolderError):
            return None  # to make it raises the error of the folder
        except NotOwnError as error:
            _log.warning("%s", error)
            self.discard(name)
            return None

    def make(
        self,
        name: str,
        needed: int,
        write: Callable[[str, Room], None],
        source: str | None = None,
    ) -> PinnedLookupFile:
        """Pin a lookup file, and make it first if this host does not have it.

        Args:
            name: Name that identifies the content of the file: 32 hexadecimal digits.
            needed: Approximate number of bytes that the file will take, with everything next to it
                until it is made.
            write: Function that writes the file to a path, and reserves room for more than
                `needed`. Anything else that it puts next to the file is removed.
            source: File that the lookup file is of, for errors. None: they name the lookup file.

        Raises:
            DiskQuotaError: The file is larger than the quota, or files in use leave no room.
            ValueError: If the name is not that of a file.
            Exception: Any error that `write` raises; nothing is left of the file in this case.
        """
        if LOOKUP_FILE_NAME.fullmatch(name) is None:
            raise ValueError(f"name={name!r}; give 32 hexadecimal digits")
        while (pinned := self.pin(name)) is None:
            self.make_at(self.path_of(name), needed, write, source)
        return pinned

    def discard(self, name: str) -> None:
        """Remove a lookup file that has turned out to be damaged.

        Processes that have it open keep it until they close it.
        """
        with self._folder.locked():
            remove(self.path_of(name))

    def make_at(
        self,
        target: str,
        needed: int,
        write: Callable[[str, Room], None],
        source: str | None = None,
    ) -> None:
        """Make a file, unless others have made it, in a folder of its own whose size counts."""
        name = os.path.basename(target)
        with self.maker_of(name) as folder:
            path = os.path.join(folder, name)
            try:
                if os.path.exists(target):
                    return
                what = "it takes" if source is None else "its lookup file takes"
                room = Room(self._folder, os.path.join(folder, ROOM), source or name, what)
                room.ensure(needed)
                write(path, room)
                os.chmod(path, 0o600)
                # On a disk without owners or modes the check fails now; the file would be made
                # repeatedly.
                os.close(open_own(path))
                with self._folder.locked():
                    room.give_back()  # otherwise both would count until the folder is removed
                    os.rename(path, target)
                    sync_folder(self._folder.path)
            finally:
                shutil.rmtree(folder, ignore_errors=True)

    def path_of(self, name: str) -> str:
        """Return the path that a file has once it is made."""
        return os.path.join(self._folder.path, f"{name}{COPY}")

    @contextmanager
    def maker_of(self, name: str) -> Iterator[str]:
        """Hold the lock of the maker of a file; yield the folder to make it in.

        The caller removes the folder. If the caller dies, the next process that needs room does.

        Args:
            name: Name of the file.
        """
        folder = os.path.join(self._folder.path, MAKING, name)
        self._folder.make()
        with ExitStack() as stack:
            inode = None
            while inode is None or inode != inode_of(folder):  # its maker removes it at the end
                stack.close()
                # Python checks once more that the folder exists: its maker may just have removed
                # it.
                with self._folder.telling(), suppress(FileExistsError):
                    os.makedirs(folder, mode=0o700, exist_ok=True)
                with suppress(FileNotFoundError):
                    inode = stack.enter_context(flock(folder, os.O_RDONLY | os.O_DIRECTORY))
            yield folder
