"""What a store, columnar files and a Hudi table have in common: keys in, rows out."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeVar, overload

import pyarrow as pa

from lookupstore.keys.schema import KeySchema

if TYPE_CHECKING:  # in typing since Python 3.11
    from typing_extensions import Self

D = TypeVar("D")


class Lookups(ABC):
    """What answers which rows are at keys.

    Attributes:
        path: of what it looks keys up in: a folder, files or a URI, without credentials.
    """

    path: str

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
    def close(self) -> None:
        """Close all files. Closing again does nothing."""

    @abstractmethod
    def _rows_at(self, keys: Any, names: Sequence[str]) -> tuple[pa.BooleanArray, pa.Table]:
        """Return which of many keys are stored, and value columns of the row at each."""

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
        names = self._value_columns(columns)
        mark = found if isinstance(found, str) else "found"
        if found and mark in names:
            raise ValueError(
                f"found={found!r}: there is a value column {mark!r}; give another name"
            )
        present, table = self._rows_at(keys, names)
        if names:
            return table.append_column(mark, present) if found else table
        # An Arrow table knows its length by its columns, until the last one is deselected.
        table = pa.table({mark: present})
        return table if found else table.select([])

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
        names = self._value_columns(columns)
        encoded = self.key_schema.encode_one(key)
        row = None if encoded is None else self._row_at(encoded, names)
        return default if row is None else row

    def __getitem__(self, key: Any) -> dict[str, Any]:
        """Return the value columns at one key, as `get` does.

        Raises:
            KeyError: the key is missing.
        """
        row = self.get(key)
        if row is None:
            raise KeyError(f"{self.path}: no key {key!r}")
        return row

    def __contains__(self, key: Any) -> bool:
        """Return whether one key is there; `contains` answers for many."""
        return self.get(key, columns=()) is not None

    def _row_at(self, encoded: bytes, names: Sequence[str]) -> dict[str, Any] | None:
        """Return value columns of the row at an encoded key, or None."""
        keys = self.key_schema.decode(pa.array([encoded], pa.large_binary()))
        present, table = self._rows_at(keys, names)
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

    def _value_columns(self, columns: Sequence[str] | None) -> list[str]:
        """Return the names of the value columns that are asked for.

        Raises:
            KeyError: one of them is not a value column.
            ValueError: one of them is named twice.
        """
        known = list(self.value_schema.names)
        if columns is None:
            return known
        names = [columns] if isinstance(columns, str) else list(columns)
        for name in names:
            if name not in known:
                hint = " (it is a key column, not a value column)" if name in self.key else ""
                raise KeyError(f"columns: no value column {name!r}{hint}; value columns: {known}")
            if names.count(name) > 1:
                raise ValueError(f"columns names {name!r} twice")
        return names
