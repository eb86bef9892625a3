"""Find the module that reads tables of a format.

A source may be such a table. The module that reads it imports sources itself, and needs an extra.
Therefore it is imported by name.
"""

from __future__ import annotations

import importlib
from typing import Any

from lookupstore.source.table_folders import TableFormat

_READERS = {
    TableFormat.HUDI: "lookupstore.hudi.read.snapshot",
    TableFormat.DELTA: "lookupstore.tables.delta",
    TableFormat.ICEBERG: "lookupstore.tables.iceberg",
    TableFormat.PAIMON: "lookupstore.tables.paimon.planner",
}
#: Formats of the tables that are read by their paths.
READABLE = tuple(_READERS)


def table_reader(table_format: TableFormat) -> Any:
    """Return the module with `table_source` for a table format.

    That of Hudi has `table_files` as well; those of others have `table_snapshot`.

    Raises:
        ImportError: If a package that the module needs is not installed. The error names the extra.
    """
    return importlib.import_module(_READERS[table_format])
