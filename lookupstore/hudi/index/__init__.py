"""Indexes that find the base files and rows of record keys.

`tagging` finds the places of keys, and `row_tags` the places of rows. `interface` defines the
protocol of an index (`KeyIndex`). `names` finds an index by its name: a built-in one, or a class of
the caller. `wanted_keys` and `key_check` compare keys with files, and `funnel` counts what each
step looked at.
"""

from lookupstore.hudi.index.names import INDEXES, index_of
from lookupstore.hudi.index.row_tags import (
    PLACE_COLUMNS,
    check_known_partitions,
    check_place_columns,
    keys_of,
    named_key,
    partitions_of,
    with_places,
    written_name,
)
from lookupstore.hudi.index.tagging import Tagged, tag

__all__ = [
    "INDEXES",
    "PLACE_COLUMNS",
    "Tagged",
    "check_known_partitions",
    "check_place_columns",
    "index_of",
    "keys_of",
    "named_key",
    "partitions_of",
    "tag",
    "with_places",
    "written_name",
]
