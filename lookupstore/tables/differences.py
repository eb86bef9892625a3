"""The rows that one snapshot of a table has and another one lacks.

A data file of both snapshots has the same rows in both, apart from deletes. Only files that one of
the snapshots lacks are read, and rows of other files that were deleted in between.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lookupstore.tables.kept_columns import HostColumns
from lookupstore.tables.positions import Positions, absent
from lookupstore.tables.rows import rows_at, rows_of
from lookupstore.tables.snapshot import DeletedRows, RowCondition, Snapshot, TableFile


@dataclass(frozen=True)
class FileDifference:
    """The rows of a data file that another snapshot lacks.

    Attributes:
        snapshot: The snapshot with the rows.
        file: The file, as the snapshot with the rows has it.
        other: The file as the other snapshot has it, with other deletes. None: it lacks the file.
        kept: Columns that this host keeps of the file. None: none.
    """

    snapshot: Snapshot
    file: TableFile
    other: TableFile | None
    kept: HostColumns | None = None

    @property
    def num_rows(self) -> int | None:
        """Return the number of rows of the file. None: unknown."""
        return self.file.num_rows

    @property
    def nbytes(self) -> int:
        """Return the size of the file."""
        return self.file.nbytes

    @property
    def is_remote(self) -> bool:
        """Return whether the file is on an object store."""
        return self.file.address.is_remote

    def rows(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Yield the rows.

        Args:
            columns: Names of the columns to yield.

        Raises the errors of `snapshot_source`.
        """
        snapshot, file, other = self.snapshot, self.file, self.other
        if other is None:
            yield from rows_of(snapshot, file, columns, self.kept)
            return
        own, others = _deleted(file), _deleted(other)
        gone = others[absent(others, own)]
        if len(gone):
            yield from rows_at(snapshot, file, columns, gone, self.kept)
        known = {keys.identity for keys in file.deleted_keys}
        keys = [one for one in other.deleted_keys if one.identity not in known]
        if keys:
            left = DeletedRows(np.union1d(own, others))
            by_key = (*file.deleted_keys, _AllOthers(tuple(keys)))
            rest = replace(file, deleted=left, deleted_keys=by_key)
            yield from rows_of(snapshot, rest, columns, self.kept)


@dataclass(frozen=True)
class _AllOthers:
    """The keys of which no row is deleted by some other keys.

    Attributes:
        keys: The other keys.
    """

    keys: tuple[RowCondition, ...]

    @property
    def identity(self) -> str:
        return " ".join(["all but", *(one.identity for one in self.keys)])

    @property
    def names(self) -> Sequence[str]:
        return list(dict.fromkeys(name for one in self.keys for name in one.names))

    def kept(self, rows: pa.RecordBatch) -> pa.BooleanArray:
        kept = [one.kept(rows.select(list(one.names))) for one in self.keys]
        found = kept[0]
        for one in kept[1:]:
            found = pc.and_(found, one)
        return pc.invert(found)


def differing_files(
    one: Snapshot, others: Sequence[TableFile], kept: HostColumns | None = None
) -> list[FileDifference]:
    """Return the files of a snapshot that may have rows which another snapshot lacks.

    Args:
        one: Snapshot with the files.
        others: Files of the other snapshot of the table.
        kept: Columns that this host keeps of the files. Default: none.
    """
    alone = replace(one, files=())
    there = {file.data_identity: file for file in others}
    found = ((file, there.get(file.data_identity)) for file in one.files_to_read)
    return [
        FileDifference(alone, file.to_read, None if same is None else same.to_read, kept)
        for file, same in found
        if same is None or same.identity != file.identity
    ]


def _deleted(file: TableFile) -> Positions:
    return np.zeros(0, np.int64) if file.deleted is None else file.deleted.load().positions
