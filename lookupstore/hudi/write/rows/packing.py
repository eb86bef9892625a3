"""``RowPacking``: rows as bytes for a sorter, with the bytes of their sort keys."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import pyarrow as pa

from lookupstore.arrow.types import concat
from lookupstore.hudi.keys.incoming import Incoming
from lookupstore.hudi.meta_columns import PARTITION_PATH, RECORD_KEY
from lookupstore.keys.schema import KeySchema
from lookupstore.rows.schema import RowSchema

TEXT = pa.string()
#: Columns of the partition path and record key of a row.
KEY_FIELDS = (pa.field(PARTITION_PATH, TEXT), pa.field(RECORD_KEY, TEXT))
# Columns of other known data of a row, with names that no column of a table has: Avro refuses
# these.
NUMBER = pa.field("#number", pa.int64())
DELETED = pa.field("#deleted", pa.bool_())

# Divisor of the memory of a sorter for the rows that are passed to it at once.
_PIECES = 16


class RowPacking:
    """A conversion of rows to bytes for a sorter, and back.

    Args:
        kept: Columns that unpacked rows have.
        by: Columns by which rows are sorted.
        nullable: Names of the columns in `by` that may contain nulls.
        rank: Columns that rank rows with the same key: the greatest values win. None: the order in
            which rows are added decides.
        memory: Memory of the sorter, in bytes.

    Raises:
        TypeError: If a column to sort by has a type without an order.
    """

    def __init__(
        self,
        kept: pa.Schema,
        by: pa.Schema,
        *,
        nullable: Sequence[str] = (),
        rank: pa.Schema | None = None,
        memory: int,
    ) -> None:
        self._rows = RowSchema(kept)
        self._keys = KeySchema(by, nullable)
        self._ranks = None if rank is None else KeySchema(rank)
        # Including the columns by which they are sorted, rows take about twice their bytes at most.
        self._most = max(1, memory // (2 * _PIECES))

    def pieces(self, rows: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """Yield rows in the form of a sorter, a few at a time."""
        for piece in cut(rows, self._most):
            columns = {
                "key": self._keys.encode(piece).cast(pa.large_binary()),
                "value": self._rows.pack(piece),
            }
            if self._ranks is not None:
                columns["rank"] = self._ranks.encode(piece).cast(pa.large_binary())
            yield pa.record_batch(columns)

    def unpacked(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the original rows from the batches of a sorter."""
        for batch in batches:
            yield self._rows.unpack(batch.column("value"))


def cut(rows: pa.RecordBatch, most: int) -> Iterator[pa.RecordBatch]:
    """Yield slices of rows, each of about `most` bytes at most."""
    step = max(1, rows.num_rows * most // max(1, rows.nbytes))
    for start in range(0, rows.num_rows, step):
        yield rows.slice(start, step)


def batch_of(incoming: Incoming, **also: pa.Array) -> pa.RecordBatch:
    """Return rows as a batch: path, key, known numbers and flags, columns, `also`."""
    columns = {
        PARTITION_PATH: incoming.partitions.cast(TEXT),
        RECORD_KEY: concat(incoming.keys.chunks, TEXT),
    }
    if incoming.numbers is not None:
        columns[NUMBER.name] = pa.array(incoming.numbers)
    if incoming.deleted is not None:
        columns[DELETED.name] = pa.array(incoming.deleted)
    for name, column in zip(incoming.rows.column_names, incoming.rows.columns, strict=True):
        columns[name] = concat(column.chunks, column.type)
    return pa.record_batch(columns | also)


def incoming_of(batch: pa.RecordBatch, columns: pa.Schema) -> Incoming:
    """Return the rows of a batch; see `batch_of`.

    Args:
        batch: Batch that `batch_of` made.
        columns: Columns of the table. Empty: the rows consist of keys only.
    """
    names = batch.schema.names
    deleted = numbers = None
    if DELETED.name in names:
        deleted = batch.column(DELETED.name).to_numpy(zero_copy_only=False)
    if NUMBER.name in names:
        numbers = batch.column(NUMBER.name).to_numpy()
    return Incoming(
        table_of(batch, columns),
        pa.chunked_array([batch.column(RECORD_KEY)]),
        batch.column(PARTITION_PATH).dictionary_encode(),
        deleted,
        numbers,
    )


def table_of(batch: pa.RecordBatch, columns: pa.Schema) -> pa.Table:
    """Return some columns of a batch as a table."""
    return pa.Table.from_arrays([batch.column(name) for name in columns.names], schema=columns)
