"""Rows of a bucket that newer rows of the same key replace.

Files of a bucket whose ranges of keys overlap are a section. Of each key in a section, the row with
the greatest sequence number counts, unless it deletes the key. The other rows become positions that
are deleted, so that files are read one after the other, as those of other formats are.

In memory are the keys, sequence numbers and kinds of one section at a time, and 8 bytes per
replaced row of a few buckets. Files that overlap with no other are not merged: only their kinds are
read, if they may delete a key.

Source: `IntervalPartition`, `SortMergeReader` and `DeduplicateMergeFunction` of Apache Paimon.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lookupstore.errors import CorruptionError, FormatError
from lookupstore.keys.schema import KeySchema
from lookupstore.tables.paimon.metadata import Place
from lookupstore.tables.rows import placed_rows
from lookupstore.tables.snapshot import DeletedRows, Snapshot, TableFile

#: Columns of the files of tables with a primary key.
SEQUENCE, KIND = "_SEQUENCE_NUMBER", "_VALUE_KIND"
SYSTEM = pa.schema([(SEQUENCE, pa.int64()), (KIND, pa.int8())])

# Kinds of rows: new rows, old ones, changed ones, deletions.
_INSERT, _UPDATE_BEFORE, _UPDATE_AFTER, _DELETE = range(4)
# Number of buckets whose replaced rows stay in memory.
_LOADED = 8

Section = tuple[TableFile, ...]


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
    """How rows of one key are merged.

    Attributes:
        description: Description of the table.
        columns: Columns of the table that decide, and the columns of `SYSTEM`.
        keys: Names of the columns of the key.
        sequence: Names of columns whose greatest values count, before the sequence number.
    """

    description: str
    columns: pa.Schema
    keys: tuple[str, ...]
    sequence: tuple[str, ...]

    def replaced(self, section: Section) -> dict[str, npt.NDArray[np.int64]]:
        """Return the positions of rows that do not count in each file, by the path of the file.

        Args:
            section: Files whose ranges of keys overlap. Their rows have the columns of `columns`.

        Raises:
            CorruptionError: If a file is damaged, or lacks a column of `SYSTEM`.
            FormatError: If several rows of a key have one sequence number.
        """
        if len(section) == 1:
            return {section[0].address.path: self._deletions(section[0])}
        rows = [*self._rows(section)]
        if not rows:
            return {}
        keys, versions = (_joined(one.column(name) for one in rows) for name in ("key", "version"))
        keys = keys.dictionary_encode().indices
        order = pc.sort_indices(
            pa.table({"key": keys, "version": versions}),
            sort_keys=[("key", "ascending"), ("version", "ascending")],
        )
        is_newest = np.append(_differs(keys.take(order)), True)
        tied = ~is_newest[:-1] & ~_differs(versions.take(order))
        if tied.any():
            shown = ", ".join(sorted(file.address.shown for file in section))
            raise FormatError(
                f"source: the {self.description} has several rows with one key and one sequence "
                f"number, of which none is the newer ({shown}); compact the table, or pass the "
                "rows that Spark reads"
            )
        kinds, files, positions = (
            np.concatenate([one.column(name).to_numpy() for one in rows])[order.to_numpy()]
            for name in ("kind", "file", "position")
        )
        counts = is_newest & _counts(kinds)
        return {
            file.address.path: np.sort(positions[~counts & (files == at)])
            for at, file in enumerate(section)
        }

    def _deletions(self, file: TableFile) -> npt.NDArray[np.int64]:
        """Return the positions of rows of a file that delete a key, of which it has each once."""
        found = [np.zeros(0, np.int64)]
        table = Snapshot(self.description, self.columns, self.columns, self.columns, ())
        for batch, positions in placed_rows(table, file, SYSTEM.names):
            _check_system(batch, file)
            found.append(positions[~_counts(batch.column(KIND).to_numpy())])
        return np.concatenate(found)

    def _rows(self, section: Section) -> Iterator[pa.RecordBatch]:
        """Yield the encoded key and version, the kind and the place of each row of some files."""
        table = Snapshot(self.description, self.columns, self.columns, self.columns, ())
        for at, file in enumerate(section):
            for batch, positions in placed_rows(table, file, self.columns.names):
                _check_system(batch, file)
                number = batch.column(SEQUENCE)
                parts = {
                    "key": _encoded(batch.select(list(self.keys))),
                    "version": _encoded(batch.select([*self.sequence, SEQUENCE]))
                    if self.sequence
                    else number,
                    "kind": batch.column(KIND),
                    "file": pa.array(np.full(len(positions), at, np.int32)),
                    "position": pa.array(positions),
                }
                yield pa.RecordBatch.from_pydict(parts)


class Buckets:
    """The buckets of a snapshot; the replaced rows of those that were read last stay in memory.

    Args:
        rule: How rows of one key are merged.
        buckets: Sections to merge, by partition and bucket.
    """

    def __init__(self, rule: KeyMerge, buckets: Mapping[Place, Sequence[Section]]) -> None:
        self._state = rule, buckets
        self._merged = lru_cache(_LOADED)(lambda place: _merged(rule, buckets[place]))

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), self._state

    def replaced(self, place: Place, path: str) -> npt.NDArray[np.int64]:
        """Return the positions of rows of a file that do not count."""
        found: npt.NDArray[np.int64] = self._merged(place)[path]
        return found


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

    def load(self) -> DeletedRows:
        """Return the rows, with those of the deletion vector.

        Raises the errors of `KeyMerge.replaced`.
        """
        replaced = self.buckets.replaced(self.place, self.file.address.path)
        if self.file.deleted is None:
            return DeletedRows(replaced)
        return DeletedRows(np.union1d(replaced, self.file.deleted.load().positions))


def _merged(rule: KeyMerge, bucket: Sequence[Section]) -> dict[str, npt.NDArray[np.int64]]:
    """Return the replaced rows of each file of a bucket, section by section."""
    none = np.zeros(0, np.int64)
    found = {file.address.path: none for section in bucket for file in section}
    for section in bucket:
        found.update(rule.replaced(section))
    return found


def _counts(kinds: npt.NDArray[np.int8]) -> npt.NDArray[np.bool_]:
    """Return whether rows of some kinds are rows of the table, if they are the newest."""
    found: npt.NDArray[np.bool_] = (kinds == _INSERT) | (kinds == _UPDATE_AFTER)
    return found


def _check_system(batch: pa.RecordBatch, file: TableFile) -> None:
    """Check the sequence numbers and kinds of rows."""
    for name in SYSTEM.names:
        if batch.column(name).null_count:
            raise CorruptionError(file.address.shown, 0, f"a value of {name} in each row", "null")
    kinds = pc.min_max(batch.column(KIND)).as_py()
    if kinds["min"] < _INSERT or kinds["max"] > _DELETE:
        raise CorruptionError(file.address.shown, 0, f"0 to 3 as {KIND}", kinds)


def _encoded(rows: pa.RecordBatch) -> pa.Array:
    """Return bytes that sort as the rows do, nulls first."""
    columns = pa.schema([field.with_nullable(True) for field in rows.schema])
    return KeySchema(columns, columns.names).encode(rows.columns).cast(pa.large_binary())


def _joined(arrays: Iterable[pa.Array]) -> pa.Array:
    return pa.concat_arrays(list(arrays))


def _differs(values: pa.Array) -> npt.NDArray[np.bool_]:
    """Return whether each value but the last differs from the next one."""
    found: npt.NDArray[np.bool_] = pc.not_equal(values[:-1], values[1:]).to_numpy(False)
    return found
