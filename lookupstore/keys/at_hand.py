"""Read all rows of a small local store, for engines that join rows in memory."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from lookupstore.errors import DuplicateKeyError
from lookupstore.keys.lookups import Lookups

#: Maximum number of rows, and of their bytes, that are read at once: this takes milliseconds.
MOST_ROWS = 100_000
MOST_BYTES = 8 << 20


def rows_at_hand(lookups: Lookups, names: Sequence[str]) -> pa.Table | None:
    """Return all rows, key columns then value columns, if they are few and local.

    An engine that has the rows in memory knows their number, plans better, and looks nothing up.
    None: The rows are many, large, remote or compressed, or files have several rows of one key,
    which only lookups of this key refuse.

    Args:
        lookups: Open store, files or table with the rows.
        names: Names of the value columns to read.

    Raises: Other errors of `Lookups.scan`.
    """
    if not lookups._calls_in_threads or lookups.num_rows > MOST_ROWS:
        return None
    try:
        with lookups.scan(columns=names) as reader:
            return _read_if_small(reader)
    except DuplicateKeyError:
        return None


def _read_if_small(reader: pa.RecordBatchReader) -> pa.Table | None:
    nbytes = 0
    batches = []
    for batch in reader:
        nbytes += batch.nbytes
        if nbytes > MOST_BYTES:
            return None
        batches.append(batch)
    return pa.Table.from_batches(batches, reader.schema)
