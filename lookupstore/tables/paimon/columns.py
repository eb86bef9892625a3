"""Columns of Paimon's files that were written with an older schema of the table.

A file has the names and types of the schema that it was written with. Field ids connect them with
those of the newest schema.

Source: `SchemaEvolutionUtil` of Apache Paimon.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pyarrow as pa

from lookupstore.compacted.schema import paimon_schema
from lookupstore.errors import FormatError

Field = Mapping[str, Any]
# Function that returns the error for a feature.
Refuse = Callable[[str], FormatError]

_TYPE = re.compile(r"(?P<name>[A-Z]+)(?:\((?P<numbers>[\d, ]+)\))?(?P<zone>.*?)(?: NOT NULL)?")
_INTEGERS = ["TINYINT", "SMALLINT", "INT", "BIGINT"]
_FLOATS = ["FLOAT", "DOUBLE"]
_SAME = {"INTEGER": "INT", "STRING": "VARCHAR", "BYTES": "VARBINARY"}
_LONGEST = 2**31 - 1
_DEFAULTS = {
    "STRING": [_LONGEST], "BYTES": [_LONGEST], "DECIMAL": [10, 0], "TIMESTAMP": [6], "TIME": [0],
    "CHAR": [1], "VARCHAR": [1], "BINARY": [1], "VARBINARY": [1],
}  # fmt: skip
# Types whose values in ORC files depend on their writer, or are padded.
_UNCLEAR_IN_ORC = re.compile(r"CHAR\b|TIME\b|TIMESTAMP\b.* LOCAL ")
_MOST_DIGITS = 6


def table_columns(fields: Sequence[Field], refuse: Refuse) -> pa.Schema:
    """Return the columns of a table.

    Args:
        fields: Fields of its schema.
        refuse: Function that returns the error for a feature.

    Raises:
        FormatError: If a column has a type that is not read.
    """
    for field in fields:
        for text in _texts(field["type"]):
            digits = re.match(r"TIMESTAMP\((\d+)", text)
            if text.startswith("VARIANT"):
                raise refuse(f"a column of type VARIANT ({field['name']!r})")
            if digits and int(digits[1]) > _MOST_DIGITS:
                raise refuse(f"timestamps finer than microseconds ({field['name']!r} is {text})")
    try:
        return paimon_schema(fields)
    except (ValueError, TypeError, KeyError) as error:
        raise refuse(f"a type that is not known ({error})") from None


def check_orc(fields: Sequence[Field], refuse: Refuse) -> None:
    """Check that ORC files have no column whose values would be read as others.

    Raises:
        FormatError: If they have one.
    """
    for field in fields:
        for text in _texts(field["type"]):
            if _UNCLEAR_IN_ORC.match(text):
                raise refuse(f"a column of type {text} in ORC files ({field['name']!r})")


class ColumnsOfFiles:
    """The columns of files that were written with some schema.

    Args:
        fields: Fields of the newest schema of the table.
        columns: Columns of the newest schema.
        there: Fields of the schema of the files.
        refuse: Function that returns the error for a feature.

    Attributes:
        stored: Columns of the table as the files name them.
        missing: Names of the columns of the table that the files lack. Columns of the files that
            happen to have such a name are others.

    Raises:
        FormatError: If a column changed in a way that is not read.
    """

    def __init__(
        self, fields: Sequence[Field], columns: pa.Schema, there: Sequence[Field], refuse: Refuse
    ) -> None:
        self._refuse = refuse
        known = {field["id"]: field for field in there}
        self.missing: list[str] = [field["name"] for field in fields if field["id"] not in known]
        self.stored: pa.Schema = pa.schema([
            column if field["id"] not in known else self._field(column, field, known[field["id"]])
            for field, column in zip(fields, columns, strict=True)
        ])  # fmt: skip

    def _field(self, column: pa.Field, now: Field, then: Field) -> pa.Field:
        kind = self._type(column.type, now["type"], then["type"], now["name"])
        return pa.field(then["name"], kind)

    def _type(self, kind: pa.DataType, now: Any, then: Any, name: str) -> pa.DataType:
        """Return a type of the table with the names that it has in the files."""
        texts = [one if isinstance(one, str) else str(one.get("type")) for one in (now, then)]
        nested = isinstance(now, Mapping) and isinstance(then, Mapping)
        if not nested or texts[0].split(" ")[0] != texts[1].split(" ")[0]:
            if not _widens(texts[1], texts[0]):
                raise self._refuse(f"a changed type ({name!r} was {texts[1]}, and is {texts[0]})")
            return kind
        if pa.types.is_struct(kind):
            return self._struct(kind, now["fields"], then["fields"], name)
        if pa.types.is_list(kind):
            return pa.list_(self._type(kind.value_type, now["element"], then["element"], name))
        parts = ("element",) if "element" in now else ("key", "value")
        key = self._type(kind.key_type, now[parts[0]], then[parts[0]], name)
        if len(parts) == 1:
            return pa.map_(key, kind.item_type)
        return pa.map_(key, self._type(kind.item_type, now["value"], then["value"], name))

    def _struct(
        self, kind: pa.StructType, now: Sequence[Field], then: Sequence[Field], name: str
    ) -> pa.StructType:
        known = {field["id"]: field for field in then}
        names = {field["name"] for field in then}
        found = []
        for at, field in enumerate(now):
            one = known.get(field["id"])
            if one is None and field["name"] in names:
                what = f"{name}.{field['name']}"
                raise self._refuse(f"a field of a struct with the name of an older one ({what!r})")
            inner = kind.field(at)
            found.append(inner if one is None else self._field(inner, field, one))
        return pa.struct(found)


def ids_in(field: Field) -> list[Any]:
    """Return the ids of a field, and of those in it, which other fields do not have.

    >>> ids_in({"id": 1, "name": "a", "type": {"type": "ARRAY", "element": "INT"}})
    [1]
    >>> struct = {"type": "ROW", "fields": [{"id": 3, "name": "c", "type": "INT"}]}
    >>> ids_in({"id": 2, "name": "b", "type": struct})
    [2, [3]]
    """
    return [field["id"], *_ids_in_type(field["type"])]


def _ids_in_type(kind: Any) -> list[Any]:
    if isinstance(kind, str):
        return []
    inner = [kind[name] for name in ("element", "key", "value") if name in kind]
    found = [one for each in inner for one in _ids_in_type(each)]
    return [*found, *(ids_in(field) for field in kind.get("fields") or ())]


def _texts(kind: Any) -> list[str]:
    """Return the texts of a type, and of those in it."""
    if isinstance(kind, str):
        return [kind]
    inner = [kind[name] for name in ("element", "key", "value") if name in kind]
    inner += [field["type"] for field in kind.get("fields") or ()]
    return [str(kind.get("type")), *(text for one in inner for text in _texts(one))]


def _widens(then: str, now: str) -> bool:
    """Return whether each value of a type is the same value of another.

    >>> _widens("INT NOT NULL", "BIGINT"), _widens("BIGINT", "INT"), _widens("INT", "STRING")
    (True, False, False)
    >>> _widens("VARCHAR(5)", "STRING"), _widens("TIMESTAMP(6)", "TIMESTAMP(3)")
    (True, False)
    """
    parts = [_TYPE.fullmatch(text) for text in (then, now)]
    if None in parts:
        return False
    (old, few, zone), (new, many, other_zone) = (_parts(part) for part in parts if part)
    if zone != other_zone:
        return False
    for order in (_INTEGERS, _FLOATS, ["CHAR", "VARCHAR"], ["BINARY", "VARBINARY"]):
        if old in order and new in order:
            return order.index(old) <= order.index(new) and few <= many
    # A decimal with other fractions is rounded.
    return old == new and few[:1] <= many[:1] and few[1:] == many[1:]


def _parts(found: re.Match[str]) -> tuple[str, list[int], str]:
    name = found["name"]
    numbers = found["numbers"]
    given = _DEFAULTS.get(name, []) if numbers is None else [int(one) for one in numbers.split(",")]
    if name == "DECIMAL" and len(given) == 1:
        given = [*given, 0]
    zone = found["zone"].strip()
    return _SAME.get(name, name), given, "" if zone == "WITHOUT TIME ZONE" else zone
