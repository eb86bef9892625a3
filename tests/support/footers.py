"""Parquet files with other footers."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pyarrow as pa

from lookupstore.errors import CorruptionError
from lookupstore.parquet._structs import decode
from lookupstore.parquet.footer import footer_bytes, read_footer
from lookupstore.parquet.structs import Struct


def read_struct(data: bytes, path: str, offset: int) -> Struct:
    """Read a struct of Thrift, of which the package leaves a part unread.

    Args:
        data: the struct, and nothing else.
        path: of the file, for errors.
        offset: of the struct in it.

    Raises:
        CorruptionError: it is none.
    """
    try:
        return decode(data)
    except ValueError as error:
        raise CorruptionError(path, offset, "a Thrift struct", error) from error


def footer_in(data: bytes) -> bytes:
    """Return the footer of a file."""
    return data[-8 - int.from_bytes(data[-8:-4], "little") : -8]


def with_footer(
    data: bytes,
    changes: Callable[[int, tuple[str, ...]], Struct] = lambda group, path: {},
    entries: Mapping[bytes, bytes] | None = None,
) -> bytes:
    """Return a file whose footer says something else.

    Args:
        data: the file.
        changes: fields of ColumnMetaData, by the number of the row group and the column's path.
        entries: key-value metadata; None: that of the file.
    """
    footer = read_footer(pa.BufferReader(data), "f")
    groups = []
    for number, group in enumerate(footer.groups):
        chunks = []
        for one in group.columns:
            struct = one.moved(one.offset)
            struct[3][1].update(changes(number, one.path))
            chunks.append(struct)
        groups.append((group.rows, chunks))
    end = len(data) - 8 - len(footer_in(data))
    return data[:end] + footer_bytes(footer, groups, entries or footer.entries)


def with_rows(data: bytes, rows: int) -> bytes:
    """Return a file whose footer claims so many rows in each row group."""
    footer = read_footer(pa.BufferReader(data), "f")
    groups = [(rows, [one.moved(one.offset) for one in group.columns]) for group in footer.groups]
    end = len(data) - 8 - len(footer_in(data))
    return data[:end] + footer_bytes(footer, groups, footer.entries)
