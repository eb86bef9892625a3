"""Lookup files that stay open, of whoever asks many of them: each takes room and descriptors."""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import Protocol

from lookupstore.hostcache.cache import Residency

#: Lookup files that stay open: each takes file descriptors.
MOST_OPEN = 256


class Opened(Protocol):
    """What opens a lookup file when it is asked."""

    def release(self) -> None:
        """Keep no lookup file from being evicted; who asks opens it again."""


class OpenLookups:
    """Lookup files that may be open: those that were asked last. Threads may share it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._open: OrderedDict[Opened, None] = OrderedDict()
        self._has_more = False  # since it was last seen how much room there is

    def used(self, one: Opened) -> None:
        """Note that one is asked now; the one that was not for the longest time is released."""
        with self._lock:
            self._has_more |= one not in self._open
            self._open[one] = None
            self._open.move_to_end(one)
            more = range(len(self._open) - MOST_OPEN)
            oldest = [self._open.popitem(last=False)[0] for _ in more]
        for other in oldest:
            other.release()

    def share_room(self, residency: Residency) -> None:
        """Release all if there are more, and room for others is getting short on this host."""
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
