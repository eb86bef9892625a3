"""What is known of the columns of one base file: from its footer, else from its rows.

A footer is believed if it was written by somebody who is known to write what the format says, and
said in the fields that have a defined order: never the old ones, whose order each writer chose.
What Parquet says of floating numbers leaves NaN out only if Arrow wrote it; how many there are it
never says.

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
from lookupstore.parquet.footer import Footer, read_footer
from lookupstore.storage.location import Location

#: Of a bound, in UTF-8; what is longer is truncated.
MOST_TEXT_BYTES = 64

_ARROW = "parquet-cpp-arrow version "
_PARQUET_MR = re.compile(r"parquet-mr version (\d+)\.(\d+)\.")
# Before, statistics of text were those of signed bytes, in other fields.
_SINCE_MR = (1, 10)
# Digits of a decimal at most, with those of its exponent.
_EXACTLY = Context(prec=100)
_UNITS = {"milliseconds": "ms", "microseconds": "us", "nanoseconds": "ns"}


@dataclass(frozen=True)
class ColumnStatistics:
    """What is known of a column of a file.

    Attributes:
        least: no value is below it, but NaN; None: nobody knows, or there is no value.
        greatest: no value is above it, but NaN; None as of `least`.
        nulls: how many there are; None: nobody knows.
        nans: how many there are; None: nobody knows.
        least_is_exact: whether a value is equal to `least`.
        greatest_is_exact: whether a value is equal to `greatest`.
    """

    least: pa.Scalar | None = None
    greatest: pa.Scalar | None = None
    nulls: int | None = None
    nans: int | None = None
    least_is_exact: bool = False
    greatest_is_exact: bool = False


@dataclass(frozen=True)
class FileStatistics:
    """What is known of a base file.

    Attributes:
        path: of the file, relative to the table.
        bytes: its size.
        rows: how many it has.
        columns: what is known of its columns, by name.
    """

    path: str
    bytes: int
    rows: int
    columns: Mapping[str, ColumnStatistics] = field(default_factory=dict)


def has_bounds(kind: pa.DataType) -> bool:
    """Return whether the values of a type have an order that bounds are kept of."""
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
    """Return what is known of some columns of a base file.

    Rows are read for what the footer does not say; how many values are NaN only where reading is
    cheap.

    Args:
        location: of the table.
        file: the base file.
        columns: that are wanted, in the types of the table; those that the file lacks are null.

    Raises:
        CorruptionError: it is damaged.
        FormatError: a column has a type that cannot be widened to the table's.
        StaleStoreError: it is gone.
        OSError: it could not be read.
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
    """Return what the footer of a base file says of some columns; no row is read.

    Args, raises: as of `file_statistics`.
    """
    rows, said = _of_file(location, file, columns)
    known = {name: _shortened(one) for name, one in said.items() if one is not None}
    return FileStatistics(file.path, file.bytes, rows, known)


def data_statistics(
    location: Location, file: FileSlice, columns: pa.Schema
) -> tuple[int, dict[str, ColumnStatistics]]:
    """Return how many rows a base file has, and what they say of columns; texts are not cut.

    Raises: as of `file_statistics`.
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
        """Add some."""
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
        """Return what it comes to."""
        if not len(self._bounds):
            return ColumnStatistics(nulls=self._nulls, nans=self._nans)
        ends = pc.min_max(self._bounds)
        return ColumnStatistics(ends["min"], ends["max"], self._nulls, self._nans, True, True)


def _of_file(
    location: Location, file: FileSlice, columns: pa.Schema
) -> tuple[int, dict[str, ColumnStatistics | None]]:
    """Return how many rows a base file has, and what its footer says of columns."""
    address = location.address(file.path)
    gone = "deleted since; read the table again"
    with address.reading("a Parquet file", gone=gone), address.open() as stream:
        footer = read_footer(stream, location.show(file.path))
        schema = pq.read_metadata(stream).schema
    rows = sum(group.rows for group in footer.groups)
    return rows, {one.name: _of_footer(footer, schema, one, rows) for one in columns}


def _of_footer(
    footer: Footer, schema: pq.ParquetSchema, column: pa.Field, rows: int
) -> ColumnStatistics | None:
    """Return what a footer says of a column; None: not all, or not to be believed."""
    paths = [one.path for one in footer.groups[0].columns] if footer.groups else []
    if not any(path[0] == column.name for path in paths):
        return ColumnStatistics(nulls=rows, nans=0)
    at = paths.index((column.name,)) if (column.name,) in paths else None
    if at is None or footer.leaves[at].repetition:
        return None  # several values in a row
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
        # Of a dictionary, Arrow takes a null for a use of one more value: then bounds are those of
        # all values that are in it, and Arrow says that they are exact.
        may_be_unused = chunk.has_dictionary and said.nulls > 0
        # Only texts are truncated, by those who say so.
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
        return None  # what nobody writes
    return ColumnStatistics(low, high, nulls, nans, *exact)


def _is_believed(footer: Footer, kind: pa.DataType) -> bool:
    """Return whether bounds of a type are right in a footer, by who wrote it."""
    writer = footer.created_by
    if writer.startswith(_ARROW):
        return True
    known = _PARQUET_MR.match(writer)
    since = known is not None and (int(known[1]), int(known[2])) >= _SINCE_MR
    # Others than Arrow may count NaN among the values.
    return since and not pa.types.is_floating(kind)


@dataclass(frozen=True)
class _Conversion:
    """How bounds of a Parquet column become values of a type.

    Attributes:
        format: of a number, as of `struct`; empty: of bytes.
        stored: type of the values as they are stored.
        kind: type of the column.
        scale: of a decimal.
    """

    format: str
    stored: pa.DataType
    kind: pa.DataType
    scale: int | None = None

    def value(self, data: bytes) -> Any:
        """Return what some bytes are, in the order of the type; None: nothing that is known."""
        if self.format:
            if len(data) != struct.calcsize(self.format):
                return None
            (value,) = struct.unpack(self.format, data)
            return None if value != value else value  # no order with NaN
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
    """Return how bounds of a Parquet column are read; None: they are not."""
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
    """Return statistics whose bounds are no long texts."""
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
    """Return a text of few bytes that is not after another one."""
    data: bytes = text.as_buffer().to_pybytes()
    if len(data) <= MOST_TEXT_BYTES:
        return text
    data = data[:MOST_TEXT_BYTES]
    if pa.types.is_binary(text.type):
        return pa.scalar(data, text.type)
    return pa.scalar(data.decode(errors="ignore"), text.type)


def _end(text: pa.Scalar) -> pa.Scalar | None:
    """Return a text of few bytes that is not before another one; None: there is none.

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
    # Those between are no characters.
    after = chr(0xE000 if 0xD800 <= code < 0xE000 else code)
    return pa.scalar(characters[:-1] + after, text.type)


def most_columns(columns: pa.Schema, names: Sequence[str] | None, most: int) -> pa.Schema:
    """Return the columns that statistics are kept of.

    Args:
        columns: of the table.
        names: that are wanted, as far as the table has them; None: the first ones.
        most: how many these are.
    """
    wanted = columns.names if names is None else names
    found = [
        columns.field(name)
        for name in wanted
        if name in columns.names and has_bounds(columns.field(name).type)
    ]
    return pa.schema(found[:most] if names is None else found)
