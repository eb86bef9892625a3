"""A filter of the rows of files whose columns may differ."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import pyarrow as pa

from lookupstore.filters.row_filter import RowFilter
from lookupstore.source.reading import fitted


def as_in_others(column: pa.Array, field: pa.Field, path: str) -> pa.Array:
    """Return a column of a file in the type that it has in all files together.

    Raises:
        ValueError: If a value does not fit into the type.
    """
    return fitted(column, field, path, "in the other files")


@dataclass(frozen=True)
class FileFilter:
    """A condition on the rows of several files.

    Attributes:
        condition: The condition.
        columns: Columns that it needs, in the types that they have in all files together.
        fit: Function that returns a column of a file in such a type; it is given the column, the
            field and the path of the file.
    """

    condition: RowFilter
    columns: pa.Schema
    fit: Callable[[pa.Array, pa.Field, str], pa.Array] = as_in_others

    @property
    def identity(self) -> str:
        """Return a text that differs between conditions."""
        return f"{self.condition.identity} {self.columns.to_string()}"

    def kept(
        self,
        there: Sequence[str],
        columns: Callable[[Sequence[str]], pa.RecordBatch],
        count: int,
        path: str,
    ) -> pa.BooleanArray:
        """Return which rows of a file meet the condition: Arrow booleans, never null.

        Args:
            there: Names of the columns that the file has. Others are null.
            columns: Function that returns the named columns of the rows.
            count: Number of the rows.
            path: Path of the file, which errors name.
        """
        given = columns([name for name in self.columns.names if name in there])
        arrays = [
            self.fit(given.column(field.name), field, path)
            if field.name in there
            else pa.nulls(count, field.type)
            for field in self.columns
        ]
        return self.condition.kept(pa.RecordBatch.from_arrays(arrays, schema=self.columns))
