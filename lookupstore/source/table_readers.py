"""Find the module that reads tables of a format.

A source may be such a table. The module that reads it imports sources itself, and needs an extra.
Therefore it is imported by name.
"""

from __future__ import annotations

import importlib
from typing import Any

from lookupstore.source.source import Source
from lookupstore.source.table_folders import TableFormat

_READERS = {
    TableFormat.HUDI: "lookupstore.hudi.read.snapshot",
    TableFormat.DELTA: "lookupstore.tables.delta",
    TableFormat.ICEBERG: "lookupstore.tables.iceberg.planner",
    TableFormat.PAIMON: "lookupstore.tables.paimon.planner",
}
_COMMITS = {
    TableFormat.DELTA: "lookupstore.tables.delta_commits",
    TableFormat.ICEBERG: "lookupstore.tables.iceberg.commits",
    TableFormat.PAIMON: "lookupstore.tables.paimon.commits",
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


def table_commits(
    table_format: TableFormat, given: Any, *, version: int | None = None, as_of: Any = None
) -> Any:
    """Open a table, as `lookupstore.tables.commits.TableCommits`.

    Args:
        table_format: Format of the table, which is not Hudi.
        given: Path of the table, or an object of the library of its format.
        version: Number of the version or snapshot to open. None: not given.
        as_of: Time of it. None: not given.

    Raises the errors of `table_reader`, of opening the table, and of
    `lookupstore.tables.commits.chosen`.
    """
    commits = importlib.import_module(_COMMITS[table_format]).table_commits(given)
    return importlib.import_module("lookupstore.tables.commits").chosen(commits, version, as_of)


def commit_source(commits: Any) -> Source:
    """Return the rows of a table as it was opened.

    Args:
        commits: The table, as `table_commits` returns it.

    Raises the errors of `lookupstore.tables.rows.snapshot_source`.
    """
    rows = importlib.import_module("lookupstore.tables.rows")
    found: Source = rows.snapshot_source(commits.snapshot(commits.opened))
    return found
