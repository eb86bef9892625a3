"""The local copy of one remote file: filled where it is read, downloaded if that pays, verified.

The copy is a file of full size with holes, beside a map that says which chunks are there. When the
last one has come and the hash of the whole is right, the map is removed: a copy without a map is
complete. Its name and its inode stay what they were, so that no reader opens it again.

Lookups fetch what they need and nothing else, until they have fetched an eighth of the file. A
request takes as long as some tens of blocks do, so that all of the file costs no more than that; it
is downloaded then. Whoever asks for ten keys fetches ten blocks.
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

#: Chunks that one request may bring: more of them in one request gain nothing.
REQUEST_CHUNKS = (4 << 20) // CHUNK_BYTES

#: Chunks between two that are asked for, which are cheaper to read than to skip where requests
#: have to wait for others. Where all of them are made at once, none are.
GAP_CHUNKS = (256 << 10) // CHUNK_BYTES

#: Lookups that have fetched this part of a file have paid for all of it.
PAID_PART = 8

#: Bytes of a file of which all comes at once: it takes hardly longer than a part.
SMALL_BYTES = 1 << 20

#: Requests of a download at one time, and downloads of a process at one time.
REQUESTS = 4
DOWNLOADS = 2

#: How often a file may come with a wrong hash before that is an error.
WHOLE_ATTEMPTS = 3

#: How often bytes with a wrong checksum are asked for again.
REPAIRS = 2

#: Seconds until a download that failed is tried again by those who need it.
REST = 5.0

#: Most seconds that a download stands back for lookups, before each of its steps.
COURTESY = 1.0

#: Seconds after a lookup in which the next one is expected: the files of a store have their turns.
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

    There is one object per process and inode. It is the `Fill` of readers of the copy. While it
    lives, it has a shared lock on the file, which keeps it from being evicted.

    Args:
        path: of the local file.
        descriptor: of the local file, open for reading and writing, with a shared lock; owned from
            now on.
        chunks: which chunks are there; None: the file is complete.
        remote: where they come from.
        xxh64: hash that the whole must have, 16 hexadecimal digits.
        tail: bytes at the end of the file that come together when any of them are asked for.
        make_room: frees bytes on the disk, as far as it can.
        settle: told when all chunks have come, and whether the hash is right; it removes the map
            of a right file and both of a wrong one.
        replace: pins another copy in place of this one, whose bytes came wrong.
        recoded: whether the bytes are others than those of the object, with the same records.
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
        self.users: set[int] = set()  # whose ids; without any a download stops
        self.error: Exception | None = None  # that ended the last download
        #: Called when this process first wants all of it.
        self.when_wanted: Callable[[], None] | None = None
        self.tail: int = remote.nbytes if remote.nbytes <= SMALL_BYTES else tail
        # Chunks before the tail.
        self._body = max(0, remote.nbytes - self.tail) // CHUNK_BYTES
        self._make_room = make_room
        self._settle = settle
        self._replace = replace
        self._complete = chunks is None
        self._is_right = False  # as far as this process has looked
        self._thread: threading.Thread | None = None
        self._rest_until = 0.0
        _copies.add(self)

    def after_fork(self) -> None:
        """Go on in a child of fork, which has none of the threads."""
        self._thread = None
        if self.chunks is not None:
            self.chunks.after_fork()

    @property
    def name(self) -> str:
        """Return the name of the copy in errors: the URI of its object."""
        return self.remote.uri

    def open(self) -> int:
        """Return another descriptor of the file, which has its part in the lock."""
        return os.dup(self.descriptor)

    @property
    def complete(self) -> bool:
        """Return whether all of it is there, and verified."""
        if not self._complete and self.chunks is not None:
            self._complete = self.chunks.state == VERIFIED
        return self._complete

    def latest(self) -> LocalCopy:
        """Return this copy, or the one in its place if it has come wrong.

        Raises:
            CorruptionError: it has come wrong too often: the object is not the file.
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

    # -- what readers ask for

    def __call__(self, ranges: Sequence[tuple[int, int]]) -> None:
        """Return when the bytes of all ranges (offset, size) are in the file.

        Raises:
            OSError: the object store does not give them, or the disk is full.
            CorruptionError: the object is not what it should be.
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
            # Readers check all bytes that came. But those of another file are right in themselves.
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
        """Begin the download if so many bytes are going to be asked for, one after the other."""
        if not self.complete and PAID_PART * size >= self.remote.nbytes:
            self.download()

    def _bring(self, chunks: ChunkMap, missing: list[Span]) -> None:
        """Fetch chunks, or wait until others, who were first, have fetched them."""
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
        """Fetch claimed chunks, and give the claim back."""

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
                    f"{os.strerror(again.errno or 0)}: {folder} has no room for the "
                    f"{self.remote.nbytes} bytes of {self.name}, and nothing is left there to "
                    "evict; free some space, or set LOOKUPSTORE_CACHE to a folder on another disk",
                ) from None

    def repair(self, offset: int, size: int, is_right: Callable[[bytes], bool]) -> bool:
        """Fetch bytes again that are wrong, and write them if they are right now; whether so.

        Others may have checked and be using the bytes around them: these are not touched.
        """
        _log.warning(
            "%s: %d bytes at offset %d are damaged; fetching them again", self.name, size, offset
        )
        # They may have been repaired by another thread or process meanwhile.
        if is_right(os.pread(self.descriptor, size, offset)):
            return True
        if self.recoded:
            # The object has other bytes. Whoever opens the file next gets those.
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

    # -- the download of all

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
                else:  # lookups fetch all that is left
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
            # Last: who joins the thread may ask for all that it did, and said.
            self._thread = None
            chunks.end_download()

    def is_right(self) -> bool:
        """Return whether all of it has the hash that it must have; it is read once for that."""
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


# -- the process

_copies: weakref.WeakSet[LocalCopy] = weakref.WeakSet()
_slots = threading.Semaphore(DOWNLOADS)
# By path: who waits for a slot, and what is to be downloaded then. It may go meanwhile, with all
# that it has open: nobody else keeps it.
_turns: dict[str, tuple[threading.Thread, weakref.ref[LocalCopy]]] = {}
_turns_lock = threading.Lock()
_stopping = threading.Event()
_lookups = 0  # that wait for chunks
_last_lookup = 0.0  # when the last one had them
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
    """Count as a lookup that waits for chunks while the block runs."""
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
    """Leave the connection to lookups that wait for chunks."""
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
    # Arrow takes its file systems down at exit; a request of a thread must not outlive them.
    _stopping.set()
    for copy in list(_copies):
        copy.join(10)


os.register_at_fork(after_in_child=_after_fork)
