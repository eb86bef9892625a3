"""Instants of a Hudi table, their files, and what these say.

`timeline` reads and writes the files of instants. `names` checks names that they hold: file groups,
partitions, base files. `commit` is the metadata of commits, as JSON and as Avro; `plans` has those
of cleans, rollbacks and other actions, `records` the fields of both. `avro_file` reads and writes
files of one record, by a schema that `file_schema` has checked; what it reads becomes, by
`resolution`, a record of Hudi's. `work_files` are those that an instant has beside these while it
is under way. `archive` is where instants go that leave the timeline: `archived_log` in version 6,
`history` since then.
"""

from lookupstore.hudi.timeline.commit import WriteStat
from lookupstore.hudi.timeline.records import from_record, to_record
from lookupstore.hudi.timeline.timeline import When
from lookupstore.hudi.timeline.work_files import staging_folder

__all__ = [
    "When",
    "WriteStat",
    "from_record",
    "staging_folder",
    "to_record",
]
