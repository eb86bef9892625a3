"""Files that a host makes for itself, such as those of columnar files: once, whoever asks."""

from __future__ import annotations

import fcntl
import logging
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from types import TracebackType

from lookupstore.hostcache.folder import (
    COPY,
    MADE_NAME,
    MAKING,
    ROOM,
    HostFolder,
    flock,
    inode_of,
    remove,
    touch,
)
from lookupstore.hostcache.own_folder import NotOwnError, open_own
from lookupstore.storage.naming import sync_folder

_log = logging.getLogger(__name__)


class MadeFile:
    """A pinned file that was made on this host: it is not evicted before `close`.

    Attributes:
        path: of the file.
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

    def __enter__(self) -> MadeFile:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<MadeFile {self.path}>"


class Room:
    """Quota reserved for a file being written, as a sparse file of that size."""

    def __init__(self, folder: HostFolder, path: str, name: str) -> None:
        self._folder = folder
        self._path = path
        self._name = name
        self._nbytes = 0

    def ensure(self, nbytes: int) -> None:
        """Reserve that many bytes, or more.

        Raises:
            DiskQuotaError: that is more than the quota, or what is in use leaves no room.
        """
        if nbytes > self._nbytes:
            self._folder.give_room(self._path, self._name, nbytes)
            self._nbytes = nbytes

    def release(self) -> None:
        """Give the room back; who has the folder alone puts the file itself in its place."""
        os.unlink(self._path)


class MadeFiles:
    """Files that were made on this host, with names that identify their contents.

    Args:
        folder: that they are in.
    """

    def __init__(self, folder: HostFolder) -> None:
        self._folder = folder

    def hold(self, name: str) -> MadeFile | None:
        """Pin a file that was made on this host; None if there is none.

        Args:
            name: that it was made under.
        """
        try:
            descriptor = open_own(self._path(name))
        except FileNotFoundError:
            return None
        except NotOwnError as error:
            _log.warning("%s", error)
            self.discard(name)
            return None
        # Whoever evicts has the folder alone, so this does not wait for long.
        with self._folder.locked():
            fcntl.flock(descriptor, fcntl.LOCK_SH)
            held = MadeFile(self._path(name), descriptor)
            if inode_of(held.path) != os.fstat(descriptor).st_ino:
                held.close()
                return None
            touch(descriptor)
            return held

    def make(self, name: str, needed: int, write: Callable[[str, Room], None]) -> MadeFile:
        """Pin a file of this host, which is made once if it does not exist.

        Args:
            name: tells all that is in the file: 32 hexadecimal digits.
            needed: bytes that it, and what is beside it until it is made, will take, about.
            write: writes it to a path, and asks its room for more than `needed`. What else it puts
                beside it is removed.

        Raises:
            DiskQuotaError: it is larger than the quota, or what is in use leaves no room.
            ValueError: the name is not of a file.
            Exception: what `write` raises; nothing is left of the file then.
        """
        if MADE_NAME.fullmatch(name) is None:
            raise ValueError(f"name={name!r}; give 32 hexadecimal digits")
        while (held := self.hold(name)) is None:
            self.make_at(self._path(name), needed, write)
        return held

    def discard(self, name: str) -> None:
        """Remove a file that was made on this host, since it has turned out to be damaged.

        Who holds it goes on with it.
        """
        with self._folder.locked():
            remove(self._path(name))

    def make_at(self, target: str, needed: int, write: Callable[[str, Room], None]) -> None:
        """Make a file, in a folder of its own whose size counts, unless others have made it."""
        name = os.path.basename(target)
        with self._maker_of(name) as folder:
            path = os.path.join(folder, name)
            try:
                if os.path.exists(target):
                    return
                room = Room(self._folder, os.path.join(folder, ROOM), name)
                room.ensure(needed)
                write(path, room)
                os.chmod(path, 0o600)
                # On a disk without owners or modes it would be made again and again.
                os.close(open_own(path))
                with self._folder.locked():
                    room.release()  # both would count until the folder has gone
                    os.rename(path, target)
                    sync_folder(self._folder.path)
            finally:
                shutil.rmtree(folder, ignore_errors=True)

    def _path(self, name: str) -> str:
        return os.path.join(self._folder.path, f"{name}{COPY}")

    @contextmanager
    def _maker_of(self, name: str) -> Iterator[str]:
        """Be the only one that makes a file; give the folder to make it in."""
        folder = os.path.join(self._folder.path, MAKING, name)
        self._folder.make()
        with ExitStack() as stack:
            inode = None
            while inode is None or inode != inode_of(folder):  # it goes when its maker has finished
                stack.close()
                os.makedirs(folder, mode=0o700, exist_ok=True)
                with suppress(FileNotFoundError):
                    inode = stack.enter_context(flock(folder, os.O_RDONLY | os.O_DIRECTORY))
            yield folder
