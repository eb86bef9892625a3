"""The statistics of one data file that a manifest records."""

from __future__ import annotations

from typing import Any

import pyarrow as pa


class RowStatistics:
    """Statistics of the rows of one data file, which are added in key order.

    Writers of a file compute its manifest entry with this class, and `verify` computes it again. A
    new statistic is counted here and is a field of `lookupstore.store.manifest.DataFile`.

    >>> found = RowStatistics()
    >>> found.add(pa.record_batch({"key": [b"a", b"b"], "value": [b"", b""]}))
    >>> found.fields()
    {'min_key': '61', 'max_key': '62', 'num_records': 2}
    """

    def __init__(self) -> None:
        self._records = 0
        self._first = b""
        self._last = b""

    def add(self, batch: pa.RecordBatch) -> None:
        """Count rows: the columns `key` and `value`."""
        keys = batch.column("key")
        if not len(keys):
            return
        if not self._records:
            self._first = keys[0].as_py()
        self._last = keys[-1].as_py()
        self._records += len(keys)

    def fields(self) -> dict[str, Any]:
        """Return the statistics as fields of `DataFile`."""
        return {
            "min_key": self._first.hex(),
            "max_key": self._last.hex(),
            "num_records": self._records,
        }
