"""Dataclasses <-> the records of Hudi's Avro and JSON files.

A field `file_size_in_bytes` is stored as `fileSizeInBytes`, unless its `stored` says otherwise.
Values are checked against the annotations: what a damaged file holds becomes an error here, not a
surprise later.
"""

from __future__ import annotations

import dataclasses
import types
import typing
from collections.abc import Mapping
from typing import Any, TypeVar

T = TypeVar("T")

# Reading annotations takes longer than a record.
_KNOWN: dict[Any, Mapping[str, tuple[str, Any]]] = {}


def stored(name: str, **options: Any) -> Any:
    """Declare a field that is stored under another name than its own."""
    return dataclasses.field(metadata={"stored": name}, **options)


def to_record(value: Any) -> Any:
    """Return a dataclass as dicts, lists and plain values.

    >>> @dataclasses.dataclass
    ... class File:
    ...     file_id: str
    >>> to_record(File("a-0"))
    {'fileId': 'a-0'}
    """
    if dataclasses.is_dataclass(value):
        names = _stored_names(type(value))
        return {
            name: to_record(getattr(value, attribute)) for attribute, (name, _) in names.items()
        }
    if isinstance(value, Mapping):
        return {key: to_record(item) for key, item in value.items()}
    if isinstance(value, tuple):
        return [to_record(item) for item in value]
    return value


def from_record(kind: type[T], record: Any) -> T:
    """Return the dataclass of a record; names that it does not know are those of other versions.

    Raises:
        ValueError: a value is of another type, or is missing and has no default.

    >>> @dataclasses.dataclass
    ... class File:
    ...     file_id: str
    >>> from_record(File, {"fileId": "a-0", "since1.1": None})
    File(file_id='a-0')
    """
    if not isinstance(record, Mapping):
        raise ValueError(f"{kind.__name__} is {_shown(record)}, not a record")
    values = {}
    for attribute, (name, annotation) in _stored_names(kind).items():
        if name in record:
            values[attribute] = _checked(annotation, record[name], f"{kind.__name__}.{name}")
    try:
        return kind(**values)
    except TypeError as error:
        raise ValueError(str(error)) from None


def _stored_names(kind: Any) -> Mapping[str, tuple[str, Any]]:
    """Return the stored name and the annotation of each field of a dataclass."""
    if kind not in _KNOWN:
        _KNOWN[kind] = _read_names(kind)
    return _KNOWN[kind]


def _read_names(kind: Any) -> Mapping[str, tuple[str, Any]]:
    hints = typing.get_type_hints(kind)
    names = {}
    for one in dataclasses.fields(kind):
        first, *others = one.name.split("_")
        camel = first + "".join(part.capitalize() for part in others)
        names[one.name] = one.metadata.get("stored", camel), hints[one.name]
    return names


def _checked(annotation: Any, value: Any, where: str) -> Any:
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if origin in (types.UnionType, typing.Union):
        if value is None and type(None) in arguments:
            return None
        (annotation,) = (one for one in arguments if one is not type(None))
        return _checked(annotation, value, where)
    if origin is tuple and isinstance(value, list):
        return tuple(_checked(arguments[0], item, where) for item in value)
    if isinstance(origin, type) and issubclass(origin, Mapping) and isinstance(value, Mapping):
        return {
            _checked(str, key, where): _checked(arguments[1], item, where)
            for key, item in value.items()
        }
    if dataclasses.is_dataclass(annotation) and isinstance(annotation, type):
        return from_record(annotation, value)
    if annotation is float and type(value) is int:
        return float(value)
    if type(value) is not annotation:  # a bool is no int here
        raise ValueError(f"{where} is {_shown(value)}")
    return value


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
