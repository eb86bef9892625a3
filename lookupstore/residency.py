"""Residency: files of object stores as local copies, one a host, under one quota.

A folder belongs to all processes of a host. What is in it is the truth; there is no index beside
it. A copy is named after its content, so that it is fetched once, from wherever it is asked for.
Whoever uses a copy has a shared lock on its file, and only a file that can be locked exclusively is
evicted: the system gives locks back when a process dies, so nothing is left to clean up.

All steps that make, complete or remove files happen under the lock of the folder, and none of them
reads from the network.
"""

from __future__ import annotations

import errno
import fcntl
import logging
import os
import re
import shutil
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from datetime import timedelta
from types import TracebackType
from typing import Any, TypeVar

from lookupstore.chunks import VERIFIED, WRONG, ChunkMap, chunks_of
from lookupstore.errors import ClosedError, CorruptionError, DiskQuotaError
from lookupstore.local_copy import WHOLE_ATTEMPTS, LocalCopy
from lookupstore.recode import plain_size, write_plain
from lookupstore.remote import RemoteFile
from lookupstore.sst import Reader

#: Time after which a copy that nobody has opened is removed, whether or not its room is needed.
RETENTION = timedelta(days=30)

#: Seconds to wait until others let go of the room that a file needs.
ROOM_WAIT = 20.0

H = TypeVar("H")

_COPY = ".sst"
_MAP = ".map"
_PLAIN = "-plain"
_LOCK = "lock"
_RECODE_LOCK = "recode.lock"
_MAKING = "making"
_ROOM = "room"
_NAME = re.compile(rf"[0-9a-f]{{16}}-[0-9]+(?:{_PLAIN})?")
_MADE = re.compile(r"[0-9a-f]{32}")

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class FetchCounts:
    """Count what this process has fetched for a copy.

    Attributes:
        bytes: that came.
        requests: ranges that were asked for, each attempt counted.
        retries: attempts after the first one of a range.
    """

    bytes: int
    requests: int
    retries: int


def _fetched_with(held: LocalCopy) -> FetchCounts:
    remote = held.remote
    return FetchCounts(remote.nbytes_read, remote.requests, remote.retries)


class Copy:
    """Hold a local copy in place: it is not evicted before `close`.

    Its bytes may still be coming: who reads it gives `fill` to its reader. A child of fork may use
    it. It is no more closed than its readers are: a reader that lives keeps the copy, too.

    Attributes:
        path: of the local file.
        uri: of the object, without credentials.
        nbytes: size of both.
        xxh64: hash of both.
    """

    def __init__(self, held: LocalCopy) -> None:
        self.path = held.path
        self.uri = held.name
        self.nbytes = held.remote.nbytes
        self.xxh64 = held.xxh64
        self._copy: LocalCopy | None = held
        self._before = _fetched_with(held)
        held.users.add(id(self))

    def _held(self) -> LocalCopy:
        if self._copy is None:
            raise ClosedError(f"{self.uri}: the local copy was let go of")
        return self._copy

    @property
    def fill(self) -> LocalCopy:
        """Return what brings bytes before they are read, and again where they are wrong."""
        return self._held()

    @property
    def resident(self) -> bool:
        """Return whether all of it is here, and its hash is the right one."""
        try:
            return self._held().latest().complete
        except CorruptionError:
            return False

    @property
    def recoded(self) -> bool:
        """Return whether it has the records of the file, but not its bytes."""
        return self._held().recoded

    @property
    def outdated(self) -> bool:
        """Return whether the next `hold` gives a recoded copy in place of this one."""
        held = self._held()
        return not held.recoded and os.path.exists(_plain_of(held.path))

    @property
    def error(self) -> Exception | None:
        """Return what ended the last download of this process, if it failed."""
        try:
            return self._held().latest().error
        except CorruptionError as error:
            return error

    @property
    def counts(self) -> FetchCounts:
        """Return what this process has fetched for it since it was held."""
        now, before = _fetched_with(self._held()), self._before
        return FetchCounts(
            now.bytes - before.bytes, now.requests - before.requests, now.retries - before.retries
        )

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until all of it is here; return whether it is.

        Args:
            timeout: most seconds to wait; None: until it is here or has failed.

        Raises:
            CorruptionError: the object is not what the manifest says.
            OSError: the object store does not give it, or the disk is full.
        """
        until = None if timeout is None else time.monotonic() + timeout
        while not (held := self._held().latest()).complete:
            held.download()
            if held.error is not None:
                raise held.error
            if until is not None and time.monotonic() >= until:
                return False
            time.sleep(0.01)
        return True

    def discard(self) -> None:
        """Remove a recoded copy that is damaged, so that the next `hold` begins with the object."""
        self._held().discard()

    def close(self) -> None:
        """Let go of the copy; closing it again does nothing."""
        held, self._copy = self._copy, None
        if held is not None:
            held.users.discard(id(self))

    def __del__(self) -> None:
        if hasattr(self, "_copy"):
            self.close()

    def __enter__(self) -> Copy:
        self._held()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<Copy of {self.uri} in {self.path}>"


class MadeFile:
    """Hold a file that was made on this host in place: it is not evicted before `close`.

    Attributes:
        path: of the file.
    """

    def __init__(self, path: str, descriptor: int) -> None:
        self.path = path
        self._descriptor: int | None = descriptor

    def close(self) -> None:
        """Let go of the file; closing it again does nothing."""
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
    """Be the part of the quota that a file in the making has, as a file of that size in holes."""

    def __init__(self, residency: Residency, path: str, name: str) -> None:
        self._residency = residency
        self._path = path
        self._name = name
        self._nbytes = 0

    def ensure(self, nbytes: int) -> None:
        """Have room for that many bytes, or more.

        Raises:
            DiskQuotaError: that is more than the quota, or what is in use leaves no room.
        """
        if nbytes > self._nbytes:
            self._residency._give_room(self._path, self._name, nbytes)
            self._nbytes = nbytes


class Residency:
    """Keep local copies of remote files in one folder of a host, under one quota.

    Args:
        folder: of the copies, on a local disk; None takes `$LOOKUPSTORE_CACHE`, else `lookupstore`
            in `$XDG_CACHE_HOME`, else in `~/.cache`.
        quota: most bytes of all copies; None takes `$LOOKUPSTORE_CACHE_BYTES`, else half of what
            the file system has free or has already given to the copies.
        retention: time after which a copy that nobody opens is removed; None keeps it until its
            room is needed.

    Raises:
        ValueError: the quota is no positive number, or the retention is negative.

    Example:
        >>> import os, xxhash
        >>> from pyarrow import fs
        >>> with open("object", "wb") as file:
        ...     _ = file.write(b"abc" * 50_000)
        >>> digest = xxhash.xxh64(b"abc" * 50_000).hexdigest()
        >>> residency = Residency("copies", quota=1 << 20)
        >>> local = fs.LocalFileSystem()
        >>> with residency.hold(local, "object", nbytes=150_000, xxh64=digest) as copy:
        ...     copy.wait(), os.path.getsize(copy.path), residency.used
        (True, 150000, 151552)
    """

    def __init__(
        self,
        folder: str | os.PathLike[str] | None = None,
        quota: int | None = None,
        retention: timedelta | None = RETENTION,
    ) -> None:
        self.folder = os.path.abspath(default_folder() if folder is None else os.fspath(folder))
        self._quota = _default_quota() if quota is None else quota
        if self._quota is not None and self._quota <= 0:
            raise ValueError(f"quota={self._quota} bytes; give a positive number")
        if retention is not None and retention < timedelta():
            raise ValueError(f"retention={retention} is negative")
        self.retention = retention

    @property
    def quota(self) -> int:
        """Return the most bytes that all copies may take."""
        if self._quota is not None:
            return self._quota
        return _half_of_disk(self.folder, self.used)

    @property
    def used(self) -> int:
        """Return the bytes that all copies take, those that are still coming in full."""
        return sum(entry.nbytes for entry in self._entries()) + self._rooms()

    def resident(self, *, nbytes: int, xxh64: str) -> tuple[bool, int]:
        """Return whether all of a file is here, and how many of its bytes are.

        No copy is opened or counts as used. The bytes of one that is still coming are its room on
        the disk.

        Args:
            nbytes: size of the file.
            xxh64: XXH64 of the whole file, 16 hexadecimal digits.
        """
        path = os.path.join(self.folder, f"{xxh64}-{nbytes}{_COPY}")
        if os.path.exists(_plain_of(path)):
            return True, nbytes
        try:
            status = os.stat(path)
        except FileNotFoundError:
            return False, 0
        # The map would say it exactly, but whoever closes it gives up the claims of the process.
        if os.path.exists(_map_of(path)):
            return False, min(status.st_blocks * 512, nbytes)
        return True, nbytes

    def hold(
        self,
        filesystem: Any,
        path: str,
        *,
        nbytes: int,
        xxh64: str,
        uri: str | None = None,
        recode: bool = False,
    ) -> Copy:
        """Hold the local copy of a file, making room for it if there is none.

        Nothing is read from the network here; if the copy is not complete, a download has begun.

        Args:
            filesystem: a `pyarrow.fs.FileSystem` that has the file.
            path: of the file on it.
            nbytes: size of the file.
            xxh64: XXH64 of the whole file, 16 hexadecimal digits.
            uri: what errors and logs call the file, its credentials left out.
            recode: whether to make a plain copy of a compressed file when all of it has come, and
                to give that one if there is one: lookups need no cache then.

        Raises:
            DiskQuotaError: it is larger than the quota, or what is in use leaves no room.
            OSError: the folder cannot be written.
            ValueError: nbytes or xxh64 are not of a file.
        """
        if nbytes < 1:
            raise ValueError(f"nbytes={nbytes}; a file has at least 1")
        if _NAME.fullmatch(f"{xxh64}-{nbytes}") is None:
            raise ValueError(f"xxh64={xxh64!r}; give 16 hexadecimal digits")
        remote = RemoteFile(filesystem, path, nbytes=nbytes, uri=path if uri is None else uri)
        if recode:
            plain = self._hold_plain(remote, xxh64)
            if plain is not None:
                return plain
        held = self._hold(remote, xxh64, 0)
        copy = Copy(held)
        held.download()
        if recode:
            threading.Thread(
                target=self._recode_when_complete,
                args=(held,),
                name="lookupstore-recode",
                daemon=True,
            ).start()
        return copy

    def _replace(self, held: LocalCopy, attempt: int) -> LocalCopy:
        return self._hold(held.remote, held.xxh64, attempt)

    def _hold(self, remote: RemoteFile, xxh64: str, attempt: int) -> LocalCopy:
        path = self._path(remote, xxh64)
        with self._locked():
            held = self._open(path, remote, xxh64)
            if held is None:
                self._create(path, remote, attempt)
                held = self._open(path, remote, xxh64)
                assert held is not None
            else:
                self._evict(0)
            _touch(held.descriptor)
        return held

    def _hold_plain(self, remote: RemoteFile, xxh64: str) -> Copy | None:
        with self._locked():
            held = self._open(_plain_of(self._path(remote, xxh64)), remote, xxh64, recoded=True)
            if held is None:
                return None
            _touch(held.descriptor)
            return Copy(held)

    def _path(self, remote: RemoteFile, xxh64: str) -> str:
        return os.path.join(self.folder, f"{xxh64}-{remote.nbytes}{_COPY}")

    # -- one copy; all of it under the lock of the folder

    def _open(
        self, path: str, remote: RemoteFile, xxh64: str, *, recoded: bool = False
    ) -> LocalCopy | None:
        """Return the copy if there is a good one, locked against eviction."""
        try:
            descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
        except FileNotFoundError:
            return None
        try:
            status = os.fstat(descriptor)
            key = (path, status.st_ino)
            with _open_lock:
                held = _open_copies.get(key)
            if held is not None:
                return held
            map_size = _size(_map_of(path))
            count = chunks_of(remote.nbytes)
            wrong = not recoded and status.st_size != remote.nbytes
            if wrong or map_size not in (None, ChunkMap.size(count)):
                _log.warning("%s: not of the size that it was made with; removed", path)
                _remove(path)
                return None
            chunks = None if map_size is None else ChunkMap(_map_of(path), count)
            if chunks is not None and chunks.state == WRONG:
                _remove(path)
                return None
            fcntl.flock(descriptor, fcntl.LOCK_SH)
            held = LocalCopy(
                path,
                descriptor,
                chunks,
                remote,
                xxh64,
                make_room=self._make_room,
                settle=self._settle,
                replace=self._replace,
                recoded=recoded,
            )
            descriptor = -1
            with _open_lock:
                _open_copies[key] = held
            return held
        finally:
            if descriptor >= 0:
                os.close(descriptor)

    def _create(self, path: str, remote: RemoteFile, attempt: int) -> None:
        """Make an empty copy: the map first, since a copy without a map is complete."""
        self._reserve(
            remote.nbytes, remote.uri, "the file has", "build the store with more buckets"
        )
        try:
            self._write_empty(path, remote, attempt)
        except OSError as error:
            if error.errno != errno.ENOSPC:
                raise
            _remove(path)
            self._evict(self.quota)
            self._write_empty(path, remote, attempt)

    def _write_empty(self, path: str, remote: RemoteFile, attempt: int) -> None:
        with suppress(FileNotFoundError):
            os.unlink(_map_of(path))
        ChunkMap.create(_map_of(path), chunks_of(remote.nbytes), attempt)
        _sync(self.folder)
        with open(path, "xb") as file:
            file.truncate(remote.nbytes)

    def _settle(self, held: LocalCopy, right: bool) -> None:
        """Complete a copy that has come right; remove one that has come wrong."""
        with self._locked():
            ours = _inode(held.path) == os.fstat(held.descriptor).st_ino
            if held.chunks is None:
                if ours and not right:
                    _remove(held.path)
                return
            if right:
                held.chunks.state = VERIFIED
                if ours:
                    with suppress(FileNotFoundError):
                        os.unlink(_map_of(held.path))
                    _sync(self.folder)
                return
            held.chunks.state = WRONG
            if ours:
                _remove(held.path)
        attempt = held.chunks.attempt + 1
        _log.warning(
            "%s: all bytes came, but not with XXH64 %s; attempt %d of %d",
            held.name,
            held.xxh64,
            attempt,
            WHOLE_ATTEMPTS,
        )

    # -- recoding

    def _recode_when_complete(self, held: LocalCopy) -> None:
        while held.users and not held.complete:
            time.sleep(0.05)
        if not held.users:
            return
        try:
            with _flock(os.path.join(self.folder, _RECODE_LOCK)):
                if not os.path.exists(_plain_of(held.path)):
                    self._recode(held)
        except Exception as error:
            _log.warning("%s: could not be recoded: %s", held.name, error)

    def _recode(self, held: LocalCopy) -> None:
        with Reader(held.path, fill=held) as reader:
            needed = plain_size(reader.info)
            if needed is None:
                return
            plain = _plain_of(held.path)
            try:
                self._make(plain, needed, lambda path, _: write_plain(reader, path))
            except DiskQuotaError:
                _log.info("%s: the quota has no room for a plain copy", held.name)
                return
        with self._locked():
            _touch(held.descriptor, 0)  # it is the first to go
        _log.info("%s: recoded to %s", held.name, plain)

    # -- files that are made here

    def made(self, name: str) -> MadeFile | None:
        """Hold a file that was made on this host; None if there is none.

        Args:
            name: that it was made under.
        """
        try:
            descriptor = os.open(self._made_path(name), os.O_RDWR | os.O_CLOEXEC)
        except FileNotFoundError:
            return None
        # Whoever evicts has the folder alone, so this does not wait for long.
        with self._locked():
            fcntl.flock(descriptor, fcntl.LOCK_SH)
            held = MadeFile(self._made_path(name), descriptor)
            if _inode(held.path) != os.fstat(descriptor).st_ino:
                held.close()
                return None
            _touch(descriptor)
            return held

    def make(self, name: str, needed: int, write: Callable[[str, Room], None]) -> MadeFile:
        """Hold a file of this host, which is made if it is not there: once, whoever asks.

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
        if _MADE.fullmatch(name) is None:
            raise ValueError(f"name={name!r}; give 32 hexadecimal digits")
        while (held := self.made(name)) is None:
            self._make(self._made_path(name), needed, write)
        return held

    def discard(self, name: str) -> None:
        """Remove a file that was made on this host, since it has turned out to be damaged.

        Who holds it goes on with it.
        """
        with self._locked():
            _remove(self._made_path(name))

    def _made_path(self, name: str) -> str:
        return os.path.join(self.folder, f"{name}{_COPY}")

    def _make(self, target: str, needed: int, write: Callable[[str, Room], None]) -> None:
        """Make a file, in a folder of its own whose size counts, unless others have made it."""
        name = os.path.basename(target)
        with self._maker_of(name) as folder:
            path = os.path.join(folder, name)
            try:
                if os.path.exists(target):
                    return
                room = Room(self, os.path.join(folder, _ROOM), name)
                room.ensure(needed)
                write(path, room)
                with self._locked():
                    os.rename(path, target)
                    _sync(self.folder)
            finally:
                shutil.rmtree(folder, ignore_errors=True)

    @contextmanager
    def _maker_of(self, name: str) -> Iterator[str]:
        """Be the only one that makes a file; give the folder to make it in."""
        folder = os.path.join(self.folder, _MAKING, name)
        with ExitStack() as stack:
            inode = None
            while inode is None or inode != _inode(folder):  # it goes when its maker has finished
                stack.close()
                os.makedirs(folder, exist_ok=True)
                with suppress(FileNotFoundError):
                    inode = stack.enter_context(_flock(folder, os.O_RDONLY | os.O_DIRECTORY))
            yield folder

    def _rooms(self) -> int:
        """Return the bytes that files in the making may take."""
        total = 0
        with suppress(FileNotFoundError), os.scandir(os.path.join(self.folder, _MAKING)) as found:
            total = sum(_size(os.path.join(item.path, _ROOM)) or 0 for item in found)
        return total

    def _clear_dead_rooms(self) -> None:
        """Remove what makers that died have left."""
        with suppress(FileNotFoundError), os.scandir(os.path.join(self.folder, _MAKING)) as found:
            for item in found:
                with (
                    suppress(BlockingIOError, FileNotFoundError),
                    _flock(item.path, os.O_RDONLY | os.O_DIRECTORY, fcntl.LOCK_NB),
                ):
                    shutil.rmtree(item.path, ignore_errors=True)

    # -- the folder

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """Have the folder alone."""
        os.makedirs(self.folder, exist_ok=True)
        with _flock(os.path.join(self.folder, _LOCK)):
            yield

    def _entries(self) -> list[_Entry]:
        """Return all copies of the folder, the one that was opened longest ago first."""
        entries = []
        with suppress(FileNotFoundError), os.scandir(self.folder) as found:
            for item in found:
                name, extension = os.path.splitext(item.name)
                if extension != _COPY or not (_NAME.fullmatch(name) or _MADE.fullmatch(name)):
                    continue
                with suppress(FileNotFoundError):
                    status = item.stat(follow_symlinks=False)
                    map_size = _size(_map_of(item.path))
                    nbytes = status.st_blocks * 512
                    if map_size is not None:  # room that it will take is taken
                        nbytes = max(nbytes, status.st_size) + map_size
                    entries.append(_Entry(status.st_atime, item.path, nbytes))
        return sorted(entries, key=lambda entry: entry.opened)

    def _evict(self, needed: int) -> int:
        """Remove copies until there is room, and those past retention; return the bytes left."""
        if self._rooms() > 0:
            self._clear_dead_rooms()
        entries = self._entries()
        used = sum(entry.nbytes for entry in entries) + self._rooms()
        quota = _half_of_disk(self.folder, used) if self._quota is None else self._quota
        oldest = 0.0 if self.retention is None else time.time() - self.retention.total_seconds()
        for entry in entries:
            if (used + needed > quota or entry.opened < oldest) and _remove_unused(entry.path):
                used -= entry.nbytes
        return used

    def _give_room(self, path: str, name: str, nbytes: int) -> None:
        with self._locked():
            had = _size(path) or 0
            self._reserve(nbytes - had, name, "it takes", "split it into smaller files")
            with open(path, "ab") as file:
                file.truncate(nbytes)

    def _reserve(self, needed: int, name: str, what: str, remedy: str) -> None:
        """Remove copies until there is room, or say that there can be none."""
        quota = self.quota
        if needed > quota:
            raise DiskQuotaError(
                f"{name}: {what} {needed} bytes, and the quota of local copies in {self.folder} "
                f"is {quota}; set LOOKUPSTORE_CACHE_BYTES to more, or {remedy}"
            )
        rest = self._evict(needed)
        if rest + needed > quota:
            raise DiskQuotaError(
                f"{name}: {what} {needed} bytes; of the quota of {quota} bytes of local copies in "
                f"{self.folder}, {rest} are in use; set LOOKUPSTORE_CACHE_BYTES to more, or close "
                "other stores",
                may_pass=True,
            )

    def _make_room(self, needed: int) -> None:
        """Remove copies that nobody uses, for a disk that is full before the quota is."""
        with self._locked():
            freed = 0
            for entry in self._entries():
                if freed >= needed:
                    break
                if _remove_unused(entry.path):
                    freed += entry.nbytes

    def __repr__(self) -> str:
        return f"<Residency {self.folder}: {self.used} of {self.quota} bytes>"


@dataclass(frozen=True)
class _Entry:
    opened: float
    path: str
    nbytes: int


# A map must be open once a process: see `ChunkMap`.
_open_copies: weakref.WeakValueDictionary[tuple[str, int], LocalCopy] = (
    weakref.WeakValueDictionary()
)
_open_lock = threading.Lock()


def _after_fork() -> None:
    global _open_lock
    _open_lock = threading.Lock()


os.register_at_fork(after_in_child=_after_fork)


def with_room(hold: Callable[[], H], make_room: Callable[[], None]) -> H:
    """Return what `hold` gives, waiting while others have the room that it needs.

    Args:
        hold: holds or makes a file.
        make_room: lets go of what this process has open and does not use.

    Raises:
        DiskQuotaError: there is no room, or there was none for `ROOM_WAIT` seconds.
    """
    until = time.monotonic() + ROOM_WAIT
    while True:
        try:
            return hold()
        except DiskQuotaError as error:
            if not error.may_pass or time.monotonic() >= until:
                raise
        make_room()
        # Calls that are running, here and in other processes, keep theirs until they end.
        time.sleep(0.05)


def default_folder() -> str:
    """Return the folder of local copies of this host: see `Residency`."""
    given = os.environ.get("LOOKUPSTORE_CACHE")
    if given:
        return given
    caches = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return os.path.join(caches, "lookupstore")


def _default_quota() -> int | None:
    given = os.environ.get("LOOKUPSTORE_CACHE_BYTES")
    if not given:
        return None
    if not given.isdecimal():
        raise ValueError(f"LOOKUPSTORE_CACHE_BYTES={given!r} is no number of bytes")
    return int(given)


def _half_of_disk(folder: str, used: int) -> int:
    while not os.path.isdir(folder):
        folder = os.path.dirname(folder)
    return (shutil.disk_usage(folder).free + used) // 2


@contextmanager
def _flock(path: str, how: int = os.O_RDWR | os.O_CREAT, wait: int = 0) -> Iterator[int]:
    """Have a file or folder alone; give its inode."""
    descriptor = os.open(path, how | os.O_CLOEXEC, 0o666)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | wait)
        try:
            yield os.fstat(descriptor).st_ino
        finally:
            # A child that was forked meanwhile shares the lock: closing alone would keep it.
            fcntl.flock(descriptor, fcntl.LOCK_UN)
    finally:
        os.close(descriptor)


def _touch(descriptor: int, when: int | None = None) -> None:
    """Say when a copy was used, in nanoseconds; None: now."""
    # The time of the last change is part of the identity under which readers share blocks.
    changed = os.fstat(descriptor).st_mtime_ns
    os.utime(descriptor, ns=(time.time_ns() if when is None else when, changed))


def _plain_of(path: str) -> str:
    return path.removesuffix(_COPY) + _PLAIN + _COPY


def _map_of(path: str) -> str:
    return path.removesuffix(_COPY) + _MAP


def _size(path: str) -> int | None:
    with suppress(FileNotFoundError):
        return os.stat(path).st_size
    return None


def _inode(path: str) -> int | None:
    with suppress(FileNotFoundError):
        return os.stat(path).st_ino
    return None


def _remove(path: str) -> None:
    """Remove a copy: its map last, since a copy without a map is complete."""
    for each in (path, _map_of(path)):
        with suppress(FileNotFoundError):
            os.unlink(each)


def _remove_unused(path: str) -> bool:
    """Remove a copy unless someone has it locked; whether it went."""
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        return True  # someone cleaned up by hand
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    else:
        _remove(path)
        _log.info("%s: evicted", path)
        return True
    finally:
        os.close(descriptor)


def _sync(folder: str) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
