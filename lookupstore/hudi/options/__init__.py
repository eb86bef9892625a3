"""The options of a table, which `hoodie.properties` stores.

Only this package contains names of Hudi's properties. Names of options for Hudi's Java writers are
in `write.hoodie`.

`names` has the names and the possible values, `table_options` their meaning, and `new_table` the
options of a new table. `file` reads and writes the properties file. `rules` checks whether a table
can be read and written, and `other_locks` whether it names a lock that lookupstore does not take.
`metadata_table` changes the partitions of the metadata table that readers use, and `refused` makes
errors about values that are not supported.
"""

from lookupstore.hudi.options.file import (
    parse_options,
    read_options,
    write_options,
)
from lookupstore.hudi.options.metadata_table import (
    check_choice,
    check_metadata_table,
    drop_metadata_table,
    reduce_metadata_table,
)
from lookupstore.hudi.options.names import (
    AUXILIARY,
    BUCKETS,
    COLUMN_IDS,
    COLUMN_STATS,
    COPY_ON_WRITE,
    CREATE_SCHEMA,
    DATA_SKIPPING,
    DROP,
    EVENT_TIME,
    FILES,
    HISTORY,
    LOCK_PROVIDER,
    MAINTAIN,
    META_FOLDER,
    METADATA,
    METADATA_CHOICES,
    METADATA_FOLDER,
    PARTITION,
    PROPERTIES,
    READ_OPTIMIZED,
    REDUCE,
    REFUSE,
    SNAPSHOT,
    SORT_COLUMNS,
    TABLE_LOCK,
    TIMELINE,
    TIMES,
    TIMEZONE,
    TYPE,
    VERSIONS,
)
from lookupstore.hudi.options.new_table import (
    new_options,
)
from lookupstore.hudi.options.other_locks import (
    check_lock,
    check_lock_choice,
)
from lookupstore.hudi.options.rules import (
    check_query,
    check_same_layout,
    check_writable,
    metadata_remedy,
)
from lookupstore.hudi.options.table_options import (
    TableOptions,
    avro_json,
    checksum,
)

__all__ = [
    "AUXILIARY",
    "BUCKETS",
    "COLUMN_IDS",
    "COLUMN_STATS",
    "COPY_ON_WRITE",
    "CREATE_SCHEMA",
    "DATA_SKIPPING",
    "DROP",
    "EVENT_TIME",
    "FILES",
    "HISTORY",
    "LOCK_PROVIDER",
    "MAINTAIN",
    "METADATA",
    "METADATA_CHOICES",
    "METADATA_FOLDER",
    "META_FOLDER",
    "PARTITION",
    "PROPERTIES",
    "READ_OPTIMIZED",
    "REDUCE",
    "REFUSE",
    "SNAPSHOT",
    "SORT_COLUMNS",
    "TABLE_LOCK",
    "TIMELINE",
    "TIMES",
    "TIMEZONE",
    "TYPE",
    "VERSIONS",
    "TableOptions",
    "avro_json",
    "check_choice",
    "check_lock",
    "check_lock_choice",
    "check_metadata_table",
    "check_query",
    "check_same_layout",
    "check_writable",
    "checksum",
    "drop_metadata_table",
    "metadata_remedy",
    "new_options",
    "parse_options",
    "read_options",
    "reduce_metadata_table",
    "write_options",
]
