"""Targets that do harm, each in one of the ways that a run looks for."""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Callable
from pathlib import Path

Run = Callable[[random.Random], int]


def at_times(harm: Callable[[], object]) -> Callable[[Path], Run]:
    """Return a target of which one input in three does harm."""

    def run(rng: random.Random) -> int:
        if rng.random() < 1 / 3:
            harm()
        return 1

    return lambda folder: run


def wrong() -> None:
    """Raise what no documentation names."""
    raise UnicodeDecodeError("utf-8", b"x", 0, 1, "no reason")


TARGETS = {
    "fine": at_times(lambda: None),
    "wrong": at_times(wrong),
    "crash": at_times(lambda: os.kill(os.getpid(), signal.SIGABRT)),
    "hang": at_times(lambda: time.sleep(3600)),
    "memory": at_times(lambda: bytearray(b"x") * (3 << 29)),
}
