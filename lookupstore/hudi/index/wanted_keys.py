"""Keys to find, in the form for a search in the keys of a file."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lookupstore.arrow._binary import BinaryColumn
from lookupstore.hudi.file_group._key_table import KeyTable
from lookupstore.hudi.file_group.key_files import KeyFile


class WantedKeys:
    """Keys in a hash table, to compare with those of files.

    Args:
        keys: Keys to find, binary or large_binary, without nulls.
    """

    def __init__(self, keys: pa.Array) -> None:
        self._keys = keys
        self._table = KeyTable(BinaryColumn(keys))

    def found_in(self, file: KeyFile) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """Read all keys of a file, and return the wanted keys in it, with their rows.

        A key that the file has several times is repeated, one after the other.

        Raises:
            CorruptionError: If the file is damaged.
            StaleStoreError: If the file was deleted.
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
        # Repeated keys are found at the row of their first occurrence.
        starts = np.searchsorted(found, self._table.first, "left")
        counts = np.searchsorted(found, self._table.first, "right") - starts
        asked = np.repeat(np.arange(len(self._keys)), counts)
        places = np.arange(len(asked)) - np.repeat(np.cumsum(counts) - counts, counts)
        return asked, rows[np.repeat(starts, counts) + places]
