"""Pieces of columns in an unnamed temporary file, written and read by several threads at once.

They are as they are in memory: to compress them would take longer than to write and read them.
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
    """Where a batch is in the file, and what its columns are."""

    offset: int
    size: int
    schema: pa.Schema


class PieceFile:
    """An unnamed temporary file of record batches, each of columns of its own, no dictionaries.

    Args:
        folder: of the file; an `OSError` of that, such as a full disk, names it.
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
        """Free the room that it takes."""
        self._file.close()
