"""The schema in an Avro file, which is checked before the file is decoded with it.

Files of other versions of Hudi have other fields, so a file is read with its own schema, which
decides the meaning of its bytes. Records that contain themselves, and arrays of items without
bytes, could exceed any memory. None of Hudi's schemas has such a type. `resolution` checks which
record it must be.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

#: Maximum size of a schema in bytes.
MOST_BYTES = 1 << 20
# Maximum depth of types, and maximum number of types including those that names stand for: the
# schemas of Hudi have 11, and 200.
_MOST_DEPTH = 64
_MOST_TYPES = 10_000
# Minimum size in bytes of a record in an array; the smallest records of Hudi have as many.
_RECORD_BYTES = 2

_LEAST: Mapping[str, int] = {
    "boolean": 1, "int": 1, "long": 1, "float": 4, "double": 8, "bytes": 1, "string": 1,
}  # fmt: skip


class _Type(NamedTuple):
    """A type that has been checked.

    Attributes:
        schema: Schema for the decoder, with full names and without what is not needed to read
            bytes.
        least: Least number of bytes of a value.
        records: Number of records that each value contains, whatever its bytes are.
        height: Number of levels at which types are nested.
        types: Number of types, including those that names stand for.
    """

    schema: Any
    least: int
    records: int
    height: int
    types: int


_NULL = _Type("null", 0, 0, 1, 1)


def checked_schema(given: Any) -> Any:
    """Return the schema of a file's records, for a decoder.

    Args:
        given: Parsed schema of the file.

    Raises:
        ValueError: If it is not a schema, or is one by which bytes cannot be read safely.

    >>> checked_schema({"type": "record", "name": "r", "doc": "text", "fields": [
    ...     {"name": "at", "type": {"type": "double", "logicalType": "of another"}}]})
    {'type': 'record', 'name': 'r', 'fields': [{'name': 'at', 'type': 'double'}]}
    """
    return _Checked().of(given, "", 0).schema


class _Checked:
    """The types of one schema, and their names."""

    def __init__(self) -> None:
        # None stands for an incomplete type: a type that refers to it contains itself.
        self._named: dict[str, _Type | None] = {}

    def of(self, given: Any, space: str, depth: int) -> _Type:
        """Return a type; `space` is its namespace, `depth` the number of types around it."""
        if isinstance(given, list):
            made = self._union([self.of(one, space, depth + 1) for one in given])
        elif isinstance(given, str):
            made = self._known(given, space)
        elif isinstance(given, dict):
            made = self._complex(given, space, depth)
        else:
            raise ValueError(f"{given!r} in place of a type")
        if made.height + depth > _MOST_DEPTH:
            raise ValueError(f"types nested more than {_MOST_DEPTH} deep")
        if made.types > _MOST_TYPES:
            raise ValueError(f"more than {_MOST_TYPES} types")
        return made

    def _known(self, name: str, space: str) -> _Type:
        if name == "null":
            return _NULL
        if name in _LEAST:
            return _Type(name, _LEAST[name], 0, 1, 1)
        full = name if "." in name or not space else f"{space}.{name}"
        if full not in self._named:
            raise ValueError(f"the type {name!r}, which it does not define")
        known = self._named[full]
        if known is None:
            raise ValueError(f"{full}, which holds itself")
        return known._replace(schema=full)

    def _complex(self, given: Mapping[str, Any], space: str, depth: int) -> _Type:
        kind = given.get("type")
        if kind == "array":
            return self._many("items", kind, self.of(given.get("items"), space, depth + 1), 0)
        if kind == "map":
            return self._many("values", kind, self.of(given.get("values"), space, depth + 1), 1)
        if kind not in ("record", "error", "fixed", "enum"):
            return self.of(kind, space, depth + 1)  # its logical type is not needed
        name, inner = _full_name(given, space)
        if name in self._named:
            raise ValueError(f"{name}, defined twice")
        self._named[name] = None
        if kind == "fixed":
            made = _Type({"type": kind, "name": name, "size": _size(given)}, _size(given), 0, 1, 1)
        elif kind == "enum":
            symbols = given.get("symbols")
            if not isinstance(symbols, list) or not symbols:
                raise ValueError(f"{name}, an enum without symbols")
            made = _Type({"type": kind, "name": name, "symbols": symbols}, 1, 0, 1, 1)
        else:
            made = self._record(given, name, inner, depth)
        self._named[name] = made
        return made

    def _record(self, given: Mapping[str, Any], name: str, space: str, depth: int) -> _Type:
        fields = given.get("fields")
        if not isinstance(fields, list):
            raise ValueError(f"{name}, a record without fields")
        stored, parts = [], []
        for field in fields:
            if not isinstance(field, dict) or not isinstance(field.get("name"), str):
                raise ValueError(f"{name}, a record with a field that has no name")
            part = self.of(field.get("type"), space, depth + 1)
            stored.append({"name": field["name"], "type": part.schema})
            parts.append(part)
        least, records = sum(one.least for one in parts), 1 + sum(one.records for one in parts)
        if any(one.least == 0 for one in parts):
            raise ValueError(f"{name}, a record with a field that takes no bytes")
        if len({one["name"] for one in stored}) < len(stored):
            raise ValueError(f"{name}, a record with two fields of one name")
        schema = {"type": "record", "name": name, "fields": stored}
        return _around(schema, parts, least, records)

    @staticmethod
    def _many(what: str, kind: str, item: _Type, key: int) -> _Type:
        if item.least + key < max(1, _RECORD_BYTES * item.records):
            raise ValueError(f"{kind} items that take too few bytes")
        return _around({"type": kind, what: item.schema}, [item], 1, 0)

    @staticmethod
    def _union(parts: list[_Type]) -> _Type:
        if not parts:
            raise ValueError("a union of nothing")
        if any(isinstance(one.schema, list) for one in parts):
            raise ValueError("a union in a union")
        if any(1 + one.least < _RECORD_BYTES * one.records for one in parts):
            raise ValueError("a union with records that take too few bytes")
        return _around([one.schema for one in parts], parts, 1, 0)


def _around(schema: Any, parts: list[_Type], least: int, records: int) -> _Type:
    height = 1 + max(one.height for one in parts)
    return _Type(schema, least, records, height, 1 + sum(one.types for one in parts))


def _full_name(given: Mapping[str, Any], space: str) -> tuple[str, str]:
    """Return the full name of a type, and the namespace of names inside it."""
    name, space = given.get("name"), given.get("namespace", space)
    if not isinstance(name, str) or not isinstance(space, str):
        raise ValueError(f"the name {name!r} in {space!r}")
    if "." in name:
        return name, name.rpartition(".")[0]
    return (f"{space}.{name}" if space else name), space


def _size(given: Mapping[str, Any]) -> int:
    size = given.get("size")
    if type(size) is not int or size < 1:
        raise ValueError(f"values of {size!r} bytes")
    return size
