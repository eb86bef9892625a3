"""What is known of columns of the files of a table: from its statistics, else from footers."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from lookupstore.hudi.file_group.groups import FileSlice
from lookupstore.hudi.layout.statistics.column_bounds import ColumnBounds
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
    """Return what is known of columns of files, in their order.

    No file is opened for a column that the table has statistics of; for others, footers are read.

    Args:
        view: of the table.
        files: of the table.
        names: of the columns; None: those that the table has statistics of, else the first ones
            whose values have an order.

    Raises:
        KeyError: the table does not have a column.
        TypeError: the values of a column have no order.
        CorruptionError: a base file is damaged.
        StaleStoreError: a base file is gone.
        OSError: a base file could not be read.
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
