"""Write and read pieces of columns in a temporary file, in several threads.

Pieces are stored with the same bytes as in memory: compression would take longer than writing and
reading them.
"""

from __future__ import annotations

import os
import tempfile
import threading
from dataclasses import dataclass

import pyarrow as pa

from lookupstore.storage.naming import naming


@dataclass(frozen=True)
class Piece:
    """The place of a batch in the file, and its schema."""

    offset: int
    size: int
    schema: pa.Schema


class PieceFile:
    """An unnamed temporary file of record batches, each with its own schema.

    The batches have no dictionaries.

    Args:
        folder: Folder of the file. An `OSError` of the file, such as a full disk, names it.
    """

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._file = tempfile.TemporaryFile(dir=folder, prefix=".lookupstore-")  # noqa: SIM115
        self._end = 0
        self._lock = threading.Lock()

    def append(self, batch: pa.RecordBatch) -> Piece:
        """Write a batch."""
        data = batch.serialize()
        with self._lock:
            offset = self._end
            self._end += data.size
        left, at = memoryview(data), offset
        with naming(self._folder):
            while left:
                written = os.pwrite(self._file.fileno(), left, at)
                left, at = left[written:], at + written
        return Piece(offset, data.size, batch.schema)

    def read(self, piece: Piece) -> pa.RecordBatch:
        """Read a batch."""
        data = pa.allocate_buffer(piece.size)
        left, at = memoryview(data), piece.offset
        with naming(self._folder):
            while left:
                count = os.preadv(self._file.fileno(), [left], at)
                if not count:
                    raise OSError(f"{self._folder}: a temporary file ends at byte {at}")
                left, at = left[count:], at + count
        return pa.ipc.read_record_batch(data, piece.schema)

    def close(self) -> None:
        """Close the file, which frees its disk space."""
        self._file.close()
