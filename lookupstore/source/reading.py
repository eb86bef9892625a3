"""Read the rows of one Parquet or ORC file, a few megabytes at a time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterable, Iterator, Sequence

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import orc

from lookupstore.arrow.fitting import UnfitValueError, fit
from lookupstore.arrow.texts import check_texts
from lookupstore.errors import CorruptionError, FormatError, listed
from lookupstore.orc.arrow_file import orc_batches, orc_schema
from lookupstore.orc.footer import read_footer
from lookupstore.parquet.arrow_file import ParquetRows
from lookupstore.parquet.claims import SMALL, look_at_claims
from lookupstore.parquet.ending import read_metadata
from lookupstore.storage.file_address import DISK_BYTES

#: Maximum number of bytes of rows that a store reads from a small file: with repeated values, a few
#: bytes can become gigabytes, from which a store would take minutes to build.
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
    metadata: pq.FileMetaData | None = None,
) -> Iterator[pa.RecordBatch]:
    """Yield the named columns of a file, a few megabytes of rows at a time.

    Args:
        file: Open file.
        file_format: Format of the file: `parquet` or `orc`.
        names: Names of the columns to read. Names that the file lacks are left out, so that batches
            may have rows but no columns.
        path: Path of the file, which errors name.
        page_bytes: Number of bytes of a Parquet column to read at a time.
        groups: Numbers of the Parquet row groups to read, ascending. Default: all.
        known: Names of all columns that the file may have. Default: any.
        metadata: Metadata of a Parquet file, if it was read already. None: it is read.

    Raises:
        ValueError: If the file has another column than `known` allows.
    """
    if file_format == "orc":
        return _orc_batches(file, names, path, known)
    return _parquet_batches(file, names, path, page_bytes, groups, known, metadata)


def schema_of(
    file: pa.NativeFile, file_format: str, path: str, metadata: pq.FileMetaData | None = None
) -> pa.Schema:
    """Return the schema of a file, in the types that `read_file` yields.

    Args:
        file: Open file.
        file_format: Format of the file: `parquet` or `orc`.
        path: Path of the file, which errors name.
        metadata: Metadata of a Parquet file, if it was read already. None: it is read, and checked.

    Raises:
        CorruptionError: If the footer of the file is damaged.
        FormatError: If the file is encrypted, or of a kind that is not supported.
    """
    if file_format == "orc":
        read_footer(file, path)
        schema = orc_schema(file)
    else:
        known = read_metadata(file, path) if metadata is None else metadata
        schema = ParquetRows(file, path, metadata=known).schema
    check_names(schema)
    return schema.remove_metadata()


def read_to_store(
    file: pa.NativeFile,
    file_format: str,
    names: Sequence[str],
    path: str,
    *,
    page_bytes: int = DISK_BYTES,
    groups: Sequence[int] | None = None,
    known: Container[str] | None = None,
    metadata: pq.FileMetaData | None = None,
) -> Iterator[pa.RecordBatch]:
    """Yield the named columns of a file, checked for a store or a lookup file.

    The arguments are those of `read_file`.

    Raises:
        FormatError: If a file below 1 MiB has more than 512 MiB of rows.
        ValueError: If a text is not UTF-8, which would later count as damage of the store, or if
            the file has another column than `known` allows.
    """
    size, left = file.size(), MOST_ROWS_OF_SMALL
    if groups and metadata is None:
        metadata = read_metadata(file, path)
    row = 0
    if groups and metadata is not None:
        row = sum(metadata.row_group(one).num_rows for one in range(groups[0]))
    batches = read_file(
        file,
        file_format,
        names,
        path,
        page_bytes=page_bytes,
        groups=groups,
        known=known,
        metadata=metadata,
    )
    for batch in batches:
        left -= batch.nbytes
        if left < 0 and size <= SMALL:
            raise FormatError(
                f"{path}: a file of {size:,} bytes with more than {MOST_ROWS_OF_SMALL:,} bytes of "
                "rows, which a file of this size should not have; if it should, read it yourself "
                "and pass its rows"
            )
        check_texts(batch, f"source: {path}", row)
        row += batch.num_rows
        yield batch


def check_file(file: pa.NativeFile, file_format: str, path: str) -> None:
    """Read all of a file to find errors."""
    for _ in read_file(file, file_format, schema_of(file, file_format, path).names, path):
        continue


def check_names(fields: Iterable[pa.Field]) -> None:
    """Check that all names of columns are text.

    Raises:
        UnicodeDecodeError: If a name is not UTF-8. Arrow raises this error when the name is read.
    """
    for field in fields:
        _ = field.name
        kind = field.type
        if pa.types.is_nested(kind):
            check_names(kind.field(at) for at in range(kind.num_fields))


def check_there(names: Sequence[str], known: pa.Schema, path: str) -> None:
    """Check that a file has all columns of a source.

    Raises:
        ValueError: If the file lacks a column.
    """
    missing = [one for one in known.names if one not in names]
    if missing:
        raise ValueError(
            f"source: {path} lacks the column {missing[0]!r}, which the first file has; choose "
            "columns that all files have (columns=)"
        )


def check_no_others(names: Iterable[str], known: Container[str], path: str) -> None:
    """Check that a file has no other columns than a source.

    Raises:
        ValueError: If the file has another column.
    """
    for name in names:
        if name not in known:
            raise ValueError(
                f"source: {path} has the column {name!r}, which the first file lacks; choose the "
                "columns to read (columns=), or give rows that have it everywhere, such as a "
                "DuckDB relation with union_by_name=True"
            )


def check_once(names: Sequence[str], path: str) -> None:
    """Check that a file does not have two columns of one name.

    Raises:
        ValueError: If the file has two.
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
        column: Column as it is in the file.
        field: Field with the wanted name and type.
        path: Path of the file, which errors name.
        where: Origin of the wanted type, as errors name it, such as `in the first file`.
        rows_before: Number of rows of the file before those of the column, by which errors count
            rows. None: Errors name no row.

    Raises:
        ValueError: If the types have other meanings, or a value does not fit.
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
    given: pq.FileMetaData | None,
) -> Iterator[pa.RecordBatch]:
    file, claims = look_at_claims(stream, names, path, groups)
    reader = ParquetRows(file, path, page_bytes=page_bytes, metadata=given)
    metadata = reader.metadata
    size = sum(metadata.row_group(i).total_byte_size for i in range(metadata.num_row_groups))
    rows = min(_BATCH_ROWS, max(1, _BATCH_BYTES * metadata.num_rows // max(1, size)))
    there = reader.schema.names
    present = [name for name in names if name in there]
    if known is not None and len(present) == len(names):  # other code reports missing columns
        check_no_others(there, known, path)
    if not present:
        _, claims = look_at_claims(stream, there[:1], path, groups)
    rows = claims.rows_at_once(rows)
    groups = range(metadata.num_row_groups) if groups is None else groups
    columns = present or there[:1]
    kinds = [field.type for field in reader.schema if field.name in columns]
    # Arrow can read many row groups at once, but cannot combine nested dictionaries.
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
    """Yield batches, and check that they have `rows` rows together.

    Arrow ends a column early if the header of a page says so, and does not check the number of
    rows.
    """
    found = 0
    for batch in batches:
        found += batch.num_rows
        yield batch
    if found != rows:
        raise CorruptionError(path, 0, f"{rows} rows, as the footer says", found)


def _without_columns(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield batches without columns, whose lengths do not depend on the footer."""
    return (batch.select([]) for batch in batches)
