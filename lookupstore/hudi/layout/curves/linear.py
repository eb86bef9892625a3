"""Order rows by the first column, then by the next, and so on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lookupstore.hudi.layout.curves._curve import Boundaries
from lookupstore.hudi.layout.curves.column import INTERVALS, SortColumn, ascending, quantiles


@dataclass(frozen=True)
class Linear:
    """An order by the first column, for equal values by the next, and so on.

    Attributes:
        orders: Order by each column.
    """

    orders: tuple[ColumnOrder, ...]

    @classmethod
    def fit(cls, columns: Sequence[SortColumn], plain: Sequence[pa.Array]) -> Linear:
        """Learn the order by each column from the columns of a sample."""
        return cls(tuple(ColumnOrder.fit(*one) for one in zip(columns, plain, strict=True)))

    def positions(self, plain: Sequence[pa.Array]) -> pa.Array:
        """Return the positions of rows."""
        pairs = zip(self.orders, plain, strict=True)
        return as_array(np.hstack([order.positions(array) for order, array in pairs]))

    def to_json(self) -> list[dict[str, Any]]:
        """Return the order as values for JSON."""
        return [one.to_json() for one in self.orders]

    @classmethod
    def from_json(cls, columns: Sequence[SortColumn], data: Any) -> Linear:
        """Return the order that `to_json` described.

        Raises:
            KeyError, TypeError, ValueError: If the data does not describe an order.
        """
        return cls(tuple(ColumnOrder.from_json(*one) for one in zip(columns, data, strict=True)))


class ColumnOrder:
    """Positions by the values of one column.

    The first byte of a position is 1, or 0 for null. Short values of a fixed width follow with all
    their bytes. For text and long bytes, the number of the interval follows, and then the 8 bytes
    after the common prefix of the boundaries of that interval.

    Args:
        column: Column of the values.
        boundaries: Boundaries that cut the values into intervals. None: the values have a fixed
            width of at most 32 bytes.
    """

    def __init__(self, column: SortColumn, boundaries: Boundaries | None) -> None:
        self._column = column
        self._boundaries = boundaries

    @classmethod
    def fit(cls, column: SortColumn, plain: pa.Array) -> ColumnOrder:
        """Learn the intervals of the values from the column of a sample."""
        if column.exact:
            return cls(column, None)
        values = ascending(column.ordered(plain))
        return cls(column, column.cuts(values, quantiles(len(values), INTERVALS)))

    def positions(self, plain: pa.Array) -> npt.NDArray[np.uint8]:
        """Return the bytes of positions, one row per value, and zeros for null."""
        values = self._column.ordered(plain)
        cells = values if self._boundaries is None else self._boundaries.rest(values)
        width = cells.type.byte_width
        bytes_of = np.frombuffer(cells.buffers()[1], np.uint8)[: len(cells) * width]
        found = np.empty((len(cells), 1 + width), np.uint8)
        found[:, 0] = 1
        found[:, 1:] = bytes_of.reshape(len(cells), width)
        if values.null_count:
            found *= np.asarray(values.is_valid()).view(np.uint8)[:, np.newaxis]
        return found

    def to_json(self) -> dict[str, Any]:
        """Return the order as values for JSON."""
        if self._boundaries is None:
            return {}
        return {"boundaries": self._column.boundaries_to_json(self._boundaries)}

    @classmethod
    def from_json(cls, column: SortColumn, data: Mapping[str, Any]) -> ColumnOrder:
        """Return the positions that `to_json` described.

        Raises:
            KeyError, ValueError: If the data does not describe positions of the column.
        """
        if not column.exact:
            return cls(column, column.boundaries_from_json(data["boundaries"]))
        if data != {}:
            raise ValueError(f"nothing is learned of the column {column.field.name!r}")
        return cls(column, None)


def as_array(rows: npt.NDArray[np.uint8]) -> pa.Array:
    """Return rows of bytes as fixed_size_binary.

    >>> as_array(np.zeros((1, 2), np.uint8)).to_pylist()
    [b'\\x00\\x00']
    """
    rows = np.ascontiguousarray(rows)
    return pa.Array.from_buffers(pa.binary(rows.shape[1]), len(rows), [None, pa.py_buffer(rows)])
