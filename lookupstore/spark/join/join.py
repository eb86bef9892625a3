"""Join a DataFrame with stores: each key is looked up where the row already is."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from pyspark.sql import DataFrame

from lookupstore.columnar import ColumnarFiles
from lookupstore.keys.joins import how_of, name_pairs
from lookupstore.quantities import Duration
from lookupstore.spark.join.metrics import LookupMetrics
from lookupstore.spark.join.plan import JoinPlan, check_facts, plan_join
from lookupstore.spark.join.request import JoinedWith, LookupJoin
from lookupstore.spark.join.task import Dimension
from lookupstore.spark.join.trip import Trip
from lookupstore.storage.location import Location
from lookupstore.storage.storage_options import paths_with_options
from lookupstore.store.path_kind import PathKind, kind_of
from lookupstore.store.store import LookupStore

if TYPE_CHECKING:  # joins with stores need nothing of Hudi
    from lookupstore.hudi import HudiTable, TableLookup


def lookup_join(
    df: DataFrame,
    store: JoinedWith,
    on: str | Sequence[str] | Mapping[str, str],
    how: str = "left",
    columns: Sequence[str] | None = None,
    prefix: str | None = None,
    *,
    found: str | None = None,
    strategy: str = "auto",
    refresh: str | float | timedelta = "never",
    max_staleness: Duration | None = None,
    on_miss: str | tuple[str, int, float | timedelta] = "null",
    metrics: LookupMetrics | None = None,
    storage_options: Mapping[str, Any] | None = None,
) -> DataFrame:
    """Join facts with a store by its key; lazy, as any transformation.

    Facts may repeat keys. A null key matches nothing, not even a null
    key of the store, and neither does a value outside the key's type, such as 2**40 for an
    int32 key.

    Args:
        df: the facts.
        store: a store, or its path, URI or location, which executors must see, too; or columnar
            files as they are: `ColumnarFiles`, or a path, URI, folder or glob of them, such as
            `s3://bucket/users/*.parquet`, whose key is that of `on`; or a Hudi table: `HudiTable`,
            its path or URI, or a `TableLookup`, where `on` names the record key, and the partition
            columns if keys are to be looked up in their own partition only.
        on: the fact columns that hold the key: a name, or names, in any order, that the key has
            as well; or a dict from fact column to key column. Every key column is needed.
        how: `left` keeps every fact, with nulls where the key is missing; `inner` keeps facts
            whose key is found; `semi` the same without columns of the store; `anti` keeps facts
            whose key is not found. Spark's other names for these work, too: `left_semi`, `LEFT`.
        columns: value columns of the store to append, in this order; None appends all.
        prefix: put before the name of each appended column.
        found: name of a boolean column to append as well: whether the key was found.
        strategy: `replicated` moves no fact, and each host reads all of the store; `bucketed`
            moves each fact once, to the task of its bucket of the store, which reads one data file
            (facts with null keys spread over all tasks); `auto` takes `replicated` up to a size of
            the store, which `explain_join` shows.
        refresh: `never`: the version that is current now, whenever the query runs; `per_batch`: the
            newest version at the start of each query or micro-batch; a number of seconds or a
            timedelta: the newest at the last multiple of it since 1970. All tasks of a query take
            the same version, also when they are tried again. The versions of a Hudi table (of
            version 8 or 9) are its commits; columnar files have none.
        max_staleness: for stores, the most time (in seconds, or a timedelta) that may have passed,
            when a query or micro-batch starts, since its version was published; None: any.
        on_miss: what happens to facts whose key, without nulls, is missing: `null` keeps them in a
            left join, `drop` never, `raise` fails the query with `MissingKeyError`, and
            `("retry", attempts, delay)` looks them up again in the newest version, after `delay`
            seconds each time, before it does what `how` says.
        metrics: adds up what the tasks count.
        storage_options: of the URI of `store`, as of `lookupstore.Location`.

    Returns:
        The columns of `df`, then the value columns of the store, which may be null.

    Raises:
        KeyError: a column that the facts, the key or the store do not have.
        TypeError: an argument of another kind, such as a pandas DataFrame or a column expression;
            a fact column of another kind than its key column; or a value column that Spark has no
            type for, or a time while the session has times off.
        ValueError: an unknown `how` or `strategy`, or a name that facts and store share; the error
            names the remedy.
        FileNotFoundError: there is no such store.
        FormatError: the path is of none of these, or of files of a table: the error names the line
            to write instead.

    A store that is replaced between planning and running raises `StaleStoreError` in the tasks
    that have not opened it yet, and stored bytes that are wrong raise `CorruptionError` there.
    Spark does not pass their classes on: what the action raises is always a
    `pyspark.errors.PythonException`, and a line of its text begins with
    `lookupstore.errors.StaleStoreError: `.
    """
    join = LookupJoin(
        store,
        on,
        how,
        columns,
        prefix,
        found=found,
        strategy=strategy,
        refresh=refresh,
        max_staleness=max_staleness,
        on_miss=on_miss,
        metrics=metrics,
        storage_options=storage_options,
    )
    return lookup_joins(df, [join])


def lookup_joins(df: DataFrame, joins: Sequence[LookupJoin]) -> DataFrame:
    """Join facts with several stores, in one trip to Python.

    The result is that of a `lookup_join` for each, one after the other: a later join may have as
    its key what an earlier one appends, and asks nothing for facts that an earlier one drops.
    Only a second join of `strategy="bucketed"`, for which facts move again, takes a second trip.

    Args:
        df: the facts.
        joins: each has the arguments of `lookup_join`.

    Returns:
        The columns of `df`, then the value columns of the stores.

    Raises:
        TypeError: `joins` is no list of `LookupJoin`.

    It raises all that `lookup_join` raises. `docs/spark.md` shows it in use.
    """
    check_facts(df)
    if isinstance(joins, LookupJoin):
        raise TypeError("joins is a LookupJoin; give a list of LookupJoin(store, on, ...)")
    for i, one in enumerate(joins):
        if not isinstance(one, LookupJoin):
            raise TypeError(
                f"joins[{i}] is a {type(one).__name__}; give LookupJoin(store, on, ...) for each"
            )
    before = trip = Trip.before(df)
    for one in joins:
        with planned(trip, one) as (_, plan):
            trip = trip.and_then(plan)
    return df if trip is before else trip.joined()


@contextmanager
def planned(trip: Trip, asked: LookupJoin) -> Iterator[tuple[Dimension, JoinPlan]]:
    """Plan a join of what comes back from a trip, and keep what answers it open for the block."""
    _ = asked.freshness  # what is wrong with it is said before anything is opened
    (store,) = paths_with_options(asked.storage_options, store=asked.store)
    opened = dimension_of(store, asked.on, asked.how, asked.columns)
    try:
        yield opened, plan_join(trip.facts.sparkSession, trip.schema, opened, asked)
    finally:
        if opened is not asked.store:
            opened.close()


def dimension_of(
    store: JoinedWith,
    on: str | Sequence[str] | Mapping[str, str],
    how: str = "left",
    columns: Sequence[str] | None = None,
) -> Dimension:
    """Return what answers a join: `store` itself, or what its path names, opened.

    Without a key in `on`, the key of a Hudi table is its record key, in all partitions.
    """
    if isinstance(store, (LookupStore, ColumnarFiles)):
        return store
    key = [name for _, name in name_pairs(on)]
    presence = how_of(how) in ("semi", "anti")
    values = () if presence else columns
    if not isinstance(store, (str, os.PathLike, Location)):
        return _dimension_of_hudi(store, key, values)
    kind = kind_of(store)
    if kind is PathKind.HUDI_TABLE:
        from lookupstore.hudi import HudiTable

        return _dimension_of_hudi(HudiTable.open(store), key, values)
    if kind is PathKind.COLUMNAR_FILES:
        if presence:
            return ColumnarFiles(store, key=key, mode="presence")
        return ColumnarFiles(store, key=key, columns=columns)
    return LookupStore(store)  # which says so if it is none


def _dimension_of_hudi(
    store: HudiTable | TableLookup, key: Sequence[str], columns: Sequence[str] | None
) -> TableLookup:
    """Return what answers for a table that the caller has opened."""
    if "lookupstore.hudi" in sys.modules:  # whoever has a table has imported it
        from lookupstore.hudi import HudiTable, TableLookup

        if isinstance(store, TableLookup):
            return store
        if isinstance(store, HudiTable):
            key = key or store.options.record_key
            return TableLookup(store.location, key=key, columns=columns)
    raise TypeError(
        f"store is a {type(store).__name__}; give a LookupStore, ColumnarFiles, a HudiTable or a "
        "TableLookup, or a path or location"
    )
