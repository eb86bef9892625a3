"""Open tables of deltalake and pyiceberg as sources."""

from __future__ import annotations

import sys
from typing import Any

from lookupstore.source.source import Source
from lookupstore.source.table_folders import TableFormat
from lookupstore.source.table_readers import table_reader


def library_table(given: Any) -> Source | None:
    """Return a table of deltalake, or a table or scan of pyiceberg, as a source.

    None: The value is of another kind.

    Raises:
        FormatError: If the table has something that is not supported; the error names it.
    """
    table_format = library_format(given)
    return None if table_format is None else opened_table(table_format, given)


def library_format(given: Any) -> TableFormat | None:
    """Return the format of a table of deltalake, or of a table or scan of pyiceberg.

    None: The value is of another kind.
    """
    deltalake = sys.modules.get("deltalake")
    if deltalake is not None and isinstance(given, deltalake.DeltaTable):
        return TableFormat.DELTA
    iceberg = sys.modules.get("pyiceberg.table")
    if iceberg is not None and isinstance(given, (iceberg.Table, iceberg.DataScan)):
        return TableFormat.ICEBERG
    return None


def opened_table(table_format: TableFormat, given: Any) -> Source:
    """Return a table as a source.

    Args:
        table_format: Format of the table.
        given: Path of the table, or an object of the library of its format.
    """
    source: Source = table_reader(table_format).table_source(given)
    return source
