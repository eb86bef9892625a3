"""Write a new Parquet file from encoded column chunks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pyarrow as pa

from lookupstore.parquet.footer import (
    MAGIC,
    ColumnChunk,
    ParquetFooter,
    footer_bytes,
    read_footer,
)
from lookupstore.parquet.structs import Struct

#: Description of a column chunk, and its bytes, in pieces.
EncodedChunk = tuple[ColumnChunk, Sequence[Any]]


class EncodedFile:
    """A small Parquet file in memory, written by Arrow.

    Args:
        data: Bytes of the file.
    """

    def __init__(self, data: pa.Buffer) -> None:
        self._data = data
        #: Footer in the file.
        self.footer: ParquetFooter = read_footer(pa.BufferReader(data), "a file in memory")

    def groups(self) -> list[tuple[int, list[EncodedChunk]]]:
        """Return the number of rows and the chunks of each row group, in schema order."""
        return [
            (
                group.rows,
                [(one, [self._data.slice(one.offset, one.nbytes)]) for one in group.columns],
            )
            for group in self.footer.groups
        ]


class NewParquetFile:
    """A writer of a Parquet file, row group by row group.

    Args:
        stream: Open file to write to, at its beginning.
        like: Footer of a file with the same schema.
    """

    def __init__(self, stream: Any, like: ParquetFooter) -> None:
        self._stream = stream
        self._like = like
        self._groups: list[tuple[int, list[Struct]]] = []
        #: Chunks that were written, each with its offset, in their order.
        self.chunks: list[tuple[ColumnChunk, int]] = []
        self._at = 0
        self._write(MAGIC)

    def append(self, rows: int, chunks: Iterable[EncodedChunk]) -> None:
        """Write a row group.

        Args:
            rows: Number of rows of the group.
            chunks: Column chunks of the group, in the order of the schema. Each is written before
                the next one is requested.
        """
        structs = []
        for chunk, pieces in chunks:
            self.chunks.append((chunk, self._at))
            structs.append(chunk.moved(self._at))
            for piece in pieces:
                self._write(piece)
        self._groups.append((rows, structs))

    def finish(self, entries: Mapping[bytes, bytes]) -> None:
        """Write the footer.

        Args:
            entries: Key-value metadata of the file.
        """
        self._write(footer_bytes(self._like, self._groups, entries))

    def _write(self, data: Any) -> None:
        self._stream.write(data)
        self._at += len(data)
