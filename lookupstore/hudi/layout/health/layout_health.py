"""What queries read of a table as its files lie, and what they would if rows were in order.

Queries are for one column: for a value, for a range that has 1 % of the rows, for one that has
10 %. They come where rows are, so that the share of files that they read is what is to be expected
of them; that ranges of files overlap says little: one file that has everything overlaps all others,
and costs each query one file.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from lookupstore.errors import printable
from lookupstore.html_table import html_table
from lookupstore.hudi.file_group.groups import FileSlice
from lookupstore.hudi.layout.health.spread import Floats, Ints, Spread
from lookupstore.hudi.layout.statistics.column_bounds import Answers, ColumnBounds

#: Of each kind of query: what share of the rows it is for.
_QUERIES = (("one value", 0.0), ("1 % of rows", 0.01), ("10 % of rows", 0.1))
# Of each kind, evenly over the rows.
_EACH = 1000
# Rows of fewer shares than that are at one place.
_NARROW = 1e-9
_HEADS = ("column", "query", "files", "bytes", "sorted", "grid", "unknown")


@dataclass(frozen=True)
class ColumnHealth:
    """What queries of one kind read, on average, in shares of 1.

    Attributes:
        column: that they ask for.
        query: what they ask.
        files: that they read.
        bytes: of the files that they read.
        sorted: files that they would read if rows were sorted by this column alone.
        grid: files that they would read if rows were an ideal grid by all columns asked for.
        unknown: how many files there are of which no bounds are known: each query reads them.
        partition: whose files these are; None: of all.
    """

    column: str
    query: str
    files: float
    bytes: float
    sorted: float
    grid: float
    unknown: int
    partition: str | None = None


@dataclass(frozen=True)
class LayoutHealth:
    """What queries read of a table as its files lie. No row was read to know that.

    Attributes:
        files: of the table.
        bytes: of these.
        queries: each kind of query of each column.
    """

    files: int
    bytes: int
    queries: tuple[ColumnHealth, ...]

    def to_json(self) -> dict[str, Any]:
        """Return it as plain JSON values."""
        return asdict(self)

    def __str__(self) -> str:
        """Return a line for each kind of query.

        >>> print(LayoutHealth(9, 900, (ColumnHealth("a", "one value", 1, 1, 1 / 9, 1 / 3, 0),)))
        9 files, 900 bytes. In percent, what queries read: files and bytes
        as they are, and files if sorted by the column alone, or a grid by all of them.
        column  query        files    bytes   sorted     grid  unknown
        a       one value    100.0    100.0     11.1     33.3        0
        """
        rows = [self._heads, *self._rows()]
        texts = 2 + self._has_partitions
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        lines = [self._title]
        for row in rows:
            cells = [cell.ljust(width) for cell, width in zip(row[:texts], widths, strict=False)]
            cells += [cell.rjust(7) for cell in row[texts:]]
            lines.append("  ".join(cells))
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        return html_table(self._title, self._heads, self._rows())

    @property
    def _title(self) -> str:
        return (
            f"{self.files:,} files, {self.bytes:,} bytes. In percent, what queries read: files and "
            "bytes\nas they are, and files if sorted by the column alone, or a grid by all of them."
        )

    @property
    def _has_partitions(self) -> bool:
        return any(one.partition is not None for one in self.queries)

    @property
    def _heads(self) -> tuple[str, ...]:
        return ("partition", *_HEADS) if self._has_partitions else _HEADS

    def _rows(self) -> Iterator[tuple[str, ...]]:
        for one in self.queries:
            shares = (one.files, one.bytes, one.sorted, one.grid)
            percents = [f"{100 * share:.1f}" for share in shares]
            row = (printable(one.column), one.query, *percents, f"{one.unknown:,}")
            yield (printable(one.partition or ""), *row) if self._has_partitions else row


def layout_health(
    files: Sequence[FileSlice], known: Mapping[str, ColumnBounds], *, by_partition: bool
) -> LayoutHealth:
    """Find what queries read of files, by what is known of these.

    Args:
        files: of the table.
        known: bounds of each column that is asked for, of the files in their order.
        by_partition: whether each partition is a table of its own; else queries are for rows of
            all, though each is put in order alone.
    """
    sizes = np.array([one.bytes for one in files], np.float64)
    paths = [one.group.partition for one in files]
    names, partitions = np.unique(np.array(paths, object), return_inverse=True)
    members = [np.flatnonzero(partitions == at) for at in range(len(names))]
    queries: list[ColumnHealth] = []
    if by_partition:
        for name, own in zip(names, members, strict=True):
            for column, bounds in known.items():
                spread = Spread.of(bounds.take(pa.array(own)))
                everything = [np.arange(len(own))]
                shares = _shares(spread, sizes[own], everything, len(known))
                queries += _lines(column, spread, shares, str(name))
    else:
        for column, bounds in known.items():
            spread = Spread.of(bounds)
            queries += _lines(column, spread, _shares(spread, sizes, members, len(known)), None)
    return LayoutHealth(len(files), int(sizes.sum()), tuple(queries))


def _lines(
    column: str, spread: Spread, shares: Sequence[Floats], partition: str | None
) -> Iterator[ColumnHealth]:
    unknown = int(np.count_nonzero(spread.may_have_values & ~spread.known))
    for at, (query, _) in enumerate(_QUERIES):
        files, nbytes, alone, grid = (float(one[at]) for one in shares)
        yield ColumnHealth(column, query, files, nbytes, alone, grid, unknown, partition)


def _shares(
    spread: Spread, sizes: Floats, members: Sequence[Ints], columns: int
) -> tuple[Floats, Floats, Floats, Floats]:
    """Return for each kind of query the shares of files, bytes, ideal files and those of a grid.

    Args:
        spread: of the files.
        sizes: of the files, in bytes.
        members: files of each partition.
        columns: of the grid.
    """
    count = len(sizes)
    if not count:
        nothing = np.zeros(len(_QUERIES))
        return nothing, nothing, nothing, nothing
    evenly = (np.arange(_EACH) + 0.5) / _EACH
    lows = np.concatenate([evenly * (1 - share) for _, share in _QUERIES])
    highs = lows + np.repeat([share for _, share in _QUERIES], _EACH)
    first, last = spread.cells(lows), spread.cells(highs)
    files = spread.read(first, last, np.ones(count)) / count
    nbytes = spread.read(first, last, sizes) / max(sizes.sum(), 1.0)
    # A value that many rows have is asked for with all of them.
    lows = np.where(spread.is_value(first), spread.edges[first], lows)
    highs = np.where(spread.is_value(last), spread.edges[last + 1], highs)
    alone, grid = np.zeros(len(lows)), np.zeros(len(lows))
    for own in members:
        asked, within, slices = _in_partition(spread, own, lows, highs)
        cuts = max(slices, 1.0)
        for found, cell in ((alone, 1 / cuts), (grid, cuts ** (-1 / columns))):
            found += np.where(asked, np.minimum(within + cell, 1), 0) * slices / count
    return _means(files), _means(nbytes), _means(alone), _means(grid)


def _in_partition(
    spread: Spread, own: Ints, lows: Floats, highs: Floats
) -> tuple[Answers, Floats, float]:
    """Return which ranges of rows a partition may have, how much of its rows, and files of these.

    Args:
        spread: of all files.
        own: files of the partition.
        lows: shares of all rows at which ranges begin.
        highs: shares of all rows at which they end.
    """
    known = own[spread.known[own]]
    without = int(np.count_nonzero(~spread.may_have_values[own]))
    slices = float(len(own) - without)
    rows = spread.rows[known]
    if not len(known):
        return np.ones(len(lows), bool), highs - lows, slices
    # Rows of a file are even over the shares from its first to its last cell.
    begin = spread.lows[known]
    width = np.maximum(spread.highs[known] - begin, _NARROW)
    knots, at = np.unique(np.concatenate((begin, begin + width)), return_inverse=True)
    slopes = np.bincount(at, np.concatenate((rows / width, -rows / width)))
    upto = np.concatenate(([0.0], np.cumsum(np.cumsum(slopes)[:-1] * np.diff(knots))))
    upto /= upto[-1]
    within = np.interp(highs, knots, upto) - np.interp(lows, knots, upto)
    # Between files there may be nothing: the same files leave it out in any order.
    begun = np.searchsorted(np.sort(begin), highs)
    over = np.searchsorted(np.sort(begin + width), lows, side="right")
    return begun > over, within, slices


def _means(found: Floats) -> Floats:
    means: Floats = found.reshape(len(_QUERIES), _EACH).mean(axis=1)
    return means
