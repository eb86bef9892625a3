"""The rows of a slice with log files: those of its base file, with the changes of its log files.

Changed rows replace theirs in place, and new rows follow at the end. Memory holds the log files of
one slice, and a part of its base file with as many rows as there are changes.

Source: FileGroupRecordBuffer and KeyBasedFileGroupRecordBuffer of Apache Hudi.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lookupstore.arrow.types import concat
from lookupstore.hudi.file_group.scan import BaseFiles
from lookupstore.hudi.log.changes import IS_DELETED, MergeRule, SliceChanges, read_changes
from lookupstore.hudi.log.data_rows import check_no_operations
from lookupstore.hudi.log.slices import MergedSlice
from lookupstore.hudi.meta_columns import RECORD_KEY
from lookupstore.hudi.options import TableOptions
from lookupstore.storage.location import Location

_Mask = npt.NDArray[np.bool_]
_Numbers = npt.NDArray[np.int64]

# Least number of rows of a base file to merge at a time.
_ROWS = 1 << 17


@dataclass(frozen=True)
class SliceReader:
    """A reader of slices with log files.

    Attributes:
        location: Location of the table.
        options: Options of the table.
        schema: All columns of the table.
    """

    location: Location
    options: TableOptions
    schema: pa.Schema

    @cached_property
    def rule(self) -> MergeRule:
        """Return the rule by which changes are merged.

        Raises:
            FormatError: If the ordering column is not one of the table.
        """
        return MergeRule.of(self.options, self.schema, self.location.uri)

    def changes(self, given: MergedSlice, columns: Sequence[str]) -> SliceChanges:
        """Return the changes of a slice.

        Args:
            given: Slice to read.
            columns: Names of the columns of the new rows. They have others, too.

        Raises: The errors of `batches` about log files.
        """
        check_no_operations(self.schema, self.location.uri)
        schema = pa.schema([self.schema.field(name) for name in self._needed(columns)])
        return read_changes(self.location, given, schema, self.rule, self.options.version)

    def _needed(self, columns: Sequence[str]) -> list[str]:
        """Return the named columns, and those that the merge needs."""
        marks = IS_DELETED if IS_DELETED in self.schema.names else None
        needed = (*columns, RECORD_KEY, self.rule.ordering, marks)
        return list(dict.fromkeys(name for name in needed if name is not None))

    def batches(
        self, given: MergedSlice, columns: list[str], *, threads: bool
    ) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a slice.

        Args:
            given: Slice to read.
            columns: Names of the columns to return, in this order.
            threads: Whether to decode columns at the same time.

        Raises:
            CorruptionError: If a file is damaged.
            FormatError: If a log file has a block that is not supported, or a column has a type
                that is not promoted to the table's.
            StaleStoreError: If a file was deleted by a clean or a rollback.
            OSError: If a remote file cannot be read, or is damaged.
        """
        names = self._needed(columns)
        changes = self.changes(given, columns)
        merge = _Merge(changes, self.rule, self.location.show(given.path))
        for rows in self._parts(given, names, len(changes.keys), threads=threads):
            for batch in merge.applied(rows).to_batches():
                yield batch.select(columns)
        for batch in merge.new_rows().to_batches():
            yield batch.select(columns)

    def _parts(
        self, given: MergedSlice, names: list[str], least: int, *, threads: bool
    ) -> Iterator[pa.Table]:
        """Yield the rows of the base file, at least so many at a time."""
        if given.base is None:
            return
        reader = BaseFiles(self.location, [given.base.path], self.schema)
        part: list[pa.RecordBatch] = []
        count = 0
        for batch in reader.batches(names, threads=threads):
            part.append(batch)
            count += batch.num_rows
            if count >= max(_ROWS, least):
                yield pa.Table.from_batches(part)
                part, count = [], 0
        if part:
            yield pa.Table.from_batches(part)


class _Merge:
    """The merge of changes with the rows of a base file, part after part."""

    def __init__(self, changes: SliceChanges, rule: MergeRule, path: str) -> None:
        self._changes = changes
        self._rule = rule
        self._path = path
        self._is_new = np.ones(len(changes.keys), bool)

    def applied(self, rows: pa.Table) -> pa.Table:
        """Return stored rows with the changes of their keys."""
        changes = self._changes
        keys = concat(rows[RECORD_KEY].chunks, rows[RECORD_KEY].type)
        found = pc.fill_null(pc.index_in(keys, changes.keys), -1).to_numpy().astype(np.int64)
        places = self._first(found)
        if not len(places):
            return rows
        of_key = found[places]
        self._is_new[of_key] = False
        won = self._won(rows, places, of_key)
        gone = changes.deletes[of_key]
        replaced = won & ~gone
        source = np.arange(rows.num_rows)
        source[places[replaced]] = rows.num_rows + np.arange(np.count_nonzero(replaced))
        source = np.delete(source, places[won & gone])
        new = changes.new_rows(of_key[replaced])
        return pa.concat_tables([rows, new]).take(pa.array(source))

    def new_rows(self) -> pa.Table:
        """Return the rows of keys that no stored row has, in the order of their log blocks."""
        return self._changes.new_rows(np.flatnonzero(self._is_new & ~self._changes.deletes))

    def _first(self, found: _Numbers) -> _Numbers:
        """Return the rows with changes. Of stored rows with one key, only the first is changed."""
        changed = np.flatnonzero(found >= 0)
        changed = changed[self._is_new[found[changed]]]
        _, first = np.unique(found[changed], return_index=True)
        return changed[np.sort(first)]

    def _won(self, rows: pa.Table, places: _Numbers, of_key: _Numbers) -> _Mask:
        """Return which changes win against the stored rows."""
        name = self._rule.ordering
        stored = None
        if name is not None and self._changes.ordering is not None:
            stored = concat(rows[name].chunks, rows[name].type).take(pa.array(places))
        return self._changes.won(of_key, stored, self._rule, self._path)
