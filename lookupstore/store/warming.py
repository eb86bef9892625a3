"""Prepare the lookups of a store before the first lookup."""

from __future__ import annotations

import threading
import time

from lookupstore.progress import Advance
from lookupstore.sst.reader import Reader
from lookupstore.sst.warming import warmed
from lookupstore.store.files import BucketFiles


class Limits(threading.Event):
    """Limits of a warm-up in time and bytes, set once one of them is reached.

    Args:
        seconds: Number of seconds from now on. None: no limit.
        nbytes: Number of bytes of blocks. None: no limit.
        advance: Function that is called with the bytes of each step.
    """

    def __init__(self, seconds: float | None, nbytes: int | None, advance: Advance) -> None:
        super().__init__()
        self._end = None if seconds is None else time.monotonic() + seconds
        self._left = nbytes
        self._advance = advance

    def done(self, nbytes: int) -> None:
        """Count the bytes of a step."""
        self._advance(nbytes)
        if self._left is not None:
            self._left -= nbytes

    def is_set(self) -> bool:
        """Return whether a limit is reached."""
        return (self._left is not None and self._left <= 0) or (
            self._end is not None and time.monotonic() >= self._end
        )


def warm_files(files: BucketFiles, limits: Limits) -> bool:
    """Prepare lookups in all files, and return whether all was done before a limit was reached.

    Files at a URI are copied to this host first.

    Raises: what `BucketFiles.with_reader` raises.
    """

    def prepare(reader: Reader) -> bool:
        for nbytes in warmed(reader):
            limits.done(nbytes)
            if limits.is_set():
                return False
        return True

    for bucket in files:
        files.fetch({bucket}, limits)
        for number in files.layers[bucket]:
            if limits.is_set() or not files.with_reader(number, prepare):
                return False
    return True
