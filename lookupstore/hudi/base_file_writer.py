"""One new base file: meta columns, row groups, footer, and the name under which it appears.

Rows go through as Arrow batches. A row group is encoded when its rows are there, so that a file of
any size takes the memory of one row group, and of its keys, from which the filter is made.

Source: org.apache.hudi.io.HoodieWriteHandle, HoodieAvroParquetWriter,
org.apache.hudi.avro.HoodieBloomFilterWriteSupport.
"""

from __future__ import annotations

from collections.abc import Collection
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from types import TracebackType

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from lookupstore._arrow import BinaryColumn
from lookupstore.hudi._key_ranges import high_characters
from lookupstore.hudi.base_files import COMMIT_TIME, META_COLUMNS, RECORD_KEY
from lookupstore.hudi.bloom import DEFAULT_ERROR_RATE, BloomBuilder
from lookupstore.hudi.file_groups import FileSlice, GroupId, base_file_name
from lookupstore.hudi.key_ranges import GREATEST_KEY, LEAST_KEY
from lookupstore.hudi.slice_rows import SHARED_TEXT
from lookupstore.hudi.table_schema import TableSchema
from lookupstore.location import Location

_AVRO_KEY = b"parquet.avro.schema"
_MODEL_KEY = b"writer.model.name"

#: The meta columns that a row has before it is in a file: commit time, sequence number, key.
ROW_COLUMNS = META_COLUMNS[:3]
_FILE_COLUMNS = META_COLUMNS[3:]
_ROW_GROUP_ROWS = 1 << 20
# Rows by which a column shows whether its values repeat, and whether compressing it pays.
_SAMPLE_ROWS = 8192
# Compressing for speed costs more than reading and writing the bytes that it saves of a column that
# gets no smaller than this; fewer rows do not tell.
_FAST_CODECS = ("snappy", "lz4")
_WORTHWHILE = 2 / 3
_TELLING_ROWS = 1024
# Rows that are encoded at a time; with Arrow's own 1024, narrow rows take a fifth longer.
_ENCODED_ROWS = (1 << 10, 1 << 15)
_ENCODED_BYTES = 8 << 20


@dataclass(frozen=True)
class FileFormat:
    """Say how base files are encoded.

    Attributes:
        compression: of pages: `none`, `snappy`, `gzip`, `zstd` or `lz4`; `snappy` and `lz4` leave
            out columns that they would make less than a third smaller.
        row_group_bytes: of rows in memory that make a row group.
        error_rate: of the filter of keys.

    Raises:
        ValueError: a value is out of range.
    """

    compression: str = "snappy"
    row_group_bytes: int = 32 << 20
    error_rate: float = DEFAULT_ERROR_RATE

    def __post_init__(self) -> None:
        known = ("none", "snappy", "gzip", "zstd", "lz4")
        if self.compression not in known:
            raise ValueError(f"compression is {self.compression!r}; give one of {', '.join(known)}")
        if self.row_group_bytes < 1:
            raise ValueError(f"row_group_bytes is {self.row_group_bytes}; give at least 1")
        if not 0 < self.error_rate < 1:
            raise ValueError(f"error_rate is {self.error_rate}; give a number between 0 and 1")


@dataclass(frozen=True)
class NewFile:
    """Name a base file that is to be written.

    Attributes:
        partition: folder of it.
        file_id: of its group.
        task: number of the task that writes it, which is in its name and in its rows.
        time: of the instant.
        attempt: what tells attempts of one task apart, in its name: two integers, joined by `-`.
        waits_in: folder of the table in which it waits for its name; empty: it gets it at once.
    """

    partition: str
    file_id: str
    task: int
    time: str
    attempt: str = "0-0"
    waits_in: str = ""

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
    """Writes one base file, which appears when the block ends, whole, or not at all.

    Args:
        location: of the table.
        file: that is written.
        schema: of its rows.
        format: of its pages.
    """

    def __init__(
        self, location: Location, file: NewFile, schema: TableSchema, format: FileFormat
    ) -> None:
        self.file = file
        self._location = location
        self._schema = schema
        self._format = format
        #: Rows so far.
        self.rows = 0
        self._batches: list[pa.RecordBatch] = []
        self._waiting_bytes = self._flushed_bytes = 0
        self._size = 0
        self._keys: list[pa.Array] = []
        self._writer: pq.ParquetWriter | None = None
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

    def __enter__(self) -> BaseFileWriter:
        self._stack = ExitStack()
        self._stream = self._stack.enter_context(self._location.new_file(self.file.written_path))
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
        if self._writer is not None:
            with suppress(OSError, pa.ArrowException):  # there is no file to be finished
                self._writer.close()
        self._stack.__exit__(kind, error, trace)

    @property
    def written_bytes(self) -> int:
        """Return the bytes that are written so far, without the rows of the next row group."""
        return int(self._stream.tell())

    @property
    def expected_bytes(self) -> int:
        """Return the size of the file if no rows come any more, without the footer; about."""
        written = self.written_bytes
        share = written / self._flushed_bytes if self._flushed_bytes else 0.5
        return written + round(self._waiting_bytes * share)

    @property
    def waiting_bytes(self) -> int:
        """Return the bytes of rows in memory that wait for others to make a row group."""
        return self._waiting_bytes

    def result(self) -> FileSlice:
        """Return the slice that the file is, after the block."""
        group = GroupId(self.file.partition, self.file.file_id)
        return FileSlice(group, self.file.time, self.file.name, self._size)

    def share(self, names: Collection[str]) -> None:
        """Take columns of text as dictionaries, before the first row; others may still come."""
        self._arrow = pa.schema(
            [one.with_type(SHARED_TEXT) if one.name in names else one for one in self._arrow]
        )

    def new_rows(self, keys: pa.Array, first: int | npt.NDArray[np.int64]) -> list[pa.Array]:
        """Return the first three meta columns of rows that this commit brings.

        Args:
            keys: their record keys.
            first: place in the file of the first of them, or those of all.
        """
        places = np.arange(len(keys)) + first if isinstance(first, int) else first
        start = pa.scalar(f"{self.file.time}_{self.file.task}_")
        texts = pa.array(places).cast(pa.string())
        numbers = pc.binary_join_element_wise(start, texts, "")
        return [_shared(self._time, len(keys)), numbers, keys]

    def add(self, columns: list[pa.Array]) -> None:
        """Add rows.

        Args:
            columns: the three meta columns of a row, then the data columns.
        """
        rows = len(columns[0])
        if rows == 0:
            return
        own = [_shared(text, rows) for text in self._own]
        stored = [
            in_type(column, field.type)
            for column, field in zip([*columns[:3], *own, *columns[3:]], self._arrow, strict=True)
        ]
        batch = pa.RecordBatch.from_arrays(stored, schema=self._arrow)
        # Of wide rows even one batch may be more than a row group.
        step = max(1, rows * self._format.row_group_bytes // max(1, batch.nbytes))
        for start in range(0, rows, step):
            piece = batch.slice(start, step)
            self._keys.append(piece.column(2))
            self._batches.append(piece)
            self._waiting_bytes += piece.nbytes
            self.rows += piece.num_rows
            if self._waiting_bytes >= self._format.row_group_bytes:
                self.flush()

    def flush(self) -> None:
        """Write the waiting rows as a row group."""
        if not self._batches:
            return
        # Parquet keeps a dictionary as it is only if all rows of a column have the same.
        table = pa.Table.from_batches(self._batches).unify_dictionaries()
        self._batches.clear()
        self._flushed_bytes += self._waiting_bytes
        self._waiting_bytes = 0
        writer = self._writer or self._open(table.slice(0, _SAMPLE_ROWS))
        writer.write_table(table, row_group_size=_ROW_GROUP_ROWS)

    def _open(self, sample: pa.Table) -> pq.ParquetWriter:
        repeating = [COMMIT_TIME, *_FILE_COLUMNS]
        for field in self._schema.columns:
            if pa.types.is_nested(field.type):
                repeating += _leaves(field.name, field.type)
            elif _repeats(sample.column(field.name)):
                repeating.append(field.name)
        codec: str | dict[str, str] = self._format.compression
        if codec in _FAST_CODECS and len(sample) >= _TELLING_ROWS:
            codec = _codecs(sample, codec, repeating)
        least, most = _ENCODED_ROWS
        row_bytes = max(1, sample.nbytes // max(1, len(sample)))
        self._writer = pq.ParquetWriter(
            self._stream,
            self._arrow,
            compression=codec,
            use_dictionary=repeating,
            store_schema=False,
            write_batch_size=min(most, max(least, _ENCODED_BYTES // row_bytes)),
            write_page_checksum=True,
        )
        return self._writer

    def _finish(self) -> None:
        self.flush()
        writer = self._writer or self._open(self._arrow.empty_table())
        writer.add_key_value_metadata(self._footer())
        writer.close()
        self._size = self.written_bytes

    def _footer(self) -> dict[bytes, bytes]:
        entries = {
            _AVRO_KEY: self._schema.with_meta(META_COLUMNS).encode(),
            _MODEL_KEY: b"avro",
        }
        count = max(1, self.rows)
        error_rate = self._format.error_rate
        builder = BloomBuilder(count, error_rate=error_rate, most_entries=count)
        ends = []
        high = False
        for keys in self._keys:
            builder.add(keys)
            ends.append(pc.min_max(keys))
            high = high or bool(high_characters(BinaryColumn(keys)).any())
        # Java orders such keys in another way: by no range of ours would it find all of them.
        if ends and not high:
            entries[LEAST_KEY] = min(one["min"].as_py() for one in ends).encode()
            entries[GREATEST_KEY] = max(one["max"].as_py() for one in ends).encode()
        return entries | builder.finish().footer()


def in_type(column: pa.Array, kind: pa.DataType) -> pa.Array:
    """Return a column of text as a dictionary, if that is what the others are."""
    if pa.types.is_dictionary(kind) and not pa.types.is_dictionary(column.type):
        return column.dictionary_encode()
    return column


def _shared(text: pa.Array, rows: int) -> pa.DictionaryArray:
    """Return an array that has one text in every row."""
    return pa.DictionaryArray.from_arrays(pa.array(np.zeros(rows, np.int32)), text)


def _repeats(column: pa.ChunkedArray) -> bool:
    """Return whether a dictionary of a column's values is much smaller than the values."""
    if pa.types.is_boolean(column.type):
        return False
    return len(column) == 0 or len(column.unique()) <= len(column) // 2


def _codecs(sample: pa.Table, codec: str, repeating: list[str]) -> dict[str, str]:
    """Return the codec of each Parquet column: none for those that it hardly makes smaller."""
    encoded = pa.BufferOutputStream()
    pq.write_table(sample, encoded, compression=codec, use_dictionary=repeating, store_schema=False)
    group = pq.read_metadata(pa.BufferReader(encoded.getvalue())).row_group(0)
    columns = [group.column(at) for at in range(group.num_columns)]
    return {
        one.path_in_schema: codec
        if one.has_dictionary_page
        or one.total_compressed_size < _WORTHWHILE * one.total_uncompressed_size
        else "none"
        for one in columns
    }


def _leaves(path: str, kind: pa.DataType) -> list[str]:
    """Return the paths of the Parquet columns that a nested column is made of."""
    if pa.types.is_struct(kind):
        return [leaf for field in kind for leaf in _leaves(f"{path}.{field.name}", field.type)]
    if pa.types.is_map(kind):
        inner = f"{path}.key_value"
        return [f"{inner}.key", *_leaves(f"{inner}.value", kind.item_type)]
    if pa.types.is_list(kind):
        return _leaves(f"{path}.list.element", kind.value_type)
    return [path]
