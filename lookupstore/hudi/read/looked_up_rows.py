"""Rows that a lookup has found in a slice: packed as in lookup files, or as a table."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lookupstore.arrow.taking import take
from lookupstore.arrow.types import concat
from lookupstore.columnar.file_lookup import FileLookup
from lookupstore.errors import CorruptionError, FormatError
from lookupstore.hudi.file_group.promotion import promoted

Mask = npt.NDArray[np.bool_]
Places = npt.NDArray[np.int64]


class LookedUpRows(Protocol):
    """Rows of a slice, one for each key that was found."""

    def __len__(self) -> int:
        """Return the number of rows."""

    def column(self, field: pa.Field) -> pa.Array:
        """Return a column in the type of the field; null if the file lacks it.

        Raises:
            CorruptionError: If the rows are damaged.
            FormatError: If the stored type is not promoted to that of the field.
        """

    def kept(self, kept: Mask) -> LookedUpRows:
        """Return some of the rows."""


@dataclass(frozen=True)
class StoredRows:
    """Rows of a base file.

    Attributes:
        lookup: Lookups in the file.
        packed: Packed rows.
    """

    lookup: FileLookup
    packed: pa.Array

    def __len__(self) -> int:
        return len(self.packed)

    def column(self, field: pa.Field) -> pa.Array:
        """Return a column; see `LookedUpRows`."""
        row_schema = self.lookup.plan.build.row_schema
        if field.name not in row_schema.schema.names:
            return pa.nulls(len(self.packed), field.type)
        try:
            column = row_schema.unpack(self.packed, [field.name]).column(0)
        except FormatError as error:
            path = self.lookup.reader().path
            raise CorruptionError(path, 0, "rows of the file's columns", error) from None
        return as_promoted(column, field, self.lookup.plan.source.uri)

    def kept(self, kept: Mask) -> StoredRows:
        """Return some of the rows."""
        return self if kept.all() else StoredRows(self.lookup, self.packed.filter(pa.array(kept)))


@dataclass(frozen=True)
class RowsTogether:
    """Rows of base files that answered together.

    Attributes:
        columns: Columns of the rows, in the types of the table, by name.
        places: Place of each row in the columns.
        count: Number of rows in the columns; all other values are null.
    """

    columns: Mapping[str, pa.Array]
    places: Places
    count: int

    def __len__(self) -> int:
        return len(self.places)

    def column(self, field: pa.Field) -> pa.Array:
        """Return a column; see `LookedUpRows`."""
        column = self.columns[field.name]
        return column if len(self) == len(column) else take(column, pa.array(self.places))

    def kept(self, kept: Mask) -> RowsTogether:
        """Return some of the rows."""
        return self if kept.all() else replace(self, places=self.places[kept])

    def is_spread(self, keys: Places, count: int) -> bool:
        """Return whether the columns have the row of each key in the place of the key.

        Args:
            keys: Places of the keys of these rows.
            count: Number of all keys. Those without a row must be null in the columns.
        """
        is_whole = len(self) == self.count and all(
            len(one) == count for one in self.columns.values()
        )
        return is_whole and np.array_equal(keys, self.places)


@dataclass(frozen=True)
class LoggedRows:
    """Rows of log files.

    Attributes:
        table: Rows, in the types of the table.
    """

    table: pa.Table

    def __len__(self) -> int:
        return int(self.table.num_rows)

    def column(self, field: pa.Field) -> pa.Array:
        """Return a column; see `LookedUpRows`."""
        column = self.table[field.name]
        return concat(column.chunks, column.type)

    def kept(self, kept: Mask) -> LoggedRows:
        """Return some of the rows."""
        return LoggedRows(self.table.filter(pa.array(kept)))


class AnsweredRows:
    """The rows of the keys of a call, which several slices have.

    Args:
        count: Number of the keys.
    """

    def __init__(self, count: int) -> None:
        self._places = np.full(count, -1, np.int64)  # place of each key's row among those of parts
        self._parts: list[LookedUpRows] = []
        self._ends: list[int] = []
        self._is_spread = False  # there is one part, whose columns have a value for each key

    def add(self, keys: Places, rows: LookedUpRows) -> int:
        """Add a part with the rows of keys without a row, and return its number.

        Args:
            keys: Places of the keys in the call.
            rows: Row of each of these keys.
        """
        first = self._ends[-1] if self._ends else 0
        self._places[keys] = np.arange(first, first + len(keys))
        self._parts.append(rows)
        self._ends.append(first + len(keys))
        self._is_spread = (
            len(self._parts) == 1
            and isinstance(rows, RowsTogether)
            and rows.is_spread(keys, len(self._places))
        )
        return len(self._parts) - 1

    def has(self, keys: Places) -> Mask:
        """Return which keys have a row, by their places in the call."""
        there: Mask = self._places[keys] >= 0
        return there

    def part_of(self, key: int) -> int:
        """Return the number of the part with the row of a key."""
        return int(np.searchsorted(self._ends, self._places[key], "right"))

    def present(self) -> pa.BooleanArray:
        """Return whether each key has a row."""
        return pa.array(self._places >= 0)

    def column(self, field: pa.Field) -> pa.Array:
        """Return a column of the rows, null for keys without a row; see `LookedUpRows`."""
        if self._is_spread:
            (rows,) = self._parts
            assert isinstance(rows, RowsTogether)
            return rows.columns[field.name]
        columns = [rows.column(field) for rows in self._parts]
        column = pa.concat_arrays(columns) if columns else pa.array([], field.type)
        return column.take(pa.array(self._places, mask=self._places < 0))


def as_promoted(column: pa.Array, field: pa.Field, path: str) -> pa.Array:
    """Return a column of a base file in the type that it has in the table.

    Raises:
        FormatError: If Hudi does not promote the type of the column to that of the table.
    """
    return promoted(column, field.type, field.name, path)
