"""Record where the table is that a store follows, by which an open store can be synced."""

from __future__ import annotations

import os
from typing import Any

from lookupstore.source.search import path_of
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
