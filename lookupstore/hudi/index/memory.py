"""The in-memory index, which keeps the keys of files in this process.

Source: org.apache.hudi.index.inmemory.HoodieInMemoryHashIndex. Writes fill that index, and it is
empty after a restart; this index reads the keys of files that it does not have yet.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa

from lookupstore.arrow._binary import BinaryColumn
from lookupstore.hudi.file_group._key_table import KeyTable
from lookupstore.hudi.file_group.groups import FileSlice
from lookupstore.hudi.file_group.key_files import KeyFile, read_key_file
from lookupstore.hudi.index.funnel import Tally
from lookupstore.hudi.index.interface import Hits
from lookupstore.hudi.view import TableView
from lookupstore.storage.location import Location


class MemoryIndex:
    """An index with hash tables over all keys of the files, kept in memory.

    It suits tables whose keys fit into memory: each key needs its bytes and about 40 more. Hash
    tables of files that are no longer current are deleted at the next search in their partition.

    >>> MemoryIndex().is_global
    False
    """

    is_global = False

    def __init__(self) -> None:
        self._kept: dict[tuple[Location, str], dict[FileSlice, _FileKeys]] = {}

    def locate(
        self, view: TableView, files: Sequence[FileSlice], keys: pa.Array, tally: Tally
    ) -> Iterator[Hits]:
        """Find which keys are in which files; see `KeyIndex`."""
        if not files:
            return
        place = view.location, files[0].group.partition
        before = self._kept.get(place, {})
        now: dict[FileSlice, _FileKeys] = {}
        asked = BinaryColumn(keys)
        for number, file in enumerate(files):
            known = before.get(file)
            if known is None:
                with tally.step("read"):
                    known = _FileKeys(read_key_file(view.location, file)[0])
                tally.add(files_read=1)
            now[file] = known
            with tally.step("look up"):
                yield known.hits(number, asked)
        self._kept[place] = now


class _FileKeys:
    """All keys of a base file."""

    def __init__(self, file: KeyFile) -> None:
        chunks = [keys.cast(pa.large_binary()) for keys in file.batches()]
        keys = pa.chunked_array(chunks, pa.large_binary()).combine_chunks()
        self._table = KeyTable(BinaryColumn(keys))
        first = self._table.first
        # Rows of keys that the file has several times, sorted by the first row of the key.
        self._order = None if first is None else np.argsort(first, kind="stable")
        self._firsts = None if first is None else first[self._order]

    def hits(self, number: int, asked: BinaryColumn) -> Hits:
        positions = self._table.find(asked)
        rows = np.flatnonzero(positions >= 0)
        found = positions[rows]
        if self._order is None or self._firsts is None:
            return Hits(number, rows, found)
        starts = np.searchsorted(self._firsts, found, "left")
        counts = np.searchsorted(self._firsts, found, "right") - starts
        places = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
        positions = self._order[np.repeat(starts, counts) + places]
        return Hits(number, np.repeat(rows, counts), positions)
