"""Sample the rows of a partition; each row has the same chance."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

#: Number of rows of a sample: with a hundred files, the error of their ends is a few percent.
SAMPLE_ROWS = 1 << 18


class Sample:
    """A sample of rows that are added a few at a time; equal rows make equal samples.

    Args:
        schema: Schema of the rows.
        most: Maximum size of the sample in memory, in bytes; one row may exceed it.
        most_rows: Maximum number of rows in the sample. Default: 262,144.
    """

    def __init__(self, schema: pa.Schema, most: int, most_rows: int | None = None) -> None:
        self._schema = schema
        self._most = most
        self._most_rows = SAMPLE_ROWS if most_rows is None else most_rows
        #: Share of the added rows that is in the sample.
        self.share: float = 1.0
        self._chance = np.random.default_rng(0)
        self._waiting: list[pa.RecordBatch] = []
        self._waiting_bytes = self._count = 0

    def add(self, rows: pa.RecordBatch) -> None:
        """Add a random part of some rows to the sample."""
        taken = self._some(rows, self.share)
        self._waiting.append(taken)
        self._waiting_bytes += taken.nbytes
        self._count += taken.num_rows
        while self._count > self._most_rows or self._is_wide():
            rest = self._some(self.rows(), 0.5)
            self._waiting = rest.combine_chunks().to_batches()
            self._waiting_bytes, self._count = rest.nbytes, rest.num_rows
            self.share /= 2

    def rows(self) -> pa.Table:
        """Return the rows of the sample."""
        return pa.Table.from_batches(self._waiting, self._schema)

    def _is_wide(self) -> bool:
        return self._count > 1 and self._waiting_bytes > self._most

    def _some(self, rows: pa.RecordBatch | pa.Table, share: float) -> pa.RecordBatch | pa.Table:
        if share == 1:
            return rows
        return rows.take(pa.array(np.flatnonzero(self._chance.random(rows.num_rows) < share)))
