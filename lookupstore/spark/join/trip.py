"""The joins for which facts cross to Python once, as one expression of Spark.

Only key columns are sent to the Python workers, and only columns of the stores are returned, by an
Arrow UDF whose result is a struct of all columns. Spark before 4.1 has no such UDF: there, whole
rows are sent through `mapInArrow`. Spark itself cannot combine joins: each UDF over an iterator of
batches crosses to Python separately, and two generators are never combined.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any
from weakref import WeakKeyDictionary

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import BooleanType, DataType, IntegerType, StructField, StructType

from lookupstore.spark.buckets import in_buckets
from lookupstore.spark.join.plan import JoinPlan
from lookupstore.spark.join.worker import (
    Step,
    buckets_at,
    goes_on,
    joined,
    look_up,
    with_buckets,
)
from lookupstore.spark.types import column_named, numbered

try:
    from pyspark.sql.pandas.functions import arrow_udf
except ImportError:  # before Spark 4.1
    arrow_udf = None  # type: ignore[assignment]

_BUCKET = "__lookupstore_bucket"


@dataclass(frozen=True)
class Trip:
    """Facts with the joins that one crossing to Python answers.

    Attributes:
        facts: DataFrame of the facts to join.
        plans: Joins in their order, each with the result of the one before it.
    """

    facts: DataFrame
    plans: tuple[JoinPlan, ...] = ()

    @classmethod
    def before(cls, df: DataFrame) -> Trip:
        """Return the trip that ends in a DataFrame, otherwise a trip of it without joins.

        A persisted DataFrame has its rows: it begins a new trip.
        """
        made = _made.get(df)
        return cls(df) if made is None or df.is_cached else made

    @property
    def schema(self) -> StructType:
        """Return the columns of the result."""
        appended = [field for plan in self.plans for field in plan.appended]
        return StructType([*self.facts.schema.fields, *appended])

    def and_then(self, plan: JoinPlan) -> Trip:
        """Return the trip that has this join as well, or one of the result of this one.

        Facts are moved once for a trip, before they are looked up.
        """
        if not plan.asks:
            return self
        if plan.strategy == "bucketed" and (
            self._bucketed is not None or not set(plan.keys) <= set(self.facts.columns)
        ):
            return Trip(self.joined(), (plan,))
        return replace(self, plans=(*self.plans, plan))

    def joined(self) -> DataFrame:
        """Return the facts with the results of the lookups, as a DataFrame that has not run yet."""
        if not self.plans:
            return self.facts
        result = self._by_arrow_udf() if arrow_udf is not None else self._by_map_in_arrow()
        _made[result] = self
        return result

    @property
    def _bucketed(self) -> JoinPlan | None:
        return next((plan for plan in self.plans if plan.strategy == "bucketed"), None)

    @property
    def _appended(self) -> list[StructField]:
        return [field for plan in self.plans for field in plan.appended]

    @property
    def _name(self) -> str:
        return f"lookup {', '.join(plan.name for plan in self.plans)}"

    @property
    def _needs_moment(self) -> bool:
        return any(plan.lookup.freshness.needs_moment for plan in self.plans)

    def _steps(self, names: Sequence[str]) -> tuple[Step, ...]:
        """Return the work of workers for columns of facts with these names."""
        names, steps = list(names), []
        for plan in self.plans:
            keys = tuple(names.index(name) for name in plan.keys)
            steps.append(Step(plan.lookup, keys, plan.how, plan.mark))
            names += [field.name for field in plan.appended]
        return tuple(steps)

    def _by_arrow_udf(self) -> DataFrame:
        df = self.facts
        if (moved_by := self._bucketed) is not None:
            keys = [column_named(name) for name in moved_by.keys]
            run = functools.partial(buckets_at, moved_by.lookup.key_schema, moved_by.buckets)
            bucket = F.coalesce(
                _udf(f"bucket of {moved_by.name}", run, IntegerType(), keys),
                _hash_bucket(df, moved_by),
            )
            df = _in_buckets(df.select("*", bucket.alias(_BUCKET)), moved_by)
        facts = set(df.columns)
        names = list(dict.fromkeys(n for plan in self.plans for n in plan.keys if n in facts))
        given = [column_named(name) for name in names]
        if self._needs_moment:
            given.append(F.current_timestamp())
        steps, appended = self._steps(names), self._appended
        if not appended:
            run = functools.partial(goes_on, steps)
            return df.where(_udf(self._name, run, BooleanType(), given))
        fields = [
            StructField(name, field.dataType)
            for name, field in zip(numbered(len(appended)), appended, strict=True)
        ]
        row = _udf(self._name, functools.partial(look_up, steps), StructType(fields), given)
        # A generator is used because filters on its columns stay above it while those on facts move
        # below it: in a plain projection, a filter on a looked-up column would look up all keys
        # once more.
        rows = F.array(row)
        if any(plan.how != "left" for plan in self.plans):
            rows = F.when(row.isNotNull(), rows)
        return df.select("*", F.inline(rows).alias(*(field.name for field in appended)))

    def _by_map_in_arrow(self) -> DataFrame:
        facts = self.facts.schema
        fields = self.schema.fields
        # In Python, columns have numbers as names: Spark misinterprets names with dots and repeated
        # names.
        schema = StructType(
            [
                StructField(name, field.dataType, field.nullable, field.metadata)
                for name, field in zip(numbered(len(fields)), fields, strict=True)
            ]
        )
        rows = self.facts.toDF(*schema.names[: len(facts)])
        if (moved_by := self._bucketed) is not None:
            positions = tuple(facts.names.index(name) for name in moved_by.keys)
            rows = _in_buckets(_with_bucket(rows, moved_by, positions), moved_by)
        if self._needs_moment:
            rows = rows.select("*", F.current_timestamp())
        run = _named(self._name, functools.partial(joined, self._steps(facts.names)))
        return rows.mapInArrow(run, schema).toDF(*(field.name for field in fields))


#: Trips of the DataFrames that they returned, as long as these are referenced.
_made: WeakKeyDictionary[DataFrame, Trip] = WeakKeyDictionary()


def _in_buckets(rows: DataFrame, plan: JoinPlan) -> DataFrame:
    """Move rows to the task of the bucket that their last column names, and drop the column."""
    return in_buckets(rows, plan.buckets, _BUCKET).drop(_BUCKET)


def _with_bucket(rows: DataFrame, plan: JoinPlan, positions: tuple[int, ...]) -> DataFrame:
    schema = StructType([*rows.schema.fields, StructField(_BUCKET, IntegerType())])
    hashed = rows.select("*", _hash_bucket(rows, plan).alias(_BUCKET))
    run = functools.partial(with_buckets, plan.lookup.key_schema, plan.buckets, positions)
    run = _named(f"bucket of {plan.name}", run)
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


def _named(name: str, run: Any) -> Any:
    """Give a function the name that Spark shows in plans."""
    run.__name__ = name
    return run


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

    # Spark reads the type hints to determine the arguments of a function.
    function = _named(name, of_one if len(columns) == 1 else of_several)
    make: Any = arrow_udf  # its overloads do not include iterators of tuples
    column: Column = make(function, kind)(*columns)
    return column
