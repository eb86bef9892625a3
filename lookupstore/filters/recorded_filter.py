"""Write filters as JSON, and read them again."""

from __future__ import annotations

import json
from typing import Any

from lookupstore.filters.filter import Filter


def recorded_filter(where: Filter | None) -> str | None:
    """Return a filter as JSON. None: all rows count.

    Raises:
        TypeError: If the filter is, or contains, an object that JSON lacks.

    >>> recorded_filter(("n", "in", ["a", 1]))
    '{"tuple": ["n", "in", ["a", 1]]}'
    """
    return None if where is None else json.dumps(_told(where))


def filter_of(recorded: str | None) -> Filter | None:
    """Return a filter that `recorded_filter` recorded.

    >>> filter_of('{"tuple": ["n", "in", ["a", 1]]}')
    ('n', 'in', ['a', 1])
    """
    return None if recorded is None else _heard(json.loads(recorded))


def _told(part: Any) -> Any:
    if part is None or isinstance(part, (str, int, float)):
        return part
    if isinstance(part, tuple):
        return {"tuple": [_told(one) for one in part]}
    if isinstance(part, list):
        return [_told(one) for one in part]
    raise TypeError(f"where contains {type(part).__qualname__}")


def _heard(part: Any) -> Any:
    if isinstance(part, dict):
        return tuple(_heard(one) for one in part["tuple"])
    return [_heard(one) for one in part] if isinstance(part, list) else part
