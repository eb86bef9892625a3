"""The statistics of data files in the log of a Delta table.

Only those of integers, days, times and texts are used: writers round other values.

Source: "Delta Transaction Log Protocol", per-file statistics.
"""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from lookupstore.arrow.types import is_text
from lookupstore.parquet.column_statistics import ColumnStatistics

# Writers of Delta round times down to milliseconds, also the greatest one.
_ROUNDED = 999


class LogStatistics:
    """The statistics of the data files of a version.

    Args:
        actions: The data files, as deltalake lists them.
    """

    def __init__(self, actions: pa.Table) -> None:
        self._actions = actions
        self._columns: dict[str, tuple[pa.Array, pa.Array, pa.Array] | None] = {}

    def column(self, name: str) -> tuple[pa.Array, pa.Array, pa.Array] | None:
        """Return the bounds and numbers of nulls of a column in each file. None: unknown.

        Args:
            name: Name of the column.
        """
        if name not in self._columns:
            self._columns[name] = self._read(name)
        return self._columns[name]

    def _read(self, name: str) -> tuple[pa.Array, pa.Array, pa.Array] | None:
        least, greatest, nulls = (self._field(side, name) for side in ("min", "max", "null_count"))
        if least is None or greatest is None:
            return None
        kind = least.type
        if pa.types.is_timestamp(kind):
            greatest = pc.add(greatest.cast(pa.int64()), _ROUNDED).cast(kind)
        elif not (is_text(kind) or pa.types.is_integer(kind) or pa.types.is_date32(kind)):
            return None
        return least, greatest, pa.nulls(len(least), pa.int64()) if nulls is None else nulls

    def _field(self, side: str, name: str) -> pa.Array | None:
        if side not in self._actions.column_names:
            return None
        found = self._actions[side].combine_chunks()
        at = found.type.get_field_index(name)
        return None if at < 0 else pc.struct_field(found, at)


@dataclass(frozen=True)
class FileInLog:
    """The statistics of one data file.

    Attributes:
        log: Statistics of all files.
        row: Number of the file in the list of files.
    """

    log: LogStatistics
    row: int

    def of(self, name: str) -> ColumnStatistics | None:
        """Return the statistics of a column of the table; see `RecordedStatistics`."""
        column = self.log.column(name)
        if column is None:
            return None
        least, greatest, nulls = (one[self.row] for one in column)
        return ColumnStatistics(
            least if least.is_valid else None,
            greatest if greatest.is_valid else None,
            nulls.as_py(),
            0,
        )
