"""Updates and merges: new values of stored rows, and deletions of stored rows.

Each changed row is known by its base file and its position there. Ordering values are ignored.
Columns that no clause sets keep their stored values.

Source: MERGE INTO and UPDATE of Apache Hudi's Spark SQL; deltalake's TableMerger, whose names the
clauses have.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lookupstore.arrow.types import concat
from lookupstore.filters import names_of
from lookupstore.hudi.file_group.groups import FileSlice
from lookupstore.hudi.file_group.reader import rows_at
from lookupstore.hudi.keys.incoming import Incoming
from lookupstore.hudi.keys.missing_columns import MissingColumns
from lookupstore.hudi.write.assignments import Assignments, holds
from lookupstore.hudi.write.rows.in_memory import RowPlaces
from lookupstore.hudi.write.rows.stored import Found, StoredRows
from lookupstore.storage.location import Location

Rows = npt.NDArray[np.int64]

#: Prefixes of the names of columns of a stored row and of a given row.
TARGET, SOURCE = "target.", "source."


@dataclass(frozen=True)
class Clause:
    """One clause of a merge or update.

    A clause applies to rows that no earlier clause applies to.

    Attributes:
        where: Condition on the columns of a row. None: every row.
        sets: Columns that are set, and their values. None: the row is deleted.
    """

    where: pc.Expression | None
    sets: Assignments | None


def kept_columns(columns: pa.Schema, clauses: Iterable[Clause]) -> MissingColumns:
    """Return the columns that no clause sets; rows keep their stored values."""
    names = {one.name for clause in clauses if clause.sets for one in clause.sets.fields}
    return MissingColumns({name: None for name in columns.names if name not in names})


class ClauseRows:
    """The stored rows that clauses change or delete.

    Args:
        location: Location of the table.
        columns: Data columns of the table.
        clauses: Clauses, in their order.
        prefix: Prefix of the names by which clauses call the table's columns.
        flagged: Whether rows have a flag that tells whether they are deleted.
        also: Names of columns whose stored values are returned although no clause sets them. Other
            columns that no clause sets are returned as nulls.
    """

    def __init__(
        self,
        location: Location,
        columns: pa.Schema,
        clauses: Sequence[Clause],
        prefix: str,
        *,
        flagged: bool,
        also: Sequence[str] = (),
    ) -> None:
        self._location = location
        self._columns = columns
        self._clauses = clauses
        self._prefix = prefix
        self._flagged = flagged
        self._also = also
        self._set = self._set_columns()
        self._read = self._read_columns()
        #: Number of rows returned so far.
        self.count: int = 0

    def of_file(
        self, file: FileSlice, keys: pa.Array, positions: Rows, source: pa.Table | None = None
    ) -> Iterator[Found]:
        """Yield the changed and deleted rows of one base file, with their places.

        Args:
            file: The base file.
            keys: Record keys of the rows to look at.
            positions: Positions of these rows in the file, int64, ascending.
            source: Given rows, one per position. None: an update, without given rows.

        Raises:
            ValueError: If a value cannot be computed, or does not fit its column.
            CorruptionError: If the file is damaged.
            StaleStoreError: If the file was deleted by a clean or a rollback.
        """
        first = 0
        for batch in rows_at(self._location, file, positions, self._read):
            count = batch.num_rows
            rows = pa.Table.from_batches([batch]).rename_columns(
                [f"{self._prefix}{name}" for name in batch.schema.names]
            )
            if source is not None:
                for name in source.column_names:
                    rows = rows.append_column(name, source[name].slice(first, count))
            part = positions[first : first + count]
            yield from self._changed(file, keys.slice(first, count), part, rows)
            first += count

    def _changed(
        self, file: FileSlice, keys: pa.Array, positions: Rows, rows: pa.Table
    ) -> Iterator[Found]:
        left = np.ones(rows.num_rows, bool)
        changed = np.zeros(rows.num_rows, bool)
        deleted = np.zeros(rows.num_rows, bool)
        stored = {name: self._stored(rows, name) for name in self._set}
        for clause in self._clauses:
            taken = left & holds(rows, clause.where)
            left &= ~taken
            if clause.sets is None:
                deleted |= taken
                continue
            which = np.flatnonzero(taken)
            if not len(which):
                continue
            changed |= taken
            at = pa.array(which)
            values = clause.sets.computed(rows.take(at), keys.take(at))
            for field, value in zip(clause.sets.fields, values, strict=True):
                stored[field.name] = _replaced(stored[field.name], which, value)
        kept = np.flatnonzero(changed | deleted)
        if not len(kept):
            return
        at = pa.array(kept)
        columns = [
            stored[field.name].take(at) if field.name in stored else pa.nulls(len(kept), field.type)
            for field in self._columns
        ]
        yield self._found(
            file,
            keys.take(at),
            positions[kept],
            pa.table(columns, schema=self._columns),
            deleted[kept],
        )

    def deleted(self, stored: Iterable[StoredRows]) -> Iterator[Found]:
        """Yield stored rows as deletions, with their places."""
        for file, keys, positions in stored:
            nothing = [pa.nulls(len(keys), field.type) for field in self._columns]
            rows = pa.table(nothing, schema=self._columns)
            yield self._found(file, keys, positions, rows, np.ones(len(keys), bool))

    def inserted(self, rows: pa.Table, keys: pa.ChunkedArray, paths: pa.DictionaryArray) -> Found:
        """Return new rows, without a place."""
        flags = np.zeros(len(keys), bool) if self._flagged else None
        incoming = Incoming(rows, keys, paths, flags, self._numbers(len(keys)))
        return incoming, RowPlaces.nowhere(len(keys))

    def _found(
        self,
        file: FileSlice,
        keys: pa.Array,
        positions: Rows,
        rows: pa.Table,
        deleted: npt.NDArray[np.bool_],
    ) -> Found:
        zeros = np.zeros(len(keys), np.int32)
        paths = pa.array([file.group.partition], pa.string())
        incoming = Incoming(
            rows,
            pa.chunked_array([keys], pa.string()),
            pa.DictionaryArray.from_arrays(pa.array(zeros), paths),
            deleted if self._flagged else None,
            self._numbers(len(keys)),
        )
        return incoming, RowPlaces((file,), zeros, positions)

    def _numbers(self, count: int) -> Rows:
        self.count += count
        return np.arange(self.count - count, self.count)

    def _stored(self, rows: pa.Table, name: str) -> pa.Array:
        """Return the stored values of a column, or nulls if every row gets a new value."""
        column = f"{self._prefix}{name}"
        if column in rows.column_names:
            return concat(rows[column].chunks, rows[column].type)
        return pa.nulls(rows.num_rows, self._columns.field(name).type)

    def _set_columns(self) -> list[str]:
        names = [one.name for clause in self._clauses if clause.sets for one in clause.sets.fields]
        return list(dict.fromkeys([*names, *self._also]))

    def _read_columns(self) -> pa.Schema:
        """Return the table's columns that have to be read."""
        needed = {f"{self._prefix}{name}" for name in self._also}
        updates = [clause.sets for clause in self._clauses if clause.sets is not None]
        expressions = [value for sets in updates for value in sets.values]
        expressions += [one.where for one in self._clauses if one.where is not None]
        for expression in expressions:
            found = names_of(expression)
            names = [f"{self._prefix}{name}" for name in self._columns.names]
            needed |= set(names) if found is None else found
        for name in self._set:
            if not all(name in [one.name for one in sets.fields] for sets in updates):
                needed.add(f"{self._prefix}{name}")
        fields = [one for one in self._columns if f"{self._prefix}{one.name}" in needed]
        # Arrow does not know the number of rows of a batch without columns.
        return pa.schema(fields or list(self._columns)[:1])


def _replaced(stored: pa.Array, which: Rows, values: pa.Array) -> pa.Array:
    order = np.arange(len(stored))
    order[which] = len(stored) + np.arange(len(which))
    return concat([stored, values], stored.type).take(pa.array(order))
