"""Rows of a bucket that newer rows of the same key replace.

Files of a bucket whose ranges of keys overlap are a section. Of each key in a section, the newest
row counts, unless it deletes the key. The other rows become positions that are deleted, so that
files are read one after the other, as those of other formats are. Engines that make a row of
several are in `merged_rows`.

In memory are the keys, sequence numbers and kinds of one section at a time, and 8 bytes per
replaced row of a few buckets. Files that overlap with no other are not merged: only their kinds are
read, if they may delete a key. Files and row groups without keys that meet a condition are not
read.

Source: `IntervalPartition`, `SortMergeReader` and `DeduplicateMergeFunction` of Apache Paimon.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lookupstore.source.skipping import StatisticsFilter
from lookupstore.tables.paimon.metadata import Place
from lookupstore.tables.paimon.row_order import (
    KIND,
    SYSTEM,
    Section,
    SequenceOrder,
    check_system,
    counts,
    files_asked_for,
    joined,
    key_numbers,
    sorted_rows,
)
from lookupstore.tables.rows import placed_rows
from lookupstore.tables.snapshot import DeletedRows, Snapshot, TableFile

# Number of buckets whose replaced rows stay in memory.
_LOADED = 8


def sections(ranges: Sequence[tuple[bytes, bytes] | None]) -> list[list[int]]:
    """Return the files of a bucket whose keys overlap, by their indices.

    Args:
        ranges: Encoded least and greatest key of each file. None: unknown, which may overlap with
            every file.

    >>> sections([(b"a", b"c"), (b"x", b"z"), (b"c", b"d")])
    [[0, 2], [1]]
    """
    if None in ranges:
        return [[*range(len(ranges))]]
    known = [one for one in ranges if one is not None]
    found: list[list[int]] = []
    end = b""
    for at in sorted(range(len(known)), key=lambda at: known[at]):
        if found and known[at][0] <= end:
            found[-1].append(at)
            end = max(end, known[at][1])
        else:
            found.append([at])
            end = known[at][1]
    return found


@dataclass(frozen=True)
class KeyMerge:
    """How the newest row of a key is found.

    Attributes:
        order: Order of the rows of a key.
        columns: Columns of the table that decide, and the columns of `SYSTEM`.
        ignores_deletes: Whether rows that delete a key have no effect on older ones.
    """

    order: SequenceOrder
    columns: pa.Schema
    ignores_deletes: bool

    def replaced(
        self, section: Section, asked: StatisticsFilter | None
    ) -> dict[str, npt.NDArray[np.int64]]:
        """Return the positions of rows that do not count in each file, by the path of the file.

        Args:
            section: Files whose ranges of keys overlap. Their rows have the columns of `columns`.
            asked: Condition of the rows that are asked for. Keys that it rules out are left out.
                None: all rows are asked for.

        Raises:
            CorruptionError: If a file is damaged, or lacks a column of `SYSTEM`.
            FormatError: If several rows of a key have one sequence number.
        """
        asked = asked and asked.only(self.order.keys)
        if len(section) == 1:
            file = section[0].file
            return {file.address.path: self._deletions(file, asked)}
        rows = [*self._rows(section, asked)]
        if not rows:
            return {one.file.address.path: np.zeros(0, np.int64) for one in section}
        keys = joined(one.column("key") for one in rows).dictionary_encode().indices
        count = len(self.order.sequence) + 1
        encoded = [joined(one.column(f"v{at}") for one in rows) for at in range(count)]
        versions = self.order.versions(encoded)
        order = sorted_rows(keys, versions)
        group = key_numbers(keys.take(pa.array(order)))
        kinds, files, positions = (
            np.concatenate([one.column(name).to_numpy() for one in rows])[order]
            for name in ("kind", "file", "position")
        )
        levels = np.array([one.level for one in section], np.int32)[files]
        is_row = counts(kinds)
        merged = self.order.kept(levels, group)
        if self.ignores_deletes:
            merged &= is_row
        places = np.flatnonzero(merged)
        group = group[places]
        self.order.check_ties(versions, order[places], group, section)
        newest = np.zeros(len(order), np.bool_)
        newest[places[np.append(np.diff(group) != 0, True)] if len(places) else places] = True
        newest &= is_row
        return {
            one.file.address.path: np.sort(positions[~newest & (files == at)])
            for at, one in enumerate(section)
        }

    def _deletions(self, file: TableFile, asked: StatisticsFilter | None) -> npt.NDArray[np.int64]:
        """Return the positions of rows of a file that delete a key, of which it has each once."""
        found = [np.zeros(0, np.int64)]
        table = Snapshot(self.order.description, self.columns, self.columns, self.columns, ())
        for batch, positions in placed_rows(table, file, SYSTEM.names, asked=asked):
            check_system(batch, file)
            found.append(positions[~counts(batch.column(KIND).to_numpy())])
        return np.concatenate(found)

    def _rows(self, section: Section, asked: StatisticsFilter | None) -> Iterator[pa.RecordBatch]:
        """Yield the encoded key and versions, the kind and the place of each row of some files."""
        table = Snapshot(self.order.description, self.columns, self.columns, self.columns, ())
        names = self.columns.names
        for at, one in files_asked_for(section, asked):
            for batch, positions in placed_rows(table, one.file, names, asked=asked):
                check_system(batch, one.file)
                versions = enumerate(self.order.encoded_versions(batch))
                parts = {
                    "key": self.order.encoded_keys(batch),
                    **{f"v{number}": version for number, version in versions},
                    "kind": batch.column(KIND),
                    "file": pa.array(np.full(len(positions), at, np.int32)),
                    "position": pa.array(positions),
                }
                yield pa.RecordBatch.from_pydict(parts)


class Buckets:
    """The buckets of a snapshot.

    The replaced rows of those that were read last stay in memory.

    Args:
        rule: How rows of one key are merged.
        buckets: Sections to merge, by partition and bucket.
    """

    def __init__(self, rule: KeyMerge, buckets: Mapping[Place, Sequence[Section]]) -> None:
        self._state = rule, buckets
        self._loaded = lru_cache(_LOADED)(
            lambda place, asked: _MergedBucket(rule, buckets[place], asked)
        )

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), self._state

    def replaced(
        self, place: Place, path: str, asked: StatisticsFilter | None
    ) -> npt.NDArray[np.int64]:
        """Return the positions of rows of a file that do not count; see `KeyMerge.replaced`."""
        bucket: _MergedBucket = self._loaded(place, asked)
        return bucket.replaced(path)


@dataclass(frozen=True)
class ReplacedRows:
    """The rows of a data file that do not count, which are found when needed.

    Attributes:
        buckets: Buckets of the snapshot.
        place: Partition and bucket of the file.
        file: The file with its deletion vector, as sections have it.
        identity: Text that differs between sets of such rows.
    """

    buckets: Buckets
    place: Place
    file: TableFile
    identity: str

    @property
    def count(self) -> int | None:
        """Return None: the number is unknown before the rows are read."""
        return None

    def load(self, asked: StatisticsFilter | None = None) -> DeletedRows:
        """Return the rows, with those of the deletion vector; see `Deletes.load`.

        Raises the errors of `KeyMerge.replaced`.
        """
        replaced = self.buckets.replaced(self.place, self.file.address.path, asked)
        if self.file.deleted is None:
            return DeletedRows(replaced)
        return DeletedRows(np.union1d(replaced, self.file.deleted.load().positions))


class _MergedBucket:
    """The replaced rows of a bucket; a section is merged when one of its files is read.

    Args:
        rule: How rows of one key are merged.
        bucket: Sections of the bucket.
        asked: Condition of the rows that are asked for. None: all rows are.
    """

    def __init__(
        self, rule: KeyMerge, bucket: Sequence[Section], asked: StatisticsFilter | None
    ) -> None:
        self._rule, self._asked = rule, asked
        self._sections = {one.file.address.path: section for section in bucket for one in section}
        self._found: dict[str, npt.NDArray[np.int64]] = {}

    def replaced(self, path: str) -> npt.NDArray[np.int64]:
        """Return the positions of rows of a file that do not count."""
        if path not in self._found:
            self._found |= self._rule.replaced(self._sections[path], self._asked)
        return self._found[path]
