"""Work that threads do ahead of who takes its results, in order."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

A = TypeVar("A")
B = TypeVar("B")

THREADS: int = min(4, os.cpu_count() or 1)


def done_ahead(work: Callable[[A], B], items: Iterable[A]) -> Iterator[B]:
    """Yield what work makes of each item, in their order; some of it is done ahead in threads.

    Items are taken by the caller's thread. At most `THREADS` results are in the making or wait.

    Raises: what the work raises.

    >>> list(done_ahead(lambda n: n * n, range(5)))
    [0, 1, 4, 9, 16]
    """
    ahead: deque[Future[B]] = deque()
    with ThreadPoolExecutor(THREADS, "lookupstore-ahead") as pool:
        try:
            for item in items:
                ahead.append(pool.submit(work, item))
                if len(ahead) > THREADS:
                    yield ahead.popleft().result()
            while ahead:
                yield ahead.popleft().result()
        finally:
            for one in ahead:
                one.cancel()
