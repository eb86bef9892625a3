"""Order rows by a grid of cells that have equal numbers of rows.

The rows of a sample are cut into slabs by the first column, each slab by the second column, and so
on. The rows of a cell are ordered by the last column. The path through the cells turns back at each
end. A file across the end of a cell therefore has neighbouring rows.

Source: Leutenegger and others, sort-tile-recursive (1997).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lookupstore.hudi.layout.curves._curve import Boundaries
from lookupstore.hudi.layout.curves.column import SortColumn
from lookupstore.hudi.layout.curves.linear import ColumnOrder, as_array
from lookupstore.sorting._sort import sort_keys

#: Maximum number of cells of a grid read from JSON: more than a table has files.
MOST_CELLS = 1 << 22


@dataclass(frozen=True)
class Grid:
    """An order by cells, and in each cell by the last column.

    Attributes:
        columns: All columns but the last one.
        slabs: Cells of the grid.
        last: Order by the last column.
    """

    columns: tuple[SortColumn, ...]
    slabs: Slabs
    last: ColumnOrder

    @classmethod
    def fit(cls, columns: Sequence[SortColumn], plain: Sequence[pa.Array], files: int) -> Grid:
        """Learn a grid for a number of files from the columns of a sample."""
        cut = tuple(columns[:-1])
        slabs = Slabs.fit(cut, _ordered(cut, plain), files)
        return cls(cut, slabs, ColumnOrder.fit(columns[-1], plain[-1]))

    def positions(self, plain: Sequence[pa.Array]) -> pa.Array:
        """Return the positions of rows."""
        cells = self.slabs.numbers(_ordered(self.columns, plain)).astype(">u4")
        inside = self.last.positions(plain[-1])
        # In every other cell, the last column descends.
        inside ^= (cells % 2 * 0xFF).astype(np.uint8)[:, np.newaxis]
        return as_array(np.hstack([cells.view(np.uint8).reshape(len(cells), 4), inside]))

    def to_json(self) -> dict[str, Any]:
        """Return the grid as values for JSON."""
        return {"slabs": self.slabs.to_json(), "last": self.last.to_json()}

    @classmethod
    def from_json(cls, columns: Sequence[SortColumn], data: Mapping[str, Any]) -> Grid:
        """Return the grid that `to_json` described.

        Raises:
            KeyError, TypeError, ValueError: If the data does not describe a grid.
        """
        slabs = Slabs.from_json(columns[:-1], data["slabs"])
        return cls(tuple(columns[:-1]), slabs, ColumnOrder.from_json(columns[-1], data["last"]))


def _ordered(columns: Sequence[SortColumn], plain: Sequence[pa.Array]) -> list[pa.Array]:
    return [one.ordered(array) for one, array in zip(columns, plain, strict=False)]


@dataclass(frozen=True)
class Slabs:
    """The cells of rows, as slabs by one column that the next column cuts again.

    Attributes:
        column: Column that cuts the rows into slabs.
        cuts: Boundaries between the slabs.
        inner: Slabs by the next column within each slab. Empty: every slab is a cell.
        cells: Number of cells.
    """

    column: SortColumn
    cuts: Boundaries
    inner: tuple[Slabs, ...]

    @property
    def cells(self) -> int:
        """Return the number of cells."""
        return sum(one.cells for one in self.inner) if self.inner else len(self.cuts) + 1

    @classmethod
    def fit(cls, columns: Sequence[SortColumn], ordered: Sequence[pa.Array], files: int) -> Slabs:
        """Cut the rows of a sample into cells for a number of files.

        Args:
            columns: All columns of the layout but the last one.
            ordered: Values of each of these columns, as bytes that order as the values do.
            files: Number of files for all rows.
        """
        ranks = [_ranks(one) for one in ordered]
        return _fit(columns, ordered, ranks, np.arange(len(ranks[0])), files)

    def numbers(self, ordered: Sequence[pa.Array]) -> npt.NDArray[np.int64]:
        """Return the number of the cell of each row, in the order of the path."""
        slabs = self.cuts.intervals(ordered[0])
        if not self.inner:
            return slabs.astype(np.int64)
        found = np.empty(len(slabs), np.int64)
        first = 0
        for slab, inner in enumerate(self.inner):
            rows = np.flatnonzero(slabs == slab)
            taken = pa.array(rows)
            numbers = inner.numbers([one.take(taken) for one in ordered[1:]])
            # Every other slab is traversed from its end.
            found[rows] = first + (inner.cells - 1 - numbers if slab % 2 else numbers)
            first += inner.cells
        return found

    def to_json(self) -> dict[str, Any]:
        """Return the slabs for JSON."""
        cuts = self.column.boundaries_to_json(self.cuts)
        if not self.inner:
            return {"cuts": cuts}
        return {"cuts": cuts, "inner": [one.to_json() for one in self.inner]}

    @classmethod
    def from_json(cls, columns: Sequence[SortColumn], data: Mapping[str, Any]) -> Slabs:
        """Return the slabs that `to_json` described.

        Raises:
            KeyError, TypeError, ValueError: If the data does not describe slabs of these columns.
        """
        cuts = columns[0].boundaries_from_json(data["cuts"])
        if len(columns) == 1:
            return cls(columns[0], cuts, ())
        inner = data["inner"]
        if not isinstance(inner, list) or len(inner) != len(cuts) + 1:
            raise ValueError(f"slabs by {columns[0].field.name!r} need slabs in each")
        found = cls(columns[0], cuts, tuple(cls.from_json(columns[1:], one) for one in inner))
        if found.cells > MOST_CELLS:
            raise ValueError(f"{found.cells} cells are more than {MOST_CELLS}")
        return found


def _ranks(ordered: pa.Array) -> npt.NDArray[np.int64]:
    """Return a number for each row that orders as its value does, and 0 for null."""
    found = np.zeros(len(ordered), np.int64)
    rows = np.flatnonzero(np.asarray(ordered.is_valid()))
    order, same = sort_keys(ordered.drop_null())
    new = np.ones(len(order), np.int64) if same is None else (~same).astype(np.int64)
    found[rows[order]] = np.cumsum(new)
    return found


def _fit(
    columns: Sequence[SortColumn],
    ordered: Sequence[pa.Array],
    ranks: Sequence[npt.NDArray[np.int64]],
    rows: npt.NDArray[np.int64],
    files: int,
) -> Slabs:
    # The last column has no slabs, but contributes as much to the number of files as the others. A
    # file across two cells is wider in the column that was divided last, so that column gets more
    # slabs.
    even = files ** (1 / (len(columns) + 1))
    count = min(files, round(even + 0.5 if len(columns) == 1 else even))
    chosen = ranks[0][rows]
    order = np.argsort(chosen, kind="stable")
    rows, chosen = rows[order], chosen[order]
    starts = _starts(chosen, [round(one * files / count) / files for one in range(1, count)])
    values = ordered[0].take(pa.array(rows)).drop_null()
    nulls = len(rows) - len(values)
    # Rows before the first value are nulls: a boundary there is one at the least value.
    least = [b"" if not columns[0].exact else values[0].as_py()] if nulls in starts else []
    later = columns[0].cuts(values, [one - nulls for one in starts if one > nulls])
    cuts = columns[0].boundaries([*least, *later.values.to_pylist()])
    if len(columns) == 1:
        return Slabs(columns[0], cuts, ())
    # Rows are assigned by the boundaries, not by the rows that made them: long text is truncated.
    slabs = cuts.intervals(ordered[0].take(pa.array(rows)))
    inner = []
    for slab in range(len(cuts) + 1):
        part = rows[slabs == slab]
        share = max(1, round(files * len(part) / max(len(rows), 1)))
        inner.append(_fit(columns[1:], ordered[1:], ranks[1:], part, share))
    return Slabs(columns[0], cuts, tuple(inner))


def _starts(ranks: npt.NDArray[np.int64], shares: Sequence[float]) -> list[int]:
    """Return the first row of each slab but the first, where a new value begins."""
    found = set()
    for share in shares:
        row = min(round(share * len(ranks)), len(ranks) - 1)
        if row < 0:
            continue
        first, after = (int(np.searchsorted(ranks, ranks[row], side)) for side in ("left", "right"))
        found.add(first if row - first <= after - row else after)
    return sorted(found - {0, len(ranks)})
