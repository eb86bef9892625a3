"""The part of lookup joins that runs in the Python workers of executors: from keys to answers.

The joins of a trip are answered together, one after the other for each call.
"""

from __future__ import annotations

import resource
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lookupstore.arrow.taking import take
from lookupstore.errors import MissingKeyError
from lookupstore.filters.row_filter import RowFilter
from lookupstore.keys._codec import bucket_of
from lookupstore.keys.arguments import encode_keys
from lookupstore.keys.joins import look_up as look_up_keys
from lookupstore.keys.joins import one_array
from lookupstore.keys.schema import KeySchema
from lookupstore.quantities import size_text
from lookupstore.spark.join.task import Dimension, LookupTask, Retry, Task
from lookupstore.spark.types import numbered, to_spark

# One array for each key field, and for some lookups one with the moment of the query. Spark passes
# a single array without a tuple.
Keys: TypeAlias = "tuple[pa.Array, ...]"
Columns: TypeAlias = "list[pa.Array]"
Given: TypeAlias = "Iterator[pa.Array | Keys]"

#: Maximum number of keys of several batches that are looked up at once, and approximate maximum of
#: the bytes of keys and answers.
CALL_KEYS = 65_536
CALL_BYTES = 4 << 20

# Maximum number of missing keys that an error shows.
_SHOWN = 5


@dataclass(frozen=True)
class Step:
    """A lookup of keys in columns of the facts, or in answers of earlier lookups.

    Attributes:
        lookup: Lookup to run.
        keys: Positions of the key fields, in the order of the key, among the columns of the facts
            followed by the answers of the earlier steps.
        how: Kind of join, which decides the facts that remain: found ones (`inner`, `semi`),
            missing ones (`anti`), or all (`left`).
        mark: Whether the last column of the answer shows which keys were found.
    """

    lookup: LookupTask
    keys: tuple[int, ...]
    how: str
    mark: bool


def look_up(
    steps: Sequence[Step], given: Given, names: Sequence[str] | None = None
) -> Iterator[pa.Array]:
    """Yield a struct of all answers for each fact, null for facts that are dropped.

    Columns are null where the step did not find its key.

    Args:
        steps: Lookups in their order.
        given: Batches of key columns.
        names: Names of the fields of the struct. None: numbers.
    """

    def rows_of(kept: pa.BooleanArray | None, values: Columns, count: int) -> pa.Array:
        rows = pa.StructArray.from_arrays(values, names or numbered(len(values)))
        dropped = 0 if kept is None else kept.false_count
        if kept is not None and dropped:
            bits = kept.buffers()[1]
            rows = pa.Array.from_buffers(rows.type, len(rows), [bits], dropped, children=values)
        return rows

    return _batch_by_batch(steps, given, rows_of)


def goes_on(steps: Sequence[Step], given: Given) -> Iterator[pa.Array]:
    """Yield whether each fact is kept, if no step has columns to append."""

    def kept_of(kept: pa.BooleanArray | None, values: Columns, count: int) -> pa.Array:
        return pa.repeat(True, count) if kept is None else kept

    return _batch_by_batch(steps, given, kept_of)


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


def joined(steps: Sequence[Step], batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Join record batches of facts.

    If a lookup needs the moment of the query, it is the last column, which is removed.
    """
    with _Answers(steps) as answers:
        for batch in batches:
            facts, moment = answers.facts_and_moment(batch.columns)
            kept, values = answers.to(facts, moment)
            columns = [*facts, *values]
            if kept is not None and kept.false_count:
                columns = [column.filter(kept) for column in columns]
            yield pa.RecordBatch.from_arrays(columns, names=numbered(len(columns)))


def _batch_by_batch(
    steps: Sequence[Step],
    given: Given,
    rows_of: Callable[[pa.BooleanArray | None, Columns, int], pa.Array],
) -> Iterator[pa.Array]:
    """Yield the answers to each batch of keys, looking up several batches at once.

    For the 10,000 keys of a batch, the work in Python around a lookup takes as long as the lookup.
    """
    batches = _tuples(given)
    wanted = 1
    with _Answers(steps) as answers:
        while call := _next_call(batches, wanted):
            facts, moment = answers.facts_and_moment(_concatenated(call))
            rows = rows_of(*answers.to(facts, moment), len(facts[0]))
            size = rows.nbytes + sum(column.nbytes for column in facts)
            at = 0
            for batch in call:
                yield rows.slice(at, len(batch[0]))
                at += len(batch[0])
            if at:
                wanted = min(CALL_KEYS, CALL_BYTES * at // max(1, size))


class _Answers:
    """The answers of the steps of a trip, in a task; use it in a ``with`` block."""

    def __init__(self, steps: Sequence[Step]) -> None:
        self._steps = steps
        self._timed = any(step.lookup.freshness.needs_moment for step in steps)
        self._tasks = [Task(step.lookup) for step in steps]
        self._open = ExitStack()

    def facts_and_moment(self, given: Sequence[pa.Array]) -> tuple[Columns, float | None]:
        """Return columns of facts, and the moment of the query if a step needs it."""
        if not self._timed:
            return list(given), None
        *facts, moments = given
        return facts, _seconds(moments) if len(moments) else None  # none: no rows

    def to(self, facts: Columns, moment: float | None) -> tuple[pa.BooleanArray | None, Columns]:
        """Return which facts are kept, None if no step filters, and the columns of the answers."""
        columns = list(facts)
        kept: pa.BooleanArray | None = None
        for step, task in zip(self._steps, self._tasks, strict=True):
            keys = [columns[i] for i in step.keys]
            count = len(keys[0])
            if kept is not None and kept.false_count:  # a null key is neither found nor missing
                count = kept.true_count
                keys[0] = pc.if_else(kept, keys[0], pa.scalar(None, keys[0].type))
            try:
                found, values = answers_to(task, step.lookup, tuple(keys), moment, count)
            except MemoryError as error:
                raise worker_memory_error(task.name, count) from error
            columns += values
            if step.mark:
                columns.append(found)
            if step.how != "left":
                stays = pc.invert(found) if step.how == "anti" else found
                kept = stays if kept is None else pc.and_(kept, stays)
        return kept, columns[len(facts) :]

    def __enter__(self) -> _Answers:
        for task in self._tasks:
            self._open.enter_context(task)
        return self

    def __exit__(self, *raised: Any) -> None:
        self._open.__exit__(*raised)


def _next_call(batches: Iterator[Keys], wanted: int) -> list[Keys]:
    """Return the next batches, until they have as many keys as wanted."""
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


def answers_to(
    task: Task, lookup: LookupTask, keys: Keys, moment: float | None, count: int
) -> tuple[pa.BooleanArray, Columns]:
    """Return whether each key was found, from bit 0 on, and the columns in Spark's types.

    `count` is the number of keys that are looked up: the others are of facts that are dropped.
    """
    if not len(keys[0]):
        return pa.array([], pa.bool_()), [pa.array([], kind) for kind in lookup.types]
    dimension = task.dimension_at(moment if lookup.freshness.needs_moment else None)
    started = time.perf_counter()
    found, values = _look_up(dimension, keys, lookup)
    if lookup.on_miss is not None and found.false_count:
        found, values = _after_misses(task, lookup, keys, found, values)
    seconds = time.perf_counter() - started
    task.count(rows=count, hits=found.true_count, seconds=seconds)
    return found, values


def worker_memory_error(name: str, count: int) -> MemoryError:
    """Return the error of a lookup for which a Python worker has too little memory."""
    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    most, remedy = "", "raise spark.executor.memoryOverhead"
    if limit != resource.RLIM_INFINITY:
        most = f" (the Python worker can map at most {size_text(limit)})"
        remedy = "leave spark.executor.pyspark.memory unset, or raise it"
    return MemoryError(f"{name}: too little memory to look up {count:,} keys{most}; {remedy}")


def _look_up(store: Dimension, keys: Keys, lookup: LookupTask) -> tuple[pa.BooleanArray, Columns]:
    names = lookup.columns_read
    found, answers = look_up_keys(store, keys, names)
    rows = dict(zip(names, map(one_array, answers), strict=True))
    columns = [rows[name] for name in lookup.columns]
    if lookup.where is not None:
        found = _where(found, keys, rows, store.key_schema, lookup.where)
        places = pa.array(np.arange(len(found)), mask=pc.invert(found).to_numpy(False))
        columns = [take(column, places) for column in columns]
    values = [
        to_spark(column, kind, name)
        for column, name, kind in zip(columns, lookup.columns, lookup.types, strict=True)
    ]
    return found, values


def _where(
    found: pa.BooleanArray,
    keys: Keys,
    rows: dict[str, pa.Array],
    key_schema: KeySchema,
    where: RowFilter,
) -> pa.BooleanArray:
    """Return which keys have a row that meets a condition."""
    encoded = encode_keys(keys, key_schema) if set(where.names) & set(key_schema.names) else None
    if encoded is not None:
        # A key that the type of the store cannot hold is null, and was not found.
        places = pa.array(np.flatnonzero(encoded.is_valid()))
        decoded = key_schema.decode(encoded.drop_null())
        at = pc.index_in(pa.array(np.arange(len(found))), value_set=places)
        rows = rows | {name: decoded.column(name).take(at) for name in key_schema.names}
    chosen = {name: rows[name] for name in where.names}
    kept: pa.BooleanArray = pc.and_(found, where.kept(pa.RecordBatch.from_pydict(chosen)))
    return kept


def _after_misses(
    task: Task, lookup: LookupTask, keys: Keys, present: pa.BooleanArray, values: Columns
) -> tuple[pa.BooleanArray, Columns]:
    """Apply `on_miss`; keys with nulls stay missing."""
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
