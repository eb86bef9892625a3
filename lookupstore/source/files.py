"""Open files as sources: files of paths, globs and folders, and files that are open for reading.

Parquet and ORC are read from their footers. CSV, JSON lines and Arrow IPC are read from their
beginning.
"""

from __future__ import annotations

import json
import posixpath
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

import pyarrow as pa
import pyarrow.parquet as pq
import xxhash

from lookupstore.errors import LookupStoreError
from lookupstore.filters.constants import which_may_match
from lookupstore.filters.row_filter import RowFilter
from lookupstore.orc.footer import read_footer
from lookupstore.parquet.ending import ParquetEnding
from lookupstore.parquet.footer import read_footer as read_parquet_footer
from lookupstore.source.csv_dialect import CsvDialect
from lookupstore.source.damage import damaged_offset
from lookupstore.source.folder_columns import FolderColumns
from lookupstore.source.reading import check_no_others, fitted, read_to_store, schema_of
from lookupstore.source.search import (
    COMPRESSIONS,
    FORMATS,
    STREAM_FORMATS,
    FoundFiles,
    FoundTable,
    Path,
    find_source,
    is_stream,
    shown_path,
)
from lookupstore.source.skipping import StatisticsFilter
from lookupstore.source.source import NeededFields, Source, meeting, type_name, with_checked_texts
from lookupstore.source.table_objects import opened_table
from lookupstore.source.table_readers import READABLE
from lookupstore.source.text_limits import TextLimits
from lookupstore.source.text_values import MISFITS
from lookupstore.storage.catalog_names import is_catalog_name
from lookupstore.storage.file_address import FileAddress
from lookupstore.storage.file_identity import FileIdentity, listed_identity, opened_unchanged
from lookupstore.storage.read_errors import READ_ERRORS, reading

if TYPE_CHECKING:
    from lookupstore.source.streams import Stream

# Number of footers that are read at a time.
_THREADS = 16
# Formats of tables that are read as the folder of the table.
# Estimated number of bytes of text for each byte of compressed text.
_TEXT_RATIO = 4

#: Function that yields the columns of a schema, in its types.
_Read: TypeAlias = "Callable[..., Iterator[pa.RecordBatch]]"


@dataclass(frozen=True)
class TextForm:
    """What to expect of files of text.

    Attributes:
        limits: Limits for the size of one value and one row.
        dialect: Separator, quotes and so on of CSV.
    """

    limits: TextLimits
    dialect: CsvDialect


def files_source(paths: Sequence[Path], text: TextForm, *, in_order: bool = True) -> Source:
    """Return the files, or the table, at paths, globs and folders as a source.

    Args:
        paths: Paths, globs and folders in the order of their rows.
        text: What to expect of files of text.
        in_order: Whether the order of the paths is fixed.
    """
    are_streams = all(
        is_stream(path if isinstance(path, str) else path.resolve("")[1])
        and not is_catalog_name(path)
        for path in paths
    )
    if are_streams:
        found = find_source(paths, STREAM_FORMATS)
    else:
        found = find_source(paths, FORMATS, STREAM_FORMATS, READABLE)
    if isinstance(found, FoundTable):
        return with_checked_texts(opened_table(found.format, found.path))
    if are_streams:
        return _streams_source(paths, found, text, in_order=in_order)
    formats = {kind for one in found for kind in one.formats}
    if len(formats) > 1:
        raise ValueError("source mixes Parquet and ORC files; give files of one kind")
    (file_format,) = formats
    identified = _identified(found)
    # The source has the columns of its first file. The first files of other folders are checked as
    # well, before any rows are read.
    schemas = []
    for one in found:
        address = FileAddress.on(one.filesystem, one.files[0])
        with _reading(address, file_format), address.open() as stream:
            schemas.append(schema_of(stream, file_format, address.shown))
    folders = [one.columns for one in found]
    return _columnar_source(
        paths, found, file_format, identified, schemas[0], folders, in_order=in_order
    )


def _columnar_source(
    paths: Sequence[Path],
    found: Sequence[FoundFiles],
    file_format: str,
    identified: Sequence[tuple[FileAddress, FileIdentity]],
    stored: pa.Schema,
    folders: Sequence[FolderColumns],
    *,
    in_order: bool,
    is_strict: bool = False,
    condition: RowFilter | None = None,
) -> Source:
    """Return files of Parquet or ORC as a source.

    Args:
        paths: Paths, globs and folders in the order of their rows.
        found: Files that were found for each of them.
        file_format: Format of the files: `parquet` or `orc`.
        identified: Address and identity of each file.
        stored: Columns of the first file.
        folders: Columns of the folders of each path.
        in_order: Whether the order of the paths is fixed.
        is_strict: Whether a file with a column that the first one lacks is an error.
        condition: Condition by which files and row groups are left out, which the rows of others
            need not meet. None: all are read.
    """
    schema = folders[0].schema(stored)
    again = partial(
        _columnar_source, paths, found, file_format, identified, stored, in_order=in_order
    )

    def select(columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        wanted = pa.schema([schema.field(name) for name in columns])
        known = frozenset(schema.names) if is_strict else None
        columns_of = (
            columns for columns, one in zip(folders, found, strict=True) for _ in one.files
        )
        constants = [
            {
                name: pa.scalar(value, schema.field(name).type)
                for name, value in columns_there.values(address.path).items()
            }
            for (address, _), columns_there in zip(identified, columns_of, strict=True)
        ]
        may_match, skipping = [True for _ in identified], None
        if condition is not None:
            may_match = which_may_match(condition, schema, constants)
            skipping = StatisticsFilter(condition, schema)
        for (address, identity), values, is_read in zip(
            identified, constants, may_match, strict=True
        ):
            if is_read:
                yield from _read_file(
                    address, identity, file_format, wanted, values, known, skipping
                )

    def with_texts(wanted: pa.Schema) -> Source:
        texts = [one.with_texts(wanted) for one in folders]
        return again(texts, is_strict=is_strict)

    first = shown_path(paths[0])
    what = first if len(paths) == 1 else f"{first} and {len(paths) - 1} more"
    kind = {"parquet": "Parquet", "orc": "ORC"}[file_format]
    count = len(identified)
    return Source(
        schema,
        f"{what} ({count} {kind} file{'s'[: count != 1]})",
        select,
        lambda: _count(partial(_rows, file_format=file_format), identified),
        is_files=True,
        fingerprint=_fingerprint(found, [known for _, known in identified]),
        nbytes=sum(info.size for one in found for info in one.infos),
        in_order=in_order,
        every_column=lambda: again(folders, is_strict=True),
        folders_with_texts=with_texts,
        filtered=lambda one: meeting(again(folders, is_strict=is_strict, condition=one), one),
    )


def _read_file(
    address: FileAddress,
    identity: FileIdentity,
    file_format: str,
    schema: pa.Schema,
    constants: Mapping[str, pa.Scalar],
    known: Container[str] | None,
    skipping: StatisticsFilter | None,
) -> Iterator[pa.RecordBatch]:
    """Yield the wanted columns of one file in their wanted types, in small batches.

    Args:
        address: Address of the file.
        identity: Identity of the file when it was listed.
        file_format: Format of the file: `parquet` or `orc`.
        schema: Schema of the wanted columns.
        constants: Values of the columns that the folders of the file add, by name.
        known: Names of all columns that the file may have. None: any.
        skipping: Condition by which row groups are left out. None: all are read.
    """
    names = [name for name in schema.names if name not in constants]
    shown = address.shown
    with ExitStack() as stack:
        with _reading(address, file_format):
            file = stack.enter_context(opened_unchanged(address, identity))
            metadata: pq.FileMetaData | None = None
            runs: Sequence[tuple[int, Sequence[int] | None]] = [(0, None)]
            if skipping is not None and file_format == "parquet":
                ending = ParquetEnding(file, shown, address.ending_bytes)
                metadata = ending.metadata
                own = {name: name for name in skipping.columns.names}
                runs = skipping.groups(ending.footer, own, constants).runs()
        for rows, groups in runs:
            with _reading(address, file_format):
                batches = read_to_store(
                    file,
                    file_format,
                    names,
                    shown,
                    page_bytes=address.page_bytes,
                    groups=groups,
                    known=known,
                    metadata=metadata,
                )
            while True:
                # Only reads are in the context: errors of the use of a batch are not errors of the
                # file.
                with _reading(address, file_format, names, groups):
                    batch = next(batches, None)
                if batch is None:
                    break
                yield _in_columns(batch, schema, constants, shown, rows)
                rows += batch.num_rows


def _in_columns(
    batch: pa.RecordBatch,
    schema: pa.Schema,
    constants: Mapping[str, pa.Scalar],
    shown: str,
    rows_before: int,
) -> pa.RecordBatch:
    """Return rows of a file in the wanted columns.

    Args:
        batch: Rows of the file, in its own types.
        schema: Schema of the wanted columns.
        constants: Values of the columns that the folders of the file add, by name.
        shown: Path of the file, which errors name.
        rows_before: Number of rows of the file before these.
    """
    columns = []
    for field in schema:
        if field.name in constants:
            columns.append(pa.repeat(constants[field.name], batch.num_rows))
        elif field.name in batch.schema.names:
            column = batch.column(field.name)
            columns.append(fitted(column, field, shown, rows_before=rows_before))
        else:
            raise ValueError(
                f"source: {shown} lacks the column {field.name!r}, which the first file has; "
                "choose columns that all files have (columns=)"
            )
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _streams_source(
    paths: Sequence[Path],
    found: Sequence[FoundFiles],
    text: TextForm,
    *,
    in_order: bool,
) -> Source:
    """Return files that are read from their beginning as a source."""
    from lookupstore.source.streams import open_stream

    files = _identified(found)
    formats = sorted({kind for one in found for kind in one.formats})
    if len(formats) > 1:
        raise ValueError(f"source mixes {' and '.join(formats)} files; give files of one kind")
    what = {"CSV": "a CSV file", "Arrow IPC": "an Arrow IPC file"}.get(formats[0], "JSON lines")

    def opened(
        stack: ExitStack, file: FileAddress, handle: pa.NativeFile, identity: FileIdentity
    ) -> Stream:
        compression = COMPRESSIONS.get(posixpath.splitext(file.path)[1].lower())
        if compression is None:
            return open_stream(handle, file.shown, text.limits, text.dialect)
        handle = stack.enter_context(pa.CompressedInputStream(handle, compression))
        limits = replace(text.limits, compressed=identity.nbytes)
        return open_stream(handle, file.shown, limits, text.dialect)

    def read(
        wanted: pa.Schema,
        *,
        known: Container[str] | None = None,
        needed: NeededFields | None = None,
    ) -> Iterator[pa.RecordBatch]:
        for file, identity in files:
            with ExitStack() as stack:
                with file.reading(what):
                    handle = stack.enter_context(opened_unchanged(file, identity))
                    stream = opened(stack, file, handle, identity)
                names = stream.schema.names
                if known is not None and set(wanted.names).issubset([*names, MISFITS]):
                    check_no_others(names, known, file.shown)
                yield from _each(_rows_of(stream, wanted, needed), partial(file.reading, what))

    address, identity = files[0]
    with address.reading(what), ExitStack() as stack:
        first = opened(stack, address, stack.enter_context(address.open()), identity)
    unpacked = sum(
        info.size * (_TEXT_RATIO if posixpath.splitext(info.path)[1].lower() in COMPRESSIONS else 1)
        for one in found
        for info in one.infos
    )
    shown = shown_path(paths[0])
    others = "" if len(paths) == 1 else f" and {len(paths) - 1} more"

    def made(read: _Read, every_column: Callable[[], Source] | None = None) -> Source:
        source = Source(
            first.schema,
            f"{shown}{others} ({len(files)} {formats[0]} file{'s'[: len(files) != 1]})",
            _selected(first.schema, read),
            lambda: None if first.is_text else _count(_ipc_rows, files),
            is_files=True,
            fingerprint=_fingerprint(found, [identity for _, identity in files], text.dialect),
            nbytes=sum(info.size for one in found for info in one.infos),
            unpacked=unpacked,
            in_order=in_order,
            every_column=every_column,
        )
        return _of_text(source, read, first) if first.is_text else source

    return made(read, lambda: made(partial(read, known=frozenset(first.schema.names))))


def object_source(file: Any, text: TextForm) -> Source:
    """Return an open file as a source."""
    # It is imported here, as above: importing takes time, and few sources are text.
    from lookupstore.source.streams import FROM_THE_END, open_stream

    name = getattr(file, "name", None)
    shown = name if isinstance(name, str) else f"a {type_name(file)}"
    shown = "standard input" if shown == "<stdin>" else shown
    if file.seekable():
        start = file.tell()
        magic = file.read(4)
        file.seek(start)
        if isinstance(magic, str):
            raise TypeError(f"source: {shown} is open for text; open it for bytes")
        for first, kind in FROM_THE_END.items():
            if magic.startswith(first):
                return _columnar_object(file, kind.lower(), shown)
    what = "CSV, JSON lines or Arrow IPC"
    with reading(shown, what, local=True):
        stream = open_stream(file, shown, text.limits, text.dialect)

    def read(wanted: pa.Schema, *, needed: NeededFields | None = None) -> Iterator[pa.RecordBatch]:
        return _each(_rows_of(stream, wanted, needed), lambda: reading(shown, what, local=True))

    source = Source(stream.schema, shown, _selected(stream.schema, read), lambda: None)
    return _of_text(source, read, stream) if stream.is_text else source


def _columnar_object(file: Any, file_format: str, shown: str) -> Source:
    """Return an open file of Parquet or ORC as a source."""
    arrows = pa.PythonFile(file, mode="r")
    what = {"parquet": "a Parquet file", "orc": "an ORC file"}[file_format]
    with reading(shown, what, local=True):
        schema = schema_of(arrows, file_format, shown)

    def select(columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        batches = read_to_store(arrows, file_format, columns, shown)
        for batch in _each(batches, lambda: reading(shown, what, local=True)):
            yield batch.select(list(columns))

    return Source(schema, f"{shown} ({what[2:].strip()})", select, lambda: None)


def _selected(
    schema: pa.Schema, read: _Read
) -> Callable[[Sequence[str]], Iterator[pa.RecordBatch]]:
    """Return a function that reads the named columns of a schema."""
    return lambda columns: read(pa.schema([schema.field(name) for name in columns]))


def _of_text(source: Source, read: _Read, stream: Stream) -> Source:
    """Return a source of text that can also be read in other types.

    Args:
        source: Source in its own types.
        read: Function that reads columns of a schema, with needed fields as `needed`.
        stream: Rows of the file, or of the first one.
    """

    def needing(schema: pa.Schema) -> Callable[[NeededFields], Source] | None:
        return None if stream.read_needing is None else partial(in_schema, schema)

    def in_schema(schema: pa.Schema, needed: NeededFields | None = None) -> Source:
        rows = _selected(schema, partial(read, needed=needed))
        made = replace(
            source, schema=schema, batches=rows, every_column=None, needing=needing(schema)
        )
        if not stream.reports_misfits or MISFITS in schema.names:
            return made
        reported = schema.append(pa.field(MISFITS, pa.string()))
        return replace(made, with_misfits=lambda: replace(in_schema(reported), has_misfits=True))

    def in_others(wanted: pa.Schema) -> Source:
        return in_schema(
            pa.schema(
                one.with_type(_with_fields(one.type, wanted.field(one.name).type))
                if one.name in wanted.names
                else one
                for one in source.schema
            )
        )

    return replace(source, in_types=in_others, needing=needing(source.schema))


def _with_fields(found: pa.DataType, wanted: pa.DataType) -> pa.DataType:
    """Return a wanted type, whose structs have the fields that were found in JSON."""
    if pa.types.is_list(found) and pa.types.is_list(wanted):
        item = wanted.value_field
        return pa.list_(item.with_type(_with_fields(found.value_type, item.type)))
    if not (pa.types.is_struct(found) and pa.types.is_struct(wanted)):
        return wanted
    others = {one.name: one for one in wanted}
    fields = {
        one.name: others[one.name].with_type(_with_fields(one.type, others[one.name].type))
        if one.name in others
        else one
        for one in found
    }
    # With the same fields, their order is that of the wanted type.
    return pa.struct(
        [fields[name] for name in (others if fields.keys() == others.keys() else fields)]
    )


def _rows_of(
    stream: Stream, wanted: pa.Schema, needed: NeededFields | None
) -> Iterator[pa.RecordBatch]:
    """Return columns of a stream, after a check of the needed fields if there are any."""
    if needed is None or stream.read_needing is None:
        return stream.read(wanted)
    return stream.read_needing(wanted, needed)


def _each(
    batches: Iterator[pa.RecordBatch], around: Callable[[], AbstractContextManager[None]]
) -> Iterator[pa.RecordBatch]:
    """Yield batches, with a context around the reading of each but not around its use."""
    while True:
        with around():
            batch = next(batches, None)
        if batch is None:
            return
        yield batch


def _count(
    rows: Callable[[FileAddress], int], files: Sequence[tuple[FileAddress, FileIdentity]]
) -> int | None:
    """Return the number of rows of all files, reading several at a time."""
    try:
        with ThreadPoolExecutor(min(_THREADS, len(files)), "lookupstore-rows") as pool:
            return sum(pool.map(rows, (address for address, _ in files)))
    except (*READ_ERRORS, LookupStoreError):  # reading the rows raises the error with the file
        return None


def _ipc_rows(address: FileAddress) -> int:
    """Return the number of rows of an Arrow IPC file.

    A stream raises an error.
    """
    # It is imported here: it takes longer than all other imports, and few sources need it.
    from pyarrow.dataset import IpcFileFormat

    with address.open() as file:
        return int(IpcFileFormat().make_fragment(file).count_rows())


def _rows(address: FileAddress, file_format: str) -> int:
    """Return the number of rows of a file, from its footer."""
    with address.open() as file:
        if file_format == "orc":
            return read_footer(file, address.shown).rows
        return sum(group.rows for group in read_parquet_footer(file, address.shown).groups)


def _identified(found: Sequence[FoundFiles]) -> list[tuple[FileAddress, FileIdentity]]:
    """Return the files with their identities, as far as the listing contains these."""
    return [
        (FileAddress.on(one.filesystem, info.path), listed_identity(one.filesystem, info))
        for one in found
        for info in one.infos
    ]


def _fingerprint(
    found: Sequence[FoundFiles], known: Sequence[FileIdentity], dialect: CsvDialect | None = None
) -> str | None:
    """Return a hash that changes when files are added, removed, renamed or written.

    Args:
        found: Files that were found.
        known: Identity of each file.
        dialect: Notation of files of text: in another one, the same bytes are other rows.
    """
    if any(one.is_young for one in known):
        return None
    folders = [(one.filesystem.type_name, one.base, len(one.infos)) for one in found]
    files = [one.parts for one in known]
    said = [folders, files] if dialect is None else [folders, files, repr(dialect)]
    return xxhash.xxh3_128_hexdigest(json.dumps(said).encode())


def _reading(
    address: FileAddress,
    file_format: str,
    names: Sequence[str] = (),
    groups: Sequence[int] | None = None,
) -> AbstractContextManager[None]:
    """Let errors of reading some columns of a file name the file, and the damaged part."""
    if file_format == "orc":
        return address.reading("an ORC file")
    return address.reading("a Parquet file", place=partial(damaged_offset, address, names, groups))
