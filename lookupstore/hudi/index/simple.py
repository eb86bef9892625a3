"""The simple index, which reads the keys of every file.

Source: org.apache.hudi.index.simple (HoodieSimpleIndex, HoodieGlobalSimpleIndex).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa

from lookupstore.hudi.file_group.groups import FileSlice
from lookupstore.hudi.file_group.key_files import read_key_file
from lookupstore.hudi.index.funnel import Tally
from lookupstore.hudi.index.interface import Hits
from lookupstore.hudi.index.wanted_keys import WantedKeys
from lookupstore.hudi.view import TableView


class SimpleIndex:
    """An index that keeps nothing, and reads all keys of the files.

    It is exact; tests compare other indexes with it. Memory holds only the keys to find.

    >>> SimpleIndex().is_global
    False
    """

    is_global = False

    def locate(
        self, view: TableView, files: Sequence[FileSlice], keys: pa.Array, tally: Tally
    ) -> Iterator[Hits]:
        """Find which keys are in which files; see `KeyIndex`."""
        wanted = WantedKeys(keys)
        for number, file in enumerate(files):
            with tally.step("read"):
                known, _ = read_key_file(view.location, file)
                rows, positions = wanted.found_in(known)
            tally.add(files_read=1)
            yield Hits(number, rows, positions)


class GlobalSimpleIndex(SimpleIndex):
    """A simple index that looks for a key in all partitions.

    >>> GlobalSimpleIndex().is_global
    True
    """

    is_global = True
