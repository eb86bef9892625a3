"""A byte-bounded cache of decoded blocks, shared by all readers of a process.

It counts blocks and says which go; the blocks themselves are in the tables of their files, where
lookups find them without asking the cache. Who goes is decided by second chance: blocks leave in
the order in which they came, but one that was used since it was last looked at stays another turn.

Who comes is decided before: once the cache is full, a block has to be decoded twice within a turn.
Most of those that a random lookup decodes are not asked for again before they would have to go, and
to keep them would cost as much as to decode them.
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

# Blocks that are looked at for each one that comes. A lookup that uses more blocks than there is
# room for would else look at all of them each time; `trim`, when it is done, makes up for it.
LOOKS = 8


class Table(Protocol):
    """Blocks that a cache counts."""

    def release(self, number: int) -> bool:
        """Release a block unless it is in use or was used since the last call."""

    def forget(self) -> None:
        """Release all blocks, whatever uses them."""


class BlockCache:
    """A bound on the bytes of the decoded blocks of many files.

    Args:
        capacity: bytes; 0 keeps nothing. Blocks that lookups use at this moment come on top.

    Attributes:
        account: counts what it holds, and says which blocks are worth keeping.

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
        """Return the bytes of all blocks held, with what makes them ready for lookups."""
        return self.account.nbytes

    @property
    def misses(self) -> int:
        """Return how many blocks had to be read and decoded."""
        return self.account.misses

    @property
    def capacity(self) -> int:
        """Return the most bytes it keeps."""
        return self.account.capacity

    def resize(self, capacity: int) -> None:
        """Change the capacity, dropping blocks where it shrinks."""
        self._check(capacity)
        with self._lock:
            self.account.capacity = capacity
            self._shrink()

    def table(self, file: Hashable, make: Callable[[], Any]) -> Any:
        """Return the table of a file: the same one for all its readers."""
        with self._lock:
            table = self._tables.get(file)
            if table is None:
                table = self._tables[file] = make()
            return table

    def admit(self, table: Table, number: int, nbytes: int) -> None:
        """Count a block that a table has just taken, and make room for it; then comes `trim`."""
        with self._lock:
            self.account.misses += 1
            self._blocks.append((table, number, nbytes))
            self.account.nbytes += nbytes
            self._shrink(LOOKS)

    def trim(self) -> None:
        """Release what was in use when it should have been evicted."""
        if self.account.nbytes > self.account.capacity:
            with self._lock:
                self._shrink()

    def _shrink(self, looks: int | None = None) -> None:
        # Twice round: the first look at a block may only take note that it was used.
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


# A child of fork starts without the blocks: another thread may have held the lock, or pinned some.
os.register_at_fork(after_in_child=_forget_all)
