"""Rows that come in parts: kept while there is room, numbered, counted, put together to pieces."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TypeVar

import numpy as np
import pyarrow as pa

from lookupstore.hudi.keys.incoming import Incoming


def numbered(parts: Iterable[Incoming]) -> Iterator[Incoming]:
    """Yield rows with their numbers among all of them."""
    first = 0
    for part in parts:
        numbers = np.arange(first, first + len(part))
        yield Incoming(part.rows, part.keys, part.partitions, part.deleted, numbers)
        first += len(part)


def held(batches: Iterator[Incoming], memory: int) -> tuple[list[Incoming], bool]:
    """Read rows until memory is full, and say whether they are all."""
    parts: list[Incoming] = []
    nbytes = 0
    for part in batches:
        parts.append(part)
        nbytes += part.nbytes
        if nbytes > memory:
            return parts, False
    return parts, True


class Counted:
    """Rows that are counted as they come."""

    def __init__(self, parts: Iterable[Incoming]) -> None:
        self._parts = parts
        #: How many have come.
        self.rows: int = 0

    def __iter__(self) -> Iterator[Incoming]:
        for part in self._parts:
            self.rows += len(part)
            yield part


Part = TypeVar("Part")


def let_go(parts: list[Part]) -> Iterator[Part]:
    """Yield the parts of a list one by one, each of them freed before the next one."""
    parts.reverse()
    while parts:
        yield parts.pop()


def pieces(parts: Iterable[Incoming], columns: pa.Schema, most: int) -> Iterator[Incoming]:
    """Yield rows as many at a time as are looked for at once."""
    waiting: list[Incoming] = []
    nbytes = 0
    for part in parts:
        waiting.append(part)
        nbytes += part.nbytes
        if nbytes >= most:
            yield Incoming.joined(waiting, columns)  # which is an empty list then
            nbytes = 0
    if waiting:
        yield Incoming.joined(waiting, columns)
