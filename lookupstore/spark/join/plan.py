"""Plan a lookup join: a request, checked against facts and store before anything runs."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Literal

import pyarrow as pa
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession
from pyspark.sql.types import BooleanType, StructField, StructType

from lookupstore.columnar import ColumnarFiles
from lookupstore.errors import printable
from lookupstore.filters import Filter
from lookupstore.filters.row_filter import row_filter
from lookupstore.keys.joins import (
    How,
    On,
    can_equal,
    check_adds_nothing,
    check_kind,
    check_names,
    check_texts,
    how_of,
    key_columns,
    name_pairs,
)
from lookupstore.keys.lookups import value_columns
from lookupstore.spark.context import run_driver_python
from lookupstore.spark.join.freshness import ChosenVersion, Freshness
from lookupstore.spark.join.metrics import LookupMetrics
from lookupstore.spark.join.request import LookupJoin, time_in_seconds
from lookupstore.spark.join.task import AsPlanned, Dimension, LookupTask, PlannedStore, Retry
from lookupstore.spark.types import TIME_SETTING, arrow_schema, spark_type, type_to_cast_to
from lookupstore.storage.catalog_names import is_catalog_name
from lookupstore.storage.location import Location
from lookupstore.store.store import LookupStore

Strategy = Literal["auto", "replicated", "bucketed"]

STRATEGIES: tuple[Strategy, ...] = ("auto", "replicated", "bucketed")
# Maximum size of a store that is replicated, in bytes: its files are read at random and should fit
# into the memory of a host. Beyond this, moving the facts once is cheaper than reading blocks from
# disk repeatedly.
REPLICATED_BYTES = 4 << 30


@dataclass(frozen=True)
class JoinPlan:
    """A checked join.

    Attributes:
        lookup: Lookup that the workers run.
        keys: Names of the fact columns that hold the key fields, in the order of the key.
        how: Kind of join.
        appended: Columns that the result has in addition to those of the facts.
        mark: Whether the last appended column shows which facts were found.
        strategy: Strategy of the join. `replicated`: rows stay in their tasks, and each host needs
            all of the store. `bucketed`: rows move to the task of their bucket, which needs one
            data file.
        reason: Reason for this strategy, as a text for people.
        buckets: Number of buckets of the store; 1 for files or a table.
    """

    lookup: LookupTask
    keys: tuple[str, ...]
    how: How
    appended: tuple[StructField, ...]
    mark: bool
    strategy: Literal["replicated", "bucketed"]
    reason: str
    buckets: int

    @property
    def asks(self) -> bool:
        """Return whether the join changes anything, so that keys have to be looked up."""
        return bool(self.appended) or self.how != "left" or self.lookup.on_miss is not None

    @property
    def name(self) -> str:
        """Return the name of the dimension and the key columns of the facts, for Spark's plans."""
        dimension = self.lookup.dimension
        place = dimension.location.uri if isinstance(dimension, PlannedStore) else dimension.path
        return f"{printable(place).rstrip('/').rpartition('/')[2]} on {', '.join(self.keys)}"


def plan_join(
    spark: SparkSession,
    facts: StructType,
    store: Dimension,
    asked: LookupJoin,
    where: Filter | None = None,
) -> JoinPlan:
    """Check a request against facts and store; raise the errors of `lookup_join`.

    Args:
        spark: Session of the facts.
        facts: Columns of the facts.
        store: Dimension, opened.
        asked: The request.
        where: Condition on rows that `store` has. None: it has only rows that meet it.
    """
    run_driver_python(spark)
    kind = how_of(asked.how)
    prefix, found, on_miss = asked.prefix, asked.found, asked.on_miss
    check_texts(prefix, found)
    check_adds_nothing(kind, columns=asked.columns, prefix=prefix, found=found)
    miss = _miss(on_miss, kind)
    if isinstance(miss, Retry) and asked.pinned_by is not None:
        raise ValueError(
            f"on_miss is 'retry', which looks in newer versions, but {asked.pinned_by} chooses "
            "one; leave one of the two out"
        )
    if asked.metrics is not None and not isinstance(asked.metrics, LookupMetrics):
        raise TypeError(f"metrics is {asked.metrics!r}; give LookupMetrics(spark)")
    if on_miss == "drop":
        kind = "inner"
    _check_columns(facts, asked.on)
    keys = key_columns(facts.names, store.key_schema, asked.on)
    for name, field in zip(keys, store.key_schema.schema, strict=True):
        _check_key(spark, facts[name], field)
    names = () if kind in ("semi", "anti") else tuple(value_columns(store, asked.columns))
    times = takes_times(spark)
    mapped = [spark_type(store.value_schema.field(name).type, name, times=times) for name in names]
    appended = [
        StructField(f"{prefix or ''}{name}", spark)
        for name, (spark, _) in zip(names, mapped, strict=True)
    ]
    if found is not None:
        appended.append(StructField(found, BooleanType()))
    case_sensitive = spark.conf.get("spark.sql.caseSensitive") == "true"
    fold = str if case_sensitive else str.lower
    check_names(facts.names, [field.name for field in appended], prefix, found, fold)
    if not isinstance(store, LookupStore):
        _check_versionless(store, asked.freshness, miss)
    chosen, reason = _strategy(asked.strategy, store)
    if asked.warm:
        _check_can_be_warm(store, asked.strategy)
    return JoinPlan(
        lookup=LookupTask(
            dimension=planned_on(store),
            counted_as=counted_as(store),
            key_schema=store.key_schema,
            columns=names,
            types=tuple(arrow for _, arrow in mapped),
            where=None if where is None else row_filter(where, _columns(store)),
            freshness=asked.freshness,
            on_miss=miss,
            counts=None if asked.metrics is None else asked.metrics.accumulator,
            # With buckets, a host needs only some of the files.
            warm=asked.warm and chosen == "replicated",
        ),
        keys=keys,
        how=kind,
        appended=tuple(appended),
        mark=found is not None,
        strategy=chosen,
        reason=reason,
        buckets=_buckets(store),
    )


def _check_columns(facts: StructType, on: On) -> None:
    """Raise KeyError if a name is that of a field of a struct, as Spark's own joins take it."""
    for name, _ in name_pairs(on):
        first, *fields = name.split(".")
        if name in facts.names or not fields or first not in facts.names:
            continue
        inside = facts[first].dataType
        while fields and isinstance(inside, StructType) and fields[0] in inside.names:
            inside = inside[fields.pop(0)].dataType
        if not fields:
            raise KeyError(
                f"on: {name!r} is a field of the fact column {first!r}; add it as a column first, "
                f"such as df.withColumn({name.replace('.', '_')!r}, F.col({name!r}))"
            )


def _check_key(spark: SparkSession, fact: StructField, key: pa.Field) -> None:
    """Raise TypeError unless values of a fact column can equal those of a key column.

    The error names a type to cast to only if Spark casts the fact column to it.
    """
    (given,) = arrow_schema(StructType([fact]))
    if can_equal(given.type, key):
        return
    shown, wanted = fact.dataType.simpleString(), type_to_cast_to(key)
    if wanted is not None:
        try:
            _ = spark.sql(f"SELECT CAST(CAST(NULL AS {shown}) AS {wanted})").schema
        except AnalysisException:
            wanted = None
    check_kind(given.type, key, fact.name, shown, wanted)


def _columns(store: Dimension) -> pa.Schema:
    """Return all columns of a dimension."""
    return pa.schema([*store.key_schema.schema, *store.value_schema])


def planned_on(store: Dimension) -> PlannedStore | AsPlanned:
    """Return the dimension for workers: the version of an open store, or files or a table."""
    if isinstance(store, LookupStore):
        return PlannedStore(store.location, ChosenVersion(store.version, store.id))
    return store


def counted_as(store: Dimension) -> str:
    """Return the name of a dimension in statistics, which is the same in every folder."""
    path = store.path
    if isinstance(store, ColumnarFiles) and not store.has_path:
        return path
    is_remote = "://" in path and not path.startswith("file://")
    return path if is_remote or is_catalog_name(path) else Location(path).uri


def _miss(on_miss: object, how: How) -> Retry | Literal["raise"] | None:
    if on_miss == "null":
        return None
    if how not in ("left", "inner"):
        raise ValueError(f"on_miss is {on_miss!r}, which is for left and inner joins; leave it out")
    if on_miss == "drop":
        return None
    if on_miss == "raise":
        return "raise"
    if isinstance(on_miss, tuple) and len(on_miss) == 3 and on_miss[0] == "retry":
        attempts, delay = on_miss[1], time_in_seconds(on_miss[2])
        if isinstance(attempts, int) and attempts > 0 and delay is not None:
            return Retry(attempts, delay)
    raise ValueError(
        f"on_miss is {on_miss!r}; give 'null', 'drop', 'raise' or ('retry', attempts, delay) with "
        "a delay in seconds or a timedelta"
    )


def _check_can_be_warm(store: Dimension, strategy: str) -> None:
    """Raise ValueError if `warm` was requested for a dimension that cannot be prepared."""
    if not isinstance(store, LookupStore):
        raise ValueError(
            "warm is for stores; leave it out: lookup files of columnar files are made when a key "
            "may be in them, or build a store of the files"
        )
    if strategy == "bucketed":
        raise ValueError("warm is for strategy='replicated'; leave one of the two out")


def _check_versionless(store: AsPlanned, freshness: Freshness, miss: object) -> None:
    """Check that no argument needs versions of a store, or commits, that do not exist.

    Raises ValueError if one does, FormatError, and the errors of `position_at`.
    """
    if isinstance(store, ColumnarFiles):
        if store.is_listed:
            return
        if store.has_commits:
            if freshness.every is not None or isinstance(miss, Retry):
                store.position_at(datetime.now(timezone.utc))
            return
        if freshness.needs_moment:
            raise ValueError(
                f"refresh and max_staleness are not for ColumnarFiles of a {store.table_format}; "
                "pass the path of the table, or a TableLookup"
            )
        if isinstance(miss, Retry):
            raise ValueError(
                f"on_miss is 'retry', which is not for ColumnarFiles of a {store.table_format}; "
                "pass the path of the table, or a TableLookup"
            )
        return
    if freshness.max_staleness is not None:
        store.committed_at()
    if freshness.every is not None:
        store.position_at(datetime.now(timezone.utc))
    elif isinstance(miss, Retry):
        store.at()


def _buckets(store: Dimension) -> int:
    return store.info().buckets if isinstance(store, LookupStore) else 1


def _strategy(asked: str, store: Dimension) -> tuple[Literal["replicated", "bucketed"], str]:
    if asked not in STRATEGIES:
        known = ", ".join(map(repr, STRATEGIES))
        raise ValueError(f"strategy is {asked!r}; give one of {known}")
    if asked == "replicated":
        return "replicated", "asked for"
    if asked == "bucketed" and _buckets(store) == 1:
        what = "the store has one bucket; build it"
        if not isinstance(store, LookupStore):
            what = f"{_kind(store)} have none; build a store of them"
        raise ValueError(
            f"strategy is 'bucketed', but {what} with buckets=, or give strategy='replicated'"
        )
    if asked == "bucketed":
        return "bucketed", "asked for"
    if not isinstance(store, LookupStore):
        return "replicated", f"{_kind(store)}: each host builds the lookup files that its tasks use"
    info = store.info()
    size = f"the store has {info.bytes:,} bytes"
    limit = f"{REPLICATED_BYTES:,}"
    if info.bytes <= REPLICATED_BYTES:
        return "replicated", f"{size}, not more than {limit}"
    if info.buckets == 1:
        return "replicated", f"{size}, more than {limit}, but only one bucket"
    return "bucketed", f"{size}, more than {limit}, in {info.buckets} buckets"


def _kind(planned: AsPlanned) -> str:
    """Return the name of a dimension that is not a store, in errors."""
    return "columnar files" if isinstance(planned, ColumnarFiles) else "Hudi tables"


def takes_times(spark: SparkSession) -> bool:
    """Return whether the session supports times; Spark without the setting does not."""
    conf = spark.conf
    return bool(conf.isModifiable(TIME_SETTING)) and conf.get(TIME_SETTING) == "true"
