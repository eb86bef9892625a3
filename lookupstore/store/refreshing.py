"""Fetch the files of a newer version in the background, while the open version answers.

All bytes of a compacted bucket are new, and the first lookups in it would wait for them. Therefore
a thread fetches the files that the host lacks, and the newer version is returned once all of them
are on the host.
"""

from __future__ import annotations

import atexit
import logging
import os
import threading
import weakref
from collections.abc import Callable
from typing import Any, Generic, Protocol, TypeVar

from lookupstore.errors import LookupStoreError
from lookupstore.hostcache.background import start_thread

_log = logging.getLogger(__name__)


class _Closable(Protocol):
    def close(self) -> None: ...


S = TypeVar("S", bound=_Closable)

_all: weakref.WeakSet[Refreshes[Any]] = weakref.WeakSet()


class Refresh(Generic[S]):
    """A newer version whose files are being fetched to this host.

    Args:
        newer: Newer version, open.
        name: Name of the version, for logs.
        fetch: Function that fetches its files, and returns soon after the event that is passed to
            it is set.
    """

    def __init__(self, newer: S, name: str, fetch: Callable[[threading.Event], None]) -> None:
        self._newer = newer
        self._name = name
        self._fetch = fetch
        self._stop = threading.Event()
        self._is_here = False
        self._thread = start_thread(self._run, name="lookupstore-refresh")

    @property
    def ended(self) -> bool:
        """Return whether nothing is fetched any more; also in a child of fork."""
        return not self._thread.is_alive()

    @property
    def newer(self) -> S:
        """Return the newer version, open."""
        return self._newer

    @property
    def is_here(self) -> bool:
        """Return whether all files to be fetched are on this host."""
        return self._is_here

    def stop(self) -> None:
        """Stop fetching after the request that runs."""
        self._stop.set()

    def cancel(self) -> None:
        """Stop fetching, and wait until the request that runs has ended."""
        self.stop()
        if self._thread is not threading.current_thread():
            self._thread.join()

    def _run(self) -> None:
        try:
            self._fetch(self._stop)
            self._is_here = not self._stop.is_set()
        except (LookupStoreError, OSError) as error:
            _log.warning("%s: not fetched: %s", self._name, error)
        except RuntimeError:  # a process that ends starts no more threads, such as for requests
            if threading.main_thread().is_alive():
                raise


class Refreshes(Generic[S]):
    """The refreshes of an open store, one at a time. Threads may share them."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._under_way: Refresh[S] | None = None
        _all.add(self)

    def next(self, store: S, begin: Callable[[], S | Refresh[S]]) -> S:
        """Return the newer version if all its files are on this host, otherwise the open store.

        Args:
            store: Open store.
            begin: Function that looks for a newer version. It returns the store that can answer at
                once, or the refresh that it began. It is not called while a refresh runs.

        Raises: what `begin` raises.
        """
        with self._lock:
            under_way = self._under_way
            if under_way is not None:
                if not under_way.ended:
                    return store
                self._under_way = None
                if under_way.is_here:
                    return under_way.newer
                under_way.newer.close()
            found = begin()
            if not isinstance(found, Refresh):
                return found
            self._under_way = found
            return store

    def cancel(self) -> None:
        """End the refresh that runs, and close its version."""
        with self._lock:
            under_way, self._under_way = self._under_way, None
        if under_way is not None:
            under_way.cancel()
            under_way.newer.close()

    def stop(self) -> None:
        """Stop the refresh that runs, because the process is ending."""
        under_way = self._under_way  # a thread that looks for a newer version has the lock
        if under_way is not None:
            under_way.stop()


@atexit.register
def _end() -> None:
    # After this, the threads are waited for.
    for refreshes in list(_all):
        refreshes.stop()


def _after_fork() -> None:
    # A thread that is not in this process may have held the lock.
    for refreshes in _all:
        refreshes._lock = threading.Lock()


os.register_at_fork(after_in_child=_after_fork)
