"""Rows that may have changed between two moments, by record keys and commit times.

A rewritten file has the rows of the file before it, except deleted ones; the commit time of a row
identifies its writer. In each group, the rows that commits of the range wrote are looked up in the
file before. The remaining rows, new in one group or deleted from another, are compared with each
other, because a clustering or an overwrite puts rows into other groups.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lookupstore.arrow.types import concat
from lookupstore.hudi.file_group.groups import FileSlice
from lookupstore.hudi.file_group.reader import SliceRows
from lookupstore.hudi.keys.duplicate_key import duplicate_key_error
from lookupstore.hudi.meta_columns import COMMIT_TIME, RECORD_KEY
from lookupstore.storage.location import Location

#: Indices of rows, from 0.
Rows = npt.NDArray[np.int64]

_SCHEMA = pa.schema({RECORD_KEY: pa.string(), COMMIT_TIME: pa.string()})


class Were(NamedTuple):
    """The earlier versions of changed rows, in one file.

    Attributes:
        file: File with the earlier versions.
        rows: Row numbers in this file, ascending.
        turns: For each of these rows, the number of the changed row that it belongs to.
    """

    file: FileSlice
    rows: Rows
    turns: Rows


class _Left(NamedTuple):
    """Rows of a file without a match in the other file of its group.

    Attributes:
        file: File with these rows.
        rows: Row numbers in this file, ascending.
        keys: Record keys of the rows.
        is_fresh: Whether commits of the range wrote the rows.
    """

    file: FileSlice
    rows: Rows
    keys: pa.Array
    is_fresh: bool


class ChangedRows:
    """The search for rows of one partition that may have changed.

    Args:
        location: Location of the table.

    Attributes:
        deleted: Files with deleted rows: file and row numbers, ascending.
        inserted: Files with new rows: file and row numbers, ascending.
        updated: Files with rows whose values may have changed: file, row numbers, ascending, and
            the earlier versions of the rows.
    """

    def __init__(self, location: Location) -> None:
        self._location = location
        self._gone: list[_Left] = []
        self._came: list[_Left] = []
        self.deleted: list[tuple[FileSlice, Rows]] = []
        self.inserted: list[tuple[FileSlice, Rows]] = []
        self.updated: list[tuple[FileSlice, Rows, list[Were]]] = []

    def add(self, before: FileSlice | None, after: FileSlice | None, written: pa.Array) -> None:
        """Compare the two files of a file group.

        Args:
            before: File of the group at the beginning of the range. None: the group has no file
                then.
            after: File of the group at the end of the range. None: the group has no file then.
            written: Request times of the commits of the range.

        Raises:
            DuplicateKeyError: If a written row has the same key as another row.
            CorruptionError, StaleStoreError, OSError: See `SliceRows`.
        """
        old_keys, _ = self._read(before)
        new_keys, times = self._read(after)
        fresh = pc.is_in(times, written).to_numpy(zero_copy_only=False)
        rows, others = np.flatnonzero(fresh), np.flatnonzero(~fresh)
        keys = new_keys.take(pa.array(rows))
        self._check_unique(keys, after)
        # Few keys are looked up among many.
        found = pc.index_in(old_keys, keys)
        matched = pc.indices_nonzero(found.is_valid()).to_numpy().astype(np.int64)
        numbers = found.drop_null().to_numpy().astype(np.int64)
        were = np.full(len(rows), -1, np.int64)
        were[numbers] = matched
        if np.count_nonzero(were >= 0) < len(matched):
            self._check_unique(old_keys.take(pa.array(matched)), before, "give a later since")
        if before is not None and after is not None and len(matched):
            is_update = were >= 0
            order = np.argsort(were[is_update])
            self.updated.append(
                (after, rows[is_update], [Were(before, were[is_update][order], order)])
            )
        new = were < 0
        self._leave(self._came, after, rows[new], keys.filter(pa.array(new)), is_fresh=True)
        gone = np.ones(len(old_keys), bool)
        gone[matched] = False
        left = np.flatnonzero(gone)
        rest, kept = old_keys.take(pa.array(left)), new_keys.take(pa.array(others))
        if not rest.equals(kept):  # mostly they are equal, in the same order
            is_kept, was_there = _is_in(rest, kept), _is_in(kept, rest)
            self._leave(self._gone, before, left[~is_kept], rest.filter(pa.array(~is_kept)))
            self._leave(self._came, after, others[~was_there], kept.filter(pa.array(~was_there)))

    def match_others(self) -> None:
        """Match deleted rows with rows new in other files, once all groups are added.

        Raises:
            DuplicateKeyError: If a written row has the same key as another row.
        """
        gone, came = (
            concat([one.keys for one in left], pa.string()) for left in (self._gone, self._came)
        )
        fresh = [one.keys for one in self._came if one.is_fresh]
        if len(fresh) > 1:
            self._check_unique(concat(fresh, pa.string()), None)
        found = pc.index_in(came, gone)
        stays = np.zeros(len(gone), bool)
        stays[found.drop_null().to_numpy()] = True
        # For rows with one key, the first was found.
        stays[~stays] = _is_in(gone.filter(pa.array(~stays)), gone.filter(pa.array(stays)))
        starts = np.cumsum([0, *(len(one.rows) for one in self._gone)])
        done = 0
        for one in self._came:
            at = found.slice(done, len(one.rows))
            done += len(one.rows)
            is_there = at.is_valid().to_numpy(zero_copy_only=False)
            if not is_there.all():
                self.inserted.append((one.file, one.rows[~is_there]))
            if one.is_fresh and is_there.any():
                were = at.drop_null().to_numpy().astype(np.int64)
                self.updated.append((one.file, one.rows[is_there], list(self._were(were, starts))))
        for number, left in enumerate(self._gone):
            rows = left.rows[~stays[starts[number] : starts[number + 1]]]
            if len(rows):
                self.deleted.append((left.file, rows))
        self._gone, self._came = [], []

    def _were(self, numbers: Rows, starts: Rows) -> Iterator[Were]:
        """Yield the files and rows of earlier versions, by their numbers in all left rows."""
        order = np.argsort(numbers)
        ends = np.searchsorted(numbers[order], starts)
        for at, left in enumerate(self._gone):
            turns = order[ends[at] : ends[at + 1]]
            if len(turns):
                yield Were(left.file, left.rows[numbers[turns] - starts[at]], turns)

    def _leave(
        self,
        left: list[_Left],
        file: FileSlice | None,
        rows: Rows,
        keys: pa.Array,
        *,
        is_fresh: bool = False,
    ) -> None:
        if file is not None and len(rows):
            left.append(_Left(file, rows, keys, is_fresh))

    def _read(self, file: FileSlice | None) -> tuple[pa.Array, pa.Array]:
        """Return the record keys and commit times of all rows of a file."""
        batches = []
        if file is not None:
            stored = SliceRows(self._location, file, _SCHEMA, threads=True)
            for group in range(len(stored.group_rows)):
                batches += [without_dictionaries(one, _SCHEMA) for one in stored.batches(group)]
        keys, times = (concat([one.column(at) for one in batches], pa.string()) for at in (0, 1))
        return keys, times

    def _check_unique(self, keys: pa.Array, file: FileSlice | None, then: str = "") -> None:
        """Check that every key is unique.

        Args:
            keys: Record keys of rows.
            file: File with these rows. None: several files.
            then: What to do after the repair of the key, for the error. Default: nothing.
        """
        if pc.count_distinct(keys).as_py() < len(keys):
            counts = pc.value_counts(keys)
            often = counts.filter(pc.greater(counts.field("counts"), 1))
            where = "several rows of " + (
                self._location.uri if file is None else self._location.show(file.path)
            )
            raise duplicate_key_error(repr(often[0]["values"].as_py()), where, then)


def without_dictionaries(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Decode the dictionary columns of rows.

    Args:
        batch: Rows, some columns of which may be dictionaries.
        schema: Schema of the rows without dictionaries.
    """
    columns = [
        column.dictionary_decode() if column.type != field.type else column
        for column, field in zip(batch.columns, schema, strict=True)
    ]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _is_in(keys: pa.Array, others: pa.Array) -> npt.NDArray[np.bool_]:
    found: npt.NDArray[np.bool_] = pc.is_in(keys, others).to_numpy(zero_copy_only=False)
    return found
