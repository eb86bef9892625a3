"""The encoding of columns of base files by Arrow: dictionaries and compression, where they pay.

Whole row groups are encoded in memory, and then become part of a file.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.parquet as pq

from lookupstore.hudi.file_group.bloom import DEFAULT_ERROR_RATE
from lookupstore.hudi.meta_columns import COMMIT_TIME, META_COLUMNS
from lookupstore.parquet.new_file import EncodedFile
from lookupstore.quantities import bytes_of

#: Maximum number of rows of a row group.
MOST_GROUP_ROWS = 1 << 20
# Number of rows that show whether the values of a column repeat, and whether compressing it pays.
_SAMPLE_ROWS = 8192
# Codecs that compress for speed. They cost more than reading and writing the saved bytes if a
# column does not become smaller than _WORTHWHILE of its size; fewer than _TELLING_ROWS rows do not
# show this.
_FAST_CODECS = ("snappy", "lz4")
_WORTHWHILE = 2 / 3
_TELLING_ROWS = 1024
# Minimum and maximum number of rows to encode at a time; with Arrow's default of 1024, narrow rows
# take a fifth longer.
_ENCODED_ROWS = (1 << 10, 1 << 15)
_ENCODED_BYTES = 8 << 20
# Additional bytes, for the footer and for the little by which rows are larger when encoded.
_MORE_BYTES = 256 << 10


@dataclass(frozen=True)
class FileFormat:
    """The encoding of base files.

    Attributes:
        compression: Codec of pages: `none`, `snappy`, `gzip`, `zstd` or `lz4`. With `snappy` and
            `lz4`, columns without a dictionary are not compressed if they would become less than a
            third smaller.
        row_group_bytes: Size in memory of the rows that make a row group, in bytes; also a text
            such as `"64MiB"`.
        error_rate: Rate of false positives of the filter of keys.

    Raises:
        ValueError: If a value is out of range.
    """

    compression: str = "snappy"
    row_group_bytes: int = 32 << 20
    error_rate: float = DEFAULT_ERROR_RATE

    def __post_init__(self) -> None:
        known = ("none", "snappy", "gzip", "zstd", "lz4")
        if self.compression not in known:
            raise ValueError(f"compression is {self.compression!r}; give one of {', '.join(known)}")
        if isinstance(given := self.row_group_bytes, str):
            object.__setattr__(self, "row_group_bytes", bytes_of(given, "row_group_bytes"))
        if self.row_group_bytes < 1:
            raise ValueError(f"row_group_bytes is {self.row_group_bytes}; give at least 1")
        if not 0 < self.error_rate < 1:
            raise ValueError(f"error_rate is {self.error_rate}; give a number between 0 and 1")


@dataclass(frozen=True)
class ColumnEncoding:
    """The encoding of columns by Arrow.

    Attributes:
        repeating: Paths of the Parquet columns that get a dictionary.
        codecs: Codec of all columns, or of each column by its path.
    """

    repeating: Sequence[str]
    codecs: str | dict[str, str]

    @classmethod
    def chosen(cls, rows: pa.Table, codec: str) -> ColumnEncoding:
        """Choose the encoding of a base file from its first rows."""
        sample = rows.slice(0, _SAMPLE_ROWS)
        repeating = [COMMIT_TIME, *META_COLUMNS[3:]]
        for field in list(sample.schema)[len(META_COLUMNS) :]:
            if pa.types.is_nested(field.type):
                repeating += _leaves(field.name, field.type)
            elif _repeats(sample.column(field.name)):
                repeating.append(field.name)
        if codec not in _FAST_CODECS or len(sample) < _TELLING_ROWS:
            return cls(repeating, codec)
        return cls(repeating, _codecs(sample, codec, repeating))

    def encode(self, rows: pa.Table) -> EncodedFile:
        """Encode rows as row groups."""
        # A growing stream copies its content repeatedly. Few rows become larger when they are
        # encoded.
        memory = pa.allocate_buffer(rows.nbytes + rows.nbytes // 4 + _MORE_BYTES)
        try:
            with pa.FixedSizeBufferWriter(memory) as stream:
                self._encode(rows, stream)
                return EncodedFile(memory.slice(0, stream.tell()))
        except OSError:
            growing = pa.BufferOutputStream()
            self._encode(rows, growing)
            return EncodedFile(growing.getvalue())

    def _encode(self, rows: pa.Table, stream: pa.NativeFile) -> None:
        least, most = _ENCODED_ROWS
        row_bytes = max(1, rows.nbytes // max(1, len(rows)))
        with pq.ParquetWriter(
            stream,
            rows.schema,
            compression=self.codecs,
            use_dictionary=list(self.repeating),
            store_schema=False,
            write_batch_size=min(most, max(least, _ENCODED_BYTES // row_bytes)),
            write_page_checksum=True,
        ) as writer:
            if len(rows):
                # Parquet keeps a dictionary only if all rows of a column have the same one.
                writer.write_table(rows.unify_dictionaries(), row_group_size=MOST_GROUP_ROWS)


def _repeats(column: pa.ChunkedArray) -> bool:
    """Return whether a dictionary of a column's values is much smaller than the values."""
    if pa.types.is_boolean(column.type):
        return False
    return len(column) == 0 or len(column.unique()) <= len(column) // 2


def _codecs(sample: pa.Table, codec: str, repeating: list[str]) -> dict[str, str]:
    """Return the codec of each Parquet column: none if compression hardly makes it smaller."""
    group = ColumnEncoding(repeating, codec).encode(sample).footer.groups[0]
    return {
        ".".join(one.path): codec
        if one.has_dictionary or one.nbytes < _WORTHWHILE * one.plain_bytes
        else "none"
        for one in group.columns
    }


def _leaves(path: str, kind: pa.DataType) -> list[str]:
    """Return the paths of the Parquet columns of a nested column."""
    if pa.types.is_struct(kind):
        return [leaf for field in kind for leaf in _leaves(f"{path}.{field.name}", field.type)]
    if pa.types.is_map(kind):
        inner = f"{path}.key_value"
        return [f"{inner}.key", *_leaves(f"{inner}.value", kind.item_type)]
    if pa.types.is_list(kind):
        return _leaves(f"{path}.list.element", kind.value_type)
    return [path]
