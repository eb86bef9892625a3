"""Arrow types to and from Spark types.

Spark has fewer types than Arrow. A store keeps Arrow's; what Spark gets is the narrowest type of
its own that holds every value, and a column for which it has none is an error when the join is
planned. The table is in `docs/reference/spark-options.md`.
"""

from __future__ import annotations

import pyarrow as pa
from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql import types as sql

from lookupstore.arrow.types import unwrap

_SIMPLE: tuple[tuple[pa.DataType, sql.DataType], ...] = (
    (pa.null(), sql.NullType()),
    (pa.bool_(), sql.BooleanType()),
    (pa.int8(), sql.ByteType()),
    (pa.int16(), sql.ShortType()),
    (pa.int32(), sql.IntegerType()),
    (pa.int64(), sql.LongType()),
    (pa.float32(), sql.FloatType()),
    (pa.float64(), sql.DoubleType()),
    (pa.string(), sql.StringType()),
    (pa.binary(), sql.BinaryType()),
    (pa.date32(), sql.DateType()),
    (pa.timestamp("us"), sql.TimestampNTZType()),
    (pa.timestamp("us", "UTC"), sql.TimestampType()),
    (pa.duration("us"), sql.DayTimeIntervalType()),
)
_TO_SPARK = dict(_SIMPLE)
_TO_ARROW = {type(spark): arrow for arrow, spark in _SIMPLE}
# Spark 4.1 and later have times, and refuse most queries with them unless this setting allows it.
TIME_SETTING = "spark.sql.timeType.enabled"
# Collation of strings that are compared as bytes, which is Spark's default.
_BINARY = "UTF8_BINARY"
# Maximum precision of decimals in Spark, and of Arrow's decimal128.
_MAX_PRECISION = 38


def spark_type(
    kind: pa.DataType, column: str, *, times: bool = True
) -> tuple[sql.DataType, pa.DataType]:
    """Return the Spark type for an Arrow type, and Spark's Arrow type for that.

    Args:
        kind: Type of a column of a store.
        column: Name of the column, for the error.
        times: Whether the session accepts times: the setting `TIME_SETTING`.

    Raises:
        TypeError: If Spark has no type that holds every value, or the session does not accept it.

    >>> spark_type(pa.dictionary(pa.int8(), pa.large_string()), "city")
    (StringType(), DataType(string))
    """
    types = pa.types
    if isinstance(kind, pa.BaseExtensionType):
        return spark_type(kind.storage_type, column, times=times)
    if types.is_dictionary(kind):
        return spark_type(kind.value_type, column, times=times)
    if types.is_decimal(kind) or kind == pa.uint64():
        return _decimal_type(kind, column)
    if types.is_time(kind):
        return _time_type(kind, column, times)
    if types.is_struct(kind):
        fields = [
            (field, *spark_type(field.type, f"{column}.{field.name}", times=times))
            for field in kind
        ]
        return (
            sql.StructType([sql.StructField(f.name, spark, f.nullable) for f, spark, _ in fields]),
            pa.struct([pa.field(f.name, arrow, f.nullable) for f, _, arrow in fields]),
        )
    if types.is_map(kind):
        key, arrow_key = spark_type(kind.key_type, f"{column}.key", times=times)
        item, arrow_item = spark_type(kind.item_type, f"{column}.value", times=times)
        may_be_null = kind.item_field.nullable
        return (
            sql.MapType(key, item, may_be_null),
            pa.map_(
                pa.field("key", arrow_key, nullable=False),
                pa.field("value", arrow_item, may_be_null),
            ),
        )
    if types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind):
        element, arrow_element = spark_type(kind.value_type, f"{column}.element", times=times)
        may_be_null = kind.value_field.nullable
        return (
            sql.ArrayType(element, may_be_null),
            pa.list_(pa.field("element", arrow_element, may_be_null)),
        )
    arrow = _simple_type(kind)
    if arrow not in _TO_SPARK:
        raise _unknown_error(kind, column)
    return _TO_SPARK[arrow], arrow


def type_to_cast_to(field: pa.Field) -> str | None:
    """Return Spark's name of the type of a column of a store. None: it has none.

    >>> type_to_cast_to(pa.field("price", pa.decimal128(10, 2)))
    'decimal(10,2)'
    """
    try:
        return spark_type(field.type, field.name)[0].simpleString()
    except TypeError:
        return None


def arrow_schema(schema: sql.StructType) -> pa.Schema:
    """Return the Arrow form of a Spark schema, with zoned timestamps in UTC.

    Raises:
        TypeError: If Spark does not pass the type of a column to Arrow, or a text has a collation.

    >>> arrow_schema(sql.StructType().add("id", "long", nullable=False))
    id: int64 not null
    """
    return pa.schema([_arrow_field(field) for field in schema])


def column_named(name: str) -> Column:
    """Return the column of a name, whatever characters that has."""
    escaped = name.replace("`", "``")
    return F.col(f"`{escaped}`")


def to_spark(array: pa.Array, kind: pa.DataType, column: str) -> pa.Array:
    """Return a column of a store in the Arrow form that `spark_type` gave for it.

    Raises:
        ValueError: If Spark's type cannot hold a value: part of a microsecond, or a timestamp
            outside its range.
    """
    array = unwrap(array)
    if array.type == kind:
        return array
    try:
        return array.cast(kind)
    except pa.ArrowInvalid as error:
        raise ValueError(
            f"column {column!r} of the store is {array.type}, and Spark cannot hold all of its "
            f"values: {error}; leave it out with columns=, or store it in microseconds"
        ) from None


def _decimal_type(kind: pa.DataType, column: str) -> tuple[sql.DataType, pa.DataType]:
    if kind == pa.uint64():
        return sql.DecimalType(20, 0), pa.decimal128(20, 0)
    # Spark has no negative scale: such a number is converted to one with zeros at the end.
    precision, scale = kind.precision - min(kind.scale, 0), max(kind.scale, 0)
    if precision > _MAX_PRECISION or scale > precision:
        raise _unknown_error(kind, column)
    return sql.DecimalType(precision, scale), pa.decimal128(precision, scale)


def _time_type(kind: pa.DataType, column: str, times: bool) -> tuple[sql.DataType, pa.DataType]:
    if not hasattr(sql, "TimeType"):  # exists since Spark 4.1
        raise _unknown_error(kind, column)
    if not times:
        raise TypeError(
            f"column {column!r} of the store is {kind}, but this Spark session has times off; set "
            f"{TIME_SETTING} to true, or leave the column out with columns="
        )
    return sql.TimeType(), pa.time64("ns")


def _simple_type(kind: pa.DataType) -> pa.DataType:
    """Return Spark's type for a type whose width, unit or layout Spark lacks."""
    types = pa.types
    if types.is_timestamp(kind):
        return pa.timestamp("us", None if kind.tz is None else "UTC")
    if types.is_duration(kind):
        return pa.duration("us")
    if types.is_date64(kind):
        return pa.date32()
    if types.is_large_string(kind) or types.is_string_view(kind):
        return pa.string()
    if types.is_large_binary(kind) or types.is_binary_view(kind):
        return pa.binary()
    if types.is_fixed_size_binary(kind):
        return pa.binary()
    wider = {
        pa.uint8(): pa.int16(),
        pa.uint16(): pa.int32(),
        pa.uint32(): pa.int64(),
        pa.float16(): pa.float32(),
    }
    return wider.get(kind, kind)


def _unknown_error(kind: object, column: str) -> TypeError:
    return TypeError(
        f"column {column!r} of the store is {kind}, for which Spark has no type; leave it out "
        "with columns="
    )


def _arrow_field(field: sql.StructField) -> pa.Field:
    return pa.field(field.name, _arrow_type(field.dataType, field.name), field.nullable)


def _arrow_type(kind: sql.DataType, column: str) -> pa.DataType:
    if isinstance(kind, sql.DecimalType):
        return pa.decimal128(kind.precision, kind.scale)
    if isinstance(kind, (sql.CharType, sql.VarcharType)):
        return pa.string()
    if isinstance(kind, sql.ArrayType):
        element = _arrow_type(kind.elementType, f"{column}.element")
        return pa.list_(pa.field("element", element, kind.containsNull))
    if isinstance(kind, sql.MapType):
        item = _arrow_type(kind.valueType, f"{column}.value")
        return pa.map_(
            pa.field("key", _arrow_type(kind.keyType, f"{column}.key"), nullable=False),
            pa.field("value", item, kind.valueContainsNull),
        )
    if isinstance(kind, sql.StructType):
        return pa.struct([_arrow_field(field) for field in kind])
    if isinstance(kind, sql.UserDefinedType):
        return _arrow_type(kind.sqlType(), column)
    if hasattr(sql, "TimeType") and isinstance(kind, sql.TimeType):
        return pa.time64("ns")
    # Equality and order of a store are those of bytes. Collations exist since Spark 4.0.
    collation = getattr(kind, "collation", _BINARY)
    if collation != _BINARY:
        raise TypeError(
            f"column {column!r} is {kind.simpleString()}: texts that are equal by {collation} may "
            f"be different keys here; give F.collate({column!r}, {_BINARY!r}), or leave it out"
        )
    if type(kind) not in _TO_ARROW:
        raise TypeError(
            f"column {column!r} is {kind.simpleString()}, which Spark cannot give to Arrow; "
            "cast it or leave it out"
        )
    return _TO_ARROW[type(kind)]


def numbered(count: int) -> list[str]:
    """Return the names that columns have on their way: their own may mislead Spark.

    >>> numbered(2)
    ['c0', 'c1']
    """
    return [f"c{i}" for i in range(count)]
