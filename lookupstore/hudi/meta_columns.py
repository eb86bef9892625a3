"""The meta columns of a base file, which precede its data columns."""

from __future__ import annotations

import pyarrow as pa

COMMIT_TIME = "_hoodie_commit_time"
RECORD_KEY = "_hoodie_record_key"
PARTITION_PATH = "_hoodie_partition_path"
META_FIELDS: tuple[pa.Field, ...] = tuple(
    pa.field(name, pa.string())
    for name in (
        COMMIT_TIME,
        "_hoodie_commit_seqno",
        RECORD_KEY,
        PARTITION_PATH,
        "_hoodie_file_name",
    )
)
META_COLUMNS = tuple(field.name for field in META_FIELDS)
