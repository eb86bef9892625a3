"""A grid of cells that each have as many rows: sort-tile-recursive (Leutenegger and others, 1997).

The rows of a sample are cut into slabs by the first column, each slab by the second one, and so on
but for the last column, by which the rows of a cell are ordered. The way through the cells turns at
each end, as an ox ploughs: a file in which one cell ends and the next one begins holds neighbours.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lookupstore.hudi.layout.curves._curve import Boundaries
from lookupstore.hudi.layout.curves.column import Column
from lookupstore.hudi.layout.curves.linear import Order, as_array
from lookupstore.sorting._sort import sort_keys

#: Cells of a grid from JSON: more than any table has files.
MOST_CELLS = 1 << 22


@dataclass(frozen=True)
class Grid:
    """An order by cells, and in each of them by the last column.

    Attributes:
        columns: all but the last one.
        slabs: the cells.
        last: the order by the last column.
    """

    columns: tuple[Column, ...]
    slabs: Slabs
    last: Order

    @classmethod
    def fit(cls, columns: Sequence[Column], plain: Sequence[pa.Array], files: int) -> Grid:
        """Learn from the columns of a sample, for so many files."""
        cut = tuple(columns[:-1])
        slabs = Slabs.fit(cut, _ordered(cut, plain), files)
        return cls(cut, slabs, Order.fit(columns[-1], plain[-1]))

    def positions(self, plain: Sequence[pa.Array]) -> pa.Array:
        """Return the positions of rows."""
        cells = self.slabs.numbers(_ordered(self.columns, plain)).astype(">u4")
        inside = self.last.positions(plain[-1])
        # In every other cell the last column goes down.
        inside ^= (cells % 2 * 0xFF).astype(np.uint8)[:, np.newaxis]
        return as_array(np.hstack([cells.view(np.uint8).reshape(len(cells), 4), inside]))

    def to_json(self) -> dict[str, Any]:
        """Return what was learned, for JSON."""
        return {"slabs": self.slabs.to_json(), "last": self.last.to_json()}

    @classmethod
    def from_json(cls, columns: Sequence[Column], data: Mapping[str, Any]) -> Grid:
        """Return what `to_json` described.

        Raises:
            KeyError, TypeError, ValueError: it is no such.
        """
        slabs = Slabs.from_json(columns[:-1], data["slabs"])
        return cls(tuple(columns[:-1]), slabs, Order.from_json(columns[-1], data["last"]))


def _ordered(columns: Sequence[Column], plain: Sequence[pa.Array]) -> list[pa.Array]:
    return [one.ordered(array) for one, array in zip(columns, plain, strict=False)]


@dataclass(frozen=True)
class Slabs:
    """The cells of some rows: slabs by one column, with the slabs of each by the next column.

    Attributes:
        column: by which the rows are cut.
        cuts: the boundaries between slabs.
        inner: the slabs of each slab; none if every slab is a cell.
        cells: how many cells there are.
    """

    column: Column
    cuts: Boundaries
    inner: tuple[Slabs, ...]

    @property
    def cells(self) -> int:
        """Return the number of cells."""
        return sum(one.cells for one in self.inner) if self.inner else len(self.cuts) + 1

    @classmethod
    def fit(cls, columns: Sequence[Column], ordered: Sequence[pa.Array], files: int) -> Slabs:
        """Cut the rows of a sample for so many files.

        Args:
            columns: all but the last one.
            ordered: values of these, as `Column.ordered` gives them.
            files: how many files all rows make.
        """
        ranks = [_ranks(one) for one in ordered]
        return _fit(columns, ordered, ranks, np.arange(len(ranks[0])), files)

    def numbers(self, ordered: Sequence[pa.Array]) -> npt.NDArray[np.int64]:
        """Return the number of the cell of each row, along the way through all cells."""
        slabs = self.cuts.intervals(ordered[0])
        if not self.inner:
            return slabs.astype(np.int64)
        found = np.empty(len(slabs), np.int64)
        first = 0
        for slab, inner in enumerate(self.inner):
            rows = np.flatnonzero(slabs == slab)
            taken = pa.array(rows)
            numbers = inner.numbers([one.take(taken) for one in ordered[1:]])
            # Every other slab is gone through from its end.
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
    def from_json(cls, columns: Sequence[Column], data: Mapping[str, Any]) -> Slabs:
        """Return the slabs that `to_json` described.

        Raises:
            KeyError, TypeError, ValueError: they are no such.
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
    """Return a number for each row that orders as its value does: 0 for a null."""
    found = np.zeros(len(ordered), np.int64)
    rows = np.flatnonzero(np.asarray(ordered.is_valid()))
    order, same = sort_keys(ordered.drop_null())
    new = np.ones(len(order), np.int64) if same is None else (~same).astype(np.int64)
    found[rows[order]] = np.cumsum(new)
    return found


def _fit(
    columns: Sequence[Column],
    ordered: Sequence[pa.Array],
    ranks: Sequence[npt.NDArray[np.int64]],
    rows: npt.NDArray[np.int64],
    files: int,
) -> Slabs:
    # The last column has no slabs, and as large a part in the number of files as the others. Files
    # in which one cell ends and the next begins are wider by the column that was cut last: of that
    # there are more slabs.
    even = files ** (1 / (len(columns) + 1))
    count = min(files, round(even + 0.5 if len(columns) == 1 else even))
    chosen = ranks[0][rows]
    order = np.argsort(chosen, kind="stable")
    rows, chosen = rows[order], chosen[order]
    starts = _starts(chosen, [round(one * files / count) / files for one in range(1, count)])
    values = ordered[0].take(pa.array(rows)).drop_null()
    nulls = len(rows) - len(values)
    # Whoever is before the first value is a null: a cut there is one at the least value.
    least = [b"" if not columns[0].exact else values[0].as_py()] if nulls in starts else []
    later = columns[0].cuts(values, [one - nulls for one in starts if one > nulls])
    cuts = columns[0].boundaries([*least, *later.values.to_pylist()])
    if len(columns) == 1:
        return Slabs(columns[0], cuts, ())
    # What the cuts say, and not where they were made: long text is cut.
    slabs = cuts.intervals(ordered[0].take(pa.array(rows)))
    inner = []
    for slab in range(len(cuts) + 1):
        part = rows[slabs == slab]
        share = max(1, round(files * len(part) / max(len(rows), 1)))
        inner.append(_fit(columns[1:], ordered[1:], ranks[1:], part, share))
    return Slabs(columns[0], cuts, tuple(inner))


def _starts(ranks: npt.NDArray[np.int64], shares: Sequence[float]) -> list[int]:
    """Return where slabs begin in sorted rows: near shares of them, where another value begins."""
    found = set()
    for share in shares:
        row = min(round(share * len(ranks)), len(ranks) - 1)
        if row < 0:
            continue
        first, after = (int(np.searchsorted(ranks, ranks[row], side)) for side in ("left", "right"))
        found.add(first if row - first <= after - row else after)
    return sorted(found - {0, len(ranks)})
