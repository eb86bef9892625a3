"""A byte-bounded cache of decoded blocks, shared by all readers of a process.

It holds the only lock that readers share. Least recently used blocks go first.
"""

from __future__ import annotations

import os
import threading
import weakref
from collections import OrderedDict
from collections.abc import Hashable
from typing import Any, Generic, Protocol, TypeVar

DEFAULT_CAPACITY = 256 << 20


class _Sized(Protocol):
    @property
    def nbytes(self) -> int: ...


T = TypeVar("T", bound=_Sized)


class BlockCache(Generic[T]):
    """Keep values by key until their `nbytes` pass the capacity.

    Args:
        capacity: bytes; 0 keeps nothing.

    Example:
        >>> import numpy as np
        >>> cache = BlockCache(capacity=1000)
        >>> cache.put("a", np.zeros(75))
        >>> cache.put("b", np.zeros(75))
        >>> cache.get("a") is None, cache.nbytes
        (True, 600)
    """

    def __init__(self, capacity: int = DEFAULT_CAPACITY) -> None:
        if capacity < 0:
            raise ValueError(f"capacity={capacity} bytes; give 0 or more")
        self._capacity = capacity
        self._forget()
        _caches.add(self)

    def _forget(self) -> None:
        self._lock = threading.Lock()
        self._values: OrderedDict[Hashable, T] = OrderedDict()
        self._nbytes = 0
        self._hits = 0
        self._misses = 0

    @property
    def nbytes(self) -> int:
        """Return the bytes of all values held."""
        return self._nbytes

    @property
    def hits(self) -> int:
        """Return how many calls of `get` found their key."""
        return self._hits

    @property
    def misses(self) -> int:
        """Return how many calls of `get` did not."""
        return self._misses

    @property
    def capacity(self) -> int:
        """Return the most bytes it keeps."""
        return self._capacity

    def resize(self, capacity: int) -> None:
        """Change the capacity, dropping values where it shrinks."""
        if capacity < 0:
            raise ValueError(f"capacity={capacity} bytes; give 0 or more")
        with self._lock:
            self._capacity = capacity
            self._shrink()

    def get(self, key: Hashable) -> T | None:
        """Return the value, now the most recently used, or None."""
        with self._lock:
            value = self._values.get(key)
            if value is None:
                self._misses += 1
            else:
                self._hits += 1
                self._values.move_to_end(key)
            return value

    def put(self, key: Hashable, value: T) -> None:
        """Keep a value; one larger than the whole cache is not kept."""
        with self._lock:
            old = self._values.pop(key, None)
            if old is not None:
                self._nbytes -= old.nbytes
            self._values[key] = value
            self._nbytes += value.nbytes
            self._shrink()

    def _shrink(self) -> None:
        while self._nbytes > self._capacity:
            _, value = self._values.popitem(last=False)
            self._nbytes -= value.nbytes


_caches: weakref.WeakSet[BlockCache[Any]] = weakref.WeakSet()


def _forget_all() -> None:
    for cache in list(_caches):
        cache._forget()


# A child of fork starts without the blocks: another thread may have held the lock.
os.register_at_fork(after_in_child=_forget_all)
