"""Find the columnar files of a path, a glob, a folder or a URI."""

from __future__ import annotations

import fnmatch
import os
import posixpath
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from pyarrow import fs

from lookupstore.errors import FormatError, LookupStoreError, printable
from lookupstore.source.folder_columns import FolderColumns, folder_columns
from lookupstore.source.table_folders import (
    TableFolder,
    TableFormat,
    TableSearch,
    may_be_table,
    table_error,
    tables_among,
)
from lookupstore.storage.catalog_names import is_catalog_name
from lookupstore.storage.home import expanded
from lookupstore.storage.location import Location
from lookupstore.storage.object_answers import meaning_of, missing_at
from lookupstore.storage.trees import all_below, answers, is_link, real_path
from lookupstore.storage.uris import (
    check_path,
    open_uri,
    shown_uri,
    tells_secrets,
    without_credentials_error,
)

FORMATS = {".parquet": "parquet", ".parq": "parquet", ".pq": "parquet", ".orc": "orc"}
# First bytes of files of some formats, which determine the format of files with other extensions.
_FIRST_BYTES = {b"PAR1": "parquet", b"ORC": "orc"}

#: Formats of files that `streams` reads from their beginning, by extension.
STREAM_FORMATS = {
    ".csv": "CSV",
    ".tsv": "CSV",
    ".jsonl": "JSON lines",
    ".ndjson": "JSON lines",
    ".json": "JSON lines",
    ".arrow": "Arrow IPC",
    ".arrows": "Arrow IPC",
    ".feather": "Arrow IPC",
    ".ipc": "Arrow IPC",
}
#: Compressions of text, by extension.
COMPRESSIONS = {".gz": "gzip", ".bz2": "bz2", ".zst": "zstd", ".lz4": "lz4"}

_SPREADSHEETS = (".xlsx", ".xls", ".ods")
# Extensions that files of CSV have, too, besides others.
_OF_TEXT = (".txt", ".dat", ".tab", ".text")
_MAGIC = "*?["
# End of the name of a file that Hadoop has not completely copied yet.
_COPYING = "._COPYING_"


@dataclass(frozen=True)
class FoundFiles:
    """The files that were found for one given path.

    Attributes:
        filesystem: File system of the files.
        infos: Infos of the files, by ascending path.
        formats: Formats of the files, as named in `FORMATS` or `STREAM_FORMATS`.
        base: Folder below which names of folders such as `name=value` are columns. None: they are
            not.
        columns: Columns that these folders add.
    """

    filesystem: fs.FileSystem
    infos: tuple[fs.FileInfo, ...]
    formats: tuple[str, ...]
    base: str | None
    columns: FolderColumns = field(default_factory=FolderColumns)

    @property
    def files(self) -> list[str]:
        """Return the paths of the files."""
        return [info.path for info in self.infos]


@dataclass(frozen=True)
class FoundTable:
    """A table that was found for one given path.

    Attributes:
        path: Path of the folder of the table, or its name in a catalog, as it was given.
        format: Format of the table.
    """

    path: str | Location
    format: TableFormat


Path: TypeAlias = str | Location
# Infos and formats of files, by path.
_Formats: TypeAlias = dict[str, tuple[fs.FileInfo, str]]


def format_of(
    file: str, formats: Mapping[str, str] = FORMATS, alone: Mapping[str, str] | None = None
) -> str:
    """Return the format of a file by its extension, such as `parquet` or `orc`.

    Args:
        file: Path of the file.
        formats: Names of the accepted formats, by extension.
        alone: Names of other formats by extension, which are accepted if all paths have one of
            them. They are only named in errors. Default: none.

    Raises:
        ValueError: If the file is not of one of `formats`.
    """
    extension = _extension(file)
    if extension in formats:
        return formats[extension]
    advice = "; save the sheet as CSV" if extension in _SPREADSHEETS else ""
    if alone is None:
        known = ", ".join(formats)
        if extension in STREAM_FORMATS:
            advice = f"; lookupstore.build makes a store of {STREAM_FORMATS[extension]}"
    elif extension in alone:
        raise ValueError(
            f"source: {file} is {alone[extension]}; give it alone, or with paths and globs that "
            f"all end in {extension}"
        )
    else:
        known = (
            f"{', '.join([*formats, *alone])}; text also with {', '.join(COMPRESSIONS)} after it"
        )
        if extension in _OF_TEXT:
            advice = f"; if it is CSV, give it open: open({file!r}, 'rb')"
    raise ValueError(
        f"source: {file} has the extension {extension or 'none'!r}; supported: {known}{advice}"
    )


def format_at(filesystem: fs.FileSystem, path: str) -> str | None:
    """Return the format of a columnar file, by its extension or its first bytes.

    None: The file is neither Parquet nor ORC.

    Raises:
        OSError: If the file cannot be read.

    >>> import tempfile
    >>> import pyarrow as pa, pyarrow.parquet
    >>> path = f"{tempfile.mkdtemp()}/000001_0"
    >>> pyarrow.parquet.write_table(pa.table({"id": [1]}), path)
    >>> format_at(fs.LocalFileSystem(), path)
    'parquet'
    """
    known = FORMATS.get(_extension(path))
    if known is not None:
        return known
    with filesystem.open_input_file(path) as file:
        first = file.read(max(map(len, _FIRST_BYTES)))
    return next((kind for magic, kind in _FIRST_BYTES.items() if first.startswith(magic)), None)


def is_stream(path: str) -> bool:
    """Return whether a path or glob has an extension of `STREAM_FORMATS`.

    >>> is_stream("s3://bucket/users/*.csv.gz"), is_stream("users.parquet")
    (True, False)
    """
    return _extension(path.partition("?")[0] if "://" in path else path) in STREAM_FORMATS


def _extension(path: str) -> str:
    """Return the extension of a file, or of the text inside a compressed file."""
    rest, extension = posixpath.splitext(path.lower())
    if extension in COMPRESSIONS:
        inner = posixpath.splitext(rest)[1]
        return inner if STREAM_FORMATS.get(inner, "Arrow IPC") != "Arrow IPC" else extension
    return extension


def names_files(path: str) -> bool:
    """Return whether a path is a glob or has an extension of columnar files.

    >>> names_files("s3://bucket/users/*.parquet"), names_files("s3://bucket/stores/users")
    (True, False)
    """
    address = path.partition("?")[0] if "://" in path else path
    return any(sign in address for sign in _MAGIC) or _extension(address) in FORMATS


def path_of(given: str | os.PathLike[str] | Location) -> Path:
    """Return a path as text, and a location as its URI if it was made from one."""
    if not isinstance(given, Location):
        return os.fspath(given)
    text, filesystem = given.given
    return text if filesystem is None else given


def shown_path(path: Path) -> str:
    """Return a path, or a URI or location without its secrets."""
    return path.uri if isinstance(path, Location) else shown_uri(path)


def find_source(
    paths: Sequence[Path],
    formats: Mapping[str, str] = FORMATS,
    alone: Mapping[str, str] | None = None,
    tables: Container[TableFormat] = (TableFormat.HUDI,),
) -> list[FoundFiles] | FoundTable:
    """Find the columnar files, files of other formats, or one table of paths.

    A path is a file, a folder (the files below it), a glob, a URI of these, or a location of these
    in a file system.

    Spark's rule decides which files of a folder count: all files below it with any extension,
    except those in which the name of the file or of a folder begins with `.` or `_`, or ends with
    `._COPYING_`. A name with `=` may begin with `_`. An empty file counts if it has an extension of
    a format.

    Args:
        paths: Paths to search.
        formats: Names of the accepted formats, by extension.
        alone: Names of other formats by extension that the caller accepts in other calls. They are
            only named in errors. Default: none.
        tables: Formats of tables that the caller reads, each only as the one given path.

    Raises:
        FileNotFoundError: If a path names nothing, or no Parquet or ORC file is below it.
        ValueError: If a path is empty, or names a file that is neither Parquet nor ORC.
        FormatError: If a path is, is inside, or has below it a table or the sink of a Spark stream,
            except for the one path of a table that the caller reads; if a folder has files that
            are neither Parquet nor ORC next to others; if the `name=value` folders of a path do not
            agree; or if a local folder contains a symbolic link to a folder, which is not followed.
    """
    for path in paths:
        if path == "":  # such as an unset variable of a shell
            raise ValueError(
                "source is an empty path; give a path, such as '.' for the current folder"
            )
        if isinstance(path, str) and is_catalog_name(path):
            if len(paths) == 1 and TableFormat.ICEBERG in tables:
                return FoundTable(path, TableFormat.ICEBERG)
            raise FormatError(
                f"source: {shown_path(path)} names a table of a catalog; give it alone, "
                "and to a function that reads tables"
            )
    searches: list[tuple[fs.FileSystem, TableSearch]] = []
    files: list[FoundFiles] = []
    folders: list[tuple[str | None, str, set[str]]] = []
    for path in paths:
        filesystem, root = _open_filesystem(path)
        # Each path opens its own file system; equal ones share what was listed.
        search = next((one for known, one in searches if known.equals(filesystem)), None)
        if search is None:
            search = TableSearch(filesystem)
            searches.append((filesystem, search))
        one = _Search(path, filesystem, root.rstrip("/") or "/", search, formats, alone)
        try:
            found = one.find(tables if len(paths) == 1 else ())
        except LookupStoreError:
            raise
        except Exception as error:
            uri = path.given[0] if isinstance(path, Location) else path
            is_plain = not tells_secrets(str(error), uri, filesystem)
            if is_plain and meaning_of(str(error)) is None:
                raise
            raise without_credentials_error(error, one.shown, uri, filesystem) from None
        if isinstance(found, FoundTable):
            return found
        files.append(found)
        folders.append((found.base, one.shown, one.folders))
    columns = folder_columns(folders)
    return [replace(one, columns=given) for one, given in zip(files, columns, strict=True)]


class _Search:
    """The search for a path on its file system."""

    def __init__(
        self,
        path: Path,
        filesystem: fs.FileSystem,
        root: str,
        tables: TableSearch,
        formats: Mapping[str, str],
        alone: Mapping[str, str] | None,
    ) -> None:
        self._path = path
        self.shown = shown_path(path)
        #: Paths of the folders of all its files, including those of empty files.
        self.folders: set[str] = set()
        self._formats = formats
        self._alone = alone
        self._filesystem = filesystem
        self._root = root
        self._tables = tables

    def find(self, tables: Container[TableFormat]) -> FoundFiles | FoundTable:
        """Return the files of the path, or the table at the path if it has one of some formats."""
        root = self._root
        info = self._filesystem.get_file_info(root)
        if info.type == fs.FileType.File:
            try:
                format_of_it = self._format(root)
            except ValueError:  # it may be metadata of a table
                self._check_outside(posixpath.dirname(root))
                raise
            self._check_outside(posixpath.dirname(root))
            return FoundFiles(self._filesystem, (info,), (format_of_it,), None)
        if info.type == fs.FileType.Directory:
            table = self._tables.at(root)
            if table is not None and table.format in tables and table.says_its_state:
                return FoundTable(self._path, table.format)
            self._check_outside(root)
            return self._found(self._files_below(root), root)
        if not any(sign in root for sign in _MAGIC):
            self._check_branch(root)
            missing = missing_at(self._filesystem, root)
            raise FileNotFoundError(f"source: {self.shown}: {missing}{self._looked_for()}")
        return self._matching_files()

    def _looked_for(self) -> str:
        """Return the whole path, for errors, if it was given relative to the current folder."""
        path = self._path
        is_relative = isinstance(path, str) and "://" not in path and not os.path.isabs(path)
        return f" (looked for {self._root})" if is_relative else ""

    def _matching_files(self) -> FoundFiles:
        parts = self._root.split("/")
        fixed = next(i for i, part in enumerate(parts) if any(sign in part for sign in _MAGIC))
        base = "/".join(parts[:fixed]) or "/"
        self._check_outside(base)
        walked: set[str] = set()
        matches = sorted(set(_matching(self._filesystem, base, parts[fixed:], walked)))
        files: _Formats = {}
        for match in self._filesystem.get_file_info(matches):
            if match.type == fs.FileType.Directory:
                if is_link(self._filesystem, match.path):
                    raise self._link_error(match.path)
                files.update(self._files_below(match.path))
            elif match.is_file:
                self.folders.add(posixpath.dirname(match.path))
                if self._counts(match):
                    files[match.path] = (match, self._format(match.path))
        if not files:
            raise FileNotFoundError(
                f"source: no file that is not empty matches {self.shown}"
                if self.folders
                else f"source: no file matches {self.shown}{self._looked_for()}"
            )
        for folder in sorted(walked):
            table = self._tables.at(folder)
            if table is not None and any(table.has(file) for file in files):
                raise self._error(table)
        return self._found(files, base)

    def _found(self, files: _Formats, base: str) -> FoundFiles:
        infos, formats = zip(*(files[name] for name in sorted(files)), strict=True)
        return FoundFiles(self._filesystem, infos, formats, base)

    def _counts(self, info: fs.FileInfo) -> bool:
        """Return whether to read a file.

        Empty files need an extension of a format.

        An empty file with such an extension was probably truncated, and reading it raises an error.
        """
        return info.size != 0 or _extension(info.path) in self._formats

    def _format(self, file: str) -> str:
        """Return the format of a file that was named.

        Raises:
            ValueError: If the format is not supported.
        """
        found = None
        if self._formats is FORMATS:
            found = format_at(self._filesystem, file)
        return format_of(file, self._formats, self._alone) if found is None else found

    def _check_outside(self, folder: str) -> None:
        """Check that a folder, with links resolved, is neither that of a table nor in one."""
        for one in dict.fromkeys((folder, real_path(self._filesystem, folder))):
            table = self._tables.around(one)
            if table is not None:
                raise self._error(table, posixpath.relpath(one, table.path))

    def _check_branch(self, path: str) -> None:
        """Check that a missing path is not the name of a branch in a catalog."""
        folder, mark, branch = path.partition("$branch_")
        table = self._tables.at(folder) if mark else None
        if table is not None and table.format is TableFormat.PAIMON:
            shown = self.shown.partition("$branch_")[0]
            raise FormatError(
                f"source: {self.shown} is the name of a branch of a Paimon table in a catalog; "
                f"give the folder of the branch: {f'{shown}/branch/branch-{branch}'!r}"
            )

    def _files_below(self, folder: str) -> _Formats:
        below, links = all_below(self._filesystem, folder)
        for link in links:
            if _visible(link, folder):
                raise self._link_error(link)
        for table in tables_among((info.path for info in below), folder):
            if table.path == folder or _visible(table.path, folder):
                raise self._error(table)
        visible = [info for info in below if info.is_file and _visible(info.path, folder)]
        self.folders.update(posixpath.dirname(info.path) for info in visible)
        seen = sorted(filter(self._counts, visible), key=lambda info: info.path)
        known = [self._formats.get(_extension(info.path)) for info in seen]
        if self._formats is FORMATS:
            known = answers(
                self._filesystem, lambda info: format_at(self._filesystem, info.path), seen
            )
        files = {info.path: (info, kind) for info, kind in zip(seen, known, strict=True) if kind}
        if not files:
            if any(posixpath.splitext(info.path)[1] == ".sst" for info in seen):
                raise FileNotFoundError(
                    f"source: {self.shown} is a store, or has one below it; open it with "
                    f"lookupstore.open({self.shown!r}), and give its rows: store.scan()"
                )
            other = f"; it has {posixpath.relpath(seen[0].path, folder)}" if seen else ""
            extension = _extension(seen[0].path) if seen else ""
            if self._alone is not None and extension in self._alone:
                name = posixpath.basename(seen[0].path)
                glob = "*" + name[name.lower().rfind(extension) :]
                if "?" not in self.shown:  # which options of a URI follow
                    glob = f"{self.shown.rstrip('/')}/{glob}"
                other += f"; for {self._alone[extension]}, give a glob: {glob!r}"
            raise FileNotFoundError(
                f"source: {self.shown}: no file below it ends in {', '.join(self._formats)}, or "
                f"begins as one of Parquet or ORC{other}"
            )
        if self._formats is FORMATS and len(files) < len(seen):
            other = next(info.path for info in seen if info.path not in files)
            raise FormatError(
                f"source: {self.shown}: {printable(posixpath.relpath(other, folder))} is neither "
                "Parquet nor ORC, but files next to it are; let its name begin with '_' if it is "
                "none of the rows, or give a glob of the files that are"
            )
        return files

    def _link_error(self, path: str) -> FormatError:
        return FormatError(
            f"source: {self.shown}: {printable(path)} is a symbolic link to a folder, "
            "which is not followed; give what it leads to as a path of its own"
        )

    def _error(self, table: TableFolder, part: str = "") -> FormatError:
        given = self.shown if isinstance(self._path, Location) else self._path
        uri = shown_uri(_uri_of(given, self._root, table.path))
        is_table = table.path == self._root
        return table_error(table, uri if is_table else self.shown, uri, part)


def _uri_of(path: str, root: str, folder: str) -> str:
    """Return a folder above or below a path, in the form of that path.

    Args:
        path: Path or URI, as it was given.
        root: Same path on its file system.
        folder: Path of the folder on that file system.

    >>> _uri_of("s3://bucket/users/day=1?region=eu", "bucket/users/day=1", "bucket/users")
    's3://bucket/users?region=eu'
    """
    if "://" not in path:
        return folder
    address, mark, query = path.partition("?")
    address = address.rstrip("/")
    shared = posixpath.commonpath([root, folder])
    above = root[len(shared) :].strip("/")
    if above:
        address = address[: -len(above)].rstrip("/")
    below = folder[len(shared) :].strip("/")
    return f"{address}/{below}".rstrip("/") + mark + query


def _open_filesystem(path: Path) -> tuple[fs.FileSystem, str]:
    if isinstance(path, Location):
        return path.resolve("")
    if "://" not in path:
        check_path(path)
        return fs.LocalFileSystem(), os.path.abspath(expanded(path))
    # Parsing a URI does not always preserve a `*`, so only the part before the first glob is
    # parsed.
    address, mark, query = path.partition("?")
    parts = address.split("/")
    fixed = next((i for i, part in enumerate(parts) if "*" in part or "[" in part), len(parts))
    filesystem, base = open_uri("/".join(parts[:fixed]) + mark + query)
    return filesystem, posixpath.join(base, *parts[fixed:])


def _visible(path: str, base: str) -> bool:
    """Return whether Spark reads a file or folder below another folder.

    Source: `shouldFilterOutPathName` in `HadoopFSUtils` of Apache Spark 4.3.
    """
    return not any(map(_is_hidden, posixpath.relpath(path, base).split("/")))


def _is_hidden(name: str) -> bool:
    # A partition column may begin with `_`.
    is_private = name.startswith("_") and "=" not in name
    return is_private or name.startswith(".") or name.endswith(_COPYING)


def _matching(
    filesystem: fs.FileSystem, base: str, parts: Sequence[str], walked: set[str]
) -> Iterator[str]:
    """Yield the paths that match a glob below `base`, one part of the path at a time.

    Folders that may be those of tables, by the names in them, are added to `walked`.
    """
    if not parts:
        yield base
        return
    first, rest = parts[0], parts[1:]
    selector = fs.FileSelector(base, allow_not_found=True, recursive=False)
    children = filesystem.get_file_info(selector)
    if may_be_table(posixpath.basename(info.path) for info in children):
        walked.add(base)
    if not any(sign in first for sign in _MAGIC):
        child = posixpath.join(base, first)
        if any(info.path == child for info in children):
            yield from _matching(filesystem, child, rest, walked)
        return
    if first == "**":
        yield from _matching(filesystem, base, rest, walked)
    for info in children:
        name = posixpath.basename(info.path)
        if not _visible(name, ".") and name != first:
            continue
        folder = info.type == fs.FileType.Directory
        if first == "**":
            if folder and not is_link(filesystem, info.path):
                yield from _matching(filesystem, info.path, parts, walked)
        elif fnmatch.fnmatchcase(name, first) and (folder or not rest):
            yield from _matching(filesystem, info.path, rest, walked)
