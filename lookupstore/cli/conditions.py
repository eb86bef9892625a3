"""Conditions on the rows of a store or source that a command prints."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa

from lookupstore.filters.row_filter import row_filter
from lookupstore.source.source import Source, where_rows
from lookupstore.store.store import LookupStore


def scanned(
    store: LookupStore, where: str | None, columns: Sequence[str] | None, **bounds: Any
) -> tuple[pa.Schema, Iterator[pa.RecordBatch]]:
    """Return the columns and rows of a scan of a store, those that meet a condition.

    Args:
        store: Store to scan.
        where: Condition in SQL. None: all rows.
        columns: Value columns. None: all.
        bounds: Other arguments of the scan.
    """
    if where is None:
        reader = store.scan(columns=columns, **bounds)
        return reader.schema, iter(reader)
    condition = row_filter(where, store.schema)
    read = columns
    if columns is not None:
        known = {*store.key, *columns}
        read = [*columns, *(name for name in condition.names if name not in known)]
    reader = store.scan(columns=read, **bounds)
    shown = reader.schema
    if columns is not None:
        shown = pa.schema([shown.field(name) for name in (*store.key, *columns)])

    def kept() -> Iterator[pa.RecordBatch]:
        for batch in reader:
            rows = condition.rows_of(batch)
            if rows.num_rows:
                yield rows.select(shown.names)

    return shown, kept()


def where_in(source: Source, where: str | None) -> Source:
    """Return a source with the rows that meet a condition in SQL. None: all rows."""
    return source if where is None else where_rows(source, row_filter(where, source.schema))
