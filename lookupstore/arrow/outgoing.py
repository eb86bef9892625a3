"""Return rows as Arrow, pandas and polars objects."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from lookupstore.arrow.frames import pandas_frame, polars_frame
from lookupstore.errors import LookupStoreError
from lookupstore.html_table import html_table

if TYPE_CHECKING:
    import pandas
    import polars


#: Maximum number of rows that a notebook shows.
SHOWN_ROWS = 3
# Maximum number of characters of each value there.
_SHOWN_TEXT = 40


def _clipped(value: object) -> str:
    text = str(value)
    return text if len(text) <= _SHOWN_TEXT else f"{text[: _SHOWN_TEXT - 1]}…"


class ArrowRows(ABC):
    """Rows that Arrow, pandas, polars and other readers of Arrow streams can read."""

    @abstractmethod
    def _reader(self, **scan: Any) -> pa.RecordBatchReader:
        """Return a reader of the rows of a scan with these arguments."""

    @property
    @abstractmethod
    def schema(self) -> pa.Schema:
        """Return the schema of the rows."""

    @abstractmethod
    def _key_names(self) -> Collection[str]:
        """Return the names of the key columns."""

    def _title(self) -> str:
        """Return the title of the table of columns in a notebook."""
        return repr(self)[1:-1]

    def _first_rows(self) -> pa.Table | None:
        """Return rows that a notebook shows. None: It is not cheap to read some."""
        return None

    def _repr_html_(self) -> str:
        keys = self._key_names()
        try:
            first = self._first_rows()
        except (LookupStoreError, OSError):  # columns are shown whatever became of the rows
            first = None
        shown = {} if first is None else first.slice(0, SHOWN_ROWS).to_pydict()
        rows = (
            (
                field.name,
                str(field.type),
                "key" if field.name in keys else "",
                *map(_clipped, shown.get(field.name, ())),
            )
            for field in self.schema
        )
        numbers = range(1, 1 + (0 if first is None else min(SHOWN_ROWS, first.num_rows)))
        heads = ("column", "type", "", *(f"row {number}" for number in numbers))
        return html_table(self._title(), heads, rows)

    def to_arrow(self, **scan: Any) -> pa.Table:
        """Return the rows as an Arrow table.

        Args:
            scan: Arguments of `scan`, such as `columns`, or of `scan_batches` for a Hudi table.
                Default: all rows and columns.

        Raises: The errors of `scan` or `scan_batches`.
        """
        return self._reader(**scan).read_all()

    def to_pandas(self, **scan: Any) -> pandas.DataFrame:
        """Return the rows as a pandas DataFrame; integers with nulls become floats.

        Args:
            scan: Arguments of `scan`, such as `columns`, or of `scan_batches` for a Hudi table.
                Default: all rows and columns.

        Raises:
            ImportError: If pandas is not installed.

        It also raises every error of `scan` or `scan_batches`.
        """
        return pandas_frame(self.to_arrow(**scan))

    def to_polars(self, **scan: Any) -> polars.DataFrame:
        """Return the rows as a polars DataFrame.

        Args:
            scan: Arguments of `scan`, such as `columns`, or of `scan_batches` for a Hudi table.
                Default: all rows and columns.

        Raises:
            ImportError: If polars is not installed.

        It also raises every error of `scan` or `scan_batches`.
        """
        return polars_frame(self.to_arrow(**scan))  # type: ignore[no-any-return]

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        """Return all rows as a stream of Arrow's C interface, which reads them on demand.

        With it, `pyarrow.table(rows)`, `polars.DataFrame(rows)`, `duckdb.sql("from rows")` and
        `lookupstore.build(rows, ...)` read the rows.

        Args:
            requested_schema: Capsule with the schema that the caller wants. Default: the schema of
                the rows.
        """
        return self._reader().__arrow_c_stream__(requested_schema)
