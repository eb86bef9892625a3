"""Iceberg tables with delete files, which pyiceberg reads and does not write."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.catalog.memory import InMemoryCatalog
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
from pyiceberg.table import Table
from pyiceberg.typedef import Record


def table_of(catalog: InMemoryCatalog, rows: pa.Table, **properties: str) -> Table:
    table = catalog.create_table("w.t", rows.schema, properties=properties)
    table.append(rows)
    return table


def add_deletes(
    table: Table, path: Path, content: DataFileContent, rows: int, **details: Any
) -> None:
    """Commit a delete file to a table, as pyiceberg commits a data file."""
    with table.transaction() as transaction, transaction.update_snapshot().fast_append() as update:
        update.append_data_file(described(table, path, content, rows, **details))


def described(
    table: Table, path: Path, content: DataFileContent, rows: int, **details: Any
) -> DataFile:
    """Return a file as manifests describe it."""
    file = DataFile.from_args(
        content=content,
        file_path=f"file://{path}",
        file_format=details.pop("file_format", FileFormat.PARQUET),
        partition=details.pop("partition", Record()),
        record_count=rows,
        file_size_in_bytes=path.stat().st_size,
        **details,
    )
    file.spec_id = table.spec().spec_id
    return file


def positions_file(path: Path, file: str, positions: Sequence[int]) -> None:
    """Write a position delete file."""
    ids = {"file_path": "2147483546", "pos": "2147483545"}
    kinds = {"file_path": pa.string(), "pos": pa.int64()}
    schema = pa.schema(
        [pa.field(name, kinds[name], False, {"PARQUET:field_id": ids[name]}) for name in ids]
    )
    pq.write_table(pa.table([[file] * len(positions), positions], schema=schema), path)
