"""Number, hold, count and join rows that are read in parts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TypeVar

import numpy as np
import pyarrow as pa

from lookupstore.hudi.keys.incoming import Incoming


def numbered(parts: Iterable[Incoming]) -> Iterator[Incoming]:
    """Yield rows with their numbers among all rows."""
    first = 0
    for part in parts:
        numbers = np.arange(first, first + len(part))
        yield Incoming(part.rows, part.keys, part.partitions, part.deleted, numbers)
        first += len(part)


def held(batches: Iterator[Incoming], memory: int) -> tuple[list[Incoming], bool]:
    """Read rows until memory is full, and return them, and whether they are all."""
    parts: list[Incoming] = []
    nbytes = 0
    for part in batches:
        parts.append(part)
        nbytes += part.nbytes
        if nbytes > memory:
            return parts, False
    return parts, True


class Counted:
    """Parts of rows that are counted while they are read."""

    def __init__(self, parts: Iterable[Incoming]) -> None:
        self._parts = parts
        #: Number of rows read so far.
        self.rows: int = 0

    def __iter__(self) -> Iterator[Incoming]:
        for part in self._parts:
            self.rows += len(part)
            yield part


Part = TypeVar("Part")


def let_go(parts: list[Part]) -> Iterator[Part]:
    """Yield the parts of a list one by one, and remove each from the list."""
    parts.reverse()
    while parts:
        yield parts.pop()


def pieces(parts: Iterable[Incoming], columns: pa.Schema, most: int) -> Iterator[Incoming]:
    """Yield rows joined to pieces of at least `most` bytes, except the last piece."""
    waiting: list[Incoming] = []
    nbytes = 0
    for part in parts:
        waiting.append(part)
        nbytes += part.nbytes
        if nbytes >= most:
            yield Incoming.joined(waiting, columns)  # the list is empty afterwards
            nbytes = 0
    if waiting:
        yield Incoming.joined(waiting, columns)
