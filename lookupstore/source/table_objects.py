"""Open tables of deltalake and pyiceberg as sources, and tables at one of their commits."""

from __future__ import annotations

import os
import sys
from typing import Any

from lookupstore.source.search import FoundTable, find_source, path_of, shown_path
from lookupstore.source.source import Source, type_name, with_checked_texts
from lookupstore.source.table_folders import TableFormat
from lookupstore.source.table_readers import READABLE, commit_source, table_commits, table_reader
from lookupstore.storage.location import Location


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


def source_at(source: Any, *, version: int | None, as_of: Any) -> Source:
    """Return a table at one of its commits as a source; see `commits_at`."""
    return with_checked_texts(commit_source(commits_at(source, version=version, as_of=as_of)))


def commits_at(source: Any, *, version: int | None, as_of: Any) -> Any:
    """Return a table opened at one of its commits, as `lookupstore.tables.commits.TableCommits`.

    Args:
        source: Folder or URI of the table, or an object of the library of its format.
        version: Number of a version or snapshot. None: not given.
        as_of: Time of it. None: not given.

    Raises:
        ValueError: If `source` has no commits to choose, or there is no such commit.

    Also raises the errors of `table_commits`.
    """
    table_format, given = library_format(source), source
    if table_format is None:
        argument = "as_of" if version is None else "version"
        if not isinstance(source, (str, os.PathLike, Location)):
            raise ValueError(
                f"{argument} is given, but source is {type_name(source)}, which has no versions; "
                "leave it out"
            )
        given = path_of(source)
        found = find_source([given], tables=READABLE)
        if not isinstance(found, FoundTable) or found.format is TableFormat.HUDI:
            raise no_commit_error(argument, found, shown_path(given))
        table_format, given = found.format, found.path
    return table_commits(table_format, given, version=version, as_of=as_of)


def no_commit_error(argument: str, found: object, uri: str) -> ValueError:
    """Return the error for an argument that chooses a commit where there is none to choose.

    Args:
        argument: Name of the argument.
        found: What was found at the path: a Hudi table, or files.
        uri: Path or URI for people.
    """
    if isinstance(found, FoundTable):
        return ValueError(
            f"{argument} is given, but {uri} is a Hudi table; look keys up in "
            f"lookupstore.hudi.TableLookup({uri!r}, as_of=...), or pass the rows of "
            f"HudiTable.open({uri!r}).scan(as_of=...)"
        )
    return ValueError(
        f"{argument} is given, but {uri} names files, which have no versions; leave it out"
    )
