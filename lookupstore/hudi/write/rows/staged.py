"""Rows that wait for a write: several processes have them, and another one writes all.

Each process puts its rows into a file of its own, in a folder of the write where no reader looks.
Who writes reads the files that it is told of, in the order in which it is told; those of attempts
that failed are not told. No instant is there before: nobody would show that its owner lives.
"""

from __future__ import annotations

import struct
import uuid
import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain

import pyarrow as pa

from lookupstore.errors import CorruptionError
from lookupstore.hudi.timeline.work_files import ROWS
from lookupstore.storage.location import Location

# Before each block of rows: its bytes, and their checksum.
_HEAD = struct.Struct("<QI")
#: After how many seconds rows are forgotten: those of a write that was killed, or takes longer.
FORGOTTEN = 86400.0


@dataclass(frozen=True)
class RowFile:
    """A file of rows.

    Attributes:
        name: of it, relative to the table.
        rows: in it.
    """

    name: str
    rows: int


@dataclass(frozen=True)
class StagedRows:
    """The rows of one write; made by `begin`.

    Attributes:
        location: of the table.
        folder: of the write, relative to that.
    """

    location: Location
    folder: str

    @classmethod
    def begin(cls, location: Location) -> StagedRows:
        """Make a folder for the rows of a write, and delete those of forgotten ones."""
        staged = cls(location, f"{ROWS}/{uuid.uuid4().hex}")
        mark = f"{staged.folder}/begun"
        location.write(mark, [])
        last: dict[str, float] = {}
        for file in location.files(ROWS, recursive=True):
            folder = "/".join(file.name.split("/")[: ROWS.count("/") + 2])
            if file.modified is not None:
                last[folder] = max(file.modified, last.get(folder, file.modified))
        # By the clock of the place: the file that was written just now.
        now = last.get(staged.folder)
        for folder, modified in last.items():
            if now is not None and now - modified > FORGOTTEN:
                location.delete_folder(folder)
        return staged

    def add(self, batches: Iterable[pa.RecordBatch]) -> RowFile | None:
        """Write rows to a file; None: there are none."""
        batches = (batch for batch in batches if batch.num_rows)
        first = next(batches, None)
        if first is None:
            return None
        name = f"{self.folder}/{uuid.uuid4().hex}.rows"
        rows = 0
        with self.location.new_file(name) as stream:
            for batch in chain([first], batches):
                block = _block(batch)
                stream.write(_HEAD.pack(len(block), zlib.crc32(block)))
                stream.write(block)
                rows += batch.num_rows
        return RowFile(name, rows)

    def read(self, files: Sequence[RowFile], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        """Yield the rows of files, and at least a batch.

        Args:
            files: in the order in which rows come.
            schema: of the rows, if there are none.

        Raises:
            FileNotFoundError: a file is not there.
            CorruptionError: a file is damaged, or shorter than when it was written.
            OSError: a remote file could not be read, or is damaged.
        """
        if not files:
            none = [pa.nulls(0, field.type) for field in schema]
            yield pa.RecordBatch.from_arrays(none, schema=schema)
        for file in files:
            yield from self._batches(file)

    def delete(self) -> None:
        """Delete all rows."""
        self.location.delete_folder(self.folder)

    def _batches(self, file: RowFile) -> Iterator[pa.RecordBatch]:
        address = self.location.address(file.name)
        reading = partial(address.reading, f"{file.rows} rows that wait for a write")
        rows = 0
        with reading():
            source = address.open()
        with source:
            while rows < file.rows:
                offset = source.tell()
                with reading():
                    size, crc = _HEAD.unpack(_read(source, _HEAD.size, address.shown))
                    block = _read(source, size, address.shown)
                    if (found := zlib.crc32(block)) != crc:
                        raise CorruptionError(address.shown, offset, f"the checksum {crc}", found)
                    with pa.ipc.open_stream(block) as reader:
                        batch = reader.read_next_batch()
                rows += batch.num_rows
                yield batch


def _block(batch: pa.RecordBatch) -> pa.Buffer:
    """Return rows as bytes, with their schema."""
    sink = pa.BufferOutputStream()
    lz4 = pa.ipc.IpcWriteOptions(compression="lz4")
    with pa.ipc.new_stream(sink, batch.schema, options=lz4) as writer:
        writer.write_batch(batch)
    return sink.getvalue()


def _read(source: pa.NativeFile, size: int, shown: str) -> pa.Buffer:
    """Return the next bytes of a file; what it claims to have is not believed."""
    left = source.size() - source.tell()
    if size > left:
        raise CorruptionError(shown, source.tell(), f"{size} bytes of rows", left)
    return source.read_buffer(size)
