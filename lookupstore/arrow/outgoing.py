"""Rows on their way out: Arrow, and what is made of it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from lookupstore.arrow.frames import pandas_frame, polars_frame
from lookupstore.html_table import html_table

if TYPE_CHECKING:
    import pandas
    import polars


class ArrowRows(ABC):
    """Rows that Arrow, pandas, polars, duckdb and all that knows Arrow's streams can take."""

    @abstractmethod
    def _reader(self, **scan: Any) -> pa.RecordBatchReader:
        """Return the rows of a scan with these arguments, from the first one on."""

    @property
    @abstractmethod
    def schema(self) -> pa.Schema:
        """Return the columns of the rows."""

    @abstractmethod
    def _key_names(self) -> Collection[str]:
        """Return the names of the columns that are the key."""

    def _title(self) -> str:
        """Return what a notebook writes above the columns."""
        return repr(self)[1:-1]

    def _repr_html_(self) -> str:
        keys = self._key_names()
        rows = (
            (field.name, str(field.type), "key" if field.name in keys else "")
            for field in self.schema
        )
        return html_table(self._title(), ("column", "type", ""), rows)

    def to_arrow(self, **scan: Any) -> pa.Table:
        """Return the rows as an Arrow table.

        Args:
            scan: which rows and columns, by the arguments of `scan`, such as `columns`, or of a
                Hudi table by those of `scan_batches`; none: all.

        Raises: what these do.
        """
        return self._reader(**scan).read_all()

    def to_pandas(self, **scan: Any) -> pandas.DataFrame:
        """Return the rows as a pandas DataFrame, where integers with nulls are floats.

        Args:
            scan: as of `to_arrow`.

        Raises:
            ImportError: pandas is not installed.

        And all that `scan` raises.
        """
        return pandas_frame(self.to_arrow(**scan))

    def to_polars(self, **scan: Any) -> polars.DataFrame:
        """Return the rows as a polars DataFrame.

        Args:
            scan: as of `to_arrow`.

        Raises:
            ImportError: polars is not installed.

        And all that `scan` raises.
        """
        return polars_frame(self.to_arrow(**scan))  # type: ignore[no-any-return]

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        """Return all rows as a stream of Arrow's C interface, which reads them as it is read.

        So `pyarrow.table(rows)`, `polars.DataFrame(rows)`, `duckdb.sql("from rows")` and
        `lookupstore.build(rows, ...)` take them.

        Args:
            requested_schema: a capsule with the schema that the caller would have the rows in.
        """
        return self._reader().__arrow_c_stream__(requested_schema)
