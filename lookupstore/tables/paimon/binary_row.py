"""Rows of partitions and keys in the manifests of Paimon.

A row has its number of fields in 4 bytes, a byte for its kind, a bit per field for nulls, and 8
bytes per field. Values that do not fit into 8 bytes follow.

Source: `BinaryRow` and `AbstractBinaryWriter` of Apache Paimon.
"""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Context, Decimal

import pyarrow as pa

from lookupstore.arrow.types import is_bytes, is_text

_COUNT_BYTES = 4
_KIND_BITS = 8
_COMPACT_DIGITS = 18
_EXACT = Context(prec=100)


def values_of(row: bytes, types: Sequence[pa.DataType]) -> list[pa.Scalar]:
    """Return the values of a row.

    Args:
        row: Bytes of the row, with the number of its fields.
        types: Types of its fields.

    Raises:
        ValueError: If the bytes are not a row of these types.

    >>> row = bytes.fromhex("00000001 0000000000000000 0700000000000000")
    >>> values_of(row, [pa.int32()])
    [<pyarrow.Int32Scalar: 7>]
    """
    if not types:  # Python has no bytes for such a row, and Java has some
        return []
    count = int.from_bytes(row[:_COUNT_BYTES], "big")
    if len(row) < _COUNT_BYTES or count != len(types):
        raise ValueError(f"{count} fields")
    return _Row(row[_COUNT_BYTES:], count).values(types)


class _Row:
    """The bytes of a row, without the number of its fields."""

    def __init__(self, row: bytes, count: int) -> None:
        self._row = row
        self._fields = (count + _KIND_BITS + 63) // 64 * 8
        if len(row) < self._fields + 8 * count:
            raise ValueError(f"{len(row)} bytes")

    def values(self, types: Sequence[pa.DataType]) -> list[pa.Scalar]:
        return [
            pa.scalar(None, kind) if self._is_null(at) else self._value(at, kind)
            for at, kind in enumerate(types)
        ]

    def _is_null(self, at: int) -> bool:
        byte, bit = divmod(at + _KIND_BITS, 8)
        return bool(self._row[byte] >> bit & 1)

    def _value(self, at: int, kind: pa.DataType) -> pa.Scalar:
        if is_text(kind):
            return pa.scalar(self._bytes(at).decode(), kind)
        if is_bytes(kind):
            return pa.scalar(self._bytes(at), kind)
        if pa.types.is_decimal(kind):
            if kind.precision <= _COMPACT_DIGITS:
                digits = self._number(at, 8)
            else:
                digits = int.from_bytes(self._far(at), "big", signed=True)
            return pa.scalar(Decimal(digits).scaleb(-kind.scale, _EXACT), kind)
        if pa.types.is_boolean(kind):
            return pa.scalar(self._number(at, 1) != 0, kind)
        if pa.types.is_timestamp(kind) and kind.unit != "ms":
            return pa.scalar(self._microseconds(at), pa.int64()).cast(kind)
        width = kind.bit_width // 8
        stored = pa.int32() if width == 4 else pa.int64()
        number = self._number(at, width)
        if pa.types.is_temporal(kind):
            return pa.scalar(number, stored).cast(kind)
        return pa.scalar(number, kind)

    def _number(self, at: int, width: int) -> int:
        start = self._fields + 8 * at
        return int.from_bytes(self._row[start : start + width], "little", signed=True)

    def _place(self, at: int) -> tuple[int, int]:
        """Return the two numbers in the 8 bytes of a field: the low and the high one."""
        start = self._fields + 8 * at
        low, high = self._row[start : start + 4], self._row[start + 4 : start + 8]
        return int.from_bytes(low, "little"), int.from_bytes(high, "little")

    def _far(self, at: int) -> bytes:
        """Return the bytes of a value that follow the fields."""
        length, start = self._place(at)
        if start + length > len(self._row):
            raise ValueError(f"a value that ends at byte {start + length} of {len(self._row)}")
        return self._row[start : start + length]

    def _bytes(self, at: int) -> bytes:
        """Return a text or bytes: up to 7 in the field itself, or those that follow."""
        start = self._fields + 8 * at
        mark = self._row[start + 7]
        if not mark & 0x80:
            return self._far(at)
        if mark & 0x7F > 7:
            raise ValueError(f"{mark & 0x7F} bytes in a field")
        return self._row[start : start + (mark & 0x7F)]

    def _microseconds(self, at: int) -> int:
        nanoseconds, start = self._place(at)
        if start + 8 > len(self._row):
            raise ValueError(f"a time that ends at byte {start + 8} of {len(self._row)}")
        milliseconds = int.from_bytes(self._row[start : start + 8], "little", signed=True)
        return milliseconds * 1000 + nanoseconds // 1000
