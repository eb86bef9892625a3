"""One columnar file as it was when it was found: where it is, what is in it, what identifies it."""

from __future__ import annotations

import posixpath
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from types import NoneType
from typing import NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
import xxhash
from pyarrow import fs

from lookupstore.columnar.key_ranges import Range, group_ranges
from lookupstore.errors import CorruptionError, StaleStoreError
from lookupstore.orc.arrow_file import orc_schema
from lookupstore.orc.footer import read_footer
from lookupstore.parquet.arrow_file import ParquetRows
from lookupstore.parquet.footer import check_not_encrypted, footer_of
from lookupstore.source.folder_columns import FolderColumns, Value
from lookupstore.source.reading import check_names, fitted, read_to_store
from lookupstore.source.search import FoundFiles
from lookupstore.storage.file_address import FileAddress
from lookupstore.storage.file_identity import FileIdentity, open_identified, open_settled
from lookupstore.storage.read_errors import READ_ERRORS

# Most footers are shorter: one request of an object store brings one.
_TAIL_BYTES = 64 << 10
_PARQUET_END = 8
# Of a longer footer, these bytes are compared after each lookup: all of it may be megabytes.
_COMPARED_BYTES = 1 << 20
# Footers that are read at one time.
_THREADS = 16
_GONE = "deleted since the files were listed"


@dataclass(frozen=True)
class SourceFile:
    """A columnar file.

    Attributes:
        filesystem: that has it.
        path: of the file on it.
        file_format: `parquet` or `orc`.
        base: folder that it was found below, where lookup files may be published.
        stored: what tells it from other files of its path; its footer is an XXH64, 16 hexadecimal
            digits.
        ending: the same of the last 1 MiB of the footer, if that is longer.
        num_rows: number of its rows.
        schema: its columns, with those that `name=value` folders give.
        constants: the values of those, by name.
        ranges: least and greatest value of one column in each row group; None: nobody knows.
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

    @property
    def address(self) -> FileAddress:
        """Return where it is."""
        return FileAddress.on(self.filesystem, self.path)

    @property
    def uri(self) -> str:
        """Return what people see of it: the path, or a URI."""
        return self.address.shown

    @property
    def below(self) -> str:
        """Return its path below its base."""
        return self.path[len(self.base.rstrip("/")) + 1 :]

    @property
    def nbytes(self) -> int:
        """Return its size."""
        return self.stored.nbytes

    @property
    def identity(self) -> tuple[object, ...]:
        """Return what changes whenever its rows do."""
        constants = [
            (name, value if isinstance(value, (int, str, NoneType)) else str(value))
            for name, value in self.constants
        ]
        return (*self.stored.parts, constants)

    def open(self) -> pa.NativeFile:
        """Open the file.

        Raises:
            StaleStoreError: it is gone, or is another file by now.
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
            StaleStoreError: it has been written again, or is gone.
        """
        with self.open() as file:
            if self.stored.etag:  # which no other bytes have
                return
            footer = _footer_hash(_tail(file, self.nbytes, self.file_format, self.uri))
        if footer != self.stored.footer:
            raise self._changed_error()

    def check_ending(self) -> None:
        """Raise an error if the file has changed, by at most 1 MiB of its footer.

        Raises:
            StaleStoreError: it has been written again, or is gone.
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
            CorruptionError: the file is damaged.
            StaleStoreError: it has been written again, or is gone.
            OSError: a remote file could not be read, or is damaged.
        """
        constants = dict(self.constants)
        stored = [name for name in names if name not in constants]
        rows = 0
        with self.reading(), self.open() as file:
            page_bytes = self.address.page_bytes
            batches = read_to_store(file, self.file_format, stored, self.uri, page_bytes=page_bytes)
            for batch in batches:
                rows += batch.num_rows
                yield self.with_constants(batch, names)
            if rows != self.num_rows:
                raise CorruptionError(self.uri, 0, f"{self.num_rows} rows", rows)

    @contextmanager
    def reading(self) -> Iterator[None]:
        """Name the file in errors of reading, and give them their kind.

        Raises:
            StaleStoreError: the file has changed, which may look like damage.
        """
        try:
            with self.address.reading(f"{self.file_format} pages", gone=_GONE):
                yield
        except (CorruptionError, OSError):
            with suppress(CorruptionError, OSError):
                self.check_unchanged()
            raise

    def with_constants(self, batch: pa.RecordBatch, names: Sequence[str]) -> pa.RecordBatch:
        """Return the named columns of rows of the file, those of its folders among them."""
        constants = dict(self.constants)
        columns = []
        for name in names:
            field = self.schema.field(name)
            if name in constants:
                value = pa.scalar(constants[name], field.type)
                columns.append(pa.repeat(value, batch.num_rows))
            else:
                at = batch.schema.get_field_index(name)
                if at < 0:
                    expected = f"a column {name!r} in its pages"
                    raise CorruptionError(self.uri, 0, expected, "none, or several")
                columns.append(fitted(batch.column(at), field, self.uri, "in its schema"))
        return pa.RecordBatch.from_arrays(
            columns, schema=pa.schema([self.schema.field(name) for name in names])
        )


class _One(NamedTuple):
    found: FoundFiles
    info: fs.FileInfo
    file_format: str


def source_files(
    found: Sequence[FoundFiles],
    *,
    latest_partition: str | None = None,
    ranges_of: str | None = None,
) -> list[SourceFile]:
    """Read the footers of columnar files.

    Args:
        found: the files.
        latest_partition: name of the `name=value` folders of which only the greatest value counts,
            by number if all values are numbers, else as text.
        ranges_of: name of the column whose ranges are wanted.

    Raises:
        ValueError: there are no such folders.
        CorruptionError: a footer is damaged.

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
        files = list(pool.map(lambda one: _read(one, ranges_of), wanted))
    # What is equal is one object, which is pickled once.
    schemas = {file.schema: file.schema for file in files}
    files = [replace(file, schema=schemas[file.schema]) for file in files]
    return sorted(files, key=lambda file: file.path)


def parquet_source(filesystem: fs.FileSystem, path: str) -> tuple[SourceFile, pq.FileMetaData]:
    """Describe one Parquet file that is never written again, and return what its footer says.

    Its identity is no more than path, size and footer.

    Args:
        filesystem: that has the file.
        path: of the file on it.

    Raises:
        FileNotFoundError: there is none.
        CorruptionError: its footer is damaged.

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
    # Some of what may be wrong in it Arrow does not tell of: it ends the process.
    footer_of(tail[:-_PARQUET_END], path, nbytes - len(tail))
    try:
        # Not `metadata.schema`: the two hold each other, and all that a footer says, which may be
        # megabytes, until garbage is collected.
        file = ParquetRows(pa.BufferReader(tail), path)
        return file.schema, file.metadata
    except READ_ERRORS as error:
        raise CorruptionError(path, nbytes, "a parquet footer", error) from error


def latest_value(values: Iterable[str | None], name: str, where: str) -> str:
    """Return the greatest value of folders: by number if all are numbers, else as text.

    Args:
        values: of all files; None: a file is in no such folder, or in that for nulls.
        name: of the folders.
        where: they are, for errors.

    Raises:
        ValueError: there are no such folders.
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
        # What is before the footer may be rows: it does not say more of them.
        return tail[-footer:]
    return tail


def _footer_hash(tail: bytes) -> str:
    return xxhash.xxh64_hexdigest(tail)
