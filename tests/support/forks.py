"""Children of fork, and what becomes of them."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable

import pytest


def in_child(work: Callable[[], bool]) -> bool:
    """Run in a child of fork; whether it came to its end and found all right."""
    with warnings.catch_warnings():
        # Python warns of forking where other libraries have threads; none of them is used here.
        warnings.simplefilter("ignore", DeprecationWarning)
        child = os.fork()
    if child == 0:
        try:
            os._exit(0 if work() else 1)
        finally:
            os._exit(2)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
