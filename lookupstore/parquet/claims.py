"""Check the claims of pages of a small Parquet file before Arrow allocates memory.

The header of a page contains its decompressed size, and a page of a few bytes may contain a
reference to one long value for each row. Arrow checks neither. Large files save space this way. A
small file that would need a gigabyte is read a few rows at a time, or not at all.

Source: parquet-format, parquet.thrift (PageHeader) and Encodings.md.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from lookupstore.errors import CorruptionError, FormatError
from lookupstore.parquet._claims import chunk_claims
from lookupstore.parquet.footer import MAGIC, ColumnChunk, Leaf, read_footer

#: Largest size in bytes of a file that counts as small.
SMALL = 1 << 20
#: Most bytes that a page, lists, or rows read at once may take if the file is small.
MOST_OF_SMALL = 256 << 20
#: Most bytes of rows to read at once if a file has more and is read a few rows at a time.
BYTES_AT_ONCE = 64 << 20
# Most bytes that Arrow takes for a value besides those of a text, if values are not wider.
_VALUE = 16
# Additional bytes for a value of a list, for the positions where lists begin and end.
_LEVELS = 4


@dataclass(frozen=True)
class Claims:
    """The memory that the rows of a file may need, if the file is small.

    Attributes:
        row: Largest size of a row in bytes. 0: unknown.
        groups: Largest size of all rows of each row group, in bytes; 0 for those that are not
            read. Empty: unknown.
    """

    row: int = 0
    groups: tuple[int, ...] = ()

    def rows_at_once(self, most: int) -> int:
        """Return the number of rows to read at once, at most a given one."""
        if sum(self.groups) <= BYTES_AT_ONCE:
            return most
        return max(1, min(most, BYTES_AT_ONCE // max(1, self.row)))

    def is_large(self, group: int) -> bool:
        """Return whether the rows of a row group may be too large to be read at once."""
        return bool(self.groups) and self.groups[group] > MOST_OF_SMALL


def look_at_claims(
    stream: Any,
    names: Collection[str],
    path: str,
    groups: Sequence[int] | None = None,
) -> tuple[Any, Claims]:
    """Return a file for Arrow to read, and the claims of the pages of some columns.

    A small file is read into memory.

    Args:
        stream: Open file, with the methods `size()` and `read_at(nbytes, offset)`.
        names: Names of the columns that will be read. Others are not checked.
        path: Path of the file, which errors name.
        groups: Numbers of the row groups that will be read. Others are not checked. None: all.

    Raises:
        CorruptionError: If the footer is damaged, or pages have no headers.
        FormatError: If pages would need more memory than a file of this size should.
    """
    size = int(stream.size())
    if size > SMALL:
        return stream, Claims()
    data: bytes = stream.read_at(size, 0)
    file = pa.BufferReader(data)
    footer = read_footer(file, path)
    if sum(group.nbytes for group in footer.groups) > size - len(MAGIC):
        raise CorruptionError(path, 0, f"column chunks of at most {size} bytes", "more")
    encoded = {name.encode("utf-8", "surrogateescape") for name in names}
    wanted = [(at, leaf) for at, leaf in enumerate(footer.leaves) if leaf.column in encoded]
    totals = []
    most: dict[int, tuple[int, int, int]] = {}
    are_read = {*(range(len(footer.groups)) if groups is None else groups)}
    for number, group in enumerate(footer.groups):
        total = 0
        for at, leaf in wanted if number in are_read else ():
            chunk = group.columns[at]
            nbytes = min(chunk.nbytes + footer.forgotten_bytes, size - chunk.offset)
            pages, row, whole, lists = _of_chunk(data, path, chunk, nbytes, leaf)
            total += whole
            before = most.get(at, (0, 0, 0))
            most[at] = max(pages, before[0]), max(row, before[1]), max(lists, before[2])
        totals.append(total)
    pages, row, lists = (sum(one[i] for one in most.values()) for i in range(3))
    for what, nbytes in (("pages", pages), ("lists", lists), ("values", row)):
        if nbytes > MOST_OF_SMALL:
            raise too_large_error(path, size, f"{nbytes:,} bytes of {what}")
    return file, Claims(row, tuple(totals))


def too_large_error(path: str, size: int, what: str) -> FormatError:
    """Return the error for a small file that would need much memory.

    Args:
        path: Path of the file.
        size: Size of the file in bytes.
        what: Things that the file claims to contain, with their number.
    """
    return FormatError(
        f"{path}: a file of {size:,} bytes that has {what}, which may be damage; if it is meant "
        "so, read it, and give its rows in place of the file"
    )


def _of_chunk(
    data: bytes, path: str, chunk: ColumnChunk, nbytes: int, leaf: Leaf
) -> tuple[int, int, int, int]:
    """Return the largest sizes of a page, a row, all rows and all lists, in bytes."""
    texts = not leaf.width
    known = chunk.has_known_codec
    largest, plain, longest, values = chunk_claims(
        data,
        path,
        chunk.offset,
        nbytes,
        values=chunk.rows,
        texts=texts and known,
        most=MOST_OF_SMALL,
        codec=None if not known or chunk.codec is None else pa.Codec(chunk.codec),
    )
    if largest > MOST_OF_SMALL:
        raise too_large_error(path, len(data), f"a page of {largest:,} bytes")
    if texts and not known:  # the dictionary cannot be read
        longest = largest
    value = max(leaf.width, _VALUE) + longest
    whole = chunk.rows * value + (plain if texts else 0)
    if leaf.repetition:  # a row may have all values
        lists = max(values, chunk.rows) * (value + _LEVELS) + (plain if texts else 0)
        return largest, 0, whole, lists
    # Pages that are small together stay small, however rows share them.
    return largest, value + (largest if texts and plain > MOST_OF_SMALL else 0), whole, 0
