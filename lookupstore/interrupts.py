"""Ctrl-C while modules are imported, before a command has begun."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager

#: Exit status of a command that was interrupted, as of one that SIGINT ends.
INTERRUPTED = 130


@contextmanager
def quiet_interrupts() -> Iterator[None]:
    """End the process without a word if Ctrl-C is pressed while the block runs.

    A `KeyboardInterrupt` inside of an import would be printed as a traceback, or be lost in a
    module that catches it. The block must do nothing that needs to be undone.
    """
    # SIGINT may be ignored, as in background jobs, or have the handler of another library.
    is_ours = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if not is_ours or threading.current_thread() is not threading.main_thread():
        yield
        return
    signal.signal(signal.SIGINT, _leave)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _leave(*_: object) -> None:
    os._exit(INTERRUPTED)
