"""What an open source is: rows in a fixed order."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa
import xxhash

from lookupstore.arrow.texts import check_texts
from lookupstore.errors import listed
from lookupstore.filters.row_filter import RowFilter


@dataclass(frozen=True)
class NeededFields:
    """The fields that each row of a file needs: those that other rows have.

    Attributes:
        optional: Columns that a row may lack.
        unless: Column whose value true exempts a row.
    """

    optional: frozenset[str]
    unless: str


@dataclass(frozen=True)
class Source:
    """An input that has been opened.

    Attributes:
        schema: Schema of the rows.
        description: Description of the source, in one line for people.
        batches: Function that returns the named columns as record batches, in source order. Call it
            once. Reading raises `StaleStoreError` if a file has changed since it was listed, or
            changes while it is read.
        count_rows: Function that returns the number of rows without reading them, or None if
            counting is not cheap.
        is_files: Whether the source is files, which any thread may read. Other sources are read in
            the caller's thread.
        fingerprint: Text that changes whenever the rows do: for files, a hash of their identities
            in order. None: unknown, or a file is so new that it may change again with the same
            modification time.
        nbytes: Size of the files in bytes. None: The source is not files.
        unpacked: Estimate of the bytes of the files before compression, if rows cannot be counted.
            None: unknown.
        in_order: Whether the rows are in the same order each time they are read, so that the order
            can decide between repeated keys.
        table: Rows as a table, if they are in memory. None: They are not.
        in_types: Function that returns the source with the types of a schema, if its own types were
            inferred from text. Do not read this source afterwards. None: The types are fixed.
        every_column: Function that returns the source with a check that no file has columns which
            the first one lacks. Do not read this source afterwards. None: There is nothing to
            check.
        folders_with_texts: Function that returns the source with columns of folders as text where a
            schema has text. Do not read this source afterwards. None: Folders add no columns.
        with_misfits: Function that returns the source with a column `MISFITS`, which has the reason
            for which a row has a value that is not of its type; that value is null. Do not read
            this source afterwards. None: A value cannot be of another type, or raises an error.
        has_misfits: Whether the last column is such a column, and not one of the rows.
        needing: Function that returns the source with a check that each row has the needed fields.
            Do not read this source afterwards. None: Every row has every column.
        filtered: Function that returns the source with only the rows that meet a condition, without
            reading files and row groups that statistics rule out. None: All rows are read.
    """

    schema: pa.Schema
    description: str
    batches: Callable[[Sequence[str]], Iterator[pa.RecordBatch]]
    count_rows: Callable[[], int | None]
    is_files: bool = False
    fingerprint: str | None = None
    nbytes: int | None = None
    unpacked: int | None = None
    in_order: bool = True
    table: pa.Table | None = None
    in_types: Callable[[pa.Schema], Source] | None = None
    every_column: Callable[[], Source] | None = None
    folders_with_texts: Callable[[pa.Schema], Source] | None = None
    with_misfits: Callable[[], Source] | None = None
    has_misfits: bool = False
    needing: Callable[[NeededFields], Source] | None = None
    filtered: Callable[[RowFilter], Source] | None = None


def where_rows(source: Source, condition: RowFilter) -> Source:
    """Return a source with only the rows that meet a condition.

    Args:
        source: Source of the rows. Do not read it afterwards.
        condition: Condition on columns of the source.
    """
    return meeting(source, condition) if source.filtered is None else source.filtered(condition)


def meeting(source: Source, condition: RowFilter) -> Source:
    """Return a source with only the rows that meet a condition, after reading all of its rows.

    Args:
        source: Source of the rows. Do not read it afterwards.
        condition: Condition on columns of the source.
    """

    def select(columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        for batch in source.batches(list(dict.fromkeys([*columns, *condition.names]))):
            rows = condition.rows_of(batch)
            if rows.num_rows:
                yield rows.select(list(columns))

    said = None if source.fingerprint is None else [source.fingerprint, condition.identity]
    return replace(
        source,
        batches=select,
        count_rows=lambda: None,
        fingerprint=None if said is None else xxhash.xxh3_128_hexdigest(json.dumps(said).encode()),
        table=None,
        in_types=None,
        every_column=None,
        folders_with_texts=None,
        with_misfits=None,
        needing=None,
        filtered=None,
    )


def with_checked_texts(source: Source) -> Source:
    """Return a source with a check that all texts are UTF-8."""

    def select(columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        row = 0
        for batch in source.batches(columns):
            check_texts(batch, f"source: {source.description}", row)
            row += batch.num_rows
            yield batch

    filtered = source.filtered
    if filtered is None:
        return replace(source, batches=select)
    return replace(
        source,
        batches=select,
        filtered=lambda condition: with_checked_texts(filtered(condition)),
    )


def type_name(value: object) -> str:
    """Return the name of the type of a value, with its module, for errors."""
    return f"{type(value).__module__}.{type(value).__qualname__}".removeprefix("builtins.")


def one_line(schema: pa.Schema) -> str:
    """Return names and types of columns, for errors."""
    return listed(schema, lambda field: f"{field.name}: {field.type}")
