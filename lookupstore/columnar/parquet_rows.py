"""A new Parquet file of rows that are added in batches: row groups of a bounded size."""

from __future__ import annotations

from types import TracebackType
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

#: Number of rows, or bytes of rows, of a row group.
GROUP_ROWS = 1 << 17
GROUP_BYTES = 32 << 20


class ParquetRowWriter:
    """A writer of a Parquet file with zstd; the end of the block writes the footer.

    Args:
        stream: Stream to write the file to, from its beginning.
        schema: Columns of the rows.
    """

    def __init__(self, stream: Any, schema: pa.Schema) -> None:
        self._schema = schema
        self._writer = pq.ParquetWriter(stream, schema, compression="zstd")
        self._waiting: list[pa.Table] = []
        self._rows = self._bytes = 0

    def __enter__(self) -> ParquetRowWriter:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if error is None:
            self._flush()
        self._writer.close()

    def write(self, rows: pa.Table) -> None:
        """Add rows."""
        self._waiting.append(rows)
        self._rows += rows.num_rows
        self._bytes += rows.nbytes
        if self._rows >= GROUP_ROWS or self._bytes >= GROUP_BYTES:
            self._flush()

    def _flush(self) -> None:
        if self._rows:
            self._writer.write_table(pa.concat_tables(self._waiting), row_group_size=self._rows)
        self._waiting = []
        self._rows = self._bytes = 0
