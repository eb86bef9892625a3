"""Who has this key: the base files and rows of record keys.

`tagging` asks an index for the places of keys, `row_tags` of rows. `interface` is what an index is
(`KeyIndex`), `names` finds one by its name: one of ours, or a class of the caller.
`wanted_keys` and `key_check` compare keys with files, `funnel` counts what each step left over.
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
