"""Open tables of the libraries of table formats, and tables at one of their commits."""

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
    """Return a table of deltalake or pypaimon, or a table or scan of pyiceberg, as a source.

    None: The value is of another kind.

    Raises:
        FormatError: If the table has something that is not supported; the error names it.
    """
    table_format = library_format(given)
    return None if table_format is None else opened_table(table_format, given)


def library_format(given: Any) -> TableFormat | None:
    """Return the format of a table of deltalake or pypaimon, or of a table or scan of pyiceberg.

    None: The value is of another kind.
    """
    deltalake = sys.modules.get("deltalake")
    if deltalake is not None and isinstance(given, deltalake.DeltaTable):
        return TableFormat.DELTA
    iceberg = sys.modules.get("pyiceberg.table")
    if iceberg is not None and isinstance(given, (iceberg.Table, iceberg.DataScan)):
        return TableFormat.ICEBERG
    paimon = sys.modules.get("pypaimon.table.file_store_table")
    if paimon is not None and isinstance(given, paimon.FileStoreTable):
        return TableFormat.PAIMON
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
    """Return a table at one of its commits as a source.

    The arguments and errors are those of `commits_at`, but the table may be a Hudi table at a time.
    """
    table_format, given = _table_at(source, "as_of" if version is None else "version")
    if table_format is not TableFormat.HUDI:
        commits = table_commits(table_format, given, version=version, as_of=as_of)
        return with_checked_texts(commit_source(commits))
    if version is not None:
        raise ValueError(
            f"version is given, but {shown_path(given)} is a Hudi table, whose commits have times; "
            "give the time of an instant as as_of"
        )
    return with_checked_texts(table_reader(table_format).source_as_of(given, as_of))


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
    argument = "as_of" if version is None else "version"
    table_format, given = _table_at(source, argument)
    if table_format is TableFormat.HUDI:
        raise no_commit_error(argument, table_format, shown_path(given))
    return table_commits(table_format, given, version=version, as_of=as_of)


def _table_at(source: Any, argument: str) -> tuple[TableFormat, Any]:
    """Return the format of a table, and its path or object.

    Args:
        source: Folder or URI of the table, or an object of the library of its format.
        argument: Name of the argument that chooses a commit.

    Raises:
        ValueError: If it is something else, which has no commits.
    """
    table_format = library_format(source)
    if table_format is not None:
        return table_format, source
    if not isinstance(source, (str, os.PathLike, Location)):
        raise ValueError(
            f"{argument} is given, but source is {type_name(source)}, which has no versions; "
            "leave it out"
        )
    given = path_of(source)
    found = find_source([given], tables=READABLE)
    if not isinstance(found, FoundTable):
        raise no_commit_error(argument, None, shown_path(given))
    return found.format, found.path


def no_commit_error(argument: str, found: TableFormat | None, uri: str) -> ValueError:
    """Return the error for an argument that chooses a commit where there is none to choose.

    Args:
        argument: Name of the argument.
        found: Format of the table at the path, which is Hudi. None: files are there.
        uri: Path or URI for people.
    """
    if found is not None:
        return ValueError(
            f"{argument} is given, but {uri} is a Hudi table; look keys up in "
            f"lookupstore.hudi.TableLookup({uri!r}, as_of=...), or pass the rows of "
            f"HudiTable.open({uri!r}).scan(as_of=...)"
        )
    return ValueError(
        f"{argument} is given, but {uri} names files, which have no versions; leave it out"
    )
