"""Open tables of deltalake and scans of pyiceberg as sources."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa

from lookupstore.errors import FormatError
from lookupstore.source.arrow_sources import dataset_source
from lookupstore.source.source import Source, with_checked_texts


def library_table(given: Any) -> Source | None:
    """Return a table or scan of deltalake or pyiceberg as a source.

    None: The value is of another kind.

    Raises:
        FormatError: If the Delta table needs a newer deltalake.
    """
    deltalake = sys.modules.get("deltalake")
    if deltalake is not None and isinstance(given, deltalake.DeltaTable):
        return _delta_source(given)
    iceberg = sys.modules.get("pyiceberg.table")
    if iceberg is not None and isinstance(given, iceberg.Table):
        return _iceberg_source(given.scan())
    if iceberg is not None and isinstance(given, iceberg.DataScan):
        return _iceberg_source(given)
    return None


def _delta_source(table: Any) -> Source:
    """Return a Delta table as a source.

    Its dataset reads the files in their order, but supports neither column mapping, which readers
    of version 1 do not need, nor deletion vectors. `scan` supports both, in no fixed order.

    Raises:
        FormatError: If the table needs `scan`, and deltalake is too old for it.
    """
    description = f"Delta table at version {table.version()}"
    if table.protocol().min_reader_version == 1:
        return dataset_source(table.to_pyarrow_dataset(), description)
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

    return with_checked_texts(Source(schema, "scan of an Iceberg table", select, lambda: None))
