"""How long the steps of a write take."""

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
        #: That steps took, by name.
        self.seconds: dict[str, float] = {}
        self._inside = 0.0

    @contextmanager
    def step(self, name: str) -> Iterator[None]:
        """Add the time of what is done inside to a step, without that of steps in this one."""
        before, self._inside = self._inside, 0.0
        start = time.perf_counter()
        yield
        took = time.perf_counter() - start
        self.seconds[name] = self.seconds.get(name, 0.0) + took - self._inside
        self._inside = before + took
