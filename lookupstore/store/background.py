"""Compact stores in threads of this process, so that writers of changes do not wait."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable

from lookupstore.errors import LookupStoreError

_log = logging.getLogger(__name__)

_lock = threading.Lock()
_running: set[str] = set()  # stores that a thread compacts
_wanted: dict[str, Callable[[], object]] = {}  # next compaction to run, by store


def compact_in_background(name: str, compact: Callable[[], object]) -> None:
    """Compact a store in a thread of this process, one thread for each store.

    While the thread of a store runs, the last of further calls waits for it to end. Errors are
    logged. A process that ends waits for its threads, but gives up the compaction of a remote
    store, whose runs stay.

    Args:
        name: Name of the store, for logs and to tell it from others.
        compact: Function that compacts the buckets that are due.
    """
    with _lock:
        _wanted[name] = compact
        if name in _running:
            return
        _running.add(name)
    try:
        threading.Thread(target=_work, args=(name,), name="lookupstore-compaction").start()
    except RuntimeError as error:  # too many threads, or the process is ending
        with _lock:
            _running.discard(name)
            _wanted.pop(name, None)
        _log.warning("%s: not compacted, its runs stay: %s", name, error)


def _work(name: str) -> None:
    while True:
        with _lock:
            compact = _wanted.pop(name, None)
            if compact is None:
                _running.discard(name)
                return
        try:
            compact()
        # RuntimeError: a process that ends starts no more threads, such as those for requests.
        except (LookupStoreError, OSError, RuntimeError) as error:
            _log.warning("%s: not compacted, its runs stay: %s", name, error)
        except Exception:  # the next writer of the store tries again
            _log.exception("%s: not compacted, its runs stay", name)


def _after_fork() -> None:
    global _lock
    _lock = threading.Lock()
    _running.clear()
    _wanted.clear()


os.register_at_fork(after_in_child=_after_fork)
