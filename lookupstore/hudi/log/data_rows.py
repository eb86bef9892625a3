"""Rows of data blocks: Avro records, a Parquet file, or an HFile of Avro records by key.

Source: HoodieAvroDataBlock, HoodieParquetDataBlock and HoodieHFileDataBlock of Apache Hudi.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.parquet as pq

from lookupstore.arrow.types import concat
from lookupstore.errors import CorruptionError, FormatError
from lookupstore.hudi.file_group.promotion import promoted
from lookupstore.hudi.log.avro_rows import AvroRows
from lookupstore.hudi.log.blocks import AVRO, HFILE, PARQUET, PARTIAL, LogBlock, avro_records
from lookupstore.hudi.log.hfile import read_hfile
from lookupstore.hudi.meta_columns import RECORD_KEY
from lookupstore.parquet.claims import look_at_claims
from lookupstore.parquet.footer import read_footer
from lookupstore.storage.read_errors import READ_ERRORS

#: Kinds of blocks with rows.
DATA = frozenset({AVRO, HFILE, PARQUET})
# Column of a row that Flink writes, and that says whether the row is deleted.
_OPERATION = "_hoodie_operation"


def block_rows(block: LogBlock, path: str, schema: pa.Schema) -> pa.Table:
    """Return the rows of a data block, in some columns of the table.

    Args:
        block: Block of one of the kinds `DATA`.
        path: Path of the log file, for errors.
        schema: Columns to return, in the types of the table. Those that the block lacks are null.

    Raises:
        CorruptionError: If the block is damaged.
        FormatError: If the block has rows that are not merged as a whole, or values that cannot be
            promoted to the types of the table.
    """
    if block.headers.get(PARTIAL, b"").lower() == b"true":
        raise FormatError(
            f"{path}: a log block with partial updates, which are not supported; compact the table "
            "with Apache Hudi"
        )
    if block.kind == PARQUET:
        rows = _parquet_rows(block, path, schema)
    else:
        reader = AvroRows(block.schema, path, block.at_schema)
        check_no_operations(reader.columns, path)
        if block.kind == AVRO:
            batch = reader.batch(avro_records(block, path), block.at)
        else:
            batch = _hfile_rows(reader, block, path)
        rows = pa.Table.from_batches([batch])
    if RECORD_KEY not in rows.schema.names or rows[RECORD_KEY].null_count:
        raise CorruptionError(path, block.at, f"rows with a {RECORD_KEY}", "rows without one")
    return pa.table([_fitted(rows, field, path) for field in schema], schema=schema)


def check_no_operations(columns: pa.Schema, path: str) -> None:
    """Refuse rows that say themselves whether they are deleted.

    Args:
        columns: Columns of the rows.
        path: Path of the file or table, for errors.

    Raises:
        FormatError: If the columns have Hudi's column of operations.
    """
    if _OPERATION in columns.names:
        raise FormatError(
            f"{path}: the column {_OPERATION}, in which Apache Flink marks deleted rows, is not "
            "supported in log files; compact the table with Apache Hudi"
        )


def _fitted(rows: pa.Table, field: pa.Field, path: str) -> pa.Array:
    if field.name not in rows.schema.names:
        return pa.nulls(rows.num_rows, field.type)
    column = rows[field.name]
    return promoted(concat(column.chunks, column.type), field.type, field.name, path)


def _hfile_rows(reader: AvroRows, block: LogBlock, path: str) -> pa.RecordBatch:
    """Return the rows of an HFile, whose keys are those of the rows."""
    entries = read_hfile(block.content, path, block.at).entries
    rows = reader.batch([(one.value, one.at) for one in entries], block.at)
    if RECORD_KEY not in rows.schema.names:
        return rows
    try:
        keys = pa.array([one.key for one in entries], pa.binary()).cast(pa.string())
    except pa.ArrowException as error:
        raise CorruptionError(path, block.at, "keys in UTF-8", error) from error
    at = rows.schema.get_field_index(RECORD_KEY)
    return rows.set_column(at, rows.schema.field(at), keys)


def _parquet_rows(block: LogBlock, path: str, schema: pa.Schema) -> pa.Table:
    try:
        read_footer(pa.BufferReader(block.content), path)  # refuses what is encrypted
        stream, _ = look_at_claims(pa.BufferReader(block.content), schema.names, path)
        file = pq.ParquetFile(stream, page_checksum_verification=True)
        check_no_operations(file.schema_arrow, path)
        there = [name for name in schema.names if name in file.schema_arrow.names]
        rows = file.read(there)
    except READ_ERRORS as error:
        raise CorruptionError(path, block.at, "a Parquet file in the block", error) from error
    if rows.num_rows != file.metadata.num_rows:
        expected = f"{file.metadata.num_rows} rows, as the footer says"
        raise CorruptionError(path, block.at, expected, rows.num_rows)
    return rows
