"""Join a DataFrame with a store: each key is looked up where the row already is.

Only key columns go to the Python workers, and only columns of the store come back, by an Arrow UDF
that answers with a struct. Spark before 4.1 has none: there whole rows go through `mapInArrow`.
"""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import timedelta
from typing import TYPE_CHECKING, Any, TypeAlias

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import (
    BooleanType,
    DataType,
    IntegerType,
    StructField,
    StructType,
)

from lookupstore.columnar import ColumnarFiles
from lookupstore.quantities import Duration
from lookupstore.spark.buckets import in_buckets
from lookupstore.spark.join.metrics import LookupMetrics
from lookupstore.spark.join.plan import (
    JoinPlan,
    JoinRequest,
    check_facts,
    how_of,
    name_pairs,
    plan_join,
)
from lookupstore.spark.join.task import Dimension, Sum
from lookupstore.spark.join.worker import buckets_at, contains, joined, look_up, with_buckets
from lookupstore.spark.types import column_named, numbered
from lookupstore.store.path_kind import PathKind, kind_of
from lookupstore.store.store import LookupStore

if TYPE_CHECKING:  # joins with stores need nothing of Hudi
    from lookupstore.hudi import HudiTable, TableLookup

try:
    from pyspark.sql.pandas.functions import arrow_udf
except ImportError:  # before Spark 4.1
    arrow_udf = None  # type: ignore[assignment]

_BUCKET = "__lookupstore_bucket"
# One of them is in the folder of every Hudi table, the second while somebody changes the first.

#: What `lookup_join` takes as the dimension.
JoinedWith: TypeAlias = (
    "str | os.PathLike[str] | LookupStore | ColumnarFiles | HudiTable | TableLookup"
)


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
) -> DataFrame:
    """Join facts with a store by its key; lazy, as any transformation.

    Facts may repeat keys. A null key matches nothing, not even a null
    key of the store, and neither does a value outside the key's type, such as 2**40 for an
    int32 key.

    Args:
        df: the facts.
        store: a store, or its path or URI, which executors must see, too; or columnar files as
            they are: `ColumnarFiles`, or a path, URI, folder or glob of them, such as
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
            the same version, also when they are tried again.
        max_staleness: the most time (in seconds, or a timedelta) that may have passed, when a query
            or micro-batch starts, since its version was published; None: any.
        on_miss: what happens to facts whose key, without nulls, is missing: `null` keeps them in a
            left join, `drop` never, `raise` fails the query with `MissingKeyError`, and
            `("retry", attempts, delay)` looks them up again in the newest version, after `delay`
            seconds each time, before it does what `how` says.
        metrics: adds up what the tasks count.

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
    request = JoinRequest(
        on, how, columns, prefix, found, strategy, refresh, max_staleness, on_miss
    )
    counts = None if metrics is None else metrics.accumulator
    with planned(df, store, request, counts) as (_, plan):
        return _by_arrow_udf(df, plan) if arrow_udf is not None else _by_map_in_arrow(df, plan)


@contextmanager
def planned(
    df: DataFrame, store: JoinedWith, request: JoinRequest, counts: Sum | None = None
) -> Iterator[tuple[Dimension, JoinPlan]]:
    """Plan a join, and keep what answers it open for the block."""
    check_facts(df)
    _ = request.freshness  # what is wrong with it is said before anything is opened
    opened = dimension_of(store, request.on, request.how, request.columns)
    try:
        yield opened, plan_join(df, opened, request, counts)
    finally:
        if opened is not store:
            opened.close()


def dimension_of(
    store: JoinedWith,
    on: str | Sequence[str] | Mapping[str, str],
    how: str = "left",
    columns: Sequence[str] | None = None,
) -> Dimension:
    """Return what answers a join: `store` itself, or what its path names, opened."""
    if isinstance(store, (LookupStore, ColumnarFiles)):
        return store
    key = [name for _, name in name_pairs(on)]
    presence = how_of(how) in ("semi", "anti")
    values = () if presence else columns
    if not isinstance(store, (str, os.PathLike)):
        return _dimension_of_hudi(store, key, values)
    path = os.fspath(store)
    kind = kind_of(path)
    if kind is PathKind.HUDI_TABLE:
        from lookupstore.hudi import TableLookup

        return TableLookup(path, key=key, columns=values)
    if kind is PathKind.COLUMNAR_FILES:
        if presence:
            return ColumnarFiles(path, key=key, mode="presence")
        return ColumnarFiles(path, key=key, columns=columns)
    return LookupStore(path)  # which says so if it is none


def _dimension_of_hudi(
    store: HudiTable | TableLookup, key: Sequence[str], columns: Sequence[str] | None
) -> TableLookup:
    """Return what answers for a table that the caller has opened."""
    if "lookupstore.hudi" in sys.modules:  # whoever has a table has imported it
        from lookupstore.hudi import HudiTable, TableLookup

        if isinstance(store, TableLookup):
            return store
        if isinstance(store, HudiTable):
            return TableLookup(store.location, key=key, columns=columns)
    raise TypeError(
        f"store is a {type(store).__name__}; give a LookupStore, ColumnarFiles, a HudiTable or a "
        "TableLookup, or a path"
    )


def _by_arrow_udf(df: DataFrame, plan: JoinPlan) -> DataFrame:
    lookup = plan.lookup
    keys = [column_named(name) for name in plan.keys]
    if plan.strategy == "bucketed":
        run = functools.partial(buckets_at, lookup.key_schema, plan.buckets)
        bucket = F.coalesce(_udf("bucket", run, IntegerType(), keys), _hash_bucket(df, plan))
        df = _in_buckets(df.select("*", bucket.alias(_BUCKET)), plan)
    if lookup.freshness.needs_moment:
        keys.append(F.current_timestamp())
    if not plan.appended:
        if plan.how == "left" and lookup.on_miss is None:
            return df
        run = functools.partial(contains, lookup)
        found = _udf("lookup", run, BooleanType(), keys)
        if plan.how == "left":  # never null, but Spark does not know that
            return df.where(found.isNotNull())
        return df.where(~found if plan.how == "anti" else found)
    names = numbered(len(plan.appended))
    fields = [
        StructField(name, field.dataType) for name, field in zip(names, plan.appended, strict=True)
    ]
    run = functools.partial(look_up, lookup, plan.mark)
    row = _udf("lookup", run, StructType(fields), keys)
    # A generator, because filters on its columns stay above it while those on facts go below: in a
    # plain projection a filter on a looked up column would look all keys up once more.
    rows = F.array(row)
    if plan.how == "inner":
        found = row.getField(names[-1]) if plan.mark else row.isNotNull()
        rows = F.when(found, rows)
    return df.select("*", F.inline(rows).alias(*(field.name for field in plan.appended)))


def _by_map_in_arrow(df: DataFrame, plan: JoinPlan) -> DataFrame:
    facts = df.schema
    positions = tuple(facts.names.index(name) for name in plan.keys)
    fields = [*facts.fields, *plan.appended]
    # On the way columns have numbers: names with dots, or twice the same, mislead Spark.
    schema = StructType(
        [
            StructField(name, field.dataType, field.nullable, field.metadata)
            for name, field in zip(numbered(len(fields)), fields, strict=True)
        ]
    )
    rows = df.toDF(*schema.names[: len(facts)])
    if plan.strategy == "bucketed":
        rows = _in_buckets(_with_bucket(rows, plan, positions), plan)
    if plan.lookup.freshness.needs_moment:
        rows = rows.select("*", F.current_timestamp())
    run = functools.partial(joined, plan.lookup, plan.mark, positions, plan.how)
    return rows.mapInArrow(run, schema).toDF(*(field.name for field in fields))


def _in_buckets(rows: DataFrame, plan: JoinPlan) -> DataFrame:
    """Move rows to the task of the bucket that their last column names, and drop the column."""
    return in_buckets(rows, plan.buckets, _BUCKET).drop(_BUCKET)


def _with_bucket(rows: DataFrame, plan: JoinPlan, positions: tuple[int, ...]) -> DataFrame:
    schema = StructType([*rows.schema.fields, StructField(_BUCKET, IntegerType())])
    hashed = rows.select("*", _hash_bucket(rows, plan).alias(_BUCKET))
    run = functools.partial(with_buckets, plan.lookup.key_schema, plan.buckets, positions)
    return hashed.mapInArrow(run, schema)


def _hash_bucket(rows: DataFrame, plan: JoinPlan) -> Column:
    """Return a bucket by all of the row, for rows whose key has a null: no bucket has them all."""
    nested = ("array", "map", "struct", "variant")
    columns = [
        column_named(name)
        for name, kind in rows.dtypes
        if not kind.startswith(nested) and rows.columns.count(name) == 1
    ]
    return F.pmod(F.xxhash64(*columns), F.lit(plan.buckets)).cast("int")


def _udf(
    name: str,
    run: Callable[..., Iterator[pa.Array]],
    kind: DataType,
    columns: Sequence[Column],
) -> Column:
    """Return the columns through an Arrow UDF, which queries show by its name."""

    def of_one(given: Iterator[pa.Array]) -> Iterator[pa.Array]:
        return run(given)

    def of_several(given: Iterator[tuple[pa.Array, ...]]) -> Iterator[pa.Array]:
        return run(given)

    # Spark asks the type hints what a function is given.
    function: Any = of_one if len(columns) == 1 else of_several
    function.__name__ = name
    make: Any = arrow_udf  # whose overloads know no iterators of tuples
    column: Column = make(function, kind)(*columns)
    return column
