"""Compute statistics of the columns of one base file, from its footer or its rows.

The statistics of row groups in a footer are combined. Rows are read for those that it lacks.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc

from lookupstore.hudi.file_group.groups import FileSlice
from lookupstore.hudi.file_group.scan import BaseFiles
from lookupstore.parquet.column_statistics import ColumnStatistics, group_statistics
from lookupstore.parquet.footer import ParquetFooter, read_footer
from lookupstore.storage.location import Location

#: Maximum size of a bound in UTF-8; longer bounds are truncated.
MOST_TEXT_BYTES = 64


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
    rows = sum(group.rows for group in footer.groups)
    return rows, {one.name: _of_footer(footer, one, rows) for one in columns}


def _of_footer(footer: ParquetFooter, column: pa.Field, rows: int) -> ColumnStatistics | None:
    """Return the statistics of a column in a footer.

    None: the footer lacks some of them, or they are not reliable.
    """
    name = column.name.encode("utf-8", "surrogateescape")
    if all(leaf.column != name for leaf in footer.leaves):
        return ColumnStatistics(nulls=rows, nans=0)
    groups = group_statistics(footer, column.name, column.type)
    if groups is None:
        return None
    nulls = 0
    bounds: list[pa.Scalar] = []
    exact = [True, True]
    for group, one in zip(footer.groups, groups, strict=True):
        if one.nulls is None:
            return None
        nulls += one.nulls
        if one.nulls == group.rows:
            continue
        if one.least is None or one.greatest is None:
            return None
        bounds += [one.least, one.greatest]
        exact[0] &= one.least_is_exact
        exact[1] &= one.greatest_is_exact
    if not bounds:
        return ColumnStatistics(nulls=nulls, nans=0)
    ends = pc.min_max(pa.array(bounds, column.type))
    nans = None if pa.types.is_floating(column.type) else 0
    return ColumnStatistics(ends["min"], ends["max"], nulls, nans, *exact)


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
