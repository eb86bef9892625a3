"""The rows of a bulk insert in an order, so that its files have narrow ranges of keys or columns.

Rows are sorted by partition path first. Of those that are equal the earlier one comes first.

Source: org.apache.hudi.execution.bulkinsert (BulkInsertSortMode, GlobalSortPartitioner,
PartitionSortPartitionerWithRows, RDDCustomColumnsSortPartitioner).
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator

import numpy as np
import pyarrow as pa

from lookupstore.arrow.types import concat
from lookupstore.hudi.keys.incoming import Incoming
from lookupstore.hudi.meta_columns import META_COLUMNS, PARTITION_PATH, RECORD_KEY
from lookupstore.hudi.write.options import WriteOptions
from lookupstore.keys.schema import KeySchema
from lookupstore.rows.schema import RowSchema
from lookupstore.sorting.runs import RunSorter

_META = (PARTITION_PATH, RECORD_KEY)
_TEXT = pa.string()
# What a sorter is given at once is a small part of what it may keep.
_PIECES = 16


def bulk_order(columns: pa.Schema, options: WriteOptions) -> RowOrder | None:
    """Return the order of the rows of a bulk insert; None: as they come.

    Raises:
        ValueError: rows are to be combined.
        KeyError, TypeError: as of `RowOrder`.
    """
    if options.combine:
        raise ValueError(
            "combine=True: a bulk insert does not compare rows; insert them, or leave it out"
        )
    return None if options.sort_mode == "none" else RowOrder(columns, options)


class RowOrder:
    """The order of the rows of a bulk insert.

    Args:
        columns: of the table.
        options: of the write.

    Raises:
        KeyError: a column to sort by is not one of the table's.
        TypeError: a column to sort by has a type without an order.
    """

    def __init__(self, columns: pa.Schema, options: WriteOptions) -> None:
        for name in options.sort_by:
            if name not in columns.names:
                known = ", ".join(map(repr, columns.names))
                raise KeyError(f"sort_by: the table has no column {name!r}; it has {known}")
        self._names = options.sort_by or (RECORD_KEY,)
        self._mode = options.sort_mode
        self._memory = options.sort_memory
        fields = [columns.field(name).with_nullable(True) for name in options.sort_by]
        fields = fields or [pa.field(RECORD_KEY, _TEXT)]
        # The number of a row makes its key the only one of its kind.
        number = pa.field(META_COLUMNS[1], pa.int64())
        try:
            self._keys = KeySchema(
                pa.schema([pa.field(PARTITION_PATH, _TEXT), *fields, number]), options.sort_by
            )
        except TypeError as error:
            raise TypeError(f"sort_by: {error}") from None
        meta = [pa.field(name, _TEXT) for name in _META]
        self._rows = RowSchema(pa.schema([*meta, *columns]))
        self._columns = columns

    def sorted(
        self, batches: Iterable[Incoming], folder: str
    ) -> Generator[Iterator[Incoming], None, None]:
        """Yield stretches of rows, each in order.

        Args:
            batches: rows that do not delete, in any order.
            folder: where to spill what does not fit into memory.

        Raises:
            OSError: the folder is full, or cannot be written to.
        """
        pieces = self._pieces(batches)
        piece = next(pieces, None)
        while piece is not None:
            with RunSorter("error", memory=self._memory, folder=folder) as sorter:
                while piece is not None and not (
                    self._mode == "partition_sort" and sorter.would_spill(piece)
                ):
                    sorter.add(piece)
                    piece = next(pieces, None)
                yield map(self._incoming, sorter.sorted_batches(0))

    def _pieces(self, batches: Iterable[Incoming]) -> Iterator[pa.RecordBatch]:
        """Yield rows as bytes, with what they are sorted by."""
        first = 0
        for incoming in batches:
            # With what they are sorted by, rows take at most about twice their bytes.
            most = max(1, self._memory // (2 * _PIECES))
            nbytes = incoming.rows.nbytes + incoming.keys.nbytes
            step = max(1, len(incoming) * most // max(1, nbytes))
            for start in range(0, len(incoming), step):
                count = min(step, len(incoming) - start)
                yield self._encoded(incoming, start, count, first)
                first += count

    def _encoded(self, incoming: Incoming, start: int, count: int, first: int) -> pa.RecordBatch:
        rows = incoming.rows.slice(start, count)
        paths = incoming.partitions.slice(start, count).cast(_TEXT)
        keys = concat(incoming.keys.slice(start, count).chunks, _TEXT)
        by = [keys if name == RECORD_KEY else rows.column(name) for name in self._names]
        numbers = pa.array(np.arange(first, first + count))
        columns = [concat(column.chunks, column.type) for column in rows.columns]
        packed = self._rows.pack(
            pa.RecordBatch.from_arrays([paths, keys, *columns], schema=self._rows.schema)
        )
        key = self._keys.encode([paths, *by, numbers]).cast(pa.large_binary())
        return pa.record_batch({"key": key, "value": packed})

    def _incoming(self, batch: pa.RecordBatch) -> Incoming:
        rows = self._rows.unpack(batch.column("value"))
        paths, keys, *columns = rows.columns
        table = pa.Table.from_arrays(columns, schema=self._columns)
        return Incoming(table, pa.chunked_array([keys]), paths.dictionary_encode())
