"""Order rows along a Z-order or Hilbert curve, by ranks or by values."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lookupstore.hudi.layout.curves import written
from lookupstore.hudi.layout.curves._curve import Boundaries, positions, stretch, stretch_doubles
from lookupstore.hudi.layout.curves.column import (
    INTERVALS,
    SortColumn,
    ascending,
    quantiles,
    shared,
)
from lookupstore.keys.numbers import FloatField
from lookupstore.keys.types import key_field

Coordinates: TypeAlias = npt.NDArray[np.uint32]

# Share of the cells of the first column on a Z-order curve: files are longer in the later columns.
_FIRST_SHARE = 0.75
# Bits of coordinates by value: total, minimum and maximum of each coordinate.
_SPAN_BITS, _LEAST_BITS, _MOST_BITS = 64, 16, 32

_DOUBLES = key_field(pa.field("double", pa.float64()), nullable=True)


@dataclass(frozen=True)
class OnCurve:
    """A curve through the coordinates of columns.

    Attributes:
        axes: Mapping from the values of each column to coordinates.
        hilbert: Whether the curve is the Hilbert curve, and not the Z-order curve.
    """

    axes: tuple[Ranks | Span, ...]
    hilbert: bool

    @classmethod
    def fit(
        cls,
        columns: Sequence[SortColumn],
        plain: Sequence[pa.Array],
        hilbert: bool,
        by_sample: bool,
    ) -> OnCurve:
        """Learn the axes of a curve from the columns of a sample."""
        pairs = list(zip(columns, plain, strict=True))
        if not by_sample:
            bits = _span_bits(len(columns))
            return cls(tuple(Span.fit(*one, bits) for one in pairs), hilbert)
        shares = [1 if hilbert or i else _FIRST_SHARE for i in range(len(columns))]
        return cls(
            tuple(Ranks.fit(*one, share) for one, share in zip(pairs, shares, strict=True)), hilbert
        )

    def positions(self, plain: Sequence[pa.Array]) -> pa.Array:
        """Return the positions of rows."""
        coordinates = np.empty((len(plain), len(plain[0])), np.uint32)
        for one, array, out in zip(self.axes, plain, coordinates, strict=True):
            one.coordinates(array, out)
        return positions(coordinates, self.axes[0].bits, hilbert=self.hilbert)

    def to_json(self) -> list[dict[str, Any]]:
        """Return the axes of the curve as values for JSON."""
        return [one.to_json() for one in self.axes]

    @classmethod
    def from_json(
        cls, columns: Sequence[SortColumn], data: Any, hilbert: bool, by_sample: bool
    ) -> OnCurve:
        """Return the curve that `to_json` described.

        Raises:
            KeyError, TypeError, ValueError: If the data does not describe a curve.
        """
        pairs = list(zip(columns, data, strict=True))
        if by_sample:
            return cls(tuple(Ranks.from_json(*one) for one in pairs), hilbert)
        bits = _span_bits(len(columns))
        return cls(tuple(Span.from_json(*one, bits) for one in pairs), hilbert)


def _span_bits(columns: int) -> int:
    return min(_MOST_BITS, max(_LEAST_BITS, _SPAN_BITS // columns))


class Ranks:
    """Coordinates by rank, which is the number of smaller rows in the sample.

    A value of a third of all rows occupies a third of the coordinates, as one point. The curve
    therefore cuts these rows by the other columns.

    Args:
        column: Column of the values.
        boundaries: Boundaries that cut the values into intervals.
        of_intervals: Coordinate of each interval: uint32, one element more than `boundaries`.
    """

    bits: ClassVar[int] = 16

    def __init__(
        self, column: SortColumn, boundaries: Boundaries, of_intervals: Coordinates
    ) -> None:
        self._column = column
        self._boundaries = boundaries
        self._of_intervals = of_intervals

    @classmethod
    def fit(cls, column: SortColumn, plain: pa.Array, share: float) -> Ranks:
        """Learn the coordinates from the column of a sample.

        Args:
            column: Column of the values.
            plain: Values of the sample, in the plain type of the column.
            share: Share of all 65,536 coordinates to use, from 0 to 1.
        """
        ordered = column.ordered(plain)
        values = ascending(ordered)
        rows = [
            row - ordered.null_count
            for row in quantiles(len(ordered), INTERVALS)
            if row > ordered.null_count
        ]
        boundaries = column.cuts(values, rows)
        counts = np.bincount(boundaries.intervals(values), minlength=len(boundaries) + 1)
        before = ordered.null_count + np.cumsum(counts) - counts
        found = before * (share * 2**cls.bits / max(len(ordered), 1))
        # If all rows before are nulls, no value can be before one of them.
        return cls(column, boundaries, np.minimum(found, 2**cls.bits - 1).astype(np.uint32))

    def coordinates(self, plain: pa.Array, out: Coordinates) -> None:
        """Write the coordinates of values to `out`."""
        self._boundaries.ranks(self._column.ordered(plain), self._of_intervals, out)

    def to_json(self) -> dict[str, Any]:
        """Return the boundaries and coordinates as values for JSON."""
        return {
            "boundaries": self._column.boundaries_to_json(self._boundaries),
            "coordinates": self._of_intervals.tolist(),
        }

    @classmethod
    def from_json(cls, column: SortColumn, data: Mapping[str, Any]) -> Ranks:
        """Return the coordinates that `to_json` described.

        Raises:
            KeyError, ValueError: If the data does not describe coordinates of the column.
        """
        boundaries = column.boundaries_from_json(data["boundaries"])
        found = data["coordinates"]
        if not isinstance(found, list) or len(found) != len(boundaries) + 1:
            raise ValueError(f"the column {column.field.name!r} needs a coordinate per interval")
        if any(type(one) is not int or not 0 <= one < 2**cls.bits for one in found):
            raise ValueError(f"coordinates of the column {column.field.name!r} have other bits")
        if sorted(found) != found:
            raise ValueError(f"coordinates of the column {column.field.name!r} do not ascend")
        return cls(column, boundaries, np.array(found, np.uint32))


class Span:
    """Coordinates by the place of a value in the range of the sample.

    Floats are measured as numbers. All other values are measured by the 8 bytes after the common
    prefix of the least and the greatest value. A value outside has the coordinate of the nearer
    end. NaN has the last coordinate.

    Args:
        column: Column of the values.
        low: Least value, as bytes that order as the values do; for floats a finite float.
        high: Greatest value, in the same form.
        bits: Number of bits of a coordinate.
    """

    def __init__(self, column: SortColumn, low: Any, high: Any, bits: int) -> None:
        self._column = column
        self._low = low
        self._high = high
        self.bits = bits

    @classmethod
    def fit(cls, column: SortColumn, plain: pa.Array, bits: int) -> Span:
        """Learn the least and the greatest value from the column of a sample."""
        if isinstance(column.field, FloatField):
            numbers = plain.drop_null().cast(pa.float64()).to_numpy(zero_copy_only=False)
            finite = numbers[np.isfinite(numbers)]
            if not len(finite):
                return cls(column, 0.0, 0.0, bits)
            return cls(column, float(finite.min()), float(finite.max()), bits)
        values = ascending(column.ordered(plain))
        if not len(values):
            zero = bytes(column.field.width if column.exact else 0)
            return cls(column, zero, zero, bits)
        low, high = values[0].as_py(), values[-1].as_py()
        if not column.exact:
            most = shared(low, high) + 8
            low, high = low[:most], high[:most]
        return cls(column, low, high, bits)

    def coordinates(self, plain: pa.Array, out: Coordinates) -> None:
        """Write the coordinates of values to `out`."""
        if isinstance(self._column.field, FloatField):
            doubles = _DOUBLES.ordered(plain.cast(pa.float64()))
            stretch_doubles(doubles, self._low, self._high, self.bits, out)
        else:
            stretch(self._column.ordered(plain), self._low, self._high, self.bits, out)

    def to_json(self) -> dict[str, Any]:
        """Return the least and the greatest value as values for JSON."""
        if isinstance(self._column.field, FloatField):
            return {"low": self._low, "high": self._high}
        field = self._column.field
        return {name: written.to_json(field, one) for name, one in self._ends()}

    def _ends(self) -> list[tuple[str, bytes]]:
        return [("low", self._low), ("high", self._high)]

    @classmethod
    def from_json(cls, column: SortColumn, data: Mapping[str, Any], bits: int) -> Span:
        """Return the coordinates that `to_json` described.

        Raises:
            KeyError, ValueError: If the data does not describe coordinates of the column.
        """
        ends: list[Any] = [data["low"], data["high"]]
        if isinstance(column.field, FloatField):
            if any(type(one) is not float or not math.isfinite(one) for one in ends):
                raise ValueError(f"the column {column.field.name!r} is not between finite floats")
        else:
            ends = [written.from_json(column.field, one) for one in ends]
        if ends[0] > ends[1]:
            raise ValueError(f"the least of the column {column.field.name!r} is not the least")
        return cls(column, ends[0], ends[1], bits)
