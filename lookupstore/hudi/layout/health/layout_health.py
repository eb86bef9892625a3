"""Estimate the share of files that queries read, now and with rows in order.

Each query filters by one column: by one value, or by a range that has 1 % or 10 % of the rows. The
queries are spread evenly over the rows, so that the share of files that they read is an expected
value. Overlaps of file ranges are not counted, because they are a poor measure: one file with all
values overlaps all others, but costs each query only one file.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from lookupstore.errors import printable
from lookupstore.filters.column_bounds import Answers, ColumnBounds
from lookupstore.html_table import html_table
from lookupstore.hudi.file_group.groups import FileSlice
from lookupstore.hudi.layout.health.spread import ColumnSpread, Floats, Ints

#: Kinds of queries: name, and share of the rows that a query selects.
_QUERIES = (("one value", 0.0), ("1 % of rows", 0.01), ("10 % of rows", 0.1))
# Number of queries of each kind, evenly distributed over the rows.
_EACH = 1000
# Smallest range of shares of a file; rows in a smaller range are treated as one point.
_NARROW = 1e-9
_HEADS = ("column", "query", "files", "bytes", "sorted", "grid", "unknown")


@dataclass(frozen=True)
class ColumnHealth:
    """The average share of files that queries of one kind read.

    Attributes:
        column: Name of the column that the queries filter by.
        query: Kind of query: `one value`, `1 % of rows` or `10 % of rows`.
        files: Share of the files that a query reads, from 0 to 1.
        bytes: Share of the bytes of the files that a query reads, from 0 to 1.
        sorted: Share of the files that a query would read if rows were sorted by this column only.
        grid: Share of the files that a query would read if rows were in an ideal grid by all
            columns that were asked for.
        unknown: Number of files with values but without known bounds; every query reads them.
        partition: Path of the partition with the files. None: all partitions.
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
    """The share of files of a table that queries read, estimated without reading rows.

    Attributes:
        files: Number of files of the table.
        bytes: Size of these files, in bytes.
        queries: Average shares for each kind of query, for each column; if they were asked for by
            partition, also for each partition.
    """

    files: int
    bytes: int
    queries: tuple[ColumnHealth, ...]

    def to_json(self) -> dict[str, Any]:
        """Return the shares as plain JSON values."""
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
    """Estimate the share of files that queries read, from the bounds of the files.

    Args:
        files: Base files of the table.
        known: Bounds in each file, in the order of `files`, by the name of the column.
        by_partition: Whether to treat each partition as a table of its own. Otherwise queries are
            for rows of all partitions, though each partition is sorted by itself.
    """
    sizes = np.array([one.bytes for one in files], np.float64)
    paths = [one.group.partition for one in files]
    names, partitions = np.unique(np.array(paths, object), return_inverse=True)
    members = [np.flatnonzero(partitions == at) for at in range(len(names))]
    queries: list[ColumnHealth] = []
    if by_partition:
        for name, own in zip(names, members, strict=True):
            for column, bounds in known.items():
                spread = ColumnSpread.of(bounds.take(pa.array(own)))
                everything = [np.arange(len(own))]
                shares = _shares(spread, sizes[own], everything, len(known))
                queries += _lines(column, spread, shares, str(name))
    else:
        for column, bounds in known.items():
            spread = ColumnSpread.of(bounds)
            queries += _lines(column, spread, _shares(spread, sizes, members, len(known)), None)
    return LayoutHealth(len(files), int(sizes.sum()), tuple(queries))


def _lines(
    column: str, spread: ColumnSpread, shares: Sequence[Floats], partition: str | None
) -> Iterator[ColumnHealth]:
    unknown = int(np.count_nonzero(spread.may_have_values & ~spread.known))
    for at, (query, _) in enumerate(_QUERIES):
        files, nbytes, alone, grid = (float(one[at]) for one in shares)
        yield ColumnHealth(column, query, files, nbytes, alone, grid, unknown, partition)


def _shares(
    spread: ColumnSpread, sizes: Floats, members: Sequence[Ints], columns: int
) -> tuple[Floats, Floats, Floats, Floats]:
    """Return the average shares that each kind of query reads.

    Args:
        spread: Distribution of the rows of the files.
        sizes: Size of each file, in bytes.
        members: Numbers of the files of each partition.
        columns: Number of columns of the grid.

    Returns:
        Shares of files, of bytes, of files sorted by the column, and of files in a grid; one value
        for each kind of query.
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
    # If many rows have the same value, a query for it selects all of them.
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
    spread: ColumnSpread, own: Ints, lows: Floats, highs: Floats
) -> tuple[Answers, Floats, float]:
    """Return the part of each range of rows that is in a partition.

    Args:
        spread: Distribution of the rows of all files.
        own: Numbers of the files of the partition.
        lows: Share of all rows before the beginning of each range, from 0 to 1.
        highs: Share of all rows before the end of each range, from 0 to 1.

    Returns:
        Whether the partition may have rows of each range, the share of the partition's rows in
        each range, and the number of its files that may have values.
    """
    known = own[spread.known[own]]
    without = int(np.count_nonzero(~spread.may_have_values[own]))
    slices = float(len(own) - without)
    rows = spread.rows[known]
    if not len(known):
        return np.ones(len(lows), bool), highs - lows, slices
    # Rows of a file are evenly distributed over the shares from its first to its last cell.
    begin = spread.lows[known]
    width = np.maximum(spread.highs[known] - begin, _NARROW)
    knots, at = np.unique(np.concatenate((begin, begin + width)), return_inverse=True)
    slopes = np.bincount(at, np.concatenate((rows / width, -rows / width)))
    upto = np.concatenate(([0.0], np.cumsum(np.cumsum(slopes)[:-1] * np.diff(knots))))
    upto /= upto[-1]
    within = np.interp(highs, knots, upto) - np.interp(lows, knots, upto)
    # There may be no rows between files: every order skips the same files there.
    begun = np.searchsorted(np.sort(begin), highs)
    over = np.searchsorted(np.sort(begin + width), lows, side="right")
    return begun > over, within, slices


def _means(found: Floats) -> Floats:
    means: Floats = found.reshape(len(_QUERIES), _EACH).mean(axis=1)
    return means
