"""A lookup as a function of Spark SQL: ``SELECT plane(tailnum).seats FROM flights``."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyspark
from pyspark.sql import SparkSession
from pyspark.sql.types import BooleanType, DataType, StructField, StructType

from lookupstore.keys.joins import can_equal
from lookupstore.keys.lookups import value_columns
from lookupstore.keys.schema import KeySchema
from lookupstore.spark.context import run_driver_python
from lookupstore.spark.join import trip
from lookupstore.spark.join.freshness import Freshness
from lookupstore.spark.join.join import dimension_of
from lookupstore.spark.join.plan import counted_as, planned_on, takes_times
from lookupstore.spark.join.request import JoinedWith
from lookupstore.spark.join.task import LookupTask
from lookupstore.spark.join.worker import Given, Keys, Step, goes_on, look_up
from lookupstore.spark.types import spark_type, type_to_cast_to
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
    version: int | None = None,
    as_of: datetime | str | None = None,
    storage_options: Mapping[str, Any] | None = None,
) -> UserDefinedFunctionLike:
    """Register a function of Spark SQL that looks up the row at a key.

    The function takes the values of the key columns, in their order, and returns a struct of the
    value columns. The struct is null where the key is missing or has a null. `plane(tailnum).seats`
    selects one column of it. The version that is current at this call answers, unless another one
    is chosen. Register the function again to use a newer version.

    Args:
        spark: Session to register the function with, which may be one of Spark Connect.
        name: Name of the function: letters, digits and underscores, with no digit first.
        store: Store, columnar files or Hudi table, or the path of one, as `lookup_join` accepts it.
            Executors must be able to read it.
        columns: Value columns of the struct, in this order. Default: all. With an empty list, the
            function returns whether the key was found.
        key: Names of the key columns. Columnar files at a path need them. For a Hudi table, these
            are the columns of the record key, and perhaps the partition columns. Default: the key
            of the store or of the opened files, and for a table the record key, in all partitions.
        version: Number of the version of a store or Delta table, or of the snapshot of an Iceberg
            or Paimon table, that answers. Default: the current one, or that of an open object.
        as_of: Time of the version, snapshot or commit that answers: a datetime or a text such as
            `"2026-11-22 07:30Z"`; of a Hudi table also an instant. Default: not given.
        storage_options: Options of the URI of `store`, such as credentials; see
            `lookupstore.Location`.

    Returns:
        The function for DataFrames: `flights.select(plane("tailnum").seats)`.

    Raises:
        RuntimeError: If Spark is older than 4.1, the first version with functions over Arrow.
        KeyError: If the store lacks a column.
        TypeError: If Spark has no type for a value column.
        ValueError: If SQL would have to quote the name, Spark has a function of that name, `key`
            is not the key of `store`, or there is no version to choose, or none at that time.
        FileNotFoundError: If there is no such store.

    If an argument is of another kind than its key column, the query fails with a `TypeError`. Tasks
    also raise the errors that tasks of `lookup_join` raise.
    `docs/how-to/spark-sql-function.md` shows an example.
    """
    if trip.arrow_udf is None:  # type: ignore[attr-defined]
        raise RuntimeError(
            f"functions that look up need Spark 4.1, but this is {pyspark.__version__}; "
            "lookup_join works without them"
        )
    if _NAME.fullmatch(name) is None:
        raise ValueError(f"name is {name!r}; give letters, digits and underscores")
    if spark.sql(f"SHOW SYSTEM FUNCTIONS LIKE '{name.lower()}'").collect():
        raise ValueError(f"name is {name!r}, a function of Spark; give another name")
    run_driver_python(spark)
    (given,) = paths_with_options(storage_options, store=store)
    if version is not None and as_of is not None:
        raise ValueError("version and as_of both choose a version; give one of them")
    opened = dimension_of(
        given, () if key is None else key, columns=columns, version=version, as_of=as_of
    )
    try:
        if key is not None and opened.key != ((key,) if isinstance(key, str) else tuple(key)):
            raise ValueError(f"key is {key!r}, but the key of {opened.path} is {opened.key}")
        names = tuple(value_columns(opened, columns))
        times = takes_times(spark)
        mapped = [
            spark_type(opened.value_schema.field(one).type, one, times=times) for one in names
        ]
        lookup = LookupTask(
            dimension=planned_on(opened),
            counted_as=counted_as(opened),
            key_schema=opened.key_schema,
            columns=names,
            types=tuple(arrow for _, arrow in mapped),
            where=None,
            freshness=Freshness(),
            on_miss=None,
            counts=None,
        )
    finally:
        if opened is not store:
            opened.close()
    fields = [StructField(one, kind) for one, (kind, _) in zip(names, mapped, strict=True)]
    result: DataType = StructType(fields) if fields else BooleanType()
    # Rows that are not found need no further work: their struct is null.
    step = Step(lookup, tuple(range(len(opened.key))), "inner", mark=False)
    return spark.udf.register(name, _function(name, step, result))


def _function(name: str, step: Step, result: DataType) -> Any:
    key, names = step.lookup.key_schema, step.lookup.columns

    def of_keys(given: Iterator[tuple[pa.Array, ...]]) -> Iterator[pa.Array]:
        keys = _checked(name, key, given)
        return look_up([step], keys, names) if names else goes_on([step], keys)

    of_keys.__name__ = name
    # Its overloads do not include iterators of tuples.
    make: Any = trip.arrow_udf  # type: ignore[attr-defined]
    return make(of_keys, result)


def _checked(name: str, key: KeySchema, given: Given) -> Iterator[Keys]:
    """Yield the arguments of a function, batch by batch, if they can be keys.

    Raises:
        TypeError: If the number of arguments is not that of the key columns, or one is of another
            kind.
    """
    for one in given:
        keys = one if isinstance(one, tuple) else (one,)
        if len(keys) != len(key.names):
            wanted = ", ".join(key.names)
            raise TypeError(f"{name}() takes ({wanted}), the key, but got {len(keys)} arguments")
        for column, field in zip(keys, key.schema, strict=True):
            if not can_equal(column.type, field):
                right = type_to_cast_to(field)
                raise TypeError(
                    f"{name}(): the value for the key column {field.name!r} is {column.type}, but "
                    f"the key is {field.type}; cast it" + (f" to {right}" if right else "")
                )
        yield keys
