"""What a clustering would be worth, as its caller is told: orders of rows, the best one first."""

from __future__ import annotations

import html
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

from lookupstore.errors import printable
from lookupstore.html_table import html_table
from lookupstore.hudi.layout.choice import Curve

#: Bytes that take as long as it takes to open a file, as Spark reckons.
OPEN_BYTES = 4 << 20
#: What is not worth it.
GAIN = 0.01
# Orders that people see, and sampled rows of a file below which its ranges are not well known.
_MOST_SHOWN, _FEW_ROWS = 12, 50
_HEADS = ("columns", "curve", "file size", "files", "% of files", "% of bytes", "cost", "sampled")
_MB = 1 << 20


@dataclass(frozen=True)
class SimulatedOrder:
    """An order of rows, and what queries would read of it.

    Attributes:
        by: the columns; none: rows lie as they do now.
        curve: that makes one order of several columns; None: of rows as they lie now.
        target_file_size: as of `cluster`; 0: of files as they are now.
        files: of the table.
        read_files: share of the files that a query reads, on average.
        read_bytes: share of the bytes.
        cost: bytes that are read, with 4 MiB for each file that is opened, against what that is
            now: 1 is as now, 0.1 a tenth of it.
        rows_per_file: sampled rows of a file, by which this was found; 0: files as they are.
        queries: what each query reads: shares of files and of bytes.
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
    """Which orders of rows let queries read least, found on a sample.

    Attributes:
        rows: of the table.
        rows_sampled: on which orders were tried.
        partitions: of the table.
        partitions_sampled: that were put in order to try it.
        queries: as texts.
        now: what queries read of the table as it lies.
        orders: that were tried, the least cost first; of equal ones that with fewer columns.
        useless: columns by which it is not worth to order, each with why.
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
        """Return the order of least cost; None: none costs less by 1 % than the table as it is."""
        first = next(iter(self.orders), None)
        return first if first is not None and first.cost <= 1 - GAIN else None

    def to_json(self) -> dict[str, Any]:
        """Return it as plain JSON values."""
        return asdict(self)

    def __str__(self) -> str:
        """Return a line for each of the best orders, and what each query reads of the best."""
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
