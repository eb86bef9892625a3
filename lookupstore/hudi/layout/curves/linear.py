"""Rows in the order of their columns: positions have all bytes of a value, or the most telling."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lookupstore.hudi.layout.curves._curve import Boundaries
from lookupstore.hudi.layout.curves.column import INTERVALS, Column, ascending, quantiles


@dataclass(frozen=True)
class Linear:
    """An order by the first column, of equal values by the next, and so on.

    Attributes:
        orders: those of the columns.
    """

    orders: tuple[Order, ...]

    @classmethod
    def fit(cls, columns: Sequence[Column], plain: Sequence[pa.Array]) -> Linear:
        """Learn from the columns of a sample."""
        return cls(tuple(Order.fit(*one) for one in zip(columns, plain, strict=True)))

    def positions(self, plain: Sequence[pa.Array]) -> pa.Array:
        """Return the positions of rows."""
        pairs = zip(self.orders, plain, strict=True)
        return as_array(np.hstack([order.positions(array) for order, array in pairs]))

    def to_json(self) -> list[dict[str, Any]]:
        """Return what was learned, for JSON."""
        return [one.to_json() for one in self.orders]

    @classmethod
    def from_json(cls, columns: Sequence[Column], data: Any) -> Linear:
        """Return what `to_json` described.

        Raises:
            KeyError, TypeError, ValueError: it is no such.
        """
        return cls(tuple(Order.from_json(*one) for one in zip(columns, data, strict=True)))


class Order:
    """Positions by all that values are: a byte that says that one is there, and its own bytes.

    Text and long bytes have the number of their interval and 8 bytes of what is theirs in it.

    Args:
        column: what it is about.
        boundaries: that cut its values into intervals; none if values are of one small size.
    """

    def __init__(self, column: Column, boundaries: Boundaries | None) -> None:
        self._column = column
        self._boundaries = boundaries

    @classmethod
    def fit(cls, column: Column, plain: pa.Array) -> Order:
        """Learn from the column of a sample."""
        if column.exact:
            return cls(column, None)
        values = ascending(column.ordered(plain))
        return cls(column, column.cuts(values, quantiles(len(values), INTERVALS)))

    def positions(self, plain: pa.Array) -> npt.NDArray[np.uint8]:
        """Return the bytes of values, a row of them per value, zeros for a null."""
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
        """Return what was learned, for JSON."""
        if self._boundaries is None:
            return {}
        return {"boundaries": self._column.boundaries_to_json(self._boundaries)}

    @classmethod
    def from_json(cls, column: Column, data: Mapping[str, Any]) -> Order:
        """Return what `to_json` described.

        Raises:
            KeyError, ValueError: it is no such.
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
