"""Timestamps of ORC, which have no time zone, but which Spark converts to instants.

The conversion uses the time zone of the JVM, not that of the session. In UTC the result has the
same digits as the file, as `build` and `ColumnarFiles` read it.

Source: ORC specification v1, Types (timestamp); Spark, OrcDeserializer.
"""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import DataFrame
from pyspark.sql import types as sql

_UTC = {"UTC", "GMT", "Z", "Etc/UTC", "Etc/GMT", "Etc/UCT", "UCT", "Zulu", "Universal"}


def check_clocks(df: DataFrame, names: Sequence[str]) -> None:
    """Raise ValueError if Spark moves timestamps of ORC files to another clock.

    Args:
        df: Files as Spark reads them.
        names: Names of the columns that are read.
    """
    timed = [name for name in names if _has_timestamp(df.schema[name].dataType)]
    if not timed:
        return
    ids = df.sparkSession.range(1).selectExpr("java_method('java.time.ZoneId', 'systemDefault')")
    zone = str(ids.collect()[0][0])
    if zone not in _UTC:
        raise ValueError(
            f"df_or_path: the ORC column {timed[0]!r} has the times of a clock without a zone, of "
            f"which Spark makes instants in the zone of its JVM, {zone}, and lookupstore.build "
            "does not; start drivers and executors with -Duser.timezone=UTC for the times of the "
            "clock, or give spark.read.orc(...) for those of Spark"
        )


def _has_timestamp(kind: sql.DataType) -> bool:
    if isinstance(kind, sql.ArrayType):
        return _has_timestamp(kind.elementType)
    if isinstance(kind, sql.MapType):
        return _has_timestamp(kind.keyType) or _has_timestamp(kind.valueType)
    if isinstance(kind, sql.StructType):
        return any(_has_timestamp(field.dataType) for field in kind)
    return isinstance(kind, sql.TimestampType)
