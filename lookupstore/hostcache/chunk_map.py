"""Which chunks of a local copy are there: a small file that all processes of a host share.

It has two bytes for the whole file, then one per chunk. A chunk is written once: whoever fetches it
claims it first, by a record lock on its byte, which the system takes back when the process dies. So
bytes that a reader has checked are never written again, not even by a transfer that went wrong.

Record locks belong to a process and are lost when it closes the file, however often it has it open:
there must be one `ChunkMap` per process and file. Threads are kept apart by a set.
"""

from __future__ import annotations

import fcntl
import os
import threading
from collections.abc import Iterable, Sequence

from lookupstore.hostcache.own_folder import open_own

#: Bytes of a chunk, as measured: docs/decisions/0009-residency.md.
CHUNK_BYTES = 64 << 10

# States of the whole.
COMING = 0  # some chunks may be missing
VERIFIED = 1  # all chunks are there, and their hash is right
WRONG = 2  # all chunks are there, and their hash is wrong

_HEAD = 2  # state, attempt


def chunks_of(nbytes: int) -> int:
    """Return the number of chunks of a file."""
    return -(-nbytes // CHUNK_BYTES)


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
        self._claimed: set[int] = set()
        self._downloads = False

    @property
    def inode(self) -> int:
        """Return the number of the map's inode."""
        return os.fstat(self._descriptor).st_ino

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

    def missing(self, numbers: Sequence[int] | None = None) -> list[int]:
        """Return those of the chunks, in ascending order, that are not there."""
        if numbers is None:
            numbers = range(self.count)
        if not numbers:
            return []
        first, last = numbers[0], numbers[-1]
        there = os.pread(self._descriptor, last + 1 - first, _HEAD + first)
        return [number for number in numbers if not there[number - first]]

    def claim(self, numbers: Iterable[int]) -> list[int]:
        """Return those of the chunks that are missing, and the caller's to fetch from now on."""
        mine = []
        with self._lock:
            for number in numbers:
                if number in self._claimed or not self._try_lock(_HEAD + number):
                    continue
                self._claimed.add(number)
                mine.append(number)
            wanted = set(self.missing(mine))
        self.give_back(number for number in mine if number not in wanted)
        return [number for number in mine if number in wanted]

    def give_back(self, numbers: Iterable[int]) -> None:
        """Give claimed chunks back, fetched or not."""
        with self._lock:
            for first, count in spans_of(numbers):
                fcntl.lockf(self._descriptor, fcntl.LOCK_UN, count, _HEAD + first)
                self._claimed.difference_update(range(first, first + count))

    def mark(self, first: int, count: int) -> None:
        """Mark claimed chunks as there."""
        os.pwrite(self._descriptor, b"\1" * count, _HEAD + first)

    def claim_download(self) -> bool:
        """Return whether the caller downloads the chunks that no reader needs yet."""
        with self._lock:
            if self._downloads or not self._try_lock(_HEAD + self.count):
                return False
            self._downloads = True
            return True

    def end_download(self) -> None:
        """Give the download back."""
        with self._lock:
            fcntl.lockf(self._descriptor, fcntl.LOCK_UN, 1, _HEAD + self.count)
            self._downloads = False

    def _try_lock(self, at: int) -> bool:
        try:
            fcntl.lockf(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, at)
        except (BlockingIOError, PermissionError):
            return False
        return True


def spans_of(numbers: Iterable[int]) -> list[tuple[int, int]]:
    """Return ascending numbers as (first, count) of those that follow each other.

    >>> spans_of([3, 4, 5, 9])
    [(3, 3), (9, 1)]
    """
    spans: list[tuple[int, int]] = []
    for number in numbers:
        if spans and sum(spans[-1]) == number:
            spans[-1] = (spans[-1][0], spans[-1][1] + 1)
        else:
            spans.append((number, 1))
    return spans
