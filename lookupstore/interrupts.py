"""Ctrl-C while modules are imported, while a command runs, and after it has ended.

The command line imports this module first, so that it imports as little as possible.
"""

from __future__ import annotations

import atexit
import os
import signal

#: Exit status of a command that was interrupted, as of one that SIGINT ends.
INTERRUPTED = 130


def end_quietly() -> None:
    """End this process without a word if Ctrl-C is pressed outside of `interruptible`.

    Once all threads have ended, Ctrl-C is ignored: the process is about to end with the status of
    its command.
    """
    if _replaced(signal.default_int_handler, _leave):
        # The first function that is registered is called last.
        atexit.register(signal.signal, signal.SIGINT, signal.SIG_IGN)


def quiet_interrupts() -> InterruptsAs:
    """End the process without a word if Ctrl-C is pressed while the block runs.

    A `KeyboardInterrupt` inside of an import would be printed as a traceback, or be lost in a
    module that catches it. The block must do nothing that needs to be undone.
    """
    return InterruptsAs(_leave, signal.default_int_handler)


def interruptible() -> InterruptsAs:
    """Raise `KeyboardInterrupt` if Ctrl-C is pressed while the block runs, after `end_quietly`."""
    return InterruptsAs(signal.default_int_handler, _leave)


class InterruptsAs:
    """A handler of SIGINT that replaces another one while a block runs.

    Args:
        handler: Handler while the block runs.
        usual: Handler before and after it. Any other is left alone.
    """

    def __init__(self, handler: object, usual: object) -> None:
        self._handler = handler
        self._usual = usual
        self._is_replaced = False

    def __enter__(self) -> None:
        self._is_replaced = _replaced(self._usual, self._handler)

    def __exit__(self, *_: object) -> None:
        if self._is_replaced:
            _replaced(self._handler, self._usual)


def _replaced(usual: object, handler: object) -> bool:
    """Replace a handler, and return whether it was there and this is the main thread."""
    # SIGINT may be ignored, as in background jobs, or have the handler of another library.
    if signal.getsignal(signal.SIGINT) is not usual:
        return False
    try:
        signal.signal(signal.SIGINT, handler)  # type: ignore[arg-type]
    except ValueError:  # another thread
        return False
    return True


def _leave(*_: object) -> None:
    os._exit(INTERRUPTED)
