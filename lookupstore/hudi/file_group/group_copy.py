"""Copying of a row group of one base file to the next, without decoding most of it.

Columns without changed values are copied as bytes. Changed values in PLAIN pages are replaced in
the pages. Other columns, with dictionaries or nulls, are decoded and encoded by Arrow, like all
rows in row groups that cannot be copied.

A row group can be copied if lookupstore wrote its file, with the columns of the new file: other
writers may use another version of pages, and their metadata of a chunk may depend on the name of
the writer, which a file has only once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lookupstore.arrow.types import concat
from lookupstore.errors import CorruptionError
from lookupstore.hudi.file_group.encoding import MOST_GROUP_ROWS, ColumnEncoding
from lookupstore.hudi.file_group.reader import SliceRows
from lookupstore.hudi.file_group.writer import BaseFileWriter, in_type
from lookupstore.hudi.meta_columns import META_COLUMNS
from lookupstore.parquet._pages import PlainChunk, check_pages, plain_values
from lookupstore.parquet.footer import ColumnChunk
from lookupstore.parquet.new_file import EncodedChunk

_FILE_NAME = META_COLUMNS[4]
_ARROW = "parquet-cpp-arrow"
# Names that Arrow's writer uses for codecs.
_WRITTEN_CODECS = {None: "none", "lz4_raw": "lz4"}
# Maximum size of a page, which is stored as an int.
_MOST_BYTES = 1 << 30
# Types with values of the same width in Arrow and in Parquet.
_PLAIN_KINDS = {
    pa.int32(): "int32",
    pa.date32(): "int32",
    pa.time32("ms"): "int32",
    pa.int64(): "int64",
    pa.time64("us"): "int64",
    pa.float32(): "float",
    pa.float64(): "double",
    pa.string(): "bytes",
    pa.binary(): "bytes",
}

Places = npt.NDArray[np.int64]


@dataclass(frozen=True)
class _PlainValues:
    """New values of a column: their type in Parquet, and their PLAIN bytes."""

    kind: str
    data: pa.Buffer


class GroupCopy:
    """The copying of row groups of a base file.

    Args:
        current: Rows of the file to copy from.
        into: Writer of the next file.
    """

    def __init__(self, current: SliceRows, into: BaseFileWriter) -> None:
        self._current = current
        self._into = into

    def can(self, group: int) -> bool:
        """Return whether a row group can be copied, and is large enough to stay a row group."""
        if not self._is_like:
            return False
        stored = self._current.footer.groups[group]
        size = stored.plain_bytes / self._into.format.row_group_bytes
        return (
            0.5 <= size <= 4
            and 0 < stored.rows <= MOST_GROUP_ROWS
            and all(one.has_known_codec for one in stored.columns)
        )

    @cached_property
    def _is_like(self) -> bool:
        footer, like = self._current.footer, self._into.like
        return (
            self._current.is_ours
            and footer.created_by.startswith(_ARROW)
            and footer.columns == like.columns
        )

    def copy(
        self, group: int, keys: pa.Array | None, places: Places, fresh: Mapping[str, pa.Array]
    ) -> None:
        """Write a row group.

        Args:
            group: Number of the row group.
            keys: Record keys of its rows. None: the new file has them already.
            places: Positions in the row group of the rows that change, ascending, each once.
            fresh: New values of these rows, for each column that changes, by its name. Empty: no
                row changes.

        Raises:
            CorruptionError: If the current file is damaged.
        """
        stored = self._checked(group)
        plain = self._plain_values(stored, fresh)
        through_arrow = {name: fresh[name] for name in fresh if name not in plain}
        encoded = self._encoded(group, stored, places, through_arrow)
        chunks = (
            encoded[chunk.path]
            if chunk.path in encoded
            else self._copied(chunk, places, plain.get(chunk.path[0]))
            for chunk in stored
        )
        self._into.add_group(stored[0].rows, chunks, keys)

    def _checked(self, group: int) -> Sequence[ColumnChunk]:
        """Return the chunks of a row group, and check the parts that are copied undecoded."""
        footer = self._current.footer
        stored = footer.groups[group]
        rows = {one.rows for one in stored.columns if len(one.path) == 1}
        if [one.name for one in stored.columns] != [one.name for one in footer.leaves]:
            raise CorruptionError(
                self._current.shown, 0, "the columns of the schema", "other columns"
            )
        if rows != {stored.rows}:
            raise CorruptionError(self._current.shown, 0, f"{stored.rows} values per column", rows)
        return stored.columns

    def _copied(
        self, chunk: ColumnChunk, places: Places, fresh: _PlainValues | None
    ) -> EncodedChunk:
        """Return a chunk, with the values at some places replaced if there are new values."""
        data = self._current.read_chunk(chunk)
        if fresh is None:
            check_pages(data, self._current.shown, chunk.offset)
            return chunk, [data]
        optional = chunk.path[0] in self._current.footer.nullable
        pages = self._pages(chunk, data, fresh.kind, optional=optional)
        pieces, plain_bytes, least, greatest = pages.replace(places, fresh.data)
        if least is not None and greatest is not None and fresh.kind in ("float", "double"):
            least, greatest = _wide_zeros(least, greatest)
        nbytes = sum(map(len, pieces))
        return chunk.with_values(nbytes, plain_bytes, least, greatest), pieces

    def _plain_values(
        self, stored: Sequence[ColumnChunk], fresh: Mapping[str, pa.Array]
    ) -> dict[str, _PlainValues]:
        """Return new values of the columns whose pages can contain them."""
        named = {one.path[0]: one for one in stored}
        return {
            name: _PlainValues(kind, plain_values(values))
            for name, values in fresh.items()
            if named[name].is_plain
            and named[name].has_no_null
            and named[name].plain_bytes + values.nbytes < _MOST_BYTES
            and (kind := plain_kind(values.type)) is not None
            and not values.null_count
        }

    def _pages(self, chunk: ColumnChunk, data: bytes, kind: str, *, optional: bool) -> PlainChunk:
        return PlainChunk(
            data,
            self._current.shown,
            chunk.offset,
            kind=kind,
            rows=chunk.rows,
            most=chunk.plain_bytes,
            optional=optional,
            codec=chunk.codec and pa.Codec(chunk.codec),
        )

    def _encoded(
        self,
        group: int,
        stored: Sequence[ColumnChunk],
        places: Places,
        fresh: Mapping[str, pa.Array],
    ) -> dict[tuple[str, ...], EncodedChunk]:
        """Return the chunks of columns that Arrow encodes, and that of the name of the file."""
        rows = stored[0].rows
        columns = {_FILE_NAME: self._into.file_name(rows)}
        if fresh:
            order = np.arange(rows)
            order[places] = rows + np.arange(len(places))
            for name, old in self._current.read_group(group, list(fresh)).items():
                both = concat([old, in_type(fresh[name], old.type)], old.type)
                columns[name] = both.take(pa.array(order))
        held = {".".join(one.path): one for one in stored if one.path[0] in columns}
        encoding = ColumnEncoding(
            [path for path, one in held.items() if one.has_dictionary],
            {path: _WRITTEN_CODECS.get(one.codec) or str(one.codec) for path, one in held.items()},
        )
        ((_, chunks),) = encoding.encode(pa.table(columns)).groups()
        return {chunk.path: (chunk, pieces) for chunk, pieces in chunks}


def plain_kind(kind: pa.DataType) -> str | None:
    """Return the type and order in Parquet of values of an Arrow type, stored as PLAIN.

    >>> plain_kind(pa.timestamp("us"))
    'int64'
    """
    if pa.types.is_timestamp(kind) and kind.unit != "s":
        return "int64"
    return _PLAIN_KINDS.get(kind)


def _wide_zeros(least: bytes, greatest: bytes) -> tuple[bytes, bytes]:
    """Return statistics in which 0 has the sign that widens the range, as Parquet requires."""
    kind = np.dtype(f"<f{len(least)}")
    low, high = np.frombuffer(least, kind)[0], np.frombuffer(greatest, kind)[0]
    return (
        kind.type(-0.0).tobytes() if low == 0 else least,
        kind.type(0.0).tobytes() if high == 0 else greatest,
    )
