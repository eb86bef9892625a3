"""All rows of what is small and on this host, for engines that join them as they join their own."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from lookupstore.keys.lookups import Lookups

#: Most rows, and bytes of them, that are read at once: milliseconds.
MOST_ROWS = 100_000
MOST_BYTES = 8 << 20


def rows_at_hand(lookups: Lookups, names: Sequence[str]) -> pa.Table | None:
    """Return all rows, the key columns and then value columns, if they are few and on this host.

    An engine that has them in memory knows how many there are, so that it plans well, and asks
    nobody for them. None: they are many, large, remote, or compressed.

    Args:
        lookups: whose rows they are.
        names: of the value columns.

    Raises: what `Lookups.scan` does.
    """
    if not lookups._calls_in_threads or lookups.num_rows > MOST_ROWS:
        return None
    nbytes = 0
    batches = []
    with lookups.scan(columns=names) as reader:
        for batch in reader:
            nbytes += batch.nbytes
            if nbytes > MOST_BYTES:
                return None
            batches.append(batch)
        return pa.Table.from_batches(batches, reader.schema)
