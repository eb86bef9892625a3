"""Bounds of columns in Java's metadata table, as statistics for scans.

Only types that Java stores in a single form are used, without floats and decimals: bounds of floats
may leave out NaN, and decimals are bytes without their scale.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from typing import Any

import pyarrow as pa

from lookupstore.hudi.file_group.groups import FileSlice
from lookupstore.hudi.layout import FileStatistics, TableStatistics, quarantined
from lookupstore.hudi.metadata.column_stats import FileColumn, read_column_stats
from lookupstore.hudi.metadata.group_files import TIMELINE
from lookupstore.hudi.options import COLUMN_STATS, TableOptions
from lookupstore.hudi.timeline.timeline import TimelineFolder
from lookupstore.parquet.column_statistics import ColumnStatistics
from lookupstore.storage.location import Location


def java_statistics(
    location: Location,
    options: TableOptions,
    pending: Collection[str],
    columns: pa.Schema,
    files: Sequence[FileSlice],
) -> TableStatistics | None:
    """Return statistics of files from Java's metadata table. None: there are none.

    Args:
        location: Location of the table.
        options: Options of the table.
        pending: Request times of pending writes.
        columns: Schema of the columns.
        files: Base files to return statistics of.

    Raises:
        CorruptionError: If a file of the metadata table is damaged or missing.
        FormatError: If Hudi does not write files of this kind to a metadata table.
        OSError: If a file of the metadata table cannot be read.
    """
    # Log files of versions 6 and 10 have other names.
    if COLUMN_STATS not in options.metadata_partitions or options.version not in (8, 9):
        return None
    wanted = pa.schema([one for one in columns if _has_one_form(one.type)])
    if not wanted.names:
        return None
    folder = TimelineFolder(location, TIMELINE, options.version)
    said = read_column_stats(location, pending, folder, wanted.names)
    times = Counter(file.name for file in files)
    wrong = quarantined(location)
    known = []
    for file in files:
        found = {name: said[file.name, name] for name in wanted.names if (file.name, name) in said}
        rows = {one.values for one in found.values()}
        if len(rows) == 1 and times[file.name] == 1 and file.path not in wrong:
            bounds = {name: _column(one, wanted.field(name).type) for name, one in found.items()}
            known.append(FileStatistics(file.path, file.bytes, rows.pop(), bounds))
    return TableStatistics.of(known, wanted)


def _column(said: FileColumn, kind: pa.DataType) -> ColumnStatistics:
    least, greatest = _bound(said.least, kind), _bound(said.greatest, kind)
    if least is None or greatest is None:
        least = greatest = None
    return ColumnStatistics(least, greatest, said.nulls, 0)


def _has_one_form(kind: pa.DataType) -> bool:
    types = pa.types
    return bool(
        types.is_boolean(kind)
        or types.is_int32(kind)
        or types.is_int64(kind)
        or types.is_date32(kind)
        or (types.is_timestamp(kind) and kind.unit == "us")
        or types.is_string(kind)
        or types.is_binary(kind)
    )


def _bound(value: Any, kind: pa.DataType) -> pa.Scalar | None:
    """Return a bound in the type of its column; None if missing, or of another type."""
    types = pa.types
    if types.is_boolean(kind):
        wanted: type = bool
    elif types.is_string(kind):
        wanted = str
    elif types.is_binary(kind):
        wanted = bytes
    else:
        wanted = int
    if type(value) is not wanted:
        return None
    stored = pa.int32() if types.is_date32(kind) else pa.int64() if wanted is int else kind
    try:
        return pa.scalar(value, stored).cast(kind)
    except (pa.ArrowException, OverflowError):
        return None
