"""Read chosen rows of columns of a Parquet file, of which only the pages with these rows are read.

The offset index of a column chunk has the place and the first row of each page. Pages with chosen
rows, and the dictionary, become a small file in memory, which Arrow reads. A chunk whose index is
missing or does not agree with the pages is read whole.

Source: parquet-format, PageIndex.md; parquet.thrift (ColumnChunk, OffsetIndex, PageHeader).
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lookupstore.arrow.taking import take
from lookupstore.errors import CorruptionError
from lookupstore.parquet.arrow_file import ParquetRows
from lookupstore.parquet.claims import SMALL, Claims, look_at_claims
from lookupstore.parquet.ending import ParquetEnding
from lookupstore.parquet.footer import MAGIC, ColumnChunk, ParquetFooter, footer_bytes
from lookupstore.parquet.structs import I32, I64, STRUCT, Struct, get, items, struct_at

# Most bytes of pages that are in memory at once, of a footer with indexes, and of an index: Python
# objects of them take many times as much.
_MOST_BYTES = 64 << 20
_MOST_FOOTER = 1 << 20
_MOST_INDEX = 1 << 20
_BATCH_ROWS = 1 << 16
# Fields of FileMetaData, RowGroup and ColumnChunk.
_GROUPS, _COLUMNS, _INDEX_OFFSET, _INDEX_BYTES = 4, 1, 4, 5
# Fields of PageLocation, and of PageHeader: its sizes, and the headers of data pages of both
# versions, whose first field is the number of values.
_OFFSET, _SIZE, _FIRST = 1, 2, 3
_PLAIN, _STORED, _DATA, _DATA_2 = 2, 3, 5, 8
_ARROW = b"ARROW:schema"

#: Rows of a row group, from 0, ascending, each once.
Rows: TypeAlias = "npt.NDArray[np.int64]"
#: Offset and size of some bytes of a file.
Range: TypeAlias = "tuple[int, int]"
#: Function that returns ranges of bytes of a file.
ReadRanges: TypeAlias = Callable[[Sequence[Range]], list[bytes]]


class _Page(NamedTuple):
    """A page of a chunk: its place, its first row and the number of its rows."""

    offset: int
    nbytes: int
    first: int
    rows: int


@dataclass(frozen=True)
class _Column:
    """A column that is read.

    Attributes:
        name: Name of the column in the file.
        leaf: Number of its chunks.
        footer: Footer of a file that has this column alone.
        entries: Key-value metadata of such a file.
    """

    name: str
    leaf: int
    footer: ParquetFooter
    entries: Mapping[bytes, bytes]


@dataclass(frozen=True)
class _Part:
    """The bytes of a chunk that are read for some of its rows.

    Attributes:
        column: The column.
        chunk: The chunk.
        pages: Pages to read. Empty: the whole chunk.
        rows: Rows of the row group.
        count: Number of rows of the row group.
    """

    column: _Column
    chunk: ColumnChunk
    pages: tuple[_Page, ...]
    rows: Rows
    count: int

    @property
    def ranges(self) -> list[Range]:
        """Return the ranges to read: the dictionary and the pages, or the chunk."""
        chunk = self.chunk
        if not self.pages:
            return [(chunk.offset, chunk.nbytes)]
        dictionary = chunk.offset, chunk.data_offset - chunk.offset
        return [dictionary, *((one.offset, one.nbytes) for one in self.pages)]

    @property
    def nbytes(self) -> int:
        """Return the number of bytes to read."""
        return sum(size for _, size in self.ranges)

    @property
    def whole(self) -> _Part:
        """Return the part that is the whole chunk."""
        return _Part(self.column, self.chunk, (), self.rows, self.count)

    def file(self, found: Sequence[bytes]) -> tuple[bytes, int, Rows] | None:
        """Return a Parquet file of the bytes, with the number of its rows, and the rows in it.

        None: The pages are others than their index says.

        Args:
            found: Bytes of `ranges`.
        """
        chunk, rows, count, plain = self.chunk, self.rows, self.count, self.chunk.plain_bytes
        if self.pages:
            counts = [one.rows for one in self.pages]
            count, plain = sum(counts), len(found[0])
            for page, data in zip(self.pages, found[1:], strict=True):
                size = _plain_size(page, data)
                if size is None:
                    return None
                plain += size
            ends = np.cumsum(counts)
            firsts = np.array([one.first for one in self.pages])
            own = np.searchsorted(firsts, rows, side="right") - 1
            rows = rows - firsts[own] + (ends - counts)[own]
        data = b"".join([MAGIC, *found])
        made = chunk.of_pages(count, len(data) - len(MAGIC), plain)
        end = footer_bytes(self.column.footer, [(count, [made])], self.column.entries)
        return data + end, count, rows


class ChosenRows:
    """Chosen rows of an open file.

    Args:
        ending: End of the file.
        names: Names of the columns to read.
        there: Columns of the file, in the types in which they are read.
        path: Path of the file, which errors name.
    """

    def __init__(
        self, ending: ParquetEnding, names: Sequence[str], there: pa.Schema, path: str
    ) -> None:
        self._ending = ending
        self._path = path
        self._schema = pa.schema([there.field(name) for name in names])
        found = (_column(ending.footer, field) for field in self._schema)
        self._columns: list[_Column] = [one for one in found if one is not None]
        self._indexes: list[list[Struct]] | None = None

    def can_be_read(self, groups: Sequence[tuple[int, Rows]]) -> bool:
        """Return whether `batches` can read the columns: those that are not nested.

        Args:
            groups: Numbers of row groups, and chosen rows of each.
        """
        footer = self._ending.footer
        if len(self._columns) < len(self._schema) or footer.forgotten_bytes:
            return False
        return all(
            sum(footer.groups[number].columns[one.leaf].nbytes for one in self._columns)
            <= _MOST_BYTES
            for number, _ in groups
        )

    def batches(
        self, groups: Sequence[tuple[int, Rows]], read: ReadRanges
    ) -> Iterator[pa.RecordBatch]:
        """Yield the chosen rows of each row group.

        Args:
            groups: Numbers of row groups, and chosen rows of each.
            read: Function that returns ranges of bytes of the file.

        Raises:
            CorruptionError: If a chunk has another number of rows.

        Also raises the errors of `ParquetRows` and `look_at_claims`.
        """
        waiting: list[list[_Part]] = []
        nbytes = 0
        for parts in self._parts(groups, read):
            size = sum(one.nbytes for one in parts)
            if waiting and nbytes + size > _MOST_BYTES:
                yield from self._read(waiting, read)
                waiting, nbytes = [], 0
            waiting.append(parts)
            nbytes += size
        yield from self._read(waiting, read)

    def _read(
        self, groups: Sequence[Sequence[_Part]], read: ReadRanges
    ) -> Iterator[pa.RecordBatch]:
        """Yield the rows of parts of row groups, whose bytes are read at once."""
        ranges = [one for parts in groups for part in parts for one in part.ranges]
        found = iter(read(ranges))
        for parts in groups:
            columns = []
            for part in parts:
                made = part.file([next(found) for _ in part.ranges])
                if made is None:
                    whole = part.whole
                    made = whole.file(read(whole.ranges))
                assert made is not None
                columns.append(self._column(part, *made))
            yield pa.RecordBatch.from_arrays(columns, schema=self._schema)

    def _column(self, part: _Part, file: bytes, count: int, rows: Rows) -> pa.Array:
        """Return rows of a file of one column."""
        stream, claims = pa.BufferReader(file), Claims()
        if self._ending.size() <= SMALL:
            stream, claims = look_at_claims(stream, [part.column.name], self._path)
        reader = ParquetRows(stream, self._path)
        found = []
        row = 0
        for batch in reader.batches(reader.schema.names, [[0]], claims.rows_at_once(_BATCH_ROWS)):
            first, last = np.searchsorted(rows, [row, row + batch.num_rows])
            found.append(take(batch.column(0), pa.array(rows[first:last] - row)))
            row += batch.num_rows
        if row != count:
            raise CorruptionError(self._path, part.chunk.offset, f"{count} rows", row)
        return pa.concat_arrays(found)

    def _parts(self, groups: Sequence[tuple[int, Rows]], read: ReadRanges) -> Iterator[list[_Part]]:
        """Yield the part of each column that the chosen rows of each row group need."""
        footer = self._ending.footer
        places = [(number, one.leaf) for number, _ in groups for one in self._columns]
        indexes = dict(zip(places, self._indexes_of(places, read), strict=True))
        for number, rows in groups:
            group = footer.groups[number]
            yield [
                _part(one, group.columns[one.leaf], indexes[number, one.leaf], rows, group.rows)
                for one in self._columns
            ]

    def _indexes_of(self, places: Sequence[Range], read: ReadRanges) -> list[bytes]:
        """Return the offset indexes of chunks; a chunk without one has empty bytes.

        Args:
            places: Numbers of row groups and columns.
            read: Function that returns ranges of bytes of the file.
        """
        if self._indexes is None:
            struct = self._ending.struct
            meta = struct_at(struct, 0) if len(struct) <= _MOST_FOOTER else {}
            self._indexes = [items(one, _COLUMNS, STRUCT) for one in items(meta, _GROUPS, STRUCT)]
        ranges: list[Range] = []
        for group, leaf in places:
            chunk = self._indexes[group][leaf] if self._indexes else {}
            offset, size = get(chunk, _INDEX_OFFSET, I64), get(chunk, _INDEX_BYTES, I32)
            is_inside = offset and size and 0 < offset <= self._ending.size() - size
            ranges.append((offset, size) if is_inside and 0 < size <= _MOST_INDEX else (0, 0))
        # Indexes are before the footer, and were read with it unless it is large.
        if all(not size or self._ending.has(offset) for offset, size in ranges):
            return [self._ending.read_at(size, offset) if size else b"" for offset, size in ranges]
        return read(ranges)


def _column(footer: ParquetFooter, field: pa.Field) -> _Column | None:
    """Return a column that is read. None: It is nested, or Arrow needs more than its pages."""
    if field.name not in footer.flat or pa.types.is_nested(field.type):
        return None
    entries = dict(footer.entries)
    if _ARROW in entries:
        try:
            known = pa.ipc.read_schema(pa.BufferReader(base64.b64decode(entries[_ARROW])))
            one = pa.schema([known.field(field.name)])
        except (binascii.Error, KeyError, pa.ArrowException):
            return None
        if pa.types.is_dictionary(one.field(0).type):
            return None
        entries[_ARROW] = base64.b64encode(one.serialize().to_pybytes())
    leaf, element = footer.flat[field.name]
    return _Column(field.name, leaf, footer.of_column(element), entries)


def _part(column: _Column, chunk: ColumnChunk, index: bytes, rows: Rows, count: int) -> _Part:
    """Return the part of a chunk that has some rows.

    Args:
        column: The column.
        chunk: The chunk.
        index: Its offset index. Empty: it has none.
        rows: Rows of the row group.
        count: Number of rows of the row group.
    """
    pages = _pages(index, chunk, count)
    own = np.unique(np.searchsorted([one.first for one in pages], rows, side="right") - 1)
    chosen = tuple(pages[at] for at in own) if pages else ()
    return _Part(column, chunk, chosen, rows, count)


def _pages(index: bytes, chunk: ColumnChunk, count: int) -> list[_Page]:
    """Return the pages of a chunk. Empty: Its index is missing, or does not agree with the chunk.

    Args:
        index: The offset index. Empty: the chunk has none.
        chunk: The chunk.
        count: Number of its rows.
    """
    try:
        said = items(struct_at(index, 0), 1, STRUCT) if index else []
    except ValueError:
        return []
    places = [(get(one, _OFFSET, I64), get(one, _SIZE, I32), get(one, _FIRST, I64)) for one in said]
    firsts = [*(first for _, _, first in places), count]
    at, row = chunk.data_offset, 0
    pages = []
    for (offset, nbytes, first), following in zip(places, firsts[1:], strict=True):
        if None in (nbytes, following) or (offset, first) != (at, row):
            return []
        if nbytes <= 0 or following <= row:
            return []
        pages.append(_Page(at, nbytes, row, following - row))
        at, row = at + nbytes, following
    return pages if at == chunk.offset + chunk.nbytes else []


def _plain_size(page: _Page, data: bytes) -> int | None:
    """Return the size of a page before compression. None: It is another one than was expected."""
    try:
        header = struct_at(data, 0)
    except ValueError:
        return None
    values = [get(get(header, one, STRUCT) or {}, 1, I32) for one in (_DATA, _DATA_2)]
    stored, plain = get(header, _STORED, I32), get(header, _PLAIN, I32)
    if page.rows not in values or stored is None or plain is None:
        return None
    return int(len(data) - stored + plain)
