"""Join a DataFrame with stores: each key is looked up in the task that has the row."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any

from pyspark.sql import DataFrame

from lookupstore.columnar import ColumnarFiles
from lookupstore.columnar.lookup_file import Mode
from lookupstore.errors import FormatError
from lookupstore.filters import Filter
from lookupstore.keys.joins import how_of, name_pairs
from lookupstore.keywords import JOIN_ADVICE, WHERE_ADVICE, with_advice
from lookupstore.quantities import Duration
from lookupstore.source.argument_names import as_argument
from lookupstore.source.table_objects import library_format
from lookupstore.spark.catalog_tables import could_name_table
from lookupstore.spark.frames import check_dataframe
from lookupstore.spark.join.metrics import LookupMetrics
from lookupstore.spark.join.plan import JoinPlan, plan_join
from lookupstore.spark.join.request import JoinedWith, LookupJoin
from lookupstore.spark.join.task import Dimension
from lookupstore.spark.join.trip import Trip
from lookupstore.storage.location import Location
from lookupstore.storage.storage_options import paths_with_options
from lookupstore.store.path_kind import PathKind, kind_of
from lookupstore.store.store import LookupStore
from lookupstore.store.store import open as open_store

if TYPE_CHECKING:  # joins with stores need nothing of Hudi
    from lookupstore.hudi import HudiTable, TableLookup

# Number of calls between a warning and the caller of `lookup_join`.
_CALLER = 7


@with_advice({**JOIN_ADVICE, **WHERE_ADVICE}.get)
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
    refresh: str | float | timedelta | None = None,
    max_staleness: Duration | None = None,
    on_miss: str | tuple[str, int, float | timedelta] = "null",
    warm: bool = False,
    metrics: LookupMetrics | None = None,
    where: Filter | None = None,
    version: int | None = None,
    as_of: datetime | str | None = None,
    storage_options: Mapping[str, Any] | None = None,
) -> DataFrame:
    """Join facts with a store by its key, lazily.

    Facts may repeat keys. A null key matches nothing, not even a null key of the store. A value
    outside the key's type, such as 2**40 for an int32 key, matches nothing either.

    Args:
        df: Facts: a DataFrame of Spark.
        store: Store, columnar files or table to look keys up in, which executors must be able to
            read. A store is a `LookupStore`, or its path, URI or location. Columnar files are
            `ColumnarFiles`, or a path, URI, folder or glob, such as `s3://bucket/users/*.parquet`;
            `on` then names their key. A Delta, Iceberg or Paimon table is its path or URI, its name
            `"iceberg:CATALOG.NAMESPACE.TABLE"`, or a table of `deltalake`, `pyiceberg` or
            `pypaimon`; `on` then names the key, which must be unique. A Hudi table is a
            `HudiTable`, its path or URI, or a `TableLookup`; `on` then names the record key, and
            also the partition columns to look keys up in their own partition only.
        on: Fact columns that hold the key: a name or names, in any order, that the key columns have
            as well, or a dict from fact column to key column. Every key column is needed.
        how: Kind of join. `left` keeps every fact, with nulls where the key is missing. `inner`
            keeps facts with a found key. `semi` keeps the same facts, without columns of the store.
            `anti` keeps facts with a missing key. Spark's other names, such as `left_semi` and
            `LEFT`, are accepted.
        columns: Value columns of the store to append, in this order. Default: all.
        prefix: Prefix of the names of the appended columns. Default: none.
        found: Name of a boolean column to append, which is true where the key was found. Default:
            no such column.
        strategy: Strategy of the join. `replicated` moves no fact, and each host reads what its
            keys need, up to all of the store. `bucketed` moves each fact once, to the task of its
            bucket, which reads one data file; facts with null keys spread over all tasks. `auto`
            uses `replicated` up to a size of the store, which `explain_join` shows.
        refresh: Version that answers. `never`: the version that is current at this call, whenever
            the query runs. `per_batch`: the newest version at the start of each query or
            micro-batch. A number of seconds, a timedelta or a text such as `"1m"`: the newest
            version at the last multiple of that time since 1970. All tasks of a query use the same
            version, even when Spark repeats them. The versions of a table are its commits (of a
            Hudi table of version 8 or 9). Other columnar files have no versions: each Python worker
            lists their paths at these times, and finds files that were added, removed or replaced.
            Default: `never`; for a streaming DataFrame `per_batch`, except with a Hudi table of
            version 6, or a table opened at a version or time.
        max_staleness: Greatest age of the version when a query or micro-batch starts: a number of
            seconds, a timedelta or a text such as `"1h"`. The age of columnar files is that of the
            newest one. Default: any age.
        on_miss: Handling of facts with a missing key that has no nulls. `null` keeps them in a left
            join, `drop` never keeps them, and `raise` fails the query with `MissingKeyError`.
            `("retry", attempts, delay)` looks them up again in the newest version, up to `attempts`
            times, each after `delay` (seconds, a timedelta or a text), before `how` applies.
        warm: Whether each host prepares the lookups of a store with the strategy `replicated`
            before its first fact, once for all its Python workers, as `LookupStore.warm` does. Use
            it when a host looks up millions of keys.
        metrics: Object that adds up the counts of the tasks. Default: none.
        where: Condition that rows of `store` must meet to be found: SQL such as
            `"country = 'US'"`, a tuple such as `("country", "=", "US")`, a list of tuples that must
            all be true, or an expression of `pyarrow.compute`. Default: all rows.
        version: Number of the version of a store or Delta table, or of the snapshot of an Iceberg
            or Paimon table, that answers. Default: the version that `refresh` names, or that of an
            open object.
        as_of: Time of the version, snapshot or commit that answers: a datetime or a text such as
            `"2026-11-22 07:30Z"`; of a Hudi table also an instant. Default: not given.
        storage_options: Options of the URI of `store`, such as credentials; see
            `lookupstore.Location`.

    Returns:
        The columns of `df`, then the appended columns, which may be null.

    Raises:
        KeyError: If the facts, the key or the store lack a column.
        TypeError: If an argument has a wrong type, such as a pandas DataFrame or a column
            expression; if a fact column is of another kind than its key column; or if Spark has no
            type for a value column, or the session has times off and a column holds times.
        ValueError: If `how` or `strategy` is unknown, another argument is out of range, or facts
            and store share a name. The error names the remedy.
        FileNotFoundError: If there is no such store.
        FormatError: If the path names none of these, or files of a table. The error names the line
            to write instead.

    If a store is replaced between planning and running, tasks that have not opened it yet raise
    `StaleStoreError`. Damaged bytes raise `CorruptionError` there. Spark does not pass on these
    classes: the action always raises `pyspark.errors.PythonException`, and a line of its text
    begins with `lookupstore.errors.StaleStoreError: `.
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
        warm=warm,
        metrics=metrics,
        where=where,
        version=version,
        as_of=as_of,
        storage_options=storage_options,
    )
    return lookup_joins(df, [join])


def lookup_joins(df: DataFrame, joins: Sequence[LookupJoin]) -> DataFrame:
    """Join facts with several stores, sending them to Python once.

    The result is the same as that of one `lookup_join` after another. The key of a later join may
    be a column that an earlier join appends. A later join does not look up facts that an earlier
    join drops. Facts are sent to Python again only for a second join of `strategy="bucketed"`, or
    for a first one with a key that an earlier join appends.

    Args:
        df: Facts: a DataFrame of Spark.
        joins: Joins in their order, each with the arguments of `lookup_join`.

    Returns:
        The columns of `df`, then the appended columns of each join.

    Raises:
        TypeError: If `joins` is not a list of `LookupJoin`.

    It also raises every error of `lookup_join`. `docs/how-to/spark-join-many.md` shows an example.
    """
    check_dataframe(df)
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
    """Plan a join with the result of a trip, and keep its dimension open during the block."""
    _ = asked.freshness  # raises errors in it before anything is opened
    (store,) = paths_with_options(asked.storage_options, store=asked.store)
    opened = dimension_of(
        store,
        asked.on,
        asked.how,
        asked.columns,
        asked.where,
        version=asked.version,
        as_of=asked.as_of,
    )
    # What was opened here, unless it is a store, applies the filter: without it, rows may repeat a
    # key.
    has_filter = not isinstance(opened, LookupStore) and opened is not asked.store
    where = None if has_filter else asked.where
    asked = _following(asked, opened, trip.facts)
    try:
        yield opened, plan_join(trip.facts.sparkSession, trip.schema, opened, asked, where)
    finally:
        if opened is not asked.store:
            opened.close()


def _following(asked: LookupJoin, dimension: Dimension, facts: DataFrame) -> LookupJoin:
    """Return a join with the `refresh` of its facts, and say if a stream sees no newer rows."""
    if asked.pinned_by is not None:
        return replace(asked, refresh="never")
    refresh = asked.refresh
    if refresh is None:
        refresh = "per_batch" if facts.isStreaming and _has_versions(dimension) else "never"
    if refresh == "never" and facts.isStreaming:
        remedy = "leave refresh out, or give refresh='per_batch'"
        state = "one commit"
        if isinstance(dimension, LookupStore):
            state = f"version {dimension.version}"
        elif isinstance(dimension, ColumnarFiles) and dimension.is_listed:
            state = "the files as they are now"
        elif isinstance(dimension, ColumnarFiles) and not dimension.has_commits:
            remedy = "pass the path of the table"
        elif isinstance(dimension, ColumnarFiles) and asked.refresh is None:
            remedy = "open it without version and as_of, and in a catalog that executors reach"
        elif asked.refresh is None:  # a Hudi table
            remedy = "call lookup_join in foreachBatch"
            if _is_fixed(dimension):
                remedy = "open it without as_of"
        warnings.warn(
            f"the stream joins {dimension.path} at {state}, as long as it runs; to join newer "
            f"rows, {remedy}",
            stacklevel=_CALLER,
        )
    return replace(asked, refresh=refresh)


def _has_versions(dimension: Dimension) -> bool:
    """Return whether newer versions of a dimension can be found."""
    if isinstance(dimension, LookupStore):
        return True
    if isinstance(dimension, ColumnarFiles) and not dimension.has_commits:
        return dimension.is_listed
    try:
        dimension.position_at(datetime.now(timezone.utc))
    except (FormatError, ValueError):  # such as a table of version 6
        return False
    return True


def _is_fixed(table: ColumnarFiles | TableLookup) -> bool:
    """Return whether a table was opened at a time, so that no newer versions can be found."""
    try:
        table.position_at(datetime.now(timezone.utc))
    except FormatError:  # such as a table of version 6
        return False
    except ValueError:
        return True
    return False


@as_argument("store")
def dimension_of(
    store: JoinedWith,
    on: str | Sequence[str] | Mapping[str, str],
    how: str = "left",
    columns: Sequence[str] | None = None,
    where: Filter | None = None,
    *,
    version: int | None = None,
    as_of: datetime | str | None = None,
) -> Dimension:
    """Return the dimension of a join: `store` itself, or the opened store, files or table.

    Without a key in `on`, the key of a Hudi table is its record key, in all partitions. Files and
    tables that are opened here have only the rows that meet `where`.

    Raises:
        ValueError: If `version` or `as_of` is given for an open object, or for something without
            such versions.
    """
    if isinstance(as_of, int):
        raise TypeError(f"as_of is {as_of!r}; give a time, or a number as version")
    pinned = "as_of" if version is None else "version"
    is_pinned = version is not None or as_of is not None
    if isinstance(store, (LookupStore, ColumnarFiles)):
        if is_pinned:
            raise _open_error(store, pinned)
        return store
    key = [name for _, name in name_pairs(on)]
    presence = how_of(how) in ("semi", "anti")
    values = () if presence else columns
    mode: Mode = "presence" if presence else "value"
    chosen = None if presence else columns
    if not isinstance(store, (str, os.PathLike, Location)):
        if library_format(store) is not None:
            return ColumnarFiles(
                store, key=key, columns=chosen, mode=mode, where=where, version=version, as_of=as_of
            )
        return _dimension_of_hudi(store, key, values, where, version, as_of)
    kind = kind_of(store)
    if kind is PathKind.HUDI_TABLE:
        from lookupstore.hudi import HudiTable

        table = HudiTable.open(store)
        return _dimension_of_hudi(table, key, values, where, version, as_of)
    if kind is PathKind.COLUMNAR_FILES:
        return ColumnarFiles(
            store, key=key, columns=chosen, mode=mode, where=where, version=version, as_of=as_of
        )
    try:
        return open_store(store, version=version, as_of=as_of)  # raises an error if it is no store
    except FileNotFoundError as error:
        if not isinstance(store, str) or not could_name_table(store) or Location(store).is_there():
            raise
        raise FileNotFoundError(
            f"{error}; if it is a table of Spark's catalog, build a store from "
            f"spark.table({store!r}); if it is an Iceberg table, pass "
            "'iceberg:CATALOG.NAMESPACE.TABLE'"
        ) from None


def _open_error(store: Dimension, pinned: str) -> ValueError:
    """Return the error for an argument that chooses a version of an open object."""
    if isinstance(store, ColumnarFiles) and store.is_listed:
        return ValueError(
            f"{pinned} is given, but {store.path} names files, which have no versions; leave it out"
        )
    kind = type(store).__name__
    return ValueError(
        f"{pinned} is given, but store is an open {kind}; open it with {pinned}, or pass its path"
    )


def _dimension_of_hudi(
    store: HudiTable | TableLookup,
    key: Sequence[str],
    columns: Sequence[str] | None,
    where: Filter | None,
    version: int | None,
    as_of: datetime | str | None,
) -> TableLookup:
    """Return the dimension for a table that the caller has opened."""
    if "lookupstore.hudi" in sys.modules:  # callers with a table have imported it
        from lookupstore.hudi import HudiTable, TableLookup

        if isinstance(store, TableLookup):
            if version is not None or as_of is not None:
                raise _open_error(store, "as_of")
            return store
        if isinstance(store, HudiTable):
            if version is not None:
                raise ValueError(
                    f"version is given, but {store.location.uri} is a Hudi table, whose commits "
                    "have times; give the time of an instant as as_of"
                )
            key = key or store.options.record_key
            return TableLookup(store, key=key, columns=columns, as_of=as_of, where=where)
    remedy = (
        "give a LookupStore, ColumnarFiles, a HudiTable, a TableLookup, or a table of deltalake, "
        "pyiceberg or pypaimon, or a path or location"
    )
    if isinstance(store, DataFrame):
        remedy = "build a store of it first: build_store(df, PATH, key=...)"
    raise TypeError(f"store is a {type(store).__name__}; {remedy}")
