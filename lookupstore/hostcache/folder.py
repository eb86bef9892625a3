"""The folder of local copies of a host: its lock, its quota, and the eviction of copies.

All processes of a host share the folder. There is no index of its contents. A process that uses a
file has a shared lock on it, and only a file that can be locked exclusively is evicted. The system
releases the locks of a process that dies, so no cleanup is needed.

All steps that make, complete or remove files happen under the lock of the folder, and none of them
reads from the network.
"""

from __future__ import annotations

import errno
import fcntl
import functools
import logging
import os
import re
import shutil
import stat
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from datetime import timedelta
from typing import TypeVar

from lookupstore.errors import DiskQuotaError
from lookupstore.hostcache.own_folder import (
    VARIABLE,
    NotOwnError,
    is_shared,
    make_own_folder,
    open_own,
    own_part,
)
from lookupstore.hostcache.stats import FILE_NAME
from lookupstore.quantities import Size, bytes_of
from lookupstore.storage import descriptors
from lookupstore.storage.home import expanded, home_folder

#: Time after which a copy that no process has opened is removed, even if its room is not needed.
RETENTION = timedelta(days=30)

#: Unit in bytes in which file systems allocate room: a file takes its size, rounded up.
BLOCK_BYTES = 4096

#: Seconds to wait until other users release the room that a file needs.
ROOM_WAIT = 20.0

#: Extensions of the names of copies, and of the maps of incomplete copies.
COPY, MAP = ".sst", ".map"
#: Name of the folder of files that are being made, each in a folder of its own. Names of two files
#: in that folder: one reserves its room, the other has the time of the last claim to make it.
MAKING, ROOM, CLAIM = "making", "room", "claim"
#: Seconds after which a claim expires if it is not renewed, and seconds after which any claim
#: expires, so that a slow maker does not delay others.
CLAIM_SECONDS, MOST_CLAIM_SECONDS = 3.0, 30.0
#: Patterns of the names of copies, which contain their hash, and of files that were made here.
COPY_NAME = re.compile(r"[0-9a-f]{16}-[0-9]+(?:-plain)?")
LOOKUP_FILE_NAME = re.compile(r"[0-9a-f]{32}")

P = TypeVar("P")

#: Names of the files that are locked: for steps in the folder, and for making a plain copy.
LOCK, RECODE_LOCK = "lock", "recode.lock"

_log = logging.getLogger(__name__)


class NoFolderError(PermissionError):
    """There is no folder for local copies that this user can write."""


@dataclass(frozen=True)
class CacheContents:
    """The number and size of the files in the folder of a host.

    Attributes:
        copies: Number of local copies of files of stores.
        copies_bytes: Bytes that they take, counting incomplete copies in full.
        made: Number of files that were made on this host, such as lookup files.
        made_bytes: Bytes that they take.
    """

    copies: int
    copies_bytes: int
    made: int
    made_bytes: int


@dataclass(frozen=True)
class ClearedCache:
    """The number and size of the files that were removed from the folder of a host, or kept.

    Attributes:
        removed: Number of files that were removed.
        removed_bytes: Bytes that they took.
        in_use: Number of files that were kept, because a process has them open.
        in_use_bytes: Bytes that they take.
    """

    removed: int
    removed_bytes: int
    in_use: int
    in_use_bytes: int


class HostFolder:
    """Files of a host in one folder, under one quota.

    Args:
        path: Path of the folder, on a local disk. None: the result of `default_folder`.
        quota: Largest size of all files, in bytes or as a text such as `"10GB"`. None:
            `$LOOKUPSTORE_CACHE_BYTES`, otherwise half of the bytes that are free on the file system
            or already used by these files.
        retention: Time after which a file that no process opens is removed. None: it is kept until
            its room is needed.

    Raises:
        ValueError: The quota is not a positive number, the retention is negative, or a variable of
            the environment has a wrong value.

    Example:
        >>> HostFolder("copies", quota=1 << 20).used
        0
    """

    def __init__(
        self,
        path: str | os.PathLike[str] | None,
        quota: Size | None,
        retention: timedelta | None = RETENTION,
    ) -> None:
        is_shared()  # a wrong value is an error here, not at the first copy
        self._given = None if path is None else own_part(os.path.abspath(expanded(os.fspath(path))))
        self._quota = _default_quota() if quota is None else bytes_of(quota, "quota", least=1)
        if retention is not None and retention < timedelta():
            raise ValueError(f"retention={retention} is negative")
        self.retention = retention
        self._is_made = False

    @functools.cached_property
    def path(self) -> str:
        """The path of the folder.

        The default folder is determined on first use, so a process without remote files needs none.
        """
        return os.path.abspath(default_folder()) if self._given is None else self._given

    @property
    def quota(self) -> int:
        """Return the maximum number of bytes of all files."""
        if self._quota is not None:
            return self._quota
        return _half_of_disk(self.path, self._used())

    @property
    def used(self) -> int:
        """Return the bytes that all files take, counting incomplete copies in full."""
        with ExitStack() as stack:
            # Without the lock, a file and its replacement could both be counted.
            with suppress(FileNotFoundError, PermissionError):
                stack.enter_context(flock(os.path.join(self.path, LOCK), os.O_RDWR))
            return self._used()

    def _used(self) -> int:
        return sum(entry.nbytes for entry in self._entries()) + self._rooms()

    def make(self) -> None:
        """Make the folder unless it exists, and check that it belongs to this user alone.

        Raises:
            NotOwnError: Others may change the contents of the folder.
            OSError: The folder cannot be made.
        """
        with self.telling():
            mode = make_own_folder(self.path)
            if not self._is_made:
                # An earlier version has made folders that others may read.
                if mode & 0o077 and all(map(_is_of_cache, os.listdir(self.path))):
                    os.chmod(self.path, 0o700)
                self._is_made = True

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Hold the folder's exclusive lock."""
        self.make()
        with ExitStack() as stack:
            with self.telling():
                stack.enter_context(flock(os.path.join(self.path, LOCK)))
            yield

    @contextmanager
    def telling(self) -> Iterator[None]:
        """Add the purpose of the folder, and the remedy, to errors of the folder."""
        try:
            yield
        except NotOwnError:
            raise
        except OSError as error:
            reason = (
                f"{error.strerror}: cannot keep local copies and lookup files here; set "
                f"{VARIABLE} to a writable folder"
            )
            raise type(error)(error.errno, reason, self.path) from None

    def evict(self, needed: int) -> int:
        """Evict copies until there is room, and those past retention; return the bytes in use."""
        self._clear_dead_rooms()
        entries = self._entries()
        used = sum(entry.nbytes for entry in entries) + self._rooms()
        quota = _half_of_disk(self.path, used) if self._quota is None else self._quota
        oldest = 0.0 if self.retention is None else time.time() - self.retention.total_seconds()
        for entry in entries:
            if (used + needed > quota or entry.opened < oldest) and _remove_unused(entry.path):
                used -= entry.nbytes
        return used

    def reserve(self, nbytes: int, name: str, what: str, remedy: str, beside: int = 0) -> None:
        """Evict copies until there is room, or raise an error if there is none.

        Args:
            nbytes: Size of a file, or number of bytes that are added to it.
            name: Name of the file, for errors.
            what: Words before the number of bytes in an error, such as "the file has".
            remedy: Remedy other than a larger quota, for errors.
            beside: Number of bytes of files that belong to the file, such as its map.
        """
        quota = self.quota
        needed = room_of(nbytes) + beside
        if needed > quota:
            origin, larger = "", "raise LOOKUPSTORE_CACHE_BYTES"
            if self._quota is None:
                origin = ", half of the free space of its disk"
                larger = f"free some space, or set {VARIABLE} to a folder on a larger disk"
            raise DiskQuotaError(
                f"{name}: {what} {nbytes} bytes, but the quota of the cache {self.path} "
                f"is {quota} bytes{origin}; {larger}, or {remedy}"
            )
        rest = self.evict(needed)
        if rest + needed > quota:
            raise DiskQuotaError(
                f"{name}: {what} {nbytes} bytes, but of the quota of {quota} bytes of the cache "
                f"{self.path}, {rest} are in use; raise LOOKUPSTORE_CACHE_BYTES, or close "
                "other stores",
                may_pass=True,
            )

    def give_room(self, path: str, name: str, what: str, nbytes: int) -> None:
        with self.locked():
            had = size_of(path) or 0
            self.reserve(nbytes - had, name, what, "split it into smaller files")
            descriptor = open_own(path, os.O_RDWR | os.O_CREAT)
            try:
                os.ftruncate(descriptor, nbytes)
            finally:
                os.close(descriptor)

    def contents(self, unused: float = 0) -> CacheContents:
        """Return the number and size of the files, apart from those being made.

        Args:
            unused: Count only files not opened for so many seconds. Default: all files.
        """
        found = self._unused(unused)
        copies = [entry.nbytes for entry in found if entry.is_copy]
        made = [entry.nbytes for entry in found if not entry.is_copy]
        return CacheContents(len(copies), sum(copies), len(made), sum(made))

    def clear(self, unused: float = 0) -> ClearedCache:
        """Remove files that no process has open, and unfinished files of processes that died.

        Args:
            unused: Remove only files not opened for so many seconds. Default: all files.

        Raises:
            NotOwnError: If others may change the contents of the folder.
            OSError: If the folder cannot be written.
        """
        if not os.path.isdir(self.path):
            return ClearedCache(0, 0, 0, 0)
        with self.locked():
            self._clear_dead_rooms()
            found = [(entry.nbytes, _remove_unused(entry.path)) for entry in self._unused(unused)]
        removed = [nbytes for nbytes, is_gone in found if is_gone]
        kept = [nbytes for nbytes, is_gone in found if not is_gone]
        return ClearedCache(len(removed), sum(removed), len(kept), sum(kept))

    def _unused(self, seconds: float) -> list[_Entry]:
        newest = time.time() - seconds
        return [entry for entry in self._entries() if not seconds or entry.opened < newest]

    def make_room(self, needed: int) -> None:
        """Evict unused copies if the disk is full before the quota is reached."""
        with self.locked():
            freed = 0
            for entry in self._entries():
                if freed >= needed:
                    break
                if _remove_unused(entry.path):
                    freed += entry.nbytes

    def _entries(self) -> list[_Entry]:
        """Return all copies of the folder, the one that was opened longest ago first."""
        entries = []
        with suppress(FileNotFoundError), os.scandir(self.path) as found:
            for item in found:
                name, extension = os.path.splitext(item.name)
                if extension != COPY or not (
                    COPY_NAME.fullmatch(name) or LOOKUP_FILE_NAME.fullmatch(name)
                ):
                    continue
                with suppress(FileNotFoundError):
                    status = item.stat(follow_symlinks=False)
                    is_copy = COPY_NAME.fullmatch(name) is not None  # others have no map
                    map_size = size_of(map_of(item.path)) if is_copy else None
                    nbytes = status.st_blocks * 512
                    if map_size is not None:  # count the room that the copy will take
                        nbytes = max(nbytes, room_of(status.st_size)) + map_size
                    entries.append(_Entry(status.st_atime, item.path, nbytes, is_copy))
        return sorted(entries, key=lambda entry: entry.opened)

    def _rooms(self) -> int:
        """Return the bytes that files being made may take."""
        total = 0
        with suppress(FileNotFoundError), os.scandir(os.path.join(self.path, MAKING)) as found:
            total = sum(room_of(size_of(os.path.join(item.path, ROOM)) or 0) for item in found)
        return total

    def _clear_dead_rooms(self) -> None:
        """Remove the files of makers that died, unless their claim has not expired."""
        with suppress(FileNotFoundError), os.scandir(os.path.join(self.path, MAKING)) as found:
            for item in found:
                with (
                    suppress(BlockingIOError, FileNotFoundError),
                    flock(item.path, os.O_RDONLY | os.O_DIRECTORY, fcntl.LOCK_NB),
                ):
                    if not is_claimed(item.path):
                        shutil.rmtree(item.path, ignore_errors=True)


@dataclass(frozen=True)
class _Entry:
    opened: float
    path: str
    nbytes: int
    is_copy: bool


def room_of(nbytes: int) -> int:
    """Return the bytes that a file of some size takes on a disk."""
    return -(-nbytes // BLOCK_BYTES) * BLOCK_BYTES


def with_room(pin: Callable[[], P]) -> P:
    """Return the result of `pin`; wait while other users need the room that it needs.

    Files that this process has open and does not use are closed.

    Args:
        pin: Function that pins or makes a file.

    Raises:
        DiskQuotaError: If there is no room, or none became free for `ROOM_WAIT` seconds.
    """
    until = time.monotonic() + ROOM_WAIT
    while True:
        try:
            return pin()
        except DiskQuotaError as error:
            if not error.may_pass or time.monotonic() >= until:
                raise
        descriptors.all_give_way()
        # Running calls, in this and other processes, keep their files until they end.
        time.sleep(0.05)


def check_settings() -> None:
    """Check the environment variables of the cache, before work that ends by opening files.

    Raises:
        ValueError: One of them has a wrong value; the error names it.
    """
    is_shared()
    _default_quota()


def default_folder() -> str:
    """Return the folder of local copies of this host.

    It is `$LOOKUPSTORE_CACHE`, otherwise `lookupstore` in `$XDG_CACHE_HOME` or `~/.cache`. If that
    cannot be written, as in a container without a home folder, it is a folder of this user alone in
    the temporary folder, which is logged once. With `$LOOKUPSTORE_CACHE_SHARED` it is a folder of
    this user inside the first of these.

    Raises:
        OSError: None of these folders can be used.
    """
    given = os.environ.get(VARIABLE)
    if given:
        return own_part(expanded(given))
    caches = os.environ.get("XDG_CACHE_HOME")
    home = home_folder()
    if caches:
        caches = expanded(caches)
    elif home is not None:
        caches = os.path.join(home, ".cache")
    if caches and _can_be_written(caches):
        return own_part(os.path.join(caches, "lookupstore"))
    return temporary_folder(caches)


def _can_be_written(path: str) -> bool:
    """Return whether this user may make or change files in a folder, which may not exist."""
    while not os.path.lexists(path):
        path = os.path.dirname(os.path.abspath(path))
    return os.path.isdir(path) and os.access(path, os.W_OK | os.X_OK)


@functools.cache
def temporary_folder(caches: str | None) -> str:
    """Make the folder of this user in the temporary folder, and log once that it is used."""
    why = "there is no home folder" if caches is None else f"{caches} is not writable"
    try:
        temporary = tempfile.gettempdir()
    except FileNotFoundError:  # a missing file would mean something else to callers
        raise NoFolderError(
            errno.EACCES,
            f"no folder for local copies and lookup files: {why}, and there is no temporary "
            f"folder; set {VARIABLE} to a writable folder",
        ) from None
    path = os.path.join(temporary, f"lookupstore-{os.geteuid()}")
    with suppress(FileExistsError):
        os.mkdir(path, 0o700)
    found = os.lstat(path)
    # Any user can write to the temporary folder: a folder made by another user is not trusted.
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid() or found.st_mode & 0o077:
        raise PermissionError(
            errno.EACCES,
            f"not a folder of this user alone; set {VARIABLE} to a writable folder",
            path,
        )
    _log.warning(
        "local copies and lookup files are kept in %s, since %s; set %s to choose another folder",
        path,
        why,
        VARIABLE,
    )
    return path


def is_claimed(folder: str) -> bool:
    """Return whether a process has claimed to make the file of a folder."""
    try:
        renewed = os.stat(os.path.join(folder, CLAIM)).st_mtime
        first = os.stat(folder).st_mtime  # time at which the claim was made
    except FileNotFoundError:
        return False
    now = time.time()
    return abs(now - renewed) < CLAIM_SECONDS and abs(now - first) < MOST_CLAIM_SECONDS


def _is_of_cache(name: str) -> bool:
    """Return whether a name is one that a folder of copies contains."""
    stem, extension = os.path.splitext(name)
    if extension in (COPY, MAP):
        return bool(COPY_NAME.fullmatch(stem) or LOOKUP_FILE_NAME.fullmatch(stem))
    return name in (LOCK, RECODE_LOCK, MAKING) or name.startswith(FILE_NAME)


def _default_quota() -> int | None:
    given = os.environ.get(f"{VARIABLE}_BYTES")
    return bytes_of(given, f"{VARIABLE}_BYTES", least=1) if given else None


def _half_of_disk(folder: str, used: int) -> int:
    while not os.path.isdir(folder):
        folder = os.path.dirname(folder)
    return (shutil.disk_usage(folder).free + used) // 2


@contextmanager
def flock(path: str, how: int = os.O_RDWR | os.O_CREAT, wait: int = 0) -> Iterator[int]:
    """Hold the exclusive lock of a file or folder; yield its inode."""
    descriptor = open_own(path, how)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | wait)
        try:
            yield os.fstat(descriptor).st_ino
        finally:
            # A child that was forked meanwhile shares the lock; closing alone would not release it.
            fcntl.flock(descriptor, fcntl.LOCK_UN)
    finally:
        os.close(descriptor)


def touch(descriptor: int, when: int | None = None) -> None:
    """Set the time at which a copy was last used, in nanoseconds; None: now."""
    # The modification time is part of the identity under which readers share blocks.
    changed = os.fstat(descriptor).st_mtime_ns
    os.utime(descriptor, ns=(time.time_ns() if when is None else when, changed))


def map_of(path: str) -> str:
    return path.removesuffix(COPY) + MAP


def plain_of(path: str) -> str:
    """Return the path of the plain copy of a compressed copy."""
    return path.removesuffix(COPY) + "-plain" + COPY


def size_of(path: str) -> int | None:
    with suppress(FileNotFoundError):
        return os.stat(path).st_size
    return None


def inode_of(path: str) -> int | None:
    with suppress(FileNotFoundError):
        return os.stat(path).st_ino
    return None


def remove(path: str) -> None:
    """Remove a copy: its map last, since a copy without a map is complete."""
    for each in (path, map_of(path)):
        with suppress(FileNotFoundError):
            os.unlink(each)


def _remove_unused(path: str) -> bool:
    """Remove a copy unless it is locked, and return whether it is gone."""
    try:
        descriptor = open_own(path)
    except FileNotFoundError:
        return True  # a user has removed it by hand
    except NotOwnError:
        remove(path)  # no user of this folder uses it
        return True
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    else:
        remove(path)
        _log.info("%s: evicted", path)
        return True
    finally:
        os.close(descriptor)
