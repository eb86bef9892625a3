"""Of the rows of a write that share partition and key the one that stays, in bounded memory.

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

# The order of arrival, backwards if of equal rows the earlier one stays.
_TURN = pa.field("#turn", pa.int64())


def combined(
    parts: Iterable[Incoming],
    columns: pa.Schema,
    table: TableOptions,
    *,
    everywhere: bool,
    flagged: bool,
    memory: int,
    folder: str,
) -> Generator[Incoming, None, None]:
    """Yield the rows that stay, in the order of what they share.

    Args:
        parts: the rows, numbered.
        columns: of these; none of keys alone, of which it makes no difference which one stays.
        table: options of the table.
        everywhere: whether rows of several partitions count as those of one key, too.
        flagged: whether rows say if they delete one.
        memory: bytes for the sort.
        folder: where to spill what does not fit.

    Raises:
        ValueError: a row has no ordering value.
        OSError: the folder is full, or cannot be written to.
    """
    ordering = precombine_of(table)
    if ordering not in columns.names:
        ordering = None
    rank = None
    if ordering is not None:
        rank = pa.schema([columns.field(ordering).with_nullable(True), _TURN])
    packing = RowPacking(
        pa.schema([*KEY_FIELDS, NUMBER, *([DELETED] if flagged else []), *columns]),
        pa.schema(KEY_FIELDS[1:] if everywhere else KEY_FIELDS),
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
