"""``InsertedKeys``: inserted keys, which are looked up in other writers' commits."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import pyarrow as pa

from lookupstore.hudi.file_group.groups import FileSlice
from lookupstore.hudi.index.funnel import Tally
from lookupstore.hudi.index.simple import SimpleIndex
from lookupstore.hudi.view import TableView
from lookupstore.hudi.write.conflict import SAMPLE


class InsertedKeys:
    """Inserted keys in memory.

    Args:
        keys: Keys, large_binary or binary, by partition path. Those under None are looked for in
            all partitions that have no keys of their own.
    """

    def __init__(self, keys: Mapping[str | None, pa.Array]) -> None:
        self._keys = keys

    def found_in(
        self, view: TableView, files: Sequence[FileSlice]
    ) -> Iterator[tuple[FileSlice, Sequence[str]]]:
        """Yield the base files that contain some of the keys, each with a few of these."""
        for file in files:
            keys = self._keys.get(file.group.partition, self._keys.get(None))
            if keys is None:
                continue
            for hits in SimpleIndex().locate(view, [file], keys, Tally()):
                if len(hits.rows):
                    known = keys.take(pa.array(np.sort(hits.rows)[:SAMPLE])).cast(pa.string())
                    yield file, known.to_pylist()
