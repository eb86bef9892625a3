"""What a lookup join runs in the Python workers of executors: key columns in, answers out.

A worker process opens each version of a store once and keeps it for the tasks to come.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lookupstore._keys import bucket_of
from lookupstore.errors import StaleStoreError
from lookupstore.key_arguments import encode_keys
from lookupstore.keys import KeySchema
from lookupstore.spark.types import to_spark
from lookupstore.store import LookupStore

# One array for each key field. Spark gives a single one without the tuple around it.
Keys: TypeAlias = "tuple[pa.Array, ...]"
Given: TypeAlias = "Iterator[pa.Array | Keys]"
Found: TypeAlias = "npt.NDArray[np.bool_]"

# A worker serves many queries; the files of stores that it no longer uses are closed.
_STORES_KEPT = 16


@dataclass(frozen=True)
class Lookup:
    """Say what a worker looks up.

    Attributes:
        path: folder of the store.
        store_id: identity of the store that the join was planned on.
        columns: value columns to read, in the order of the result.
        types: the Arrow types in which Spark takes these.
    """

    path: str
    store_id: str
    columns: tuple[str, ...]
    types: tuple[pa.DataType, ...]


def rows_at(lookup: Lookup, given: Given) -> Iterator[pa.Array]:
    """Yield a struct of the value columns for each key, null where the key is missing."""
    store = _opened(lookup.path, lookup.store_id)
    names = numbered(len(lookup.columns))
    for keys in _tuples(given):
        found, values = looked_up(store, keys, lookup)
        missing = None if found.all() else pa.array(~found)
        yield pa.StructArray.from_arrays(values, names, mask=missing)


def contained(lookup: Lookup, given: Given) -> Iterator[pa.Array]:
    """Yield whether each key is stored."""
    store = _opened(lookup.path, lookup.store_id)
    for keys in _tuples(given):
        yield pa.array(found_in(store, keys))


def buckets_at(key_schema: KeySchema, buckets: int, given: Given) -> Iterator[pa.Array]:
    """Yield the bucket of each key as int32, null for keys that no store answers."""
    for keys in _tuples(given):
        encoded = encode_keys(keys, key_schema)
        missing = None
        if encoded.null_count or any(key.null_count for key in keys):
            missing = encoded.is_null().to_numpy(zero_copy_only=False)
            for key in keys:
                missing |= key.is_null().to_numpy(zero_copy_only=False)
        yield pa.array(bucket_of(encoded, buckets).astype(np.int32), mask=missing)


def with_buckets(
    key_schema: KeySchema,
    buckets: int,
    positions: tuple[int, ...],
    batches: Iterable[pa.RecordBatch],
) -> Iterator[pa.RecordBatch]:
    """Put the bucket of its key into the last column of each row, unless no store answers it."""
    for batch in batches:
        keys = tuple(batch.column(i) for i in positions)
        (found,) = buckets_at(key_schema, buckets, iter([keys]))
        columns = [*batch.columns[:-1], pc.coalesce(found, batch.columns[-1])]
        yield pa.RecordBatch.from_arrays(columns, schema=batch.schema)


def joined(
    lookup: Lookup, positions: tuple[int, ...], how: str, batches: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Join record batches of facts, whose columns at `positions` hold the key fields."""
    store = _opened(lookup.path, lookup.store_id)
    for batch in batches:
        keys = tuple(batch.column(i) for i in positions)
        columns = batch.columns
        if how in ("semi", "anti"):
            found = found_in(store, keys)
            kept = found if how == "semi" else ~found
        else:
            found, values = looked_up(store, keys, lookup)
            columns += values
            kept = found if how == "inner" else np.ones(len(found), dtype=bool)
        if not kept.all():
            columns = [column.filter(pa.array(kept)) for column in columns]
        yield pa.RecordBatch.from_arrays(columns, names=numbered(len(columns)))


def numbered(count: int) -> list[str]:
    """Return the names that columns have on their way: their own may mislead Spark.

    >>> numbered(2)
    ['c0', 'c1']
    """
    return [f"c{i}" for i in range(count)]


def found_in(store: LookupStore, keys: Keys) -> Found:
    """Say which keys a join finds: those that are stored and have no null."""
    found: Found = store.contains(keys).to_numpy(zero_copy_only=False)
    whole = _whole_keys(store, keys)
    return found if whole is None else found & whole


def looked_up(store: LookupStore, keys: Keys, lookup: Lookup) -> tuple[Found, list[pa.Array]]:
    """Return whether each key was found, and the value columns in Spark's types."""
    mark = "found"
    while mark in lookup.columns:
        mark += "_"
    table = store.lookup(keys, list(lookup.columns), found=mark)
    found = _array(table, mark).to_numpy(zero_copy_only=False)
    values = [
        to_spark(_array(table, name), kind, name)
        for name, kind in zip(lookup.columns, lookup.types, strict=True)
    ]
    whole = _whole_keys(store, keys)
    if whole is None:
        return found, values
    # The store has answered null keys from the null keys that it holds: a join must not see that.
    places = pa.array(np.arange(len(whole)), mask=~whole)
    return found & whole, [column.take(places) for column in values]


@functools.lru_cache(maxsize=_STORES_KEPT)
def _opened(path: str, store_id: str) -> LookupStore:
    store = LookupStore(path)
    if store.id != store_id:
        found = store.id
        store.close()
        raise StaleStoreError(
            f"{path}: replaced since the join was planned (then {store_id}, now {found}); call "
            "lookup_join again"
        )
    return store


def _tuples(given: Given) -> Iterator[Keys]:
    return (keys if isinstance(keys, tuple) else (keys,) for keys in given)


def _array(table: pa.Table, name: str) -> pa.Array:
    column = table.column(name)
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()


def _whole_keys(store: LookupStore, keys: Keys) -> Found | None:
    """Say which keys have no null; None: all that the store can have answered."""
    schema = store.key_schema
    may_be_null = [
        column
        for name, column in zip(schema.names, keys, strict=True)
        if name in schema.nullable and column.null_count
    ]
    if not may_be_null:
        return None
    whole = np.ones(len(may_be_null[0]), dtype=bool)
    for column in may_be_null:
        whole &= column.is_valid().to_numpy(zero_copy_only=False)
    return whole
