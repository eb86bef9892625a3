"""Rows that a lookup has found in a slice: packed as in lookup files, or as a table."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lookupstore.arrow.types import concat
from lookupstore.columnar.file_lookup import FileLookup
from lookupstore.errors import CorruptionError, FormatError
from lookupstore.hudi.file_group.promotion import promoted

Mask = npt.NDArray[np.bool_]


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


def as_promoted(column: pa.Array, field: pa.Field, path: str) -> pa.Array:
    """Return a column of a base file in the type that it has in the table.

    Raises:
        FormatError: If Hudi does not promote the type of the column to that of the table.
    """
    return promoted(column, field.type, field.name, path)
