"""What a store records of the table that it follows, by which an open store can be synced."""

from __future__ import annotations

import json
import os
from typing import Any

from lookupstore.filters import Filter
from lookupstore.source.search import path_of
from lookupstore.source.source import type_name
from lookupstore.storage.catalog_names import is_catalog_name
from lookupstore.storage.home import expanded
from lookupstore.storage.location import Location, as_location
from lookupstore.storage.secrets import HIDDEN


def recorded_place(table: Any) -> str | None:
    """Return the absolute path, the URI or the name in a catalog of a table, without options.

    None: The table is an object of a library, or in a file system that only this process has open.

    >>> recorded_place("s3://bucket/users?region=eu-west-1")
    's3://bucket/users'
    """
    if not isinstance(table, (str, os.PathLike, Location)):
        return None
    if is_catalog_name(table):
        return str(table).partition("?")[0]
    path = path_of(table)
    place = as_location(expanded(path) if isinstance(path, str) else path)
    if place.given[1] is not None:
        return None
    without_options = place.uri if place.in_place else place.uri.partition("?")[0]
    found = without_options.replace(f"{HIDDEN}@", "", 1)
    return None if HIDDEN in found else found


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
    raise TypeError(f"where contains {type_name(part)}")


def _heard(part: Any) -> Any:
    if isinstance(part, dict):
        return tuple(_heard(one) for one in part["tuple"])
    return [_heard(one) for one in part] if isinstance(part, list) else part
