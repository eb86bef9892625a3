"""Stores in DuckDB SQL: a function that looks up keys, and a table of that name."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as pds

from lookupstore.extras import require
from lookupstore.keys.at_hand import rows_at_hand
from lookupstore.keys.joins import look_up, one_array
from lookupstore.keys.lookups import Lookups, value_columns
from lookupstore.keys.schema import KeySchema

require("duckdb", "lookupstore.duckdb")

import duckdb
from duckdb.func import FunctionNullHandling, PythonUDFType

__all__ = ["register"]

_POSITIONAL = inspect.Parameter.POSITIONAL_ONLY
#: Wider types of the function's parameters for narrower keys: DuckDB widens an argument, and a
#: value that no key can have finds nothing.
_WIDER = {
    **dict.fromkeys(
        ("TINYINT", "SMALLINT", "INTEGER", "UTINYINT", "USMALLINT", "UINTEGER"), "BIGINT"
    ),
    "FLOAT": "DOUBLE",
    "TIMESTAMP_S": "TIMESTAMP",
    "TIMESTAMP_MS": "TIMESTAMP",
}


def register(
    con: duckdb.DuckDBPyConnection,
    name: str,
    store: Lookups,
    *,
    columns: Sequence[str] | None = None,
) -> None:
    """Register a store with a connection, as a function and a table of one name.

    The function takes a value for each key column, in the order of the key, and returns a STRUCT of
    the value columns. The result is NULL if there is no such key, or if a value of the key is NULL.
    DuckDB casts the arguments, as for any function. The table is a temporary view of the key and
    value columns. A query reads only the columns that it names. If a store is small and its files
    are local and not compressed, `register` reads all of it at once. Registering a name again
    replaces function and table.

    Args:
        con: DuckDB connection. Other connections to its database see the function but not the
            table. To use the store there, register another name.
        name: Name of the function and the table.
        store: Open store, `ColumnarFiles` or `TableLookup`. Keep it open while it is registered.
        columns: Names of the value columns, in this order. Default: all.

    Raises:
        TypeError: If `store` is not an open store, or DuckDB (or a function of DuckDB) does not
            have the type of a column.
        KeyError: If there is no such value column.
        ValueError: If there is no value column to return.
        duckdb.Error: If the name belongs to a function of DuckDB, or of another connection.
        CorruptionError: If the bytes of a small store are damaged.

    >>> import tempfile, lookupstore
    >>> planes = pa.table({"tailnum": ["N1", "N2"], "seats": [55, 182]})
    >>> store = lookupstore.build(planes, tempfile.mkdtemp(), key="tailnum")
    >>> con = duckdb.connect()
    >>> register(con, "planes", store)
    >>> con.sql("SELECT planes('N2').seats, planes('N9')").fetchall()
    [(182, None)]
    >>> con.sql("SELECT tailnum FROM planes WHERE seats < 100").fetchall()
    [('N1',)]
    """
    if not isinstance(store, Lookups):
        raise TypeError(
            f"store is {type(store).__name__}; give an open store: lookupstore.open(PATH); of a "
            "Hudi table, lookupstore.hudi.TableLookup(PATH)"
        )
    names = value_columns(store, columns)
    if not names:
        raise ValueError(f"{store.path}: a STRUCT has a column at least; give value columns")
    fields = [store.value_schema.field(one) for one in names]
    kinds = {one.name: _type_of(con, one, "leave it out of columns=") for one in fields}
    takes = [_parameter_of(con, store, at) for at in range(len(store.key))]
    with suppress(duckdb.InvalidInputException):  # there was no such function
        con.remove_function(name)
    con.create_function(
        name,
        _function(store, fields),
        takes,
        duckdb.struct_type(kinds),
        type=PythonUDFType.ARROW,
        null_handling=FunctionNullHandling.SPECIAL,
    )
    rows = rows_at_hand(store, names)
    con.register(name, _Rows(store, names) if rows is None else rows)


def _function(store: Lookups, fields: Sequence[pa.Field]) -> Callable[..., pa.Array]:
    """Return the function that DuckDB calls with thousands of keys, from any thread."""
    names = [field.name for field in fields]

    def answers(*keys: Any) -> pa.Array:
        found, values = look_up(store, [one_array(key) for key in keys], names)
        arrays = [one_array(column) for column in values]
        return pa.StructArray.from_arrays(arrays, fields=fields, mask=pc.invert(found))

    # DuckDB counts the parameters.
    takes = [inspect.Parameter(f"key{at}", _POSITIONAL) for at in range(len(store.key))]
    answers.__signature__ = inspect.Signature(takes)  # type: ignore[attr-defined]
    return answers


def _type_of(con: duckdb.DuckDBPyConnection, field: pa.Field, remedy: str) -> Any:
    """Return the type of a column in DuckDB, or raise TypeError."""
    try:
        return con.from_arrow(pa.schema([field]).empty_table()).types[0]
    except duckdb.Error as error:
        raise TypeError(
            f"the column {field.name!r} is {field.type}, which DuckDB does not have; {remedy}"
        ) from error


def _parameter_of(con: duckdb.DuckDBPyConnection, store: Lookups, at: int) -> Any:
    """Return the parameter type of the function for a key column, or raise TypeError."""
    field = store.key_schema.schema.field(at)
    remedy = "as it is a key column, look it up in Python: store.join(relation, ...)"
    kind = str(_type_of(con, field, remedy))
    kind = _WIDER.get(kind, kind)
    if pa.types.is_decimal(field.type):
        # DuckDB rounds numbers with more digits: with spare digits, they stay numbers that no key
        # can have.
        spare = 38 - field.type.precision
        kind = f"DECIMAL(38, {field.type.scale + spare // 2})"
    nothing = con.sql(f"SELECT NULL::{kind} WHERE false")
    given = pa.RecordBatchReader.from_stream(nothing).schema.field(0)
    try:
        KeySchema(pa.schema([field])).encode_masked([pa.array([], given.type)])
    except TypeError as error:
        raise TypeError(
            f"the column {field.name!r} is {field.type}, which a function of DuckDB gets as "
            f"{given.type}; {remedy}"
        ) from error
    return kind


class _Rows(pds.Dataset):  # type: ignore[misc]
    """An Arrow dataset that scans a store and reads only the wanted columns.

    Args:
        store: Open store, files or table with the rows.
        names: Names of the value columns that the dataset has.
    """

    def __init__(self, store: Lookups, names: Sequence[str]) -> None:
        self._store = store
        self._names = list(names)

    @property
    def schema(self) -> pa.Schema:
        """Return the schema: the key columns, then the value columns."""
        values = (self._store.value_schema.field(name) for name in self._names)
        return pa.schema([*self._store.key_schema.schema, *values])

    def scanner(
        self, columns: Sequence[str] | None = None, filter: Any = None, **options: Any
    ) -> _Scan:
        """Return a scan of all rows.

        Args:
            columns: Names of the columns to return. None: all columns.
            filter: Arrow expression that is true for the rows to return. It may use columns that
                are not returned. None: all rows.
            options: Options of Arrow's scanner, which are not needed.
        """
        read = self._names if columns is None else [one for one in self._names if one in columns]
        if filter is not None:
            read = [one for one in self._names if one in read or self._is_in(one, filter)]
        reader = self._store.scan(columns=read)
        return _Scan(reader, reader.schema.names if columns is None else list(columns), filter)

    def _is_in(self, name: str, condition: Any) -> bool:
        """Return whether a condition uses a column."""
        others = self.schema.remove(self.schema.get_field_index(name)).empty_table()
        try:
            pds.Scanner.from_batches(others.to_reader(), filter=condition)
        except pa.ArrowInvalid:
            return True
        return False


class _Scan:
    """A scan that the threads of a query read, and no other thread.

    A scanner of Arrow reads ahead in a thread of its own, also after a LIMIT. That thread would
    abort the process when the interpreter shuts down.

    Args:
        reader: Rows of the store.
        columns: Names of the columns to return.
        condition: Arrow expression that is true for the rows to return. None: all rows.
    """

    def __init__(self, reader: pa.RecordBatchReader, columns: list[str], condition: Any) -> None:
        self._reader = reader
        self._columns = columns
        self._condition = condition

    def to_reader(self) -> pa.RecordBatchReader:
        """Return the wanted columns of the wanted rows."""
        given = self._reader.schema
        schema = pa.schema([given.field(name) for name in self._columns])
        return pa.RecordBatchReader.from_batches(schema, self._batches())

    def _batches(self) -> Iterator[pa.RecordBatch]:
        for batch in self._reader:
            if self._condition is None:
                yield batch.select(self._columns)
            else:
                rows = pa.Table.from_batches([batch]).filter(self._condition)
                yield from rows.select(self._columns).to_batches()
