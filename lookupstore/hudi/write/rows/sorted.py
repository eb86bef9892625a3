"""Sort the rows of a bulk insert, so that its files have narrow key ranges.

Rows are sorted by partition path first. Equal rows keep their order.

Source: org.apache.hudi.execution.bulkinsert (BulkInsertSortMode, GlobalSortPartitioner,
PartitionSortPartitionerWithRows, RDDCustomColumnsSortPartitioner).
"""

from __future__ import annotations

from collections.abc import Generator, Iterable

import pyarrow as pa

from lookupstore.errors import listed, meant
from lookupstore.hudi.keys.incoming import Incoming
from lookupstore.hudi.view import TableView
from lookupstore.hudi.write.boxes import keeps_layouts
from lookupstore.hudi.write.files import Stretch
from lookupstore.hudi.write.options import WriteOptions
from lookupstore.hudi.write.rows.in_layout import LayoutOrder
from lookupstore.hudi.write.rows.packing import (
    KEY_FIELDS,
    NUMBER,
    RowPacking,
    batch_of,
    incoming_of,
)
from lookupstore.hudi.write.rows.parts import numbered
from lookupstore.sorting.runs import RunSorter


def bulk_order(
    view: TableView, columns: pa.Schema, options: WriteOptions
) -> RowOrder | LayoutOrder | None:
    """Return the order of the rows of a bulk insert; None: the order given.

    Args:
        view: View of the table.
        columns: Columns of the table after the write.
        options: Options of the write.

    Raises:
        ValueError: If `options.combine` is True.
        KeyError: If a column to sort by is not a column of the table.
        TypeError: If a column to sort by has a type without an order.
    """
    if options.combine:
        raise ValueError(
            "combine=True: a bulk insert does not compare rows; insert them, or leave it out"
        )
    if options.sort_mode != "none":
        return RowOrder(columns, options)
    return LayoutOrder(view, columns, options.memory) if keeps_layouts(view) else None


class RowOrder:
    """The order of the rows of a bulk insert.

    Args:
        columns: Columns of the table after the write.
        options: Options of the write.

    Raises:
        KeyError: If a column to sort by is not a column of the table.
        TypeError: If a column to sort by has a type without an order.
    """

    def __init__(self, columns: pa.Schema, options: WriteOptions) -> None:
        for name in options.sort_by:
            if name not in columns.names:
                others = meant(name, columns.names, f"it has {listed(columns.names)}")
                raise KeyError(f"sort_by: the table has no column {name!r}{others}")
        self._mode = options.sort_mode
        self._memory = options.memory
        path, key = KEY_FIELDS
        fields = [columns.field(name).with_nullable(True) for name in options.sort_by] or [key]
        try:
            self._packing = RowPacking(
                pa.schema([*KEY_FIELDS, *columns]),
                # The number of a row makes its key unique.
                pa.schema([path, *fields, NUMBER]),
                nullable=options.sort_by,
                memory=self._memory,
            )
        except TypeError as error:
            raise TypeError(f"sort_by: {error}") from None
        self._columns = columns

    def sorted(self, batches: Iterable[Incoming], folder: str) -> Generator[Stretch, None, None]:
        """Yield stretches of rows, each of them sorted.

        Args:
            batches: Rows to insert, in any order.
            folder: Folder to spill rows to that do not fit into memory.

        Raises:
            OSError: If the folder is full, or cannot be written to.
        """
        rows = map(batch_of, numbered(batches))
        pieces = (piece for batch in rows for piece in self._packing.pieces(batch))
        piece = next(pieces, None)
        while piece is not None:
            with RunSorter("error", memory=self._memory, folder=folder) as sorter:
                while piece is not None and not (
                    self._mode == "partition_sort" and sorter.would_spill(piece)
                ):
                    sorter.add(piece)
                    piece = next(pieces, None)
                for_files = self._packing.unpacked(sorter.sorted_batches(0))
                yield Stretch(incoming_of(batch, self._columns) for batch in for_files)
