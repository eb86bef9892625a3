"""Rows as a caller gives them, to rows as a table has them: columns, types, keys, folders.

Nothing is looked up here, and nothing written.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lookupstore.arrow.exact_casts import is_castable
from lookupstore.arrow.types import concat
from lookupstore.hudi.keys.dedupe import TIES, rows_to_keep
from lookupstore.hudi.keys.given_columns import (
    IS_DELETED,
    KEEP,
    cast_column,
    check_missing,
    columns_after,
    given_columns,
    type_error,
)
from lookupstore.hudi.keys.key_generator import (
    no_key,
    partition_paths,
    path_fault,
    paths_of,
    record_keys,
    without_key,
)
from lookupstore.hudi.keys.missing_columns import NOTHING_MISSING, MissingColumns
from lookupstore.hudi.keys.row_errors import RowErrors
from lookupstore.hudi.keys.table_schema import TableSchema
from lookupstore.hudi.options import EVENT_TIME, TableOptions
from lookupstore.source.kept import opened
from lookupstore.source.source import in_columns, in_types

Rows = npt.NDArray[np.int64]
_Cast = Callable[[pa.ChunkedArray, pa.Field], pa.ChunkedArray]


@dataclass(frozen=True, eq=False)
class Incoming:
    """Rows to write.

    Attributes:
        rows: the table's data columns, in its types; of keys alone those of keys, or none.
        keys: record key of each.
        partitions: partition path of each.
        deleted: which of them delete a row; None: none.
        numbers: place of each among the rows of the write; None: they are all of them, in order.
    """

    rows: pa.Table
    keys: pa.ChunkedArray
    partitions: pa.DictionaryArray
    deleted: npt.NDArray[np.bool_] | None = None
    numbers: Rows | None = None

    @classmethod
    def joined(cls, parts: list[Incoming], columns: pa.Schema) -> Incoming:
        """Return rows that come one after the other as one; the list is empty then.

        Args:
            parts: some of the rows each, which say alike whether rows are deleted.
            columns: of the rows.
        """
        if not parts:
            texts = pa.array([], pa.string())
            none = columns.empty_table()
            return cls(none, pa.chunked_array([texts]), texts.dictionary_encode())
        deleted = [part.deleted for part in parts if part.deleted is not None]
        numbers = [part.numbers for part in parts if part.numbers is not None]
        coded = pa.chunked_array([part.partitions for part in parts]).unify_dictionaries()
        keys = concat([chunk for part in parts for chunk in part.keys.chunks], pa.string())
        # As many chunks would each of them be looked through for each row that is taken.
        chunks = [
            [chunk for part in parts for chunk in part.rows.column(at).chunks]
            for at in range(len(columns))
        ]
        parts.clear()
        whole = []
        for field in columns:
            # The parts of a column can go before those of the next are put together.
            whole.append(concat(chunks.pop(0), field.type))
        return cls(
            pa.table(whole, schema=columns),
            pa.chunked_array([keys]),
            concat(coded.chunks, coded.type),
            np.concatenate(deleted) if deleted else None,
            np.concatenate(numbers) if numbers else None,
        )

    def __len__(self) -> int:
        return len(self.keys)

    @property
    def nbytes(self) -> int:
        """Return the bytes of rows and keys in memory."""
        return int(self.rows.nbytes + self.keys.nbytes)

    def take(self, rows: Rows) -> Incoming:
        """Return some of the rows, in the order in which they are named."""
        indices = pa.array(rows)
        return Incoming(
            self.rows.take(indices),
            self.keys.take(indices),
            self.partitions.take(indices),
            None if self.deleted is None else self.deleted[rows],
            None if self.numbers is None else self.numbers[rows],
        )

    def without_deleted(self) -> Incoming:
        """Return the rows that do not delete a row."""
        return self if self.deleted is None else self.take(np.flatnonzero(~self.deleted))

    def flagged(self) -> Incoming:
        """Return the rows, which then all say whether they delete one."""
        if self.deleted is not None:
            return self
        return replace(self, deleted=np.zeros(len(self), bool))

    def combined(self, options: TableOptions, *, everywhere: bool) -> Incoming:
        """Return the rows that stay where several have one partition and key.

        Args:
            options: of the table.
            everywhere: whether rows of several partitions count as those of one key, too.

        Raises:
            ValueError: a row has no ordering value.
        """
        kept = self.to_keep(options, everywhere=everywhere)
        return self if len(kept) == len(self) else self.numbered().take(kept)

    def numbered(self) -> Incoming:
        """Return the rows, which then have their numbers."""
        return self if self.numbers is not None else replace(self, numbers=np.arange(len(self)))

    def to_keep(self, options: TableOptions, *, everywhere: bool) -> Rows:
        """Return the numbers of the rows that stay, ascending; see `combined`."""
        column = precombine_of(options)
        if column not in self.rows.column_names:  # keys alone have nothing to compare
            column = None
        return rows_to_keep(
            self.keys,
            None if everywhere else self.partitions,
            None if column is None else self.ordered(column),
            ties=TIES[options.version],
        )

    def ordered(self, name: str) -> pa.ChunkedArray:
        """Return the ordering column.

        Raises:
            ValueError: a row has no ordering value.
        """
        column = self.rows.column(name)
        if column.null_count:
            at = pc.index(column.is_null(), True).as_py()
            number = at if self.numbers is None else self.numbers[at]
            raise ValueError(
                f"row {number + 1}: the ordering column {name!r} is null; give a value, or leave "
                "the row out"
            )
        return column


class IncomingRows:
    """A reader of rows that a caller gives, as rows of a table.

    Args:
        given: an Arrow table, batches, anything with `__arrow_c_stream__`, or files: what
            `lookupstore.source.source` takes.
        known: columns of the table.
        options: of the table.
        named: whether a record key of one column has its name.
        evolve: whether new columns and wider types become those of the table.
        missing: what becomes of the table's columns that rows lack: `keep`: stored rows keep their
            values; `null`: they are null; None: such rows are refused.
        keeps: whether rows may take the place of stored ones, whose values could be kept.
        ordering: column of which each row needs a value, if any.
        errors: takes rows that cannot be written, which are left out; None: they are an error.

    Raises:
        TypeError: `given` gives no rows, or a column is not of the table's type.
        ValueError: a column comes twice, is new, or is missing.
    """

    def __init__(
        self,
        given: Any,
        known: TableSchema,
        options: TableOptions,
        *,
        named: bool | None,
        evolve: bool,
        missing: str | None = None,
        keeps: bool = True,
        ordering: str | None = None,
        errors: RowErrors | None = None,
    ) -> None:
        self._source = opened(given, lambda rows: in_columns(rows, known.columns))
        self._options = options
        self._named = named
        self._ordering = ordering
        self._errors = errors
        #: The table's columns, after the rows are written.
        self._fixed = _needed(options)
        self.schema: TableSchema = columns_after(self._source, known, self._fixed, evolve=evolve)
        #: Columns of the table that the rows lack.
        # Rows without the flag are no deletions: nothing is lost with it.
        self.missing: MissingColumns = MissingColumns.of(
            given_columns(self._source, self.schema.columns),
            (one for one in self.schema.columns if one.name != IS_DELETED),
        )
        check_missing(self.missing, missing, keeps=keeps)
        #: Columns of which stored rows keep their values.
        self.kept: MissingColumns = self.missing if missing == KEEP else NOTHING_MISSING
        self._has_flags = IS_DELETED in self._source.schema.names
        #: Counts the rows without reading them, or gives None where that is not cheap.
        self.count_rows: Callable[[], int | None] = self._source.count_rows
        #: Rows that were read.
        self.read: int = 0

    def batches(self) -> Iterator[Incoming]:
        """Read rows a few at a time; once.

        Raises:
            ValueError: a value does not fit the table's type; a row has no record key.
        """
        wanted = [
            name
            for name in self._source.schema.names
            if name in self.schema.columns.names or name == IS_DELETED
        ]
        for batch in self._source.batches(wanted):
            table = pa.Table.from_batches([batch])
            if self._errors is None:
                incoming = self.incoming(table, self.read)
            else:
                incoming = self._writable(table, self._errors)
            self.read += batch.num_rows
            yield incoming

    def check_order(self, kept: int) -> None:
        """Check that no row gave way to another one by an order that the source does not have.

        Args:
            kept: rows that are left where several have one partition and key.

        Raises:
            ValueError: some did.
        """
        gone = self.read - kept
        if self._source.in_order or precombine_of(self._options) or self._errors or not gone:
            return
        keys = ", ".join(self._options.record_key)
        raise ValueError(
            f"rows: {gone} of {self.read} repeat the record key ({keys}) of another row, and the "
            f"rows of {self._source.description} have no order; give each key once, or write to a "
            "table with an ordering column"
        )

    def _writable(self, table: pa.Table, errors: RowErrors) -> Incoming:
        """Return the rows that can be written; tell of the others."""
        try:
            incoming = self.incoming(table)
            if self._ordering is not None:
                incoming.ordered(self._ordering)
        except ValueError:
            return self.incoming(self._without_errors(table, errors))
        return incoming

    def _without_errors(self, table: pa.Table, errors: RowErrors) -> pa.Table:
        """Return the rows that can be written, as they were given; tell of the others."""
        options, keyed = self._options, self._options.record_key
        left = _RowsLeft(table, self.read, errors, self._cast)
        for field in self.schema.columns:
            if field.name in table.column_names:
                left.leave_out_misfits(field)
        fields = [self.schema.columns.field(name) for name in keyed]
        left.leave_out(dict.fromkeys(without_key(left.cast(fields), keyed), no_key(keyed)))

        def key(row: int) -> str:
            text: str = record_keys(left.cast(fields, row), keyed, named=self._named)[0].as_py()
            return text

        if self._ordering is not None:
            reason = f"the ordering column {self._ordering!r} is null"
            (column,) = left.cast([self.schema.columns.field(self._ordering)]).columns
            nulls = np.flatnonzero(column.is_null().to_numpy()).tolist()
            left.leave_out(dict.fromkeys(nulls, reason), key)
        if options.partition_by:
            levels = [self.schema.columns.field(name) for name in options.partition_by]
            given = left.cast(levels)
            # Texts that are no times, which is all that can be wrong without a check.
            bad = dict(_failing(lambda *rows: _unchecked(given.slice(*rows), options), len(given)))
            left.leave_out(bad, key)
            paths = _unchecked(left.cast(levels), options)
            texts = paths.dictionary.to_pylist()
            codes = paths.indices.to_pylist()
            faults = {code: path_fault(path) or "" for code, path in enumerate(texts)}
            bad = {row: faults[code] for row, code in enumerate(codes) if faults[code]}
            left.leave_out(bad, key)
        return left.table

    def all(self) -> Incoming:
        """Read all rows; see `batches`."""
        return Incoming.joined(list(self.batches()), self.schema.columns)

    def incoming(self, table: pa.Table, first_row: int | None = None) -> Incoming:
        """Return rows of the columns that were given as rows of the table; see `batches`.

        Args:
            table: the rows.
            first_row: number of the first, from 0, for errors; None: they name no row.
        """
        options = self._options
        columns = []
        for field in self.schema.columns:
            if field.name in table.column_names:
                columns.append(self._cast(table.column(field.name), field, first_row))
            else:
                columns.append(pa.chunked_array([pa.nulls(table.num_rows, field.type)]))
        rows = pa.Table.from_arrays(columns, schema=self.schema.columns)
        flags = None
        if self._has_flags:
            deleted = table.column(IS_DELETED).combine_chunks().cast(pa.bool_()).fill_null(False)
            flags = deleted.to_numpy(zero_copy_only=False).astype(bool)
        return Incoming(
            rows,
            record_keys(rows, options.record_key, named=self._named, first_row=first_row),
            paths_of(rows, options, first_row=first_row),
            flags,
        )

    def _cast(
        self, column: pa.ChunkedArray, field: pa.Field, first_row: int | None = None
    ) -> pa.ChunkedArray:
        return cast_column("rows", column, field, first_row=first_row, fixed=self._fixed)


class _RowsLeft:
    """Rows of which those go that cannot be written."""

    def __init__(self, table: pa.Table, first: int, errors: RowErrors, cast: _Cast) -> None:
        self._cast = cast
        self.table = table
        self._numbers = np.arange(first, first + table.num_rows)
        self._errors = errors

    def cast(self, fields: Sequence[pa.Field], row: int | None = None) -> pa.Table:
        """Return some columns of all rows, or of one, as the table has them."""
        table = self.table if row is None else self.table.slice(row, 1)
        return pa.table({one.name: self._cast(table.column(one.name), one) for one in fields})

    def leave_out(self, bad: Mapping[int, str], key: Callable[[int], str] | None = None) -> None:
        """Let rows go.

        Args:
            bad: what is wrong with them, by their numbers here.
            key: makes the record key of one; None: there is none.
        """
        if not bad:
            return
        for row, reason in bad.items():
            known = None if key is None or self._errors.is_full else key(row)
            self._errors.add(int(self._numbers[row]), known, reason)
        kept = np.ones(self.table.num_rows, bool)
        kept[list(bad)] = False
        self.table = self.table.filter(pa.array(kept))
        self._numbers = self._numbers[kept]

    def leave_out_misfits(self, field: pa.Field) -> None:
        """Let rows go whose value of a column does not fit that of the table."""
        column = self.table.column(field.name)
        bad = _failing(lambda *rows: self._cast(column.slice(*rows), field), len(column))
        self.leave_out(dict(bad))


def _unchecked(table: pa.Table, options: TableOptions) -> pa.DictionaryArray:
    return paths_of(table, options, check=False, first_row=None)


def _failing(
    attempt: Callable[[int, int], object], count: int, first: int = 0
) -> Iterator[tuple[int, str]]:
    """Yield the rows with which an attempt fails, and why; they are looked for in halves.

    Args:
        attempt: takes the first of some rows, and how many there are.
        count: how many rows there are.
        first: the first of them.
    """
    try:
        attempt(first, count)
    except ValueError as error:
        if count == 1:
            yield first, str(error)
            return
        half = count // 2
        yield from _failing(attempt, half, first)
        yield from _failing(attempt, count - half, first + half)


def ordering_of(options: TableOptions) -> str | None:
    """Return the column by which a row is newer than the stored one; None: it always is."""
    if options.merge_mode == EVENT_TIME and options.ordering:
        return options.ordering[0]
    return None


def precombine_of(options: TableOptions) -> str | None:
    """Return the column whose greatest value stays, of rows of a batch; None: the last row stays.

    In tables of version 6 Hudi compares rows of a batch by it in either merge mode: `preCombine` of
    `OverwriteWithLatestAvroPayload` does, and only its merge with the stored row does not.
    """
    if options.version == 6 and options.ordering:
        return options.ordering[0]
    return ordering_of(options)


def _needed(options: TableOptions) -> frozenset[str]:
    """Return the columns that each row has to have: those of key, folders and order."""
    column = precombine_of(options)
    return frozenset({*options.record_key, *options.partition_by, *([column] if column else [])})


class IncomingKeys:
    """A reader of keys that a caller gives.

    Args:
        given: rows as for a write, of which the columns of key and partition are looked at; for a
            key of one column also an Arrow array of it, or a list of values.
        columns: of the table.
        options: of the table.
        named: whether a record key of one column has its name.
        everywhere: whether partitions make no difference.

    Raises:
        TypeError: `given` are not keys, or a column is not of the table's type.
        ValueError: a column of the key is missing, or some of the partition's are.
    """

    def __init__(
        self,
        given: Any,
        columns: pa.Schema,
        options: TableOptions,
        *,
        named: bool | None,
        everywhere: bool = False,
    ) -> None:
        rows = _key_table(given, options.record_key, columns)
        self._source = source = opened(rows, lambda one: in_types(one, columns))
        self._options = options
        self._named = named
        given = given_columns(source, columns)
        names = given.names
        there = [name for name in options.partition_by if name in names]
        # Columns of the key may be columns of the partition as well, and say nothing about the
        # others.
        says = any(name not in options.record_key for name in there)
        if says and len(there) < len(options.partition_by):
            missing = [name for name in options.partition_by if name not in names]
            raise ValueError(
                f"keys have no column {missing[0]!r}; give all partition columns or none"
            )
        #: Whether keys come with their partitions; else the path of each is empty.
        self.has_partitions: bool = len(there) == len(options.partition_by) and not everywhere
        wanted = [*options.record_key, *(there if self.has_partitions else [])]
        wanted = list(dict.fromkeys(wanted))
        for name in wanted:
            if name not in names:
                raise ValueError(
                    f"keys have no column {name!r}; give all columns of the record key"
                )
            given_type, kind = given.field(name).type, columns.field(name).type
            if not is_castable(given_type, kind):
                raise type_error("keys", given.field(name), columns)
        self._schema = pa.schema([columns.field(name) for name in wanted])
        names = options.record_key if len(options.record_key) > 1 else ()
        #: Columns that come with the keys: those of a key of several, of which texts may be equal.
        self.columns: pa.Schema = pa.schema([columns.field(name) for name in names])
        #: Counts the keys without reading them, or gives None where that is not cheap.
        self.count_rows: Callable[[], int | None] = source.count_rows
        #: Keys that were read.
        self.read: int = 0

    def batches(self) -> Iterator[Incoming]:
        """Read keys a few at a time, with no columns but `columns`; once.

        Raises:
            ValueError: a value does not fit the table's type; there is no record key.
        """
        options, names = self._options, self._schema.names
        for batch in self._source.batches(names):
            columns = pa.Table.from_batches([batch])
            table = pa.Table.from_arrays(
                [
                    cast_column("keys", columns.column(one.name), one, first_row=self.read)
                    for one in self._schema
                ],
                names,
            )
            first = self.read
            keys = record_keys(table, options.record_key, named=self._named, first_row=first)
            paths = (
                paths_of(table, options, first_row=first)
                if self.has_partitions
                else partition_paths(table, ())
            )
            self.read += batch.num_rows
            yield Incoming(table.select(self.columns.names), keys, paths)


def read_keys(
    given: Any, columns: pa.Schema, options: TableOptions, *, named: bool | None
) -> tuple[pa.ChunkedArray, pa.DictionaryArray | None]:
    """Read all keys, and the partition path of each, None if they lack it; see `IncomingKeys`."""
    keys = IncomingKeys(given, columns, options, named=named)
    whole = Incoming.joined(list(keys.batches()), pa.schema([]))
    return whole.keys, whole.partitions if keys.has_partitions else None


def _key_table(given: Any, fields: Sequence[str], columns: pa.Schema) -> Any:
    """Return keys as rows, where their values are given."""
    is_column = isinstance(given, (pa.Array, pa.ChunkedArray)) and not pa.types.is_struct(
        given.type
    )
    is_values = isinstance(given, list) and not any(
        isinstance(one, (pa.RecordBatch, dict)) for one in given
    )
    if not (is_column or is_values):
        return given
    if len(fields) > 1:
        raise TypeError(
            f"keys is a single column; give a table with {', '.join(map(repr, fields))}"
        )
    if is_values:
        try:
            # Not of the column's type, in which 1.5 would become 1.
            given = pa.array(given)
        except (pa.ArrowException, OverflowError) as error:
            raise TypeError(
                f"keys: not values of one type ({error}); give {columns.field(fields[0]).type}"
            ) from error
    return pa.table({fields[0]: given})
