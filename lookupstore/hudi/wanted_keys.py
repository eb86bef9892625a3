"""Keys that are looked for, as what goes through the keys of a file."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lookupstore._arrow import BinaryColumn
from lookupstore.errors import CorruptionError
from lookupstore.hudi._key_table import KeyTable
from lookupstore.hudi.key_files import KeyFile


class WantedKeys:
    """Hold keys in a hash table, to go through files with.

    Args:
        keys: binary or large_binary, no nulls.
    """

    def __init__(self, keys: pa.Array) -> None:
        self._keys = keys
        self._table = KeyTable(BinaryColumn(keys))

    def found_in(self, file: KeyFile) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """Return which keys a file has, by reading all of its keys, and the row of each in it.

        Raises:
            CorruptionError: the file is damaged, or has one of the keys twice.
            StaleStoreError: it is gone.
        """
        at = np.full(len(self._keys), -1, np.int64)
        start = count = 0
        for batch in file.batches():
            rows = self._table.find(BinaryColumn(batch))
            hits = np.flatnonzero(rows >= 0)
            at[rows[hits]] = start + hits
            start += len(batch)
            count += len(hits)
        found = np.flatnonzero(at >= 0)
        if len(found) < count:
            raise self._repeated(file, at)
        if self._table.first is not None:
            at = at[self._table.first]
            found = np.flatnonzero(at >= 0)
        return found, at[found]

    def _repeated(self, file: KeyFile, at: npt.NDArray[np.int64]) -> CorruptionError:
        start = 0
        for batch in file.batches():
            rows = self._table.find(BinaryColumn(batch))
            hits = np.flatnonzero(rows >= 0)
            again = hits[at[rows[hits]] != start + hits]
            if len(again):
                row = int(again[0])
                return CorruptionError(
                    file.shown, 0, "each record key once",
                    f"{batch[row].as_py()!r} in rows {start + row} and {at[rows[row]]}",
                )  # fmt: skip
            start += len(batch)
        raise AssertionError("the file has changed while it was read")
