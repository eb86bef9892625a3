"""Precombine: choose the row to write if several in a batch have the same key.

Source: org.apache.hudi.table.action.commit.HoodieWriteHelper (deduplicateRecords),
OverwriteWithLatestAvroPayload.preCombine, which DefaultHoodieRecordPayload inherits.
"""

from __future__ import annotations

from typing import Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lookupstore.arrow._binary import as_binary
from lookupstore.keys.schema import KeySchema
from lookupstore.sorting._sort import sort_keys

Ties = Literal["earlier", "later"]

# Row that is kept of rows with equal ordering values, by table version.
TIES: dict[int, Ties] = {6: "earlier", 8: "later", 9: "later", 10: "later"}


def rows_to_keep(
    keys: pa.Array | pa.ChunkedArray,
    partitions: pa.DictionaryArray | None = None,
    ordering: pa.Array | pa.ChunkedArray | None = None,
    *,
    ties: Ties = "later",
) -> npt.NDArray[np.int64]:
    """Return the numbers of the rows to keep, one for each partition and key.

    Args:
        keys: Record keys, string or binary, without nulls.
        partitions: Partition path of each row. None: keys are unique over all partitions.
        ordering: Ordering values, without nulls; the greatest wins. Any type that `KeySchema`
            takes: text is ordered by its bytes, NaN is above all numbers, 0.0 equals -0.0. None:
            the last row of the batch wins (commit time ordering).
        ties: Row to keep if ordering values are equal, `earlier` or `later`: `TIES` of the table's
            version.

    Returns:
        Row numbers to keep, int64, ascending.

    Raises:
        TypeError: If the type of the ordering values has no order.
        ValueError: If a value is null, or columns have different lengths.

    >>> keys = pa.array(["a", "b", "a"])
    >>> rows_to_keep(keys, ordering=pa.array([5, 1, 4])).tolist()
    [0, 1]
    >>> rows_to_keep(keys).tolist()
    [1, 2]
    """
    if ties not in ("earlier", "later"):
        raise ValueError(f"ties is {ties!r}; give earlier or later")
    for name, column in (("partitions", partitions), ("ordering", ordering)):
        if column is not None and len(column) != len(keys):
            raise ValueError(f"{name} has {len(column)} rows, keys {len(keys)}")
        if column is not None and column.null_count:
            raise ValueError(f"{name} contains a null; every row needs a value")
    if partitions is not None:
        different = pc.count_distinct(partitions.dictionary, mode="all").as_py()
        if different != len(partitions.dictionary):
            raise ValueError("partitions repeats a path in its dictionary")
    order, same = sort_keys(as_binary(keys))
    everything = np.arange(len(keys), dtype=np.int64)
    if same is None:
        return everything
    # Only rows that share their key with another row are compared.
    shared = same.copy()
    shared[:-1] |= same[1:]
    rows = order[shared].astype(np.int64)
    group = np.cumsum(~same)[shared]
    if partitions is not None:
        codes = partitions.indices.to_numpy().astype(np.int64)[rows]
        group = group * len(partitions.dictionary) + codes
    rank = np.zeros(len(rows), np.int64) if ordering is None else _ranks(ordering, rows)
    turn = rows if ties == "later" or ordering is None else -rows
    by_group = np.lexsort((turn, rank, group))
    wins = np.ones(len(rows), bool)
    wins[:-1] = group[by_group[1:]] != group[by_group[:-1]]
    stays = np.ones(len(keys), bool)
    stays[rows[by_group[~wins]]] = False
    return everything[stays]


def _ranks(
    ordering: pa.Array | pa.ChunkedArray, rows: npt.NDArray[np.int64]
) -> npt.NDArray[np.int64]:
    """Return numbers with the same order as the values of some rows."""
    values = ordering.take(pa.array(rows))
    schema = KeySchema(pa.schema([pa.field("ordering", values.type)]))
    order, same = sort_keys(schema.encode([values]))
    ranks = np.empty(len(rows), np.int64)
    ranks[order] = np.arange(len(rows)) if same is None else np.cumsum(~same)
    return ranks
