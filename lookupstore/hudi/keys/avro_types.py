"""Arrow schemas, and the Avro schemas in which Hudi stores the columns of a table.

Every column may be null. Avro's `uuid` is not supported, because other readers of Hudi tables fail
at it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from lookupstore.arrow.types import plain_type
from lookupstore.errors import CorruptionError, FormatError
from lookupstore.storage.json_text import parse_json

_PLAIN: Mapping[str, pa.DataType] = {
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "bytes": pa.binary(),
    "string": pa.string(),
}
_LOGICAL: Mapping[tuple[str, str], pa.DataType] = {
    ("int", "date"): pa.date32(),
    ("int", "time-millis"): pa.time32("ms"),
    ("long", "time-micros"): pa.time64("us"),
    ("long", "timestamp-millis"): pa.timestamp("ms", "UTC"),
    ("long", "timestamp-micros"): pa.timestamp("us", "UTC"),
    ("long", "local-timestamp-millis"): pa.timestamp("ms"),
    ("long", "local-timestamp-micros"): pa.timestamp("us"),
}
_REFUSED = frozenset({"uuid"})
_MAX_DIGITS = 38
# Limits: a depth above that of any table, and small enough for Python's stack; a number of types
# above that of any table, counting types that names stand for; a size above that of any fixed
# value.
_MAX_DEPTH = 64
# Of a nullable record in another: the union, its record, the fields, the field.
_BRACKETS = 4
_MAX_TYPES = 100_000
_MAX_FIXED = 1 << 20
_MAX_BYTES = 16 << 20
# Errors that JSON of another shape may cause.
_WRONG = (ValueError, KeyError, TypeError, AttributeError, OverflowError, pa.ArrowException)
_NAME = re.compile("[A-Za-z_][A-Za-z0-9_]*")


def arrow_schema(text: str, where: str) -> pa.Schema:
    """Return the Arrow schema of an Avro schema.

    Args:
        text: Avro schema, as JSON.
        where: Source of the schema, for errors.

    Raises:
        CorruptionError: If the text is not a schema of columns.
        FormatError: If a type is not supported.

    >>> arrow_schema('{"type": "record", "name": "r", "fields": '
    ...     '[{"name": "id", "type": ["null", "long"]}]}', "docs").field("id").type
    DataType(int64)
    """
    try:
        given = parse_json(
            text.encode(),
            where,
            "the Avro schema of a table",
            most_bytes=_MAX_BYTES,
            most_depth=_BRACKETS * (_MAX_DEPTH + 1),
        )
        kind = _Types(where).of(given, "", 0)
    except _WRONG as error:
        found = f"{type(error).__name__}: {error}"
        raise CorruptionError(where, 0, "the Avro schema of a table", found) from error
    if not pa.types.is_struct(kind):
        raise CorruptionError(where, 0, "the Avro schema of a table", f"that of {kind}")
    return pa.schema(list(kind))


def avro_schema(schema: pa.Schema, name: str, namespace: str) -> dict[str, Any]:
    """Return the Avro schema of a table's data columns.

    Args:
        schema: Schema of the columns.
        name: Name of the Avro record.
        namespace: Namespace of the Avro record.

    Raises:
        TypeError: If Hudi tables do not support the type of a column, or readers fail at it; if
            columns nest more deeply than `arrow_schema` reads.
        ValueError: If Avro does not allow the name of a column.

    >>> avro_schema(pa.schema([("id", pa.int8())]), "r", "n")["fields"]
    [{'name': 'id', 'type': ['null', 'int'], 'default': None}]
    """
    made = _record(list(schema), name, namespace)
    try:
        _Types(name).of(made, "", 0)
    except ValueError as error:
        raise TypeError(
            f"schema: as an Avro schema, it has {error}; flatten nested columns "
            "or store them as text"
        ) from None
    return made


class _Types:
    """The Arrow types of one Avro schema, and their names."""

    def __init__(self, where: str) -> None:
        self._where = where
        # Arrow type of each named type, the number of types in it, and their depth.
        self._named: dict[str, tuple[pa.DataType, int, int]] = {}
        self._count = 0
        self._deepest = 0

    def of(self, given: Any, namespace: str, depth: int) -> pa.DataType:
        """Return the Arrow type of an Avro type, and remember it if it has a name."""
        self._add(1, depth)

        def inner(one: Any, space: str = namespace) -> pa.DataType:
            return self.of(one, space, depth + 1)

        if isinstance(given, list):
            kinds = [one for one in given if one != "null"]
            if len(kinds) != 1:
                raise ValueError(f"a union of {len(kinds)} types")
            return inner(kinds[0])
        if isinstance(given, str):
            if given in _PLAIN:
                return _PLAIN[given]
            full = given if "." in given or not namespace else f"{namespace}.{given}"
            known, count, height = self._named[full]
            self._add(count, depth + height)
            return known
        kind, logical = given["type"], given.get("logicalType")
        if not isinstance(kind, str):
            return inner(kind)
        if logical in _REFUSED:
            raise FormatError(f"{self._where}: the Avro type {logical} is not supported")
        if (kind, logical) in _LOGICAL:
            return _LOGICAL[kind, logical]
        if kind == "array":
            return pa.list_(pa.field("element", inner(given["items"])))
        if kind == "map":
            return pa.map_(pa.string(), inner(given["values"]))
        if kind not in ("record", "fixed", "bytes"):
            return inner(kind)
        before, above, self._deepest = self._count, self._deepest, depth
        full, space = _full_name(given, namespace)
        if kind == "record":
            fields = [pa.field(one["name"], inner(one["type"], space)) for one in given["fields"]]
            if len({field.name for field in fields}) < len(fields):
                raise ValueError(f"the record {full} has two fields with the same name")
            made = pa.struct(fields)
        elif logical == "decimal":
            made = pa.decimal128(given["precision"], given.get("scale", 0))
        else:
            made = pa.binary(_fixed_size(given)) if kind == "fixed" else pa.binary()
        if kind != "bytes":
            self._named[full] = made, self._count - before, self._deepest - depth
        self._deepest = max(above, self._deepest)
        return made

    def _add(self, count: int, depth: int) -> None:
        self._count += count
        self._deepest = max(self._deepest, depth)
        if self._count > _MAX_TYPES or depth > _MAX_DEPTH:
            raise ValueError(
                f"more than {_MAX_TYPES} types, or types nested deeper than {_MAX_DEPTH}"
            )


def _fixed_size(given: Mapping[str, Any]) -> int:
    size = given["size"]
    if type(size) is not int or not 0 < size <= _MAX_FIXED:
        raise ValueError(f"fixed values of {size!r} bytes")
    return size


def _full_name(given: Mapping[str, Any], namespace: str) -> tuple[str, str]:
    """Return the full name of a named type, and the namespace of names inside it."""
    name = given.get("name", "")
    if "." in name:
        return name, name.rpartition(".")[0]
    space = given.get("namespace", namespace)
    return (f"{space}.{name}" if space else name), space


def in_microseconds(field: pa.Field) -> pa.Field:
    """Return a column of rows with the type of a new column of a table for these rows.

    Times of pandas, and of files that it writes, are in nanoseconds, which Hudi tables do not
    support. A write checks each value, so that no digit is lost.

    >>> in_microseconds(pa.field("at", pa.timestamp("ns", "UTC"))).type
    TimestampType(timestamp[us, tz=UTC])
    """
    kind = field.type
    if not pa.types.is_timestamp(kind) or kind.unit != "ns":
        return field
    return field.with_type(pa.timestamp("us", kind.tz))


def _record(fields: list[pa.Field], name: str, namespace: str, path: str = "") -> dict[str, Any]:
    """Return the Avro type of structs; `path` is their place in the rows, for errors."""
    inside = f"{namespace}.{name}"
    stored = []
    for field in fields:
        if not _NAME.fullmatch(field.name):
            raise ValueError(
                f"the column {field.name!r} has a name that Avro does not allow; use letters, "
                "digits and '_', and do not start with a digit"
            )
        kind = _avro_type(field.type, field.name, inside, f"{path}{field.name}")
        stored.append({"name": field.name, "type": ["null", kind], "default": None})
    return {"type": "record", "name": name, "namespace": namespace, "fields": stored}


def _avro_type(kind: pa.DataType, name: str, namespace: str, path: str) -> Any:
    """Return the Avro type of values; records and decimals have their column's name.

    Args:
        kind: Type of the values.
        name: Name of the column or field.
        namespace: Namespace of records and fixed types.
        path: Path of the values in the rows, for errors.
    """
    if isinstance(kind, pa.BaseExtensionType):
        stored = f"its storage type, {kind.storage_type}, or strings, which can be keys"
        raise _no_type_error(kind, path, stored)
    kind, types = plain_type(kind), pa.types
    if types.is_struct(kind):
        return _record(list(kind), name, namespace, f"{path}.")
    if types.is_map(kind):
        if not types.is_string(plain_type(kind.key_type)):
            raise _no_type_error(kind, path, "a map whose keys are strings")
        return {
            "type": "map",
            "values": ["null", _avro_type(kind.item_type, name, namespace, f"{path}.value")],
        }
    if types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind):
        return {
            "type": "array",
            "items": ["null", _avro_type(kind.value_type, name, namespace, f"{path}[]")],
        }
    if types.is_decimal(kind):
        return _decimal(kind, name, namespace, path)
    if types.is_fixed_size_binary(kind):
        inside = {"name": "fixed", "namespace": f"{namespace}.{name}", "size": kind.byte_width}
        return {"type": "fixed", **inside}
    if types.is_timestamp(kind):
        if kind.unit == "ns":
            instead = pa.timestamp("us", kind.tz and "UTC")
            raise _no_type_error(kind, path, f"{instead}, without nanoseconds")
        unit = "micros" if kind.unit == "us" else "millis"
        local = "" if kind.tz else "local-"
        return {"type": "long", "logicalType": f"{local}timestamp-{unit}"}
    if types.is_date(kind):
        return {"type": "int", "logicalType": "date"}
    if types.is_time(kind) and kind.unit != "ns":
        return {"type": "long", "logicalType": "time-micros"}
    if types.is_integer(kind) and kind != pa.uint64():
        return "long" if kind in (pa.int64(), pa.uint32()) else "int"
    for avro, stored in _PLAIN.items():
        if kind == stored or (avro in ("string", "bytes") and kind in _large(stored)):
            return avro
    if types.is_null(kind):
        typed = "it a type in a pyarrow.Schema, or by .astype('string') or the like in pandas"
        raise _no_type_error(kind, path, typed)
    if types.is_duration(kind):
        raise _no_type_error(
            kind, path, f"whole numbers of {kind.unit}, such as by .astype('int64')"
        )
    if types.is_interval(kind):
        typed = "text, or whole numbers, such as epoch_us(column) in DuckDB"
        raise _no_type_error(kind, path, typed)
    if kind == pa.uint64():
        raise _no_type_error(kind, path, "int64, or decimal(20, 0) for numbers from 2**63 on")
    raise _no_type_error(kind, path, "a type that Hudi tables support")


def _large(kind: pa.DataType) -> tuple[pa.DataType, ...]:
    return (pa.large_string(),) if kind == pa.string() else (pa.large_binary(),)


def _decimal(kind: pa.DataType, name: str, namespace: str, path: str) -> dict[str, Any]:
    if kind.precision > _MAX_DIGITS or kind.scale < 0 or kind.scale > kind.precision:
        raise _no_type_error(kind, path, f"at most {_MAX_DIGITS} digits, including the scale")
    # Minimum number of bytes for a number of `precision` digits, with its sign.
    size = ((10**kind.precision - 1).bit_length() + 8) // 8
    return {
        "type": "fixed",
        "name": "fixed",
        "namespace": f"{namespace}.{name}",
        "size": size,
        "logicalType": "decimal",
        "precision": kind.precision,
        "scale": kind.scale,
    }


def _no_type_error(kind: pa.DataType, path: str, instead: str) -> TypeError:
    return TypeError(f"the column {path!r} is {kind}; give {instead}")
