"""Join a DataFrame with a store: each key is looked up where the row already is, nothing moves.

What goes to the executors is a path and names. Each Python worker process opens the store once and
keeps it for the tasks to come.
"""

from __future__ import annotations

import functools
import itertools
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql.types import StructField, StructType

from lookupstore.errors import StaleStoreError
from lookupstore.keys import KeySchema
from lookupstore.spark.types import TIME_SETTING, arrow_schema, spark_type, to_spark
from lookupstore.store import LookupStore

How = Literal["left", "inner", "semi", "anti"]

HOWS: tuple[How, ...] = ("left", "inner", "semi", "anti")
# Spark's own names of these joins, which it reads without regard to case and underscores.
_SPARK_HOWS: dict[str, How] = {"leftouter": "left", "leftsemi": "semi", "leftanti": "anti"}
# A Python worker serves many queries; the files of stores that it no longer uses are closed.
_STORES_KEPT = 16


@dataclass(frozen=True)
class JoinPlan:
    """Hold what an executor has to know of a join.

    Attributes:
        path: folder of the store.
        store_id: identity of the store that the join was planned on.
        keys: positions of the fact columns that hold the key fields, in the order of the key.
        how: the kind of join.
        columns: value columns to read, in the order of the result.
        types: the Arrow types in which Spark takes these.
    """

    path: str
    store_id: str
    keys: tuple[int, ...]
    how: How
    columns: tuple[str, ...]
    types: tuple[pa.DataType, ...]


def lookup_join(
    df: DataFrame,
    store: str | os.PathLike[str] | LookupStore,
    on: str | Sequence[str] | Mapping[str, str],
    how: str = "left",
    columns: Sequence[str] | None = None,
    prefix: str | None = None,
) -> DataFrame:
    """Join facts with a store by its key; lazy, as any transformation.

    Nothing is shuffled, and facts may repeat keys. A null key matches nothing, not even a null
    key of the store, and neither does a value outside the key's type, such as 2**40 for an
    int32 key.

    Args:
        df: the facts.
        store: a store, or the path of one; executors must see the same folder.
        on: the fact columns that hold the key: a name, or names, in any order, that the key has
            as well; or a dict from fact column to key column. Every key column is needed.
        how: `left` keeps every fact, with nulls where the key is missing; `inner` keeps facts
            whose key is found; `semi` the same without columns of the store; `anti` keeps facts
            whose key is not found. Spark's other names for these do, too: `left_semi`, `LEFT`.
        columns: value columns of the store to append, in this order; None appends all.
        prefix: put before the name of each appended column.

    Returns:
        The columns of `df`, then the value columns of the store, which may be null.

    Raises:
        KeyError: a column that the facts, the key or the store do not have.
        TypeError: an argument of another kind, such as a pandas DataFrame or a column expression;
            a fact column of another kind than its key column; or a value column that Spark has no
            type for, or a time while the session has times off.
        ValueError: an unknown `how`, or a name that facts and store share; the error says the
            remedy.
        FileNotFoundError: there is no such store.

    A store that is replaced between planning and running raises `StaleStoreError` in the tasks
    that have not opened it yet, and stored bytes that are wrong raise `CorruptionError` there.
    Spark does not pass their classes on: what the action raises is always a
    `pyspark.errors.PythonException`, and a line of its text begins with
    `lookupstore.errors.StaleStoreError: `.
    """
    if not isinstance(df, DataFrame):
        raise TypeError(
            f"df is a {type(df).__module__}.{type(df).__qualname__}; give a Spark DataFrame "
            "(spark.createDataFrame makes one of a pandas DataFrame or an Arrow table)"
        )
    if not isinstance(store, (str, os.PathLike, LookupStore)):
        raise TypeError(f"store is a {type(store).__name__}; give a LookupStore or its path")
    kind = _how(how)
    if isinstance(store, LookupStore):
        return _planned(df, store, on, kind, columns, prefix)
    with LookupStore(store) as opened:
        return _planned(df, opened, on, kind, columns, prefix)


def _how(given: str) -> How:
    name = str(given).lower().replace("_", "")
    for how in HOWS:
        if how in (name, _SPARK_HOWS.get(name)):
            return how
    raise ValueError(f"how is {given!r}; give one of {', '.join(map(repr, HOWS))}")


def _planned(
    df: DataFrame,
    store: LookupStore,
    on: str | Sequence[str] | Mapping[str, str],
    how: How,
    columns: Sequence[str] | None,
    prefix: str | None,
) -> DataFrame:
    if how in ("semi", "anti"):
        for argument, value in (("columns", columns), ("prefix", prefix)):
            if value is not None:
                raise ValueError(
                    f"{argument} is {value!r}; a {how} join appends no columns: leave it out"
                )
    facts = df.schema
    keys = _key_positions(facts, store.key_schema, on)
    names = () if how in ("semi", "anti") else _value_names(store, columns)
    times = _takes_times(df.sparkSession)
    mapped = [spark_type(store.value_schema.field(name).type, name, times=times) for name in names]
    appended = [f"{prefix or ''}{name}" for name in names]
    case_sensitive = df.sparkSession.conf.get("spark.sql.caseSensitive") == "true"
    _check_collisions(facts.names, appended, prefix, case_sensitive)
    plan = JoinPlan(
        path=store.path,
        store_id=store.id,
        keys=keys,
        how=how,
        columns=names,
        types=tuple(arrow for _, arrow in mapped),
    )
    fields = [*facts.fields, *(StructField("", kind) for kind, _ in mapped)]
    schema = StructType(
        [
            StructField(f"c{i}", field.dataType, field.nullable, field.metadata)
            for i, field in enumerate(fields)
        ]
    )
    # On the way columns have numbers: names with dots, or twice the same, mislead Spark.
    numbered = df.toDF(*schema.names[: len(facts)])
    joined = numbered.mapInArrow(functools.partial(join_batches, plan), schema)
    return joined.toDF(*facts.names, *appended)


def join_batches(plan: JoinPlan, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Join record batches of facts with the store, in an executor's Python worker."""
    store = _opened(plan.path, plan.store_id)
    for batch in batches:
        yield _joined(store, plan, batch)


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


def _joined(store: LookupStore, plan: JoinPlan, batch: pa.RecordBatch) -> pa.RecordBatch:
    keys = tuple(batch.column(i) for i in plan.keys)
    facts = batch.columns
    if plan.how in ("semi", "anti"):
        found = _contained(store, keys)
        kept = pa.array(found if plan.how == "semi" else ~found)
        return _batch([column.filter(kept) for column in facts])
    found, values = _looked_up(store, keys, plan)
    if plan.how == "inner" and not found.all():
        kept = pa.array(found)
        facts = [column.filter(kept) for column in facts]
        values = [column.filter(kept) for column in values]
    return _batch([*facts, *values])


def _batch(columns: list[pa.Array]) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays(columns, names=[f"c{i}" for i in range(len(columns))])


def _contained(store: LookupStore, keys: tuple[pa.Array, ...]) -> npt.NDArray[np.bool_]:
    found: npt.NDArray[np.bool_] = store.contains(keys).to_numpy(zero_copy_only=False)
    whole = _whole_keys(store, keys)
    return found if whole is None else found & whole


def _looked_up(
    store: LookupStore, keys: tuple[pa.Array, ...], plan: JoinPlan
) -> tuple[npt.NDArray[np.bool_], list[pa.Array]]:
    """Return whether each key was found, and the value columns in Spark's types."""
    mark = "found"
    while mark in plan.columns:
        mark += "_"
    table = store.lookup(keys, list(plan.columns), found=mark)
    found = _array(table, mark).to_numpy(zero_copy_only=False)
    values = [
        to_spark(_array(table, name), kind, name)
        for name, kind in zip(plan.columns, plan.types, strict=True)
    ]
    whole = _whole_keys(store, keys)
    if whole is None:
        return found, values
    # The store has answered null keys from the null keys that it holds: a join must not see that.
    places = pa.array(np.arange(len(whole)), mask=~whole)
    return found & whole, [column.take(places) for column in values]


def _array(table: pa.Table, name: str) -> pa.Array:
    column = table.column(name)
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()


def _whole_keys(store: LookupStore, keys: tuple[pa.Array, ...]) -> npt.NDArray[np.bool_] | None:
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


def _key_positions(
    facts: StructType, keys: KeySchema, on: str | Sequence[str] | Mapping[str, str]
) -> tuple[int, ...]:
    """Return the positions of the fact columns that hold the key fields, in the key's order."""
    fact_of: dict[str, str] = {}
    for fact, key in _name_pairs(on):
        if fact not in facts.names:
            raise KeyError(f"on: the facts have no column {fact!r}; they have {facts.names}")
        if facts.names.count(fact) > 1:
            raise ValueError(f"on: the facts have more than one column {fact!r}; rename them")
        if key not in keys.names:
            raise KeyError(
                f"on: the store has no key column {key!r}; its key is {keys.names}; for other "
                "names give a dict from fact column to key column"
            )
        if key in fact_of:
            raise ValueError(f"on: the key column {key!r} is given twice")
        fact_of[key] = fact
    for name in keys.names:
        if name not in fact_of:
            raise KeyError(
                f"on: no fact column for the key column {name!r}; the key of the store is "
                f"{keys.names}"
            )
    for field in keys.schema:
        _check_kind(facts[fact_of[field.name]], field)
    return tuple(facts.names.index(fact_of[name]) for name in keys.names)


def _name_pairs(on: str | Sequence[str] | Mapping[str, str]) -> list[tuple[str, str]]:
    """Return the names of fact columns and key columns that belong together."""
    if isinstance(on, Mapping):
        pairs = list(on.items())
    elif isinstance(on, Iterable) and not isinstance(on, (str, Column)):
        pairs = [(name, name) for name in on]
    else:
        pairs = [(on, on)]
    for name in itertools.chain.from_iterable(pairs):
        if not isinstance(name, str):
            raise TypeError(
                f"on: found a {type(name).__name__}; give names of fact columns, or a dict from "
                "fact column to key column, such as {'fact': 'key'}"
            )
    return pairs


def _takes_times(spark: SparkSession) -> bool:
    """Say whether the session runs queries with times; Spark without the setting has no times."""
    conf = spark.conf
    return bool(conf.isModifiable(TIME_SETTING)) and conf.get(TIME_SETTING) == "true"


def _check_kind(fact: StructField, field: pa.Field) -> None:
    """Raise TypeError unless values of the fact column can equal those of a key field."""
    (given,) = arrow_schema(StructType([fact]))
    try:
        KeySchema(pa.schema([field])).encode_masked([pa.array([], given.type)])
    except TypeError:
        raise TypeError(
            f"on: the fact column {fact.name!r} is {fact.dataType.simpleString()}, the key column "
            f"{field.name!r} of the store is {field.type}; cast the fact column"
        ) from None


def _value_names(store: LookupStore, columns: Sequence[str] | None) -> tuple[str, ...]:
    known = store.value_schema.names
    names = known if columns is None else [columns] if isinstance(columns, str) else list(columns)
    for name in names:
        if name not in known:
            raise KeyError(f"columns: the store has no value column {name!r}; it has {known}")
        if names.count(name) > 1:
            raise ValueError(f"columns names {name!r} twice")
    return tuple(names)


def _check_collisions(
    facts: Sequence[str], appended: Sequence[str], prefix: str | None, case_sensitive: bool
) -> None:
    """Raise ValueError if Spark could not tell an appended column from a fact column."""
    fold = str if case_sensitive else str.lower
    taken = {fold(name) for name in facts}
    shared = [name for name in appended if fold(name) in taken]
    if shared:
        other = "a prefix=" if prefix is None else "another prefix="
        raise ValueError(
            f"facts and store both have the columns {shared}; give {other}, or choose columns="
        )
