"""Conversion of a record of a file to one of Hudi's records: the schema resolution of Avro.

Values are read with the schema of their file, and then converted to Hudi's schema: fields that only
the file has are dropped, fields that it lacks get their defaults, numbers are widened.

fastavro could do both at once, but does not check skipped bytes: a text beyond the end of a file is
not an error, and skipping an array with a wrong, large number of items takes hours.

Source: Avro 1.11, Schema Resolution. As in Avro's Java library, names of records in a record are
not compared.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from typing import Any

from fastavro.schema import expand_schema

#: Function that converts a value of a file to one of Hudi.
Change = Callable[[Any], Any]

# Promotions to the types of Hudi's records. Python has one type of integers, and one of floats.
_PROMOTIONS: Mapping[tuple[str, str], Change | None] = {
    ("null", "null"): None,
    ("boolean", "boolean"): None,
    ("int", "int"): None,
    ("int", "long"): None,
    ("int", "double"): float,
    ("long", "long"): None,
    ("long", "double"): float,
    ("float", "double"): None,
    ("double", "double"): None,
    ("string", "string"): None,
}
# Python types of values of each Avro type after reading.
_READ_AS: Mapping[str, type] = {
    "null": type(None), "boolean": bool, "int": int, "long": int, "float": float, "double": float,
    "bytes": bytes, "fixed": bytes, "string": str, "enum": str, "array": list, "map": dict,
    "record": dict,
}  # fmt: skip


def resolution(stored: Any, wanted: Any) -> Change | None:
    """Return a function that makes a file's records Hudi's; None: they need no change.

    Args:
        stored: Checked schema of the file.
        wanted: Schema of Hudi, whose unions are of null and one type.

    Raises:
        ValueError: If there is a field whose values cannot be those of Hudi's; the error names it.

    >>> version = {"name": "version", "type": ["int", "null"], "default": 1}
    >>> ours = {"type": "record", "name": "Plan", "fields": [version]}
    >>> later = {"type": "record", "name": "Plan", "fields": [{"name": "new", "type": "long"}]}
    >>> resolution(later, ours)({"new": 7})
    {'version': 1}
    """
    stored, wanted = expand_schema(stored), expand_schema(wanted)
    return _resolve(stored, wanted, wanted["name"].rpartition(".")[2])


def _resolve(stored: Any, wanted: Any, where: str) -> Change | None:
    """Return the function that converts values of one type to another; `where` is for errors."""
    if isinstance(stored, list):
        return _from_union(stored, wanted, where)
    if isinstance(wanted, list):
        (other,) = (one for one in wanted if one != "null")
        wanted = "null" if _kind(stored) == "null" else other
    kind, wanted_kind = _kind(stored), _kind(wanted)
    if kind == wanted_kind == "record":
        return _record(stored, wanted, where)
    if kind == wanted_kind == "array":
        return _items(_resolve(stored["items"], wanted["items"], where))
    if kind == wanted_kind == "map":
        return _values(_resolve(stored["values"], wanted["values"], where))
    if (kind, wanted_kind) == ("bytes", "string"):
        return _text(where)
    if (kind, wanted_kind) not in _PROMOTIONS:
        raise ValueError(f"{where} is of the type {kind}, not {wanted_kind}")
    return _PROMOTIONS[kind, wanted_kind]


def _record(stored: Any, wanted: Any, where: str) -> Change | None:
    given = {field["name"]: field["type"] for field in stored["fields"]}
    changes: dict[str, Change | None] = {}
    absent: dict[str, Any] = {}
    for field in wanted["fields"]:
        name = field["name"]
        if name in given:
            changes[name] = _resolve(given[name], field["type"], f"{where}.{name}")
        elif "default" in field:
            absent[name] = field["default"]
        else:
            raise ValueError(f"{where} has no field {name}")
    if given.keys() == changes.keys() and not absent and not any(changes.values()):
        return None

    def change(record: Any) -> Any:
        made = copy.deepcopy(absent)
        for name, make in changes.items():
            made[name] = record[name] if make is None else make(record[name])
        return made

    return change


def _items(change: Change | None) -> Change | None:
    return None if change is None else lambda items: [change(item) for item in items]


def _values(change: Change | None) -> Change | None:
    if change is None:
        return None
    return lambda pairs: {key: change(value) for key, value in pairs.items()}


def _from_union(stored: list[Any], wanted: Any, where: str) -> Change | None:
    """Return the function that converts values of any of some types to one type.

    A value that has been read does not say which of the types it was of, so those that are read
    as the same in Python must all be changed alike.
    """
    changes: dict[type, Change | None] = {}
    refused = []
    for one in stored:
        try:
            change = _resolve(one, wanted, where)
        except ValueError as error:
            refused.append(error)
            change = _refusal(error)
        if changes.setdefault(_READ_AS[_kind(one)], change) is not change:
            raise ValueError(f"{where} has types that cannot be told apart")
    if len(refused) == len(stored):
        raise refused[-1]
    if not any(changes.values()):
        return None

    def changed(value: Any) -> Any:
        change = changes[type(value)]
        return value if change is None else change(value)

    return changed


def _refusal(error: ValueError) -> Change:
    """Return a function for values of a type that Hudi lacks; other types may match."""

    def change(_: Any) -> Any:
        raise ValueError(str(error))

    return change


def _text(where: str) -> Change:
    def change(content: Any) -> Any:
        try:
            return content.decode()
        except UnicodeDecodeError as error:
            raise ValueError(f"{where} is no text in UTF-8: {error.reason}") from None

    return change


def _kind(given: Any) -> str:
    kind: str = given["type"] if isinstance(given, dict) else given
    return kind
