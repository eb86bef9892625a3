"""Residency: local copies of files in object stores, one per host, under one quota.

A copy is named after its content, so that it is fetched once, even if the file has several paths. A
compressed file, even in a local folder, may have a plain copy for lookups.
`lookupstore.hostcache.folder` describes the folder of all copies of a host, and the rules of
eviction.
"""

from __future__ import annotations

import errno
import fcntl
import functools
import logging
import os
import threading
import time
import weakref
from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from typing import Any

from lookupstore.errors import CorruptionError, DiskQuotaError
from lookupstore.hostcache.background import (
    ProcessEndingError,
    check_going_on,
    is_ending,
    start_thread,
)
from lookupstore.hostcache.chunk_map import VERIFIED, WRONG, ChunkMap, chunks_of
from lookupstore.hostcache.copy import WHOLE_ATTEMPTS, LocalCopy
from lookupstore.hostcache.file_series import FileSeries
from lookupstore.hostcache.folder import (
    COPY,
    COPY_NAME,
    RECODE_LOCK,
    RETENTION,
    CacheContents,
    ClearedCache,
    HostFolder,
    flock,
    inode_of,
    map_of,
    plain_of,
    remove,
    size_of,
    touch,
)
from lookupstore.hostcache.lookup_files import LookupFiles
from lookupstore.hostcache.own_folder import NotOwnError, is_shared, open_own
from lookupstore.hostcache.pinned_copy import PinnedCopy
from lookupstore.hostcache.recode import plain_size, write_plain
from lookupstore.hostcache.shared_tables import SharedTables
from lookupstore.quantities import Size
from lookupstore.sst import Reader
from lookupstore.storage.local import file_hash
from lookupstore.storage.naming import sync_folder
from lookupstore.storage.remote_file import RemoteFile

_log = logging.getLogger(__name__)


class Residency:
    """Local copies of remote files in one folder of a host, under one quota.

    Args:
        folder: Folder of the copies, on a local disk. Default: the result of
            `lookupstore.hostcache.folder.default_folder`.
        quota: Largest size of all copies, in bytes or as a text such as `"10GB"`. Default:
            `$LOOKUPSTORE_CACHE_BYTES`, otherwise half of the bytes that are free on the file system
            or already used by the copies.
        retention: Time after which a copy that no process opens is removed. None: it is kept until
            its room is needed.

    Raises:
        ValueError: The quota is not a positive number, or the retention is negative.

    Example:
        >>> import os, xxhash
        >>> from pyarrow import fs
        >>> with open("object", "wb") as file:
        ...     _ = file.write(b"abc" * 50_000)
        >>> digest = xxhash.xxh64(b"abc" * 50_000).hexdigest()
        >>> residency = Residency("copies", quota=1 << 20)
        >>> local = fs.LocalFileSystem()
        >>> with residency.pin(local, "object", nbytes=150_000, xxh64=digest) as copy:
        ...     copy.wait(), os.path.getsize(copy.path), residency.used
        (True, 150000, 151552)
    """

    def __init__(
        self,
        folder: str | os.PathLike[str] | None = None,
        quota: Size | None = None,
        retention: timedelta | None = RETENTION,
    ) -> None:
        self._host = HostFolder(folder, quota, retention)
        #: Lookup files that this host made, next to the copies and under the same quota.
        self.lookup_files: LookupFiles = LookupFiles(self._host)
        #: Lookup tables of large files that the processes of this host share.
        self.shared_tables: SharedTables = SharedTables(self._host, self.lookup_files)

    def file_series(self) -> FileSeries:
        """Return an object that makes many files among the lookup files, one after another."""
        return FileSeries(self._host, self.lookup_files)

    @property
    def folder(self) -> str:
        """Return the path of the folder."""
        return self._host.path

    @property
    def retention(self) -> timedelta | None:
        """Return the time after which an unused copy is removed."""
        return self._host.retention

    @property
    def quota(self) -> int:
        """Return the maximum number of bytes of all copies."""
        return self._host.quota

    @property
    def used(self) -> int:
        """Return the bytes that all copies take, counting incomplete copies in full."""
        return self._host.used

    def contents(self, unused: float = 0) -> CacheContents:
        """Return the number and size of the files in the folder; see `HostFolder.contents`."""
        return self._host.contents(unused)

    def clear(self, unused: float = 0) -> ClearedCache:
        """Remove files that no process has open; see `HostFolder.clear`."""
        return self._host.clear(unused)

    @property
    def is_getting_full(self) -> bool:
        """Return whether all copies take more than half of the quota.

        Callers that keep rarely used copies open release them in this case, before other processes
        have to wait.
        """
        return self.used > self.quota // 2

    def coverage(self, *, nbytes: int, xxh64: str) -> tuple[bool, int]:
        """Return whether all of a file is on this host, and how many of its bytes are.

        No copy is opened or counts as used. If a copy is still being fetched, the number of bytes
        is the room that it takes on the disk.

        Args:
            nbytes: Size of the file.
            xxh64: XXH64 of the whole file, 16 hexadecimal digits.
        """
        if self.has_plain(nbytes=nbytes, xxh64=xxh64):
            return True, nbytes
        path = self._path(nbytes, xxh64)
        try:
            status = os.stat(path)
        except FileNotFoundError:
            return False, 0
        # The map has the exact number, but closing it would release all claims of this process on
        # it.
        if os.path.exists(map_of(path)):
            return False, min(status.st_blocks * 512, nbytes)
        return True, nbytes

    def pin(
        self,
        filesystem: Any,
        path: str,
        *,
        nbytes: int,
        xxh64: str,
        uri: str | None = None,
        recode: bool = False,
        store: str | None = None,
        tail: int = 0,
    ) -> PinnedCopy:
        """Pin the local copy of a file, and make room for it if there is none.

        The call does not wait for the network. Missing bytes are fetched when they are read, and
        all of them when lookups of this host have fetched a good part.

        Args:
            filesystem: File system of pyarrow that has the file.
            path: Path of the file in the file system.
            nbytes: Size of the file.
            xxh64: XXH64 of the whole file, 16 hexadecimal digits.
            uri: Name of the file in errors and logs, without credentials. Default: `path`.
            recode: Whether to make a plain copy of a compressed file once all of it is on this
                host, and to return that copy if there is one: lookups then need no cache.
            store: Name of the store in the warning that its lookups stay slow, if there is no room
                for a plain copy. Default: `uri`.
            tail: Number of bytes at the end of the file that its reader needs first, as far as
                known; they are fetched together.

        Raises:
            DiskQuotaError: The file is larger than the quota, or files in use leave no room.
            OSError: The folder cannot be written.
            ValueError: If nbytes or xxh64 cannot be those of a file.
        """
        if nbytes < 1:
            raise ValueError(f"nbytes={nbytes}; a file has at least 1")
        if COPY_NAME.fullmatch(f"{xxh64}-{nbytes}") is None:
            raise ValueError(f"xxh64={xxh64!r}; give 16 hexadecimal digits")
        uri = path if uri is None else uri
        if recode:
            plain = self.pin_plain(filesystem, path, nbytes=nbytes, xxh64=xxh64, uri=uri)
            if plain is not None:
                return plain
        remote = RemoteFile(filesystem, path, nbytes=nbytes, uri=uri)
        copy = self._pin(remote, xxh64, tail, 0)
        while is_shared() and copy.complete and not copy.is_right():
            _log.warning("%s: its XXH64 is not %s; removed", copy.path, xxh64)
            self._settle(copy, False)
            copy = self._pin(remote, xxh64, tail, 0)
        pinned = PinnedCopy(copy)
        if recode:
            copy.when_wanted = functools.partial(
                self._start_recoding, weakref.ref(copy), uri if store is None else store
            )
            if copy.complete:
                copy.download()
        copy.download_if_paid()
        return pinned

    def _replace(self, copy: LocalCopy, attempt: int) -> LocalCopy:
        return self._pin(copy.remote, copy.xxh64, copy.tail, attempt)

    def _pin(self, remote: RemoteFile, xxh64: str, tail: int, attempt: int) -> LocalCopy:
        path = self._path(remote.nbytes, xxh64)
        with self._host.locked():
            copy = self._open(path, remote, xxh64, tail)
            if copy is None:
                self._create(path, remote, attempt)
                copy = self._open(path, remote, xxh64, tail)
                assert copy is not None
            else:
                self._host.evict(0)
            touch(copy.descriptor)
        return copy

    def has_plain(self, *, nbytes: int, xxh64: str) -> bool:
        """Return whether this host has a plain copy of a compressed file.

        Args:
            nbytes: Size of the file.
            xxh64: XXH64 of the whole file, 16 hexadecimal digits.
        """
        return os.path.exists(plain_of(self._path(nbytes, xxh64)))

    def pin_plain(
        self, filesystem: Any, path: str, *, nbytes: int, xxh64: str, uri: str
    ) -> PinnedCopy | None:
        """Pin the plain copy of a compressed file. None: this host has none.

        The arguments have the same meaning as in `pin`. If there is no plain copy, the call costs
        one access to the disk.

        Raises:
            OSError: The folder cannot be written.
        """
        if not self.has_plain(nbytes=nbytes, xxh64=xxh64):
            return None
        remote = RemoteFile(filesystem, path, nbytes=nbytes, uri=uri)
        with self._host.locked():
            copy = self._open(plain_of(self._path(nbytes, xxh64)), remote, xxh64, 0, recoded=True)
            if copy is None:
                return None
            touch(copy.descriptor)
            return PinnedCopy(copy)

    def recode(self, path: str, *, nbytes: int, xxh64: str, store: str) -> None:
        """Make a plain copy of a compressed local file, in a thread, once per host.

        `has_plain` returns True once the copy exists. If it cannot be made, that is logged, once
        per store.

        Args:
            path: Path of the local file.
            nbytes: Size of the file.
            xxh64: XXH64 of the whole file, 16 hexadecimal digits.
            store: Name of the store that the file belongs to, for logs.
        """
        plain = plain_of(self._path(nbytes, xxh64))
        with _open_lock:
            running = _recoders.get(plain)
            if running is not None and running.is_alive():
                return
            _recoders[plain] = start_thread(
                self._recode_local, path, plain, xxh64, store, name="lookupstore-recode"
            )

    def _path(self, nbytes: int, xxh64: str) -> str:
        return os.path.join(self.folder, f"{xxh64}-{nbytes}{COPY}")

    # -- one copy; all under the lock of the folder

    def _open(
        self, path: str, remote: RemoteFile, xxh64: str, tail: int, *, recoded: bool = False
    ) -> LocalCopy | None:
        """Return the copy, locked against eviction, if there is a valid one."""
        try:
            descriptor = open_own(path)
        except FileNotFoundError:
            return None
        except NotOwnError as error:
            _log.warning("%s", error)
            remove(path)
            return None
        try:
            status = os.fstat(descriptor)
            key = (path, status.st_ino)
            with _open_lock:
                copy = shared_copies.get(key)
            if copy is not None:
                return copy
            map_size = size_of(map_of(path))
            count = chunks_of(remote.nbytes)
            wrong = not recoded and status.st_size != remote.nbytes
            if wrong or map_size not in (None, ChunkMap.size(count)):
                _log.warning("%s: the local copy has the wrong size; removed", path)
                remove(path)
                return None
            try:
                chunks = None if map_size is None else ChunkMap(map_of(path), count)
            except NotOwnError as error:
                _log.warning("%s", error)
                remove(path)
                return None
            if chunks is not None and chunks.state == WRONG:
                remove(path)
                return None
            fcntl.flock(descriptor, fcntl.LOCK_SH)
            copy = LocalCopy(
                path,
                descriptor,
                chunks,
                remote,
                xxh64,
                tail,
                make_room=self._host.make_room,
                settle=self._settle,
                replace=self._replace,
                recoded=recoded,
            )
            descriptor = -1
            with _open_lock:
                shared_copies[key] = copy
            return copy
        finally:
            if descriptor >= 0:
                os.close(descriptor)

    def _create(self, path: str, remote: RemoteFile, attempt: int) -> None:
        """Make an empty copy: the map first, since a copy without a map is complete."""
        self._host.reserve(
            remote.nbytes,
            remote.uri,
            "the file has",
            "build the store with more buckets",
            beside=ChunkMap.size(chunks_of(remote.nbytes)),
        )
        try:
            self._write_empty(path, remote, attempt)
        except OSError as error:
            if error.errno != errno.ENOSPC:
                raise
            remove(path)
            self._host.evict(self.quota)
            self._write_empty(path, remote, attempt)

    def _write_empty(self, path: str, remote: RemoteFile, attempt: int) -> None:
        with suppress(FileNotFoundError):
            os.unlink(map_of(path))
        ChunkMap.create(map_of(path), chunks_of(remote.nbytes), attempt)
        sync_folder(self.folder)
        with open(open_own(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL), "wb") as file:
            file.truncate(remote.nbytes)

    def _settle(self, copy: LocalCopy, right: bool) -> None:
        """Complete a copy that was downloaded with the right bytes; remove one with wrong bytes."""
        with self._host.locked():
            ours = inode_of(copy.path) == os.fstat(copy.descriptor).st_ino
            if copy.chunks is None:
                if ours and not right:
                    remove(copy.path)
                return
            if right:
                copy.chunks.state = VERIFIED
                if ours:
                    with suppress(FileNotFoundError):
                        os.unlink(map_of(copy.path))
                    sync_folder(self.folder)
                return
            copy.chunks.state = WRONG
            if ours:
                remove(copy.path)
        attempt = copy.chunks.attempt + 1
        _log.warning(
            "%s: downloaded, but its XXH64 is not %s; attempt %d of %d",
            copy.name,
            copy.xxh64,
            attempt,
            WHOLE_ATTEMPTS,
        )

    # -- recoding

    def _start_recoding(self, reference: weakref.ref[LocalCopy], store: str) -> None:
        start_thread(self._recode_when_complete, reference, store, name="lookupstore-recode")

    def _recode_when_complete(self, reference: weakref.ref[LocalCopy], store: str) -> None:
        # While the thread waits, also for its turn, it keeps no released copy open.
        while (copy := reference()) is not None and copy.users and not copy.complete:
            del copy
            time.sleep(0.05)
            if is_ending():
                return
        if copy is None or not copy.users:
            return
        path = copy.path
        del copy

        def opened() -> Reader:
            copy = reference()
            if copy is None:
                raise FileNotFoundError(errno.ENOENT, "released meanwhile", path)
            return Reader(path, fill=copy)

        if self._recode(plain_of(path), opened, store):
            # The folder may have been removed by now.
            with suppress(FileNotFoundError, NotOwnError), self._host.locked():
                descriptor = open_own(path)  # even if its users have released it
                try:
                    touch(descriptor, 0)  # evict it first
                finally:
                    os.close(descriptor)

    def _recode_local(self, path: str, plain: str, xxh64: str, store: str) -> None:
        def opened() -> Reader:
            # The copy is named after the right bytes, and other stores may have these bytes, too.
            found = file_hash(path)
            if found != xxh64:
                raise CorruptionError(path, 0, f"a file with XXH64 {xxh64}", found)
            return Reader(path)

        self._recode(plain, opened, store)

    def _recode(self, plain: str, opened: Callable[[], Reader], store: str) -> bool:
        """Make a plain copy of the file that `opened` opens, unless it exists; return whether so.

        This runs in a background thread: failures are logged, and lookups continue without the
        copy.
        """
        try:
            self._host.make()
            # Only one runs at a time in this process; those that wait have no file open for it.
            with _recoding, flock(os.path.join(self.folder, RECODE_LOCK)):
                check_going_on()
                if os.path.exists(plain):
                    return False
                with opened() as reader:
                    needed = plain_size(reader.info())
                    if needed is None:
                        return False
                    self.lookup_files.make_at(
                        plain, needed, lambda path, _: write_plain(reader, path)
                    )
                    _log.info("%s: recoded to %s", reader.path, plain)
        except ProcessEndingError:
            _log.info("%s: the process ends before a plain copy is made", store)
        except FileNotFoundError:
            _log.info("%s: a file has gone with its version; no plain copy", store)
        except DiskQuotaError as error:
            warn_slow(
                store, f"{_NO_PLAIN}: {error.args[0]}, or build the store with compression='none'"
            )
        except Exception as error:
            remedy = "build the store with compression='none', whose files need no copies"
            warn_slow(store, f"{_NO_PLAIN}: {error}; {remedy}")
        else:
            return True
        return False

    def __repr__(self) -> str:
        return f"<Residency {self.folder}: {self.used} of {self.quota} bytes>"


# Threads of this process that make plain copies, by the path of the copy.
_recoders: dict[str, threading.Thread] = {}
#: Names of the stores for which this process has logged that lookups stay slow.
told_slow: set[str] = set()


_NO_PLAIN = "this host has no plain copies of its compressed files"


def warn_slow(store: str, why: str) -> None:
    """Log once why lookups in a store decompress, or fetch, a block for nearly every key."""
    with _open_lock:
        if store in told_slow:
            return
        told_slow.add(store)
    _log.warning("%s: lookups stay slow, since %s", store, why)


#: The local copies that are open, since a map must be open only once per process; see `ChunkMap`.
shared_copies: weakref.WeakValueDictionary[tuple[str, int], LocalCopy] = (
    weakref.WeakValueDictionary()
)
_open_lock = threading.Lock()
_recoding = threading.Lock()


def _after_fork() -> None:
    global _open_lock, _recoding
    _open_lock, _recoding = threading.Lock(), threading.Lock()


os.register_at_fork(after_in_child=_after_fork)
