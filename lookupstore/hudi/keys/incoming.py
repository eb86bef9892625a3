"""Rows as a caller gives them, to rows as a table has them: columns, types, keys, folders.

Nothing is looked up here, and nothing written.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lookupstore.arrow.types import concat, plain_type, unwrap
from lookupstore.hudi.keys.dedupe import TIES, rows_to_keep
from lookupstore.hudi.keys.key_generator import paths_of, record_keys
from lookupstore.hudi.keys.table_schema import TableSchema, is_wider
from lookupstore.hudi.meta_columns import META_COLUMNS
from lookupstore.hudi.options import EVENT_TIME, TableOptions
from lookupstore.source.source import Source, open_source

_EVOLVE = "pass options=WriteOptions(evolve=True)"

#: A column that says of a row that it is to be deleted, in the table or only in what is given.
IS_DELETED = "_hoodie_is_deleted"

Rows = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Incoming:
    """Rows to write.

    Attributes:
        rows: the table's data columns, in its types.
        keys: record key of each.
        partitions: partition path of each.
        deleted: which of them delete a row; None: none.
    """

    rows: pa.Table
    keys: pa.ChunkedArray
    partitions: pa.DictionaryArray
    deleted: npt.NDArray[np.bool_] | None = None

    def __len__(self) -> int:
        return int(self.rows.num_rows)

    def take(self, rows: Rows) -> Incoming:
        """Return some of the rows, in the order in which they are named."""
        indices = pa.array(rows)
        return Incoming(
            self.rows.take(indices),
            self.keys.take(indices),
            self.partitions.take(indices),
            None if self.deleted is None else self.deleted[rows],
        )

    def without_deleted(self) -> Incoming:
        """Return the rows that do not delete a row."""
        return self if self.deleted is None else self.take(np.flatnonzero(~self.deleted))

    def deduplicated(self, options: TableOptions, *, everywhere: bool) -> Incoming:
        """Return the rows that stay where several have one partition and key.

        Args:
            options: of the table.
            everywhere: whether rows of several partitions count as those of one key, too.

        Raises:
            ValueError: a row has no ordering value.
        """
        kept = self.to_keep(options, everywhere=everywhere)
        return self if len(kept) == len(self) else self.take(kept)

    def to_keep(self, options: TableOptions, *, everywhere: bool) -> Rows:
        """Return the numbers of the rows that stay, ascending; see `deduplicated`."""
        column = precombine_of(options)
        return rows_to_keep(
            self.keys,
            None if everywhere else self.partitions,
            None if column is None else _ordered(self.rows, column),
            ties=TIES[options.version],
        )


class IncomingRows:
    """A reader of rows that a caller gives, as rows of a table.

    Args:
        given: an Arrow table, batches, anything with `__arrow_c_stream__`, or files: what
            `lookupstore.source.source` takes.
        known: columns of the table.
        options: of the table.
        named: whether a record key of one column has its name.
        evolve: whether new columns and wider types become those of the table.

    Raises:
        TypeError: `given` gives no rows, or a column is not of the table's type.
        ValueError: a column comes twice, is new, or is missing and may not be null.
    """

    def __init__(
        self,
        given: Any,
        known: TableSchema,
        options: TableOptions,
        *,
        named: bool | None,
        evolve: bool,
    ) -> None:
        self._source = open_source(given)
        self._options = options
        self._named = named
        #: The table's columns, after the rows are written.
        self.schema: TableSchema = _schema(self._source, known, options, evolve)
        self._has_flags = IS_DELETED in self._source.schema.names

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
            yield self.incoming(pa.Table.from_batches([batch]))

    def all(self) -> Incoming:
        """Read all rows; see `batches`."""
        parts = list(self.batches())
        if not parts:
            empty = pa.table(
                [pa.array([], field.type) for field in self._source.schema],
                self._source.schema.names,
            )
            return self.incoming(empty)
        flags = None
        if self._has_flags:
            flags = np.concatenate([part.deleted for part in parts])
        coded = pa.chunked_array([part.partitions for part in parts]).unify_dictionaries()
        keys = concat([chunk for part in parts for chunk in part.keys.chunks], pa.string())
        # As many chunks would each of them be looked through for each row that is taken.
        columns = [
            [chunk for part in parts for chunk in part.rows.column(at).chunks]
            for at in range(len(self.schema.columns))
        ]
        parts.clear()
        whole = []
        for field in self.schema.columns:
            # The parts of a column can go before those of the next are put together.
            whole.append(concat(columns.pop(0), field.type))
        return Incoming(
            pa.table(whole, schema=self.schema.columns),
            pa.chunked_array([keys]),
            concat(coded.chunks, coded.type),
            flags,
        )

    def incoming(self, table: pa.Table) -> Incoming:
        """Return rows of the columns that were given as rows of the table; see `batches`."""
        options = self._options
        columns = []
        for field in self.schema.columns:
            if field.name in table.column_names:
                columns.append(_cast("rows", table.column(field.name), field))
            else:
                columns.append(pa.chunked_array([pa.nulls(table.num_rows, field.type)]))
        rows = pa.Table.from_arrays(columns, schema=self.schema.columns)
        flags = None
        if self._has_flags:
            deleted = table.column(IS_DELETED).combine_chunks().fill_null(False)
            flags = deleted.to_numpy(zero_copy_only=False).astype(bool)
        return Incoming(
            rows,
            record_keys(rows, options.record_key, named=self._named),
            paths_of(rows, options),
            flags,
        )


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


def _schema(source: Source, known: TableSchema, options: TableOptions, evolve: bool) -> TableSchema:
    """Return the columns of the table after rows of a source were written to it."""
    given, columns = source.schema, known.columns
    if len(set(given.names)) < len(given.names):
        raise ValueError(f"rows have a column twice: {', '.join(given.names)}; give each one name")
    column = precombine_of(options)
    needed = {*options.record_key, *options.partition_by, *([column] if column else [])}
    for name in columns.names:
        if name in needed and name not in given.names:
            raise ValueError(f"rows have no column {name!r}, which is required; add it")
    others = []
    for field in given:
        at = columns.get_field_index(field.name)
        if field.name in META_COLUMNS:
            continue  # rows that were read from a table
        if field.name == IS_DELETED:
            if not pa.types.is_boolean(plain_type(field.type)):
                raise TypeError(f"rows: {IS_DELETED} is {field.type}; give bool")
            if at < 0:
                continue
        if at < 0 or not _fits(field.type, columns.field(at).type):
            others.append(field)
    if not evolve:
        for field in others:
            at = columns.get_field_index(field.name)
            if at < 0 or not _may_fit(field.type, columns.field(at).type):
                raise _refused_error("rows", field, columns, needed)
    if not evolve or not others:
        return known
    # Where wider is not what a type is, the table keeps its own, and the rows do not fit.
    schema = known.evolved(pa.schema(others), needed, "rows")
    for field in others:
        if not _fits(field.type, schema.columns.field(field.name).type):
            raise _no_value_of_error("rows", field, columns)
    return schema


def _refused_error(
    what: str, field: pa.Field, columns: pa.Schema, fixed: Collection[str]
) -> Exception:
    """Return the error of a column that evolving the table may help.

    Args:
        what: has it: rows.
        field: the column.
        columns: of the table.
        fixed: those of which keys, folders and order are made.
    """
    at = columns.get_field_index(field.name)
    if at < 0:
        return ValueError(
            f"{what}: the table has no column {field.name!r}; to add it, {_EVOLVE}; to leave it "
            f"out, drop it from the {what}"
        )
    kind = columns.field(at).type
    if is_wider(field.type, kind, exact=field.name in fixed):
        return TypeError(
            f"{what}: {field.name!r} is {field.type}, in the table {kind}; to widen it, {_EVOLVE}"
        )
    return _no_value_of_error(what, field, columns)


def _no_value_of_error(what: str, field: pa.Field, columns: pa.Schema) -> TypeError:
    kind = columns.field(field.name).type
    return TypeError(f"{what}: {field.name!r} is {field.type}; give {kind}")


def _may_fit(given: pa.DataType, kind: pa.DataType) -> bool:
    """Return whether values of a wider type may be narrow enough, of which each is looked at."""
    given, types = plain_type(given), pa.types
    if types.is_fixed_size_binary(kind):
        # Some engines, Spark among them, have no type for bytes of one length.
        return bool(types.is_binary(given) or types.is_large_binary(given))
    return bool(types.is_integer(given) and types.is_integer(kind))


def _fits(given: pa.DataType, kind: pa.DataType) -> bool:
    """Return whether a column's values become values of a type, or are refused one by one."""
    given, types = plain_type(given), pa.types
    if given == kind or types.is_null(given):
        return True
    if types.is_integer(kind) and types.is_integer(given):
        room = kind.bit_width - int(types.is_unsigned_integer(given))
        return bool(given.bit_width <= room)
    if types.is_timestamp(kind) and types.is_timestamp(given):
        return given.tz is not None  # others fail at what has no zone
    if types.is_decimal(kind) and types.is_decimal(given):
        return is_wider(kind, given)
    if types.is_string(kind):
        return bool(types.is_large_string(given))
    if types.is_binary(kind):
        return bool(
            types.is_large_binary(given)
            or types.is_string(given)
            or types.is_large_string(given)
            or types.is_fixed_size_binary(given)
        )
    if types.is_date32(kind):
        return bool(types.is_date(given))
    if types.is_time(kind):
        return bool(types.is_time(given))
    if types.is_float64(kind):
        return bool(types.is_floating(given) or (types.is_integer(given) and given.bit_width <= 32))
    if types.is_struct(kind) and types.is_struct(given):
        known = {field.name: field.type for field in kind}
        return all(field.name in known and _fits(field.type, known[field.name]) for field in given)
    if types.is_list(kind) and (
        types.is_list(given) or types.is_large_list(given) or types.is_fixed_size_list(given)
    ):
        return _fits(given.value_type, kind.value_type)
    if types.is_map(kind) and types.is_map(given):
        return _fits(given.key_type, kind.key_type) and _fits(given.item_type, kind.item_type)
    return False


def _cast(what: str, column: pa.ChunkedArray, field: pa.Field) -> pa.ChunkedArray:
    chunks = []
    for chunk in column.chunks:
        plain = unwrap(chunk)
        try:
            chunks.append(plain if plain.type == field.type else plain.cast(field.type))
        except pa.ArrowException as error:
            # Only integers have a wider type whose values are looked at one by one.
            widens = what == "rows" and is_wider(plain.type, field.type, exact=True)
            remedy = f"; to widen the column, {_EVOLVE}" if widens else ""
            raise ValueError(
                f"{what}: {field.name!r} has a value that does not fit {field.type}: "
                f"{error}{remedy}"
            ) from error
    return pa.chunked_array(chunks, field.type)


def _ordered(rows: pa.Table, name: str) -> pa.ChunkedArray:
    column = rows.column(name)
    if column.null_count:
        at = pc.index(column.is_null(), True).as_py()
        raise ValueError(
            f"row {at}: the ordering column {name!r} is null; give a value, or leave the row out"
        )
    return column


def read_keys(
    given: Any, columns: pa.Schema, options: TableOptions, *, named: bool | None
) -> tuple[pa.ChunkedArray, pa.DictionaryArray | None]:
    """Read keys that a caller gives.

    Args:
        given: rows as for a write, of which the columns of key and partition are looked at; for a
            key of one column also an Arrow array of it, or a list of values.
        columns: of the table.
        options: of the table.
        named: whether a record key of one column has its name.

    Returns:
        the record keys, and the partition path of each: None if `given` lacks those columns.

    Raises:
        TypeError: `given` are not keys, or a column is not of the table's type.
        ValueError: a column of the key is missing, or some of the partition's are.
    """
    source = open_source(_key_table(given, options.record_key, columns))
    names = source.schema.names
    partition_by = [name for name in options.partition_by if name in names]
    # Columns of the key may be columns of the partition as well, and say nothing about the others.
    says = any(name not in options.record_key for name in partition_by)
    if says and len(partition_by) < len(options.partition_by):
        missing = [name for name in options.partition_by if name not in names]
        raise ValueError(f"keys have no column {missing[0]!r}; give all partition columns or none")
    if len(partition_by) < len(options.partition_by):
        partition_by = []
    wanted = list(dict.fromkeys([*options.record_key, *partition_by]))
    for name in wanted:
        if name not in names:
            raise ValueError(f"keys have no column {name!r}; give all columns of the record key")
        given_type, kind = source.schema.field(name).type, columns.field(name).type
        if not (_fits(given_type, kind) or _may_fit(given_type, kind)):
            raise _no_value_of_error("keys", source.schema.field(name), columns)
    schema = pa.schema([columns.field(name) for name in wanted])
    table = pa.Table.from_batches(
        source.batches(wanted), pa.schema([source.schema.field(name) for name in wanted])
    )
    table = pa.Table.from_arrays(
        [_cast("keys", table.column(one.name), one) for one in schema], wanted
    )
    keys = record_keys(table, options.record_key, named=named)
    if len(partition_by) < len(options.partition_by):
        return keys, None
    return keys, paths_of(table, options)


def _key_table(given: Any, fields: Sequence[str], columns: pa.Schema) -> Any:
    """Return keys as rows, where their values are given."""
    is_column = isinstance(given, (pa.Array, pa.ChunkedArray)) and not pa.types.is_struct(
        given.type
    )
    is_values = isinstance(given, list) and not any(
        isinstance(one, pa.RecordBatch) for one in given
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
