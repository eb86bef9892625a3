"""A table as a set of columnar files: its current rows, in its data columns.

Meta columns are left out, because they describe the table and not a row, and each is text. Use
`HudiTable.scan()` to read them.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pyarrow as pa

from lookupstore.columnar.source_file import SourceFile, latest_value, parquet_source
from lookupstore.errors import StaleStoreError
from lookupstore.hudi.file_group.groups import FileSlice
from lookupstore.hudi.read.moments import SliceHistory, SliceMoment, data_columns
from lookupstore.hudi.read.scan_plan import plan_scan, time_with_rows
from lookupstore.hudi.timeline.given_times import When
from lookupstore.hudi.view import TableView, read_view
from lookupstore.source.folder_columns import said_by
from lookupstore.source.source import Source
from lookupstore.storage.location import Location, as_location

# Number of footers that are read at a time.
_THREADS = 16


def table_source(path: str | Location) -> Source:
    """Return the current rows of a table as the source of a store.

    Args:
        path: Folder or URI of the table.

    Raises:
        FormatError: If tables of this kind cannot be read; the error names the property.
        CorruptionError: If the table is damaged.

    >>> import tempfile
    >>> from lookupstore.hudi import HudiTable
    >>> folder = tempfile.mkdtemp()
    >>> table = HudiTable.create(folder, pa.schema({"id": pa.int64()}), record_key=["id"])
    >>> _ = table.insert(pa.table({"id": [1, 2]}))
    >>> source = table_source(folder)
    >>> source.schema.names, source.count_rows()
    (['id'], 2)
    """
    return SliceHistory(path).newest.source()


def source_as_of(path: str | Location, as_of: When) -> Source:
    """Return the rows of a table at a time as the source of a store, in its columns of now.

    Args:
        path: Folder or URI of the table.
        as_of: Instant or time, as `HudiTable.scan` takes it.

    Raises:
        ValueError: If `as_of` is not a time, or is before the first commit.
        StaleStoreError: If the files of that time may be deleted.

    Also raises the errors of `table_source`.
    """
    view = read_view(as_location(path))
    time = time_with_rows(view, as_of)
    plan = plan_scan(view, data_columns(view), as_of=time)
    return SliceMoment(view, plan, time, as_of=time).source()


#: The history of a table, by its folder or URI.
table_history = SliceHistory


def table_files(
    path: str | Location, *, latest_partition: str | None = None
) -> tuple[pa.Schema, list[SourceFile]]:
    """Return the data columns of a table, and the base files with its current rows.

    Args:
        path: Folder or URI of the table.
        latest_partition: Name of the `name=value` folders of which only those with the greatest
            value are read. None: all folders.

    Raises:
        FormatError: If tables of this kind cannot be read; the error names the property.
        CorruptionError: If the table is damaged.
        StaleStoreError: If a clean deleted a file during the call.
        ValueError: If there are no folders with that name.
    """
    view = read_view(as_location(path))
    slices = view.current()
    if latest_partition is not None:
        values = [said_by(file.group.partition).get(latest_partition) for file in slices]
        latest = latest_value(values, latest_partition, view.location.uri)
        slices = [file for file, value in zip(slices, values, strict=True) if value == latest]
    with ThreadPoolExecutor(_THREADS, "lookupstore-footer") as pool:
        files = list(pool.map(lambda file: _base_file(view, file), slices))
    return view.table_schema.columns, files


def _base_file(view: TableView, file: FileSlice) -> SourceFile:
    """Return a base file with the columns that the table still has."""
    try:
        source, _ = parquet_source(*view.location.resolve(file.path))
    except FileNotFoundError:
        shown = view.location.show(file.path)
        raise StaleStoreError(f"{shown}: gone; it was cleaned or rolled back") from None
    names = set(data_columns(view))
    return replace(source, schema=pa.schema([one for one in source.schema if one.name in names]))
