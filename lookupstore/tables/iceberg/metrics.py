"""The metrics of data files in the manifests of an Iceberg table.

Source: "Manifests" (`data_file`) and "Binary single-value serialization" in the specification of
Iceberg.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Context, Decimal
from typing import Any

import pyarrow as pa

from lookupstore.arrow.types import is_text
from lookupstore.parquet.column_statistics import ColumnStatistics

_EXACT = Context(prec=100)
_FLOATS = {4: "<f", 8: "<d"}
_DAY_BYTES, _TIME_BYTES = 4, 8


@dataclass(frozen=True)
class FileMetrics:
    """The metrics of one data file.

    Attributes:
        file: The `DataFile` of pyiceberg.
        columns: Field id and type of the columns of the table, by their names.
    """

    file: Any
    columns: Mapping[str, tuple[int, pa.DataType]]

    def of(self, name: str) -> ColumnStatistics | None:
        """Return the statistics of a column of the table; see `RecordedStatistics`."""
        if name not in self.columns:
            return None
        number, kind = self.columns[name]
        least, greatest = (
            _bound((bounds or {}).get(number), kind)
            for bounds in (self.file.lower_bounds, self.file.upper_bounds)
        )
        nans = (self.file.nan_value_counts or {}).get(number)
        return ColumnStatistics(
            least,
            greatest,
            (self.file.null_value_counts or {}).get(number),
            nans if pa.types.is_floating(kind) else 0,
        )


def _bound(data: bytes | None, kind: pa.DataType) -> pa.Scalar | None:
    """Return a bound in the type of its column. None: unknown.

    A file that was written before the column became wider has shorter bounds.

    >>> _bound(bytes([5, 0, 0, 0]), pa.int64())
    <pyarrow.Int64Scalar: 5>
    """
    if data is None:
        return None
    data = bytes(data)
    types = pa.types
    try:
        if is_text(kind):
            return pa.scalar(data.decode(), kind)
        if types.is_floating(kind) and len(data) in _FLOATS:
            (value,) = struct.unpack(_FLOATS[len(data)], data)
            return pa.scalar(value, kind) if value == value else None
        if types.is_decimal(kind):
            digits = Decimal(int.from_bytes(data, "big", signed=True))
            return pa.scalar(digits.scaleb(-kind.scale, _EXACT), kind)
        number = int.from_bytes(data, "little", signed=True)
        if types.is_signed_integer(kind):
            return pa.scalar(number, kind)
        if types.is_date32(kind) and len(data) == _DAY_BYTES:
            return pa.scalar(number, pa.int32()).cast(kind)
        if types.is_timestamp(kind) and len(data) == _TIME_BYTES:
            return pa.scalar(number, pa.int64()).cast(kind)
    except (ValueError, OverflowError, pa.ArrowException):
        pass  # the bounds of a damaged manifest, or of a type that columns cannot change to
    return None
