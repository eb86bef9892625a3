"""Read and write Parquet footers: schema, row groups, column chunks and metadata.

Source: parquet-format, parquet.thrift (FileMetaData, RowGroup, ColumnChunk, ColumnMetaData).
"""

from __future__ import annotations

import re
from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple, overload

from lookupstore.errors import CorruptionError, FormatError
from lookupstore.parquet._row_groups import RowGroupsError, checked_groups
from lookupstore.parquet.structs import (
    BINARY,
    BOOL,
    I16,
    I32,
    I64,
    LIST,
    STRUCT,
    Struct,
    get,
    items,
    read_struct_around,
    struct_at,
    write_struct,
)

MAGIC = b"PAR1"
_ENCRYPTED_MAGIC = b"PARE"
_TAIL = 8

# Fields of FileMetaData.
_SCHEMA, _ROWS, _GROUPS, _ENTRIES, _CREATED_BY, _ORDERS = 2, 3, 4, 5, 6, 7
# Field of ColumnOrder: values have the order of their type.
_OF_TYPE = 1
# Fields of SchemaElement, and the repetitions other than one value per row.
_KIND, _WIDTH, _REPETITION, _NAME, _CHILDREN = 1, 2, 3, 4, 5
_OPTIONAL, _REPEATED = 1, 2
# Fields of RowGroup.
_COLUMNS, _GROUP_BYTES, _GROUP_ROWS, _GROUP_OFFSET, _GROUP_STORED, _ORDINAL = 1, 2, 3, 5, 6, 7
# Fields of ColumnChunk.
_CHUNK_OFFSET, _COLUMN = 2, 3
# Fields of ColumnMetaData.
_TYPE, _ENCODINGS, _PATH, _CODEC, _VALUES, _BYTES, _STORED = range(1, 8)
_DATA_OFFSET, _DICTIONARY_OFFSET, _STATISTICS, _ENCODING_STATS = 9, 11, 12, 13
# Offsets of other data in the old file, and sizes of values, which readers can do without: indexes
# of pages, a filter of Parquet's own, SizeStatistics.
_INDEX_OFFSET, _FILTER_OFFSET, _FILTER_BYTES, _SIZE_STATISTICS = 10, 14, 15, 16
# Fields of Statistics: bounds for old readers, number of nulls, bounds, whether these are exact.
_OLD_GREATEST, _OLD_LEAST, _NULLS, _GREATEST, _LEAST, _EXACT = 1, 2, 3, 5, 6, (7, 8)
# Bytes of a value by its type; those of a fixed-length type are in the schema, texts have any.
_WIDTHS, _FIXED = {0: 1, 1: 4, 2: 8, 3: 12, 4: 4, 5: 8}, 7
# Old writers left the header of the dictionary out of the size of a chunk: Arrow reads more.
_BEFORE_SIZES_ARE_WHOLE, _FORGOTTEN = (1, 2, 9), 100
_OLD_WRITER = re.compile(r"parquet-mr version (\d+)\.(\d+)\.(\d+)")
_BOUNDS = (_OLD_GREATEST, _OLD_LEAST, _GREATEST, _LEAST)
# Type of a data page, and encoding of PLAIN values in it.
_DATA_PAGE, _PLAIN = 0, 0

#: Arrow's names of the codecs of pages, by their numbers.
CODECS: dict[int, str | None] = {
    0: None,
    1: "snappy",
    2: "gzip",
    4: "brotli",
    6: "zstd",
    7: "lz4_raw",
}
_DECRYPT = "decrypt it, or read it with pyarrow and its keys, and give the table"
# Reasons for refusing files that are not damaged, by the fault of their row groups.
_REFUSED = {
    "encrypted": f"columns of the file are encrypted; {_DECRYPT}",
    "elsewhere": "a summary of other Parquet files, which has no rows of its own; give those files",
}
# Expected and found contents in errors, by the fault of row groups.
_FAULTS = {
    "bytes": ("a Thrift struct", "other bytes in row groups"),
    "lacks": ("the footer of a Parquet file", "a column chunk without an offset, or a column"),
    "others": ("column chunks as the schema has them", "others"),
}
# Largest bound in statistics, in bytes; Arrow leaves out longer bounds, too.
_MOST_STATISTICS = 4096


class Bounds(NamedTuple):
    """The statistics of the values of a column chunk, in fields with a defined order.

    Attributes:
        least: Lower bound of the values, PLAIN without length. None: unknown.
        greatest: Upper bound of the values, PLAIN without length. None: unknown.
        nulls: Number of nulls. None: unknown.
        least_is_exact: Whether a value equals `least`.
        greatest_is_exact: Whether a value equals `greatest`.
    """

    least: bytes | None
    greatest: bytes | None
    nulls: int | None
    least_is_exact: bool
    greatest_is_exact: bool


@dataclass(frozen=True, eq=False)
class ColumnChunk:
    """The description of a column chunk in a footer.

    Attributes:
        meta: Struct ColumnMetaData of the chunk.
    """

    meta: Struct

    @property
    def path(self) -> tuple[str, ...]:
        """Return the names from the outermost column down to the values."""
        return tuple(
            one.decode("utf-8", "surrogateescape") for one in items(self.meta, _PATH, BINARY)
        )

    @property
    def name(self) -> bytes:
        """Return the innermost name of `path`, as it is stored."""
        return bytes(items(self.meta, _PATH, BINARY)[-1])

    @property
    def kind(self) -> int | None:
        """Return the physical type, as Parquet numbers them."""
        found: int | None = get(self.meta, _TYPE, I32)
        return found

    @property
    def has_known_codec(self) -> bool:
        """Return whether pages are not compressed, or by a codec that Arrow supports."""
        return get(self.meta, _CODEC, I32) in CODECS

    @property
    def codec(self) -> str | None:
        """Return the codec of the pages by Arrow's name.

        None: no compression.
        """
        return CODECS[get(self.meta, _CODEC, I32)]

    @property
    def rows(self) -> int:
        """Return the number of values, nulls included."""
        return int(get(self.meta, _VALUES, I64))

    @property
    def has_dictionary(self) -> bool:
        """Return whether some or all values are in a dictionary."""
        return bool(get(self.meta, _DICTIONARY_OFFSET, I64))

    @property
    def offset(self) -> int:
        """Return the offset of the chunk in the file."""
        data = int(get(self.meta, _DATA_OFFSET, I64))
        # Some writers give an offset that is not before the data: Arrow reads without it, too. For
        # a chunk without rows, Arrow gives only the offset of the dictionary.
        dictionary = int(get(self.meta, _DICTIONARY_OFFSET, I64) or 0)
        return data if dictionary == 0 or 0 < data <= dictionary else dictionary

    @property
    def data_offset(self) -> int:
        """Return the offset in the file of the first page after the dictionary."""
        return max(self.offset, int(get(self.meta, _DATA_OFFSET, I64)))

    @property
    def nbytes(self) -> int:
        """Return the size of the chunk in the file, in bytes."""
        return int(get(self.meta, _STORED, I64))

    @property
    def plain_bytes(self) -> int:
        """Return the size of the chunk before compression, in bytes."""
        return int(get(self.meta, _BYTES, I64))

    @property
    def is_plain(self) -> bool:
        """Return whether all pages are PLAIN data pages of the first version."""
        pages = items(self.meta, _ENCODING_STATS, STRUCT)
        return bool(pages) and all(
            (get(one, 1, I32), get(one, 2, I32)) == (_DATA_PAGE, _PLAIN) for one in pages
        )

    @property
    def has_no_null(self) -> bool:
        """Return whether the statistics exclude nulls."""
        return bool(get(get(self.meta, _STATISTICS, STRUCT) or {}, _NULLS, I64) == 0)

    @property
    def bounds(self) -> Bounds:
        """Return the statistics of the values, without the fields for old readers."""
        said: Struct = get(self.meta, _STATISTICS, STRUCT) or {}
        greatest_is_exact, least_is_exact = (get(said, one, BOOL) is True for one in _EXACT)
        return Bounds(
            get(said, _LEAST, BINARY),
            get(said, _GREATEST, BINARY),
            get(said, _NULLS, I64),
            least_is_exact,
            greatest_is_exact,
        )

    def has_bounds_of(self, width: int) -> bool:
        """Return whether every bound, new or old, has at least the bytes of a value."""
        said: Struct = get(self.meta, _STATISTICS, STRUCT) or {}
        return all(len(get(said, one, BINARY) or b"") >= width for one in _BOUNDS if one in said)

    def moved(self, offset: int) -> Struct:
        """Return the struct ColumnChunk for a chunk of the same size at another offset."""
        meta = dict(self.meta)
        by = offset - self.offset
        for field in (_DATA_OFFSET, _DICTIONARY_OFFSET):
            if field in meta:
                meta[field] = I64, meta[field][1] + by
        for field in (_INDEX_OFFSET, _FILTER_OFFSET, _FILTER_BYTES):
            meta.pop(field, None)
        return {_CHUNK_OFFSET: (I64, 0), _COLUMN: (STRUCT, meta)}

    def of_pages(self, rows: int, stored: int, plain: int) -> Struct:
        """Return the struct ColumnChunk for some of the pages, with the dictionary, in a new file.

        Args:
            rows: Number of values of the pages, nulls included.
            stored: Size of the dictionary and the pages, which follow the magic of the file.
            plain: Size of these before compression.
        """
        start, dictionary = len(MAGIC), self.data_offset - self.offset
        kept = (_TYPE, _ENCODINGS, _PATH, _CODEC)
        meta = {one: self.meta[one] for one in kept if one in self.meta}
        meta |= {_VALUES: (I64, rows), _BYTES: (I64, plain), _STORED: (I64, stored)}
        meta[_DATA_OFFSET] = I64, start + dictionary
        if dictionary:
            meta[_DICTIONARY_OFFSET] = I64, start
        return {_CHUNK_OFFSET: (I64, 0), _COLUMN: (STRUCT, meta)}

    def with_values(
        self, stored: int, plain: int, least: bytes | None, greatest: bytes | None
    ) -> ColumnChunk:
        """Return the description of as many other values, without nulls, in as many pages.

        Args:
            stored: Size of the chunk in a file, in bytes.
            plain: Size of the chunk before compression, in bytes.
            least: Lower bound of the values, PLAIN without length. None: no bound.
            greatest: Upper bound of the values, PLAIN without length. None: no bound.
        """
        statistics: Struct = {_NULLS: (I64, 0)}
        before = get(self.meta, _STATISTICS, STRUCT) or {}
        if (
            least is not None
            and greatest is not None
            and max(len(least), len(greatest)) <= _MOST_STATISTICS
        ):
            statistics[_LEAST], statistics[_GREATEST] = (BINARY, least), (BINARY, greatest)
            if _OLD_LEAST in before:
                statistics[_OLD_LEAST], statistics[_OLD_GREATEST] = (
                    statistics[_LEAST],
                    statistics[_GREATEST],
                )
            statistics.update((one, (BOOL, True)) for one in _EXACT if one in before)
        meta = dict(self.meta)
        meta.pop(_SIZE_STATISTICS, None)
        meta[_STATISTICS] = STRUCT, statistics
        meta[_STORED] = I64, stored
        meta[_BYTES] = I64, plain
        return ColumnChunk(meta)


class ColumnChunks(Sequence[ColumnChunk]):
    """The column chunks of a row group, each decoded when it is first used.

    Args:
        footer: Bytes of the struct FileMetaData.
        places: Offset in the footer of the struct ColumnMetaData of each chunk.
    """

    def __init__(self, footer: bytes, places: array[int]) -> None:
        self._footer = footer
        self._places = places
        self._decoded: dict[int, ColumnChunk] = {}

    def __len__(self) -> int:
        return len(self._places)

    @overload
    def __getitem__(self, at: int) -> ColumnChunk: ...

    @overload
    def __getitem__(self, at: slice) -> list[ColumnChunk]: ...

    def __getitem__(self, at: int | slice) -> ColumnChunk | list[ColumnChunk]:
        if isinstance(at, slice):
            return [self[one] for one in range(*at.indices(len(self)))]
        number = range(len(self))[at]
        chunk = self._decoded.get(number)
        if chunk is None:
            chunk = ColumnChunk(struct_at(self._footer, self._places[number]))
            self._decoded[number] = chunk
        return chunk


@dataclass(frozen=True, eq=False)
class RowGroup:
    """The description of a row group in a footer.

    Attributes:
        rows: Number of rows.
        columns: Column chunks, in the order of the schema.
        nbytes: Size of the chunks in the file, in bytes.
        plain_bytes: Size of the chunks before compression, in bytes.
    """

    rows: int
    columns: ColumnChunks
    nbytes: int
    plain_bytes: int


class Leaf(NamedTuple):
    """The description of a Parquet column in a schema.

    Attributes:
        name: Name of the column, as it is stored.
        column: Name of the outermost column that contains it, as it is stored.
        kind: Physical type, by its number in Parquet.
        width: Size of a value in bytes, 0 if values differ in size.
        definition: Greatest definition level.
        repetition: Greatest repetition level.
    """

    name: bytes
    column: bytes
    kind: int | None
    width: int
    definition: int
    repetition: int


@dataclass(frozen=True, eq=False)
class ParquetFooter:
    """The footer of a file.

    Attributes:
        meta: Struct FileMetaData, without row groups and entries.
        groups: Row groups.
        entries: Key-value metadata.
    """

    meta: Struct
    groups: list[RowGroup]
    entries: dict[bytes, bytes]

    @property
    def created_by(self) -> str:
        """Return the name and version of the program that wrote the file."""
        return (get(self.meta, _CREATED_BY, BINARY) or b"").decode("utf-8", "replace")

    @property
    def forgotten_bytes(self) -> int:
        """Return the number of bytes by which a chunk may exceed its size in the footer.

        Source: PARQUET-816; Arrow, parquet/file_reader.cc (kMaxDictHeaderSize).
        """
        found = _OLD_WRITER.match(self.created_by)
        is_old = found and tuple(map(int, found.groups())) < _BEFORE_SIZES_ARE_WHOLE
        return _FORGOTTEN if is_old else 0

    @property
    def columns(self) -> list[Struct]:
        """Return the schema: SchemaElement after SchemaElement, without the root."""
        return items(self.meta, _SCHEMA, STRUCT)[1:]

    @cached_property
    def leaves(self) -> list[Leaf]:
        """Return the Parquet columns, in the order of chunks."""
        leaves = []
        above = [(0, 0, 0)]  # elements to come, and levels, of the groups of the next one
        column = b""
        for one in self.columns:
            while len(above) > 1 and above[-1][0] == 0:
                above.pop()
            if len(above) == 1:
                column = get(one, _NAME, BINARY) or b""
            left, definition, repetition = above[-1]
            above[-1] = left - 1, definition, repetition
            how = get(one, _REPETITION, I32)
            definition += how in (_OPTIONAL, _REPEATED)
            repetition += how == _REPEATED
            children, kind = get(one, _CHILDREN, I32) or 0, get(one, _KIND, I32)
            if children:
                above.append((children, definition, repetition))
            elif kind is not None:  # an element without a type is a group, even an empty one
                name = get(one, _NAME, BINARY) or b""
                width = (get(one, _WIDTH, I32) or 0) if kind == _FIXED else _WIDTHS.get(kind, 0)
                leaves.append(Leaf(name, column, kind, width, definition, repetition))
        return leaves

    @cached_property
    def flat(self) -> dict[str, tuple[int, Struct]]:
        """Return the columns that are not nested and of which each row has one value or a null.

        Each is the number of its chunks and its SchemaElement, by its name. Columns of equal names
        are left out.
        """
        found: dict[str, tuple[int, Struct]] = {}
        several = set()
        leaf = inner = 0
        for one in self.columns:
            children = get(one, _CHILDREN, I32) or 0
            is_leaf = not children and get(one, _KIND, I32) is not None
            if not inner:
                name = (get(one, _NAME, BINARY) or b"").decode("utf-8", "surrogateescape")
                if name in found or not is_leaf or get(one, _REPETITION, I32) == _REPEATED:
                    several.add(name)
                else:
                    found[name] = leaf, one
            inner = max(0, inner - 1) + children
            leaf += is_leaf
        return {name: one for name, one in found.items() if name not in several}

    def of_column(self, element: Struct) -> ParquetFooter:
        """Return the footer of a file with one of the columns, without row groups and entries.

        Args:
            element: SchemaElement of the column.
        """
        root = {**items(self.meta, _SCHEMA, STRUCT)[0], _CHILDREN: (I32, 1)}
        meta = {one: value for one, value in self.meta.items() if one != _ORDERS}
        meta[_SCHEMA] = LIST, (STRUCT, [root, element])
        return ParquetFooter(meta, [], {})

    def has_order(self, leaf: int) -> bool:
        """Return whether bounds of a Parquet column are in the order of its type.

        Args:
            leaf: Number of the column, in the order of chunks.
        """
        orders = items(self.meta, _ORDERS, STRUCT)
        return leaf < len(orders) and _OF_TYPE in orders[leaf]

    @cached_property
    def nullable(self) -> frozenset[str]:
        """Return the names of the columns, not nested, that may have nulls."""
        found = set()
        inner = 0  # elements to come that are below earlier ones
        for one in self.columns:
            children = get(one, _CHILDREN, I32) or 0
            if not inner and not children and get(one, _REPETITION, I32) == _OPTIONAL:
                name = get(one, _NAME, BINARY) or b""
                found.add(name.decode("utf-8", "surrogateescape"))
            inner = max(0, inner - 1) + children
        return frozenset(found)


def read_footer(stream: Any, path: str) -> ParquetFooter:
    """Read the footer of a file.

    Args:
        stream: Open file, with the methods `size()` and `read_at(nbytes, offset)`.
        path: Path of the file, which errors name.

    Raises:
        CorruptionError: If there is no footer, or it refers to bytes outside the file.
        FormatError: If the file is encrypted, or has columns in other files.
    """
    size = int(stream.size())
    tail = stream.read_at(_TAIL, size - _TAIL) if size >= _TAIL else b""
    check_not_encrypted(tail, path)
    nbytes = int.from_bytes(tail[:4], "little")
    if tail[4:] != MAGIC or nbytes > size - _TAIL - len(MAGIC):
        found = tail or f"a file of {size} bytes"
        raise CorruptionError(path, max(0, size - _TAIL), "the end of a Parquet file", found)
    start = size - _TAIL - nbytes
    return _footer(stream.read_at(nbytes, start), path, start, start)


def check_not_encrypted(tail: bytes, path: str) -> None:
    """Raise FormatError if the end of a file is that of an encrypted footer.

    Source: parquet-format, Encryption.md.
    """
    if tail.endswith(_ENCRYPTED_MAGIC):
        raise FormatError(f"{path}: the file is encrypted; {_DECRYPT}")


def footer_of(data: bytes, path: str, offset: int) -> ParquetFooter:
    """Return the footer in some bytes, without a check of the places of chunks."""
    return _footer(data, path, offset, -1)


def _footer(data: bytes, path: str, offset: int, end: int) -> ParquetFooter:
    """Return the footer in some bytes.

    Args:
        data: Bytes of the footer.
        path: Path of the file, which errors name.
        offset: Offset of the footer in the file, which errors name.
        end: Offset in the file before which column chunks must end. Less than 0: not checked.
    """
    meta = read_struct_around(data, _GROUPS, path, offset)
    entries = {
        get(one, 1, BINARY) or b"": get(one, 2, BINARY) or b""
        for one in items(meta, _ENTRIES, STRUCT)
    }
    kind, start = meta.pop(_GROUPS, (LIST, None))
    meta.pop(_ENTRIES, None)
    groups: list[RowGroup] = []
    footer = ParquetFooter(meta, groups, entries)
    if start is None:
        return footer
    # In some cases Arrow ends the process if chunks do not match the schema, or allocates memory
    # for rows that do not exist.
    #
    # Source: Arrow, parquet/metadata.cc (ColumnChunkMetaDataImpl), parquet/size_statistics.cc
    # (SizeStatistics::Validate), parquet/statistics.cc (TypedStatisticsImpl::PlainDecode).
    try:
        found, places = checked_groups(data, start, kind, footer.leaves, len(MAGIC), end)
    except RowGroupsError as error:
        if error.fault == "outside":
            chunk = struct_at(data, error.place)
            raise CorruptionError(path, offset, "a chunk in the file", chunk) from None
        if error.fault in _REFUSED:
            raise FormatError(f"{path}: {_REFUSED[error.fault]}") from None
        raise CorruptionError(path, offset, *_FAULTS[error.fault]) from None
    count = len(footer.leaves)
    for number, (rows, stored, plain) in enumerate(found):
        columns = ColumnChunks(data, places[number * count : (number + 1) * count])
        groups.append(RowGroup(rows, columns, stored, plain))
    return footer


def footer_bytes(
    like: ParquetFooter, groups: list[tuple[int, list[Struct]]], entries: Mapping[bytes, bytes]
) -> bytearray:
    """Return the bytes of the end of a file: the footer, its size and the magic.

    Args:
        like: Footer with the schema and version to write.
        groups: Number of rows and ColumnChunk structs of each row group.
        entries: Key-value metadata.
    """
    meta = dict(like.meta)
    meta[_ROWS] = I64, sum(rows for rows, _ in groups)
    structs = [_group(number, rows, chunks) for number, (rows, chunks) in enumerate(groups)]
    meta[_GROUPS] = LIST, (STRUCT, structs)
    pairs = [{1: (BINARY, key), 2: (BINARY, value)} for key, value in entries.items()]
    meta[_ENTRIES] = LIST, (STRUCT, pairs)
    data = write_struct(meta)
    data += len(data).to_bytes(4, "little") + MAGIC
    return data


def _group(number: int, rows: int, chunks: list[Struct]) -> Struct:
    held = [ColumnChunk(get(one, _COLUMN, STRUCT)) for one in chunks]
    return {
        _COLUMNS: (LIST, (STRUCT, chunks)),
        _GROUP_BYTES: (I64, sum(one.plain_bytes for one in held)),
        _GROUP_ROWS: (I64, rows),
        _GROUP_OFFSET: (I64, held[0].offset),
        _GROUP_STORED: (I64, sum(one.nbytes for one in held)),
        _ORDINAL: (I16, number),
    }
