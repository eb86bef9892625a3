"""The local copy of one remote file: filled when it is read, downloaded if that pays, verified.

The copy is a file of full size with holes, next to a map of the chunks that are present. When the
last chunk has arrived and the hash of the file is right, the map is removed: a copy without a map
is complete. Its name and its inode stay the same, so readers need not open it again.

Lookups fetch only the chunks that they need, until they have fetched an eighth of the file. A
request takes as long as some tens of blocks, so fetching the whole file costs no more than what was
spent by then, and it is downloaded. A lookup of ten keys fetches ten blocks.
"""

from __future__ import annotations

import atexit
import errno
import logging
import os
import threading
import time
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import xxhash

from lookupstore.errors import CorruptionError
from lookupstore.hostcache.chunk_map import (
    CHUNK_BYTES,
    COMING,
    VERIFIED,
    WRONG,
    ChunkMap,
    Span,
    joined,
    pieces,
    spans_of,
    steps,
)
from lookupstore.storage.remote_file import AT_ONCE, RemoteFile, at_once

#: Maximum number of chunks of a request: a larger request gains nothing.
REQUEST_CHUNKS = (4 << 20) // CHUNK_BYTES

#: Maximum number of chunks between two requested ones that are read rather than skipped, which is
#: cheaper if requests have to wait for others. If all requests run at once, none are read.
GAP_CHUNKS = (256 << 10) // CHUNK_BYTES

#: Divisor of the size of a file: lookups that have fetched this part of it cause its download.
PAID_PART = 8

#: Size in bytes up to which a file is fetched whole: it takes hardly longer than a part.
SMALL_BYTES = 1 << 20

#: Maximum number of concurrent requests of a download, and of concurrent downloads of a process.
REQUESTS = 4
DOWNLOADS = 2

#: Number of downloads with a wrong hash after which a file raises an error.
WHOLE_ATTEMPTS = 3

#: Number of times that bytes with a wrong checksum are fetched again.
REPAIRS = 2

#: Seconds after a failed download until readers that need it try it again.
REST = 5.0

#: Maximum number of seconds that a download waits for lookups before each of its steps.
COURTESY = 1.0

#: Seconds after a lookup in which the next one is expected: a call looks up in one file of a store
#: after the other.
PAUSE = 0.05

_HASH_BYTES = 1 << 20

_log = logging.getLogger(__name__)


class _End:
    """The end of a copy: closes its file and releases the next one when no one uses the copy.

    The copy itself does not do this: while its own `__del__` ran, another thread could
    still get it by a weak reference, with a file that was closed.
    """

    def __init__(self, descriptor: int, user: int) -> None:
        self._descriptor = descriptor
        self._user = user
        self.next: LocalCopy | None = None

    def __del__(self) -> None:
        os.close(self._descriptor)
        if self.next is not None:
            self.next.users.discard(self._user)


class LocalCopy:
    """The local copy of one remote file, which is filled, repaired and downloaded.

    There is one object per process and inode. Readers of the copy fill it through this object.
    While the object lives, it has a shared lock on the file, which keeps it from being evicted.

    Args:
        descriptor: Descriptor of the local file, open for reading and writing, with a shared lock;
            the copy closes it.
        chunks: Map of the chunks that are present. None: the file is complete.
        remote: Remote file that the chunks are fetched from.
        xxh64: XXH64 that the whole file must have, 16 hexadecimal digits.
        tail: Number of bytes at the end of the file that are fetched together when any of them are
            needed.
        make_room: Function that frees bytes on the disk, as far as it can.
        settle: Function that is called with the copy, and with whether its hash is right, when all
            chunks are present; it removes the map of a right file, or the file and map of a wrong
            one.
        replace: Function that pins another copy instead of this one, if its bytes are wrong.
        recoded: Whether the copy has other bytes than the object, with the same records.
    """

    def __init__(
        self,
        path: str,
        descriptor: int,
        chunks: ChunkMap | None,
        remote: RemoteFile,
        xxh64: str,
        tail: int,
        *,
        make_room: Callable[[int], None],
        settle: Callable[[LocalCopy, bool], None],
        replace: Callable[[LocalCopy, int], LocalCopy],
        recoded: bool = False,
    ) -> None:
        self._end = _End(descriptor, id(self))
        self.path = path
        self.descriptor = descriptor
        self.chunks = chunks
        self.remote = remote
        self.xxh64 = xxh64
        self.recoded = recoded
        self.users: set[int] = set()  # ids of the users; a download stops without users
        self.error: Exception | None = None  # error that ended the last download
        #: Function that is called when this process first wants the whole file.
        self.when_wanted: Callable[[], None] | None = None
        self.tail: int = remote.nbytes if remote.nbytes <= SMALL_BYTES else tail
        # Number of chunks before the tail.
        self._body = max(0, remote.nbytes - self.tail) // CHUNK_BYTES
        self._make_room = make_room
        self._settle = settle
        self._replace = replace
        self._complete = chunks is None
        self._is_right = False  # as far as this process has checked
        self._thread: threading.Thread | None = None
        self._rest_until = 0.0
        _copies.add(self)

    def after_fork(self) -> None:
        """Reset the state of threads in a child of fork, which has no threads of its parent."""
        self._thread = None
        if self.chunks is not None:
            self.chunks.after_fork()

    @property
    def name(self) -> str:
        """Return the name of the copy in errors: the URI of its object."""
        return self.remote.uri

    def open(self) -> int:
        """Return another descriptor of the file, which shares the lock."""
        return os.dup(self.descriptor)

    @property
    def complete(self) -> bool:
        """Return whether the whole file is present and verified."""
        if not self._complete and self.chunks is not None:
            self._complete = self.chunks.state == VERIFIED
        return self._complete

    def latest(self) -> LocalCopy:
        """Return this copy, or its replacement if its bytes were wrong.

        Raises:
            CorruptionError: The bytes were wrong in every download, so the object is not the file.
        """
        chunks = self.chunks
        if chunks is None or chunks.state != WRONG:
            return self
        if self._end.next is None:
            attempt = chunks.attempt + 1
            if attempt >= WHOLE_ATTEMPTS:
                raise CorruptionError(
                    self.name,
                    0,
                    f"{self.remote.nbytes} bytes of XXH64 {self.xxh64}",
                    f"other bytes, in {WHOLE_ATTEMPTS} downloads",
                )
            self._end.next = self._replace(self, attempt)
            self._end.next.users.add(id(self))
            self._end.next.download()
        return self._end.next.latest()

    # -- calls of readers

    def __call__(self, ranges: Sequence[tuple[int, int]]) -> None:
        """Wait until the bytes of all ranges (offset, size) are in the file.

        Raises:
            OSError: The object store does not return the bytes, or the disk is full.
            CorruptionError: The object does not have the expected bytes.
        """
        if self._complete:
            return
        chunks = self.chunks
        assert chunks is not None
        state = chunks.state
        if state == VERIFIED:
            self._complete = True
            return
        if state == WRONG:
            # Readers check the checksums of all bytes. But the bytes of another file may have valid
            # checksums.
            self.latest()
        spans = spans_of(ranges)
        missing = chunks.missing(spans)
        if missing:
            if missing[-1][1] == chunks.count:
                missing = chunks.missing(joined(sorted([*spans, (self._body, chunks.count)])))
            with lookups_wait():
                self._bring(chunks, missing)
            self.download_if_paid()

    def expect(self, size: int) -> None:
        """Begin the download if `size` bytes, read in order, are enough to justify it."""
        if not self.complete and PAID_PART * size >= self.remote.nbytes:
            self.download()

    def _bring(self, chunks: ChunkMap, missing: list[Span]) -> None:
        """Fetch chunks, or wait until other processes that claimed them have fetched them."""
        pause = 0.002
        while missing:
            wanted = missing
            if len(missing) > AT_ONCE:
                wanted = chunks.missing_with_gaps(missing, GAP_CHUNKS)
            mine = chunks.claim(wanted)
            if mine:
                self._fetch(chunks, mine)
            else:
                time.sleep(pause)
                pause = min(2 * pause, 0.05)
            missing = chunks.missing(missing)

    def _fetch(self, chunks: ChunkMap, mine: list[Span]) -> None:
        """Fetch claimed chunks, and release the claim."""

        def fetch(first: int, end: int) -> None:
            offset = first * CHUNK_BYTES
            size = min(end * CHUNK_BYTES, self.remote.nbytes) - offset
            self._write(self.remote.read(offset, size), offset)
            chunks.mark(first, end)

        try:
            at_once(fetch, pieces(mine, REQUEST_CHUNKS))
        finally:
            chunks.give_back(mine)

    def _write(self, data: bytes, offset: int) -> None:
        try:
            _write_all(self.descriptor, data, offset)
        except OSError as error:
            if error.errno not in (errno.ENOSPC, errno.EDQUOT):
                raise
            self._make_room(self.remote.nbytes)
            try:
                _write_all(self.descriptor, data, offset)
            except OSError as again:
                folder = os.path.dirname(self.path)
                raise OSError(
                    again.errno,
                    f"{os.strerror(again.errno or 0)}: no room for the {self.remote.nbytes} bytes "
                    f"of {self.name}, and nothing is left to evict; free some space, or set "
                    "LOOKUPSTORE_CACHE to a folder on another disk",
                    folder,
                ) from None

    def repair(self, offset: int, size: int, is_right: Callable[[bytes], bool]) -> bool:
        """Fetch wrong bytes again, write them if they are correct now, and return whether so.

        Bytes around them are not changed: others may have checked these, and may be using them.
        """
        _log.warning(
            "%s: %d bytes at offset %d are damaged; fetching them again", self.name, size, offset
        )
        # Another thread or process may have repaired them meanwhile.
        if is_right(os.pread(self.descriptor, size, offset)):
            return True
        if self.recoded:
            # The object has other bytes than the copy. The next user opens a copy of the object.
            self.discard()
            return False
        for _ in range(REPAIRS):
            data = self.remote.read(offset, size)
            if is_right(data):
                self._write(data, offset)
                return True
        return False

    def discard(self) -> None:
        """Remove a recoded copy, which cannot be repaired."""
        assert self.recoded
        self._settle(self, False)

    # -- the download of the whole file

    def download_if_paid(self) -> None:
        """Begin to download the rest if the lookups of this host have fetched enough of it."""
        chunks = self.chunks
        if chunks is None or self.complete:
            return
        if PAID_PART * chunks.count_there(0, self._body) >= self._body:
            self.download()

    def download(self) -> None:
        """Begin to download the rest, unless another process of the host does."""
        when_wanted, self.when_wanted = self.when_wanted, None
        if when_wanted is not None:
            when_wanted()
        chunks = self.chunks
        if (
            chunks is None
            or self.complete
            or self._thread is not None
            or time.monotonic() < self._rest_until
            or _stopping.is_set()
            or chunks.state != COMING
            or not chunks.claim_download()
        ):
            return
        self.error = None
        with _turns_lock:
            waiting = _turns.get(self.path)
            if waiting is None:
                self._thread = threading.Thread(
                    target=_download_in_turn,
                    args=(self.path,),
                    name="lookupstore-download",
                    daemon=True,
                )
                self._thread.start()
            else:
                self._thread = waiting[0]
            _turns[self.path] = self._thread, weakref.ref(self)

    def _wanted(self) -> bool:
        return bool(self.users) and not _stopping.is_set()

    def _download(self) -> None:
        chunks = self.chunks
        assert chunks is not None
        started, before = time.monotonic(), self.remote.nbytes_read
        try:
            while self._wanted():
                missing = chunks.missing()
                if not missing:
                    right = self.is_right()
                    if right:
                        os.fsync(self.descriptor)
                    self._settle(self, right)
                    self._complete = right
                    self.latest()
                    break
                stand_back()
                for step in steps(missing, REQUESTS * REQUEST_CHUNKS):
                    mine = chunks.claim(step)
                    if mine:
                        self._fetch(chunks, mine)
                        break
                else:  # lookups are fetching all remaining chunks
                    time.sleep(0.01)
        except Exception as error:
            self.error = error
            self._rest_until = time.monotonic() + REST
            if not _stopping.is_set():
                _log.warning("%s: the download failed: %s", self.name, error)
        else:
            if self._complete:
                _log.info(
                    "%s: downloaded to %s: %d bytes in %.1f s",
                    self.name,
                    self.path,
                    self.remote.nbytes_read - before,
                    time.monotonic() - started,
                )
        finally:
            # These are last: after joining the thread, all its effects and logs must be visible.
            self._thread = None
            chunks.end_download()

    def is_right(self) -> bool:
        """Return whether the whole file has the expected hash; it is read once for that."""
        if not self._is_right:
            digest = xxhash.xxh64()
            for offset in range(0, self.remote.nbytes, _HASH_BYTES):
                digest.update(os.pread(self.descriptor, _HASH_BYTES, offset))
            self._is_right = digest.hexdigest() == self.xxh64
        return self._is_right

    def join(self, timeout: float) -> None:
        """Wait until the download of this process has ended."""
        thread = self._thread
        if thread is not None:
            thread.join(timeout)


def _write_all(descriptor: int, data: bytes, offset: int) -> None:
    view = memoryview(data)
    while view:
        written = os.pwrite(descriptor, view, offset)
        view = view[written:]
        offset += written


# -- state of the process

_copies: weakref.WeakSet[LocalCopy] = weakref.WeakSet()
_slots = threading.Semaphore(DOWNLOADS)
# By path: the thread that waits for a slot, and the copy that it will download. The copy may be
# released meanwhile, with its open files: this reference does not keep it.
_turns: dict[str, tuple[threading.Thread, weakref.ref[LocalCopy]]] = {}
_turns_lock = threading.Lock()
_stopping = threading.Event()
_lookups = 0  # number of lookups that wait for chunks
_last_lookup = 0.0  # time at which the last one got its chunks
_lookups_lock = threading.Lock()


def _download_in_turn(path: str) -> None:
    with _slots:
        with _turns_lock:
            _, reference = _turns.pop(path)
        copy = reference()
        if copy is not None:
            copy._download()


@contextmanager
def lookups_wait() -> Iterator[None]:
    """Count the block as a lookup that waits for chunks while it runs."""
    global _lookups, _last_lookup
    with _lookups_lock:
        _lookups += 1
    try:
        yield
    finally:
        with _lookups_lock:
            _lookups -= 1
            _last_lookup = time.monotonic()


def stand_back() -> None:
    """Wait while lookups wait for chunks, to leave the connection to them."""
    now = time.monotonic()
    until = now + COURTESY
    while (_lookups or now < _last_lookup + PAUSE) and now < until:
        time.sleep(0.005)
        now = time.monotonic()


def _after_fork() -> None:
    global _slots, _turns_lock, _lookups, _lookups_lock
    _slots, _turns_lock = threading.Semaphore(DOWNLOADS), threading.Lock()
    _turns.clear()
    _lookups, _lookups_lock = 0, threading.Lock()
    for copy in list(_copies):
        copy.after_fork()


@atexit.register
def _stop() -> None:
    # Arrow shuts down its file systems at exit; requests of threads must have ended before.
    _stopping.set()
    for copy in list(_copies):
        copy.join(10)


os.register_at_fork(after_in_child=_after_fork)
