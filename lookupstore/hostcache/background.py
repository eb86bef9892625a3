"""Threads that work beside lookups, and end before the process does.

While the interpreter shuts down, a thread inside Arrow or an extension ends the process by a
signal. Therefore the end of the process waits for these threads, and each asks between two pieces
of work whether the process is ending.
"""

from __future__ import annotations

import atexit
import os
import threading
import weakref
from collections.abc import Callable
from typing import Any

# Seconds that the end of the process waits for a thread, which may read a large file at once.
_LONGEST = 30.0

_threads: weakref.WeakSet[threading.Thread] = weakref.WeakSet()
_ending = threading.Event()


class ProcessEndingError(Exception):
    """The process is ending, and what a thread does is given up."""


def start_thread(work: Callable[..., object], *arguments: Any, name: str) -> threading.Thread:
    """Start a thread that is waited for at the end of the process, and return it.

    Args:
        work: Function to call, which calls `check_going_on` now and then.
        arguments: Its arguments.
        name: Name of the thread.
    """
    thread = threading.Thread(target=work, args=arguments, name=name, daemon=True)
    _threads.add(thread)
    thread.start()
    return thread


def is_ending() -> bool:
    """Return whether the process is ending."""
    return _ending.is_set()


def check_going_on() -> None:
    """Raise an error if the process is ending.

    Raises:
        ProcessEndingError: If it is.
    """
    if is_ending():
        raise ProcessEndingError


@atexit.register
def _end() -> None:
    _ending.set()
    for thread in list(_threads):
        thread.join(_LONGEST)


os.register_at_fork(after_in_child=_threads.clear)
