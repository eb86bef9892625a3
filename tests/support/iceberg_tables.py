"""Iceberg tables with delete files, which pyiceberg reads and does not write."""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.catalog.memory import InMemoryCatalog
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
from pyiceberg.table import Table
from pyiceberg.typedef import Record
from pyroaring import BitMap


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
        file_path=details.pop("file_path", f"file://{path}"),
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


def vectors_file(path: Path, deleted: Mapping[str, Sequence[int]], **more: Any) -> None:
    """Write a file of deletion vectors.

    Source: the specification of Puffin, and its blob type `deletion-vector-v1`.
    """
    written, blobs = b"PFA1", []
    for file, positions in deleted.items():
        vector = (
            struct.pack(">I", 0xD1D33964) + struct.pack("<QI", 1, 0) + BitMap(positions).serialize()
        )
        blob = struct.pack(">I", len(vector)) + vector + struct.pack(">I", zlib.crc32(vector))
        blobs.append({
            "type": "deletion-vector-v1", "fields": [2147483546], "snapshot-id": -1,
            "sequence-number": -1, "offset": len(written), "length": len(blob),
            "properties": {"referenced-data-file": file, "cardinality": str(len(positions))},
            **more,
        })  # fmt: skip
        written += blob
    footer = json.dumps({"blobs": blobs}).encode()
    path.write_bytes(written + b"PFA1" + footer + struct.pack("<II", len(footer), 0) + b"PFA1")
