"""What a store, columnar files and a Hudi table have in common: keys in, rows out."""

from __future__ import annotations

import warnings
from abc import abstractmethod
from collections.abc import (
    Callable,
    ItemsView,
    Iterator,
    KeysView,
    Sequence,
    ValuesView,
)
from types import TracebackType
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, overload

import pyarrow as pa

from lookupstore.arrow.outgoing import ArrowRows
from lookupstore.errors import listed
from lookupstore.keys.arguments import Column
from lookupstore.keys.facts import facts_of, mapped
from lookupstore.keys.joins import Join, On, check_adds_nothing, how_of, look_up_all
from lookupstore.keys.schema import KeySchema
from lookupstore.keywords import keyword_only

if TYPE_CHECKING:  # in typing since Python 3.11
    from typing_extensions import Self

C = TypeVar("C")
D = TypeVar("D")
R = TypeVar("R")


class Described(Protocol):
    """What `info` and `verify` return: a record with attributes of its own."""

    def to_json(self) -> dict[str, Any]:
        """Return the record as plain JSON values."""
        ...


class Lookups(ArrowRows):
    """Rows by key: for one key, for many, or in the order of the keys.

    They have all verbs of a mapping from keys to dicts, whose order is that of the keys. They are
    no `collections.abc.Mapping`: where rows are wanted, that is taken for columns by name, and not
    asked for its Arrow stream.

    Attributes:
        path: of what it looks keys up in: a folder, files or a URI, without credentials.
    """

    path: str

    @property
    def _calls_in_threads(self) -> bool:
        """Return whether calls of several threads do not wait for each other, or read twice.

        So it is where bytes are used where they are, in memory that nobody has to fetch.
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
        """Return for each of many keys whether it is stored: Arrow booleans, never null.

        Raises: what `lookup` does.
        """

    @abstractmethod
    def info(self) -> Described:
        """Describe what is looked up in."""

    @abstractmethod
    def verify(self, *, progress: bool | None = None) -> Described:
        """Read all of it and check it.

        Args:
            progress: show a progress bar; None shows it after a second, on a terminal or in a
                notebook.

        Raises:
            CorruptionError: the first thing that is wrong.
            StaleStoreError: a file is gone, or is another one by now.
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
        """Return the value columns at many keys: row i answers key i, nulls where it is missing.

        Args:
            keys: the keys, in any order, repeated or not, and in any of the forms of
                `lookupstore.keys.arguments`.
            columns: value columns to read, in this order; None reads all.
            found: append a boolean column `found`, or of the name given, which tells a missing key
                from stored nulls.

        Raises:
            TypeError: keys of a wrong type or form; the error names the right one.
            KeyError: a value column, or a key field in `keys`, that there is not.
            ValueError: a value column has the name that `found` gives; or a key is in several
                files where only one row may have it.
            CorruptionError: the stored bytes are wrong.
            StaleStoreError: a file is gone, or is another one by now.
            DiskQuotaError: what a lookup needs does not fit into the quota of the host.
        """
        return self._answered(columns, found, lambda names: self._lookup(keys, names))

    def _answered(
        self,
        columns: Sequence[str] | None,
        found: bool | str,
        look: Callable[[Sequence[str]], tuple[pa.BooleanArray, pa.Table]],
    ) -> pa.Table:
        """Return what `lookup` does, of an answer in the named value columns."""
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
            rows: a pandas DataFrame (whose index may hold the key), a polars DataFrame or
                LazyFrame, an Arrow table, record batch or RecordBatchReader, a DuckDB relation, a
                structured array of NumPy, or a dict of NumPy arrays.
            on: the columns of `rows` that hold the key: a name, or names, in any order, that the
                key has as well; or a dict from column of `rows` to key column. Every key column is
                needed.
            how: `left` keeps every row, with nulls where the key is missing; `inner` keeps rows
                whose key is found; `semi` the same without columns of the store; `anti` keeps rows
                whose key is not found.
            columns: value columns to append, in this order; None appends all.
            prefix: put before the name of each appended column.
            found: name of a boolean column to append as well: whether the key was found.

        Returns:
            What `rows` is: the columns of `rows`, then the value columns. A reader and a LazyFrame
            are joined as they are read.

        Raises:
            TypeError: rows of another kind; or a column of another kind than its key column.
            KeyError: a column that the rows, the key or the store do not have.
            ValueError: an unknown `how`, or a name that rows and store share; the error names the
                remedy.

        And all that `lookup` raises.

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
        join.check_kinds([facts.kind_of(name) for name in join.keys])
        joined: R = facts.joined(join) if join.asks else rows
        return joined

    def map(self, keys: C, column: str) -> C:
        """Return a value column at a column of keys, as a column of the same kind.

        A null, and a key that is missing, have a null: NaN where NumPy and pandas know no other.

        Args:
            keys: an Arrow array or chunked array, a pandas Series, whose index is kept, or Index, a
                polars Series, a NumPy array or a list.
            column: name of the value column, which a Series takes.

        Raises:
            TypeError: keys of another kind, or with values of another type than the key.
            KeyError: there is no such value column.
            ValueError: the key has several fields; `join` knows these.

        And all that `lookup` raises.

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
            start: first key, included; None is the beginning. A tuple may have the first fields of
                the key only.
            stop: stop before this key; None is the end.
            prefix: only rows whose first key fields have these values: a tuple, or one value for
                the first field.
            starts_with: only rows whose key field after those of `prefix` (without `prefix`: the
                first one) begins with this text or these bytes.
            columns: value columns to read, in this order; None reads all.
            reverse: from the greatest key to the least.

        Raises:
            TypeError: a key of a wrong type, a list where a key is wanted, or an argument without
                its name.
            KeyError: a value column that there is not.
            ValueError: `prefix` or `starts_with` together with `start` or `stop`.
            CorruptionError: the stored bytes are wrong (when they are reached).

        Warns:
            UserWarning: no key has the text or bytes at the end of `prefix`, but some begin with
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
        """Yield the rows of a prefix; warn if there are none, but some begin with it."""
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
        """Yield the keys in key order, those of several fields as tuples."""
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
            key: the value of the key field; for several fields a tuple of values in the order of
                the key, or a dict by field name.
            default: what to return if the key is missing.
            columns: value columns to read, in this order; None reads all.

        Raises:
            TypeError: a value of a wrong type, or a wrong number of values.
            KeyError: a dict that lacks a key field or has another; or a value column that there is
                not.
            CorruptionError: the stored bytes are wrong.
        """
        names = value_columns(self, columns)
        encoded = self.key_schema.encode_one(key)
        row = None if encoded is None else self._get(encoded, names)
        return default if row is None else row

    def __getitem__(self, key: Any) -> dict[str, Any]:
        """Return the value columns at one key, as `get` does.

        Raises:
            KeyError: the key is missing; it is the one argument of the error.
        """
        row = self.get(key)
        if row is None:
            raise _NoKeyError(key, self.path)
        return row

    def __contains__(self, key: Any) -> bool:
        """Return whether one key is there; `contains` answers for many."""
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
    """What a dict raises, with a text that says where the key is missing."""

    def __init__(self, key: Any, path: str) -> None:
        super().__init__(key)
        self._path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return _NoKeyError, (*self.args, self._path)

    def __str__(self) -> str:
        return f"{self._path}: no key {self.args[0]!r}"


class _Rows(ValuesView[dict[str, Any]]):
    """The rows of lookups, without their keys."""

    _mapping: Lookups

    def __iter__(self) -> Iterator[dict[str, Any]]:
        for _, rows in self._mapping._python_rows():
            yield from rows

    def __contains__(self, row: object) -> bool:
        return any(one == row for one in self)


class _Pairs(ItemsView[Any, dict[str, Any]]):
    """The keys of lookups, with their rows."""

    _mapping: Lookups

    def __iter__(self) -> Iterator[tuple[Any, dict[str, Any]]]:
        for keys, rows in self._mapping._python_rows():
            yield from zip(_keys_of(keys), rows, strict=True)


def _keys_of(batch: pa.RecordBatch) -> Iterator[Any]:
    """Yield the keys in key columns, those of several fields as tuples."""
    columns = [column.to_pylist() for column in batch.columns]
    return iter(columns[0]) if len(columns) == 1 else zip(*columns, strict=True)


def value_columns(lookups: Lookups, columns: Sequence[str] | None) -> list[str]:
    """Return the names of the value columns that are asked for; None asks for all.

    Raises:
        KeyError: one of them is not a value column.
        ValueError: one of them is named twice.
    """
    known = list(lookups.value_schema.names)
    if columns is None:
        return known
    names = [columns] if isinstance(columns, str) else list(columns)
    for name in names:
        if name not in known:
            hint = " (it is a key column, not a value column)" if name in lookups.key else ""
            raise KeyError(
                f"columns: no value column {name!r}{hint}; value columns: [{listed(known)}]"
            )
        if names.count(name) > 1:
            raise ValueError(f"columns names {name!r} twice")
    return names
