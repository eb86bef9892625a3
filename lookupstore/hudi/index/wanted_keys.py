"""Keys that are looked for, as what goes through the keys of a file."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lookupstore.arrow._binary import BinaryColumn
from lookupstore.hudi.file_group.key_files import KeyFile
from lookupstore.hudi.index._key_table import KeyTable


class WantedKeys:
    """Keys in a hash table, to compare with those of files.

    Args:
        keys: binary or large_binary, no nulls.
    """

    def __init__(self, keys: pa.Array) -> None:
        self._keys = keys
        self._table = KeyTable(BinaryColumn(keys))

    def found_in(self, file: KeyFile) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """Return which keys a file has, by reading all of its keys, and the row of each in it.

        A key that it has several times comes as often, one after the other.

        Raises:
            CorruptionError: the file is damaged.
            StaleStoreError: it is gone.
        """
        start = 0
        parts = []
        for batch in file.batches():
            wanted = self._table.find(BinaryColumn(batch))
            hits = np.flatnonzero(wanted >= 0)
            parts.append((wanted[hits], start + hits))
            start += len(batch)
        if not parts:
            return np.zeros(0, np.int64), np.zeros(0, np.int64)
        found, rows = (np.concatenate(one) for one in zip(*parts, strict=True))
        order = np.argsort(found, kind="stable")
        found, rows = found[order], rows[order]
        if self._table.first is None:
            return found, rows
        # Keys that are asked for again are found where the first of them is.
        starts = np.searchsorted(found, self._table.first, "left")
        counts = np.searchsorted(found, self._table.first, "right") - starts
        asked = np.repeat(np.arange(len(self._keys)), counts)
        places = np.arange(len(asked)) - np.repeat(np.cumsum(counts) - counts, counts)
        return asked, rows[np.repeat(starts, counts) + places]
