"""From the rows of a caller to rows, keys and partitions of a table.

`incoming` makes rows of the table of what is given; `given_columns` says which columns the table
takes, and in which types, `column_names` which names. `key_generator` gives record keys and
partition paths, as the table's key generator does in Java, `time_paths` the texts of times in
these. `dedupe` decides which of two rows with one key stays, `ambiguous_keys` whether keys of one
text are one. `missing_columns` is what rows lack. `table_schema` and `avro_types` are the schema of
the table, in Avro and Arrow; `new_columns` says what it is of a new table.
"""

from lookupstore.hudi.keys.dedupe import rows_to_keep
from lookupstore.hudi.keys.given_columns import IS_DELETED
from lookupstore.hudi.keys.incoming import Incoming, IncomingRows, precombine_of, read_keys
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
    "paths_of",
    "precombine_of",
    "read_keys",
    "rows_to_keep",
]
