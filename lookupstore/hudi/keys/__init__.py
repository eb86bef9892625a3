"""Rows of a caller, as rows, keys and partitions of a table.

`incoming` makes rows of the table from given rows. `given_columns` checks their columns and types,
and `column_names` their names. `key_generator` makes record keys and partition paths like the
table's key generator in Java, and `time_paths` the texts of times in these. `dedupe` chooses the
row to keep if several have the same key, and `ambiguous_keys` finds different keys with the same
text. `missing_columns` holds the columns that rows lack. `table_schema` and `avro_types` convert
the schema of the table between Avro and Arrow, and `new_columns` checks the schema of a new table.
"""

from lookupstore.hudi.keys.dedupe import rows_to_keep
from lookupstore.hudi.keys.given_columns import IS_DELETED
from lookupstore.hudi.keys.incoming import (
    Incoming,
    IncomingRows,
    ordering_of,
    precombine_of,
    read_keys,
)
from lookupstore.hudi.keys.key_generator import paths_of
from lookupstore.hudi.keys.missing_columns import NOTHING_MISSING, MissingColumns
from lookupstore.hudi.keys.table_schema import TableSchema

__all__ = [
    "IS_DELETED",
    "NOTHING_MISSING",
    "Incoming",
    "IncomingRows",
    "MissingColumns",
    "TableSchema",
    "ordering_of",
    "paths_of",
    "precombine_of",
    "read_keys",
    "rows_to_keep",
]
