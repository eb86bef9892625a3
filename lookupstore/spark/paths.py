"""Paths that Spark is to read: whether they are a table's, which Spark would read file by file."""

from __future__ import annotations

import itertools
import posixpath
from collections.abc import Iterable, Sequence
from urllib.parse import unquote, urlsplit

from py4j.protocol import Py4JError
from pyarrow import fs
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from lookupstore.errors import FormatError
from lookupstore.source.search import FoundTable, find_source
from lookupstore.source.table_folders import (
    METADATA,
    TableFolder,
    TableSearch,
    table_error,
    tables_among,
)
from lookupstore.storage.uris import open_uri, shown_uri

#: What makes a path a pattern for Spark.
PATTERN = frozenset("*?[]{}\\")

# What only Spark knows of these.
_ONLY_SPARK = frozenset("{}\\")


def is_table(paths: Sequence[str]) -> bool:
    """Return whether paths are the folder of one Hudi table.

    Raises:
        FormatError: they are files of a table, or have tables below them; the error names the line
            to write instead.
    """
    for path in paths:
        if not (_ONLY_SPARK.isdisjoint(_address(path)) and _can_open(path)):
            continue  # `check_files` looks at what Spark finds
        try:
            found = find_source([path])
        except (FileNotFoundError, ValueError):  # Spark reads other files, too
            continue
        if isinstance(found, FoundTable):
            if len(paths) > 1:
                raise FormatError(f"df_or_path: {shown_uri(path)} is a Hudi table; give it alone")
            return True
    return False


def check_unseen(paths: Sequence[str], spark: SparkSession) -> None:
    """Check that what only Spark can open is neither a table nor inside of one.

    Raises:
        FormatError: it is; the error names the line to write instead.
    """
    for path in paths:
        if not _can_open(path):
            whole = _address(path).split("/")
            named = itertools.takewhile(lambda part: PATTERN.isdisjoint(part), whole)
            _check_by_spark(spark, _above_partitions(["/".join(named)]), [path])


def check_files(paths: Sequence[str], df: DataFrame) -> None:
    """Check that none of the files that Spark found is a table's, where nobody else has looked.

    Args:
        paths: that Spark reads.
        df: what it reads from them.

    Raises:
        FormatError: one is; the error names the line to write instead.
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
    """Check that no folder is a table's, by what Spark finds in it."""
    for folder in folders:
        table = _table_by_spark(spark, folder)
        if table is None:
            continue
        given, uri, name = ", ".join(map(shown_uri, paths)), shown_uri(folder), table.format.value
        raise FormatError(
            f"df_or_path: {given} has files of the {name} table {uri}, which only Spark can reach; "
            f"give a DataFrame: spark.read.format({name.lower()!r}).load({uri!r})"
        )


def _above_partitions(folders: Iterable[str]) -> list[str]:
    """Return folders and those above them, of which partitions are left out."""
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
    """Return the files of a folder whose names match a pattern; none if Spark may not look."""
    found = spark.read.format("binaryFile").option("pathGlobFilter", names)
    try:
        return list(map(unquote, found.load(folder).inputFiles()))
    except (PySparkException, Py4JError):
        return []


def _address(path: str) -> str:
    return path.partition("?")[0] if "://" in path else path


def _can_open(path: str) -> bool:
    """Return whether pyarrow opens what a path or URI is on, as Spark does."""
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
