"""How the rows of files are spread over the values of a column, as far as bounds tell.

The bounds of all files cut the values of a column into cells: each bound, and what is between two
of them. A file has its rows somewhere in the cells from its least to its greatest value. In which
of them is estimated from all files together: narrow files say where rows are, and wide ones are
taken to have theirs in the same proportions. So skewed columns need no width of values, and texts
no distance.

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

from lookupstore.hudi.layout.statistics.column_bounds import Answers, ColumnBounds

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

# After fewer, files that all overlap are said to be read too seldom; after more, rows gather where
# most files overlap, and the others are said to be read too often.
_ROUNDS = 32


@dataclass(frozen=True, eq=False)
class Spread:
    """Files in the order of a column.

    Attributes:
        known: for each file, whether it has values, and bounds of them.
        may_have_values: for each file, whether it may have any.
        starts: for each file, the first of its cells; of one without bounds, the first of all.
        ends: for each file, the last of its cells; of one without bounds, the last of all.
        rows: with a value, of each file; 0 if nobody knows.
        edges: share of all rows that come before each cell, and 1. Each second cell is one value,
            beginning with the first; the others are what is between two.
        ends_of_values: the least and the greatest bound of all, None if there is none.
    """

    known: Answers
    may_have_values: Answers
    starts: Ints
    ends: Ints
    rows: Floats
    edges: Floats
    ends_of_values: tuple[Any, Any]

    @classmethod
    def of(cls, bounds: ColumnBounds) -> Spread:
        """Estimate it from what is known of files."""
        values = bounds.may_have_values
        known = values & _valid(bounds.least) & _valid(bounds.greatest)
        both = pa.concat_arrays([bounds.least.filter(known), bounds.greatest.filter(known)])
        order = pc.rank(both, tiebreaker="dense").to_numpy().astype(np.int64) - 1
        count = len(order) // 2
        cells = 2 * int(order.max()) + 1 if count else 1
        starts = np.zeros(len(known), np.int64)
        ends = np.full(len(known), cells - 1, np.int64)
        starts[known], ends[known] = 2 * order[:count], 2 * order[count:]
        # Bounds that nobody writes; such a file is one that may have anything.
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
        """Return the share of all rows that come before the first cell of each file."""
        return self.edges[self.starts]

    @cached_property
    def highs(self) -> Floats:
        """Return the share of all rows that come before the end of the last cell of each file."""
        return self.edges[self.ends + 1]

    def cells(self, shares: Floats) -> Ints:
        """Return the cells in which rows are before which come shares of all rows."""
        found = np.searchsorted(self.edges, shares, side="right") - 1
        return np.clip(found, 0, len(self.edges) - 2).astype(np.int64)

    def is_value(self, cells: Ints) -> Answers:
        """Return which cells are one value each."""
        found: Answers = (cells % 2 == 0) & self.known.any()
        return found

    def read(self, lows: Ints, highs: Ints, weights: Floats) -> Floats:
        """Return for each range of cells the weight of the files that have to be read for it.

        Args:
            lows: first cells of the ranges.
            highs: last cells of the ranges.
            weights: of the files.
        """
        asked = np.where(self.may_have_values, weights, 0.0)
        cells = len(self.edges) - 1
        begun = np.cumsum(np.bincount(self.starts, asked, cells))
        over = np.cumsum(np.bincount(self.ends + 1, asked, cells + 1))
        return (begun[highs] - over[lows]).astype(np.float64)


def _edges(starts: Ints, ends: Ints, rows: Floats, cells: int) -> Floats:
    """Return the share of all rows that come before each cell, and 1."""
    # A row is at each of the bounds, the others between; at a bound only if a file has no others.
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
