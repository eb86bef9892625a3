"""The rows of a snapshot, as the source of a store."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack
from functools import partial

import pyarrow as pa

from lookupstore.arrow.taking import keep_rows
from lookupstore.errors import CorruptionError
from lookupstore.source.damage import damaged_offset
from lookupstore.source.reading import fitted, read_to_store, schema_of
from lookupstore.source.source import Source
from lookupstore.tables.columns import field_in_file, in_table_names, with_ids
from lookupstore.tables.snapshot import Snapshot, TableFile

_GONE = "gone; a vacuum or expiry of the table deleted it: open the table again"


def snapshot_source(snapshot: Snapshot) -> Source:
    """Return the rows of a snapshot as a source.

    Rows are read file after file, in ascending order of their paths. This order has no meaning in
    the table, and does not decide between repeated keys.

    Raises, while rows are read:
        CorruptionError: If a file is damaged, or has fewer rows than are deleted of it.
        StaleStoreError: If a file is gone.
        FormatError: If a file has several columns for one of the table.
        ValueError: If a column of a file is of another kind than that of the table.
    """

    def batches(columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        for file in snapshot.files:
            yield from rows_of(snapshot, file, columns)

    return Source(
        snapshot.schema,
        snapshot.description,
        batches,
        lambda: snapshot.num_rows,
        is_files=True,
        fingerprint=snapshot.fingerprint,
        nbytes=sum(file.nbytes for file in snapshot.files),
        in_order=False,
    )


def rows_of(
    snapshot: Snapshot, file: TableFile, columns: Sequence[str]
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a data file that are not deleted, as the table has them.

    Args:
        snapshot: Table that has the file.
        file: The file.
        columns: Names of the columns to yield.

    Raises the errors of `snapshot_source`.
    """
    needed = [*columns]
    for keys in file.deleted_keys:
        needed += keys.names
    if snapshot.filter is not None:
        needed += snapshot.filter.names
    wanted = pa.schema([snapshot.columns.field(name) for name in dict.fromkeys(needed)])
    deleted = None if file.deleted is None else file.deleted.load()
    row = 0
    with ExitStack() as stack:
        with _reading(file):
            handle = stack.enter_context(file.address.open())
            read = _Reader(snapshot, file, handle, wanted)
        while True:
            # Only reads are in the context: errors of the use of a batch are not of the file.
            with _reading(file, read.names):
                batch = next(read.batches, None)
            if batch is None:
                break
            count = batch.num_rows
            kept = None if deleted is None else deleted.kept(row, count)
            rows = read.in_table(batch, kept, row)
            row += count
            for keys in file.deleted_keys:
                if rows.num_rows:
                    rows = keep_rows(rows, keys.kept(rows.select(list(keys.names))))
            if snapshot.filter is not None and rows.num_rows:
                rows = rows.filter(snapshot.filter.expression)
            if rows.num_rows:
                yield rows.select(list(columns))
    if deleted is not None and row < deleted.end:
        expected = f"at least {deleted.end} rows (row {deleted.end} is marked deleted)"
        raise CorruptionError(file.address.shown, 0, expected, row)


class _Reader:
    """The reader of an open data file.

    Args:
        snapshot: Table that has the file.
        file: The file.
        handle: The file, open.
        wanted: Columns of the table to read.

    Attributes:
        names: Names of the columns in the file that are read.
        batches: Rows of the file, in its own columns.
    """

    def __init__(
        self, snapshot: Snapshot, file: TableFile, handle: pa.NativeFile, wanted: pa.Schema
    ) -> None:
        shown = file.address.shown
        if handle.size() != file.nbytes:
            raise CorruptionError(shown, 0, f"{file.nbytes} bytes", f"{handle.size()} bytes")
        self._file, self._wanted, self._snapshot = file, wanted, snapshot
        there = schema_of(handle, file.file_format, shown)
        fields = with_ids(there, snapshot.stored, snapshot.ids_of_names, shown)
        self._there: dict[str, pa.Field] = {}
        for name in wanted.names:
            if name not in file.constants:
                at = field_in_file(snapshot.stored_field(name), fields, shown)
                if at is not None:
                    self._there[name] = fields.field(at)
        self.names = [field.name for field in self._there.values()]
        self.batches = read_to_store(
            handle, file.file_format, self.names, shown, page_bytes=file.address.page_bytes
        )

    def in_table(
        self, batch: pa.RecordBatch, kept: pa.BooleanArray | None, row: int
    ) -> pa.RecordBatch:
        """Return rows of the file with the wanted columns of the table.

        Args:
            batch: Rows of the file.
            kept: Which of the rows to return. None: all of them.
            row: Position of the first of them in the file.
        """
        count = batch.num_rows
        if kept is not None:
            count = kept.true_count
            batch = keep_rows(batch, kept)
        # Errors count rows of the file, which is not possible once some are left out.
        before = row if kept is None else None
        columns = [self._column(field, batch, count, before) for field in self._wanted]
        if not columns:  # a batch that is made of no columns has no rows
            return pa.record_batch([pa.nulls(count)], [""]).select([])
        return pa.RecordBatch.from_arrays(columns, schema=self._wanted)

    def _column(
        self, field: pa.Field, batch: pa.RecordBatch, count: int, before: int | None
    ) -> pa.Array:
        there = self._there.get(field.name)
        if there is None:
            values = self._file.constants, self._file.defaults
            value = next((one[field.name] for one in values if field.name in one), None)
            return pa.nulls(count, field.type) if value is None else pa.repeat(value, count)
        shown = self._file.address.shown
        stored = self._snapshot.stored_field(field.name)
        column = in_table_names(batch.column(there.name), there, stored, field, shown)
        return fitted(column, field, shown, "in the table", rows_before=before)


def _reading(file: TableFile, names: Sequence[str] = ()) -> AbstractContextManager[None]:
    """Let errors of reading some columns of a file name the file, and the damaged part."""
    place = None
    if file.file_format == "parquet":
        place = partial(damaged_offset, file.address, names)
    return file.address.reading(f"{file.file_format} pages", gone=_GONE, place=place)
