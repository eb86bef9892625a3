"""``StagedRows``: rows from several processes that another process writes.

Each process writes its rows to a file of its own, in a folder of the write that readers ignore. The
writing process receives the names of the files, reads them in the given order, and ignores the
files of failed attempts. The instant is requested after that, because until then no process would
renew its heartbeat.
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

# Header of each block of rows: its size, and its checksum.
_HEAD = struct.Struct("<QI")
#: Seconds after which rows are deleted: those of a write that was killed, or takes longer.
FORGOTTEN = 86400.0


@dataclass(frozen=True)
class RowFile:
    """A file of rows that wait for a write.

    Attributes:
        name: Path of the file, relative to the table.
        rows: Number of rows in the file.
    """

    name: str
    rows: int


@dataclass(frozen=True)
class StagedRows:
    """The rows of one write; made by `begin`.

    Attributes:
        location: Location of the table.
        folder: Folder of the write's rows, relative to the table.
    """

    location: Location
    folder: str

    @classmethod
    def begin(cls, location: Location) -> StagedRows:
        """Make a folder for the rows of a write, and delete abandoned folders."""
        staged = cls(location, f"{ROWS}/{uuid.uuid4().hex}")
        mark = f"{staged.folder}/begun"
        location.write(mark, [])
        last: dict[str, float] = {}
        for file in location.files(ROWS, recursive=True):
            folder = "/".join(file.name.split("/")[: ROWS.count("/") + 2])
            if file.modified is not None:
                last[folder] = max(file.modified, last.get(folder, file.modified))
        # The clock is that of the storage: the time of the file that was written just now.
        now = last.get(staged.folder)
        for folder, modified in last.items():
            if now is not None and now - modified > FORGOTTEN:
                location.delete_folder(folder)
        return staged

    def add(self, batches: Iterable[pa.RecordBatch]) -> RowFile | None:
        """Write rows to a file, and return it; None: there are no rows."""
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
        """Yield the rows of files, in at least one batch.

        Args:
            files: Files to read, in the order of the rows.
            schema: Schema of the empty batch that is yielded if there are no files.

        Raises:
            FileNotFoundError: If a file does not exist.
            CorruptionError: If a file is damaged, or shorter than when it was written.
            OSError: If a remote file cannot be read, or is damaged.
        """
        if not files:
            none = [pa.nulls(0, field.type) for field in schema]
            yield pa.RecordBatch.from_arrays(none, schema=schema)
        for file in files:
            yield from self._batches(file)

    def delete(self) -> None:
        """Delete the folder of the write, with all rows."""
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
    """Return rows and their schema as bytes."""
    sink = pa.BufferOutputStream()
    lz4 = pa.ipc.IpcWriteOptions(compression="lz4")
    with pa.ipc.new_stream(sink, batch.schema, options=lz4) as writer:
        writer.write_batch(batch)
    return sink.getvalue()


def _read(source: pa.NativeFile, size: int, shown: str) -> pa.Buffer:
    """Return the next bytes of a file, after checking that the file has as many."""
    left = source.size() - source.tell()
    if size > left:
        raise CorruptionError(shown, source.tell(), f"{size} bytes of rows", left)
    return source.read_buffer(size)
