"""One new base file: meta columns, row groups, footer, and the name under which it appears.

Rows are added as Arrow batches. A row group is encoded when its rows are complete, so a file of any
size needs memory for one row group and for its keys, from which the filter is made.

Source: org.apache.hudi.io.HoodieWriteHandle, HoodieAvroParquetWriter,
org.apache.hudi.avro.HoodieBloomFilterWriteSupport.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from types import TracebackType

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lookupstore.hudi.file_group.encoding import ColumnEncoding, FileFormat
from lookupstore.hudi.file_group.groups import FileSlice
from lookupstore.hudi.file_group.key_entries import KeyChunk, KeyEntries
from lookupstore.hudi.file_group.reader import SHARED_TEXT
from lookupstore.hudi.keys.table_schema import TableSchema
from lookupstore.hudi.meta_columns import COMMIT_TIME, META_COLUMNS, RECORD_KEY
from lookupstore.hudi.timeline.names import GroupId, base_file_name
from lookupstore.hudi.timeline.work_files import mark
from lookupstore.parquet.footer import ParquetFooter
from lookupstore.parquet.new_file import EncodedChunk, NewParquetFile
from lookupstore.storage.location import Location

_AVRO_KEY = b"parquet.avro.schema"
_MODEL_KEY = b"writer.model.name"

#: Meta columns of a row before it is in a file: commit time, sequence number, key.
ROW_COLUMNS = META_COLUMNS[:3]
_FILE_COLUMNS = META_COLUMNS[3:]


@dataclass(frozen=True)
class NewFile:
    """A base file to write.

    Attributes:
        partition: Folder of the file, relative to the table; empty for that of the table.
        file_id: Id of the file group.
        task: Number of the task that writes the file, which is in its name and in its rows.
        time: Request time of the instant that writes the file.
        attempt: Attempt of the task, which is in the file's name: two integers, joined by `-`.
        waits_in: Folder of the table in which the file waits for its name. Empty: the file gets its
            name at once.
        replaces: Whether the file replaces another slice of its group.
    """

    partition: str
    file_id: str
    task: int
    time: str
    attempt: str = "0-0"
    waits_in: str = ""
    replaces: bool = False

    @property
    def name(self) -> str:
        """Return the name of the file.

        >>> NewFile("", "a-0", 3, "20260307135657661").name
        'a-0_3-0-0_20260307135657661.parquet'
        """
        return base_file_name(self.file_id, f"{self.task}-{self.attempt}", self.time)

    @property
    def path(self) -> str:
        """Return the path of the file, relative to the table."""
        return f"{self.partition}/{self.name}" if self.partition else self.name

    @property
    def written_path(self) -> str:
        """Return the path under which the file is written."""
        return f"{self.waits_in}/{self.path}" if self.waits_in else self.path


class BaseFileWriter:
    """A writer of one base file, which appears complete when the `with` block ends.

    If the block raises an error, the file does not appear.

    Args:
        location: Location of the table.
        file: File to write.
        schema: Schema of the table.
        format: Encoding of the file.
    """

    def __init__(
        self, location: Location, file: NewFile, schema: TableSchema, format: FileFormat
    ) -> None:
        self.file = file
        self._location = location
        self._schema = schema
        #: Encoding of the file.
        self.format = format
        #: Number of rows so far.
        self.rows: int = 0
        self._batches: list[pa.RecordBatch] = []
        self._waiting_bytes = self._flushed_bytes = 0
        self._size = 0
        self._keys = KeyEntries(format.error_rate)
        self._encoding: ColumnEncoding | None = None
        self._arrow = pa.schema(
            [
                pa.field(COMMIT_TIME, SHARED_TEXT),
                pa.field(ROW_COLUMNS[1], pa.string()),
                pa.field(RECORD_KEY, pa.string()),
                *(pa.field(name, SHARED_TEXT) for name in _FILE_COLUMNS),
                *schema.columns,
            ]
        )
        self._time = pa.array([file.time])
        self._own = [pa.array([file.partition]), pa.array([file.name])]
        #: Footer of a file with the same columns and without rows.
        self.like: ParquetFooter = (
            ColumnEncoding([], "none").encode(self._arrow.empty_table()).footer
        )

    def __enter__(self) -> BaseFileWriter:
        file = self.file
        if not file.waits_in:
            mark(self._location, file.path, file.time, replaces=file.replaces)
        self._stack = ExitStack()
        self._stream = self._stack.enter_context(self._location.new_file(self.file.written_path))
        self._parquet = NewParquetFile(self._stream, self.like)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if error is None:
            with self._stack:
                self._finish()
            return
        self._stack.__exit__(kind, error, trace)

    @property
    def written_bytes(self) -> int:
        """Return the bytes written so far, without the rows of the next row group."""
        return int(self._stream.tell())

    @property
    def expected_bytes(self) -> int:
        """Return the approximate size of the file, without the footer and further rows."""
        written = self.written_bytes
        share = written / self._flushed_bytes if self._flushed_bytes else 0.5
        return written + round(self._waiting_bytes * share)

    @property
    def waiting_bytes(self) -> int:
        """Return the bytes of rows in memory that do not make a row group yet."""
        return self._waiting_bytes

    def result(self) -> FileSlice:
        """Return the slice that the writer wrote; call this after the `with` block."""
        group = GroupId(self.file.partition, self.file.file_id)
        return FileSlice(group, self.file.time, self.file.name, self._size)

    def share(self, names: Collection[str]) -> None:
        """Accept columns of text as dictionaries; call it before the first row is added.

        Columns that are added later may still be plain text.
        """
        self._arrow = pa.schema(
            [one.with_type(SHARED_TEXT) if one.name in names else one for one in self._arrow]
        )

    def keep_keys(self, said: Mapping[bytes, bytes], path: str, rows: int, more: int) -> None:
        """Start with the keys of the previous slice, if that is possible.

        Args:
            said: Verified entries of that slice's footer, which lookupstore wrote.
            path: Path of that slice's file, for errors.
            rows: Number of rows of that slice, all of which the new file has as well.
            more: Number of rows that are added to them.

        Raises:
            CorruptionError: If the entry for the filter is not a filter.
        """
        self._keys = KeyEntries.keep(said, path, self.format.error_rate, rows, more)

    @property
    def keeps_keys(self) -> bool:
        """Return whether the file has the keys of the previous slice from the start."""
        return self._keys.keeps

    def new_rows(self, places: npt.NDArray[np.int64]) -> list[pa.Array]:
        """Return the first two meta columns of rows that this commit writes.

        Args:
            places: Positions of the rows in the file.
        """
        start = pa.scalar(f"{self.file.time}_{self.file.task}_")
        texts = pa.array(places).cast(pa.string())
        numbers = pc.binary_join_element_wise(start, texts, "")
        return [_shared(self._time, len(places)), numbers]

    def add(self, columns: list[pa.Array], *, stored: bool = False) -> None:
        """Add rows.

        Args:
            columns: Three meta columns of the rows, then the data columns.
            stored: Whether the previous slice has these rows, so that their keys may be kept.
        """
        rows = len(columns[0])
        if rows == 0:
            return
        own = [_shared(text, rows) for text in self._own]
        fitted = [
            in_type(column, field.type)
            for column, field in zip([*columns[:3], *own, *columns[3:]], self._arrow, strict=True)
        ]
        batch = pa.RecordBatch.from_arrays(fitted, schema=self._arrow)
        # A single batch of wide rows may exceed a row group.
        step = max(1, rows * self.format.row_group_bytes // max(1, batch.nbytes))
        for start in range(0, rows, step):
            piece = batch.slice(start, step)
            if not (stored and self.keeps_keys):
                self._keys.add(piece.column(2))
            self._batches.append(piece)
            self._waiting_bytes += piece.nbytes
            self.rows += piece.num_rows
            if self._waiting_bytes >= self.format.row_group_bytes:
                self.flush()

    def flush(self) -> None:
        """Write the waiting rows as a row group."""
        if not self._batches:
            return
        table = pa.Table.from_batches(self._batches)
        self._batches.clear()
        self._flushed_bytes += self._waiting_bytes
        self._waiting_bytes = 0
        if self._encoding is None:
            self._encoding = ColumnEncoding.chosen(table, self.format.compression)
        for rows, chunks in self._encoding.encode(table).groups():
            self._parquet.append(rows, chunks)

    def add_group(self, rows: int, chunks: Iterable[EncodedChunk], keys: pa.Array | None) -> None:
        """Add an encoded row group after all rows added before.

        Args:
            rows: Number of rows of the row group.
            chunks: Encoded columns of the row group, in the order of the schema.
            keys: Record keys of the rows. None: the file has the keys of the previous slice.
        """
        self.flush()
        self._parquet.append(rows, chunks)
        if keys is not None:
            self._keys.add(keys)
        self.rows += rows

    def file_name(self, rows: int) -> pa.Array:
        """Return the meta column of rows that contains the name of their file."""
        return _shared(self._own[1], rows)

    def _finish(self) -> None:
        self.flush()
        self._parquet.finish(self._footer())
        self._size = self.written_bytes

    def _footer(self) -> dict[bytes, bytes]:
        entries = {
            _AVRO_KEY: self._schema.with_meta(META_COLUMNS).encode(),
            _MODEL_KEY: b"avro",
        }
        return entries | self._keys.entries(self.file.name, self._key_chunks())

    def _key_chunks(self) -> list[KeyChunk] | None:
        """Return the chunks of record keys. None: they have pages of other kinds."""
        chunks = [one for one in self._parquet.chunks if one[0].path == (RECORD_KEY,)]
        if not all(one.is_plain and one.has_no_null and one.has_known_codec for one, _ in chunks):
            return None
        return [
            KeyChunk(offset, one.nbytes, one.rows, one.plain_bytes, one.codec)
            for one, offset in chunks
        ]


def in_type(column: pa.Array, kind: pa.DataType) -> pa.Array:
    """Return a column of text as a dictionary, if the wanted type is a dictionary."""
    if pa.types.is_dictionary(kind) and not pa.types.is_dictionary(column.type):
        return column.dictionary_encode()
    return column


def _shared(text: pa.Array, rows: int) -> pa.DictionaryArray:
    """Return an array with one text in every row."""
    return pa.DictionaryArray.from_arrays(pa.array(np.zeros(rows, np.int32)), text)
