"""Plan a lookup join: what was asked, checked against facts and store before anything runs."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Literal

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql.types import BooleanType, StructField, StructType

from lookupstore.columnar import ColumnarFiles
from lookupstore.keys.lookups import value_columns
from lookupstore.keys.schema import KeySchema
from lookupstore.quantities import Duration, seconds_of
from lookupstore.spark.join.freshness import Chosen, Freshness
from lookupstore.spark.join.task import AsPlanned, Dimension, Lookup, PlannedStore, Retry, Sum
from lookupstore.spark.types import TIME_SETTING, arrow_schema, spark_type
from lookupstore.store.store import LookupStore

How = Literal["left", "inner", "semi", "anti"]
Strategy = Literal["auto", "replicated", "bucketed"]

HOWS: tuple[How, ...] = ("left", "inner", "semi", "anti")
STRATEGIES: tuple[Strategy, ...] = ("auto", "replicated", "bucketed")
# Spark's own names of these joins, which it reads without regard to case and underscores.
_SPARK_HOWS: dict[str, How] = {"leftouter": "left", "leftsemi": "semi", "leftanti": "anti"}
_REFRESHES = {"never": None, "per_batch": 0.0}
# A host's memory has to hold what tasks touch at random; beyond this, moving the facts once costs
# less than reading blocks from disk again and again.
REPLICATED_BYTES = 4 << 30


@dataclass(frozen=True)
class JoinPlan:
    """A join that has been checked.

    Attributes:
        lookup: what the workers look up.
        keys: names of the fact columns that hold the key fields, in the order of the key.
        how: the kind of join.
        appended: the columns that the result has beyond those of the facts.
        mark: whether the last one of them says which facts were found.
        strategy: `replicated`: rows stay where they are, each host needs all of the store; or
            `bucketed`: rows move to the task of their bucket, which needs one data file.
        reason: why this strategy, for people.
        buckets: number of buckets of the store.
    """

    lookup: Lookup
    keys: tuple[str, ...]
    how: How
    appended: tuple[StructField, ...]
    mark: bool
    strategy: Literal["replicated", "bucketed"]
    reason: str
    buckets: int


@dataclass(frozen=True)
class JoinRequest:
    """What a join was asked to do, beside the facts and the store; `lookup_join` explains it."""

    on: str | Sequence[str] | Mapping[str, str]
    how: str = "left"
    columns: Sequence[str] | None = None
    prefix: str | None = None
    found: str | None = None
    strategy: str = "auto"
    refresh: str | float | timedelta = "never"
    max_staleness: Duration | None = None
    on_miss: str | tuple[str, int, float | timedelta] = "null"

    @property
    def freshness(self) -> Freshness:
        """Return what `refresh` and `max_staleness` ask for.

        Raises:
            ValueError: they are nothing that a join knows.

        >>> JoinRequest("id", refresh="per_batch", max_staleness=timedelta(hours=1)).freshness
        Freshness(every=0.0, max_staleness=3600.0)
        """
        every: float | None
        if isinstance(self.refresh, str) and self.refresh in _REFRESHES:
            every = _REFRESHES[self.refresh]
        else:
            every = _seconds(self.refresh)
            if not every:
                known = ", ".join(map(repr, _REFRESHES))
                raise ValueError(
                    f"refresh is {self.refresh!r}; give {known}, or a time of more than 0: "
                    "seconds, a timedelta, or a text such as '1m'"
                )
        allowed = None if self.max_staleness is None else _seconds(self.max_staleness)
        if self.max_staleness is not None and allowed is None:
            raise ValueError(
                f"max_staleness is {self.max_staleness!r}; give a number of seconds, a timedelta, "
                "or a time such as '1h'; None is any"
            )
        return Freshness(every, allowed)


def plan_join(
    df: DataFrame, store: Dimension, request: JoinRequest, counts: Sum | None = None
) -> JoinPlan:
    """Check what was asked against facts and store; it raises what `lookup_join` does."""
    kind = how_of(request.how)
    prefix, found, on_miss = request.prefix, request.found, request.on_miss
    if kind in ("semi", "anti"):
        for argument in ("columns", "prefix", "found"):
            value = getattr(request, argument)
            if value is not None:
                raise ValueError(
                    f"{argument} is {value!r}; a {kind} join adds no columns: leave it out"
                )
    miss = _miss(on_miss, kind)
    if on_miss == "drop":
        kind = "inner"
    facts = df.schema
    keys = _key_columns(facts, store.key_schema, request.on)
    names = () if kind in ("semi", "anti") else tuple(value_columns(store, request.columns))
    times = _takes_times(df.sparkSession)
    mapped = [spark_type(store.value_schema.field(name).type, name, times=times) for name in names]
    appended = [
        StructField(f"{prefix or ''}{name}", spark)
        for name, (spark, _) in zip(names, mapped, strict=True)
    ]
    if found is not None:
        appended.append(StructField(found, BooleanType()))
    case_sensitive = df.sparkSession.conf.get("spark.sql.caseSensitive") == "true"
    _check_collisions(facts.names, [field.name for field in appended], prefix, case_sensitive)
    planned: PlannedStore | AsPlanned
    if isinstance(store, LookupStore):
        planned = PlannedStore(store.location, Chosen(store.version, store.id))
    else:
        _check_versionless(request.freshness, miss)
        planned = store
    chosen, reason = _strategy(request.strategy, store)
    return JoinPlan(
        lookup=Lookup(
            dimension=planned,
            key_schema=store.key_schema,
            columns=names,
            types=tuple(arrow for _, arrow in mapped),
            freshness=request.freshness,
            on_miss=miss,
            counts=counts,
        ),
        keys=keys,
        how=kind,
        appended=tuple(appended),
        mark=found is not None,
        strategy=chosen,
        reason=reason,
        buckets=_buckets(store),
    )


def check_facts(df: object) -> None:
    """Raise TypeError unless the facts are a DataFrame of Spark."""
    if not isinstance(df, DataFrame):
        raise TypeError(
            f"df is a {type(df).__module__}.{type(df).__qualname__}; give a Spark DataFrame "
            "(spark.createDataFrame makes one from a pandas DataFrame or an Arrow table)"
        )


def _seconds(time: Any) -> float | None:
    """Return a time in seconds; None if it is none, or has no end."""
    try:
        seconds = seconds_of(time, "time")
    except (TypeError, ValueError):
        return None
    return seconds if seconds < math.inf else None


def _miss(on_miss: object, how: How) -> Retry | Literal["raise"] | None:
    if on_miss == "null":
        return None
    if how not in ("left", "inner"):
        raise ValueError(f"on_miss is {on_miss!r}, which is not for a {how} join; leave it out")
    if on_miss == "drop":
        return None
    if on_miss == "raise":
        return "raise"
    if isinstance(on_miss, tuple) and len(on_miss) == 3 and on_miss[0] == "retry":
        attempts, delay = on_miss[1], _seconds(on_miss[2])
        if isinstance(attempts, int) and attempts > 0 and delay is not None:
            return Retry(attempts, delay)
    raise ValueError(
        f"on_miss is {on_miss!r}; give 'null', 'drop', 'raise' or ('retry', attempts, delay) with "
        "a delay in seconds or a timedelta"
    )


def _check_versionless(freshness: Freshness, miss: object) -> None:
    """Raise ValueError if something was asked that only versions of a store can do."""
    if freshness.needs_moment:
        raise ValueError(
            "refresh and max_staleness are for stores, which have versions; columnar files "
            "and Hudi tables are read as they are when lookup_join is called: call it in "
            "foreachBatch, or build a store of them"
        )
    if isinstance(miss, Retry):
        raise ValueError(
            "on_miss is 'retry', which looks in newer versions of a store; for columnar files "
            "and Hudi tables give 'null', 'drop' or 'raise', or build a store of them"
        )


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


def how_of(given: str) -> How:
    """Return the kind of join, which Spark has several names for.

    Raises:
        ValueError: there is no such join.
    """
    name = str(given).lower().replace("_", "")
    for how in HOWS:
        if how in (name, _SPARK_HOWS.get(name)):
            return how
    raise ValueError(f"how is {given!r}; give one of {', '.join(map(repr, HOWS))}")


def _key_columns(
    facts: StructType, keys: KeySchema, on: str | Sequence[str] | Mapping[str, str]
) -> tuple[str, ...]:
    """Return the names of the fact columns that hold the key fields, in the key's order."""
    fact_of: dict[str, str] = {}
    for fact, key in name_pairs(on):
        if fact not in facts.names:
            raise KeyError(f"on: the facts have no column {fact!r}; they have {facts.names}")
        if facts.names.count(fact) > 1:
            raise ValueError(f"on: the facts have more than one column {fact!r}; rename them")
        if key not in keys.names:
            raise KeyError(
                f"on: the store has no key column {key!r}; its key is {keys.names}; if the names "
                "differ, give a dict from fact column to key column"
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
    return tuple(fact_of[name] for name in keys.names)


def name_pairs(on: str | Sequence[str] | Mapping[str, str]) -> list[tuple[str, str]]:
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
    """Return whether the session runs queries with times; Spark without the setting has none."""
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
