"""``Steps``: the elapsed time of the steps of a write."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager


class Steps:
    """The steps of one write, and their times.

    >>> steps = Steps()
    >>> with steps.step("plan"):
    ...     pass
    >>> list(steps.seconds)
    ['plan']
    """

    def __init__(self) -> None:
        #: Elapsed seconds by step.
        self.seconds: dict[str, float] = {}
        self._inside = 0.0

    @contextmanager
    def step(self, name: str) -> Iterator[None]:
        """Add the time of a block to a step, without the time of steps inside the block."""
        before, self._inside = self._inside, 0.0
        start = time.perf_counter()
        yield
        took = time.perf_counter() - start
        self.seconds[name] = self.seconds.get(name, 0.0) + took - self._inside
        self._inside = before + took
