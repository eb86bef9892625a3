"""The simple index: read the keys of every file, and look at each.

Source: org.apache.hudi.index.simple.HoodieSimpleIndex.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lookupstore._arrow import BinaryColumn
from lookupstore.errors import CorruptionError
from lookupstore.hudi._key_table import KeyTable
from lookupstore.hudi.file_groups import FileSlice
from lookupstore.hudi.funnel import Tally
from lookupstore.hudi.key_files import KeyFile, read_key_file
from lookupstore.hudi.key_index import Hits
from lookupstore.hudi.view import TableView


class SimpleIndex:
    """Find keys without anything that is kept: all keys of the files are read.

    Exact, and what others are compared with. Memory is that of the keys that are looked for.

    >>> SimpleIndex().everywhere
    False
    """

    everywhere = False

    def locate(
        self, view: TableView, files: Sequence[FileSlice], keys: pa.Array, tally: Tally
    ) -> Iterator[Hits]:
        """Yield which keys are in which files; see `KeyIndex`."""
        wanted = WantedKeys(keys)
        for number, file in enumerate(files):
            with tally.step("read"):
                rows, positions = wanted.found_in(read_key_file(view.location, file))
            tally.add(files_read=1)
            yield Hits(number, rows, positions)


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
