"""Rows along a Z-order or Hilbert curve: a column gives coordinates by rank or by value."""

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
from lookupstore.hudi.layout.curves.column import INTERVALS, Column, ascending, quantiles, shared
from lookupstore.keys.numbers import FloatField
from lookupstore.keys.types import key_field

Coordinates: TypeAlias = npt.NDArray[np.uint32]

# Files along a Z-order curve are longer by the later columns: the first one gets fewer cells.
_FIRST_SHARE = 0.75
# Bits of a coordinate by value: so many in all, but no fewer and no more than these each.
_SPAN_BITS, _LEAST_BITS, _MOST_BITS = 64, 16, 32

_DOUBLES = key_field(pa.field("double", pa.float64()), nullable=True)


@dataclass(frozen=True)
class OnCurve:
    """A curve through the coordinates of columns.

    Attributes:
        axes: what gives the coordinates of each column.
        hilbert: whether it is the Hilbert curve, and not the Z-order curve.
    """

    axes: tuple[Ranks | Span, ...]
    hilbert: bool

    @classmethod
    def fit(
        cls, columns: Sequence[Column], plain: Sequence[pa.Array], hilbert: bool, by_sample: bool
    ) -> OnCurve:
        """Learn from the columns of a sample."""
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
        """Return what was learned, for JSON."""
        return [one.to_json() for one in self.axes]

    @classmethod
    def from_json(
        cls, columns: Sequence[Column], data: Any, hilbert: bool, by_sample: bool
    ) -> OnCurve:
        """Return what `to_json` described.

        Raises:
            KeyError, TypeError, ValueError: it is no such.
        """
        pairs = list(zip(columns, data, strict=True))
        if by_sample:
            return cls(tuple(Ranks.from_json(*one) for one in pairs), hilbert)
        bits = _span_bits(len(columns))
        return cls(tuple(Span.from_json(*one, bits) for one in pairs), hilbert)


def _span_bits(columns: int) -> int:
    return min(_MOST_BITS, max(_LEAST_BITS, _SPAN_BITS // columns))


class Ranks:
    """Coordinates by how many rows of the sample come before: every value has its share of them.

    A value that a third of all rows have takes up a third of the coordinates, as one point, so that
    the curve goes on cutting these rows by the other columns.

    Args:
        column: what it is about.
        boundaries: that cut its values into intervals.
        of_intervals: the coordinate of each interval, one more than boundaries.
    """

    bits: ClassVar[int] = 16

    def __init__(self, column: Column, boundaries: Boundaries, of_intervals: Coordinates) -> None:
        self._column = column
        self._boundaries = boundaries
        self._of_intervals = of_intervals

    @classmethod
    def fit(cls, column: Column, plain: pa.Array, share: float) -> Ranks:
        """Learn from the column of a sample; coordinates take up a share of what there are."""
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
        # Where all rows before are nulls, no value can be before one of them.
        return cls(column, boundaries, np.minimum(found, 2**cls.bits - 1).astype(np.uint32))

    def coordinates(self, plain: pa.Array, out: Coordinates) -> None:
        """Set the coordinates of values."""
        self._boundaries.ranks(self._column.ordered(plain), self._of_intervals, out)

    def to_json(self) -> dict[str, Any]:
        """Return what was learned, for JSON."""
        return {
            "boundaries": self._column.boundaries_to_json(self._boundaries),
            "coordinates": self._of_intervals.tolist(),
        }

    @classmethod
    def from_json(cls, column: Column, data: Mapping[str, Any]) -> Ranks:
        """Return what `to_json` described.

        Raises:
            KeyError, ValueError: it is no such.
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
    """Coordinates by where a value lies between the least and the greatest of the sample.

    Floats are measured as numbers, everything else by the 8 bytes that follow what the least and
    the greatest begin with. What is outside has the coordinate of the nearer end; NaN is last.

    Args:
        column: what it is about.
        low: the least value, as bytes in order; of floats a number that is finite.
        high: the greatest.
        bits: of a coordinate.
    """

    def __init__(self, column: Column, low: Any, high: Any, bits: int) -> None:
        self._column = column
        self._low = low
        self._high = high
        self.bits = bits

    @classmethod
    def fit(cls, column: Column, plain: pa.Array, bits: int) -> Span:
        """Learn from the column of a sample."""
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
        """Set the coordinates of values."""
        if isinstance(self._column.field, FloatField):
            doubles = _DOUBLES.ordered(plain.cast(pa.float64()))
            stretch_doubles(doubles, self._low, self._high, self.bits, out)
        else:
            stretch(self._column.ordered(plain), self._low, self._high, self.bits, out)

    def to_json(self) -> dict[str, Any]:
        """Return what was learned, for JSON."""
        if isinstance(self._column.field, FloatField):
            return {"low": self._low, "high": self._high}
        field = self._column.field
        return {name: written.to_json(field, one) for name, one in self._ends()}

    def _ends(self) -> list[tuple[str, bytes]]:
        return [("low", self._low), ("high", self._high)]

    @classmethod
    def from_json(cls, column: Column, data: Mapping[str, Any], bits: int) -> Span:
        """Return what `to_json` described.

        Raises:
            KeyError, ValueError: it is no such.
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
