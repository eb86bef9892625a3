"""Work that threads do ahead of who takes its results, in order."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

from lookupstore.processors import processors

# More than a file can use.
_MOST = 64

A = TypeVar("A")
B = TypeVar("B")


def threads_of(asked: int | None) -> int:
    """Return how many threads a build has: as many as asked, or one for each processor.

    >>> threads_of(3)
    3
    """
    return min(_MOST, processors()) if asked is None else asked


THREADS: int = min(4, processors())


def done_ahead(work: Callable[[A], B], items: Iterable[A], threads: int = THREADS) -> Iterator[B]:
    """Yield what work makes of each item, in their order; some of it is done ahead in threads.

    Items are taken by the caller's thread. At most one result more than there are threads is in
    the making or waits. Without threads the caller does all of it.

    Raises: what the work raises.

    >>> list(done_ahead(lambda n: n * n, range(5)))
    [0, 1, 4, 9, 16]
    """
    if not threads:
        yield from map(work, items)
        return
    ahead: deque[Future[B]] = deque()
    with ThreadPoolExecutor(threads, "lookupstore-ahead") as pool:
        try:
            for item in items:
                ahead.append(pool.submit(work, item))
                if len(ahead) > threads:
                    yield ahead.popleft().result()
            while ahead:
                yield ahead.popleft().result()
        finally:
            for one in ahead:
                one.cancel()


def made_ahead(items: Iterator[A], most: int = 1) -> Iterator[A]:
    """Yield the same items, as many as `most` of which a thread of its own makes ahead.

    Raises: what making them raises.

    >>> list(made_ahead(iter(range(3))))
    [0, 1, 2]
    """
    end: list[A] = []  # not an item
    ahead: deque[Future[A | list[A]]] = deque()
    with ThreadPoolExecutor(1, "lookupstore-ahead") as maker:
        try:
            while True:
                while len(ahead) < most:
                    ahead.append(maker.submit(next, items, end))
                item = ahead.popleft().result()
                if item is end:
                    break
                yield item  # type: ignore[misc]  # an A
        finally:
            for one in ahead:
                one.cancel()
