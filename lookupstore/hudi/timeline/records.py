"""Dataclasses <-> the records of Hudi's Avro and JSON files.

A field `file_size_in_bytes` is stored as `fileSizeInBytes`, unless its `stored` names another
field. Values are checked against the annotations, so that a damaged file raises an error here.
"""

from __future__ import annotations

import dataclasses
import types
import typing
from collections.abc import Mapping
from typing import Any, NamedTuple, TypeVar

T = TypeVar("T")


class _Field(NamedTuple):
    """A field of a dataclass: its name, its annotation, and types of values that need no check."""

    attribute: str
    annotation: Any
    plain: frozenset[type]


# Cache of fields by class, because reading annotations takes longer than reading a record.
_KNOWN: dict[Any, Mapping[str, _Field]] = {}
_PLAIN = (str, int, float, bool, type(None))


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
        fields = _stored_fields(type(value))
        return {name: to_record(getattr(value, one.attribute)) for name, one in fields.items()}
    if isinstance(value, Mapping):
        return {key: to_record(item) for key, item in value.items()}
    if isinstance(value, tuple):
        return [to_record(item) for item in value]
    return value


def from_record(kind: type[T], record: Any) -> T:
    """Return the dataclass of a record.

    Names that the dataclass does not have are those of other versions, and are ignored.

    Raises:
        ValueError: If a value is of another type, or is missing and has no default.

    >>> @dataclasses.dataclass
    ... class File:
    ...     file_id: str
    >>> from_record(File, {"fileId": "a-0", "since1.1": None})
    File(file_id='a-0')
    """
    if not isinstance(record, Mapping):
        raise ValueError(f"{kind.__name__} is {_shown(record)}, not a record")
    fields = _stored_fields(kind)
    values = {}
    for name, value in record.items():
        field = fields.get(name)
        if field is None:
            continue
        if type(value) not in field.plain:
            value = _checked(field.annotation, value, f"{kind.__name__}.{name}")
        values[field.attribute] = value
    try:
        return kind(**values)
    except TypeError as error:
        raise ValueError(str(error)) from None


def _stored_fields(kind: Any) -> Mapping[str, _Field]:
    """Return the fields of a dataclass by their stored names."""
    if kind not in _KNOWN:
        _KNOWN[kind] = _read_fields(kind)
    return _KNOWN[kind]


def _read_fields(kind: Any) -> Mapping[str, _Field]:
    hints = typing.get_type_hints(kind)
    fields = {}
    for one in dataclasses.fields(kind):
        first, *others = one.name.split("_")
        camel = first + "".join(part.capitalize() for part in others)
        annotation = hints[one.name]
        is_union = typing.get_origin(annotation) in (types.UnionType, typing.Union)
        kinds = frozenset(typing.get_args(annotation) if is_union else [annotation])
        plain = kinds if kinds <= set(_PLAIN) else frozenset[type]()
        fields[one.metadata.get("stored", camel)] = _Field(one.name, annotation, plain)
    return fields


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
    if type(value) is not annotation:  # a bool does not count as an int
        raise ValueError(f"{where} is {_shown(value)}")
    return value


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
