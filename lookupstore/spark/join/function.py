"""A lookup as a function of Spark SQL: ``SELECT plane(tailnum).seats FROM flights``."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyspark
from pyspark.sql import SparkSession
from pyspark.sql.types import BooleanType, DataType, StructField, StructType

from lookupstore.keys.joins import can_equal
from lookupstore.keys.lookups import value_columns
from lookupstore.keys.schema import KeySchema
from lookupstore.spark.join import trip
from lookupstore.spark.join.freshness import Freshness
from lookupstore.spark.join.join import dimension_of
from lookupstore.spark.join.plan import planned_on, takes_times
from lookupstore.spark.join.request import JoinedWith
from lookupstore.spark.join.task import Lookup
from lookupstore.spark.join.worker import Given, Keys, Step, goes_on, look_up
from lookupstore.spark.types import spark_type
from lookupstore.storage.storage_options import paths_with_options

if TYPE_CHECKING:
    from pyspark.sql._typing import UserDefinedFunctionLike

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def register_lookup(
    spark: SparkSession,
    name: str,
    store: JoinedWith,
    columns: Sequence[str] | None = None,
    *,
    key: str | Sequence[str] | None = None,
    storage_options: Mapping[str, Any] | None = None,
) -> UserDefinedFunctionLike:
    """Register a function of Spark SQL that looks up the row at a key.

    It takes the values of the key columns, in their order, and gives a struct of the value columns,
    null where the key is missing or has a null. `plane(tailnum).seats` takes one column of it. The
    version of a store that is current now answers; registered again, the newest one does.

    Args:
        spark: any session, also one of Spark Connect.
        name: of the function: letters, digits and underscores.
        store: a store, columnar files or a Hudi table, or a path of these, as `lookup_join` takes
            it; executors must see it.
        columns: value columns of the struct, in this order; None takes all. Without any, the
            function says whether the key is there.
        key: names of the key columns, if `store` is a path of columnar files; of a Hudi table
            those of the record key, and perhaps the partition columns. None: of a table the record
            key, in all partitions.
        storage_options: of the URI of `store`, as of `lookupstore.Location`.

    Returns:
        The function, for DataFrames: `flights.select(plane("tailnum").seats)`.

    Raises:
        RuntimeError: this Spark is older than 4.1, which brought functions over Arrow.
        KeyError: a column that the store does not have.
        TypeError: a value column that Spark has no type for.
        ValueError: a name that SQL would have to quote.
        FileNotFoundError: there is no such store.

    Arguments of another kind than the key columns fail the query with a `TypeError`, and what
    `lookup_join` raises in tasks is raised here, too. `docs/spark.md` shows it in use.
    """
    if trip.arrow_udf is None:  # type: ignore[attr-defined]
        raise RuntimeError(
            f"functions that look up need Spark 4.1, but this is {pyspark.__version__}; "
            "lookup_join works without them"
        )
    if _NAME.fullmatch(name) is None:
        raise ValueError(f"name is {name!r}; give letters, digits and underscores")
    (given,) = paths_with_options(storage_options, store=store)
    opened = dimension_of(given, () if key is None else key, columns=columns)
    try:
        if key is not None and opened.key != ((key,) if isinstance(key, str) else tuple(key)):
            raise ValueError(f"key is {key!r}, but the key of {opened.path} is {opened.key}")
        names = tuple(value_columns(opened, columns))
        times = takes_times(spark)
        mapped = [
            spark_type(opened.value_schema.field(one).type, one, times=times) for one in names
        ]
        lookup = Lookup(
            dimension=planned_on(opened),
            key_schema=opened.key_schema,
            columns=names,
            types=tuple(arrow for _, arrow in mapped),
            freshness=Freshness(),
            on_miss=None,
            counts=None,
        )
    finally:
        if opened is not store:
            opened.close()
    fields = [StructField(one, kind) for one, (kind, _) in zip(names, mapped, strict=True)]
    result: DataType = StructType(fields) if fields else BooleanType()
    # What is not found does not go on: its struct is null.
    step = Step(lookup, tuple(range(len(opened.key))), "inner", mark=False)
    return spark.udf.register(name, _function(name, step, result))


def _function(name: str, step: Step, result: DataType) -> Any:
    key, names = step.lookup.key_schema, step.lookup.columns

    def of_keys(given: Iterator[tuple[pa.Array, ...]]) -> Iterator[pa.Array]:
        keys = _checked(name, key, given)
        return look_up([step], keys, names) if names else goes_on([step], keys)

    of_keys.__name__ = name
    # Its overloads know no iterators of tuples.
    make: Any = trip.arrow_udf  # type: ignore[attr-defined]
    return make(of_keys, result)


def _checked(name: str, key: KeySchema, given: Given) -> Iterator[Keys]:
    """Yield the arguments of a function, batch by batch, if they can be keys.

    Raises:
        TypeError: there are more or less than key columns, or one is of another kind.
    """
    for one in given:
        keys = one if isinstance(one, tuple) else (one,)
        if len(keys) != len(key.names):
            wanted = ", ".join(key.names)
            raise TypeError(f"{name}() takes ({wanted}), the key, but got {len(keys)} arguments")
        for column, field in zip(keys, key.schema, strict=True):
            if not can_equal(column.type, field):
                raise TypeError(
                    f"{name}(): the value for the key column {field.name!r} is {column.type}, but "
                    f"the key is {field.type}; cast it"
                )
        yield keys
