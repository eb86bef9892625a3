"""Write one of Paimon's lookup files from typed keys and rows."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from lookupstore.compacted.schema import Types
from lookupstore.sst.typed import TypedRecords
from lookupstore.sst.writer import Writer


class TypedWriter(Writer):
    """A writer of one lookup file of Paimon with typed columns as keys and values.

    `Writer` with ``key_types=`` makes one. Other arguments are those of `Writer`.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        dialect: str = "native",
        order: str = "bytes",
        key_types: Types | None = None,
        value_types: Types | None = None,
        mode: str = "value",
        **options: Any,
    ) -> None:
        if dialect != "paimon":
            raise ValueError("key_types= is for dialect='paimon'")
        if order != "bytes":
            raise ValueError("give order= or key_types=, not both")
        if key_types is None:
            raise ValueError("give key_types=")
        self._types = TypedRecords(key_types, value_types, mode)
        super().__init__(path, dialect=dialect, order=self._types.order, **options)

    def put(self, key: Any, value: Any) -> None:
        """Add one record.

        Args:
            key: Value for each field, as tuple or dict; for a single field also its value alone.
            value: Dict with a value for each column. None: the mode has no columns.

        Raises:
            ValueError: If the key is out of order, or is repeated without `allow_repeats`.
        """
        names = self._types.key_schema.names
        if not isinstance(key, Mapping):
            fields = key if isinstance(key, tuple) else (key,)
            if len(fields) != len(names):
                raise TypeError(f"key is {key!r}; give a value for each of {names}")
            key = dict(zip(names, fields, strict=True))
        self.put_many(
            {name: [one] for name, one in key.items()},
            None if value is None else {name: [one] for name, one in value.items()},
        )

    def put_many(self, keys: Any, values: Any) -> None:
        """Add records in key order.

        Args:
            keys: Table, record batch, struct array or dict of columns by the names of `key_types`;
                for a single field also its column alone.
            values: Columns of the values, in the same forms, with those that the mode adds:
                ``_SEQUENCE_NUMBER``, ``_VALUE_KIND``, ``_POSITION``. None: the mode has no columns.

        Raises:
            ValueError: If the lengths differ, a value is null where nulls are not allowed, a value
                does not exist in its type, or keys are out of order or repeated. The rows before
                such a key have been added.
        """
        self._check_open()
        key_rows = self._types.key_rows(keys)
        super().put_many(key_rows.array, self._types.value_rows(values, len(key_rows)).array)

    @property
    def schema(self) -> pa.Schema:
        """Return the columns of a record: key columns, then value columns."""
        return self._types.scan_schema
