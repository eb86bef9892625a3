"""Keep one of the rows with the same partition and key, in bounded memory.

The rules are those of `lookupstore.hudi.keys.dedupe`, for rows that do not fit into memory.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable

import numpy as np
import pyarrow as pa

from lookupstore.hudi.keys.dedupe import TIES
from lookupstore.hudi.keys.incoming import Incoming, precombine_of
from lookupstore.hudi.options import TableOptions
from lookupstore.hudi.write.rows.packing import (
    DELETED,
    KEY_FIELDS,
    NUMBER,
    RowPacking,
    batch_of,
    incoming_of,
)
from lookupstore.sorting.runs import Keep, RunSorter

# Column of the order of arrival, reversed if the earlier of equal rows is kept.
_TURN = pa.field("#turn", pa.int64())


def combined(
    parts: Iterable[Incoming],
    columns: pa.Schema,
    table: TableOptions,
    *,
    is_global: bool,
    flagged: bool,
    memory: int,
    folder: str,
) -> Generator[Incoming, None, None]:
    """Yield the rows that are kept, sorted by partition and key, or by key alone.

    Args:
        parts: Numbered rows.
        columns: Columns of the rows. Empty: the rows consist of keys only.
        table: Options of the table.
        is_global: Whether rows with the same key in several partitions are also combined.
        flagged: Whether rows have a flag for their deletion.
        memory: Memory for the sort, in bytes.
        folder: Folder to spill rows to that do not fit into memory.

    Raises:
        ValueError: If a row has no ordering value.
        OSError: If the folder is full, or cannot be written to.
    """
    ordering = precombine_of(table)
    if ordering not in columns.names:
        ordering = None
    rank = None
    if ordering is not None:
        rank = pa.schema([columns.field(ordering).with_nullable(True), _TURN])
    packing = RowPacking(
        pa.schema([*KEY_FIELDS, NUMBER, *([DELETED] if flagged else []), *columns]),
        pa.schema(KEY_FIELDS[1:] if is_global else KEY_FIELDS),
        rank=rank,
        memory=memory,
    )
    sign = 1 if TIES[table.version] == "later" else -1
    keep: Keep = "last" if ordering is None else "max"
    with RunSorter(keep, memory=memory, folder=folder) as sorter:
        for part in parts:
            if ordering is not None:
                part.ordered(ordering)
            assert part.numbers is not None
            turn = pa.array(np.multiply(part.numbers, sign))
            for piece in packing.pieces(batch_of(part, **{_TURN.name: turn})):
                sorter.add(piece)
        for batch in packing.unpacked(sorter.sorted_batches(0)):
            yield incoming_of(batch, columns)
