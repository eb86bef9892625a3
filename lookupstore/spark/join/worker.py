"""What a lookup join runs in the Python workers of executors: key columns in, answers out."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lookupstore.errors import MissingKeyError
from lookupstore.keys._codec import bucket_of
from lookupstore.keys.arguments import encode_keys
from lookupstore.keys.schema import KeySchema
from lookupstore.spark.join.task import Dimension, Lookup, Retry, Task
from lookupstore.spark.types import numbered, to_spark

# One array for each key field, and for some lookups one with the moment of the query. Spark gives
# a single one without the tuple around it.
Keys: TypeAlias = "tuple[pa.Array, ...]"
Given: TypeAlias = "Iterator[pa.Array | Keys]"
Bools: TypeAlias = "npt.NDArray[np.bool_]"

#: Keys of several batches that are looked up at once: at most so many, and about so many bytes with
#: their answers.
CALL_KEYS = 65_536
CALL_BYTES = 4 << 20

# Missing keys that an error shows.
_SHOWN = 5


def look_up(lookup: Lookup, mark: bool, given: Given) -> Iterator[pa.Array]:
    """Yield a struct of the value columns for each key, null where the key is missing.

    With `mark` no struct is null: its last field says whether the key was found.
    """
    names = numbered(len(lookup.columns) + mark)

    def rows_of(found: pa.BooleanArray, values: list[pa.Array]) -> pa.Array:
        if mark:
            values.append(found)
        rows = pa.StructArray.from_arrays(values, names)
        missing = found.false_count
        if missing and not mark:
            bits = found.buffers()[1]
            rows = pa.Array.from_buffers(rows.type, len(rows), [bits], missing, children=values)
        return rows

    return _batch_by_batch(lookup, given, rows_of)


def contains(lookup: Lookup, given: Given) -> Iterator[pa.Array]:
    """Yield whether each key is stored."""
    return _batch_by_batch(lookup, given, lambda found, values: found)


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
    lookup: Lookup,
    mark: bool,
    positions: tuple[int, ...],
    how: str,
    batches: Iterable[pa.RecordBatch],
) -> Iterator[pa.RecordBatch]:
    """Join record batches of facts, whose columns at `positions` hold the key fields.

    A lookup that needs the moment of the query takes it from the last column, which goes.
    """
    timed = lookup.freshness.needs_moment
    with Task(lookup) as task:
        for batch in batches:
            columns = batch.columns
            moment = [columns.pop()] if timed else []
            keys = (*(columns[i] for i in positions), *moment)
            found, values = answers_to(task, lookup, keys)
            columns += values
            if mark:
                columns.append(found)
            if how in ("inner", "semi", "anti"):
                kept = pc.invert(found) if how == "anti" else found
                if kept.false_count:
                    columns = [column.filter(kept) for column in columns]
            yield pa.RecordBatch.from_arrays(columns, names=numbered(len(columns)))


def _batch_by_batch(
    lookup: Lookup,
    given: Given,
    answers_of: Callable[[pa.BooleanArray, list[pa.Array]], pa.Array],
) -> Iterator[pa.Array]:
    """Yield the answers to each batch of keys, several batches being looked up at once.

    For the 10,000 keys of a batch, what Python does around a lookup takes as long as the lookup.
    """
    batches = _tuples(given)
    wanted = 1
    with Task(lookup) as task:
        while call := _next_call(batches, wanted):
            keys = _concatenated(call)
            answers = answers_of(*answers_to(task, lookup, keys))
            size = answers.nbytes + sum(column.nbytes for column in keys)
            at = 0
            for batch in call:
                yield answers.slice(at, len(batch[0]))
                at += len(batch[0])
            if at:
                wanted = min(CALL_KEYS, CALL_BYTES * at // max(1, size))


def _next_call(batches: Iterator[Keys], wanted: int) -> list[Keys]:
    """Return the next batches, until these have as many keys as wanted."""
    call = []
    count = 0
    for keys in batches:
        call.append(keys)
        count += len(keys[0])
        if count >= wanted:
            break
    return call


def _concatenated(batches: Sequence[Keys]) -> Keys:
    if len(batches) == 1:
        return batches[0]
    return tuple(pa.concat_arrays(columns) for columns in zip(*batches, strict=True))


def answers_to(task: Task, lookup: Lookup, given: Keys) -> tuple[pa.BooleanArray, list[pa.Array]]:
    """Return whether each key was found, from bit 0 on, and the columns in Spark's types."""
    if not len(given[0]):  # which says no moment either
        return pa.array([], pa.bool_()), [pa.array([], kind) for kind in lookup.types]
    keys, moment = given, None
    if lookup.freshness.needs_moment:
        keys, moment = given[:-1], _seconds(given[-1])
    dimension = task.dimension_at(moment)
    started = time.perf_counter()
    found, values = _look_up(dimension, keys, lookup)
    if lookup.on_miss is not None and found.false_count:
        found, values = _after_misses(task, lookup, keys, found, values)
    seconds = time.perf_counter() - started
    task.count(rows=len(found), hits=found.true_count, seconds=seconds)
    return found, values


def _look_up(
    store: Dimension, keys: Keys, lookup: Lookup
) -> tuple[pa.BooleanArray, list[pa.Array]]:
    whole = _whole_keys(store, keys)
    if not lookup.columns:
        found = store.contains(keys)
        return (found if whole is None else pc.and_(found, pa.array(whole))), []
    mark = "found"
    while mark in lookup.columns:
        mark += "_"
    table = store.lookup(keys, list(lookup.columns), found=mark)
    found = _array(table, mark)
    values = [
        to_spark(_array(table, name), kind, name)
        for name, kind in zip(lookup.columns, lookup.types, strict=True)
    ]
    if whole is None:
        return found, values
    # The store has answered null keys from the null keys that it holds: a join must not see that.
    places = pa.array(np.arange(len(whole)), mask=~whole)
    return pc.and_(found, pa.array(whole)), [column.take(places) for column in values]


def _after_misses(
    task: Task, lookup: Lookup, keys: Keys, present: pa.BooleanArray, values: list[pa.Array]
) -> tuple[pa.BooleanArray, list[pa.Array]]:
    """Do what `on_miss` says; keys with nulls stay missing."""
    found = present.to_numpy(zero_copy_only=False)
    whole = np.ones(len(found), dtype=bool)
    for column in keys:
        whole &= column.is_valid().to_numpy(zero_copy_only=False)
    retry = lookup.on_miss
    for _ in range(retry.attempts if isinstance(retry, Retry) else 0):
        missing = np.flatnonzero(~found & whole)
        if not len(missing):
            return pa.array(found), values
        assert isinstance(retry, Retry)
        time.sleep(retry.delay)
        again = tuple(column.take(pa.array(missing)) for column in keys)
        present, values_now = _look_up(task.newest(), again, lookup)
        found_now = present.to_numpy(zero_copy_only=False)
        if found_now.any():
            places = np.arange(len(found))
            places[missing[found_now]] = len(found) + np.flatnonzero(found_now)
            taken = pa.array(places)
            values = [
                pa.concat_arrays(pair).take(taken) for pair in zip(values, values_now, strict=True)
            ]
            found = found.copy()
            found[missing[found_now]] = True
    missing = np.flatnonzero(~found & whole)
    if retry == "raise" and len(missing):
        shown = pa.table(list(keys), names=lookup.key_schema.names).take(missing[:_SHOWN])
        raise MissingKeyError(
            f"{task.name} has no rows for {len(missing)} of {len(found)} keys, such as "
            f"{', '.join(map(str, shown.to_pylist()))}; on_miss is 'raise'"
        )
    return pa.array(found), values


def _seconds(moments: pa.Array) -> float:
    """Return the moment of a query, which is in every row, in seconds since 1970."""
    return float(moments[:1].cast(pa.timestamp("us", "UTC")).cast(pa.int64())[0].as_py() / 1e6)


def _tuples(given: Given) -> Iterator[Keys]:
    return (keys if isinstance(keys, tuple) else (keys,) for keys in given)


def _array(table: pa.Table, name: str) -> pa.Array:
    column = table.column(name)
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()


def _whole_keys(store: Dimension, keys: Keys) -> Bools | None:
    """Return which keys have no null; None: all that the store can have found."""
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
