"""Updates and merges: what becomes of rows that are there, and which rows come to them.

A row that changes is known by its base file and its place in that, and no ordering value decides:
the statement says what the row is to be. Columns that it does not set keep what is stored.

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
from lookupstore.hudi.file_group.groups import FileSlice
from lookupstore.hudi.file_group.reader import rows_at
from lookupstore.hudi.keys.incoming import Incoming
from lookupstore.hudi.keys.missing_columns import MissingColumns
from lookupstore.hudi.layout import names_of
from lookupstore.hudi.write.assignments import Assignments, holds
from lookupstore.hudi.write.rows.in_memory import Places
from lookupstore.hudi.write.rows.stored import Found, StoredRows
from lookupstore.storage.location import Location

Rows = npt.NDArray[np.int64]

#: What columns of the table, and of given rows, are called in a row of both.
TARGET, SOURCE = "target.", "source."


@dataclass(frozen=True)
class Clause:
    """What becomes of rows for which a condition holds, unless an earlier clause has taken them.

    Attributes:
        where: the condition, on the columns of a row; None: it holds.
        sets: columns that rows get; None: they are deleted.
    """

    where: pc.Expression | None
    sets: Assignments | None


def kept_columns(columns: pa.Schema, clauses: Iterable[Clause]) -> MissingColumns:
    """Return the columns of a table that no clause sets, of which rows keep the stored values."""
    names = {one.name for clause in clauses if clause.sets for one in clause.sets.fields}
    return MissingColumns({name: None for name in columns.names if name not in names})


class ChangedRows:
    """Rows of a table that clauses change or delete.

    Args:
        location: of the table.
        columns: of the table.
        clauses: in the order in which they take rows.
        prefix: what the names of the table's columns begin with, for the clauses.
        flagged: whether all rows say whether they are deleted.
        also: names of columns that changed rows have as they are stored; others that no clause
            sets are null.
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
        #: How many rows change, go or are new, of those that were looked at.
        self.count: int = 0

    def of_file(
        self, file: FileSlice, keys: pa.Array, positions: Rows, source: pa.Table | None = None
    ) -> Iterator[Found]:
        """Yield the rows of a base file that change, with their places.

        Args:
            file: that has them.
            keys: record keys of rows that clauses may take.
            positions: of these rows, ascending.
            source: given rows, one for each; None: there are none.

        Raises:
            ValueError: a value cannot be computed, or does not fit its column.
            CorruptionError: the file is damaged.
            StaleStoreError: it is gone.
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
        """Yield rows of the table, all of which go, with their places."""
        for file, keys, positions in stored:
            nothing = [pa.nulls(len(keys), field.type) for field in self._columns]
            rows = pa.table(nothing, schema=self._columns)
            yield self._found(file, keys, positions, rows, np.ones(len(keys), bool))

    def inserted(self, rows: pa.Table, keys: pa.ChunkedArray, paths: pa.DictionaryArray) -> Found:
        """Return new rows, which have all columns of the table."""
        flags = np.zeros(len(keys), bool) if self._flagged else None
        incoming = Incoming(rows, keys, paths, flags, self._numbers(len(keys)))
        return incoming, Places.nowhere(len(keys))

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
        return incoming, Places((file,), zeros, positions)

    def _numbers(self, count: int) -> Rows:
        self.count += count
        return np.arange(self.count - count, self.count)

    def _stored(self, rows: pa.Table, name: str) -> pa.Array:
        """Return a column that some clause sets, as it is stored, or nulls if each row gets it."""
        column = f"{self._prefix}{name}"
        if column in rows.column_names:
            return concat(rows[column].chunks, rows[column].type)
        return pa.nulls(rows.num_rows, self._columns.field(name).type)

    def _set_columns(self) -> list[str]:
        names = [one.name for clause in self._clauses if clause.sets for one in clause.sets.fields]
        return list(dict.fromkeys([*names, *self._also]))

    def _read_columns(self) -> pa.Schema:
        """Return the columns that clauses need, of the table."""
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
        # Of a table without a column Arrow does not know how many rows there are.
        return pa.schema(fields or list(self._columns)[:1])


def _replaced(stored: pa.Array, which: Rows, values: pa.Array) -> pa.Array:
    order = np.arange(len(stored))
    order[which] = len(stored) + np.arange(len(which))
    return concat([stored, values], stored.type).take(pa.array(order))
