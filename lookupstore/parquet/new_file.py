"""A new Parquet file, made of column chunks that are encoded already."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pyarrow as pa

from lookupstore.parquet.footer import (
    MAGIC,
    ColumnChunk,
    Footer,
    footer_bytes,
    read_footer,
)
from lookupstore.parquet.structs import Struct

#: A column chunk: what is said of it, and its bytes, in pieces.
EncodedChunk = tuple[ColumnChunk, Sequence[Any]]


class EncodedFile:
    """A small Parquet file in memory, as Arrow has written it.

    Args:
        data: the file.
    """

    def __init__(self, data: pa.Buffer) -> None:
        self._data = data
        #: What the file says of itself.
        self.footer: Footer = read_footer(pa.BufferReader(data), "a file in memory")

    def groups(self) -> list[tuple[int, list[EncodedChunk]]]:
        """Return the rows of each row group, and its chunks, in the order of the schema."""
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
        stream: to write to, from its beginning.
        like: a footer whose schema the file has.
    """

    def __init__(self, stream: Any, like: Footer) -> None:
        self._stream = stream
        self._like = like
        self._groups: list[tuple[int, list[Struct]]] = []
        #: Chunks that are written, and where each is, in their order.
        self.chunks: list[tuple[ColumnChunk, int]] = []
        self._at = 0
        self._write(MAGIC)

    def append(self, rows: int, chunks: Iterable[EncodedChunk]) -> None:
        """Write a row group.

        Args:
            rows: of it.
            chunks: of it, in the order of the schema; each is written before the next is asked for.
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
            entries: key-value metadata.
        """
        self._write(footer_bytes(self._like, self._groups, entries))

    def _write(self, data: Any) -> None:
        self._stream.write(data)
        self._at += len(data)
