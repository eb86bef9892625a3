"""Which chunks of a local copy are there: a small file that all processes of a host share.

It has two bytes for the whole file, then one per chunk. A chunk is written once: whoever fetches it
claims it first, by a record lock on its byte, which the system takes back when the process dies. So
bytes that a reader has checked are never written again, not even by a transfer that went wrong.

Record locks belong to a process and are lost when it closes the file, however often it has it open:
there must be one `ChunkMap` per process and file. Threads are kept apart by bytes in memory.
"""

from __future__ import annotations

import fcntl
import os
import re
import threading
from collections.abc import Iterable, Iterator, Sequence
from typing import TypeAlias

from lookupstore.hostcache.own_folder import open_own

#: Bytes of a chunk: a block of a few kilobytes takes hardly more than itself. As measured:
#: docs/decisions/0041-cold-files.md.
CHUNK_BYTES = 1 << 10

#: Chunks that follow each other: the first, and the one behind the last.
Span: TypeAlias = tuple[int, int]

# States of the whole.
COMING = 0  # some chunks may be missing
VERIFIED = 1  # all chunks are there, and their hash is right
WRONG = 2  # all chunks are there, and their hash is wrong

_HEAD = 2  # state, attempt
_CLEAR, _SET = re.compile(b"\0+"), re.compile(b"[^\0]+")


def chunks_of(nbytes: int) -> int:
    """Return the number of chunks of a file."""
    return -(-nbytes // CHUNK_BYTES)


def spans_of(ranges: Iterable[tuple[int, int]]) -> list[Span]:
    """Return the chunks of ranges of bytes (offset, size), in ascending order.

    >>> spans_of([(5000, 1), (0, 1025), (2000, 100)])
    [(0, 3), (4, 5)]
    """
    return joined(
        sorted(
            (offset // CHUNK_BYTES, -(-(offset + size) // CHUNK_BYTES)) for offset, size in ranges
        )
    )


def joined(spans: Iterable[Span], gap: int = 0) -> list[Span]:
    """Return ascending spans, those in one that overlap or have at most `gap` chunks between them.

    >>> joined([(0, 3), (3, 4), (5, 9)]), joined([(0, 3), (5, 9)], 2)
    ([(0, 4), (5, 9)], [(0, 9)])
    """
    found: list[Span] = []
    for first, end in spans:
        if found and first <= found[-1][1] + gap:
            found[-1] = found[-1][0], max(found[-1][1], end)
        else:
            found.append((first, end))
    return found


def pieces(spans: Iterable[Span], most: int) -> Iterator[Span]:
    """Yield spans in pieces of at most so many chunks.

    >>> list(pieces([(0, 5), (7, 8)], 2))
    [(0, 2), (2, 4), (4, 5), (7, 8)]
    """
    for first, end in spans:
        for at in range(first, end, most):
            yield at, min(at + most, end)


def steps(spans: Iterable[Span], most: int) -> Iterator[list[Span]]:
    """Yield spans in lists of at most so many chunks.

    >>> list(steps([(0, 2), (4, 5), (6, 9)], 3))
    [[(0, 2), (4, 5)], [(6, 9)]]
    """
    step: list[Span] = []
    room = most
    for first, end in pieces(spans, most):
        if end - first > room:
            yield step
            step, room = [], most
        step.append((first, end))
        room -= end - first
    if step:
        yield step


class ChunkMap:
    """The chunks of a local copy: which are there, and who fetches which.

    Args:
        path: of the map.
        count: number of chunks.
    """

    def __init__(self, path: str, count: int) -> None:
        self.count = count
        self._descriptor = open_own(path)
        self.after_fork()

    def __del__(self) -> None:
        if hasattr(self, "_descriptor"):
            os.close(self._descriptor)

    @staticmethod
    def create(path: str, count: int, attempt: int) -> None:
        """Write the map of a file that has no chunk yet."""
        # All its bytes are written: a later one never finds the disk full.
        with open(open_own(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL), "wb") as file:
            file.write(bytes([COMING, attempt]) + bytes(count))

    @staticmethod
    def size(count: int) -> int:
        """Return the size of a map in bytes."""
        return _HEAD + count

    def after_fork(self) -> None:
        """Forget what other threads do; the claims of a parent are not its child's."""
        self._lock = threading.Lock()
        self._claimed = bytearray(self.count)
        self._downloads = False

    @property
    def state(self) -> int:
        """Return COMING, VERIFIED or WRONG."""
        return os.pread(self._descriptor, 1, 0)[0]

    @state.setter
    def state(self, state: int) -> None:
        os.pwrite(self._descriptor, bytes([state]), 0)

    @property
    def attempt(self) -> int:
        """Return how often the file came wrong before."""
        return os.pread(self._descriptor, 1, 1)[0]

    def missing(self, spans: Sequence[Span] | None = None) -> list[Span]:
        """Return what is not there of some ascending spans, or of all chunks."""
        if spans is None:
            spans = [(0, self.count)]
        if not spans:
            return []
        start = spans[0][0]
        there = self._read(start, spans[-1][1])
        return [span for each in spans for span in _found(_CLEAR, there, start, each)]

    def missing_with_gaps(self, missing: Sequence[Span], gap: int) -> list[Span]:
        """Return missing chunks, and those between them of which none is there, up to `gap`."""
        if len(missing) < 2 or not gap:
            return list(missing)
        start = missing[0][0]
        there = self._read(start, missing[-1][1])
        wanted = [missing[0]]
        for first, end in missing[1:]:
            before, last = wanted[-1]
            between = first - last
            if between <= gap and there.count(0, last - start, first - start) == between:
                wanted[-1] = before, end
            else:
                wanted.append((first, end))
        return wanted

    def count_there(self, first: int, end: int) -> int:
        """Return how many chunks of a span are there."""
        return end - first - self._read(first, end).count(b"\0")

    def claim(self, spans: Iterable[Span]) -> list[Span]:
        """Return what is missing of some ascending spans, and the caller's to fetch from now on."""
        with self._lock:
            mine = []
            for span in spans:
                for free in _found(_CLEAR, self._claimed, 0, span):
                    mine += self._locked(*free)
            for first, end in mine:
                self._claimed[first:end] = b"\1" * (end - first)
            if not mine:
                return []
            start = mine[0][0]
            there = self._read(start, mine[-1][1])
            for span in mine:
                for part in _found(_SET, there, start, span):  # others were faster
                    self._unlock(*part)
        return [part for span in mine for part in _found(_CLEAR, there, start, span)]

    def give_back(self, spans: Iterable[Span]) -> None:
        """Give claimed chunks back, fetched or not."""
        with self._lock:
            for first, end in spans:
                self._unlock(first, end)

    def mark(self, first: int, end: int) -> None:
        """Mark claimed chunks as there."""
        os.pwrite(self._descriptor, b"\1" * (end - first), _HEAD + first)

    def claim_download(self) -> bool:
        """Return whether the caller downloads the chunks that no reader needs yet."""
        with self._lock:
            if self._downloads or not self._try_lock(self.count, self.count + 1):
                return False
            self._downloads = True
            return True

    def end_download(self) -> None:
        """Give the download back."""
        with self._lock:
            fcntl.lockf(self._descriptor, fcntl.LOCK_UN, 1, _HEAD + self.count)
            self._downloads = False

    def _read(self, first: int, end: int) -> bytes:
        """Return the bytes of some chunks."""
        return os.pread(self._descriptor, end - first, _HEAD + first)

    def _locked(self, first: int, end: int) -> list[Span]:
        """Lock what no other process has of some chunks, and return it."""
        if self._try_lock(first, end):
            return [(first, end)]
        if end - first == 1:
            return []
        middle = (first + end) // 2
        return joined([*self._locked(first, middle), *self._locked(middle, end)])

    def _unlock(self, first: int, end: int) -> None:
        fcntl.lockf(self._descriptor, fcntl.LOCK_UN, end - first, _HEAD + first)
        self._claimed[first:end] = bytes(end - first)

    def _try_lock(self, first: int, end: int) -> bool:
        how = fcntl.LOCK_EX | fcntl.LOCK_NB
        try:
            fcntl.lockf(self._descriptor, how, end - first, _HEAD + first)
        except (BlockingIOError, PermissionError):
            return False
        return True


def _found(
    pattern: re.Pattern[bytes], data: bytes | bytearray, start: int, span: Span
) -> Iterator[Span]:
    """Yield the parts of a span whose bytes match, of data that begins with chunk `start`."""
    for match in pattern.finditer(data, span[0] - start, span[1] - start):
        yield match.start() + start, match.end() + start
