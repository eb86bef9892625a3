"""Read the rows of one Parquet or ORC file, a few megabytes at a time."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import orc

from lookupstore.arrow.texts import check_texts
from lookupstore.errors import CorruptionError, FormatError
from lookupstore.orc.claims import claims_of, in_memory
from lookupstore.orc.footer import Footer, read_footer, read_stripe_footer
from lookupstore.parquet.claims import SMALL, look_at_claims
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
    int96_unit: str | None = None,
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
        int96_unit: of timestamps of 96 bits in Parquet; None: nanoseconds.
    """
    if file_format == "orc":
        return _orc_batches(file, names, path)
    return _parquet_batches(file, names, path, page_bytes, groups, int96_unit)


def read_to_store(
    file: pa.NativeFile,
    file_format: str,
    names: Sequence[str],
    path: str,
    *,
    page_bytes: int = DISK_BYTES,
) -> Iterator[pa.RecordBatch]:
    """Yield what `read_file` does, for a store or a lookup file, which will be as large as that.

    Raises:
        FormatError: a file below 1 MiB has more than 512 MiB of rows.
        ValueError: a text is not UTF-8, which the store would be called damaged for.
    """
    size, left, row = file.size(), MOST_ROWS_OF_SMALL, 0
    for batch in read_file(file, file_format, names, path, page_bytes=page_bytes):
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
    if file_format == "orc":
        read_footer(file, path)
        names = orc.ORCFile(file).schema.names
    else:
        names = pq.ParquetFile(file).schema_arrow.names
    for _ in read_file(file, file_format, names, path):
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


def check_once(names: Sequence[str], path: str) -> None:
    """Check that a file has no two columns of one name.

    Raises:
        ValueError: it has.
    """
    twice = sorted(one for one, count in Counter(names).items() if count > 1)
    if twice:
        raise ValueError(f"source: {path} names columns twice: {', '.join(twice)}")


def fitted(
    column: pa.Array, field: pa.Field, path: str, where: str = "in the first file"
) -> pa.Array:
    """Return a column of a file in the type that it has in the whole source.

    Args:
        column: as the file has it.
        field: as it should be.
        path: of the file, for errors.
        where: it is so, for errors.

    Raises:
        ValueError: the types have other meanings, or a value does not fit.
    """
    if column.type == field.type:
        return column
    wrong = f"source: {path}: the column {field.name!r} is {column.type}, but {where} it is "
    if not is_kindred(column.type, field.type):
        raise ValueError(f"{wrong}{field.type}; give files whose types agree")
    try:
        return column.cast(field.type)
    except pa.ArrowException as error:
        raise ValueError(f"{wrong}{field.type}: {error}") from None


def is_kindred(given: pa.DataType, wanted: pa.DataType) -> bool:
    """Return whether a cast keeps what values mean, and refuses those that do not fit."""
    if pa.types.is_dictionary(given):
        return is_kindred(given.value_type, wanted)
    if pa.types.is_dictionary(wanted):
        return is_kindred(given, wanted.value_type)
    if pa.types.is_timestamp(given) and pa.types.is_timestamp(wanted):
        return (given.tz is None) == (wanted.tz is None)
    if all(t(given) or t(wanted) for t in (pa.types.is_decimal, pa.types.is_floating)):
        return False  # between decimals and floats Arrow rounds
    sides = [pa.schema([("", kind)]) for kind in (given, wanted)]
    try:
        common = pa.unify_schemas(sides, promote_options="permissive").field(0).type
    except pa.ArrowException:
        return False
    # To narrower floats, also inside of others, Arrow rounds without a word.
    return common == wanted or not (pa.types.is_floating(wanted) or pa.types.is_nested(wanted))


def _parquet_batches(
    stream: pa.NativeFile,
    names: Sequence[str],
    path: str,
    page_bytes: int,
    groups: Sequence[int] | None,
    int96_unit: str | None,
) -> Iterator[pa.RecordBatch]:
    file, claims = look_at_claims(stream, names, path)
    # Streams of pages, not whole column chunks; no pre-buffering, which holds the file compressed.
    reader = pq.ParquetFile(
        file,
        pre_buffer=False,
        buffer_size=page_bytes,
        page_checksum_verification=True,
        coerce_int96_timestamp_unit=int96_unit,
    )
    metadata = reader.metadata
    size = sum(metadata.row_group(i).total_byte_size for i in range(metadata.num_row_groups))
    rows = min(_BATCH_ROWS, max(1, _BATCH_BYTES * metadata.num_rows // max(1, size)))
    there = reader.schema_arrow.names
    present = [name for name in names if name in there]
    if not present:
        _, claims = look_at_claims(stream, there[:1], path)
    rows = claims.rows_at_once(rows)
    groups = range(metadata.num_row_groups) if groups is None else groups
    columns = present or there[:1]
    kinds = [field.type for field in reader.schema_arrow if field.name in columns]
    # Arrow reads many row groups at once, but does not put dictionaries inside of others together.
    alone = any(pa.types.is_nested(kind) and _has_dictionary(kind) for kind in kinds)
    parts = [[group] for group in groups] if alone else [[*groups]]
    batches = itertools.chain.from_iterable(
        reader.iter_batches(rows, part, columns=columns) for part in parts
    )
    if not present:
        return _without_columns(batches)
    return _counted(batches, sum(metadata.row_group(i).num_rows for i in groups), path)


def _has_dictionary(kind: pa.DataType) -> bool:
    if pa.types.is_nested(kind):
        return any(_has_dictionary(kind.field(at).type) for at in range(kind.num_fields))
    return bool(pa.types.is_dictionary(kind))


def _orc_batches(
    stream: pa.NativeFile, names: Sequence[str], path: str
) -> Iterator[pa.RecordBatch]:
    file = in_memory(stream)
    footer = read_footer(file, path)
    reader = orc.ORCFile(file)
    there = reader.schema.names
    present = [name for name in names if name in there]
    wanted = present or there[:1]
    rows = claims_of(file, footer, wanted, path).rows_at_once(footer.rows)
    if rows < footer.rows:
        batches = _few_rows_of_orc(file, wanted, rows)
    else:
        batches = _stripes(reader, file, footer, wanted, path)
    return _counted(batches, footer.rows, path) if present else _without_columns(batches)


def _stripes(
    reader: orc.ORCFile, file: pa.NativeFile, footer: Footer, names: Sequence[str], path: str
) -> Iterator[pa.RecordBatch]:
    """Yield columns of a file, stripe by stripe."""
    for number, stripe in enumerate(footer.stripes):
        if stripe.rows:
            # Arrow opens the time zone that it names, wherever that is.
            read_stripe_footer(file, footer, stripe, path)
            yield reader.read_stripe(number, columns=names)


def _few_rows_of_orc(
    file: pa.NativeFile, names: Sequence[str], rows: int
) -> Iterator[pa.RecordBatch]:
    """Yield columns of a file, a few rows at a time, which only a dataset does."""
    # Imported here: it imports pandas.
    import pyarrow.dataset as ds

    fragment = ds.OrcFileFormat().make_fragment(file)
    yield from fragment.to_batches(
        columns=list(names), batch_size=rows, batch_readahead=0, use_threads=False
    )


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
