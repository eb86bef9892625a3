"""How Arrow encodes the columns of base files: dictionaries for what repeats, codecs that pay.

Row groups are encoded in memory, whole, and then become part of a file.
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

#: Rows of a row group, at most.
MOST_GROUP_ROWS = 1 << 20
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
# For the footer, and for what little rows are larger encoded.
_MORE_BYTES = 256 << 10


@dataclass(frozen=True)
class FileFormat:
    """How base files are encoded.

    Attributes:
        compression: of pages: `none`, `snappy`, `gzip`, `zstd` or `lz4`; `snappy` and `lz4` leave
            out columns that they would make less than a third smaller.
        row_group_bytes: of rows in memory that make a row group; also a text such as `"64MiB"`.
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
        if isinstance(given := self.row_group_bytes, str):
            object.__setattr__(self, "row_group_bytes", bytes_of(given, "row_group_bytes"))
        if self.row_group_bytes < 1:
            raise ValueError(f"row_group_bytes is {self.row_group_bytes}; give at least 1")
        if not 0 < self.error_rate < 1:
            raise ValueError(f"error_rate is {self.error_rate}; give a number between 0 and 1")


@dataclass(frozen=True)
class ColumnEncoding:
    """How Arrow encodes columns.

    Attributes:
        repeating: paths of the Parquet columns that get a dictionary.
        codecs: of all columns, or of each by its path.
    """

    repeating: Sequence[str]
    codecs: str | dict[str, str]

    @classmethod
    def chosen(cls, rows: pa.Table, codec: str) -> ColumnEncoding:
        """Choose how to encode a base file whose first rows are known."""
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
        # A stream that grows copies what it has, again and again. Few rows are larger encoded.
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
                # Parquet keeps a dictionary as it is only if all rows of a column have the same.
                writer.write_table(rows.unify_dictionaries(), row_group_size=MOST_GROUP_ROWS)


def _repeats(column: pa.ChunkedArray) -> bool:
    """Return whether a dictionary of a column's values is much smaller than the values."""
    if pa.types.is_boolean(column.type):
        return False
    return len(column) == 0 or len(column.unique()) <= len(column) // 2


def _codecs(sample: pa.Table, codec: str, repeating: list[str]) -> dict[str, str]:
    """Return the codec of each Parquet column: none for those that it hardly makes smaller."""
    group = ColumnEncoding(repeating, codec).encode(sample).footer.groups[0]
    return {
        ".".join(one.path): codec
        if one.has_dictionary or one.nbytes < _WORTHWHILE * one.plain_bytes
        else "none"
        for one in group.columns
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
