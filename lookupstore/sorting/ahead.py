"""Run work in threads ahead of the consumer, with results in order."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

from lookupstore.processors import processors

# Most threads by default: a file cannot use more.
_MOST = 64

A = TypeVar("A")
B = TypeVar("B")


def threads_of(asked: int | None) -> int:
    """Return the number of threads of a build.

    Default: one for each processor.

    >>> threads_of(3)
    3
    """
    return min(_MOST, processors()) if asked is None else asked


THREADS: int = min(4, processors())


def done_ahead(work: Callable[[A], B], items: Iterable[A], threads: int = THREADS) -> Iterator[B]:
    """Yield the result of work for each item, in order, some of it ahead in threads.

    The caller's thread reads the items. At most one result more than there are threads is
    unfinished or waits. Without threads, the caller does all the work.

    Raises: The errors of the work.

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
    """Yield the same items, up to `most` of which a separate thread makes ahead.

    Raises: The errors of making the items.

    >>> list(made_ahead(iter(range(3))))
    [0, 1, 2]
    """
    end: list[A] = []  # a marker that is no item
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


def mixed_ahead(sources: Iterable[Iterator[A]], threads: int) -> Iterator[A]:
    """Yield the items of several iterators, whose items threads make ahead.

    Items of one iterator are in order; those of others may come between them. At most one item
    more than there are threads waits.

    Raises: The errors of making the items.

    >>> sorted(mixed_ahead([iter("ab"), iter("c")], 2))
    ['a', 'b', 'c']
    """
    end: list[A] = []  # a marker that is no item
    coming = iter(sources)
    ahead: deque[tuple[Iterator[A], Future[A | list[A]]]] = deque()
    with ThreadPoolExecutor(threads, "lookupstore-ahead") as makers:
        try:
            while True:
                while len(ahead) <= threads and (one := next(coming, None)) is not None:
                    ahead.append((one, makers.submit(next, one, end)))
                if not ahead:
                    return
                source, future = ahead.popleft()
                item = future.result()
                if item is not end:
                    ahead.append((source, makers.submit(next, source, end)))
                    yield item  # type: ignore[misc]  # an A
        finally:
            for _, future in ahead:
                future.cancel()
