"""Check the meta columns of the rows of a base file."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lookupstore.hudi.file_group.bloom import BloomFilter
from lookupstore.hudi.file_group.groups import FileSlice
from lookupstore.hudi.file_group.key_files import KeyFile
from lookupstore.hudi.file_group.key_ranges import KeyRanges
from lookupstore.hudi.meta_columns import COMMIT_TIME, META_COLUMNS, RECORD_KEY

_PARTITION_PATH, _FILE_NAME = META_COLUMNS[3:5]
# Maximum number of rows that one finding names.
_SAMPLE = 3


class RowCheck:
    """A check of the rows of one file, with the first few that are wrong in each way."""

    def __init__(self, file: FileSlice, known: KeyFile, bloom: BloomFilter | None) -> None:
        self._file = file
        self._bloom = bloom
        self._ranges = KeyRanges(_one(known.least), _one(known.greatest))
        self._shown_range = f"{known.least!r} to {known.greatest!r}"
        self._wrong: dict[tuple[str, str], list[str]] = {}
        self.count = 0

    def check(self, batch: pa.RecordBatch) -> None:
        """Look at the meta columns of some rows."""
        self.count += batch.num_rows
        keys = batch.column(batch.schema.names.index(RECORD_KEY)).cast(pa.string())
        there = pc.fill_null(pc.greater(pc.binary_length(keys), 0), False)
        self._note("row", "has rows without a record key, such as", pc.invert(there), keys)
        for name, value in (
            (_FILE_NAME, self._file.name),
            (_PARTITION_PATH, self._file.group.partition),
        ):
            column = batch.column(batch.schema.names.index(name))
            wrong = pc.invert(pc.fill_null(pc.equal(column, value), False))
            self._note("row", f"has rows with a wrong {name}, such as that of", wrong, keys)
        times = batch.column(batch.schema.names.index(COMMIT_TIME))
        late = pc.fill_null(pc.greater(times, self._file.time), True)
        self._note("row", f"has rows of no commit up to {self._file.time}, such as", late, keys)
        keys = keys.filter(there)
        if self._bloom is not None and len(keys):
            absent = pa.array(~self._bloom.test(keys))
            self._note(
                "filter", "the filter rules out keys that the file has, such as", absent, keys
            )
        outside = np.ones(len(keys), bool)
        outside[self._ranges.candidates(keys).rows(0)] = False
        problem = f"has keys outside its footer's range, {self._shown_range}, such as"
        self._note("range", problem, pa.array(outside), keys)

    def problems(self) -> Iterator[tuple[str, str]]:
        """Yield the kind of each error, and its description."""
        for (kind, problem), keys in self._wrong.items():
            yield kind, f"{problem} {', '.join(map(repr, keys))}"

    def _note(self, kind: str, problem: str, wrong: pa.Array, keys: pa.Array) -> None:
        if wrong.true_count:
            known = self._wrong.setdefault((kind, problem), [])
            known += keys.filter(wrong)[:_SAMPLE].to_pylist()[: _SAMPLE - len(known)]


def _one(key: bytes | None) -> pa.Array:
    return pa.array([key], pa.binary())
