"""What stands for a Hudi table where Spark is given one, and the table as it is now."""

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
    """Return the table that is given, or the one at a path, opened.

    Raises:
        ValueError: options of what is no URI.
        FileNotFoundError: there is no table.
        FormatError: it is of a kind that is not read.
    """
    (given,) = paths_with_options(storage_options, table=table)
    return given if isinstance(given, HudiTable) else HudiTable.open(given)


def view_of(table: Table, storage_options: Mapping[str, Any] | None = None) -> TableView:
    """Return a table as it is now, for the queries that it was opened for."""
    return table_of(table, storage_options).view()
