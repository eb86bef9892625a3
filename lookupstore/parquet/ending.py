"""The footer of a Parquet file, which one read returns unless it is large.

A read of an object store takes its time. Therefore the end of a file is read once. It is checked,
and Arrow decodes it from memory.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from lookupstore.parquet.footer import ParquetFooter, read_footer

#: Number of bytes to read at the end of a file: most footers are shorter.
ENDING_BYTES = 64 << 10


def read_metadata(stream: Any, path: str) -> pq.FileMetaData:
    """Read and check the footer of a file.

    Args:
        stream: Open file, with the methods `size()` and `read_at(nbytes, offset)`.
        path: Path of the file, which errors name.

    Raises the errors of `lookupstore.parquet.footer.read_footer`.

    >>> file = pa.BufferOutputStream()
    >>> pq.write_table(pa.table({"id": [1, 2]}), file)
    >>> read_metadata(pa.BufferReader(file.getvalue()), "x.parquet").num_rows
    2
    """
    return ParquetEnding(stream, path).metadata


class ParquetEnding:
    """The end of a Parquet file, which grows when earlier bytes are read.

    Args:
        stream: Open file, with the methods `size()` and `read_at(nbytes, offset)`.
        path: Path of the file, which errors name.
        nbytes: Number of bytes to read first.

    Attributes:
        content: Bytes of the end that were read.
        footer: Footer of the file.

    Raises the errors of `lookupstore.parquet.footer.read_footer`.
    """

    def __init__(self, stream: Any, path: str, nbytes: int = ENDING_BYTES) -> None:
        self._stream = stream
        self._size = int(stream.size())
        self._start = self._size
        self.content: bytes = b""
        self._read_from(max(0, self._size - nbytes))
        self.footer: ParquetFooter = read_footer(self, path)

    @cached_property
    def metadata(self) -> pq.FileMetaData:
        """Return the metadata in the footer, as Arrow has it."""
        # `metadata.schema` is not used: the two refer to each other, and keep the footer in memory,
        # which may be megabytes, until garbage is collected.
        return pq.ParquetFile(pa.BufferReader(self.content)).metadata

    @property
    def struct(self) -> bytes:
        """Return the bytes of the struct FileMetaData."""
        nbytes = int.from_bytes(self.content[-8:-4], "little")
        return self.content[-8 - nbytes : -8]

    def size(self) -> int:
        """Return the size of the file."""
        return self._size

    def has(self, offset: int) -> bool:
        """Return whether the bytes from an offset to the end were read."""
        return offset >= self._start

    def read_at(self, nbytes: int, offset: int) -> bytes:
        """Return bytes between an offset and the end."""
        if offset < self._start:
            self._read_from(offset)
        at = offset - self._start
        return self.content[at : at + nbytes]

    def _read_from(self, start: int) -> None:
        self.content = self._stream.read_at(self._start - start, start) + self.content
        self._start = start
