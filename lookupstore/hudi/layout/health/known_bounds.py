"""Find the bounds of columns in each file of a table."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from lookupstore.filters.column_bounds import ColumnBounds
from lookupstore.hudi.file_group.groups import FileSlice
from lookupstore.hudi.layout.statistics.file_statistics import (
    footer_statistics,
    has_bounds,
    most_columns,
)
from lookupstore.hudi.layout.statistics.keeping import MOST_COLUMNS, pending_writes, statistics_of
from lookupstore.hudi.layout.statistics.table_statistics import TableStatistics
from lookupstore.hudi.layout.statistics.usable import usable_statistics
from lookupstore.hudi.view import TableView


def known_bounds(
    view: TableView, files: Sequence[FileSlice], names: Sequence[str] | None
) -> dict[str, ColumnBounds]:
    """Return the bounds of columns in files, by the name of the column.

    Statistics of the table are used for columns that have them. For the others, the footers of the
    files are read.

    Args:
        view: View of the table.
        files: Base files of the table; bounds are in this order.
        names: Names of the columns. Default: the first 32 columns that the table keeps statistics
            of, or, if it keeps none, the first 32 columns with an order.

    Raises:
        KeyError: If the table does not have a column.
        TypeError: If the values of a column have no order.
        CorruptionError: If the timeline or a base file is damaged.
        FormatError: If a base file is encrypted, or has columns in other files.
        StaleStoreError: If a base file was deleted.
        OSError: If a base file cannot be read.
    """
    statistics, _ = usable_statistics(view.location, pending_writes(view), "footers are read")
    columns = _columns(view, names, statistics)
    collected = {} if statistics is None else statistics.in_types(columns)
    missing = pa.schema([one for one in columns if one.name not in collected])
    found = {}
    if statistics is not None:
        rows = statistics.rows_of(files)
        found = {name: one.take(rows) for name, one in collected.items()}
    if len(missing):
        footers = statistics_of(view.location, files, missing, footer_statistics)
        found |= {name: footers.bounds(name) for name in missing.names}
    return {name: found[name] for name in columns.names}


def _columns(
    view: TableView, names: Sequence[str] | None, statistics: TableStatistics | None
) -> pa.Schema:
    if names is None:
        columns = view.table_schema.columns
        if statistics is not None:
            kept = statistics.columns.names
            columns = pa.schema([one for one in columns if one.name in kept])
        return most_columns(columns, None, MOST_COLUMNS)
    wanted = pa.schema([view.schema.field(name) for name in dict.fromkeys(view.names(names))])
    for one in wanted:
        if not has_bounds(one.type):
            raise TypeError(f"columns: no bounds are kept of {one.name!r}, which is {one.type}")
    return wanted
