"""Deleted keys of delete blocks, with the ordering values of the deletes.

Source: HoodieDeleteBlock, HoodieDeleteRecordList.avsc and HoodieAvroWrapperUtils of Apache Hudi.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import fastavro
import pyarrow as pa
import pyarrow.compute as pc

from lookupstore.errors import CorruptionError, FormatError
from lookupstore.hudi.log.avro_rows import logical
from lookupstore.hudi.log.blocks import LogBlock
from lookupstore.hudi.log.cursor import Cursor
from lookupstore.hudi.timeline.avro_file import decoded

# Version of the content that has Avro records; those before have objects of Java.
_VERSION = 3
# Scale of all decimals in delete blocks.
_SCALE = 15
_MOST_DIGITS = 38
# Types of ordering values in delete blocks, in the order of Hudi's schema, where a record with the
# field `value` is around each.
_KINDS = {
    "boolean": "boolean", "int": "int", "long": "long", "float": "float", "double": "double",
    "bytes": "bytes", "string": "string", "date": "int", "decimal": "bytes", "time": "long",
    "timestamp": "long",
}  # fmt: skip
_STORED = {
    "boolean": pa.bool_(), "int": pa.int32(), "long": pa.int64(), "float": pa.float32(),
    "double": pa.float64(), "bytes": pa.binary(), "string": pa.string(),
}  # fmt: skip
_NONE = pa.scalar(None, pa.int32())
# Several ordering values at once.
_MANY = "many"
_ORDERINGS = pa.struct(
    [
        *((name, _STORED[kind]) for name, kind in _KINDS.items()),
        (_MANY, pa.list_(pa.struct([]))),
    ]
)
_KEYS = pa.struct({"recordKey": pa.string()})
_RECORDS = pa.struct({"recordKey": pa.string(), "orderingVal": _ORDERINGS})
# Kinds of ordering values by the type of the ordering column.
_OF_COLUMN: tuple[tuple[Callable[[pa.DataType], bool], tuple[str, ...]], ...] = (
    (pa.types.is_boolean, ("boolean",)),
    (pa.types.is_int32, ("int",)),
    (pa.types.is_int64, ("long",)),
    (pa.types.is_float32, ("float",)),
    (pa.types.is_float64, ("double",)),
    (pa.types.is_string, ("string",)),
    (pa.types.is_date32, ("date", "int")),
    (pa.types.is_decimal, ("decimal",)),
    (lambda kind: pa.types.is_timestamp(kind) and kind.unit == "us", ("timestamp", "long")),
)


class BlockDeletes(NamedTuple):
    """The deleted keys of a block.

    Attributes:
        keys: Record keys.
        ordering: Ordering values of the deletes. Null: the delete has none, so that it deletes
            whatever was written before.
    """

    keys: pa.StringArray
    ordering: pa.Array


def deleted_keys(block: LogBlock, path: str, ordering: pa.DataType | None) -> BlockDeletes:
    """Return the deleted keys of a delete block.

    Args:
        block: Delete block.
        path: Path of the log file, for errors.
        ordering: Type of the ordering column. None: ordering values are not needed.

    Raises:
        CorruptionError: If the block is damaged.
        FormatError: If the version of the content is not supported, or an ordering value has
            another type than the column.
    """
    rest = Cursor(block.content, path, block.at, "the block")
    version = rest.int32()
    if version != _VERSION:
        raise FormatError(
            f"{path}: version {version} of delete blocks is not supported: those before "
            f"{_VERSION} have objects of Java; compact the table with Apache Hudi"
        )
    size = rest.int32()
    at = rest.at
    listed = decoded(_decoder_schema(), rest.take(size), path, at)
    if rest.left:
        raise rest.error("the end of the block", f"{rest.left} bytes")
    try:
        records = pa.array(listed["deleteRecordList"], _KEYS if ordering is None else _RECORDS)
    except (pa.ArrowException, OverflowError, TypeError, ValueError) as error:
        raise CorruptionError(path, at, "records of deletes", error) from error
    keys, *values = records.flatten()
    if keys.null_count:
        raise CorruptionError(path, at, "keys of deleted rows", "null")
    if ordering is None:
        return BlockDeletes(keys, pa.nulls(len(keys)))
    return BlockDeletes(keys, _ordering_values(values[0], ordering, path))


def _ordering_values(values: pa.StructArray, kind: pa.DataType, path: str) -> pa.Array:
    """Return ordering values in the type of the column; null if there is none."""
    parts = dict(zip(values.type.names, values.flatten(), strict=True))
    # Zero of the type int stands for no ordering value, whatever type the column has.
    parts["int"] = pc.if_else(pc.equal(parts["int"], 0), _NONE, parts["int"])
    fitting = next((names for is_kind, names in _OF_COLUMN if is_kind(kind)), ())
    found = pa.nulls(len(values), kind)
    for name, part in parts.items():
        if part.null_count == len(part):
            continue
        if name not in fitting:
            raise FormatError(
                f"{path}: a delete has an ordering value of the type {name}, and the ordering "
                f"column is {kind}; compact the table with Apache Hudi"
            )
        try:
            found = pc.coalesce(found, _in_column(name, part, kind))
        except pa.ArrowException as error:
            raise FormatError(
                f"{path}: an ordering value of a delete is not exact in the ordering column, "
                f"{kind}: {error}; compact the table with Apache Hudi"
            ) from error
    return found


def _in_column(name: str, part: pa.Array, kind: pa.DataType) -> pa.Array:
    if name == "decimal":
        part = logical(part, pa.decimal128(_MOST_DIGITS, _SCALE))
    return part.cast(kind)


@functools.cache
def _decoder_schema() -> Any:
    """Return the schema of delete records.

    Names of fields differ from Hudi's, so that each type of ordering values becomes a column.
    """
    named = [_wrapper(name, kind) for name, kind in _KINDS.items()]
    names = [one["name"] for one in named]
    many = _wrapper(_MANY, {"type": "array", "items": ["null", *names]})
    record = {
        "type": "record",
        "name": "deleted",
        "fields": [
            {"name": "recordKey", "type": ["null", "string"]},
            {"name": "partitionPath", "type": ["null", "string"]},
            {"name": "orderingVal", "type": ["null", *named, many]},
        ],
    }
    listed = {"name": "deleteRecordList", "type": {"type": "array", "items": record}}
    return fastavro.parse_schema({"type": "record", "name": "list", "fields": [listed]})


def _wrapper(name: str, kind: Any) -> dict[str, Any]:
    return {"type": "record", "name": f"{name}_", "fields": [{"name": name, "type": kind}]}
