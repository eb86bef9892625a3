"""Lookup files that stay open in callers with many of them; each takes room and descriptors."""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import Protocol

from lookupstore.hostcache.cache import Residency

#: Maximum number of lookup files that stay open: each takes file descriptors.
MOST_OPEN = 256


class Opened(Protocol):
    """An object that opens a lookup file on demand."""

    def release(self) -> None:
        """Release the lookup file so that it can be evicted; the next lookup opens it again."""


class OpenLookups:
    """The most recently used lookup files, which may be open. Threads may share it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._open: OrderedDict[Opened, None] = OrderedDict()
        self._has_more = False  # files were added since the last check of the room

    def used(self, one: Opened) -> None:
        """Note that a lookup file is used now, and release the least recently used one."""
        with self._lock:
            self._has_more |= one not in self._open
            self._open[one] = None
            self._open.move_to_end(one)
            more = range(len(self._open) - MOST_OPEN)
            oldest = [self._open.popitem(last=False)[0] for _ in more]
        for other in oldest:
            other.release()

    def share_room(self, residency: Residency) -> None:
        """Release all if files were added and the cache of this host is getting full."""
        with self._lock:
            has_more, self._has_more = self._has_more, False
        if has_more and residency.is_getting_full:
            self.release()

    def release(self) -> None:
        """Release all."""
        with self._lock:
            opened = list(self._open)
            self._open.clear()
        for one in opened:
            one.release()
