"""Given rows as rows of a table: columns, types, keys and folders.

This module looks up no keys and writes nothing.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lookupstore.arrow.exact_casts import is_castable
from lookupstore.arrow.types import concat
from lookupstore.errors import columns_example, meant
from lookupstore.hudi.keys.asked_key import key_columns
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
from lookupstore.hudi.keys.listed_keys import named_columns
from lookupstore.hudi.keys.missing_columns import NOTHING_MISSING, MissingColumns
from lookupstore.hudi.keys.row_errors import RowErrors
from lookupstore.hudi.keys.table_schema import TableSchema
from lookupstore.hudi.options import EVENT_TIME, TableOptions
from lookupstore.keys.arguments import unknown_form_error
from lookupstore.source.kept import opened
from lookupstore.source.opening import UnknownSourceError, in_columns, in_types
from lookupstore.source.source import NeededFields, Source
from lookupstore.source.text_values import MISFITS

Rows = npt.NDArray[np.int64]
# Signs of a condition in SQL, which no name of a file of rows is likely to have.
_CONDITION = re.compile(r"[=<>]|\s(in|is|like|between)\s", re.IGNORECASE)
_Cast = Callable[[pa.ChunkedArray, pa.Field], pa.ChunkedArray]


@dataclass(frozen=True, eq=False)
class Incoming:
    """Rows to write, with their keys and partitions.

    Attributes:
        rows: Data columns of the table, in its types. For keys without rows: key columns, or none.
        keys: Record key of each row.
        partitions: Partition path of each row.
        deleted: Whether each row deletes a row. None: no row does.
        numbers: Number of each row among all rows of the write. None: these are all rows, in order.
    """

    rows: pa.Table
    keys: pa.ChunkedArray
    partitions: pa.DictionaryArray
    deleted: npt.NDArray[np.bool_] | None = None
    numbers: Rows | None = None

    @classmethod
    def joined(cls, parts: list[Incoming], columns: pa.Schema) -> Incoming:
        """Join consecutive parts of rows, and empty the list of parts.

        Args:
            parts: Parts of the rows; all of them have deletion flags, or none.
            columns: Columns of the rows.
        """
        if not parts:
            texts = pa.array([], pa.string())
            none = columns.empty_table()
            return cls(none, pa.chunked_array([texts]), texts.dictionary_encode())
        deleted = [part.deleted for part in parts if part.deleted is not None]
        numbers = [part.numbers for part in parts if part.numbers is not None]
        coded = pa.chunked_array([part.partitions for part in parts]).unify_dictionaries()
        keys = concat([chunk for part in parts for chunk in part.keys.chunks], pa.string())
        # Too many chunks would slow down each access to a row, so they are combined.
        chunks = [
            [chunk for part in parts for chunk in part.rows.column(at).chunks]
            for at in range(len(columns))
        ]
        parts.clear()
        whole = []
        for field in columns:
            # The parts of a column are freed before those of the next column are combined.
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
        """Return some of the rows, in the given order."""
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
        """Return the rows with a deletion flag for each."""
        if self.deleted is not None:
            return self
        return replace(self, deleted=np.zeros(len(self), bool))

    def combined(self, options: TableOptions, *, is_global: bool) -> Incoming:
        """Return one row for each partition and key.

        Args:
            options: Options of the table.
            is_global: Whether to combine rows of the same key in several partitions, too.

        Raises:
            ValueError: If a row has no ordering value.
        """
        kept = self.to_keep(options, is_global=is_global)
        return self if len(kept) == len(self) else self.numbered().take(kept)

    def numbered(self) -> Incoming:
        """Return the rows with their numbers."""
        return self if self.numbers is not None else replace(self, numbers=np.arange(len(self)))

    def to_keep(self, options: TableOptions, *, is_global: bool) -> Rows:
        """Return the numbers of the rows to keep, ascending; see `combined`."""
        column = precombine_of(options)
        if column not in self.rows.column_names:  # rows of keys alone have no ordering column
            column = None
        return rows_to_keep(
            self.keys,
            None if is_global else self.partitions,
            None if column is None else self.ordered(column),
            ties=TIES[options.version],
        )

    def ordered(self, name: str) -> pa.ChunkedArray:
        """Return the ordering column.

        Raises:
            ValueError: If a row has no ordering value.
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
    """A reader of given rows, as rows of a table.

    Args:
        given: Rows: an Arrow table, batches, an object with `__arrow_c_stream__`, or files, as
            `lookupstore.source.opening` takes them.
        known: Columns of the table.
        options: Options of the table.
        named: Whether a record key of one column contains its name. None: it does not.
        evolve: Whether to add new columns to the table, and to widen types.
        missing: Values for columns of the table that the rows lack. `keep`: stored rows keep their
            values; `null`: nulls. None: such rows raise an error.
        keeps: Whether the write may replace stored rows, whose values it could keep.
        ordering: Name of a column in which each row needs a value. None: no such column.
        errors: Collector of rows that cannot be written, which are left out. None: such rows raise
            an error.

    Raises:
        TypeError: If `given` has a form other than those above, or the type of a column does not
            fit the table's.
        ValueError: If a column is repeated, a new one is not allowed by `evolve`, or a missing one
            is not allowed by `missing`.
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
        def open_rows(rows: Any) -> Source:
            source = in_columns(rows, known.columns)
            if missing == KEEP and keeps and source.needing is not None:
                # A field that a row lacks is read as null, which would replace the stored value.
                # Rows without a key or an ordering value have errors of their own.
                optional = {IS_DELETED, *options.record_key, precombine_of(options) or IS_DELETED}
                needed = NeededFields(frozenset(optional), unless=IS_DELETED)
                source = source.needing(needed)
            if errors is None or source.with_misfits is None:
                return source
            return source.with_misfits()

        source = opened(given, open_rows)
        if source.has_misfits:
            source = replace(source, schema=source.schema.remove(len(source.schema) - 1))
        self._source = source
        self._options = options
        self._named = named
        self._ordering = ordering
        self._errors = errors
        self._evolve = evolve
        #: Schema of the table after the rows are written.
        self._fixed = _needed(options)
        self.schema: TableSchema = columns_after(
            self._source,
            known,
            self._fixed,
            evolve=evolve,
            key=options.record_key if keeps else (),
        )
        #: Columns of the table that the rows lack.
        # The flag of deletes is not one of them: rows without it are not deletes.
        self.missing: MissingColumns = MissingColumns.of(
            given_columns(self._source, self.schema.columns),
            (one for one in self.schema.columns if one.name != IS_DELETED),
        )
        check_missing(self.missing, missing, keeps=keeps)
        #: Columns whose values stored rows keep.
        self.kept: MissingColumns = self.missing if missing == KEEP else NOTHING_MISSING
        self._has_flags = IS_DELETED in self._source.schema.names
        #: Function that returns the number of rows without reading them, or None if that is not
        #: cheap.
        self.count_rows: Callable[[], int | None] = self._source.count_rows
        #: Number of rows that were read.
        self.read: int = 0

    def batches(self) -> Iterator[Incoming]:
        """Yield the rows a few at a time, once.

        Raises:
            ValueError: If a value does not fit the table's type, or a row has no record key.
        """
        wanted = [
            name
            for name in self._source.schema.names
            if name in self.schema.columns.names or name == IS_DELETED
        ]
        if self._source.has_misfits:
            wanted.append(MISFITS)
        for batch in self._source.batches(wanted):
            table = pa.Table.from_batches([batch])
            if self._errors is None:
                incoming = self.incoming(table, self.read)
            else:
                incoming = self._writable(table, self._errors)
            self.read += batch.num_rows
            yield incoming

    def check_order(self, kept: int) -> None:
        """Check that no row was dropped by an order that the source does not have.

        Args:
            kept: Number of rows left after combining rows with the same partition and key.

        Raises:
            ValueError: If a row was dropped.
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
        """Return the rows that can be written, and collect the others."""
        if self._source.has_misfits and table.column(MISFITS).null_count < len(table):
            return self.incoming(self._without_errors(table, errors))
        try:
            incoming = self.incoming(table)
            if self._ordering is not None:
                incoming.ordered(self._ordering)
        except ValueError:
            return self.incoming(self._without_errors(table, errors))
        return incoming

    def _without_errors(self, table: pa.Table, errors: RowErrors) -> pa.Table:
        """Return the given rows that can be written, and collect the others."""
        options, keyed = self._options, self._options.record_key
        left = _RowsLeft(table, self.read, errors, self._cast)
        fields = [self.schema.columns.field(name) for name in keyed]
        for field in fields:
            left.leave_out_misfits(field)

        def key(row: int) -> str:
            text: str = record_keys(left.cast(fields, row), keyed, named=self._named)[0].as_py()
            return text

        if self._source.has_misfits:

            def whole_key(row: int) -> str | None:
                # A value that is not of its type is null: a part of the key may be missing.
                parts = left.cast(fields, row).columns
                return None if any(part.null_count for part in parts) else key(row)

            reasons = enumerate(left.table.column(MISFITS).to_pylist())
            left.leave_out({row: one for row, one in reasons if one is not None}, whole_key)
        left.leave_out(dict.fromkeys(without_key(left.cast(fields), keyed), no_key(keyed)))

        for field in self.schema.columns:
            if field.name in table.column_names and field.name not in keyed:
                left.leave_out_misfits(field, key)
        if self._ordering is not None:
            reason = f"the ordering column {self._ordering!r} is null"
            (column,) = left.cast([self.schema.columns.field(self._ordering)]).columns
            nulls = np.flatnonzero(column.is_null().to_numpy()).tolist()
            left.leave_out(dict.fromkeys(nulls, reason), key)
        if options.partition_by:
            levels = [self.schema.columns.field(name) for name in options.partition_by]
            given = left.cast(levels)
            # Texts that are not times; without a check, nothing else can be invalid.
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
        """Convert rows with the given columns to rows of the table; see `batches`.

        Args:
            table: Rows with the given columns.
            first_row: Number of the first row, from 0, for errors. None: errors name no row.
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
        return cast_column(
            "rows", column, field, first_row=first_row, fixed=self._fixed, evolve=self._evolve
        )


class _RowsLeft:
    """Rows from which those that cannot be written are removed."""

    def __init__(self, table: pa.Table, first: int, errors: RowErrors, cast: _Cast) -> None:
        self._cast = cast
        self.table = table
        self._numbers = np.arange(first, first + table.num_rows)
        self._errors = errors

    def cast(self, fields: Sequence[pa.Field], row: int | None = None) -> pa.Table:
        """Return some columns of all rows, or of one, in the types of the table."""
        table = self.table if row is None else self.table.slice(row, 1)
        return pa.table({one.name: self._cast(table.column(one.name), one) for one in fields})

    def leave_out(
        self, bad: Mapping[int, str], key: Callable[[int], str | None] | None = None
    ) -> None:
        """Remove rows, and collect their errors.

        Args:
            bad: Reason for each row, by its number in `table`.
            key: Function that makes the record key of a row; None for a row without one. None: no
                row has a key.
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

    def leave_out_misfits(self, field: pa.Field, key: Callable[[int], str] | None = None) -> None:
        """Remove the rows whose value of a column does not fit the table; see `leave_out`."""
        column = self.table.column(field.name)
        bad = _failing(lambda *rows: self._cast(column.slice(*rows), field), len(column))
        self.leave_out(dict(bad), key)


def _unchecked(table: pa.Table, options: TableOptions) -> pa.DictionaryArray:
    return paths_of(table, options, check=False, first_row=None)


def _failing(
    attempt: Callable[[int, int], object], count: int, first: int = 0
) -> Iterator[tuple[int, str]]:
    """Yield the rows for which a function fails, with the reason, by bisection.

    Args:
        attempt: Function of the first of some rows and their number.
        count: Number of rows.
        first: Number of the first row.
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
    """Return the column that orders given and stored rows. None: the given row wins."""
    if options.merge_mode == EVENT_TIME and options.ordering:
        return options.ordering[0]
    return None


def precombine_of(options: TableOptions) -> str | None:
    """Return the column that orders rows of a batch. None: the last row wins.

    In tables of version 6, Hudi compares rows of a batch by this column in either merge mode,
    because `preCombine` of `OverwriteWithLatestAvroPayload` does. Only its merge with the stored
    row does not.
    """
    if options.version == 6 and options.ordering:
        return options.ordering[0]
    return ordering_of(options)


def _needed(options: TableOptions) -> frozenset[str]:
    """Return the columns that each row must have: those of key, folders and order."""
    column = precombine_of(options)
    return frozenset({*options.record_key, *options.partition_by, *([column] if column else [])})


class IncomingKeys:
    """A reader of given keys.

    Args:
        given: Keys: rows in any form that a write takes, of which only the columns of key and
            partition are read; or keys without names, see `named_columns`.
        columns: Columns of the table.
        options: Options of the table.
        named: Whether a record key of one column contains its name. None: it does not.
        is_global: Whether to ignore partitions.

    Raises:
        TypeError: If `given` are not keys, or the type of a column does not fit the table's.
        ValueError: If a column of the key is missing, or only some columns of the partition are
            given.
    """

    def __init__(
        self,
        given: Any,
        columns: pa.Schema,
        options: TableOptions,
        *,
        named: bool | None,
        is_global: bool = False,
    ) -> None:
        def open_keys(keys: Any) -> Source:
            try:
                return in_types(named_columns("keys", keys, columns, options), columns)
            except UnknownSourceError:
                names = key_columns(keys, options)
                raise unknown_form_error("keys", keys, names) from None
            except FileNotFoundError as error:
                if not isinstance(keys, str):
                    raise
                remedy = f"if it is a key, give a list of keys: [{keys!r}]"
                if _CONDITION.search(keys):
                    remedy = f"if it is a condition, pass it to delete as where={keys!r}"
                raise FileNotFoundError(f"{error}; {remedy}") from None

        self._source = source = opened(given, open_keys)
        self._options = options
        self._named = named
        given = given_columns(source, columns)
        names = given.names
        there = [name for name in options.partition_by if name in names]
        for name in options.partition_by:
            alike = [one for one in names if one.lower() == name.lower()]
            if alike and name not in alike:  # keys would be found in all partitions
                raise ValueError(
                    f"keys have the column {alike[0]!r}, but the partition column is {name!r}; "
                    "rename it, or leave it out to find the keys in all partitions"
                )
        # Columns of the key may also be columns of the partition, and do not show whether the other
        # partition columns were given.
        says = any(name not in options.record_key for name in there)
        if says and len(there) < len(options.partition_by):
            missing = [name for name in options.partition_by if name not in names]
            raise ValueError(
                f"keys have no column {missing[0]!r}; give all partition columns or none, such as "
                f"{columns_example(dict.fromkeys([*options.record_key, *options.partition_by]))}"
            )
        #: Whether keys were given with their partitions; otherwise the path of each is empty.
        self.has_partitions: bool = len(there) == len(options.partition_by) and not is_global
        wanted = [*options.record_key, *(there if self.has_partitions else [])]
        wanted = list(dict.fromkeys(wanted))
        for name in wanted:
            if name not in names:
                example = f"give all columns of the record key, such as {columns_example(wanted)}"
                raise ValueError(f"keys have no column {name!r}{meant(name, names, example)}")
            given_type, kind = given.field(name).type, columns.field(name).type
            if not is_castable(given_type, kind):
                raise type_error("keys", given.field(name), columns)
        self._schema = pa.schema([columns.field(name) for name in wanted])
        names = options.record_key if len(options.record_key) > 1 else ()
        #: Columns that are kept with the keys: the columns of a key of several, whose texts may be
        #: equal.
        self.columns: pa.Schema = pa.schema([columns.field(name) for name in names])
        #: Function that returns the number of keys without reading them, or None if that is not
        #: cheap.
        self.count_rows: Callable[[], int | None] = source.count_rows
        #: Number of keys that were read.
        self.read: int = 0

    def batches(self) -> Iterator[Incoming]:
        """Yield the keys a few at a time, once, with only the columns in `columns`.

        Raises:
            ValueError: If a value does not fit the table's type, or a record key is missing.
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
    """Read all keys and their partition paths, or None instead of these; see `IncomingKeys`."""
    keys = IncomingKeys(given, columns, options, named=named)
    whole = Incoming.joined(list(keys.batches()), pa.schema([]))
    return whole.keys, whole.partitions if keys.has_partitions else None
