"""Tables with their former snapshots, from which a store learns what changed."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import pyarrow as pa
import xxhash

from lookupstore.filters.row_filter import RowFilter
from lookupstore.source.source import Source
from lookupstore.tables.columns import FIELD_ID
from lookupstore.tables.differences import differing_files
from lookupstore.tables.kept_columns import HostColumns
from lookupstore.tables.rows import snapshot_source
from lookupstore.tables.snapshot import Snapshot


class RowDifference(Protocol):
    """Rows of a table at one moment that it lacks at another one, which any process can read.

    Attributes:
        num_rows: Greatest possible number of the rows. None: unknown.
        nbytes: Size of the files with these rows.
        is_remote: Whether most of the time of reading them is spent waiting for answers.
    """

    @property
    def num_rows(self) -> int | None: ...
    @property
    def nbytes(self) -> int: ...
    @property
    def is_remote(self) -> bool: ...
    def rows(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Yield the rows.

        Args:
            columns: Names of the columns to yield.

        Raises: The errors of reading the table.
        """


class TableMoment(Protocol):
    """A table at one moment.

    Attributes:
        description: Description of the table and the moment, in one line for people.
        schema: Columns of the rows.
        table_id: Identity of the table, which another table at its place does not have.
        snapshot_id: Identity of the moment in the history of the table.
    """

    @property
    def description(self) -> str: ...
    @property
    def schema(self) -> pa.Schema: ...
    @property
    def table_id(self) -> str: ...
    @property
    def snapshot_id(self) -> str: ...
    @property
    def files_hash(self) -> str:
        """Return 32 hexadecimal digits that differ between sets of files with their deletes."""

    def columns_hash(self, names: Sequence[str]) -> str:
        """Return 32 hexadecimal digits that differ if rows of the same files would differ.

        Args:
            names: Names of the columns that are read.
        """

    def source(self) -> Source:
        """Return all rows as a source."""

    def where(self, condition: RowFilter) -> TableMoment:
        """Return the table with only the rows that meet one more condition."""

    def keeping(self, kept: HostColumns) -> TableMoment:
        """Return the table with columns that this host keeps of its files, if they are needed.

        Args:
            kept: The columns, which files are read from, and of which they are kept.
        """

    def lacking(self, other: TableMoment | None) -> Sequence[RowDifference]:
        """Return the rows that the table lacks at another moment.

        A row that is in other files at the two moments may be among them.

        Args:
            other: The other moment, in the same columns and with the same conditions. None: one
                without rows.
        """


class TableHistory(Protocol):
    """A table at its newest moment, with its former ones.

    Attributes:
        newest: The newest moment.
    """

    @property
    def newest(self) -> TableMoment: ...
    def former(self, snapshot_id: str) -> TableMoment | None:
        """Return a former moment, in the columns of the newest one. None: it is gone.

        Args:
            snapshot_id: Identity of the moment.
        """


@dataclass(frozen=True)
class SnapshotMoment:
    """A table at one of its snapshots, which list their data files.

    Attributes:
        snapshot: The snapshot.
        kept: Columns that this host keeps of its files. None: none.
    """

    snapshot: Snapshot
    kept: HostColumns | None = None

    @property
    def description(self) -> str:
        return self.snapshot.description

    @property
    def schema(self) -> pa.Schema:
        return self.snapshot.schema

    @property
    def table_id(self) -> str:
        return self.snapshot.table_id

    @property
    def snapshot_id(self) -> str:
        return self.snapshot.snapshot_id

    @property
    def files_hash(self) -> str:
        """Return 32 hexadecimal digits; see `TableMoment`."""
        return hash_of([file.stored_identity for file in self.snapshot.files])

    def columns_hash(self, names: Sequence[str]) -> str:
        """Return 32 hexadecimal digits; see `TableMoment`."""
        snapshot, condition = self.snapshot, self.snapshot.filter
        names = [*dict.fromkeys([*names, *(() if condition is None else condition.names)])]
        places = [snapshot.columns.get_field_index(name) for name in names]
        stored = [snapshot.stored.field(place) for place in places]
        numbers = {int((field.metadata or {}).get(FIELD_ID, -1)) for field in stored}
        ids = snapshot.ids_of_names or {}
        # Columns with these ids, and what is in them.
        roots = {path[0] for path, number in ids.items() if len(path) == 1 and number in numbers}
        return hash_of(
            [
                pa.schema([snapshot.columns.field(name) for name in names]).to_string(),
                pa.schema(stored).to_string(),
                sorted([*path, str(number)] for path, number in ids.items() if path[0] in roots),
                None if condition is None else condition.identity,
                [snapshot.ids_of_columns.get(name) for name in names],
            ]
        )

    def source(self) -> Source:
        """Return all rows as a source."""
        return snapshot_source(self.snapshot, self.kept)

    def where(self, condition: RowFilter) -> SnapshotMoment:
        """Return the table with only the rows that meet one more condition."""
        return replace(self, snapshot=self.snapshot.where(condition))

    def keeping(self, kept: HostColumns) -> SnapshotMoment:
        """Return the table with columns that this host keeps of its files; see `TableMoment`."""
        return replace(self, kept=kept)

    def lacking(self, other: TableMoment | None) -> Sequence[RowDifference]:
        """Return the files with rows that the other snapshot lacks; see `TableMoment`."""
        assert other is None or isinstance(other, SnapshotMoment)
        files = () if other is None else other.snapshot.files
        return differing_files(self.snapshot, files, self.kept)


def hash_of(said: object) -> str:
    """Return 32 hexadecimal digits that differ between values of JSON.

    >>> hash_of(["a", 1]) == hash_of(["a", 2])
    False
    """
    return xxhash.xxh3_128_hexdigest(json.dumps(said).encode())
