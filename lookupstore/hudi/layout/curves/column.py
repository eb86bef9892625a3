"""Order and cut the values of one column of a layout.

Values of all types are bytes that order as the values do (`KeyField.ordered`). Null comes before
all values.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from lookupstore.hudi.layout.curves import written
from lookupstore.hudi.layout.curves._curve import Boundaries
from lookupstore.keys.fields import KeyField
from lookupstore.keys.types import key_field
from lookupstore.sorting._sort import argsort, is_ascending

#: Maximum number of intervals of a column: enough for a million files by two columns.
INTERVALS = 4096
# Maximum number of bytes kept of a long boundary, after the common prefix of all boundaries.
_MOST_BYTES = 1024
# Maximum number of bytes kept of all long boundaries of a column; longer boundaries are fewer.
_MOST_BYTES_OF_ALL = 4 << 20
# Maximum number of bytes of a value in a position.
_MOST_WIDTH = 32


class SortColumn:
    """One column that rows are ordered by.

    Args:
        field: Name and Arrow type of the column.

    Raises:
        TypeError: If the type has no order.

    Attributes:
        field: Name and type of the column, as a field of a key.
        exact: Whether all bytes of a value are in its position in a linear order: true for types of
            a fixed width of at most 32 bytes.
    """

    def __init__(self, field: pa.Field) -> None:
        try:
            self.field: KeyField = key_field(pa.field(field.name, field.type), nullable=True)
        except TypeError:
            raise TypeError(
                f"by: the column {field.name!r} is {field.type}, which has no order; give columns "
                "of numbers, bools, times, text or bytes"
            ) from None
        self.exact: bool = 0 < self.field.width <= _MOST_WIDTH

    def ordered(self, plain: pa.Array) -> pa.Array:
        """Return values of the plain type as bytes that order as they do."""
        found = self.field.ordered(plain)
        return found if self.exact else found.cast(pa.large_binary())

    def boundaries(self, values: Sequence[bytes]) -> Boundaries:
        """Return ascending values as boundaries."""
        kind = pa.binary(self.field.width) if self.exact else pa.large_binary()
        return Boundaries(pa.array(values, kind))

    def boundaries_to_json(self, boundaries: Boundaries) -> list[Any]:
        """Return boundaries for JSON."""
        return [written.to_json(self.field, one) for one in boundaries.values.to_pylist()]

    def boundaries_from_json(self, values: object) -> Boundaries:
        """Return the boundaries that `boundaries_to_json` described.

        Raises:
            ValueError: If the values are not ascending boundaries of the column.
        """
        if not isinstance(values, list):
            raise ValueError(f"boundaries of the column {self.field.name!r} are no list")
        found = self.boundaries([written.from_json(self.field, one) for one in values])
        if not is_ascending(found.values):
            raise ValueError(f"boundaries of the column {self.field.name!r} do not ascend")
        return found

    def cuts(self, ascending: pa.Array, rows: Sequence[int]) -> Boundaries:
        """Return the values at some rows as boundaries, without duplicates.

        Text and bytes are cut after the first byte that differs from the value before.

        Args:
            ascending: Values in ascending order, as bytes that order as the values do, without
                null.
            rows: Numbers of the rows, ascending and above 0.
        """
        if self.exact:
            found = ascending.take(pa.array(rows, pa.int64())).to_pylist()
        else:
            most = _MOST_BYTES
            if len(ascending):
                most += shared(ascending[0].as_py(), ascending[-1].as_py())
            found = []
            for row in rows:
                before, value = ascending[row - 1].as_py(), ascending[row].as_py()
                found.append(value[: min(shared(before, value) + 1, most)])
        found = sorted(set(found))
        step = 1 if self.exact else -(-sum(map(len, found)) // _MOST_BYTES_OF_ALL) or 1
        return self.boundaries(found[::step])


def shared(one: bytes, other: bytes) -> int:
    """Return the length of the common prefix of two values, in bytes.

    >>> shared(b"abc", b"abd"), shared(b"", b"a")
    (2, 0)
    """
    low, high = 0, min(len(one), len(other))
    while low < high:
        middle = (low + high + 1) // 2
        if one[:middle] == other[:middle]:
            low = middle
        else:
            high = middle - 1
    return low


def ascending(ordered: pa.Array) -> pa.Array:
    """Return the values that are not null, in ascending order."""
    values = ordered.drop_null()
    return values.take(pa.array(argsort(values)))


def quantiles(rows: int, parts: int) -> list[int]:
    """Return the first row of each of some equal parts, without the first part.

    >>> quantiles(10, 4), quantiles(2, 4)
    ([2, 5, 7], [1])
    """
    return sorted({part * rows // parts for part in range(1, parts)} - {0})
