"""The columnar files that a source names: files at paths, or the data files of a table."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

import pyarrow as pa

from lookupstore.columnar.evolution import agreeing_schema, common_schema
from lookupstore.columnar.file_filter import FileFilter
from lookupstore.columnar.listed_files import ListedFiles
from lookupstore.columnar.ruled_out import that_may_match
from lookupstore.columnar.source_file import SourceFile, source_files
from lookupstore.columnar.table_files import (
    latest_files,
    needed_names,
    position_name,
    table_data_files,
)
from lookupstore.errors import listed
from lookupstore.filters import Filter
from lookupstore.filters.row_filter import row_filter
from lookupstore.source.search import FoundTable, Path, find_source, path_of, shown_path
from lookupstore.source.table_folders import TableFormat
from lookupstore.source.table_objects import library_format, no_commit_error
from lookupstore.source.table_readers import READABLE, table_commits, table_reader
from lookupstore.storage.location import Location
from lookupstore.storage.storage_options import paths_with_options
from lookupstore.tables.commits import TableCommits

Given = str | os.PathLike[str] | Location | Sequence[str | os.PathLike[str] | Location] | Any


@dataclass(frozen=True)
class NamedTable:
    """A table whose data files are named, commit by commit.

    Attributes:
        format: Format of the table.
        commits: The commits of the table.
        uri: Path or URI of the table for people. Empty: it was given as an object.
    """

    format: TableFormat
    commits: TableCommits
    uri: str = ""

    def files(
        self,
        position: str,
        key: Sequence[str],
        where: Filter | None,
        latest_partition: str | None,
    ) -> NamedFiles:
        """Return the data files of a commit.

        Args:
            position: Position of the commit.
            key: Names of the key columns.
            where: Condition that rows must meet. None: all rows count.
            latest_partition: Partition column of which only the greatest value is read. None: all.

        Raises the errors of `ColumnarFiles`.
        """
        snapshot = self.commits.snapshot(position)
        if latest_partition is not None:
            snapshot = latest_files(snapshot, latest_partition)
        if where is not None:
            snapshot = snapshot.where(row_filter(where, snapshot.schema))
        files = table_data_files(snapshot, key[0])
        return NamedFiles(
            self.uri or snapshot.description,
            snapshot.schema,
            files,
            f"the table has [{listed(snapshot.schema.names)}]",
            self,
            position,
            table=self.format.value,
            decided_by=needed_names(files),
            position_column=position_name(snapshot),
            fingerprint=snapshot.fingerprint,
        )


#: What names files again, as they are later: a table, or paths.
Origin: TypeAlias = "NamedTable | Sequence[Path]"


@dataclass(frozen=True)
class NamedFiles:
    """The columnar files that a source names.

    Attributes:
        uri: Path or URI of the source for people.
        schema: Columns that can be asked for.
        files: The files.
        known: Columns that there are, for errors about others.
        origin: What names the files again.
        commit: Position of the commit of a table that has the files. Empty: the files have none.
        table: Format of the table of the files. None: they belong to no table.
        decided_by: Columns that decide which rows count.
        position_column: Name of the column of positions in lookup files, by which rows of a table
            are deleted. None: they need no such column.
        fingerprint: Text that changes whenever other rows of the files count.
        listed: Time before the files at paths were listed, in seconds since 1970.
        read: The files at paths without the condition, also those that it excludes.
    """

    uri: str
    schema: pa.Schema
    files: Sequence[SourceFile]
    known: str
    origin: Origin = field(repr=False)
    commit: str = ""
    table: str | None = None
    decided_by: Sequence[str] = ()
    position_column: str | None = None
    fingerprint: str = ""
    listed: float = 0.0
    read: Sequence[SourceFile] = ()


def named_files(
    source: Given,
    key: Sequence[str],
    wanted: Sequence[str] | None,
    where: Filter | None,
    *,
    latest_partition: str | None,
    version: int | None = None,
    as_of: Any = None,
    storage_options: Mapping[str, Any] | None = None,
    known: ListedFiles | None = None,
) -> NamedFiles:
    """Return the columnar files that a source names.

    Args:
        source: Source, as `ColumnarFiles` takes it.
        key: Names of the key columns.
        wanted: Names of the columns that count. None: all.
        where: Condition that rows must meet. None: all rows count.
        latest_partition: Partition column of which only the greatest value is read. None: all.
        version: Number of the version or snapshot of a table. None: that of the source.
        as_of: Time of the snapshot of a table. None: that of the source.
        storage_options: Options of the URIs.
        known: Files at the paths that need not be read again. None: none are known.

    Raises the errors of `ColumnarFiles`.
    """
    listed_at = time.time()
    table_format = library_format(source)
    if table_format is not None and storage_options is not None:
        raise ValueError(
            f"storage_options is given with a {table_format.value} that is open; open the "
            "table with its options"
        )
    if table_format is not None:
        commits = table_commits(table_format, source, version=version, as_of=as_of)
        table = NamedTable(table_format, commits)
        return table.files(commits.opened, key, where, latest_partition)
    (source,) = paths_with_options(storage_options, source=source)
    paths = given_paths(source)
    found = find_source(paths, tables=READABLE)
    uri = shown_path(paths[0])
    if isinstance(found, FoundTable) and found.format is not TableFormat.HUDI:
        commits = table_commits(found.format, found.path, version=version, as_of=as_of)
        table = NamedTable(found.format, commits, shown_path(found.path))
        return table.files(commits.opened, key, where, latest_partition)
    if version is not None or as_of is not None:
        table_format = found.format if isinstance(found, FoundTable) else None
        raise no_commit_error("as_of" if version is None else "version", table_format, uri)
    if not isinstance(found, FoundTable):
        if known is not None:
            found = known.without_young(found)
        files: Sequence[SourceFile] = source_files(
            found,
            latest_partition=latest_partition,
            known=None if known is None else known.as_it_was,
        )
        those = [(file.uri, file.schema) for file in files]
        names = f"the first one has [{listed(files[0].schema.names)}]"
        named = NamedFiles(
            uri, common_schema(those, wanted), files, names, paths, listed=listed_at, read=files
        )
        return named if where is None else _filtered(named, where, agreeing_schema(those))
    read = table_reader(TableFormat.HUDI).table_files
    schema, files = read(found.path, latest_partition=latest_partition)
    # In files that are older than a key column, that column is null in all rows.
    files = [file for file in files if set(key) <= set(file.schema.names)]
    names = f"the table has [{listed(schema.names)}]"
    named = NamedFiles(uri, schema, files, names, paths, table=found.format.value)
    return named if where is None else _filtered(named, where, schema)


def _filtered(named: NamedFiles, where: Filter, columns: pa.Schema) -> NamedFiles:
    """Return files with only the rows that meet a condition.

    Args:
        named: The files.
        where: The condition.
        columns: Columns that it may name.
    """
    condition = row_filter(where, columns)
    chosen = FileFilter(condition, pa.schema([columns.field(name) for name in condition.names]))
    files = that_may_match(named.files, condition, columns)
    return replace(
        named,
        files=[replace(file, filter=chosen) for file in files],
        decided_by=condition.names,
        fingerprint=chosen.identity,
    )


def given_paths(source: object, argument: str = "source") -> list[Path]:
    """Return the paths in an argument.

    Raises:
        TypeError: If the argument is neither a path nor a list of paths.
    """
    if isinstance(source, (str, os.PathLike, Location)):
        return [path_of(source)]
    paths = list(source) if isinstance(source, (list, tuple)) else []
    if paths and all(isinstance(one, (str, os.PathLike, Location)) for one in paths):
        return [path_of(one) for one in paths]
    raise TypeError(
        f"{argument} is {type(source).__name__}; give a path, URI, glob or folder of Parquet or "
        "ORC files, or a list of these; for a HudiTable, give its path; for rows in memory, use "
        "lookupstore.build"
    )
