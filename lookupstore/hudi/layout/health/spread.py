"""Estimate the distribution of rows over the values of a column from bounds.

The bounds of all files cut the values of a column into cells: one cell for each bound, and one
between two bounds. The rows of a file are in the cells from its minimum to its maximum. The share
of each cell is estimated from all files together. Narrow files show where rows are, and wide files
are assumed to have their rows in the same proportions. Skewed columns therefore need no width of
values, and texts need no distance.

Source: B. W. Turnbull, "The Empirical Distribution Function with Arbitrarily Grouped, Censored and
Truncated Data" (1976): rows known only to be in a range.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lookupstore.filters.column_bounds import Answers, ColumnBounds

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

# Number of iterations. With fewer, files that all overlap seem to be read too rarely; with more,
# rows concentrate where most files overlap, and other files seem to be read too often.
_ROUNDS = 32


@dataclass(frozen=True, eq=False)
class ColumnSpread:
    """The distribution of the rows of files over the values of a column.

    Attributes:
        known: Whether each file has values with known bounds.
        may_have_values: Whether each file may have a value that is not null.
        starts: Number of the first cell of each file; 0 for a file without known bounds.
        ends: Number of the last cell of each file; that of the last of all cells for a file without
            known bounds.
        rows: Number of rows of each file with a value that is not null or NaN, at least 1; 0 for a
            file without known bounds.
        edges: Share of all rows before each cell, from 0 to 1, and 1 as the last element. The first
            cell and every second one after it are one value each; the others are between two.
        ends_of_values: Least and greatest bound of all files. None: no file has known bounds.
    """

    known: Answers
    may_have_values: Answers
    starts: Ints
    ends: Ints
    rows: Floats
    edges: Floats
    ends_of_values: tuple[Any, Any]

    @classmethod
    def of(cls, bounds: ColumnBounds) -> ColumnSpread:
        """Estimate the distribution from the bounds of files."""
        values = bounds.may_have_values
        known = values & _valid(bounds.least) & _valid(bounds.greatest)
        both = pa.concat_arrays([bounds.least.filter(known), bounds.greatest.filter(known)])
        order = pc.rank(both, tiebreaker="dense").to_numpy().astype(np.int64) - 1
        count = len(order) // 2
        cells = 2 * int(order.max()) + 1 if count else 1
        starts = np.zeros(len(known), np.int64)
        ends = np.full(len(known), cells - 1, np.int64)
        starts[known], ends[known] = 2 * order[:count], 2 * order[count:]
        # Such bounds are not valid; the file is treated like one without bounds.
        known &= starts <= ends
        starts[~known], ends[~known] = 0, cells - 1
        least = both[int(order.argmin())].as_py() if count else None
        greatest = both[int(order.argmax())].as_py() if count else None
        left = _numbers(bounds.rows) - _numbers(bounds.nulls) - _numbers(bounds.nans)
        rows = np.where(known, np.maximum(left, 1), 0).astype(np.float64)
        edges = _edges(starts[known], ends[known], rows[known], cells)
        return cls(known, values, starts, ends, rows, edges, (least, greatest))

    @cached_property
    def lows(self) -> Floats:
        """Return the share of all rows before the first cell of each file."""
        return self.edges[self.starts]

    @cached_property
    def highs(self) -> Floats:
        """Return the share of all rows before the end of the last cell of each file."""
        return self.edges[self.ends + 1]

    def cells(self, shares: Floats) -> Ints:
        """Return the cell of the row that has each share of all rows before it."""
        found = np.searchsorted(self.edges, shares, side="right") - 1
        return np.clip(found, 0, len(self.edges) - 2).astype(np.int64)

    def is_value(self, cells: Ints) -> Answers:
        """Return which cells are one value each."""
        found: Answers = (cells % 2 == 0) & self.known.any()
        return found

    def read(self, lows: Ints, highs: Ints, weights: Floats) -> Floats:
        """Return the weight of the files that a query of each range of cells reads.

        Args:
            lows: Number of the first cell of each range.
            highs: Number of the last cell of each range.
            weights: Weight of each file.
        """
        asked = np.where(self.may_have_values, weights, 0.0)
        cells = len(self.edges) - 1
        begun = np.cumsum(np.bincount(self.starts, asked, cells))
        over = np.cumsum(np.bincount(self.ends + 1, asked, cells + 1))
        return (begun[highs] - over[lows]).astype(np.float64)


def _edges(starts: Ints, ends: Ints, rows: Floats, cells: int) -> Floats:
    """Return the share of all rows before each cell, and 1."""
    # A file has a row at each of its bounds and the others in between; only a file with equal
    # bounds has all rows at a bound.
    one_value = starts == ends
    at_bounds = np.bincount(starts, minlength=cells) + np.bincount(ends, ~one_value, cells)
    between = np.maximum(rows - 2 + one_value, 0)
    share = np.ones(cells)
    share[::2] = np.bincount(starts[one_value], minlength=cells)[::2] > 0
    share /= max(share.sum(), 1)
    for _ in range(_ROUNDS if between.any() else 0):
        edges = np.concatenate(([0.0], np.cumsum(share)))
        weight = between / np.maximum(edges[ends + 1] - edges[starts], 1e-300)
        steps = np.bincount(starts, weight, cells) - np.bincount(ends + 1, weight, cells + 1)[:-1]
        share *= np.maximum(np.cumsum(steps), 0)
        share /= share.sum()
    share = share * between.sum() + at_bounds
    share /= max(share.sum(), 1)
    edges = np.concatenate(([0.0], np.cumsum(share)))
    edges[-1] = 1.0
    return np.minimum(edges, 1.0)


def _valid(values: pa.Array) -> Answers:
    found: Answers = values.is_valid().to_numpy(zero_copy_only=False)
    return found


def _numbers(counts: pa.Array) -> Ints:
    found: Ints = counts.fill_null(0).to_numpy(zero_copy_only=False)
    return found
