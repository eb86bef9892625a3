"""Restore the types of ORC columns that Spark wrote as other types.

A local time of Spark, TIMESTAMP_NTZ, is an integer of microseconds in ORC. An attribute of its type
records this.

Source: Spark, OrcUtils (orcTypeDescription, CATALYST_TYPE_ATTRIBUTE_NAME).
"""

from __future__ import annotations

import pyarrow as pa

_TYPE, _LOCAL_TIME = b"spark.sql.catalyst.type", b"timestamp_ntz"


def in_spark_types(schema: pa.Schema) -> pa.Schema:
    """Return a schema that Arrow read, in the types that Spark wrote.

    >>> told = {"spark.sql.catalyst.type": "timestamp_ntz"}
    >>> in_spark_types(pa.schema([pa.field("at", pa.int64(), metadata=told)])).types
    [TimestampType(timestamp[us])]
    """
    return pa.schema([_meant(field) for field in schema], schema.metadata)


def _meant(field: pa.Field) -> pa.Field:
    kind = field.type
    if kind == pa.int64() and (field.metadata or {}).get(_TYPE) == _LOCAL_TIME:
        return field.with_type(pa.timestamp("us"))
    if pa.types.is_struct(kind):
        return field.with_type(pa.struct([_meant(kind.field(at)) for at in range(kind.num_fields)]))
    if pa.types.is_map(kind):
        return field.with_type(pa.map_(_meant(kind.key_field), _meant(kind.item_field)))
    if pa.types.is_list(kind):
        return field.with_type(pa.list_(_meant(kind.value_field)))
    return field
