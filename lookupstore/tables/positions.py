"""Positions of rows in a data file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from lookupstore.errors import CorruptionError

#: Positions of rows in a file, from 0, ascending, each once: int64.
Positions: TypeAlias = "npt.NDArray[np.int64]"


def absent(positions: Positions, others: Positions) -> npt.NDArray[np.bool_]:
    """Return which positions, in any order, are not among others.

    >>> absent(np.array([5, 4]), np.array([1, 5])).tolist()
    [False, True]
    """
    if not len(others):
        return np.ones(len(positions), np.bool_)
    at = np.minimum(np.searchsorted(others, positions), len(others) - 1)
    found: npt.NDArray[np.bool_] = others[at] != positions
    return found


@dataclass(frozen=True)
class RowPositions:
    """Some rows of those that are read of a file.

    Attributes:
        values: Positions of the rows, at least one.
    """

    values: Positions

    @property
    def end(self) -> int:
        """Return the number of rows that are read at least."""
        return int(self.values[-1]) + 1

    def within(self, start: int, count: int) -> Positions:
        """Return the places of those rows in a batch that are among these.

        Args:
            start: Position of the first row of the batch.
            count: Number of rows of the batch.

        >>> RowPositions(np.array([1, 5])).within(4, 3).tolist()
        [1]
        """
        first, last = np.searchsorted(self.values, [start, start + count])
        return self.values[first:last] - start

    def in_groups(self, counts: Sequence[int], path: str) -> tuple[list[int], RowPositions]:
        """Return the row groups that have the rows, and the positions of the rows in these alone.

        Args:
            counts: Number of rows of each row group of the file.
            path: Path of the file, which errors name.

        Raises:
            CorruptionError: If the file has fewer rows.

        >>> groups, rows = RowPositions(np.array([1, 5])).in_groups([2, 3, 4], "x.parquet")
        >>> groups, rows.values.tolist()
        ([0, 2], [1, 2])
        """
        found = self.by_group(counts, path)
        before = 0
        moved = []
        for number, rows in found:
            moved.append(rows + before)
            before += counts[number]
        return [number for number, _ in found], RowPositions(np.concatenate(moved))

    def by_group(self, counts: Sequence[int], path: str) -> list[tuple[int, Positions]]:
        """Return the row groups that have the rows, with the positions of the rows in each.

        The arguments and errors are those of `in_groups`.

        >>> found = RowPositions(np.array([1, 5])).by_group([2, 4], "x.parquet")
        >>> [(number, rows.tolist()) for number, rows in found]
        [(0, [1]), (1, [3])]
        """
        ends = np.cumsum(np.array(counts, np.int64))
        rows = int(ends[-1]) if len(ends) else 0
        if rows < self.end:
            raise CorruptionError(path, 0, f"at least {self.end} rows", rows)
        own = np.searchsorted(ends, self.values, side="right")
        groups, first = np.unique(own, return_index=True)
        parts = np.split(self.values, first[1:])
        return [
            (int(number), part - (ends[number] - counts[number]))
            for number, part in zip(groups, parts, strict=True)
        ]
