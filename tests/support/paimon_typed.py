"""The typed fixtures that Java Paimon wrote, and their rows as Python values."""

from __future__ import annotations

import gzip
import itertools
import json
import struct
from dataclasses import dataclass
from decimal import Decimal
from functools import cached_property
from pathlib import Path
from typing import Any

import pyarrow as pa

from lookupstore.compacted.schema import ROW_KIND, TIMESTAMP, TYPE, VARIANT, paimon_schema

TYPED = Path(__file__).parents[1] / "golden" / "paimon" / "typed"
KINDS = {"+I": 0, "-U": 1, "+U": 2, "-D": 3}
#: The column of the kind that a row within rows has itself.
ROW_KIND_COLUMN = "row kind"


@dataclass(frozen=True)
class Typed:
    """One fixture: a file, and what is in it."""

    name: str
    mode: str
    path: Path
    described: dict[str, Any]

    @cached_property
    def key_types(self) -> pa.Schema:
        return paimon_schema(self.described["key"], wide_timestamps=True)

    @cached_property
    def value_types(self) -> pa.Schema:
        return paimon_schema(
            self.described["value"], wide_timestamps=True, row_kind=ROW_KIND_COLUMN
        )

    @cached_property
    def rows(self) -> list[dict[str, Any]]:
        with gzip.open(TYPED / self.described["rows"]) as file:
            return [json.loads(line) for line in file]

    @property
    def keys(self) -> list[bytes]:
        return [bytes.fromhex(row["k"]) for row in self.rows]

    @property
    def values(self) -> list[bytes]:
        return [bytes.fromhex(row["v"]) for row in self.rows]

    def key_rows(self) -> list[dict[str, Any]]:
        """Return the keys by field name, as `comparable` shows those of an Arrow table."""
        return [expected(self.key_types, row["key"]) for row in self.rows]

    def value_rows(self) -> list[dict[str, Any]]:
        """Return the values by field name, as `comparable` shows those of an Arrow table."""
        return [
            {**expected(self.value_types, row["value"]),
             ROW_KIND_COLUMN: KINDS[row.get("value_row_kind", "+I")]}
            for row in self.rows
        ]  # fmt: skip


def cases() -> list[Typed]:
    """Return all fixtures."""
    described = json.loads((TYPED / "typed.json").read_text())["cases"]
    return [Typed(one["name"], one["mode"], TYPED / one["sst"], one) for one in described]


def expected(schema: pa.Schema, row: dict[str, Any]) -> dict[str, Any]:
    """Return a row of a fixture's JSON as `comparable` shows the same row of an Arrow table."""
    return {field.name: _expected(field, row.get(field.name)) for field in schema}


def _expected(field: pa.Field, value: Any) -> Any:
    kind, said = field.type, (field.metadata or {}).get(TYPE)
    if value is None:
        return None
    if said == TIMESTAMP:
        return {"millisecond": value[0], "nanosecond": value[1]}
    if said == VARIANT:
        return {name: bytes.fromhex(value[name]) for name in ("value", "metadata")}
    if pa.types.is_struct(kind):
        inner = {
            child.name: _expected(child, value.get(child.name))
            for child in (kind.field(i) for i in range(kind.num_fields))
            if (child.metadata or {}).get(TYPE) != ROW_KIND
        }
        return {**inner, ROW_KIND_COLUMN: KINDS[value.get("", "+I")]}
    if pa.types.is_map(kind):
        return [(_expected(kind.key_field, k), _expected(kind.item_field, v)) for k, v in value]
    if pa.types.is_list(kind):
        return [_expected(kind.value_field, one) for one in value]
    if pa.types.is_floating(kind):
        width = "<f" if kind == pa.float32() else "<d"
        number = float(value) if isinstance(value, (int, float)) else _SPECIAL[value]
        return struct.pack(width, number)
    if pa.types.is_decimal(kind):
        return Decimal(value)
    if pa.types.is_timestamp(kind):
        number = value[0] * 1_000_000 + value[1]
        assert number % _NANOS[kind.unit] == 0
        return number // _NANOS[kind.unit]
    if kind == pa.binary():
        return bytes.fromhex(value)
    return value


_SPECIAL = {"NaN": float("nan"), "Infinity": float("inf"), "-Infinity": float("-inf")}
_NANOS = {"ms": 1_000_000, "us": 1000, "ns": 1}


def comparable(column: pa.Array) -> list[Any]:
    """Return values that compare as their bytes do: floats as bits, times as numbers."""
    kind = column.type
    valid = column.is_valid().to_pylist()

    def known(values: list[Any]) -> list[Any]:
        return [one if there else None for one, there in zip(values, valid, strict=True)]

    if pa.types.is_struct(kind):
        names = [kind.field(i).name for i in range(kind.num_fields)]
        inner = [comparable(column.field(i)) for i in range(kind.num_fields)]
        return known([dict(zip(names, row, strict=True)) for row in zip(*inner, strict=True)])
    if pa.types.is_map(kind) or pa.types.is_list(kind):
        if pa.types.is_map(kind):
            keys, items = comparable(column.keys), comparable(column.items)
            flat: list[Any] = list(zip(keys, items, strict=True))
        else:
            flat = comparable(column.values)
        ends = column.offsets.to_pylist()
        return known([flat[start:end] for start, end in itertools.pairwise(ends)])
    if pa.types.is_floating(kind):
        width = "<f" if kind == pa.float32() else "<d"
        data = column.buffers()[1].to_pybytes()
        size = struct.calcsize(width)
        at = column.offset
        return known([data[i * size : (i + 1) * size] for i in range(at, at + len(column))])
    if pa.types.is_timestamp(kind):
        return column.view(pa.int64()).to_pylist()
    if pa.types.is_date(kind) or pa.types.is_time(kind):
        return column.view(pa.int32()).to_pylist()
    return column.to_pylist()
