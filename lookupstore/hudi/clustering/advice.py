"""Advice on how to order rows in a clustering, with the best order first."""

from __future__ import annotations

import html
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

from lookupstore.errors import printable
from lookupstore.html_table import html_table
from lookupstore.hudi.layout.choice import Curve
from lookupstore.quantities import counted

#: Number of bytes that take as long to read as opening a file, as Spark estimates.
OPEN_BYTES = 4 << 20
#: Smallest share of the cost that a change must save to be worth it.
GAIN = 0.01
# Maximum number of orders to show, and number of sampled rows per file below which the estimate of
# the file's range is uncertain.
_MOST_SHOWN, _FEW_ROWS = 12, 50
_HEADS = ("columns", "curve", "file size", "files", "% of files", "% of bytes", "cost", "sampled")
_MB = 1 << 20


@dataclass(frozen=True)
class SimulatedOrder:
    """An order of rows, with the estimated share of the table that queries read.

    Attributes:
        by: Columns that rows are ordered by. Empty: the current order of the rows.
        curve: Curve that makes one order of several columns. None: the current order of the rows.
        target_file_size: Target size of a file, in bytes. 0: the current files.
        files: Number of files of the table in this order.
        read_files: Share of the files that a query reads on average, from 0 to 1.
        read_bytes: Share of the bytes that a query reads on average, from 0 to 1.
        cost: Bytes that queries read, plus 4 MiB for each file that they open, divided by the same
            sum for the current order: 0.1 is a tenth of the current cost.
        rows_per_file: Number of sampled rows per file that the estimate is based on, in the
            partition that has the fewest. 0: the current files.
        queries: Share of the files and share of the bytes that each query reads.
    """

    by: tuple[str, ...]
    curve: Curve | None
    target_file_size: int
    files: int
    read_files: float
    read_bytes: float
    cost: float
    rows_per_file: float
    queries: tuple[tuple[float, float], ...]


@dataclass(frozen=True)
class ClusterAdvice:
    """The orders of rows that were tried on a sample, with their costs.

    Attributes:
        rows: Number of rows of the table; an estimate if not all partitions were sampled.
        rows_sampled: Number of rows of the sample.
        partitions: Number of partitions of the table.
        partitions_sampled: Number of partitions that were sampled.
        queries: Text of each query.
        now: Cost of the queries in the current order of the rows.
        orders: Orders that were tried, by ascending cost. At equal cost, to four decimals, orders
            with fewer columns come first.
        useless: Names of columns that are not worth ordering by, each with the reason.
    """

    rows: int
    rows_sampled: int
    partitions: int
    partitions_sampled: int
    queries: tuple[str, ...]
    now: SimulatedOrder
    orders: tuple[SimulatedOrder, ...]
    useless: tuple[tuple[str, str], ...]

    @property
    def best(self) -> SimulatedOrder | None:
        """Return the order of least cost.

        None: no order costs at least 1 % less than the current one.
        """
        first = next(iter(self.orders), None)
        return first if first is not None and first.cost <= 1 - GAIN else None

    def to_json(self) -> dict[str, Any]:
        """Return the advice as plain JSON values."""
        return asdict(self)

    def __str__(self) -> str:
        """Return a line for each of the best orders, and notes on queries and columns."""
        rows = [_HEADS, *self._rows()]
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        lines = [self._title]
        for row in rows:
            cells = [cell.ljust(width) for cell, width in zip(row[:2], widths, strict=False)]
            cells += [cell.rjust(width) for cell, width in zip(row[2:], widths[2:], strict=True)]
            lines.append("  ".join(cells))
        return "\n".join([*lines, *self._notes()])

    def _repr_html_(self) -> str:
        notes = "".join(f"<div>{html.escape(note)}</div>" for note in self._notes())
        return html_table(self._title, _HEADS, self._rows()) + notes

    @property
    def _title(self) -> str:
        of = f"{self.partitions_sampled:,} of {self.partitions:,} partitions"
        return (
            f"{self.rows_sampled:,} of {self.rows:,} rows sampled, in {of}.\n"
            "What queries would read, the least cost first: bytes that are read, and 4 MiB\n"
            "for each file that is opened; 1 is what that is now. 'sampled' are rows of it."
        )

    def _rows(self) -> Iterator[tuple[str, ...]]:
        yield _cells(self.now)
        yield from map(_cells, self.orders[:_MOST_SHOWN])

    def _notes(self) -> Iterator[str]:
        best = self.best
        if best is None:
            yield "No order that was tried costs less than the table as it lies."
        more = len(self.orders) - _MOST_SHOWN
        if more > 0:
            yield f"{counted(more, 'more order')} cost as much or more; see `orders`."
        shown = best or self.now
        if len(self.queries) > 1:
            both = zip(self.queries, self.now.queries, shown.queries, strict=True)
            for text, (before, _), (after, _) in both:
                yield f"  {100 * before:.1f} % of files now, {100 * after:.1f} %: {printable(text)}"
        if any(0 < one.rows_per_file < _FEW_ROWS for one in self.orders[:_MOST_SHOWN]):
            yield (
                f"  Of files with fewer than {_FEW_ROWS} sampled rows, queries may read more than "
                "is said; give a larger target_file_size, or more rows."
            )
        for name, why in self.useless:
            yield f"  {printable(name)} is of no use: {why}"


def _cells(order: SimulatedOrder) -> tuple[str, ...]:
    nbytes = order.target_file_size
    size = f"{nbytes / _MB:.0f} MiB" if nbytes >= _MB else f"{nbytes / 1024:.0f} KiB"
    return (
        printable(",".join(order.by)) or "(as it is now)",
        order.curve or "",
        size if nbytes else "",
        f"{order.files:,}",
        f"{100 * order.read_files:.1f}",
        f"{100 * order.read_bytes:.1f}",
        f"{order.cost:.3f}",
        f"{order.rows_per_file:,.0f}" if order.rows_per_file else "",
    )
