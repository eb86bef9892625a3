"""What this process has read of files that never change, so that it reads each of them once.

Each snapshot of a table names most metadata files of the one before it. A process that follows a
table plans two snapshots in each call.
"""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Callable, Hashable
from typing import Any, Generic, TypeVar

Content = TypeVar("Content")
Raw = TypeVar("Raw")


class RecentlyRead(Generic[Content]):
    """The contents of files within a bound, of which those used least recently are forgotten.

    Threads that want one file wait for the first of them, which reads it. A forked child and a
    pickle begin without contents.

    Args:
        most: Greatest sum of the sizes of the contents. One content may be larger.
        size: Function that returns the size of a content, in any unit.
    """

    def __init__(self, most: int, size: Callable[[Content], int]) -> None:
        self._most, self._size_of = most, size
        self._forget()
        _all.add(self)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self._most, self._size_of)

    def _forget(self) -> None:
        self._lock = threading.Lock()
        self._contents: dict[Hashable, Content] = {}
        self._sizes: dict[Hashable, int] = {}
        self._total = 0
        # Of each file that is being read.
        self._reading: dict[Hashable, threading.Lock] = {}
        self._parsing = threading.Lock()

    def __contains__(self, identity: Hashable) -> bool:
        """Return whether the content of a file is kept."""
        return identity in self._contents

    def get(self, identity: Hashable, read: Callable[[], Content]) -> Content:
        """Return the content of a file.

        Args:
            identity: Identity of the file, which no other file has.
            read: Function that reads the content.

        Raises: The errors of `read`.
        """
        with self._lock:
            own = self._reading.setdefault(identity, threading.Lock())
        try:
            with own:
                with self._lock:
                    if identity in self._contents:
                        # It is now the one that was used last.
                        found = self._contents[identity] = self._contents.pop(identity)
                        return found
                found = read()
                self.keep(identity, found)
                return found
        finally:
            with self._lock:
                self._reading.pop(identity, None)

    def parsed(
        self, identity: Hashable, fetch: Callable[[], Raw], parse: Callable[[Raw], Content]
    ) -> Content:
        """Return the content of a small file, which Python code parses.

        Several threads can fetch files at once, but only one parses at a time: threads that run
        Python code would wait for each other at every step.

        Args:
            identity: Identity of the file, which no other file has.
            fetch: Function that reads the file.
            parse: Function that returns the content of what was read.

        Raises: The errors of `fetch` and `parse`.
        """

        def read() -> Content:
            raw = fetch()
            with self._parsing:
                return parse(raw)

        return self.get(identity, read)

    def keep(self, identity: Hashable, content: Content) -> None:
        """Keep the content of a file, unless it is kept.

        Args:
            identity: Identity of the file, which no other file has.
            content: The content.
        """
        size = self._size_of(content)
        with self._lock:
            if identity in self._contents:
                return
            self._contents[identity], self._sizes[identity] = content, size
            self._total += size
            while self._total > self._most and len(self._contents) > 1:
                oldest = next(iter(self._contents))
                del self._contents[oldest]
                self._total -= self._sizes.pop(oldest)


_all: weakref.WeakSet[RecentlyRead[Any]] = weakref.WeakSet()


def _after_fork() -> None:
    for one in list(_all):
        one._forget()


# Another thread of the parent may have held a lock.
os.register_at_fork(after_in_child=_after_fork)
