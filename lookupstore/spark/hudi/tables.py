"""What stands for a Hudi table where Spark is given one, and the table as it is now."""

from __future__ import annotations

import os

from lookupstore.hudi import HudiTable
from lookupstore.hudi.view import TableView
from lookupstore.storage.location import Location

Table = HudiTable | str | os.PathLike[str] | Location


def location_of(table: Table) -> Location:
    """Return where a table is."""
    if isinstance(table, HudiTable):
        return table.location
    return table if isinstance(table, Location) else Location(table)


def view_of(table: Table) -> TableView:
    """Return a table as it is now, for the queries that it was opened for."""
    return (table if isinstance(table, HudiTable) else HudiTable.open(table)).view()
