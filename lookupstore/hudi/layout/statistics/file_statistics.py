"""Compute statistics of the columns of one base file, from its footer or its rows.

A footer is used only if its writer is known to follow the format, and only its statistics with a
defined order. The older statistics have an order that each writer chose. Bounds of floats leave out
NaN only if Arrow wrote the file. Parquet never contains the number of NaN.

Source: parquet-format, parquet.thrift (Statistics, ColumnOrder); PARQUET-251, PARQUET-686,
PARQUET-1222, PARQUET-1246.
"""

from __future__ import annotations

import json
import re
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Context, Decimal
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from lookupstore.hudi.file_group.groups import FileSlice
from lookupstore.hudi.file_group.scan import BaseFiles
from lookupstore.parquet.footer import ParquetFooter, read_footer
from lookupstore.storage.location import Location

#: Maximum size of a bound in UTF-8; longer bounds are truncated.
MOST_TEXT_BYTES = 64

_ARROW = "parquet-cpp-arrow version "
_PARQUET_MR = re.compile(r"parquet-mr version (\d+)\.(\d+)\.")
# First version of parquet-mr with valid statistics of text; before, they were in the order of
# signed bytes, in other fields.
_SINCE_MR = (1, 10)
# Context with more digits than any decimal with its exponent.
_EXACTLY = Context(prec=100)
_UNITS = {"milliseconds": "ms", "microseconds": "us", "nanoseconds": "ns"}


@dataclass(frozen=True)
class ColumnStatistics:
    """Statistics of a column of a file.

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


@dataclass(frozen=True)
class FileStatistics:
    """Statistics of a base file.

    Attributes:
        path: Path of the file, relative to the table.
        bytes: Size of the file, in bytes.
        rows: Number of rows of the file.
        columns: Statistics of the columns of the file, by name.
    """

    path: str
    bytes: int
    rows: int
    columns: Mapping[str, ColumnStatistics] = field(default_factory=dict)


def has_bounds(kind: pa.DataType) -> bool:
    """Return whether bounds are kept of columns of a type."""
    types = pa.types
    return bool(
        types.is_boolean(kind)
        or types.is_signed_integer(kind)
        or types.is_float32(kind)
        or types.is_float64(kind)
        or types.is_decimal(kind)
        or types.is_date32(kind)
        or types.is_timestamp(kind)
        or types.is_time(kind)
        or types.is_string(kind)
        or types.is_binary(kind)
    )


def file_statistics(location: Location, file: FileSlice, columns: pa.Schema) -> FileStatistics:
    """Return the statistics of some columns of a base file.

    Columns whose statistics the footer lacks are read. To count NaN, float columns are also read
    if reading from the location is cheap.

    Args:
        location: Location of the table.
        file: Base file to describe.
        columns: Columns to compute statistics of, in their types in the table; a column that the
            file lacks counts as null in all rows.

    Raises:
        CorruptionError: If the file is damaged.
        FormatError: If a column of the file cannot be widened to the type in the table.
        StaleStoreError: If the file was deleted.
        OSError: If the file cannot be read.
    """
    rows, said = _of_file(location, file, columns)
    known: dict[str, ColumnStatistics] = {}
    unknown = []
    for column in columns:
        found = said[column.name]
        counts = pa.types.is_floating(column.type) and location.is_cheap_to_read
        if found is None or (counts and found.nans is None):
            unknown.append(column)
        else:
            known[column.name] = found
    if unknown:
        known |= data_statistics(location, file, pa.schema(unknown))[1]
    return FileStatistics(
        file.path, file.bytes, rows, {name: _shortened(known[name]) for name in columns.names}
    )


def footer_statistics(location: Location, file: FileSlice, columns: pa.Schema) -> FileStatistics:
    """Return the statistics of some columns in the footer of a base file.

    No rows are read.

    Args:
        location: Location of the table.
        file: Base file to describe.
        columns: Columns to find statistics of, in their types in the table; the result lacks those
            that the footer has no usable statistics of.

    Raises:
        CorruptionError: If the footer is damaged.
        FormatError: If the file is encrypted, or has columns in other files.
        StaleStoreError: If the file was deleted.
        OSError: If the file cannot be read.
    """
    rows, said = _of_file(location, file, columns)
    known = {name: _shortened(one) for name, one in said.items() if one is not None}
    return FileStatistics(file.path, file.bytes, rows, known)


def data_statistics(
    location: Location, file: FileSlice, columns: pa.Schema
) -> tuple[int, dict[str, ColumnStatistics]]:
    """Return the number of rows of a base file, and statistics from its rows.

    Bounds of texts are not cut.

    Raises:
        CorruptionError: If the file is damaged.
        FormatError: If a column of the file cannot be widened to the type in the table.
        StaleStoreError: If the file was deleted.
        OSError: If the file cannot be read.
    """
    reader = BaseFiles(location, [file.path], columns)
    gathered = {one.name: _Gathered(one.type) for one in columns}
    rows = 0
    for batch in reader.batches(columns.names, threads=False):
        rows += batch.num_rows
        for name, one in gathered.items():
            one.add(batch.column(batch.schema.get_field_index(name)))
    return rows, {name: one.result() for name, one in gathered.items()}


class _Gathered:
    """The bounds and counts of the values of a column so far."""

    def __init__(self, kind: pa.DataType) -> None:
        self._bounds = pa.array([], kind)
        self._nulls = self._nans = 0

    def add(self, values: pa.Array) -> None:
        """Add some values."""
        self._nulls += values.null_count
        values = values.drop_null()
        if pa.types.is_floating(values.type):
            nan = pc.is_nan(values)
            self._nans += nan.true_count
            values = values.filter(pc.invert(nan))
        if len(values):
            ends = pc.min_max(values)
            both = pa.array([ends["min"], ends["max"]], values.type)
            self._bounds = pa.concat_arrays([self._bounds, both])

    def result(self) -> ColumnStatistics:
        """Return the statistics of all values that were added."""
        if not len(self._bounds):
            return ColumnStatistics(nulls=self._nulls, nans=self._nans)
        ends = pc.min_max(self._bounds)
        return ColumnStatistics(ends["min"], ends["max"], self._nulls, self._nans, True, True)


def _of_file(
    location: Location, file: FileSlice, columns: pa.Schema
) -> tuple[int, dict[str, ColumnStatistics | None]]:
    """Return the number of rows of a base file, and the statistics in its footer."""
    address = location.address(file.path)
    gone = "deleted since; read the table again"
    with address.reading("a Parquet file", gone=gone), address.open() as stream:
        footer = read_footer(stream, location.show(file.path))
        schema = pq.read_metadata(stream).schema
    rows = sum(group.rows for group in footer.groups)
    return rows, {one.name: _of_footer(footer, schema, one, rows) for one in columns}


def _of_footer(
    footer: ParquetFooter, schema: pq.ParquetSchema, column: pa.Field, rows: int
) -> ColumnStatistics | None:
    """Return the statistics of a column in a footer.

    None: the footer lacks some of them, or they are not reliable.
    """
    paths = [one.path for one in footer.groups[0].columns] if footer.groups else []
    if not any(path[0] == column.name for path in paths):
        return ColumnStatistics(nulls=rows, nans=0)
    at = paths.index((column.name,)) if (column.name,) in paths else None
    if at is None or footer.leaves[at].repetition:
        return None  # a row may have several values
    convert = _conversion(schema.column(at), column.type)
    if convert is None or not footer.has_order(at) or not _is_believed(footer, column.type):
        return None
    nulls = 0
    least: list[Any] = []
    greatest: list[Any] = []
    exact = [True, True]
    for group in footer.groups:
        chunk = group.columns[at]
        said = chunk.bounds
        if said.nulls is None:
            return None
        nulls += said.nulls
        if said.nulls == group.rows:
            continue
        is_whole = chunk.has_bounds_of(footer.leaves[at].width)
        if said.least is None or said.greatest is None or not is_whole:
            return None
        for values, value in ((least, said.least), (greatest, said.greatest)):
            read = convert.value(value)
            if read is None:
                return None
            values.append(read)
        # In a dictionary column, Arrow counts a null as a use of another value: the bounds are then
        # those of all values in the dictionary, and Arrow marks them as exact.
        may_be_unused = chunk.has_dictionary and said.nulls > 0
        # Only texts are truncated, by writers that record it.
        may_be_cut = _is_text(column.type)
        exact[0] &= not may_be_unused and (said.least_is_exact or not may_be_cut)
        exact[1] &= not may_be_unused and (said.greatest_is_exact or not may_be_cut)
    nans = None if pa.types.is_floating(column.type) else 0
    if not least:
        return ColumnStatistics(nulls=nulls, nans=0)
    try:
        low, high = convert.scalar(min(least)), convert.scalar(max(greatest))
    except (pa.ArrowException, ValueError, OverflowError):
        return None
    if pc.greater(low, high).as_py():
        return None  # no writer writes this
    return ColumnStatistics(low, high, nulls, nans, *exact)


def _is_believed(footer: ParquetFooter, kind: pa.DataType) -> bool:
    """Return whether the writer of a footer writes correct bounds of a type."""
    writer = footer.created_by
    if writer.startswith(_ARROW):
        return True
    known = _PARQUET_MR.match(writer)
    since = known is not None and (int(known[1]), int(known[2])) >= _SINCE_MR
    # Writers other than Arrow may count NaN among the values.
    return since and not pa.types.is_floating(kind)


@dataclass(frozen=True)
class _Conversion:
    """A conversion of the bounds of a Parquet column to values of a type.

    Attributes:
        format: Format of a stored number, as in `struct`. Empty: bytes.
        stored: Arrow type of the stored values.
        kind: Arrow type of the column in the table.
        scale: Number of digits after the decimal point. None: not a decimal.
    """

    format: str
    stored: pa.DataType
    kind: pa.DataType
    scale: int | None = None

    def value(self, data: bytes) -> Any:
        """Return the value of some bytes, in the order of the type.

        None: the bytes have no usable value.
        """
        if self.format:
            if len(data) != struct.calcsize(self.format):
                return None
            (value,) = struct.unpack(self.format, data)
            return None if value != value else value  # NaN has no order
        if self.scale is not None:
            return int.from_bytes(data, "big", signed=True)
        if pa.types.is_string(self.kind):
            try:
                data.decode()
            except UnicodeDecodeError:
                return None
        return data

    def scalar(self, value: Any) -> pa.Scalar:
        """Return a value in the type of the column."""
        if self.scale is not None:
            return pa.scalar(_EXACTLY.scaleb(Decimal(value), -self.scale), self.kind)
        if pa.types.is_string(self.kind):
            return pa.scalar(value.decode(), self.kind)
        if isinstance(value, int) and not isinstance(value, bool):
            width = pa.int32() if self.format == "<i" else pa.int64()
            return pa.scalar(value, width).cast(self.stored).cast(self.kind)
        return pa.scalar(value, self.stored).cast(self.kind)


def _conversion(column: Any, kind: pa.DataType) -> _Conversion | None:
    """Return the conversion of the bounds of a Parquet column.

    None: the bounds are not used.
    """
    logical = json.loads(column.logical_type.to_json())
    name = logical.get("Type")
    physical = column.physical_type
    number = {"INT32": "<i", "INT64": "<q", "FLOAT": "<f", "DOUBLE": "<d", "BOOLEAN": "<?"}.get(
        physical, ""
    )
    types = pa.types
    width = pa.int32() if physical == "INT32" else pa.int64()
    if name == "Decimal":
        if not types.is_decimal(kind) or logical["scale"] != kind.scale or physical == "INT96":
            return None
        return _Conversion(number, width, kind, logical["scale"])
    if types.is_signed_integer(kind) and physical in ("INT32", "INT64"):
        plain = name in ("None", "Undefined") or (name == "Int" and logical["isSigned"])
        return _Conversion(number, width, kind) if plain else None
    if types.is_date32(kind) and physical == "INT32":
        return _Conversion(number, pa.date32(), kind) if name == "Date" else None
    if types.is_timestamp(kind) and physical == "INT64" and name == "Timestamp":
        unit = _UNITS.get(logical["timeUnit"])
        if unit is None or logical["isAdjustedToUTC"] != (kind.tz is not None):
            return None
        return _Conversion(number, pa.timestamp(unit, kind.tz), kind)
    if name not in ("None", "Undefined", "String"):
        return None
    if types.is_floating(kind) and physical in ("FLOAT", "DOUBLE"):
        stored = pa.float32() if physical == "FLOAT" else pa.float64()
        return _Conversion(number, stored, kind) if stored.bit_width <= kind.bit_width else None
    if types.is_boolean(kind) and physical == "BOOLEAN":
        return _Conversion(number, pa.bool_(), kind)
    if physical == "BYTE_ARRAY" and (types.is_string(kind) or types.is_binary(kind)):
        return _Conversion("", pa.binary(), kind)
    return None


def _shortened(known: ColumnStatistics) -> ColumnStatistics:
    """Return statistics in which bounds of texts have at most 64 bytes."""
    least, greatest = known.least, known.greatest
    if least is None or greatest is None or not _is_text(least.type):
        return known
    low, low_is_exact = _start(least), known.least_is_exact
    high, high_is_exact = _end(greatest), known.greatest_is_exact
    return ColumnStatistics(
        low,
        high,
        known.nulls,
        known.nans,
        low_is_exact and low.equals(least),
        high_is_exact and high is not None and high.equals(greatest),
    )


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_binary(kind))


def _start(text: pa.Scalar) -> pa.Scalar:
    """Return a text of at most 64 bytes that is not after another text."""
    data: bytes = text.as_buffer().to_pybytes()
    if len(data) <= MOST_TEXT_BYTES:
        return text
    data = data[:MOST_TEXT_BYTES]
    if pa.types.is_binary(text.type):
        return pa.scalar(data, text.type)
    return pa.scalar(data.decode(errors="ignore"), text.type)


def _end(text: pa.Scalar) -> pa.Scalar | None:
    """Return a text of at most 64 bytes that is not before another text.

    None: there is no such text.

    >>> _end(pa.scalar("é" * 40)).as_py() == "é" * 31 + "ê"
    True
    """
    data: bytes = text.as_buffer().to_pybytes()
    if len(data) <= MOST_TEXT_BYTES:
        return text
    data = data[:MOST_TEXT_BYTES]
    if pa.types.is_binary(text.type):
        data = data.rstrip(b"\xff")
        return pa.scalar(data[:-1] + bytes([data[-1] + 1]), text.type) if data else None
    characters = data.decode(errors="ignore").rstrip(chr(0x10FFFF))
    if not characters:
        return None
    code = ord(characters[-1]) + 1
    # The code points in between are surrogates, not characters.
    after = chr(0xE000 if 0xD800 <= code < 0xE000 else code)
    return pa.scalar(characters[:-1] + after, text.type)


def most_columns(columns: pa.Schema, names: Sequence[str] | None, most: int) -> pa.Schema:
    """Return the columns to keep statistics of.

    Args:
        columns: Columns of the table.
        names: Names of the columns to choose; columns that are missing or have no order are left
            out. Default: the first columns with an order.
        most: Maximum number of columns if `names` is None.
    """
    wanted = columns.names if names is None else names
    found = [
        columns.field(name)
        for name in wanted
        if name in columns.names and has_bounds(columns.field(name).type)
    ]
    return pa.schema(found[:most] if names is None else found)
