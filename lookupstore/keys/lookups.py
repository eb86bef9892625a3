"""The common base of stores, columnar files and Hudi tables: look up rows by key."""

from __future__ import annotations

import warnings
from abc import abstractmethod
from collections.abc import (
    Callable,
    ItemsView,
    Iterator,
    KeysView,
    Mapping,
    Sequence,
    ValuesView,
)
from types import TracebackType
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, overload

import pyarrow as pa

from lookupstore.arrow.outgoing import ArrowRows
from lookupstore.errors import listed, meant
from lookupstore.keys.arguments import Column
from lookupstore.keys.facts import facts_of, mapped
from lookupstore.keys.joins import Join, On, check_adds_nothing, how_of, look_up_all
from lookupstore.keys.schema import KeySchema
from lookupstore.keywords import JOIN_ADVICE, keyword_only, with_advice

if TYPE_CHECKING:  # in typing since Python 3.11
    from typing_extensions import Self

C = TypeVar("C")
D = TypeVar("D")
R = TypeVar("R")


class Described(Protocol):
    """A record that `info` or `verify` returns, with attributes of its own."""

    def to_json(self) -> dict[str, Any]:
        """Return the record as plain JSON values."""
        ...


class Lookups(ArrowRows):
    """Rows by key: for one key, for many, or in the order of the keys.

    They have all methods of a mapping from keys to dicts, in the order of the keys. They are not a
    `collections.abc.Mapping`: libraries that want rows take a mapping for columns by name, and do
    not read its Arrow stream.

    Attributes:
        path: Path or URI of the store, files or table, without credentials.
    """

    path: str

    @property
    def _calls_in_threads(self) -> bool:
        """Return whether calls in several threads do not wait for each other.

        They must not read twice, either. This is true if lookups use bytes in place, in memory that
        needs no fetching.
        """
        return False

    @property
    @abstractmethod
    def key_schema(self) -> KeySchema:
        """Return the key columns and their encoding."""

    @property
    @abstractmethod
    def value_schema(self) -> pa.Schema:
        """Return the value columns."""

    @property
    @abstractmethod
    def num_rows(self) -> int:
        """Return the number of rows."""

    @abstractmethod
    def contains(self, keys: Any) -> pa.BooleanArray:
        """Return whether each of many keys is stored, as Arrow booleans without nulls.

        Raises: The errors of `lookup`.
        """

    @abstractmethod
    def info(self) -> Described:
        """Describe the store, files or table."""

    @abstractmethod
    def verify(self, *, progress: bool | None = None) -> Described:
        """Read and check all stored bytes.

        Args:
            progress: Whether to show a progress bar. Default: after a second, if standard error is
                a terminal, or in a notebook.

        Raises:
            CorruptionError: If something is damaged. The error names the first place.
            StaleStoreError: If a file is gone, or was replaced.
        """

    @abstractmethod
    def close(self) -> None:
        """Close all files. Closing again does nothing."""

    @abstractmethod
    def _lookup(self, keys: Any, names: Sequence[str]) -> tuple[pa.BooleanArray, pa.Table]:
        """Return which of many keys are stored, and value columns of the row at each."""

    @abstractmethod
    def _scan(
        self, names: Sequence[str], start: bytes | None, stop: bytes | None, reverse: bool
    ) -> Iterator[pa.RecordBatch]:
        """Return the rows of a range of encoded keys: the key columns, then value columns."""

    def _python_rows(self) -> Iterator[tuple[pa.RecordBatch, list[dict[str, Any]]]]:
        """Yield the key columns of all rows in key order, and their value columns as dicts."""
        names = self.value_schema.names
        for batch in self.scan():
            yield batch.drop_columns(names), batch.select(names).to_pylist()

    def lookup(
        self, keys: Any, columns: Sequence[str] | None = None, *, found: bool | str = False
    ) -> pa.Table:
        """Return the value columns at many keys: row i for key i, nulls for a missing key.

        Args:
            keys: Keys in any order, repeated or not, in any of the forms of
                `lookupstore.keys.arguments`.
            columns: Names of the value columns to read, in this order. Default: all.
            found: Whether to append a boolean column `found`, which distinguishes a missing key
                from stored nulls. A string appends the column under that name.

        Raises:
            TypeError: If the keys have a wrong type or form. The error names the right one.
            KeyError: If there is no such value column, or no such key field in `keys`.
            ValueError: If a value column has the name of the column `found`, or a key is in several
                files although only one row may have it.
            CorruptionError: If the stored bytes are damaged.
            StaleStoreError: If a file is gone, or was replaced.
            DiskQuotaError: If the files for a lookup do not fit into the quota of the host.
        """
        return self._answered(columns, found, lambda names: self._lookup(keys, names))

    def _answered(
        self,
        columns: Sequence[str] | None,
        found: bool | str,
        look: Callable[[Sequence[str]], tuple[pa.BooleanArray, pa.Table]],
    ) -> pa.Table:
        """Return the result of `lookup`, made from a function that reads value columns."""
        names = value_columns(self, columns)
        mark = found if isinstance(found, str) else "found"
        if found and mark in names:
            raise ValueError(
                f"found={found!r}: there is a value column {mark!r}; give another name"
            )
        present, table = look(names)
        if names:
            return table.append_column(mark, present) if found else table
        # An Arrow table knows its length by its columns, until the last one is deselected.
        table = pa.table({mark: present})
        return table if found else table.select([])

    @with_advice(JOIN_ADVICE.get)
    def join(
        self,
        rows: R,
        on: On,
        how: str = "left",
        columns: Sequence[str] | None = None,
        prefix: str | None = None,
        *,
        found: str | None = None,
    ) -> R:
        """Join rows by key, with the arguments of `lookupstore.spark.lookup_join`.

        Rows may repeat keys. A null in the key matches nothing, not even a null key of the store,
        and neither does a value outside the key's type, such as 2**40 for an int32 key. Rows keep
        their order, and pandas its index.

        Args:
            rows: Rows to join: a pandas DataFrame (its index may hold the key), a polars DataFrame
                or LazyFrame, an Arrow table, record batch or RecordBatchReader, a DuckDB relation,
                a structured array of NumPy, or a dict of NumPy arrays.
            on: Names of the columns of `rows` that hold the key: one name, or several in any order,
                if the key columns have the same names; otherwise a dict from column of `rows` to
                key column. Every key column is needed.
            how: Kind of join. `left` keeps every row, with nulls where the key is missing; `inner`
                keeps rows whose key is found; `semi` keeps the same rows without columns of the
                store; `anti` keeps rows whose key is not found.
            columns: Names of the value columns to append, in this order. Default: all.
            prefix: Prefix for the name of each appended value column. Default: no prefix.
            found: Name of a boolean column to append as well, which tells whether the key was
                found. Default: no such column.

        Returns:
            Joined rows of the same kind as `rows`, with the columns of `rows` and then the value
            columns. A reader and a LazyFrame are joined as they are read.

        Raises:
            TypeError: If the rows are of another kind, or a column is of another kind than its key
                column.
            KeyError: If the rows, the key or the store do not have a column.
            ValueError: If `how` is unknown, or rows and store share a name. The error names the
                remedy.

        It also raises every error of `lookup`.

        >>> import tempfile, lookupstore
        >>> planes = pa.table({"tailnum": ["N1", "N2"], "seats": [55, 182]})
        >>> store = lookupstore.build(planes, tempfile.mkdtemp(), key="tailnum")
        >>> flights = pa.table({"flight": [1, 2, 3], "plane": ["N2", None, "N1"]})
        >>> store.join(flights, on={"plane": "tailnum"})["seats"].to_pylist()
        [182, None, 55]
        >>> store.join(flights, {"plane": "tailnum"}, "anti").to_pylist()
        [{'flight': 2, 'plane': None}]
        """
        kind = how_of(how)
        check_adds_nothing(kind, columns=columns, prefix=prefix, found=found)
        names = [] if kind in ("semi", "anti") else value_columns(self, columns)
        facts = facts_of(rows)
        join = Join.planned(self, names, facts.names, on, kind, prefix, found, facts.fold)
        join.check_kinds(facts.key_kinds(join))
        joined: R = facts.joined(join) if join.asks else rows
        return joined

    def map(self, keys: C, column: str) -> C:
        """Return a value column at a column of keys, as a column of the same kind.

        A null or a missing key gives null, or NaN where NumPy and pandas have no other null.

        Args:
            keys: Keys: an Arrow array or chunked array, a pandas Series (its index is kept) or
                Index, a polars Series, a NumPy array or a list.
            column: Name of the value column. A returned Series has this name.

        Raises:
            TypeError: If the keys are of another kind, or have values of another type than the key.
            KeyError: If there is no such value column.
            ValueError: If the key has several fields. Use `join` instead.

        It also raises every error of `lookup`.

        >>> import tempfile, lookupstore
        >>> planes = pa.table({"tailnum": ["N1", "N2"], "seats": [55, 182]})
        >>> store = lookupstore.build(planes, tempfile.mkdtemp(), key="tailnum")
        >>> store.map(["N2", "N9", None], "seats")
        [182, None, None]
        """
        if len(self.key) > 1:
            raise ValueError(
                f"map takes the keys of one column, and the key is {list(self.key)}; use join"
            )
        if not isinstance(column, str):
            raise TypeError(f"column is {column!r}; give the name of one value column")
        names = value_columns(self, column)

        def look(given: Column) -> pa.ChunkedArray:
            return look_up_all(self, [given], names)[1][0]

        answers: C = mapped(keys, look, column)
        return answers

    @keyword_only
    def scan(
        self,
        *,
        start: Any = None,
        stop: Any = None,
        prefix: Any = None,
        starts_with: str | bytes | None = None,
        columns: Sequence[str] | None = None,
        reverse: bool = False,
    ) -> pa.RecordBatchReader:
        """Read rows in key order: the key columns, then the value columns.

        Args:
            start: First key, included. A tuple may have only the first fields of the key. Default:
                the first key of the store.
            stop: Key before which to stop. Default: after the last key.
            prefix: Values of the first key fields that the rows must have: a tuple, or one value
                for the first field. Default: all rows.
            starts_with: Text or bytes with which the key field after those of `prefix` (without
                `prefix`: the first one) must begin. Default: all rows.
            columns: Names of the value columns to read, in this order. Default: all.
            reverse: Whether to read from the greatest key to the least.

        Raises:
            TypeError: If a key has a wrong type, a list is passed as a key, or an argument is
                passed without its name.
            KeyError: If there is no such value column.
            ValueError: If `prefix` or `starts_with` is given together with `start` or `stop`.
            CorruptionError: If the stored bytes are damaged (when they are reached).

        Warns:
            UserWarning: If no key has the text or bytes at the end of `prefix`, but some begin with
                them.

        >>> import tempfile, lookupstore
        >>> table = pa.table({"city": ["Bath", "Bath", "Bern"], "day": [1, 2, 1]})
        >>> store = lookupstore.build(table, tempfile.mkdtemp(), key=["city", "day"])
        >>> store.scan(prefix="Bath").read_all()["day"].to_pylist()
        [1, 2]
        >>> store.scan(starts_with="B", reverse=True).read_all()["city"].to_pylist()
        ['Bern', 'Bath', 'Bath']
        """
        names = value_columns(self, columns)
        key_schema = self.key_schema
        bounds: tuple[bytes | None, bytes | None] | None = (None, None)
        wider: tuple[bytes | None, bytes | None] | None = None
        whole: tuple[Any, ...] = ()
        if prefix is not None or starts_with is not None:
            if start is not None or stop is not None:
                raise ValueError(
                    "start or stop is given with prefix or starts_with; give one or the other"
                )
            whole = () if prefix is None else key_schema.leading(prefix, "prefix")
            bounds = key_schema.encode_prefix(whole, starts_with)
            if starts_with is None and whole and isinstance(whole[-1], (str, bytes)):
                wider = key_schema.encode_prefix(whole[:-1], whole[-1])
        elif start is not None or stop is not None:
            bounds = key_schema.encode_bounds(start, stop)
        fields = [*key_schema.schema, *(self.value_schema.field(name) for name in names)]
        schema = pa.schema(fields)
        # No key can hold these values, so the range is empty.
        low, high = (b"", b"") if bounds is None else bounds
        batches = self._scan(names, low, high, reverse)
        if wider is not None:
            batches = self._hinted(batches, wider, whole)
        return pa.RecordBatchReader.from_batches(schema, batches)

    def _hinted(
        self,
        batches: Iterator[pa.RecordBatch],
        wider: tuple[bytes | None, bytes | None],
        prefix: tuple[Any, ...],
    ) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a prefix, and warn if only longer values begin with it."""
        found = False
        for batch in batches:
            found = found or batch.num_rows > 0
            yield batch
        if found:
            return
        if any(batch.num_rows for batch in self._scan([], *wider, False)):
            name = self.key[len(prefix) - 1]
            before = f"prefix={prefix[:-1]!r}, " if prefix[:-1] else ""
            warnings.warn(
                f"{self.path}: no row has {name} = {prefix[-1]!r}, but some begin with it: prefix= "
                f"takes whole values; for those give {before}starts_with={prefix[-1]!r}",
                stacklevel=2,
            )

    @property
    def key(self) -> tuple[str, ...]:
        """Return the names of the key columns, in the order of the key."""
        return tuple(self.key_schema.names)

    @property
    def schema(self) -> pa.Schema:
        """Return the key columns and then the value columns."""
        return pa.schema([*self.key_schema.schema, *self.value_schema])

    def __len__(self) -> int:
        return self.num_rows

    def __iter__(self) -> Iterator[Any]:
        """Yield the keys in key order, as tuples if they have several fields."""
        for batch in self.scan(columns=[]):
            yield from _keys_of(batch)

    def keys(self) -> KeysView[Any]:
        """Return the keys, in key order, as a dict does."""
        return KeysView(self)

    def values(self) -> ValuesView[dict[str, Any]]:
        """Return the rows without their keys, in key order, as a dict does."""
        return _Rows(self)

    def items(self) -> ItemsView[Any, dict[str, Any]]:
        """Return pairs of key and row, in key order, as a dict does."""
        return _Pairs(self)

    def _reader(self, **scan: Any) -> pa.RecordBatchReader:
        return self.scan(**scan)

    def _key_names(self) -> tuple[str, ...]:
        return self.key

    @overload
    def get(
        self, key: Any, default: None = None, columns: Sequence[str] | None = None
    ) -> dict[str, Any] | None: ...
    @overload
    def get(
        self, key: Any, default: D, columns: Sequence[str] | None = None
    ) -> dict[str, Any] | D: ...
    def get(
        self, key: Any, default: Any = None, columns: Sequence[str] | None = None
    ) -> dict[str, Any] | Any:
        """Return the value columns at one key, or a default.

        Args:
            key: Value of the key field. For several fields: a tuple of values in the order of the
                key, or a dict by field name.
            default: Value to return if the key is missing.
            columns: Names of the value columns to read, in this order. Default: all.

        Raises:
            TypeError: If a value has a wrong type, or the number of values is wrong.
            KeyError: If a dict lacks a key field or has another one, or there is no such value
                column.
            CorruptionError: If the stored bytes are damaged.
        """
        names = value_columns(self, columns)
        encoded = self.key_schema.encode_one(key)
        row = None if encoded is None else self._get(encoded, names)
        return default if row is None else row

    def __getitem__(self, key: Any) -> dict[str, Any]:
        """Return the value columns at one key.

        Raises:
            KeyError: If the key is missing. The key is the one argument of the error.
        """
        row = self.get(key)
        if row is None:
            raise _NoKeyError(key, self.path)
        return row

    def __contains__(self, key: Any) -> bool:
        """Return whether one key is stored; `contains` does this for many keys."""
        return self.get(key, columns=()) is not None

    def _get(self, encoded: bytes, names: Sequence[str]) -> dict[str, Any] | None:
        """Return value columns of the row at an encoded key, or None."""
        keys = self.key_schema.decode(pa.array([encoded], pa.large_binary()))
        present, table = self._lookup(keys, names)
        if not present[0].as_py():
            return None
        return {name: table.column(name)[0].as_py() for name in names}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


class _NoKeyError(KeyError):
    """The error that a dict raises, with a text that names the store.

    Tracebacks and logs show it as KeyError.
    """

    __module__ = "builtins"

    def __init__(self, key: Any, path: str) -> None:
        super().__init__(key)
        self._path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return _no_key_error, (*self.args, self._path)

    def __str__(self) -> str:
        return f"{self._path}: no key {self.args[0]!r}"


_NoKeyError.__name__ = _NoKeyError.__qualname__ = KeyError.__name__


def _no_key_error(key: Any, path: str) -> KeyError:
    """Return the error of a pickle, which would not find the class by its name."""
    return _NoKeyError(key, path)


class _Rows(ValuesView[dict[str, Any]]):
    """A view of the rows, without their keys."""

    _mapping: Lookups

    def __iter__(self) -> Iterator[dict[str, Any]]:
        for _, rows in self._mapping._python_rows():
            yield from rows

    def __contains__(self, row: object) -> bool:
        return any(one == row for one in self)


class _Pairs(ItemsView[Any, dict[str, Any]]):
    """A view of pairs of key and row."""

    _mapping: Lookups

    def __iter__(self) -> Iterator[tuple[Any, dict[str, Any]]]:
        for keys, rows in self._mapping._python_rows():
            yield from zip(_keys_of(keys), rows, strict=True)


def _keys_of(batch: pa.RecordBatch) -> Iterator[Any]:
    """Yield the keys in key columns, as tuples if they have several fields."""
    columns = [column.to_pylist() for column in batch.columns]
    return iter(columns[0]) if len(columns) == 1 else zip(*columns, strict=True)


def value_columns(lookups: Lookups, columns: Sequence[str] | None) -> list[str]:
    """Return the names of the wanted value columns.

    None: all.

    Raises:
        TypeError: If something is not a name, or `columns` is a dict with new names.
        KeyError: If a name is not that of a value column.
        ValueError: If a column is named twice.
    """
    known = list(lookups.value_schema.names)
    if columns is None:
        return known
    if isinstance(columns, Mapping) and any(isinstance(new, str) for new in columns.values()):
        raise TypeError(
            "columns: found a dict; give a list of names of value columns, and rename them in the "
            "result"
        )
    names = [columns] if isinstance(columns, str) else list(columns)
    for name in names:
        if not isinstance(name, str):
            raise TypeError(f"columns: found a {type(name).__name__}; give names of value columns")
        if name not in known:
            is_key = name in lookups.key
            hint = " (it is a key column, not a value column)" if is_key else ""
            others = meant(name, () if is_key else known, f"value columns: [{listed(known)}]")
            raise KeyError(f"columns: no value column {name!r}{hint}{others}")
        if names.count(name) > 1:
            raise ValueError(f"columns names {name!r} twice")
    return names
