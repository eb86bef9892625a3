"""The kind of a path that may name any kind of object; no other module decides it."""

from __future__ import annotations

import os
from enum import Enum

from lookupstore.source.search import FoundTable, find_source, format_at, names_files, path_of
from lookupstore.source.table_folders import TableFormat
from lookupstore.source.table_readers import READABLE
from lookupstore.storage.catalog_names import is_catalog_name
from lookupstore.storage.home import expanded
from lookupstore.storage.location import Location, as_location
from lookupstore.store.version_files import list_names


class PathKind(Enum):
    """The kinds of objects that answer lookups."""

    STORE = "store"
    HUDI_TABLE = "Hudi table"
    COLUMNAR_FILES = "columnar files"  # also those of a Delta or Iceberg table
    SORTED_FILE = "sorted file"


def kind_of(path: str | os.PathLike[str] | Location) -> PathKind:
    """Return the kind of a path, URI or location; `STORE` if no kind is found.

    Raises:
        FormatError: If the path names files of a table that is not read as one, or only some files
            of a table; the error names the line to write instead.

    >>> kind_of("s3://bucket/users/*.parquet")
    <PathKind.COLUMNAR_FILES: 'columnar files'>
    """
    given = path_of(path)
    text = expanded(given) if isinstance(given, str) else given.given[0]
    if is_catalog_name(text):
        return PathKind.COLUMNAR_FILES
    if names_files(text) and not os.path.isdir(text):
        return PathKind.COLUMNAR_FILES
    location = as_location(given if isinstance(given, Location) else text)
    if list_names(location):
        return PathKind.STORE
    if location.is_file():
        is_columnar = format_at(*location.resolve("")) is not None
        return PathKind.COLUMNAR_FILES if is_columnar else PathKind.SORTED_FILE
    try:
        found = find_source([given if isinstance(given, Location) else text], tables=READABLE)
    except FileNotFoundError:
        return PathKind.STORE
    is_hudi = isinstance(found, FoundTable) and found.format is TableFormat.HUDI
    return PathKind.HUDI_TABLE if is_hudi else PathKind.COLUMNAR_FILES
