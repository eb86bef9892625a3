"""The correspondence of Arrow types and Paimon's types, and how their values are written."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import pyarrow as pa

#: Key in the metadata of a field for its type in Paimon, if the Arrow type does not tell it.
TYPE = b"paimon.type"
VARIANT = b"VARIANT"
TIMESTAMP = b"TIMESTAMP"
ROW_KIND = b"ROW KIND"

#: Type of a timestamp in years that nanoseconds in 64 bits do not reach.
WIDE_TIMESTAMP = pa.struct(
    [
        pa.field("millisecond", pa.int64(), nullable=False),
        pa.field("nanosecond", pa.int32(), nullable=False),
    ]
)
_VARIANT = pa.struct(
    [
        pa.field("value", pa.binary(), nullable=False),
        pa.field("metadata", pa.binary(), nullable=False),
    ]
)

# Deepest nesting of types, for which C functions call themselves.
_DEEPEST = 32


@dataclass(frozen=True)
class Cell:
    """A column of a row, or a type inside a column, in the form that the C code reads.

    Attributes:
        kind: Kind of its values, one of `_codec.CELL_TYPES`.
        type: Arrow type of its values.
        width: Number of bytes of each value in Arrow; 0 if that is not fixed.
        unit: Unit of a timestamp, in nanoseconds.
        limit: Power of ten that a decimal must be below, without its sign.
        order: Name of its type in the name of a key order. None: it cannot be in a key.
        required: Whether none of its values is null, unless the whole row is null.
        children: Cells directly below it.
    """

    kind: str
    type: pa.DataType
    width: int = 0
    unit: int = 0
    limit: int = 0
    order: str | None = None
    required: bool = False
    children: tuple[Cell, ...] = ()

    @property
    def size(self) -> int:
        """Return the number of cells, including all cells below this one."""
        return 1 + sum(child.size for child in self.children)


def row_cell(schema: pa.Schema, name: str) -> Cell:
    """Return the cell of rows with these columns.

    Raises:
        TypeError: A column has a type that Paimon's rows do not have; the text names it.
    """
    if not isinstance(schema, pa.Schema):
        raise TypeError(f"{name} is {type(schema).__name__}; give a pyarrow.Schema")
    if len(set(schema.names)) != len(schema):
        raise ValueError(f"{name} has two columns of one name")
    return _struct(list(schema), pa.struct(list(schema)), name, False, 0)


def _struct(
    fields: Sequence[pa.Field], kind: pa.DataType, name: str, in_array: bool, depth: int
) -> Cell:
    cells = tuple(_field(field, f"{name}.{field.name}", in_array, depth + 1) for field in fields)
    if sum(cell.kind == "kind" for cell in cells) > 1:
        raise TypeError(f"{name} has two row kinds; give one")
    return Cell("row", kind, children=cells)


_NUMBERS = {
    pa.int8(): Cell("number", pa.int8(), 1, order="int8"),
    pa.int16(): Cell("number", pa.int16(), 2, order="int16"),
    pa.int32(): Cell("number", pa.int32(), 4, order="int32"),
    pa.int64(): Cell("number", pa.int64(), 8, order="int64"),
    pa.date32(): Cell("number", pa.date32(), 4, order="int32"),
    pa.bool_(): Cell("bool", pa.bool_(), order="bool"),
    pa.float32(): Cell("float", pa.float32(), 4, order="float"),
    pa.float64(): Cell("float", pa.float64(), 8, order="double"),
    pa.time32("ms"): Cell("time", pa.time32("ms"), 4, order="int32"),
    pa.string(): Cell("text", pa.string(), order="bytes"),
    pa.binary(): Cell("bytes", pa.binary(), order="bytes"),
}
_REQUIRED_BYTES = replace(_NUMBERS[pa.binary()], required=True)
_UNITS = {"us": 1000, "ns": 1}


def _field(field: pa.Field, name: str, in_array: bool, depth: int) -> Cell:
    return replace(_cell(field, name, in_array, depth), required=not field.nullable)


def _cell(field: pa.Field, name: str, in_array: bool, depth: int) -> Cell:
    kind = field.type
    said = (field.metadata or {}).get(TYPE)
    if depth > _DEEPEST:
        raise TypeError(f"{name} lies {depth} types deep; {_DEEPEST} are the most")
    if said == ROW_KIND and kind == pa.int8():
        return Cell("kind", kind, 1)
    if said == TIMESTAMP and kind.equals(WIDE_TIMESTAMP):
        parts = (replace(_NUMBERS[one], required=True) for one in (pa.int64(), pa.int32()))
        return Cell("wide timestamp", kind, order="timestamp", children=tuple(parts))
    if said == VARIANT and kind.equals(_VARIANT) and not in_array:
        return Cell("variant", kind, children=(_REQUIRED_BYTES,) * 2)
    if said is not None:
        raise TypeError(f"{name}: {said.decode(errors='replace')} is not known for {kind}")
    if kind in _NUMBERS:
        return _NUMBERS[kind]
    if pa.types.is_decimal128(kind) and kind.scale >= 0:
        small = kind.precision <= 18
        return Cell(
            "decimal" if small else "big decimal",
            kind,
            16,
            limit=10**kind.precision,
            order="int64" if small else "decimal",
        )
    if pa.types.is_timestamp(kind) and kind.tz in (None, "UTC"):
        if kind.unit == "ms":
            return Cell("number", kind, 8, order="int64")
        if kind.unit in _UNITS:
            return Cell("timestamp", kind, 8, unit=_UNITS[kind.unit], order="timestamp")
    if pa.types.is_struct(kind):
        return _struct([kind.field(i) for i in range(kind.num_fields)], kind, name, in_array, depth)
    if pa.types.is_list(kind):
        return Cell("array", kind, children=(_field(kind.value_field, name, True, depth + 1),))
    if pa.types.is_map(kind):
        pair = (kind.key_field, kind.item_field)
        return Cell("map", kind, children=tuple(_field(one, name, True, depth + 1) for one in pair))
    raise TypeError(f"{name} is {kind}, which Paimon's rows do not have")


def order_of(cell: Cell, name: str) -> str:
    """Return the key order of rows.

    Raises:
        TypeError: A column has a type that keys do not have.
    """
    for field, child in zip(cell.type, cell.children, strict=True):
        if child.order is None:
            raise TypeError(f"{name}.{field.name} is {field.type}; no key has such a field")
    if not cell.children:
        raise ValueError(f"{name} has no column")
    return f"row({','.join(str(child.order) for child in cell.children)})"


# -- Types of Paimon as texts

#: Types as an Arrow schema, or as fields of a schema file of Paimon's.
Types: TypeAlias = pa.Schema | Sequence[Mapping[str, Any]]


def arrow_schema(types: Types) -> pa.Schema:
    """Return types as an Arrow schema.

    Raises:
        ValueError: A type is unknown in Paimon.
    """
    if isinstance(types, (list, tuple)) and all(isinstance(one, Mapping) for one in types):
        return paimon_schema(types)
    return types


_SIMPLE = {
    "BOOLEAN": pa.bool_(),
    "TINYINT": pa.int8(),
    "SMALLINT": pa.int16(),
    "INT": pa.int32(),
    "INTEGER": pa.int32(),
    "BIGINT": pa.int64(),
    "FLOAT": pa.float32(),
    "DOUBLE": pa.float64(),
    "DATE": pa.date32(),
    "TIME": pa.time32("ms"),
    "CHAR": pa.string(),
    "VARCHAR": pa.string(),
    "STRING": pa.string(),
    "BINARY": pa.binary(),
    "VARBINARY": pa.binary(),
    "BYTES": pa.binary(),
}
_TEXT = re.compile(
    r"(?P<name>[A-Z]+)(\((?P<first>\d+)(, *(?P<second>\d+))?\))?"
    r"(?P<zone> WITH(OUT| LOCAL) TIME ZONE)?(?P<required> NOT NULL)?"
)


def paimon_schema(
    fields: Sequence[Mapping[str, Any]], *, wide_timestamps: bool = False, row_kind: str = ""
) -> pa.Schema:
    """Return the Arrow schema of the fields in a schema file of Paimon.

    Args:
        fields: Fields of the schema file, each with its ``name`` and ``type``.
        wide_timestamps: Whether to return structs of milliseconds and nanoseconds for timestamps
            with more than six digits; as nanoseconds in 64 bits, they end in the years 1677 and
            2262.
        row_kind: Name of a further column for the row's own kind, which is added to each row, and
            to rows within rows. Default: no such column.

    Raises:
        ValueError: If a type is not known; the text says which.

    >>> paimon_schema([{"name": "id", "type": "BIGINT NOT NULL"}, {"name": "n", "type": "TIME(0)"}])
    id: int64 not null
    n: time32[ms]
    """

    def parsed(name: str, said: Any) -> pa.Field:
        text = said if isinstance(said, str) else said.get("type", "")
        found = _TEXT.fullmatch(text)
        if found is None:
            raise ValueError(f"{name}: {text!r} is not a type of Paimon's")
        required = found["required"] is not None
        kind = found["name"]
        make: Callable[..., pa.Field] = lambda of, **more: pa.field(name, of, not required, **more)  # noqa: E731
        if isinstance(said, Mapping):
            if kind == "ROW":
                return make(pa.struct(columns(said["fields"])))
            if kind == "ARRAY":
                return make(pa.list_(parsed("element", said["element"])))
            if kind == "MULTISET":
                count = pa.field("value", pa.int32(), nullable=False)
                return make(pa.map_(key(parsed("key", said["element"])), count))
            if kind == "MAP":
                return make(
                    pa.map_(key(parsed("key", said["key"])), parsed("value", said["value"]))
                )
        digits = None if found["first"] is None else int(found["first"])
        if kind == "DECIMAL":
            return make(pa.decimal128(10 if digits is None else digits, int(found["second"] or 0)))
        if kind == "TIMESTAMP":
            digits = 6 if digits is None else digits
            if digits > 6 and wide_timestamps:
                return make(WIDE_TIMESTAMP, metadata={TYPE: TIMESTAMP})
            unit = "ms" if digits <= 3 else "us" if digits <= 6 else "ns"
            return make(pa.timestamp(unit, "UTC" if "LOCAL" in (found["zone"] or "") else None))
        if kind == "VARIANT":
            return make(_VARIANT, metadata={TYPE: VARIANT})
        if kind not in _SIMPLE:
            raise ValueError(f"{name}: {text!r} is not a type that can be read")
        return make(_SIMPLE[kind])

    def key(field: pa.Field) -> pa.Field:
        return field.with_nullable(False)

    def columns(of: Sequence[Mapping[str, Any]]) -> list[pa.Field]:
        made = [parsed(one["name"], one["type"]) for one in of]
        if row_kind:
            made.append(pa.field(row_kind, pa.int8(), metadata={TYPE: ROW_KIND}))
        return made

    return pa.schema(columns(fields))
