"""Renewals in a thread while a block runs, which show that the owner is alive."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress


@contextmanager
def renewed(renew: Callable[[], bool], seconds: float) -> Iterator[None]:
    """Call a function at intervals in a thread while the block runs.

    Args:
        renew: Function to call. It is called again after an `OSError`, and not after it returns
            False.
        seconds: Seconds between two calls.
    """
    stopped = threading.Event()

    def run() -> None:
        while not stopped.wait(seconds):
            with suppress(OSError):
                if not renew():
                    return

    thread = threading.Thread(target=run, name="lookupstore-renewal", daemon=True)
    thread.start()
    try:
        yield
    finally:
        stopped.set()
        thread.join()
