"""Objects accepted as a Hudi table in Spark, and the current state of the table."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from lookupstore.hudi import HudiTable
from lookupstore.hudi.view import TableView
from lookupstore.storage.location import Location
from lookupstore.storage.storage_options import paths_with_options

Table = HudiTable | str | os.PathLike[str] | Location


def table_of(table: Table, storage_options: Mapping[str, Any] | None = None) -> HudiTable:
    """Return the given table, or open the one at a path.

    Raises:
        ValueError: If options are given for a table or path that is not a URI.
        FileNotFoundError: If there is no table.
        FormatError: If the table is of an unsupported kind.
    """
    (given,) = paths_with_options(storage_options, table=table)
    return given if isinstance(given, HudiTable) else HudiTable.open(given)


def view_of(table: Table, storage_options: Mapping[str, Any] | None = None) -> TableView:
    """Return a table in its current state, with the query type for which it was opened."""
    return table_of(table, storage_options).view()
