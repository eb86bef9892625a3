"""What a store is built from: files, or anything that gives Arrow batches, in a fixed order.

The order of rows is part of a source, because it decides between repeated keys: files by ascending
path (a list of files: as listed), and the rows of a file as they are stored.
"""

from __future__ import annotations

import fnmatch
import itertools
import json
import os
import posixpath
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import xxhash
from pyarrow import fs, orc

from lookupstore.location import open_uri, shown_uri

if TYPE_CHECKING:
    import pyarrow.dataset as ds

FORMATS = {".parquet": "parquet", ".parq": "parquet", ".pq": "parquet", ".orc": "orc"}
KNOWN = (
    "a path, URI, glob or folder of Parquet or ORC files, or a list of these; an Arrow table, "
    "record batch, reader or dataset; an iterable of record batches; or an object with "
    "__arrow_c_stream__ such as a pandas or polars DataFrame or a DuckDB relation"
)

_MAGIC = "*?["
_BATCH_ROWS = 1 << 16
_BATCH_BYTES = 4 << 20
_STREAM_BYTES = 1 << 18
# The coarsest clock of a file system has seconds: what is older can not change under its time.
_SETTLED_NS = 2_000_000_000


@dataclass(frozen=True)
class Source:
    """Describe an input that has been opened.

    Attributes:
        schema: its columns.
        description: what it is, in one line for people.
        batches: gives the named columns as record batches, in source order; call it once.
        count_rows: counts the rows without reading them, or gives None where that is not cheap.
        is_files: whether it is files, which any thread may read; what a caller has made may not be.
        fingerprint: hash of the names, sizes and times of the files, in their order; None if it is
            no files, or if one of them is so new that it may change again under the same time.
    """

    schema: pa.Schema
    description: str
    batches: Callable[[Sequence[str]], Iterator[pa.RecordBatch]]
    count_rows: Callable[[], int | None]
    is_files: bool = False
    fingerprint: str | None = None


def open_source(source: Any) -> Source:
    """Open a source of rows; `source.KNOWN` says what it may be.

    Folders are read recursively, without files and folders whose names begin with `.` or `_`.
    Below a folder, or the fixed beginning of a glob, `name=value` folders become columns.

    Raises:
        TypeError: `source` is nothing that gives rows.
        ValueError: a file is neither Parquet nor ORC, or both kinds are mixed.
        FileNotFoundError: a path names nothing, or no Parquet or ORC file is below it.

    >>> open_source(pa.table({"id": [1, 2]})).count_rows()
    2
    """
    if isinstance(source, (str, os.PathLike)):
        return _files_source([os.fspath(source)])
    if isinstance(source, pa.RecordBatch):
        return _table_source(pa.Table.from_batches([source]))
    if isinstance(source, pa.Table):
        return _table_source(source)
    dataset = sys.modules.get("pyarrow.dataset")
    if dataset is not None and isinstance(source, dataset.Dataset):
        return _dataset_source(source)
    pandas = sys.modules.get("pandas")
    if pandas is not None and isinstance(source, pandas.DataFrame):
        # A named index is a column that the user cares about; the default index is not.
        named = all(name is not None for name in source.index.names)
        table = pa.Table.from_pandas(source, preserve_index=named)
        return _table_source(table, "pandas DataFrame")
    if hasattr(source, "__arrow_c_stream__"):
        reader = pa.RecordBatchReader.from_stream(source)
        return _batches_source(reader.schema, reader, f"Arrow stream of {_type_name(source)}")
    if isinstance(source, Iterable) and not isinstance(source, (bytes, dict)):
        return _iterable_source(source)
    raise TypeError(f"source is {_type_name(source)}; give {KNOWN}")


def _type_name(value: object) -> str:
    return f"{type(value).__module__}.{type(value).__qualname__}".removeprefix("builtins.")


def _table_source(table: pa.Table, kind: str = "Arrow table") -> Source:
    return Source(
        table.schema.remove_metadata(),
        f"{kind} of {table.num_rows} rows",
        lambda columns: iter(table.select(list(columns)).to_batches(max_chunksize=_BATCH_ROWS)),
        lambda: int(table.num_rows),
    )


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

    return Source(schema.remove_metadata(), description, select, lambda: None)


def _one_line(schema: pa.Schema) -> str:
    return ", ".join(f"{field.name}: {field.type}" for field in schema)


def _iterable_source(source: Iterable[Any]) -> Source:
    items = iter(source)
    first = next(items, None)
    if first is None:
        raise ValueError(
            f"source is an empty {_type_name(source)}, which has no columns; give files, or a "
            "pyarrow.RecordBatchReader, which knows its schema without rows"
        )
    if isinstance(first, (str, os.PathLike)):
        paths = []
        for i, item in enumerate(itertools.chain([first], items)):
            if not isinstance(item, (str, os.PathLike)):
                raise TypeError(f"source: item {i} is {_type_name(item)}, not a path")
            paths.append(os.fspath(item))
        return _files_source(paths)
    if isinstance(first, pa.RecordBatch):
        batches = itertools.chain([first], items)
        return _batches_source(first.schema, batches, "Arrow record batches")
    raise TypeError(f"source: item 0 is {_type_name(first)}; give {KNOWN}")


def _dataset_source(dataset: ds.Dataset) -> Source:
    def select(columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        # What a dataset reads ahead is held beyond our memory budget: ask for little.
        batches = dataset.to_batches(
            columns=list(columns), batch_size=_BATCH_ROWS, batch_readahead=4, fragment_readahead=1
        )
        return iter(batches)

    schema = dataset.schema.remove_metadata()
    return Source(schema, "Arrow dataset", select, lambda: int(dataset.count_rows()))


@dataclass(frozen=True)
class _Found:
    """Files that one given path stands for; `base` is where hive folders begin, if anywhere."""

    filesystem: fs.FileSystem
    infos: tuple[fs.FileInfo, ...]
    base: str | None

    @property
    def files(self) -> list[str]:
        return [info.path for info in self.infos]


def _files_source(paths: Sequence[str]) -> Source:
    # Imported here: it imports pandas.
    import pyarrow.dataset as ds

    found = [_find_files(path) for path in paths]
    files = [file for one in found for file in one.files]
    formats = {_format_of(file) for file in files}
    if len(formats) > 1:
        raise ValueError("source mixes Parquet and ORC files; build from one kind at a time")
    (file_format,) = formats
    # A dataset finds schema and partitions. It does not read: its scan decodes whole row groups and
    # reads ahead as it likes, which no memory budget survives.
    datasets = [
        ds.dataset(
            one.files,
            format=file_format,
            filesystem=one.filesystem,
            partitioning=None if one.base is None else "hive",
            partition_base_dir=one.base,
        )
        for one in found
    ]
    schema = datasets[0].schema.remove_metadata()

    def select(columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        wanted = pa.schema([schema.field(name) for name in columns])
        for dataset in datasets:
            for fragment in dataset.get_fragments():
                yield from _read_file(fragment, file_format, wanted)

    first = shown_uri(paths[0])
    what = first if len(paths) == 1 else f"{first} and {len(paths) - 1} more"
    kind = {"parquet": "Parquet", "orc": "ORC"}[file_format]
    return Source(
        schema,
        f"{what} ({len(files)} {kind} file{'s'[: len(files) != 1]})",
        select,
        lambda: sum(int(dataset.count_rows()) for dataset in datasets),
        is_files=True,
        fingerprint=_fingerprint(found),
    )


def _fingerprint(found: Sequence[_Found]) -> str | None:
    """Return a hash that changes when files are added, removed, renamed, or written."""
    files = [
        (one.filesystem.type_name, one.base, info.path, info.size, info.mtime_ns)
        for one in found
        for info in one.infos
    ]
    times = [mtime for *_, mtime in files]
    if None in times or max(times) > time.time_ns() - _SETTLED_NS:
        return None
    return xxhash.xxh3_128_hexdigest(json.dumps(files).encode())


def _read_file(
    fragment: ds.FileFragment, file_format: str, schema: pa.Schema
) -> Iterator[pa.RecordBatch]:
    """Yield the wanted columns of one file in their wanted types, a few megabytes at a time."""
    import pyarrow.dataset as ds

    # A folder `name=value` decides over a column of that name, as everywhere with hive folders.
    constants = ds.get_partition_keys(fragment.partition_expression)
    names = [name for name in schema.names if name not in constants]
    with fragment.filesystem.open_input_file(fragment.path) as file:
        batches = _READERS[file_format](file, names)
        for batch in batches:
            columns = []
            for field in schema:
                if field.name in constants:
                    value = pa.scalar(constants[field.name], field.type)
                    columns.append(pa.repeat(value, batch.num_rows))
                elif field.name in batch.schema.names:
                    columns.append(_fitted(batch.column(field.name), field, fragment.path))
                else:
                    raise ValueError(
                        f"source: {fragment.path} lacks the column {field.name!r}, which the "
                        "first file has"
                    )
            yield pa.RecordBatch.from_arrays(columns, schema=schema)


def _fitted(column: pa.Array, field: pa.Field, path: str) -> pa.Array:
    if column.type == field.type:
        return column
    wrong = f"source: {path}: the column {field.name!r} is {column.type}, in the first file "
    if not _is_kindred(column.type, field.type):
        raise ValueError(f"{wrong}{field.type}; give files whose types agree")
    try:
        return column.cast(field.type)
    except pa.ArrowException as error:
        raise ValueError(f"{wrong}{field.type}: {error}") from None


def _is_kindred(given: pa.DataType, wanted: pa.DataType) -> bool:
    """Return whether a cast keeps what values mean, and refuses those that do not fit."""
    if pa.types.is_dictionary(given):
        return _is_kindred(given.value_type, wanted)
    if pa.types.is_dictionary(wanted):
        return _is_kindred(given, wanted.value_type)
    if pa.types.is_timestamp(given) and pa.types.is_timestamp(wanted):
        return (given.tz is None) == (wanted.tz is None)
    if all(t(given) or t(wanted) for t in (pa.types.is_decimal, pa.types.is_floating)):
        return False  # between decimals and floats Arrow rounds
    sides = [pa.schema([("", kind)]) for kind in (given, wanted)]
    try:
        common = pa.unify_schemas(sides, promote_options="permissive").field(0).type
    except pa.ArrowException:
        return False
    # To narrower floats, also inside of others, Arrow rounds without a word.
    return common == wanted or not (pa.types.is_floating(wanted) or pa.types.is_nested(wanted))


def _parquet_batches(file: pa.NativeFile, names: Sequence[str]) -> Iterator[pa.RecordBatch]:
    # Streams of pages, not whole column chunks; no pre-buffering, which holds the file compressed.
    reader = pq.ParquetFile(file, pre_buffer=False, buffer_size=_STREAM_BYTES)
    metadata = reader.metadata
    size = sum(metadata.row_group(i).total_byte_size for i in range(metadata.num_row_groups))
    rows = min(_BATCH_ROWS, max(1, _BATCH_BYTES * metadata.num_rows // max(1, size)))
    present = [name for name in names if name in reader.schema_arrow.names]
    if not present:
        return _without_columns(metadata.num_rows)
    return iter(reader.iter_batches(rows, columns=present))


def _orc_batches(file: pa.NativeFile, names: Sequence[str]) -> Iterator[pa.RecordBatch]:
    reader = orc.ORCFile(file)
    present = [name for name in names if name in reader.schema.names]
    if not present:
        return _without_columns(reader.nrows)
    return (reader.read_stripe(i, columns=present) for i in range(reader.nstripes))


def _without_columns(rows: int) -> Iterator[pa.RecordBatch]:
    for start in range(0, rows, _BATCH_ROWS):
        batch = pa.record_batch({"": pa.nulls(min(_BATCH_ROWS, rows - start))})
        yield batch.select([])


_READERS = {"parquet": _parquet_batches, "orc": _orc_batches}


def _format_of(file: str) -> str:
    extension = posixpath.splitext(file)[1].lower()
    if extension not in FORMATS:
        raise ValueError(
            f"source: {file} has the extension {extension or 'none'!r}; known are "
            f"{', '.join(FORMATS)}"
        )
    return FORMATS[extension]


def _find_files(path: str) -> _Found:
    """Find the files of a path: itself, those below a folder, or those that match a glob."""
    filesystem, root = _open_filesystem(path)
    info = filesystem.get_file_info(root)
    if info.type == fs.FileType.File:
        _format_of(root)
        return _Found(filesystem, (info,), None)
    if info.type == fs.FileType.Directory:
        return _Found(filesystem, _files_below(filesystem, root, path), root)
    if not any(sign in root for sign in _MAGIC):
        raise FileNotFoundError(f"source: {shown_uri(path)}: no such file or folder")
    parts = root.split("/")
    fixed = next(i for i, part in enumerate(parts) if any(sign in part for sign in _MAGIC))
    base = "/".join(parts[:fixed]) or "/"
    matches = sorted(set(_matching(filesystem, base, parts[fixed:])))
    files: dict[str, fs.FileInfo] = {}
    for match in filesystem.get_file_info(matches):
        if match.type == fs.FileType.Directory:
            files.update((info.path, info) for info in _files_below(filesystem, match.path, path))
        else:
            _format_of(match.path)
            files[match.path] = match
    if not files:
        raise FileNotFoundError(f"source: no file matches {shown_uri(path)}")
    return _Found(filesystem, tuple(files[name] for name in sorted(files)), base)


def _open_filesystem(path: str) -> tuple[fs.FileSystem, str]:
    if "://" not in path:
        return fs.LocalFileSystem(), os.path.abspath(os.path.expanduser(path))
    # In a URI a `*` would not survive parsing everywhere; the part before the first glob does.
    address, mark, query = path.partition("?")
    parts = address.split("/")
    fixed = next((i for i, part in enumerate(parts) if "*" in part or "[" in part), len(parts))
    filesystem, base = open_uri("/".join(parts[:fixed]) + mark + query)
    return filesystem, posixpath.join(base, *parts[fixed:])


def _visible(path: str, base: str) -> bool:
    parts = posixpath.relpath(path, base).split("/")
    # `_` hides files as Spark and Hive do, but a partition column may begin with it.
    return not any(p.startswith(".") or (p.startswith("_") and "=" not in p) for p in parts)


def _files_below(filesystem: fs.FileSystem, folder: str, path: str) -> tuple[fs.FileInfo, ...]:
    below = filesystem.get_file_info(fs.FileSelector(folder, recursive=True))
    seen = [info for info in below if info.is_file and _visible(info.path, folder)]
    seen.sort(key=lambda info: info.path)
    files = tuple(i for i in seen if posixpath.splitext(i.path)[1].lower() in FORMATS)
    if not files:
        other = f"; it has {posixpath.relpath(seen[0].path, folder)}" if seen else ""
        raise FileNotFoundError(
            f"source: {shown_uri(path)}: no file below it ends in {', '.join(FORMATS)}{other}"
        )
    return files


def _matching(filesystem: fs.FileSystem, base: str, parts: Sequence[str]) -> Iterator[str]:
    """Yield what matches a glob below `base`, one part of the path at a time."""
    if not parts:
        yield base
        return
    first, rest = parts[0], parts[1:]
    if not any(sign in first for sign in _MAGIC):
        child = posixpath.join(base, first)
        if filesystem.get_file_info(child).type != fs.FileType.NotFound:
            yield from _matching(filesystem, child, rest)
        return
    selector = fs.FileSelector(base, allow_not_found=True, recursive=False)
    children = filesystem.get_file_info(selector)
    if first == "**":
        yield from _matching(filesystem, base, rest)
    for info in children:
        name = posixpath.basename(info.path)
        if not _visible(name, ".") and name != first:
            continue
        folder = info.type == fs.FileType.Directory
        if first == "**":
            if folder:
                yield from _matching(filesystem, info.path, parts)
        elif fnmatch.fnmatchcase(name, first) and (folder or not rest):
            yield from _matching(filesystem, info.path, rest)
