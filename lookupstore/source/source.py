"""Open the source of a store: files or other rows, in a fixed order.

The order of rows is part of a source, because it decides between repeated keys. Files are in
ascending order of their paths (a list of files: as listed), and the rows of a file as they are
stored.
"""

from __future__ import annotations

import itertools
import json
import os
import posixpath
import sys
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import xxhash

from lookupstore.arrow.exact_casts import cast_exactly, has_all_fields, is_castable
from lookupstore.arrow.fitting import UnfitValueError
from lookupstore.arrow.frames import check_polars, is_lazy, is_polars
from lookupstore.arrow.outgoing import ArrowRows
from lookupstore.arrow.relations import check_relation, checked
from lookupstore.arrow.texts import check_texts
from lookupstore.arrow.types import plain_type
from lookupstore.errors import FormatError, LookupStoreError, listed
from lookupstore.orc.footer import read_footer
from lookupstore.parquet.footer import read_footer as read_parquet_footer
from lookupstore.quantities import Size, bytes_of
from lookupstore.source.csv_dialect import USUAL, CsvDialect
from lookupstore.source.folder_columns import Value
from lookupstore.source.python_rows import table_of
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
    path_of,
    shown_path,
)
from lookupstore.source.table_readers import table_reader
from lookupstore.source.text_limits import LEAST_TEXT, MOST_TEXT, TextLimits
from lookupstore.storage.file_address import FileAddress
from lookupstore.storage.file_identity import FileIdentity, listed_identity, opened_unchanged
from lookupstore.storage.location import Location
from lookupstore.storage.read_errors import READ_ERRORS, reading

if TYPE_CHECKING:
    import pyarrow.dataset as ds

KNOWN = (
    "a path, URI, glob or folder of Parquet or ORC files, or a list of these; a path, URI or glob "
    "of CSV, JSON lines or Arrow IPC files; the folder or URI of a Hudi table; a file that is open "
    "for reading bytes; an Arrow table, "
    "record batch, reader or dataset; a deltalake.DeltaTable; a Table or scan of pyiceberg; a dict "
    "of columns; a list or an iterator of dicts; a structured array of NumPy; a polars LazyFrame; "
    "an object with __arrow_c_stream__ such as a pandas or polars DataFrame or a DuckDB relation; "
    "or an iterable "
    "of record batches, tables or frames"
)

_BATCH_ROWS = 1 << 16
# Number of footers that are read at a time.
_THREADS = 16
# Formats of datasets that count their rows by reading all of them.
_UNCOUNTED = ("csv", "json")
# Estimated number of bytes of text for each byte of compressed text.
_TEXT_RATIO = 4


@dataclass(frozen=True)
class Source:
    """An input that has been opened.

    Attributes:
        schema: Schema of the rows.
        description: Description of the source, in one line for people.
        batches: Function that returns the named columns as record batches, in source order. Call it
            once. Reading raises `StaleStoreError` if a file has changed since it was listed, or
            changes while it is read.
        count_rows: Function that returns the number of rows without reading them, or None if
            counting is not cheap.
        is_files: Whether the source is files, which any thread may read. Other sources are read in
            the caller's thread.
        fingerprint: Text that changes whenever the rows do: for files, a hash of their identities
            in order. None: unknown, or a file is so new that it may change again with the same
            modification time.
        nbytes: Size of the files in bytes. None: The source is not files.
        unpacked: Estimate of the bytes of the files before compression, if rows cannot be counted.
            None: unknown.
        in_order: Whether the rows are in the same order each time they are read, so that the order
            can decide between repeated keys.
        table: Rows as a table, if they are in memory. None: They are not.
        in_types: Function that returns the source with the types of a schema, if its own types were
            inferred from text. Do not read this source afterwards. None: The types are fixed.
        every_column: Function that returns the source with a check that no file has columns which
            the first one lacks. Do not read this source afterwards. None: There is nothing to
            check.
    """

    schema: pa.Schema
    description: str
    batches: Callable[[Sequence[str]], Iterator[pa.RecordBatch]]
    count_rows: Callable[[], int | None]
    is_files: bool = False
    fingerprint: str | None = None
    nbytes: int | None = None
    unpacked: int | None = None
    in_order: bool = True
    table: pa.Table | None = None
    in_types: Callable[[pa.Schema], Source] | None = None
    every_column: Callable[[], Source] | None = None


def open_source(source: Any, *, max_text: Size = MOST_TEXT, dialect: CsvDialect = USUAL) -> Source:
    """Open a source of rows, of one of the kinds that `source.KNOWN` lists.

    Folders are read recursively, by Spark's rules. Every file must be Parquet or ORC, with any
    extension, except files in which their name or that of a folder begins with `.` or `_`. Below a
    folder, or the fixed beginning of a glob, `name=value` folders become columns: int32, int64,
    decimal, float64, date, timestamp (in UTC) or text, whichever holds all values. The folder of a
    Hudi table is read as the table: its current rows, in its data columns. An open source is
    returned unchanged.

    CSV has a line with names. Its types are inferred from the first megabyte of rows, in which a
    number with a leading zero is text. An empty field is null, and a quoted empty field is an empty
    text.

    Args:
        source: Files, or rows in any form that `source.KNOWN` lists.
        max_text: Largest size of one value in files of CSV or JSON lines, in bytes or as a text
            such as `"1GiB"`.
        dialect: Separator, quotes, nulls and names of files of CSV.

    Raises:
        TypeError: If `source` is not a source of rows.
        ValueError: If a file is of an unknown format, or of another format than the others; while
            rows are read, if a value of text is not of the type of its column, or not UTF-8.
        FileNotFoundError: If a path names nothing, or no Parquet or ORC file is below it.
        FormatError: If the files belong to a table (the error names the line to write instead), if
            a folder has other files next to Parquet and ORC, or if its `name=value` folders do not
            agree.
        ImportError: If the source is a Hudi table, and a package for it is not installed.

    >>> open_source(pa.table({"id": [1, 2]})).count_rows()
    2
    """
    return _opened(source, max_text, None, dialect)


def _opened(
    source: Any, max_text: Size, known: pa.Schema | None, dialect: CsvDialect = USUAL
) -> Source:
    """Open a source of rows for a destination whose columns may be known.

    Args:
        source: Files, or rows in any form that `source.KNOWN` lists.
        max_text: Largest size of one value in files of CSV or JSON lines, in bytes or as a text
            such as `"1GiB"`.
        known: Schema of the destination of Python rows, such as a table. None: unknown.
        dialect: Separator, quotes, nulls and names of files of CSV.
    """
    if isinstance(source, Source):
        return source
    text = _Text(TextLimits(bytes_of(max_text, "max_text", least=LEAST_TEXT)), dialect)
    if isinstance(source, (str, os.PathLike, Location)):
        return _files_source([path_of(source)], text)
    if isinstance(source, pa.RecordBatch):
        return _table_source(pa.Table.from_batches([source]))
    if isinstance(source, pa.Table):
        return _table_source(source)
    dataset = sys.modules.get("pyarrow.dataset")
    if dataset is not None and isinstance(source, dataset.Dataset):
        return _dataset_source(source, "Arrow dataset")
    deltalake = sys.modules.get("deltalake")
    if deltalake is not None and isinstance(source, deltalake.DeltaTable):
        return _delta_source(source)
    iceberg = sys.modules.get("pyiceberg.table")
    if iceberg is not None and isinstance(source, iceberg.Table):
        source = source.scan()
    if iceberg is not None and isinstance(source, iceberg.DataScan):
        return _iceberg_source(source)
    made = table_of(source, known)
    if made is not None:
        return _table_source(*made)
    if is_lazy(source):
        return _lazy_source(source)
    check_polars(source, "source")
    partly = check_relation(source, "source")
    if hasattr(source, "__arrow_c_stream__"):
        # In a C stream, errors of this package would become errors of Arrow with the same text.
        ours = isinstance(source, ArrowRows)
        reader = source._reader() if ours else pa.RecordBatchReader.from_stream(source)
        batches = checked(reader, partly, "source") if partly else reader
        if known is not None and is_polars(source):
            return _table_source(reader.read_all(), "polars DataFrame")
        rows = _batches_source(reader.schema, batches, f"Arrow stream of {_type_name(source)}")
        # Other objects may have to run a query to know their length.
        return replace(rows, count_rows=lambda: len(source)) if is_polars(source) else rows
    if hasattr(source, "read") and hasattr(source, "readable"):
        return _object_source(source, text)
    if isinstance(source, Iterable) and not isinstance(source, bytes):
        return _iterable_source(source, text, known)
    raise TypeError(f"source is {_type_name(source)}; give {KNOWN}")


def in_types(source: Any, known: pa.Schema, *, max_text: Size = MOST_TEXT) -> Source:
    """Open a source of rows for a destination with known columns.

    Columns whose types would be inferred from the first rows of text have the types of the
    destination. So do columns of Python objects for which Arrow finds no type, such as dicts for
    maps. Other columns keep their types.

    Raises: The errors of `open_source`.

    >>> import io
    >>> zips = pa.schema([("zip", pa.string())])
    >>> in_types(io.BytesIO(b"zip,city\\n10001,New York\\n"), zips).schema.field("zip").type
    DataType(string)
    """
    opened = _opened(source, max_text, known)
    return opened if opened.in_types is None else opened.in_types(known)


def with_every_column(source: Any, *, max_text: Size = MOST_TEXT) -> Source:
    """Open a source of rows to read every column, not a selection.

    Raises: The errors of `open_source`; and while rows are read:
        ValueError: If a file has a column that the first one lacks.

    >>> with_every_column(pa.table({"id": [1, 2]})).schema.names
    ['id']
    """
    opened = open_source(source, max_text=max_text)
    return opened if opened.every_column is None else opened.every_column()


def in_columns(source: Any, known: pa.Schema, *, max_text: Size = MOST_TEXT) -> Source:
    """Open a source of rows for a destination that reads every column.

    Types are the same as with `in_types`.

    Raises: The errors of `open_source`; and while rows are read:
        ValueError: If a file has a column that the first one lacks.

    >>> scores = pa.schema({"scores": pa.map_(pa.string(), pa.int64())})
    >>> in_columns([{"scores": {"ann": 7}}], scores).schema.field("scores").type
    MapType(map<string, int64>)
    """
    opened = with_every_column(_opened(source, max_text, known))
    return in_types(opened, known)


def _checked(source: Source) -> Source:
    """Return a source with a check that all texts are UTF-8."""

    def select(columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        row = 0
        for batch in source.batches(columns):
            check_texts(batch, f"source: {source.description}", row)
            row += batch.num_rows
            yield batch

    return replace(source, batches=select)


def _type_name(value: object) -> str:
    return f"{type(value).__module__}.{type(value).__qualname__}".removeprefix("builtins.")


def _table_source(table: pa.Table, kind: str = "Arrow table") -> Source:
    source = Source(
        table.schema.remove_metadata(),
        f"{kind} of {table.num_rows} rows",
        lambda columns: iter(table.select(list(columns)).to_batches(max_chunksize=_BATCH_ROWS)),
        lambda: int(table.num_rows),
        table=table,
    )
    return _checked(source)


def _lazy_source(frame: Any) -> Source:
    """Return a polars LazyFrame as a source, which reads only the wanted columns."""
    empty = frame.limit(0).collect()
    check_polars(empty, "source")
    schema = pa.RecordBatchReader.from_stream(empty).schema.remove_metadata()

    def select(columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        rows = frame.select(list(columns)).collect(engine="streaming")
        return iter(pa.RecordBatchReader.from_stream(rows))

    return _checked(Source(schema, "polars LazyFrame", select, lambda: None))


def _delta_source(table: Any) -> Source:
    """Return a Delta table as a source.

    Its dataset reads the files in their order, but supports neither column mapping, which readers
    of version 1 do not need, nor deletion vectors. `scan` supports both, in no fixed order.

    Raises:
        FormatError: If the table needs `scan`, and deltalake is too old for it.
    """
    description = f"Delta table at version {table.version()}"
    if table.protocol().min_reader_version == 1:
        return _dataset_source(table.to_pyarrow_dataset(), description)
    if not hasattr(table, "scan"):
        raise FormatError(
            f"source: the {description} may have column mapping or deletion vectors, and this "
            "deltalake does not read them; install a newer deltalake"
        )
    # The engine uses other layouts for texts; the schema of the table has the right types.
    schema = pa.schema([one.remove_metadata() for one in pa.schema(table.schema().to_arrow())])

    def select(columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        wanted = pa.schema([schema.field(name) for name in columns])
        # The engine counts rows without columns incorrectly.
        asked = list(columns) or schema.names[:1]
        for batch in pa.RecordBatchReader.from_stream(table.scan(columns=asked)):
            yield batch.select(list(columns)).cast(wanted)

    return Source(schema, description, select, lambda: None, in_order=False)


def _iceberg_source(scan: Any) -> Source:
    """Return a scan of pyiceberg as a source, which reads only the wanted columns."""
    with scan.to_arrow_batch_reader() as reader:
        schema = reader.schema.remove_metadata()

    def select(columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        with scan.select(*columns).to_arrow_batch_reader() as rows:
            for batch in rows:
                yield batch.select(list(columns))

    return _checked(Source(schema, "scan of an Iceberg table", select, lambda: None))


def _parts_source(first: Any, others: Iterator[Any], known: pa.Schema | None) -> Source:
    """Return tables or frames, one after the other, as a source."""
    schema = _opened(first, MOST_TEXT, known).schema
    if known is not None:
        schema = _firm(schema, known)

    def select(columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        row = 0
        for i, part in enumerate(itertools.chain([first], others)):
            if not _is_table(part):
                raise TypeError(f"source: item {i} is {_type_name(part)}, not a table or a frame")
            opened = _opened(part, MOST_TEXT, known)
            same = opened.schema.equals(schema)
            if not same and (known is None or not _may_be_cast(opened.schema, schema)):
                raise TypeError(
                    f"source: item {i} has the schema {_one_line(opened.schema)}; the first one "
                    f"has {_one_line(schema)}; give them one schema, as "
                    "pa.Table.from_pandas(frame, schema=...) does"
                )
            for batch in opened.batches(columns):
                yield batch if same else _cast_batch(batch, schema, f"source: item {i}", row)
                row += batch.num_rows

    return Source(schema, f"{_type_name(first)}s", select, lambda: None)


def _firm(given: pa.Schema, known: pa.Schema) -> pa.Schema:
    """Return the schema of a first frame, in the types of the place if they fit.

    Values decide the types of a frame: a column of integers becomes floats if it has a null. Only
    integers of other widths, which may widen a column, and structs without all fields keep their
    types.
    """
    types = {field.name: field.type for field in known}
    return pa.schema(
        field.with_type(types[field.name])
        if field.name in types
        and not pa.types.is_integer(plain_type(field.type))
        and is_castable(field.type, types[field.name])
        and has_all_fields(field.type, types[field.name])
        else field
        for field in given
    )


def _may_be_cast(given: pa.Schema, wanted: pa.Schema) -> bool:
    return given.names == wanted.names and all(
        is_castable(one.type, plain_type(other.type)) and has_all_fields(one.type, other.type)
        for one, other in zip(given, wanted, strict=True)
    )


def _cast_batch(batch: pa.RecordBatch, schema: pa.Schema, where: str, row: int) -> pa.RecordBatch:
    """Return rows in other types, for errors that count rows from `row` on."""
    columns = []
    for name, column in zip(batch.schema.names, batch.columns, strict=True):
        try:
            columns.append(cast_exactly(column, plain_type(schema.field(name).type)))
        except UnfitValueError as error:
            raise ValueError(
                f"{where}: the column {name!r} has {error.shown} in row {row + error.row + 1}, "
                f"which {schema.field(name).type} cannot hold; give parts whose types agree"
            ) from error
    return pa.RecordBatch.from_arrays(columns, batch.schema.names)


def _is_table(value: Any) -> bool:
    pandas = sys.modules.get("pandas")
    is_frame = pandas is not None and isinstance(value, pandas.DataFrame)
    return is_frame or hasattr(value, "__arrow_c_stream__")


def _batches_source(
    schema: pa.Schema, batches: Iterable[pa.RecordBatch], description: str
) -> Source:
    def select(columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        for i, batch in enumerate(batches):
            if not isinstance(batch, pa.RecordBatch):
                raise TypeError(f"source: item {i} is {_type_name(batch)}, not a record batch")
            if not batch.schema.equals(schema):
                raise TypeError(
                    f"source: batch {i} has the schema {_one_line(batch.schema)}; the first one "
                    f"has {_one_line(schema)}"
                )
            yield batch.select(list(columns))

    return _checked(Source(schema.remove_metadata(), description, select, lambda: None))


def _one_line(schema: pa.Schema) -> str:
    return listed(schema, lambda field: f"{field.name}: {field.type}")


def _iterable_source(source: Iterable[Any], text: _Text, known: pa.Schema | None) -> Source:
    items = iter(source)
    first = next(items, None)
    if first is None:
        raise ValueError(
            f"source is an empty {_type_name(source)}, which has no columns; give files, or a "
            "pyarrow.RecordBatchReader, which knows its schema without rows"
        )
    if isinstance(first, (str, os.PathLike, Location)):
        paths = []
        for i, item in enumerate(itertools.chain([first], items)):
            if not isinstance(item, (str, os.PathLike, Location)):
                raise TypeError(f"source: item {i} is {_type_name(item)}, not a path")
            paths.append(path_of(item))
        return _files_source(paths, text, in_order=not isinstance(source, (set, frozenset)))
    if isinstance(first, pa.RecordBatch):
        batches = itertools.chain([first], items)
        return _batches_source(first.schema, batches, "Arrow record batches")
    if isinstance(first, dict):
        made = table_of([first, *items], known)
        assert made is not None
        return _table_source(*made)
    if _is_table(first):
        return _parts_source(first, items, known)
    raise TypeError(f"source: item 0 is {_type_name(first)}; give {KNOWN}")


def _dataset_source(dataset: ds.Dataset, description: str) -> Source:
    def select(columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        # Batches that a dataset reads ahead do not count in the memory budget, so their number is
        # small.
        batches = dataset.to_batches(
            columns=list(columns), batch_size=_BATCH_ROWS, batch_readahead=4, fragment_readahead=1
        )
        return iter(batches)

    def count_rows() -> int | None:
        formats = [getattr(one, "format", None) for one in getattr(dataset, "children", [dataset])]
        if any(getattr(one, "default_extname", None) in _UNCOUNTED for one in formats):
            return None
        return int(dataset.count_rows())

    return _checked(Source(dataset.schema.remove_metadata(), description, select, count_rows))


@dataclass(frozen=True)
class _Text:
    """What to expect of files of text.

    Attributes:
        limits: Limits for the size of one value and one row.
        dialect: Separator, quotes, nulls and names of CSV.
    """

    limits: TextLimits
    dialect: CsvDialect


def _object_source(file: Any, text: _Text) -> Source:
    """Return an open file as a source."""
    # It is imported here, as below: importing takes time, and few sources are text.
    from lookupstore.source.streams import FROM_THE_END, open_stream

    name = getattr(file, "name", None)
    shown = name if isinstance(name, str) else f"a {_type_name(file)}"
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

    def read(wanted: pa.Schema) -> Iterator[pa.RecordBatch]:
        return _each(stream.read(wanted), lambda: reading(shown, what, local=True))

    source = Source(stream.schema, shown, _selected(stream.schema, read), lambda: None)
    return _of_text(source, read) if stream.is_text else source


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


def _streams_source(
    paths: Sequence[Path],
    found: Sequence[FoundFiles],
    text: _Text,
    *,
    in_order: bool,
) -> Source:
    """Return files that are read from their beginning as a source."""
    from lookupstore.source.streams import Stream, open_stream

    files = _identified(found)
    formats = sorted({kind for one in found for kind in one.formats})
    if len(formats) > 1:
        raise ValueError(
            f"source mixes {' and '.join(formats)} files; build from one kind at a time"
        )
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

    def read(wanted: pa.Schema, *, known: Container[str] | None = None) -> Iterator[pa.RecordBatch]:
        for file, identity in files:
            with ExitStack() as stack:
                with file.reading(what):
                    handle = stack.enter_context(opened_unchanged(file, identity))
                    stream = opened(stack, file, handle, identity)
                names = stream.schema.names
                if known is not None and set(wanted.names).issubset(names):
                    check_no_others(names, known, file.shown)
                yield from _each(stream.read(wanted), partial(file.reading, what))

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
            fingerprint=_fingerprint(found, [identity for _, identity in files]),
            nbytes=sum(info.size for one in found for info in one.infos),
            unpacked=unpacked,
            in_order=in_order,
            every_column=every_column,
        )
        return _of_text(source, read) if first.is_text else source

    return made(read, lambda: made(partial(read, known=frozenset(first.schema.names))))


_Read = Callable[[pa.Schema], Iterator[pa.RecordBatch]]


def _selected(
    schema: pa.Schema, read: _Read
) -> Callable[[Sequence[str]], Iterator[pa.RecordBatch]]:
    """Return a function that reads the named columns of a schema."""
    return lambda columns: read(pa.schema([schema.field(name) for name in columns]))


def _of_text(source: Source, read: _Read) -> Source:
    """Return a source of text that can also be read in other types."""

    def in_others(wanted: pa.Schema) -> Source:
        schema = pa.schema(
            wanted.field(field.name).with_nullable(True) if field.name in wanted.names else field
            for field in source.schema
        )
        batches = _selected(schema, read)
        return replace(source, schema=schema, batches=batches, every_column=None)

    return replace(source, in_types=in_others)


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


def _files_source(paths: Sequence[Path], text: _Text, *, in_order: bool = True) -> Source:
    are_streams = all(
        is_stream(path if isinstance(path, str) else path.resolve("")[1]) for path in paths
    )
    if are_streams:
        found = find_source(paths, STREAM_FORMATS)
    else:
        found = find_source(paths, FORMATS, STREAM_FORMATS)
    if isinstance(found, FoundTable):
        return _checked(table_reader("hudi").table_source(found.path))
    if are_streams:
        return _streams_source(paths, found, text, in_order=in_order)
    files = [file for one in found for file in one.files]
    formats = {kind for one in found for kind in one.formats}
    if len(formats) > 1:
        raise ValueError("source mixes Parquet and ORC files; build from one kind at a time")
    (file_format,) = formats
    identified = _identified(found)
    # The source has the columns of its first file. The first files of other folders are checked as
    # well, before any rows are read.
    schemas = []
    for one in found:
        address = FileAddress.on(one.filesystem, one.files[0])
        with _reading(address, file_format), address.open() as stream:
            schemas.append(schema_of(stream, file_format, address.shown))
    schema = found[0].columns.schema(schemas[0])

    def select(
        columns: Sequence[str], *, known: Container[str] | None = None
    ) -> Iterator[pa.RecordBatch]:
        wanted = pa.schema([schema.field(name) for name in columns])
        columns_of = (one.columns for one in found for _ in one.files)
        for (address, identity), folders in zip(identified, columns_of, strict=True):
            constants = folders.values(address.path)
            yield from _read_file(address, identity, file_format, wanted, constants, known)

    first = shown_path(paths[0])
    what = first if len(paths) == 1 else f"{first} and {len(paths) - 1} more"
    kind = {"parquet": "Parquet", "orc": "ORC"}[file_format]
    source = Source(
        schema,
        f"{what} ({len(files)} {kind} file{'s'[: len(files) != 1]})",
        select,
        lambda: _count(partial(_rows, file_format=file_format), identified),
        is_files=True,
        fingerprint=_fingerprint(found, [known for _, known in identified]),
        nbytes=sum(info.size for one in found for info in one.infos),
        in_order=in_order,
    )
    strict = partial(select, known=frozenset(schema.names))
    return replace(source, every_column=lambda: replace(source, batches=strict))


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


def _fingerprint(found: Sequence[FoundFiles], known: Sequence[FileIdentity]) -> str | None:
    """Return a hash that changes when files are added, removed, renamed or written."""
    if any(one.is_young for one in known):
        return None
    folders = [(one.filesystem.type_name, one.base, len(one.infos)) for one in found]
    files = [one.parts for one in known]
    return xxhash.xxh3_128_hexdigest(json.dumps([folders, files]).encode())


def _reading(address: FileAddress, file_format: str) -> AbstractContextManager[None]:
    return address.reading({"parquet": "a Parquet file", "orc": "an ORC file"}[file_format])


def _read_file(
    address: FileAddress,
    identity: FileIdentity,
    file_format: str,
    schema: pa.Schema,
    constants: Mapping[str, Value],
    known: Container[str] | None,
) -> Iterator[pa.RecordBatch]:
    """Yield the wanted columns of one file in their wanted types, in small batches.

    Args:
        address: Address of the file.
        identity: Identity of the file when it was listed.
        file_format: Format of the file: `parquet` or `orc`.
        schema: Schema of the wanted columns.
        constants: Values of the columns that the folders of the file add, by name.
        known: Names of all columns that the file may have. None: any.
    """
    names = [name for name in schema.names if name not in constants]
    shown, page_bytes = address.shown, address.page_bytes
    rows = 0
    with ExitStack() as stack:
        with _reading(address, file_format):
            file = stack.enter_context(opened_unchanged(address, identity))
            batches = read_to_store(
                file, file_format, names, shown, page_bytes=page_bytes, known=known
            )
        while True:
            # Only reads are in the context: errors of the use of a batch are not errors of the
            # file.
            with _reading(address, file_format):
                batch = next(batches, None)
            if batch is None:
                return
            columns = []
            for field in schema:
                if field.name in constants:
                    value = pa.scalar(constants[field.name], field.type)
                    columns.append(pa.repeat(value, batch.num_rows))
                elif field.name in batch.schema.names:
                    column = batch.column(field.name)
                    columns.append(fitted(column, field, shown, rows_before=rows))
                else:
                    raise ValueError(
                        f"source: {shown} lacks the column {field.name!r}, which the first file has"
                    )
            rows += batch.num_rows
            yield pa.RecordBatch.from_arrays(columns, schema=schema)
