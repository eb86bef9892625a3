"""What is done again and again while a block runs, so that others see that its owner lives."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress


@contextmanager
def renewed(renew: Callable[[], bool], seconds: float) -> Iterator[None]:
    """Call a function now and then, in a thread, until the block ends or it returns False.

    Args:
        renew: may fail with an `OSError`: it is called again then.
        seconds: from one call to the next.
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
