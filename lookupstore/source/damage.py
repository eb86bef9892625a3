"""Where a local Parquet file is damaged, after Arrow failed to read it without saying where."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa

from lookupstore.errors import CorruptionError, LookupStoreError
from lookupstore.parquet._pages import check_pages
from lookupstore.parquet.arrow_file import ParquetRows
from lookupstore.parquet.claims import MOST_OF_SMALL, look_at_claims
from lookupstore.parquet.footer import ColumnChunk, ParquetFooter, read_footer
from lookupstore.storage.file_address import FileAddress
from lookupstore.storage.read_errors import READ_ERRORS

# Maximum size in bytes of a chunk that is read at once.
_MOST_BYTES = 256 << 20
_BATCH_ROWS = 1 << 16


def damaged_offset(
    address: FileAddress, names: Sequence[str] | None, groups: Sequence[int] | None = None
) -> int | None:
    """Return the offset of the first damaged page of some columns, or else of their chunk.

    A page counts as damaged only if Arrow cannot read its chunk. It reads the file again up to the
    damage, so call it only after an error.

    Args:
        address: Address of the file.
        names: Names of the columns that were read. None: all columns.
        groups: Numbers of the row groups that were read. None: all row groups.

    Returns:
        The offset, or None if no chunk is known to be damaged.
    """
    try:
        with address.open() as file:
            footer = read_footer(file, address.shown)
            chunks = list(_chunks(footer, names, groups))
            # If headers of pages of a small file are damaged, this raises an error with the offset.
            columns = {name for _, name, _ in chunks}
            stream, claims = look_at_claims(file, columns, address.shown, groups)
            rows = claims.rows_at_once(_BATCH_ROWS)
            parquet = ParquetRows(stream, address.shown)
            for group, name, chunk in chunks:
                offset = None if footer.forgotten_bytes else _page(file, chunk)
                if offset is not None and not _is_read(parquet, name, group, rows):
                    return offset
            for group, name, chunk in chunks:
                # A nested column has several chunks, of which any may be the damaged one.
                if len(chunk.path) == 1 and not _is_read(parquet, name, group, rows):
                    return chunk.offset
    except (*READ_ERRORS, LookupStoreError):  # the first error says more
        pass
    return None


def _chunks(
    footer: ParquetFooter, names: Sequence[str] | None, groups: Sequence[int] | None
) -> Iterator[tuple[int, str, ColumnChunk]]:
    """Yield row group, column and description of each chunk that was read."""
    for number in range(len(footer.groups)) if groups is None else groups:
        for chunk in footer.groups[number].columns:
            name = chunk.path[0]
            if names is None or name in names:
                yield number, name, chunk


def _page(file: pa.NativeFile, chunk: ColumnChunk) -> int | None:
    """Return the offset of the first damaged page of a chunk; None: no page is known to be."""
    if chunk.nbytes > _MOST_BYTES:
        return None
    codec = chunk.codec if chunk.has_known_codec else None
    try:
        check_pages(
            file.read_at(chunk.nbytes, chunk.offset),
            "",
            chunk.offset,
            codec=None if codec is None else pa.Codec(codec),
            most=MOST_OF_SMALL,
        )
    except CorruptionError as error:
        return error.offset
    return None


def _is_read(parquet: ParquetRows, name: str, group: int, rows: int) -> bool:
    """Return whether Arrow reads a column of a row group, some rows at a time."""
    try:
        for _ in parquet.batches([name], [[group]], rows):
            continue
    except READ_ERRORS:
        return False
    return True
