"""One columnar file as it was when it was found: its location, content and identity."""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from types import NoneType
from typing import NamedTuple, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq
import xxhash
from pyarrow import fs

from lookupstore.arrow.taking import keep_rows
from lookupstore.columnar.file_filter import FileFilter
from lookupstore.columnar.key_ranges import Range, group_ranges
from lookupstore.errors import CorruptionError, StaleStoreError
from lookupstore.orc.arrow_file import orc_schema
from lookupstore.orc.footer import read_footer
from lookupstore.parquet.arrow_file import ParquetRows
from lookupstore.parquet.footer import check_not_encrypted, footer_of
from lookupstore.source.damage import damaged_offset
from lookupstore.source.folder_columns import FolderColumns, Value
from lookupstore.source.reading import check_names, fitted, read_to_store
from lookupstore.source.search import FoundFiles
from lookupstore.storage.file_address import FileAddress
from lookupstore.storage.file_identity import FileIdentity, open_identified, open_settled
from lookupstore.storage.read_errors import READ_ERRORS

# Bytes to read at the end of a file: most footers are shorter, and one request reads them.
_TAIL_BYTES = 64 << 10
_PARQUET_END = 8
# Maximum number of bytes of a footer that are compared after each lookup: a footer may have
# megabytes.
_COMPARED_BYTES = 1 << 20
# Number of footers that are read at a time.
_THREADS = 16
_GONE = "deleted since the files were listed"


@dataclass(frozen=True)
class SourceFile:
    """A columnar file.

    Attributes:
        filesystem: File system of the file.
        path: Path of the file on the file system.
        file_format: Format of the file: `parquet` or `orc`.
        base: Folder that the file was found below, where lookup files may be published.
        stored: Identity of the file, which differs from that of other files at its path. It
            includes the XXH64 of the footer, 16 hexadecimal digits.
        ending: XXH64 of at most the last 1 MiB of the footer, 16 hexadecimal digits.
        num_rows: Number of rows.
        schema: Columns of the file, including those of `name=value` folders.
        constants: Values of the columns of folders, by name.
        ranges: Least and greatest value of one column in each row group, or in the file. None:
            unknown.
        filter: Condition that rows must meet to count. None: all rows do.
        has_others: Whether rows that do not count are in the lookup file, too.
    """

    filesystem: fs.FileSystem
    path: str
    file_format: str
    base: str
    stored: FileIdentity
    ending: str
    num_rows: int
    schema: pa.Schema
    constants: tuple[tuple[str, Value], ...]
    ranges: tuple[Range, ...] | None = None
    filter: FileFilter | None = None
    has_others: bool = True

    @property
    def address(self) -> FileAddress:
        """Return the address of the file."""
        return FileAddress.on(self.filesystem, self.path)

    @property
    def uri(self) -> str:
        """Return the name of the file in messages: the path, or a URI."""
        return self.address.shown

    @property
    def _gone(self) -> str:
        """What error messages say if the file is gone."""
        return _GONE

    @property
    def below(self) -> str:
        """Return the path of the file below its base."""
        return self.path[len(self.base.rstrip("/")) + 1 :]

    @property
    def nbytes(self) -> int:
        """Return the size of the file."""
        return self.stored.nbytes

    @property
    def rows_left(self) -> int | None:
        """Return the number of rows that count. None: they have to be read."""
        return self.num_rows if self.filter is None else None

    @property
    def has_conditions(self) -> bool:
        """Return whether `kept` may leave rows out."""
        return self.filter is not None

    def identity(self, names: Sequence[str]) -> tuple[object, ...]:
        """Return an identity that changes whenever the rows of the file change.

        Args:
            names: Names of the columns that count.
        """
        constants = [
            (name, value if isinstance(value, (int, str, NoneType)) else str(value))
            for name, value in self.constants
        ]
        condition = () if self.filter is None or self.has_others else (self.filter.identity,)
        return (*self.stored.parts, constants, *condition)

    def open(self) -> pa.NativeFile:
        """Open the file.

        Raises:
            StaleStoreError: If the file is gone, or was replaced.
        """
        try:
            if self.stored.is_permanent:
                file = self.address.open()
                is_same = file.size() == self.nbytes
            else:
                file, now = open_identified(self.address)
                is_same = now.matches(self.stored)
        except FileNotFoundError:
            raise StaleStoreError(f"{self.uri}: {_GONE}") from None
        if not is_same:
            file.close()
            raise self._changed_error()
        return file

    def check_unchanged(self) -> None:
        """Raise an error if the file has changed since it was found.

        Raises:
            StaleStoreError: If the file was written again, or is gone.
        """
        with self.open() as file:
            if self.stored.etag:  # an ETag is unique to the bytes
                return
            footer = _footer_hash(_tail(file, self.nbytes, self.file_format, self.uri))
        if footer != self.stored.footer:
            raise self._changed_error()

    def check_ending(self) -> None:
        """Raise an error if the file has changed, judged by at most 1 MiB of its footer.

        Raises:
            StaleStoreError: If the file was written again, or is gone.
        """
        if self.stored.etag or self.ending == self.stored.footer:
            return self.check_unchanged()
        with self.open() as file:
            ending = file.read_at(_COMPARED_BYTES, self.nbytes - _COMPARED_BYTES)
        if _footer_hash(ending) != self.ending:
            raise self._changed_error()

    def _changed_error(self) -> StaleStoreError:
        return StaleStoreError(
            f"{self.uri}: rewritten since the files were listed; list them again"
        )

    def batches(self, names: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Yield the named columns, in the order of rows, a few megabytes at a time.

        Raises:
            CorruptionError: If the file is damaged.
            StaleStoreError: If the file was written again, or is gone.
            OSError: If a remote file could not be read, or is damaged.
        """
        columns = self.columns_in(self.schema)
        stored = columns.names_in_file(names)
        rows = 0
        with self.reading(stored), self.open() as file:
            page_bytes = self.address.page_bytes
            batches = read_to_store(file, self.file_format, stored, self.uri, page_bytes=page_bytes)
            for batch in batches:
                rows += batch.num_rows
                yield columns.in_table(batch, names, batch.num_rows)
            if rows != self.num_rows:
                raise CorruptionError(self.uri, 0, f"{self.num_rows} rows", rows)

    def placed_batches(
        self, names: Sequence[str]
    ) -> Iterator[tuple[pa.RecordBatch, npt.NDArray[np.int64]]]:
        """Yield the named columns of rows for a lookup file, with their positions from 0.

        Raises the errors of `batches`.
        """
        chosen = None if self.has_others else self.filter
        there = self.schema.names
        also = [] if chosen is None else [name for name in chosen.columns.names if name in there]
        row = 0
        for batch in self.batches(list(dict.fromkeys([*names, *also]))):
            positions = np.arange(row, row + batch.num_rows)
            row += batch.num_rows
            if chosen is not None:
                kept = chosen.kept(there, batch.select, batch.num_rows, self.uri)
                batch, positions = keep_rows(batch, kept), positions[kept.to_numpy(False)]
            yield batch.select(list(names)), positions

    def metadata_in(self, file: pa.NativeFile) -> pq.FileMetaData | None:
        """Return None: the footer was checked when the file was found, and Arrow reads it.

        Args:
            file: The file, open.
        """
        return None

    def schema_in(self, file: pa.NativeFile, metadata: pq.FileMetaData | None) -> pa.Schema:
        """Return the columns that are stored in the file, in the types in which they are read.

        Args:
            file: The file, open.
            metadata: The result of `metadata_in`.
        """
        return self.schema

    def columns_in(self, there: pa.Schema) -> ColumnsInFile:
        """Return the columns of rows that are read from the file.

        Args:
            there: Columns of the file, in the types in which they are read.
        """
        return _OwnColumns(self)

    def kept(
        self, columns: Callable[[Sequence[str]], pa.RecordBatch], count: int
    ) -> pa.BooleanArray | None:
        """Return which of some rows of the file count. None: all of them.

        Args:
            columns: Function that returns the named columns of the rows.
            count: Number of the rows.
        """
        if self.filter is None:
            return None
        return self.filter.kept(self.schema.names, columns, count, self.uri)

    def without_others(self) -> SourceFile | None:
        """Return the file with only the rows that count in its lookup file.

        Rows that do not count may have the key of another row. None: all rows count.
        """
        if self.filter is None or not self.has_others:
            return None
        return replace(self, has_others=False)

    @contextmanager
    def reading(
        self, names: Sequence[str] = (), groups: Sequence[int] | None = None
    ) -> Iterator[None]:
        """Name the file in errors of reading, and raise them as the right class.

        Args:
            names: Names of the columns that are read, if any.
            groups: Numbers of the row groups that are read. None: all row groups.

        Raises:
            StaleStoreError: If the file has changed, which may look like damage.
        """
        try:
            place = None
            if self.file_format == "parquet":
                place = partial(damaged_offset, self.address, names, groups)
            with self.address.reading(f"{self.file_format} pages", gone=self._gone, place=place):
                yield
        except (CorruptionError, OSError):
            with suppress(CorruptionError, OSError):
                self.check_unchanged()
            raise


class ColumnsInFile(Protocol):
    """The columns of rows that are read from a file, in the types of the table or folder."""

    def names_in_file(self, names: Sequence[str]) -> list[str]:
        """Return the names in the file of the named columns, without those that it lacks."""

    def in_table(self, batch: pa.RecordBatch, names: Sequence[str], count: int) -> pa.RecordBatch:
        """Return the named columns of rows of the file.

        Args:
            batch: Rows of the file, with the columns of `names_in_file`.
            names: Names of the columns to return.
            count: Number of the rows, which a batch without columns may not know.
        """


class _OwnColumns:
    """The columns of a file that belongs to no table, and those of its folders."""

    def __init__(self, source: SourceFile) -> None:
        self._source, self._constants = source, dict(source.constants)

    def names_in_file(self, names: Sequence[str]) -> list[str]:
        return [name for name in names if name not in self._constants]

    def in_table(self, batch: pa.RecordBatch, names: Sequence[str], count: int) -> pa.RecordBatch:
        fields = [self._source.schema.field(name) for name in names]
        columns = []
        for field in fields:
            if field.name in self._constants:
                value = pa.scalar(self._constants[field.name], field.type)
                columns.append(pa.repeat(value, count))
                continue
            at = batch.schema.get_field_index(field.name)
            uri = self._source.uri
            if at < 0:
                expected = f"a column {field.name!r} in its pages"
                raise CorruptionError(uri, 0, expected, "none, or several")
            columns.append(fitted(batch.column(at), field, uri, "in its schema"))
        return pa.RecordBatch.from_arrays(columns, schema=pa.schema(fields))


class _One(NamedTuple):
    found: FoundFiles
    info: fs.FileInfo
    file_format: str


def source_files(
    found: Sequence[FoundFiles],
    *,
    latest_partition: str | None = None,
    ranges_of: str | None = None,
    known: Callable[[FoundFiles, fs.FileInfo], SourceFile | None] | None = None,
) -> list[SourceFile]:
    """Read the footers of columnar files.

    Args:
        found: Files to read the footers of.
        latest_partition: Name in `name=value` folders. Only the folders with the greatest value are
            read. Values compare as integers if all of them are integers, otherwise as text.
            Default: all folders.
        ranges_of: Name of the column for which to return the ranges in row groups. Default: no
            ranges.
        known: Function that returns a file whose footer need not be read, or None. Default: all are
            read.

    Raises:
        ValueError: If there are no such folders.
        CorruptionError: If a footer is damaged.

    >>> import tempfile
    >>> from lookupstore.source.search import find_source
    >>> folder = tempfile.mkdtemp()
    >>> pq.write_table(pa.table({"id": [1, 2]}), f"{folder}/a.parquet")
    >>> [file.num_rows for file in source_files(find_source([folder]))]
    [2]
    """
    wanted = [
        _One(one, info, kind)
        for one in found
        for info, kind in zip(one.infos, one.formats, strict=True)
    ]
    if latest_partition is not None:
        values = [one.found.columns.texts(one.info.path).get(latest_partition) for one in wanted]
        latest = latest_value(values, latest_partition, posixpath.dirname(wanted[0].info.path))
        wanted = [one for one, value in zip(wanted, values, strict=True) if value == latest]
    with ThreadPoolExecutor(min(_THREADS, len(wanted)), "lookupstore-footer") as pool:
        kept = [None if known is None else known(one.found, one.info) for one in wanted]
        unread = [one for one, file in zip(wanted, kept, strict=True) if file is None]
        read = pool.map(lambda one: _read(one, ranges_of), unread)
        files = [next(read) if file is None else file for file in kept]
    # Equal schemas become one object, which is pickled once.
    schemas = {file.schema: file.schema for file in files}
    files = [
        file if schemas[file.schema] is file.schema else replace(file, schema=schemas[file.schema])
        for file in files
    ]
    return sorted(files, key=lambda file: file.path)


def parquet_source(filesystem: fs.FileSystem, path: str) -> tuple[SourceFile, pq.FileMetaData]:
    """Describe one Parquet file that is never written again, and return its footer.

    Its identity consists of path, size and footer only.

    Args:
        filesystem: File system of the file.
        path: Path of the file on the file system.

    Raises:
        FileNotFoundError: If there is no such file.
        CorruptionError: If its footer is damaged.

    >>> import tempfile
    >>> path = f"{tempfile.mkdtemp()}/a.parquet"
    >>> pq.write_table(pa.table({"id": [1, 2]}), path)
    >>> source, footer = parquet_source(fs.LocalFileSystem(), path)
    >>> source.num_rows, footer.num_row_groups
    (2, 1)
    """
    address = FileAddress.on(filesystem, path)
    with address.reading("the parquet footer"), address.open() as file:
        nbytes = file.size()
        tail = _tail(file, nbytes, "parquet", path)
        schema, metadata = _parquet_footer(tail, path, nbytes)
        check_names(schema)
    source = SourceFile(
        filesystem=filesystem,
        path=path,
        file_format="parquet",
        base=posixpath.dirname(path),
        stored=FileIdentity(path, nbytes, footer=_footer_hash(tail)),
        ending=_footer_hash(tail[-_COMPARED_BYTES:]),
        num_rows=metadata.num_rows,
        schema=schema.remove_metadata(),
        constants=(),
    )
    return source, metadata


def _parquet_footer(tail: bytes, path: str, nbytes: int) -> tuple[pa.Schema, pq.FileMetaData]:
    check_not_encrypted(tail, path)
    # Arrow does not report some errors of a footer but ends the process; this check finds them.
    footer_of(tail[:-_PARQUET_END], path, nbytes - len(tail))
    try:
        # `metadata.schema` is not used: the two refer to each other, and keep the footer in memory,
        # which may be megabytes, until garbage is collected.
        file = ParquetRows(pa.BufferReader(tail), path)
        return file.schema, file.metadata
    except READ_ERRORS as error:
        raise CorruptionError(path, nbytes, "a parquet footer", error) from error


def latest_value(values: Iterable[str | None], name: str, where: str) -> str:
    """Return the greatest value of folders, as integers if all are, otherwise as text.

    Args:
        values: Values of all files. None: the file is in no such folder, or in the folder for
            nulls.
        name: Name of the folders, before the `=`.
        where: Path of the files, for errors.

    Raises:
        ValueError: If there are no such folders.
    """
    given = {value for value in values if value is not None}
    if not given:
        raise ValueError(
            f"latest_partition is {name!r}, but below {where} there are no folders {name}=..."
        )
    numbers = all(map(_is_number, given))
    return max(given, key=lambda value: (int(value) if numbers else 0, value))


def _is_number(text: str) -> bool:
    return text.removeprefix("-").isdecimal()


def _read(one: _One, ranges_of: str | None) -> SourceFile:
    found, info, file_format = one
    columns: FolderColumns = found.columns
    ranges = None
    address = FileAddress.on(found.filesystem, info.path)
    with ExitStack() as stack:
        stack.enter_context(address.reading(f"the {file_format} footer"))
        file, stored = open_settled(address)
        stack.enter_context(file)
        nbytes = file.size()
        tail = _tail(file, nbytes, file_format, info.path)
        if file_format == "parquet":
            schema, metadata = _parquet_footer(tail, info.path, nbytes)
            num_rows = metadata.num_rows
            if ranges_of in schema.names and ranges_of not in columns.types:
                ranges = group_ranges(metadata, schema.field(ranges_of))
        else:
            num_rows = read_footer(file, info.path).rows
            schema = orc_schema(file)
        check_names(schema)
    schema = pa.schema([field.remove_metadata() for field in schema])
    return SourceFile(
        filesystem=found.filesystem,
        path=info.path,
        file_format=file_format,
        base=posixpath.dirname(info.path) if found.base is None else found.base,
        stored=stored.with_footer(_footer_hash(tail)),
        ending=_footer_hash(tail[-_COMPARED_BYTES:]),
        num_rows=num_rows,
        schema=columns.schema(schema),
        constants=tuple(columns.values(info.path).items()),
        ranges=ranges,
    )


def _tail(file: pa.NativeFile, nbytes: int, file_format: str, path: str) -> bytes:
    """Return the end of a file, with all of the footer if it is Parquet."""
    tail: bytes = file.read_at(min(nbytes, _TAIL_BYTES), max(0, nbytes - _TAIL_BYTES))
    if file_format == "parquet" and len(tail) >= _PARQUET_END:
        footer = int.from_bytes(tail[-8:-4], "little") + _PARQUET_END
        if footer > nbytes:
            raise CorruptionError(path, nbytes - 8, f"a footer of at most {nbytes} bytes", footer)
        if footer > len(tail):
            tail = file.read_at(footer, nbytes - footer)
        # The bytes before the footer may be rows, which do not help to identify the file.
        return tail[-footer:]
    return tail


def _footer_hash(tail: bytes) -> str:
    return xxhash.xxh64_hexdigest(tail)
