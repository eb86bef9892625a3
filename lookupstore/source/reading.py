"""Read the rows of one Parquet or ORC file, a few megabytes at a time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterable, Iterator, Sequence

import pyarrow as pa
from pyarrow import orc

from lookupstore.arrow.fitting import UnfitValueError, fit
from lookupstore.arrow.texts import check_texts
from lookupstore.errors import CorruptionError, FormatError, listed
from lookupstore.orc.arrow_file import orc_batches, orc_schema
from lookupstore.orc.footer import read_footer
from lookupstore.parquet.arrow_file import ParquetRows
from lookupstore.parquet.claims import SMALL, look_at_claims
from lookupstore.parquet.footer import read_footer as read_parquet_footer
from lookupstore.storage.file_address import DISK_BYTES

#: Bytes of rows that a store takes of a file that is small: repeated values make a few bytes
#: gigabytes, and a store would take minutes to be built of them.
MOST_ROWS_OF_SMALL = 512 << 20
_BATCH_ROWS = 1 << 16
_BATCH_BYTES = 4 << 20


def read_file(
    file: pa.NativeFile,
    file_format: str,
    names: Sequence[str],
    path: str,
    *,
    page_bytes: int = DISK_BYTES,
    groups: Sequence[int] | None = None,
    known: Container[str] | None = None,
) -> Iterator[pa.RecordBatch]:
    """Yield those of the named columns that a file has, a few megabytes of rows at a time.

    Args:
        file: the open file.
        file_format: `parquet` or `orc`.
        names: of columns; names that the file lacks are left out, so that batches may have rows
            but no columns.
        path: of the file, for errors.
        page_bytes: how much of a column to read at a time; see `FileAddress`.
        groups: numbers of the row groups of Parquet that are read; None: all.
        known: names of all columns that the file may have; None: any.

    Raises:
        ValueError: the file has a column that it may not have.
    """
    if file_format == "orc":
        return _orc_batches(file, names, path, known)
    return _parquet_batches(file, names, path, page_bytes, groups, known)


def schema_of(file: pa.NativeFile, file_format: str, path: str) -> pa.Schema:
    """Return the columns of a file, in the types that `read_file` gives.

    Args:
        file: the open file.
        file_format: `parquet` or `orc`.
        path: of the file, for errors.

    Raises:
        CorruptionError: its footer is damaged.
        FormatError: it is encrypted, or of a kind that is not read.
    """
    if file_format == "orc":
        read_footer(file, path)
        schema = orc_schema(file)
    else:
        read_parquet_footer(file, path)
        schema = ParquetRows(file, path).schema
    check_names(schema)
    return schema.remove_metadata()


def read_to_store(
    file: pa.NativeFile,
    file_format: str,
    names: Sequence[str],
    path: str,
    *,
    page_bytes: int = DISK_BYTES,
    known: Container[str] | None = None,
) -> Iterator[pa.RecordBatch]:
    """Yield what `read_file` does, for a store or a lookup file, which will be as large as that.

    Raises:
        FormatError: a file below 1 MiB has more than 512 MiB of rows.
        ValueError: a text is not UTF-8, which the store would be called damaged for; or the file
            has a column that it may not have.
    """
    size, left, row = file.size(), MOST_ROWS_OF_SMALL, 0
    for batch in read_file(file, file_format, names, path, page_bytes=page_bytes, known=known):
        left -= batch.nbytes
        if left < 0 and size <= SMALL:
            raise FormatError(
                f"{path}: a file of {size:,} bytes with more than {MOST_ROWS_OF_SMALL:,} bytes of "
                "rows; if it is meant so, read it, and give its rows in place of the file"
            )
        check_texts(batch, f"source: {path}", row)
        row += batch.num_rows
        yield batch


def check_file(file: pa.NativeFile, file_format: str, path: str) -> None:
    """Read all of a file, for the errors that that raises."""
    for _ in read_file(file, file_format, schema_of(file, file_format, path).names, path):
        continue


def check_names(fields: Iterable[pa.Field]) -> None:
    """Look at all names of columns, for the error of one that is not text.

    Raises:
        UnicodeDecodeError: a name is not UTF-8, which Arrow says when somebody asks for it.
    """
    for field in fields:
        _ = field.name
        kind = field.type
        if pa.types.is_nested(kind):
            check_names(kind.field(at) for at in range(kind.num_fields))


def check_there(names: Sequence[str], known: pa.Schema, path: str) -> None:
    """Check that a file has all columns of a source.

    Raises:
        ValueError: it lacks one.
    """
    missing = [one for one in known.names if one not in names]
    if missing:
        raise ValueError(
            f"source: {path} lacks the column {missing[0]!r}, which the first file has"
        )


def check_no_others(names: Iterable[str], known: Container[str], path: str) -> None:
    """Check that a file has no columns but those of a source.

    Raises:
        ValueError: it has one.
    """
    for name in names:
        if name not in known:
            raise ValueError(
                f"source: {path} has the column {name!r}, which the first file lacks; choose the "
                "columns to read (columns=), or give rows that have it everywhere, such as a "
                "DuckDB relation with union_by_name=True"
            )


def check_once(names: Sequence[str], path: str) -> None:
    """Check that a file has no two columns of one name.

    Raises:
        ValueError: it has.
    """
    twice = sorted(one for one, count in Counter(names).items() if count > 1)
    if twice:
        raise ValueError(f"source: {path} names columns twice: {listed(twice, str)}")


def fitted(
    column: pa.Array,
    field: pa.Field,
    path: str,
    where: str = "in the first file",
    *,
    rows_before: int | None = None,
) -> pa.Array:
    """Return a column of a file in the type that it has in the whole source.

    Args:
        column: as the file has it.
        field: as it should be.
        path: of the file, for errors.
        where: it is so, for errors.
        rows_before: rows of the file before those of the column, for errors; None: nobody knows.

    Raises:
        ValueError: the types have other meanings, or a value does not fit.
    """
    wrong = f"source: {path}: the column {field.name!r} is {column.type}, but {where} it is "
    try:
        return fit(column, field.type)
    except TypeError:
        raise ValueError(f"{wrong}{field.type}; give files whose types agree") from None
    except UnfitValueError as error:
        row = "" if rows_before is None else f" of row {rows_before + error.row + 1}"
        raise ValueError(f"{wrong}{field.type}: {error}{row}") from None


def _parquet_batches(
    stream: pa.NativeFile,
    names: Sequence[str],
    path: str,
    page_bytes: int,
    groups: Sequence[int] | None,
    known: Container[str] | None,
) -> Iterator[pa.RecordBatch]:
    file, claims = look_at_claims(stream, names, path)
    reader = ParquetRows(file, path, page_bytes=page_bytes)
    metadata = reader.metadata
    size = sum(metadata.row_group(i).total_byte_size for i in range(metadata.num_row_groups))
    rows = min(_BATCH_ROWS, max(1, _BATCH_BYTES * metadata.num_rows // max(1, size)))
    there = reader.schema.names
    present = [name for name in names if name in there]
    if known is not None and len(present) == len(names):  # that one is missing, others say
        check_no_others(there, known, path)
    if not present:
        _, claims = look_at_claims(stream, there[:1], path)
    rows = claims.rows_at_once(rows)
    groups = range(metadata.num_row_groups) if groups is None else groups
    columns = present or there[:1]
    kinds = [field.type for field in reader.schema if field.name in columns]
    # Arrow reads many row groups at once, but does not put dictionaries inside of others together.
    alone = any(pa.types.is_nested(kind) and _has_dictionary(kind) for kind in kinds)
    parts = [[group] for group in groups] if alone else [[*groups]]
    batches = reader.batches(columns, parts, rows)
    if not present:
        return _without_columns(batches)
    return _counted(batches, sum(metadata.row_group(i).num_rows for i in groups), path)


def _has_dictionary(kind: pa.DataType) -> bool:
    if pa.types.is_nested(kind):
        return any(_has_dictionary(kind.field(at).type) for at in range(kind.num_fields))
    return bool(pa.types.is_dictionary(kind))


def _orc_batches(
    stream: pa.NativeFile, names: Sequence[str], path: str, known: Container[str] | None
) -> Iterator[pa.RecordBatch]:
    batches, rows = orc_batches(stream, names, path)
    there = orc.ORCFile(stream).schema.names
    if known is not None and set(names).issubset(there):
        check_no_others(there, known, path)
    if set(names).isdisjoint(there):
        return _without_columns(batches)
    return _counted(batches, rows, path)


def _counted(batches: Iterable[pa.RecordBatch], rows: int, path: str) -> Iterator[pa.RecordBatch]:
    """Yield batches that have so many rows together.

    Arrow ends a column where a header of a page says so, and only sees that others go on.
    """
    found = 0
    for batch in batches:
        found += batch.num_rows
        yield batch
    if found != rows:
        raise CorruptionError(path, 0, f"{rows} rows, as the footer says", found)


def _without_columns(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield as many rows as batches have: what a footer says of their number may be anything."""
    return (batch.select([]) for batch in batches)
