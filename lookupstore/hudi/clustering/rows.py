"""Read rows of base files without dictionaries, which differ between files."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from lookupstore.hudi.file_group.reader import SliceRows


def plain_schema(schema: pa.Schema) -> pa.Schema:
    """Return a schema without dictionaries."""
    return pa.schema(
        [
            one.with_type(one.type.value_type) if pa.types.is_dictionary(one.type) else one
            for one in schema
        ]
    )


def stored_batches(stored: SliceRows) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a file, some columns as dictionaries."""
    for group in range(len(stored.group_rows)):
        yield from stored.batches(group)


def plain_batches(stored: SliceRows, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a file, without dictionaries.

    Args:
        stored: Reader of the file.
        schema: Schema of the rows, without dictionaries.
    """
    for batch in stored_batches(stored):
        columns = [
            column.dictionary_decode() if pa.types.is_dictionary(column.type) else column
            for column in batch.columns
        ]
        yield pa.RecordBatch.from_arrays(columns, schema=schema)
