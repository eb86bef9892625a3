"""Paths for Spark to read, with a check for paths of tables, which Spark would read as files."""

from __future__ import annotations

import itertools
import os
import posixpath
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote, urlsplit

from pyarrow import fs
from pyspark.sql import DataFrame, SparkSession

from lookupstore.errors import CorruptionError, FormatError
from lookupstore.source.folder_columns import is_as_spark_reads
from lookupstore.source.search import FoundFiles, FoundTable, find_source
from lookupstore.source.table_folders import (
    METADATA,
    TableFolder,
    TableFormat,
    TableSearch,
    table_error,
    tables_among,
    with_article,
)
from lookupstore.source.table_readers import READABLE
from lookupstore.spark.unread import SPARK_ERRORS
from lookupstore.storage.catalog_names import is_catalog_name
from lookupstore.storage.storage_options import takes_options, with_options
from lookupstore.storage.uris import open_uri, shown_uri

#: Characters that make a path a pattern in Spark.
PATTERN = frozenset("*?[]{}\\")

# Characters of patterns that only Spark interprets.
_ONLY_SPARK = frozenset("{}\\")


@dataclass(frozen=True)
class Reading:
    """The way in which Spark finds the same files at paths as every other reader.

    Attributes:
        files: Files that were found, with one entry for each given path. None: only Spark can find
            them.
        base: URI of the folder below which names of folders are columns. None: no folder names a
            column.
        table: Format of the one table whose folder or name the path is. None: it is not that of a
            table.
        table_path: That path, with the options of its URI. Empty: it is not that of a table.
        on_this_host: Whether all paths are local.
    """

    files: tuple[FoundFiles, ...] | None = None
    base: str | None = None
    table: TableFormat | None = None
    table_path: str = ""
    on_this_host: bool = False

    @property
    def local(self) -> Sequence[FoundFiles]:
        """Return the files if all of them are on this host, otherwise None."""
        return (self.files or ()) if self.on_this_host else ()

    @property
    def file_format(self) -> str | None:
        """Return the format of the files. None: only Spark can determine it."""
        return None if self.files is None else self.files[0].formats[0]

    @property
    def options(self) -> dict[str, str]:
        """Return the options of Spark's reader."""
        # Times in the names of folders have no zone.
        options = {"timeZone": "UTC"}
        if self.base is not None:
            # For a glob, Spark looks for columns from the end of the glob on.
            options["basePath"] = self.base
        elif any(one.base is not None for one in self.files or ()):
            # Spark reads folders below a path only if these have columns. It would then read a file
            # that is listed twice only once.
            options["recursiveFileLookup"] = "true"
        return options

    @property
    def texts(self) -> list[str]:
        """Return the columns of folders with only null values: text, since the type is unknown."""
        return [
            name
            for one in self.files or ()
            for name in one.columns.types
            if all(one.columns.texts(path)[name] is None for path in one.files)
        ]


def plan_reading(
    paths: Sequence[str],
    pinned: str | None = None,
    options: Mapping[str, Any] | None = None,
) -> Reading:
    """Plan how Spark reads paths, by the rules of `find_source`.

    Args:
        paths: The paths.
        pinned: Name of the argument that chooses a version of a table. None: the newest is read.
        options: Options of the URI of a table. Spark reads files with its own settings.

    Raises:
        FileNotFoundError: If a path names nothing, or has neither Parquet nor ORC below it.
        ValueError: If the files are of both formats, or a file is of neither.
        CorruptionError: If a file is empty.
        FormatError: If the paths are files of a table, or have tables below them, and the error
            names the line to write instead; or if Spark reads the names of their folders in another
            way.
    """
    found: list[FoundFiles] = []
    bases: set[str] = set()
    only_spark = False
    for path in paths:
        with_them = with_options(path, options) if takes_options(path) else path
        if is_catalog_name(path):
            return _table_alone(TableFormat.ICEBERG, with_them, paths)
        if with_them != path and (there := _table_at(with_them)) is not None:
            return _table_alone(there, with_them, paths)
        if not (_ONLY_SPARK.isdisjoint(_address(path)) and _can_open(path)):
            only_spark = True
            continue  # `check_files` checks the files that Spark finds
        try:
            those = find_source([path], tables=READABLE)
        except (FileNotFoundError, ValueError) as error:
            if PATTERN.isdisjoint(_address(path)):
                raise _of_argument(error) from None
            only_spark = True  # the pattern has another meaning in Spark
            continue
        if isinstance(those, FoundTable):
            return _table_alone(those.format, path, paths)
        found += those
        bases |= {uri_of(_fixed(path)) for one in those if one.columns.types}
    if pinned is not None:
        raise ValueError(
            f"{pinned} is given, but {shown_uri(paths[0])} names files, which have no versions; "
            "leave it out"
        )
    if only_spark:
        return Reading()
    _check_readable(found)
    if len(bases) > 1 or (bases and any(not one.columns.types for one in found)):
        raise ValueError(
            "df_or_path: Spark reads columns of folders below one folder at a time; give one path, "
            "or a DataFrame"
        )
    here = all("://" not in path or path.startswith("file:") for path in paths)
    return Reading(tuple(found), next(iter(bases), None), on_this_host=here)


def _table_alone(table_format: TableFormat, path: str, paths: Sequence[str]) -> Reading:
    """Return the reading of a table.

    Raises:
        FormatError: If there are other paths.
    """
    if len(paths) > 1:
        what = with_article(table_format.value)
        raise FormatError(f"df_or_path: {shown_uri(path)} is {what}; give it alone")
    return Reading(table=table_format, table_path=path)


def _table_at(uri: str) -> TableFormat | None:
    """Return the format of the table at a URI with options. None: Spark may find files there."""
    try:
        found = find_source([uri], tables=READABLE) if _can_open(uri) else None
    except (FileNotFoundError, ValueError):
        return None
    return found.format if isinstance(found, FoundTable) else None


def _of_argument(error: FileNotFoundError | ValueError) -> Exception:
    """Return an error about a source as one about the argument, with Spark's remedy."""
    if type(error) is not FileNotFoundError or not str(error).startswith("source: "):
        return error
    what = str(error).removeprefix("source: ")
    remedy = ""
    if "no file below it" in what:
        remedy = "; give the DataFrame that Spark reads of other files, as spark.read.json(...)"
    return FileNotFoundError(f"df_or_path: {what}{remedy}")


def _check_readable(found: Sequence[FoundFiles]) -> None:
    """Check that Spark reads files as they were found."""
    formats = {kind for one in found for kind in one.formats}
    if len(formats) > 1:
        raise ValueError("df_or_path mixes Parquet and ORC files; give files of one kind")
    for one in found:
        for info in one.infos:
            if info.size == 0:  # Spark skips it
                raise CorruptionError(info.path, 0, f"a file of {formats.pop()}", "no bytes")
        if not is_as_spark_reads(one.columns):
            raise FormatError(
                f"df_or_path: Spark reads letters other than ASCII that are escaped in the names "
                f"of folders, below {one.base}, as others; build with lookupstore.build, or give "
                "a DataFrame"
            )


def uri_of(path: str) -> str:
    """Return a local path as an absolute URI: Spark's default file system may be another."""
    return path if "://" in path else f"file://{os.path.abspath(path)}"


def _fixed(path: str) -> str:
    """Return a path up to its first part that is a pattern."""
    parts = _address(path).split("/")
    return "/".join(itertools.takewhile(PATTERN.isdisjoint, parts)) or "/"


def check_unseen(paths: Sequence[str], spark: SparkSession) -> None:
    """Check that paths that only Spark can open are neither tables nor inside of a table.

    Raises:
        FormatError: If one is. The error names the line to write instead.
    """
    for path in paths:
        if not _can_open(path):
            _check_by_spark(spark, _above_partitions([_fixed(path)]), [path])


def check_files(paths: Sequence[str], df: DataFrame) -> None:
    """Check that no file that Spark found belongs to a table, if only Spark listed files.

    Args:
        paths: Paths that Spark reads.
        df: DataFrame that Spark reads from them.

    Raises:
        FormatError: If one does. The error names the line to write instead.
    """
    unseen = [path for path in paths if not _can_open(path)]
    if unseen:
        folders = {unquote(posixpath.dirname(file)) for file in df.inputFiles()}
        _check_by_spark(df.sparkSession, _above_partitions(folders), unseen)
    patterns = [path for path in paths if not PATTERN.isdisjoint(_address(path))]
    if not patterns:
        return
    searches: dict[str, TableSearch] = {}
    for folder in sorted({posixpath.dirname(file) for file in df.inputFiles()}):
        uri = urlsplit(folder)
        root = f"{uri.scheme}://{uri.netloc}"
        if not _can_open(root):
            continue
        filesystem, base = _opened(root)
        search = searches.setdefault(root, TableSearch(filesystem))
        table = search.around(f"{base.rstrip('/')}{unquote(uri.path)}")
        if table is not None:
            shown = table.path if uri.scheme == "file" else f"{uri.scheme}://{table.path}"
            raise table_error(table, ", ".join(map(shown_uri, patterns)), shown)


def _check_by_spark(spark: SparkSession, folders: Iterable[str], paths: Sequence[str]) -> None:
    """Check that no folder is that of a table, from the files that Spark finds in it."""
    for folder in folders:
        table = _table_by_spark(spark, folder)
        if table is None:
            continue
        given, uri = ", ".join(map(shown_uri, paths)), shown_uri(folder)
        raise FormatError(
            f"df_or_path: {given} has files of the {table.format.value} {uri}, which only Spark "
            f"can reach; give a DataFrame: {table.format.spark_line.format(uri)}"
        )


def _above_partitions(folders: Iterable[str]) -> list[str]:
    """Return folders and the folders above them, without partitions."""
    found = set()
    for folder in folders:
        scheme, mark, path = folder.rstrip("/").partition("://")
        while path.count("/"):
            found.add(f"{scheme}{mark}{path}")
            path = posixpath.dirname(path)
    return sorted(folder for folder in found if "=" not in posixpath.basename(folder))


def _table_by_spark(spark: SparkSession, folder: str) -> TableFolder | None:
    marks = [
        found for mark, names in METADATA for found in _files(spark, f"{folder}/{mark}", names)
    ]
    return next(iter(tables_among(marks, folder)), None)


def _files(spark: SparkSession, folder: str, names: str) -> list[str]:
    """Return the files of a folder with names that match a pattern; [] if Spark may not list it."""
    found = spark.read.format("binaryFile").option("pathGlobFilter", names)
    try:
        return list(map(unquote, found.load(folder).inputFiles()))
    except SPARK_ERRORS:
        return []


def _address(path: str) -> str:
    return path.partition("?")[0] if "://" in path else path


def _can_open(path: str) -> bool:
    """Return whether pyarrow opens the file system of a path or URI like Spark."""
    if "://" not in path:
        return True
    try:
        filesystem, root = _opened(path)
        filesystem.get_file_info(root)
    except (ValueError, OSError):
        return False
    return True


def _opened(uri: str) -> tuple[fs.FileSystem, str]:
    if uri.startswith("file:"):
        return fs.LocalFileSystem(), unquote(urlsplit(uri).path)
    return open_uri(uri)
