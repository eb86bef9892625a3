"""Paths that Spark is to read: whether they are a table's, which Spark would read file by file."""

from __future__ import annotations

import logging
import posixpath
from collections.abc import Sequence
from urllib.parse import unquote, urlsplit

from pyarrow import fs
from pyspark.sql import DataFrame

from lookupstore.errors import FormatError
from lookupstore.file_search import FoundTable, find_source
from lookupstore.read_errors import is_local
from lookupstore.table_folders import TableSearch, table_error
from lookupstore.uris import open_uri, shown_uri

#: What makes a path a pattern for Spark.
PATTERN = frozenset("*?[]{}\\")

# What only Spark knows of these.
_ONLY_SPARK = frozenset("{}\\")
# A column of each base file of a Hudi table.
_HUDI_COLUMN = "_hoodie_record_key"

_log = logging.getLogger(__name__)


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


def check_files(paths: Sequence[str], df: DataFrame) -> None:
    """Check that none of the files that Spark found by patterns is a table's.

    Raises:
        FormatError: one is; the error names the line to write instead.
    """
    for path in paths:
        if not _can_open(path):
            if _HUDI_COLUMN in df.columns:
                raise FormatError(
                    f"df_or_path: {shown_uri(path)} has files of a Hudi table, and is where only "
                    "Spark can read; give a DataFrame: "
                    f"spark.read.format('hudi').load({shown_uri(path)!r})"
                )
            _log.warning(
                "%s: only Spark opens it, so nobody has looked whether its files are a table's",
                shown_uri(path),
            )
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
            shown = table.path if is_local(filesystem) else f"{uri.scheme}://{table.path}"
            raise table_error(table, ", ".join(map(shown_uri, patterns)), shown)


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
