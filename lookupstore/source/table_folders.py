"""Recognise the folders of tables and their formats, by their metadata.

The files of a table contain more than its current rows: replaced and deleted rows are kept as long
as a reader may need them. Only the metadata of the table lists the current files.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import Enum

from pyarrow import fs

from lookupstore.errors import FormatError
from lookupstore.storage.catalog_names import FORM
from lookupstore.storage.trees import answers

# Number of concurrent requests to an object store.
_THREADS = 16

_HUDI = ".hoodie"
_HUDI_FILES = tuple(f"{_HUDI}/hoodie.properties{suffix}" for suffix in ("", ".backup"))
_DELTA = "_delta_log"
_SINK = "_spark_metadata"
_PAIMON = "snapshot"
_PAIMON_SCHEMA = "schema"
_PAIMON_FILES = {
    _PAIMON: re.compile(r"snapshot-\d+|LATEST|EARLIEST"),
    _PAIMON_SCHEMA: re.compile(r"schema-\d+"),
}
_ICEBERG = "metadata"
_ICEBERG_FILE = re.compile(r"v?(\d+)\b.*\.metadata\.json(?:\.gz)?")
# Of a table without a catalog, whose newest file of this kind is its current state.
_ICEBERG_VERSION = re.compile(r"v\d+(?:\.gz)?\.metadata\.json(?:\.gz)?")
_MARKS = (_HUDI, _DELTA, _ICEBERG, _PAIMON, _SINK)

#: Names of the metadata folders of tables, each with a pattern of the names in it.
METADATA = (
    (_HUDI, "*.properties*"),
    (_DELTA, "*.json"),
    (_ICEBERG, "*.metadata.json*"),
    (_PAIMON, "snapshot-*"),
    (_PAIMON_SCHEMA, "schema-*"),
    (_SINK, "[0-9]*"),
)


class TableFormat(Enum):
    """The table formats that are recognised by their folders, with their common names."""

    HUDI = "Hudi table"
    DELTA = "Delta table"
    ICEBERG = "Iceberg table"
    PAIMON = "Paimon table"
    SINK = "sink of a Spark stream"

    @property
    def spark_line(self) -> str:
        """Return the line of code that reads it with Spark, with a placeholder."""
        if self is TableFormat.SINK:
            return "spark.read.parquet({!r})"
        return f"spark.read.format({self.value.split()[0].lower()!r}).load({{!r}})"


@dataclass(frozen=True)
class TableFolder:
    """The folder of a table.

    Attributes:
        format: Format of the table.
        path: Path of the folder on its file system.
        newest: Name of the newest metadata file of an Iceberg table, relative to the folder. Empty
            for other formats.
    """

    format: TableFormat
    path: str
    newest: str = ""

    @property
    def says_its_state(self) -> bool:
        """Return whether the folder tells what the current state of the table is.

        A catalog tells it of most Iceberg tables; a newer file in the folder may have failed to be
        committed.

        Source: "File System Tables" in the specification of Iceberg.
        """
        name = posixpath.basename(self.newest)
        return self.format is not TableFormat.ICEBERG or bool(_ICEBERG_VERSION.fullmatch(name))

    def has(self, path: str) -> bool:
        """Return whether a path is the folder, or inside it."""
        return path == self.path or path.startswith(f"{self.path.rstrip('/')}/")


class TableSearch:
    """A search for the table that a folder belongs to, which lists each folder once.

    Args:
        filesystem: File system of the folders.
    """

    def __init__(self, filesystem: fs.FileSystem) -> None:
        self._filesystem = filesystem
        self._known: dict[str, TableFolder | None] = {}

    def at(self, folder: str) -> TableFolder | None:
        """Return the table of a folder.

        None: The folder is not that of a table.
        """
        return self._at([folder])[0]

    def around(self, folder: str) -> TableFolder | None:
        """Return the table of a folder, or of a folder above it.

        None: There is none.
        """
        return next(filter(None, self._at([folder, *_parents(folder)])), None)

    def _at(self, folders: Sequence[str]) -> list[TableFolder | None]:
        new = [folder for folder in folders if folder not in self._known]
        asked = [f"{folder.rstrip('/')}/{mark}" for folder in new for mark in _MARKS]
        kinds = answers(self._filesystem, self._kind, asked)
        for at, folder in enumerate(new):
            of_folder = kinds[at * len(_MARKS) : (at + 1) * len(_MARKS)]
            self._known[folder] = self._table(folder, of_folder)
        return [self._known[folder] for folder in folders]

    def _table(self, folder: str, kinds: Sequence[fs.FileType]) -> TableFolder | None:
        hudi, delta, iceberg, paimon, sink = (kind is fs.FileType.Directory for kind in kinds)
        if hudi and any(self._kind(f"{folder}/{name}") is fs.FileType.File for name in _HUDI_FILES):
            return TableFolder(TableFormat.HUDI, folder)
        if delta:
            return TableFolder(TableFormat.DELTA, folder)
        if sink:
            return TableFolder(TableFormat.SINK, folder)
        listed = [_ICEBERG] * iceberg + [_PAIMON, _PAIMON_SCHEMA] * paimon
        paths = [path for name in listed for path in self._paths_in(f"{folder}/{name}")]
        return next(iter(tables_among(paths, folder)), None)

    def _paths_in(self, folder: str) -> list[str]:
        selector = fs.FileSelector(folder, allow_not_found=True)
        return [info.path for info in self._filesystem.get_file_info(selector)]

    def _kind(self, path: str) -> fs.FileType:
        try:
            return self._filesystem.get_file_info(path).type
        except OSError:  # a user may be allowed to read a folder but not those above it
            return fs.FileType.NotFound


def tables_among(paths: Iterable[str], folder: str) -> list[TableFolder]:
    """Return the tables in the listing of a folder, sorted by path.

    Args:
        paths: Paths of all files and folders below the folder.
        folder: Path of the listed folder.

    >>> tables_among(["/w/users/_delta_log/0.json", "/w/users/1.parquet"], "/w")
    [TableFolder(format=<TableFormat.DELTA: 'Delta table'>, path='/w/users', newest='')]
    """
    found: dict[str, TableFolder] = {}
    newest: dict[str, tuple[int, str]] = {}
    of_paimon: dict[str, set[str]] = {}
    for path in paths:
        if _DELTA in path:
            above, mark, _ = f"{path}/".partition(f"/{_DELTA}/")
            if mark:
                found[above] = TableFolder(TableFormat.DELTA, above)
        elif _SINK in path:
            above, mark, _ = f"{path}/".partition(f"/{_SINK}/")
            if mark:
                found[above] = TableFolder(TableFormat.SINK, above)
        elif path.endswith(_HUDI_FILES):
            above = path.rpartition(f"/{_HUDI}/")[0]
            found[above] = TableFolder(TableFormat.HUDI, above)
        elif ".metadata.json" in path:
            above, _, name = path.rpartition("/")
            above, _, last = above.rpartition("/")
            match = _ICEBERG_FILE.fullmatch(name)
            if match and last == _ICEBERG:
                newest[above] = max(newest.get(above, (-1, "")), (int(match[1]), name))
        elif f"/{_PAIMON}/" in path or f"/{_PAIMON_SCHEMA}/" in path:
            above, _, name = path.rpartition("/")
            above, _, last = above.rpartition("/")
            if last in _PAIMON_FILES and _PAIMON_FILES[last].fullmatch(name):
                of_paimon.setdefault(above, set()).add(last)
    for above, marks in of_paimon.items():
        if len(marks) == len(_PAIMON_FILES):
            found[above] = TableFolder(TableFormat.PAIMON, above)
    for above, (_, name) in newest.items():
        found[above] = TableFolder(TableFormat.ICEBERG, above, f"{_ICEBERG}/{name}")
    root = folder.rstrip("/")
    return [found[path] for path in sorted(found) if path == root or path.startswith(f"{root}/")]


def may_be_table(names: Iterable[str]) -> bool:
    """Return whether a folder with these names in it may be that of a table."""
    return not set(_MARKS).isdisjoint(names)


def table_error(table: TableFolder, given: str, uri: str, part: str = "") -> FormatError:
    """Return the error for files of a table, with the line to write instead.

    Args:
        table: Table that the files belong to.
        given: Path that was given, as errors show it.
        uri: Path or URI of the folder of the table, as errors show it.
        part: Path of the given files below the folder of the table. Default: the folder itself, or
            one above it.
    """
    name = table.format.value
    if given == uri:
        what = f"{given} is the folder of {with_article(name)}"
    elif part:
        what = f"{given} is inside the {name} {uri}"
    else:
        what = f"{given} has the {name} {uri} below it"
    rows = "that were replaced or deleted"
    if table.format is TableFormat.SINK:
        rows = "of attempts that failed"
    return FormatError(
        f"source: {what}, whose files also have rows {rows}; {_remedy(table, uri, part)}"
    )


def _remedy(table: TableFolder, uri: str, part: str) -> str:
    if table.format is TableFormat.DELTA:
        return f"build from its rows: deltalake.DeltaTable({uri!r})"
    if table.format is TableFormat.ICEBERG:
        newest = f"{uri}/{table.newest}"
        return (
            f"pass the table of its catalog, or give {FORM}, which finds its newest state; or "
            "pass the state of a metadata file: "
            f"pyiceberg.table.StaticTable.from_metadata({newest!r})"
        )
    if table.format is TableFormat.PAIMON and part == "tag":
        return f"give {uri!r}, and the number of the snapshot of the tag as version="
    if table.format is TableFormat.PAIMON:
        return f"give {uri!r} alone, which is read as the table"
    if table.format is TableFormat.SINK:
        line = table.format.spark_line.format(uri)
        return (
            f"its log {_SINK} lists those that count: read it with Spark ({line}), and give the "
            "rows"
        )
    rows = f"lookupstore.hudi.HudiTable.open({uri!r}).scan()"
    if part not in ("", "."):
        where = f"pyarrow.compute.field('_hoodie_partition_path') == {part!r}"
        rows = f"{rows[:-1]}filter={where})"
    return f"give {uri!r} alone, which is read as the table, or its rows: {rows}"


def with_article(name: str) -> str:
    """Return the name of a kind of thing with its article.

    >>> with_article("Iceberg table")
    'an Iceberg table'
    """
    return f"an {name}" if name[0] in "AEIOU" else f"a {name}"


def _parents(folder: str) -> list[str]:
    """Return the folders above a folder, the nearest first."""
    found = []
    above = posixpath.dirname(folder)
    while above and above != folder:
        found.append(above)
        folder, above = above, posixpath.dirname(above)
    return found
