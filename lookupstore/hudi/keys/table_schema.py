"""The columns of a table as Avro texts, and their changes by writes.

New columns are added at the end. A type is widened only if the wider type holds every value
exactly: files keep their types, and readers cast their values.
"""

from __future__ import annotations

import json
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from lookupstore.arrow.types import plain_type
from lookupstore.hudi.keys.avro_types import arrow_schema, avro_schema

_JSON_SEPARATORS = (",", ":")


@dataclass(frozen=True)
class TableSchema:
    """The data columns of a table.

    Attributes:
        columns: Names and types of the columns.
        avro: Avro schema of the same columns in JSON, as in commits.
    """

    columns: pa.Schema
    avro: str

    def with_meta(self, meta: Collection[str]) -> str:
        """Return the Avro schema of base files, with meta columns first.

        >>> schema = TableSchema(pa.schema([]), '{"type":"record","name":"r","fields":[]}')
        >>> schema.with_meta(["m"])
        '{"type":"record","name":"r","fields":[{"name":"m","type":["null","string"],"doc":"",\
"default":null}]}'
        """
        record = json.loads(self.avro)
        first = [
            {"name": name, "type": ["null", "string"], "doc": "", "default": None} for name in meta
        ]
        record["fields"] = first + [one for one in record["fields"] if one["name"] not in meta]
        return _json(record)

    def evolved(self, given: pa.Schema, fixed: Collection[str], where: str) -> TableSchema:
        """Return the schema of the table after a write of rows with other columns.

        Args:
            given: Columns of the rows. Columns that the rows lack are kept.
            fixed: Names of the columns of keys and folders, whose values must keep their texts.
            where: Source of the rows, for errors.

        Raises:
            TypeError: If the type of a column cannot be widened to that of the rows, or Hudi tables
                do not support it.
            ValueError: If Avro does not allow the name of a new column.

        >>> known = pa.schema({"id": pa.int32()})
        >>> text = json.dumps(avro_schema(known, "r", "n"))
        >>> rows = pa.schema({"id": pa.int64(), "new": pa.string()})
        >>> TableSchema(known, text).evolved(rows, ["id"], "rows").columns
        id: int64
        new: string
        """
        record = json.loads(self.avro)
        # Types of the rows in a table; records in them have names like those of the table.
        namespace = record.get("namespace", "")
        made = avro_schema(given, record["name"], namespace)
        stored = arrow_schema(json.dumps(made), where)
        fields = list(self.columns)
        places = {field["name"]: at for at, field in enumerate(record["fields"])}
        for field, avro in zip(stored, made["fields"], strict=True):
            at = self.columns.get_field_index(field.name)
            if at < 0:
                fields.append(field)
                record["fields"].append(avro)
            elif is_wider(field.type, fields[at].type, exact=field.name in fixed):
                fields[at] = pa.field(field.name, field.type)
                record["fields"][places[field.name]] = avro
        columns = pa.schema(fields)
        return self if columns == self.columns else TableSchema(columns, _json(record))


def parse_table_schema(text: str, where: str, meta: Collection[str]) -> TableSchema:
    """Return the columns in an Avro schema.

    Args:
        text: Avro schema of a commit or of the properties, as JSON.
        where: Source of the schema, for errors.
        meta: Names of meta columns, which are left out.

    Raises:
        CorruptionError: If the text is not a schema of columns.
        FormatError: If a type is not supported.
    """
    columns = arrow_schema(text, where)
    if any(name in meta for name in columns.names):
        record = json.loads(text)
        record["fields"] = [one for one in record["fields"] if one["name"] not in meta]
        text, columns = _json(record), pa.schema([one for one in columns if one.name not in meta])
    return TableSchema(columns, text)


def is_wider(wide: pa.DataType, narrow: pa.DataType, *, exact: bool = False) -> bool:
    """Return whether a type holds every value of another one, and more.

    Args:
        wide: Type that may be wider.
        narrow: Type that may be narrower.
        exact: Whether values must keep their texts as well.

    >>> is_wider(pa.float64(), pa.int32()), is_wider(pa.float64(), pa.int64())
    (True, False)
    """
    wide, narrow = plain_type(wide), plain_type(narrow)
    types = pa.types
    if types.is_int64(wide):
        return bool(types.is_int32(narrow))
    if exact or wide == narrow:
        return False
    if types.is_float64(wide):
        return bool(types.is_int32(narrow) or types.is_float32(narrow))
    if types.is_binary(wide):
        return bool(types.is_string(narrow))
    if types.is_decimal128(wide) and types.is_decimal128(narrow):
        more = wide.scale - narrow.scale
        return bool(more >= 0 and wide.precision - narrow.precision >= more)
    if types.is_struct(wide) and types.is_struct(narrow):
        known = {field.name: field.type for field in narrow}
        names = [field.name for field in wide]
        # Known fields stay first, in their order, followed by new fields.
        return names[: len(known)] == list(known) and all(
            field.name not in known
            or field.type == known[field.name]
            or is_wider(field.type, known[field.name])
            for field in wide
        )
    if types.is_list(wide) and types.is_list(narrow):
        return is_wider(wide.value_type, narrow.value_type)
    if types.is_map(wide) and types.is_map(narrow):
        return is_wider(wide.item_type, narrow.item_type)
    return False


def _json(value: Any) -> str:
    return json.dumps(value, separators=_JSON_SEPARATORS, ensure_ascii=False)
