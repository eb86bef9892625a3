"""Read one of Paimon's lookup files as typed keys and rows."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from itertools import accumulate
from typing import Any

import pyarrow as pa

from lookupstore.compacted._codec import CompactedRowError
from lookupstore.compacted.schema import Types
from lookupstore.errors import CorruptionError
from lookupstore.keywords import keyword_only
from lookupstore.sst._batch import contains
from lookupstore.sst.cache import BlockCache
from lookupstore.sst.reader import Reader
from lookupstore.sst.scans import BlockRange, scan_parts
from lookupstore.sst.stored import Fill
from lookupstore.sst.typed import TypedRecords


class TypedReader(Reader):
    """One open lookup file of Paimon with typed columns as keys and values.

    `Reader` with ``key_types=`` makes one, with the arguments of `Reader`. `info`, `verify` and
    other methods without a description here are the same, and use keys as bytes.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        order: str = "bytes",
        key_types: Types | None = None,
        value_types: Types | None = None,
        mode: str = "value",
        cache: BlockCache | None = None,
        fill: Fill | None = None,
    ) -> None:
        if order != "bytes":
            raise ValueError("give order= or key_types=, not both")
        if key_types is None:
            raise ValueError("give key_types=")
        self._types = TypedRecords(key_types, value_types, mode)
        super().__init__(path, order=self._types.order, cache=cache, fill=fill)

    def get(self, key: Any, default: Any = None) -> Any:
        """Return the columns of one key as a dict, or `default`.

        Args:
            key: Value for each field, as tuple or dict; for a single field also its value alone.
            default: Result for a missing key.
        """
        asked = self._types.key(key)
        row = super().get(asked)
        if row is None:
            return default
        columns = self._values(pa.array([row], pa.large_binary()), lambda _: asked)
        names = self._types.value_schema.names
        return {name: one[0].as_py() for name, one in zip(names, columns, strict=True)}

    def lookup(self, keys: Any) -> Any:
        """Return the columns of many keys as a record batch.

        Args:
            keys: Table, record batch, struct array or dict of columns by the names of `key_types`;
                for a single field also its column alone. Nulls are keys, too, where fields may be
                null.

        Returns:
            Record batch of as many rows: row i is the value of key i, with nulls if the key is
            missing. `contains` tells these from rows of nulls.
        """
        column = self._types.asked_keys(keys)
        columns = self._values(super().lookup(column), lambda i: column.array[i].as_py())
        if not columns:
            return _without_columns(len(column))
        return pa.RecordBatch.from_arrays(columns, schema=self._types.answer_schema)

    def contains(self, keys: Any) -> pa.Array:
        """Return whether each of many keys is stored, as a boolean array.

        Args:
            keys: Table, record batch, struct array or dict of columns by the names of `key_types`;
                for a single field also its column alone.
        """
        return contains(self._layer(), self._types.asked_keys(keys))

    @keyword_only
    def scan(
        self,
        *,
        start: Any = None,
        stop: Any = None,
        starts_with: Any = None,
        reverse: bool = False,
    ) -> pa.RecordBatchReader:
        """Read records in key order, as the columns of keys, then those of values.

        Args:
            start: First key of the range: a value for each field, as tuple or dict; for a single
                field also its value alone. Default: the first key of the file.
            stop: Key that ends the range, and is not part of it, in the same forms. Default: no
                end.
            starts_with: Not supported for typed keys; anything but None raises ValueError.
            reverse: Whether to read from the last record to the first.
        """
        self._check_open()
        if starts_with is not None:
            raise ValueError("starts_with is for keys that are bytes; give start and stop")
        first = None if start is None else self._types.key(start)
        last = None if stop is None else self._types.key(stop)
        return pa.RecordBatchReader.from_batches(
            self.schema, self._typed(scan_parts(self, first, last, reverse))
        )

    def _typed(
        self, found: Iterator[tuple[list[BlockRange], pa.RecordBatch]]
    ) -> Iterator[pa.RecordBatch]:
        for parts, batch in found:
            keys, values = batch.columns
            what = "key"
            try:
                columns = self._types.keys_of(keys)
                what = "value"
                columns = columns + self._types.values_of(values)
            except CompactedRowError as error:
                row = error.args[0]
                ends = accumulate(high - low for _, low, high in parts)
                block = next(part[0] for part, end in zip(parts, ends, strict=True) if row < end)
                raise self._damage(block.offset, what, keys[row].as_py()) from None
            yield pa.RecordBatch.from_arrays(columns, schema=self.schema)

    def _pairs(self, batch: pa.RecordBatch) -> Iterator[tuple[Any, Any]]:
        """Yield a pair of dicts, key and value, for each record of a batch of a scan."""
        names = self._types.key_schema.names
        for row in batch.to_pylist():
            yield {name: row.pop(name) for name in names}, row

    @property
    def schema(self) -> pa.Schema:
        """Return the columns of a scan: key columns, then value columns."""
        return self._types.scan_schema

    def _values(self, values: pa.Array, key_at: Callable[[int], bytes]) -> list[pa.Array]:
        """Return the columns of the values that a lookup found; `key_at` returns their keys."""
        try:
            return self._types.values_of(values)
        except CompactedRowError as error:
            key = key_at(error.args[0])
            offset = self._handles[self._index.lower_bound(key)][0]
            raise self._damage(offset, "value", key) from None

    def _damage(self, offset: int, what: str, key: bytes) -> CorruptionError:
        """Return the error of a record that does not have the types, in the block at `offset`."""
        said = f"a {what} of the given types and mode"
        return CorruptionError(self._path, offset, said, f"another at key {key.hex()}")

    def __reduce__(self) -> tuple[Any, ...]:
        super().__reduce__()
        return _reopen_typed, (self._path, *self._types.arguments)


def _without_columns(count: int) -> pa.RecordBatch:
    return pa.RecordBatch.from_struct_array(pa.Array.from_buffers(pa.struct([]), count, [None]))


def _reopen_typed(
    path: str, key_types: pa.Schema, value_types: pa.Schema | None, mode: str
) -> Reader:
    return TypedReader(path, key_types=key_types, value_types=value_types, mode=mode)
