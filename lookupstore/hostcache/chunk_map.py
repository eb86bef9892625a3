"""The map of the chunks of a local copy: a small file that all processes of a host share.

It has two bytes for the whole file, then one byte per chunk. A chunk is written once: a process
that fetches it first claims it with a record lock on its byte, which the system releases when the
process dies. Therefore bytes that a reader has checked are never written again, not even by a
failed transfer.

Record locks belong to a process and are lost when it closes any descriptor of the file. Therefore
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

#: Size of a chunk in bytes: a block of a few kilobytes takes hardly more than its own size.
#: Measured in docs/decisions/0041-cold-files.md.
CHUNK_BYTES = 1 << 10

#: Range of adjacent chunks: number of the first, and number after the last.
Span: TypeAlias = tuple[int, int]

# States of the whole file.
COMING = 0  # some chunks may be missing
VERIFIED = 1  # all chunks are present, and their hash is right
WRONG = 2  # all chunks are present, and their hash is wrong

_HEAD = 2  # bytes before the chunks: state, attempt
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
    """Return ascending spans, merging those that overlap or have at most `gap` chunks between.

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
    """Yield spans in pieces of at most `most` chunks.

    >>> list(pieces([(0, 5), (7, 8)], 2))
    [(0, 2), (2, 4), (4, 5), (7, 8)]
    """
    for first, end in spans:
        for at in range(first, end, most):
            yield at, min(at + most, end)


def steps(spans: Iterable[Span], most: int) -> Iterator[list[Span]]:
    """Yield spans in lists of at most `most` chunks.

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
    """A map of the chunks of a local copy, and of the processes that fetch them.

    Args:
        path: Path of the map.
        count: Number of chunks.
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
        """Write the map of a file that has no chunks yet."""
        # All its bytes are written now, so that later writes cannot find the disk full.
        with open(open_own(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL), "wb") as file:
            file.write(bytes([COMING, attempt]) + bytes(count))

    @staticmethod
    def size(count: int) -> int:
        """Return the size of a map in bytes."""
        return _HEAD + count

    def after_fork(self) -> None:
        """Reset what other threads do; a child does not have the claims of its parent."""
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
        """Return the number of downloads of the file that had a wrong hash."""
        return os.pread(self._descriptor, 1, 1)[0]

    def missing(self, spans: Sequence[Span] | None = None) -> list[Span]:
        """Return the missing chunks of some ascending spans, or of all chunks."""
        if spans is None:
            spans = [(0, self.count)]
        if not spans:
            return []
        start = spans[0][0]
        there = self._read(start, spans[-1][1])
        return [span for each in spans for span in _found(_CLEAR, there, start, each)]

    def missing_with_gaps(self, missing: Sequence[Span], gap: int) -> list[Span]:
        """Return missing chunks, joined over gaps of up to `gap` chunks that are missing, too."""
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
        """Return the number of chunks of a span that are present."""
        return end - first - self._read(first, end).count(b"\0")

    def claim(self, spans: Iterable[Span]) -> list[Span]:
        """Return the missing chunks of some ascending spans that the caller now has to fetch."""
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
                for part in _found(_SET, there, start, span):  # other processes have fetched them
                    self._unlock(*part)
        return [part for span in mine for part in _found(_CLEAR, there, start, span)]

    def give_back(self, spans: Iterable[Span]) -> None:
        """Release claimed chunks, fetched or not."""
        with self._lock:
            for first, end in spans:
                self._unlock(first, end)

    def mark(self, first: int, end: int) -> None:
        """Mark claimed chunks as present."""
        os.pwrite(self._descriptor, b"\1" * (end - first), _HEAD + first)

    def claim_download(self) -> bool:
        """Return whether the caller is to download the chunks that no reader needs yet."""
        with self._lock:
            if self._downloads or not self._try_lock(self.count, self.count + 1):
                return False
            self._downloads = True
            return True

    def end_download(self) -> None:
        """Release the claim of the download."""
        with self._lock:
            fcntl.lockf(self._descriptor, fcntl.LOCK_UN, 1, _HEAD + self.count)
            self._downloads = False

    def _read(self, first: int, end: int) -> bytes:
        """Return the bytes of some chunks."""
        return os.pread(self._descriptor, end - first, _HEAD + first)

    def _locked(self, first: int, end: int) -> list[Span]:
        """Lock the chunks of a span that no other process has locked, and return them."""
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
    """Yield the parts of a span with matching bytes, in data that begins with chunk `start`."""
    for match in pattern.finditer(data, span[0] - start, span[1] - start):
        yield match.start() + start, match.end() + start
