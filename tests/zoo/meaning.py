"""What fields of CSV and values of JSON mean in a type that was chosen for their column."""

from __future__ import annotations

import re
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
from zoo.values import family, float_value, is_list, plain_type

INTEGER = re.compile(r"-?(0|[1-9][0-9]*)")
TIME = re.compile(
    r"(\d{4}-\d\d-\d\d)"
    r"(?:[T ](\d\d:\d\d(?::\d\d)?)(?:\.(\d{1,9}))?(Z|[+-]\d\d(?::?\d\d)?)?)?"
)


@dataclass(frozen=True)
class Unlike:
    """A value that its column's type cannot hold, equal to no value of that type."""

    value: Any


def meaning(value: Any, one: pa.DataType) -> Any:
    """Return a text or value of JSON as a value of a type; `Unlike` if it is none.

    >>> meaning("007", pa.int64()), meaning("7", pa.int64())
    (Unlike(value='007'), 7)
    """
    one = plain_type(one)
    kind, test = family(one), pa.types
    if value is None:
        return None
    if is_list(one):
        if not isinstance(value, list):
            return Unlike(str(value))
        return tuple(meaning(item, one.value_type) for item in value)
    if test.is_struct(one):
        known = {part.name for part in one}
        if not isinstance(value, dict) or not known.issuperset(value):
            return Unlike(str(value))
        return tuple((part.name, meaning(value.get(part.name), part.type)) for part in one)
    if isinstance(value, str):
        return _of_text(value, kind)
    return _of_json(value, kind)


def _of_json(value: Any, kind: str) -> Any:
    if kind == "bool" and isinstance(value, bool):
        return value
    if isinstance(value, bool):
        return Unlike(value)
    if kind == "int" and isinstance(value, int):
        return value
    if kind == "decimal" and isinstance(value, (int, Decimal)):
        return Decimal(value)
    if kind == "float" and isinstance(value, (int, Decimal, float)):
        there = float(value)
        if isinstance(value, int) and int(there) != value:
            return Unlike(value)
        return float_value(there)
    return Unlike(str(value))


def _of_text(text: str, kind: str) -> Any:
    if kind == "text":
        return text
    if kind == "int":
        return int(text) if INTEGER.fullmatch(text) else Unlike(text)
    if kind == "decimal" and INTEGER.fullmatch(text):
        return Decimal(text)
    if kind == "bool":
        return {"true": True, "false": False}.get(text.lower(), Unlike(text))
    if kind == "float":
        return _float(text)
    if kind in ("date", "local", "instant"):
        return _time(text, kind)
    return Unlike(text)


def _float(text: str) -> Any:
    try:
        value = float(text)
    except ValueError:
        return Unlike(text)
    if INTEGER.fullmatch(text) and int(value) != int(text):
        return Unlike(text)
    return float_value(value)


def _time(text: str, kind: str) -> Any:
    match = TIME.fullmatch(text)
    if match is None:
        return Unlike(text)
    day, clock, fraction, zone = match.groups()
    try:
        days = int(np.datetime64(day, "D").astype(int))  # of the year 0, too
    except ValueError:
        return Unlike(text)
    if kind == "date":
        return days if clock is None else Unlike(text)
    if (kind == "instant") != (zone is not None):
        return Unlike(text)
    hours, minutes, seconds = [int(part) for part in f"{clock or '00:00'}:00".split(":")[:3]]
    since = days * 86_400 + hours * 3600 + minutes * 60 + seconds
    if zone not in (None, "Z"):
        ahead = int(zone[1:3]) * 3600 + int(zone[3:].lstrip(":") or 0) * 60
        since -= -ahead if zone[0] == "-" else ahead
    return since * 1_000_000_000 + int((fraction or "0").ljust(9, "0"))
