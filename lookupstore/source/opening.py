"""Decide of which kind a source is, and open it: files or other rows, in a fixed order.

The order of rows is part of a source, because it decides between repeated keys. Files are in
ascending order of their paths (a list of files: as listed), and the rows of a file as they are
stored.
"""

from __future__ import annotations

import itertools
import os
import sys
from collections.abc import Iterable
from functools import partial
from typing import Any

import pyarrow as pa

from lookupstore.arrow.frames import is_lazy
from lookupstore.quantities import Size, bytes_of
from lookupstore.source.arrow_sources import (
    batches_source,
    dataset_source,
    lazy_source,
    one_column_error,
    stream_source,
    table_source,
)
from lookupstore.source.csv_dialect import USUAL, CsvDialect
from lookupstore.source.files import TextForm, files_source, object_source
from lookupstore.source.parts import is_table, parts_source
from lookupstore.source.python_rows import table_of
from lookupstore.source.search import path_of
from lookupstore.source.source import Source, type_name
from lookupstore.source.table_objects import library_table
from lookupstore.source.text_limits import LEAST_TEXT, MOST_TEXT, TextLimits
from lookupstore.storage.catalog_names import FORM
from lookupstore.storage.location import Location

KNOWN = (
    "a path, URI, glob or folder of Parquet or ORC files, or a list of these; a path, URI or glob "
    "of CSV, JSON lines or Arrow IPC files; the folder or URI of a table of Delta, "
    f"Hudi, Iceberg or Paimon; {FORM}; a file that is open for reading bytes; an Arrow table, "
    "record batch, reader or dataset; a deltalake.DeltaTable; a Table or scan of pyiceberg; a "
    "FileStoreTable of pypaimon; a dict of columns; a list or an iterator of dicts; a structured "
    "array of NumPy; a polars LazyFrame; an object with __arrow_c_stream__ such as a pandas or "
    "polars DataFrame or a DuckDB relation; or an iterable of record batches, tables or frames"
)
_END = object()


class UnknownSourceError(TypeError):
    """A value is not a source of rows."""


def open_source(
    source: Any,
    *,
    max_text: Size = MOST_TEXT,
    known: pa.Schema | None = None,
    dialect: CsvDialect = USUAL,
) -> Source:
    """Open a source of rows, of one of the kinds that `KNOWN` lists.

    Folders are read recursively, by Spark's rules. Every file must be Parquet or ORC, with any
    extension, except files in which their name or that of a folder begins with `.` or `_`. Below a
    folder, or the fixed beginning of a glob, `name=value` folders become columns: int32, int64,
    decimal, float64, date, timestamp (in UTC) or text, whichever holds all values. The folder of a
    Hudi or Delta table, or of an Iceberg table without a catalog, is read as the table: its current
    rows. An open source is returned unchanged.

    CSV has a line with names. Its types are inferred from the first megabyte of rows, in which a
    number with a leading zero is text. An empty field is null, and a quoted empty field is an empty
    text.

    Args:
        source: Files, or rows in any form that `KNOWN` lists.
        max_text: Largest size of one value in files of CSV or JSON lines, in bytes or as a text
            such as `"1GiB"`.
        known: Schema of the destination of Python rows, such as a table. None: unknown.
        dialect: Separator, quotes and so on of files of CSV.

    Raises:
        TypeError: If `source` is not a source of rows.
        ValueError: If a file is of an unknown format, or of another format than the others; while
            rows are read, if a value of text is not of the type of its column, or not UTF-8.
        FileNotFoundError: If a path names nothing, or no Parquet or ORC file is below it.
        FormatError: If the files belong to a table (the error names the line to write instead), if
            a folder has other files next to Parquet and ORC, or if its `name=value` folders do not
            agree.
        ImportError: If the source is a table, and a package for it is not installed.

    >>> open_source(pa.table({"id": [1, 2]})).count_rows()
    2
    """
    return _opened(source, max_text, known, dialect)


def in_types(source: Any, known: pa.Schema, *, max_text: Size = MOST_TEXT) -> Source:
    """Open a source of rows for a destination with known columns.

    Columns whose types would be inferred from the first rows of text have the types of the
    destination. So do columns of Python objects for which Arrow finds no type, such as dicts for
    maps. Columns of `name=value` folders are text if the destination has text. Other columns keep
    their types.

    Raises: The errors of `open_source`.

    >>> import io
    >>> zips = pa.schema([("zip", pa.string())])
    >>> in_types(io.BytesIO(b"zip,city\\n10001,New York\\n"), zips).schema.field("zip").type
    DataType(string)
    """
    opened = _opened(source, max_text, known)
    if opened.folders_with_texts is not None:
        opened = opened.folders_with_texts(known)
    return opened if opened.in_types is None else opened.in_types(known)


def with_every_column(
    source: Any, *, max_text: Size = MOST_TEXT, known: pa.Schema | None = None
) -> Source:
    """Open a source of rows to read every column, not a selection.

    The arguments are those of `open_source`.

    Raises: The errors of `open_source`; and while rows are read:
        ValueError: If a file has a column that the first one lacks.

    >>> with_every_column(pa.table({"id": [1, 2]})).schema.names
    ['id']
    """
    opened = open_source(source, max_text=max_text, known=known)
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
    opened = with_every_column(source, max_text=max_text, known=known)
    return in_types(opened, known)


def _opened(
    source: Any, max_text: Size, known: pa.Schema | None, dialect: CsvDialect = USUAL
) -> Source:
    """Open a source of rows for a destination whose columns may be known.

    Args:
        source: Files, or rows in any form that `KNOWN` lists.
        max_text: Largest size of one value in files of CSV or JSON lines, in bytes or as a text
            such as `"1GiB"`.
        known: Schema of the destination of Python rows, such as a table. None: unknown.
        dialect: Separator, quotes and so on of files of CSV.
    """
    if isinstance(source, Source):
        return source
    pandas = sys.modules.get("pandas")
    if pandas is not None and isinstance(source, pandas.Series):
        raise one_column_error(source)  # from pandas 3 on, it may be a stream of Arrow
    text = TextForm(TextLimits(bytes_of(max_text, "max_text", least=LEAST_TEXT)), dialect)
    if isinstance(source, (str, os.PathLike, Location)):
        return files_source([path_of(source)], text)
    if isinstance(source, pa.RecordBatch):
        return table_source(pa.Table.from_batches([source]))
    if isinstance(source, pa.Table):
        return table_source(source)
    dataset = sys.modules.get("pyarrow.dataset")
    if dataset is not None and isinstance(source, dataset.Dataset):
        return dataset_source(source, "Arrow dataset")
    table = library_table(source)
    if table is not None:
        return table
    made = table_of(source, known)
    if made is not None:
        return table_source(*made)
    if is_lazy(source):
        return lazy_source(source)
    if hasattr(source, "__arrow_c_stream__"):
        return stream_source(source, known)
    if hasattr(source, "read") and hasattr(source, "readable"):
        return object_source(source, text)
    if isinstance(source, Iterable) and not isinstance(source, bytes):
        return _iterable_source(source, text, known)
    raise UnknownSourceError(f"source is {type_name(source)}; give {KNOWN}")


def _iterable_source(source: Iterable[Any], text: TextForm, known: pa.Schema | None) -> Source:
    items = iter(source)
    first = next(items, _END)
    if first is _END:
        raise ValueError(
            f"source is an empty {type_name(source)}, which has no columns; leave the call out if "
            "there are no rows, or give a table that has columns, such as schema.empty_table()"
        )
    if isinstance(first, (str, os.PathLike, Location)):
        paths = []
        for i, item in enumerate(itertools.chain([first], items)):
            if not isinstance(item, (str, os.PathLike, Location)):
                raise TypeError(f"source: item {i} is {type_name(item)}, not a path")
            paths.append(path_of(item))
        return files_source(paths, text, in_order=not isinstance(source, (set, frozenset)))
    if isinstance(first, pa.RecordBatch):
        batches = itertools.chain([first], items)
        return batches_source(first.schema, batches, "Arrow record batches")
    if isinstance(first, dict):
        made = table_of([first, *items], known)
        assert made is not None
        return table_source(*made)
    if is_table(first):
        open_part = partial(_opened, max_text=MOST_TEXT, known=known)
        return parts_source(first, items, open_part, known)
    numpy = sys.modules.get("numpy")
    if numpy is not None and isinstance(source, numpy.ndarray):
        raise UnknownSourceError(
            f"source is a NumPy array of {source.dtype}, whose columns have no names; give a dict "
            "of columns, such as {'id': ids}, or a structured array"
        )
    raise UnknownSourceError(f"source: item 0 is {type_name(first)}; give {KNOWN}")
