"""A byte-bounded cache of decoded blocks, shared by all readers of a process.

The cache counts blocks and decides which are evicted. The blocks themselves are in the tables of
their files, where lookups find them without calling the cache. Eviction uses second chance: blocks
are evicted in the order in which they were added, but a block that was used since the last check is
kept for another turn.

Admission is decided before that: once the cache is full, a block is admitted only if it is decoded
twice within a turn. Most blocks that random lookups decode are not needed again before they would
be evicted, and keeping them would cost as much as decoding them.
"""

from __future__ import annotations

import os
import threading
import weakref
from collections import deque
from collections.abc import Callable, Hashable
from typing import Any, Protocol

from lookupstore.sst._table import Account

DEFAULT_CAPACITY = 256 << 20

# Number of blocks that are checked for eviction for each block that is added. Without this limit, a
# lookup that uses more blocks than fit would check all of them each time; `trim` evicts the rest
# after the lookup.
LOOKS = 8


class Table(Protocol):
    """A table of the blocks that a cache counts."""

    def release(self, number: int) -> bool:
        """Release a block unless it is in use or was used since the last call."""

    def forget(self) -> None:
        """Release all blocks, including those in use."""


class BlockCache:
    """A bound on the bytes of the decoded blocks of many files.

    Args:
        capacity: Largest number of bytes to keep; 0 keeps nothing. Blocks that lookups use at this
            moment are not included.

    Attributes:
        account: Counter of the bytes that are held, which also decides which blocks are worth
            keeping.

    Example:
        >>> from lookupstore.sst import Reader, Writer
        >>> with Writer("c.sst", compression="zstd") as writer:
        ...     writer.put_many([b"1", b"2"], [b"one" * 99, b"two" * 99])
        >>> cache = BlockCache(capacity=1 << 20)
        >>> reader = Reader("c.sst", cache=cache)
        >>> reader.get(b"1") == reader.get(b"2"), cache.misses
        (False, 1)
    """

    def __init__(self, capacity: int = DEFAULT_CAPACITY) -> None:
        self._check(capacity)
        self.account: Account = Account(capacity)
        self._tables: weakref.WeakValueDictionary[Hashable, Any] = weakref.WeakValueDictionary()
        self._forget()
        _caches.add(self)

    @staticmethod
    def _check(capacity: int) -> None:
        if capacity < 0:
            raise ValueError(f"capacity={capacity} bytes; give 0 or more")

    def _forget(self) -> None:
        self._lock = threading.Lock()
        self._blocks: deque[tuple[Table, int, int]] = deque()
        self.account.forget()
        for table in list(self._tables.values()):
            table.forget()

    @property
    def nbytes(self) -> int:
        """Return the bytes of all blocks held, including what prepares them for lookups."""
        return self.account.nbytes

    @property
    def misses(self) -> int:
        """Return the number of blocks that were read and decoded."""
        return self.account.misses

    @property
    def capacity(self) -> int:
        """Return the largest number of bytes that the cache keeps."""
        return self.account.capacity

    def resize(self, capacity: int) -> None:
        """Change the capacity, and evict blocks if it shrinks."""
        self._check(capacity)
        with self._lock:
            self.account.capacity = capacity
            self._shrink()

    def table(self, file: Hashable, make: Callable[[], Any]) -> Any:
        """Return the table of a file, the same for all its readers."""
        with self._lock:
            table = self._tables.get(file)
            if table is None:
                table = self._tables[file] = make()
            return table

    def admit(self, table: Table, number: int, nbytes: int) -> None:
        """Count a block that a table has just added, and make room for it; then call `trim`."""
        with self._lock:
            self.account.misses += 1
            self._blocks.append((table, number, nbytes))
            self.account.nbytes += nbytes
            self._shrink(LOOKS)

    def trim(self) -> None:
        """Release blocks that were in use when they should have been evicted."""
        if self.account.nbytes > self.account.capacity:
            with self._lock:
                self._shrink()

    def _shrink(self, looks: int | None = None) -> None:
        # Each block may be checked twice: the first check may only reset its mark of use.
        for _ in range(2 * len(self._blocks) if looks is None else looks):
            if self.account.nbytes <= self.account.capacity:
                return
            table, number, nbytes = self._blocks.popleft()
            if table.release(number):
                self.account.nbytes -= nbytes
            else:
                self._blocks.append((table, number, nbytes))


_caches: weakref.WeakSet[BlockCache] = weakref.WeakSet()


def _forget_all() -> None:
    for cache in list(_caches):
        cache._forget()


# A child of fork starts without blocks: another thread may have held the lock or pinned blocks.
os.register_at_fork(after_in_child=_forget_all)
