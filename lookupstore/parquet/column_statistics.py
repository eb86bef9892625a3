"""Read the statistics of columns in the footer of a file.

A footer is used only if its writer is known to follow the format, and only its statistics with a
defined order. The older statistics have an order that each writer chose. Bounds of floats leave out
NaN only if Arrow wrote the file. Parquet never contains the number of NaN.

Source: parquet-format, parquet.thrift (Statistics, ColumnOrder) and LogicalTypes.md; PARQUET-251,
PARQUET-686, PARQUET-1222, PARQUET-1246.
"""

from __future__ import annotations

import datetime
import re
import struct
from dataclasses import dataclass
from decimal import Context, Decimal
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from lookupstore.parquet.arrow_file import has_old_times
from lookupstore.parquet.footer import ColumnChunk, ParquetFooter
from lookupstore.parquet.structs import BOOL, I32, STRUCT, Struct, get

_ARROW = "parquet-cpp-arrow version "
_PARQUET_MR = re.compile(r"parquet-mr version (\d+)\.(\d+)\.")
# First version of parquet-mr with valid statistics of text; before, they were in the order of
# signed bytes, in other fields.
_SINCE_MR = (1, 10)
# Other writers that write bounds in the defined order. Those of polars are not used, as some of its
# versions wrote wrong ones (pola-rs/polars#7842, #29347).
_OTHERS = ("parquet-rs version ", "delta-rs version ", "DuckDB version ")
# Context with more digits than any decimal with its exponent.
_EXACTLY = Context(prec=100)
# Fields of SchemaElement.
_KIND, _CONVERTED, _SCALE, _LOGICAL = 1, 6, 7, 10
# Members of LogicalType, and of TimeUnit.
_STRING, _DECIMAL, _DATE, _TIMESTAMP, _INTEGER = 1, 5, 6, 8, 10
_UNITS = {1: "ms", 2: "us", 3: "ns"}
# Numbers of ConvertedType, which old writers use instead.
_UTF8, _OLD_DECIMAL, _OLD_DATE, _SIGNED = 0, 5, 6, range(15, 19)
_OLD_UNITS = {9: "ms", 10: "us"}
# Physical types, by their numbers in Parquet: the form of a value, as in `struct`, and its type.
_NUMBERS = {
    0: ("<?", pa.bool_()),
    1: ("<i", pa.int32()),
    2: ("<q", pa.int64()),
    4: ("<f", pa.float32()),
    5: ("<d", pa.float64()),
}
_BYTES, _FIXED = 6, 7
# Days and times since then are the same in the old calendar.
_COMMON = datetime.datetime(1900, 1, 1)


@dataclass(frozen=True)
class ColumnStatistics:
    """Statistics of a column in some rows.

    Attributes:
        least: Lower bound of all values but NaN. None: unknown, or no values.
        greatest: Upper bound of all values but NaN. None: unknown, or no values.
        nulls: Number of nulls. None: unknown.
        nans: Number of NaN. None: unknown.
        least_is_exact: Whether a value is known to equal `least`.
        greatest_is_exact: Whether a value is known to equal `greatest`.
    """

    least: pa.Scalar | None = None
    greatest: pa.Scalar | None = None
    nulls: int | None = None
    nans: int | None = None
    least_is_exact: bool = False
    greatest_is_exact: bool = False


def group_statistics(
    footer: ParquetFooter, name: str, kind: pa.DataType
) -> list[ColumnStatistics] | None:
    """Return the statistics of a column in each row group.

    None: the footer has no statistics of the column, or they are not reliable.

    Args:
        footer: Footer of the file, which has the column.
        name: Name of the column in the file.
        kind: Type of the bounds, which may be wider than that in the file.
    """
    leaf, element = footer.flat.get(name, (0, None))
    if element is None:  # a row may have several values
        return None
    convert = _conversion(element, kind)
    if convert is None or not footer.has_order(leaf) or not _is_believed(footer, kind):
        return None
    width = footer.leaves[leaf].width
    is_time = pa.types.is_date32(kind) or pa.types.is_timestamp(kind)
    since = _common(kind) if is_time and has_old_times(footer.entries) else None
    return [
        _of_chunk(group.columns[leaf], group.rows, width, convert, kind, since)
        for group in footer.groups
    ]


def _of_chunk(
    chunk: ColumnChunk,
    rows: int,
    width: int,
    convert: _Conversion,
    kind: pa.DataType,
    since: pa.Scalar | None,
) -> ColumnStatistics:
    said = chunk.bounds
    if said.nulls == rows:
        return ColumnStatistics(nulls=rows, nans=0)
    nans = None if pa.types.is_floating(kind) else 0
    unknown = ColumnStatistics(nulls=said.nulls, nans=nans)
    if said.least is None or said.greatest is None or not chunk.has_bounds_of(width):
        return unknown
    try:
        least, greatest = convert.scalar(said.least), convert.scalar(said.greatest)
        # No writer writes a least value that is greater than the greatest one.
        if least is None or greatest is None or pc.greater(least, greatest).as_py():
            return unknown
        if since is not None and pc.less(least, since).as_py():
            return unknown
    except (pa.ArrowException, ValueError, OverflowError):
        return unknown
    # In a dictionary column, Arrow counts a null as a use of another value: the bounds are then
    # those of all values in the dictionary, and Arrow marks them as exact.
    may_be_unused = chunk.has_dictionary and said.nulls != 0
    # Only texts are truncated, by writers that record it.
    may_be_cut = _is_text(kind)
    return ColumnStatistics(
        least,
        greatest,
        said.nulls,
        nans,
        not may_be_unused and (said.least_is_exact or not may_be_cut),
        not may_be_unused and (said.greatest_is_exact or not may_be_cut),
    )


def _is_believed(footer: ParquetFooter, kind: pa.DataType) -> bool:
    """Return whether the writer of a footer writes correct bounds of a type."""
    writer = footer.created_by
    if writer.startswith(_ARROW):
        return True
    found = _PARQUET_MR.match(writer)
    if found is None:
        is_known = writer.startswith(_OTHERS) and not pa.types.is_decimal(kind)
    else:
        is_known = (int(found[1]), int(found[2])) >= _SINCE_MR
    # Writers other than Arrow may count NaN among the values.
    return is_known and not pa.types.is_floating(kind)


def _common(kind: pa.DataType) -> pa.Scalar:
    """Return the first day or time that is the same in the old calendar."""
    if pa.types.is_date32(kind):
        return pa.scalar(_COMMON.date(), kind)
    return pa.scalar(_COMMON, pa.timestamp(kind.unit)).cast(kind)


@dataclass(frozen=True)
class _Conversion:
    """A conversion of the bounds of a Parquet column to values of a type.

    Attributes:
        form: Form of a stored number, as in `struct`. Empty: bytes.
        stored: Arrow type of the stored values.
        kind: Arrow type of the bounds.
        scale: Number of digits after the decimal point. None: not a decimal.
    """

    form: str
    stored: pa.DataType
    kind: pa.DataType
    scale: int | None = None

    def scalar(self, data: bytes) -> pa.Scalar | None:
        """Return the value of some bytes, in the type of the bounds.

        None: the bytes have no usable value.
        """
        if self.form:
            if len(data) != struct.calcsize(self.form):
                return None
            (value,) = struct.unpack(self.form, data)
            if value != value:  # NaN has no order
                return None
            if self.scale is not None:
                return self._decimal(value)
            if isinstance(value, int) and not isinstance(value, bool):
                _, width = next(one for one in _NUMBERS.values() if one[0] == self.form)
                return pa.scalar(value, width).cast(self.stored).cast(self.kind)
            return pa.scalar(value, self.stored).cast(self.kind)
        if self.scale is not None:
            return self._decimal(int.from_bytes(data, "big", signed=True))
        return pa.scalar(data.decode() if pa.types.is_string(self.kind) else data, self.kind)

    def _decimal(self, value: int) -> pa.Scalar:
        assert self.scale is not None
        return pa.scalar(_EXACTLY.scaleb(Decimal(value), -self.scale), self.kind)


def _conversion(element: Struct, kind: pa.DataType) -> _Conversion | None:
    """Return the conversion of the bounds of a Parquet column.

    None: the bounds are not used.

    Args:
        element: SchemaElement of the column.
        kind: Type of the bounds.
    """
    types = pa.types
    physical = get(element, _KIND, I32)
    form, stored = _NUMBERS.get(physical, ("", pa.binary()))
    is_integer = form in ("<i", "<q")
    meaning, detail = _meaning(element)
    if meaning == _DECIMAL:
        if not types.is_decimal(kind) or detail != kind.scale:
            return None
        known = is_integer or physical in (_BYTES, _FIXED)
        return _Conversion(form if is_integer else "", stored, kind, detail) if known else None
    if types.is_signed_integer(kind) and is_integer:
        return _Conversion(form, stored, kind) if meaning in (None, _INTEGER) else None
    if types.is_date32(kind) and form == "<i":
        return _Conversion(form, pa.date32(), kind) if meaning == _DATE else None
    if types.is_timestamp(kind) and form == "<q" and meaning == _TIMESTAMP:
        unit, is_instant = detail
        if unit is None or is_instant != (kind.tz is not None):
            return None
        return _Conversion(form, pa.timestamp(unit, kind.tz), kind)
    if meaning not in (None, _STRING):
        return None
    if types.is_floating(kind) and types.is_floating(stored):
        return _Conversion(form, stored, kind) if stored.bit_width <= kind.bit_width else None
    if types.is_boolean(kind) and types.is_boolean(stored):
        return _Conversion(form, stored, kind)
    return _Conversion("", stored, kind) if physical == _BYTES and _is_text(kind) else None


def _meaning(element: Struct) -> tuple[int | None, Any]:
    """Return the logical type of a Parquet column, by its number in LogicalType, and its details.

    The details are the scale of a decimal, or the unit of a timestamp and whether it is an instant.
    None: the column has no logical type. -1: another one, or an unsigned integer.
    """
    logical: Struct | None = get(element, _LOGICAL, STRUCT)
    if logical:
        meaning = next(iter(logical))
        said: Struct | None = get(logical, meaning, STRUCT)
        if said is None or len(logical) > 1:  # damaged, or of a newer version of the format
            return -1, None
        if meaning == _DECIMAL:
            return meaning, get(said, 1, I32)
        if meaning == _TIMESTAMP:
            unit = _UNITS.get(next(iter(get(said, 2, STRUCT) or {}), 0))
            return meaning, (unit, get(said, 1, BOOL))
        if meaning == _INTEGER:
            return (meaning if get(said, 2, BOOL) else -1), None
        return (meaning if meaning in (_STRING, _DATE) else -1), None
    converted = get(element, _CONVERTED, I32)
    if converted == _OLD_DECIMAL:
        return _DECIMAL, get(element, _SCALE, I32) or 0
    if converted in _OLD_UNITS:
        return _TIMESTAMP, (_OLD_UNITS[converted], True)
    if converted in _SIGNED:
        return _INTEGER, None
    return {None: None, _UTF8: _STRING, _OLD_DATE: _DATE}.get(converted, -1), None


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_binary(kind))
