"""Instants of a Hudi table, their files, and the contents of these files.

`timeline` reads and writes the files of instants. `instant_times` reads and writes their times, and
`given_times` those that callers give. `names` checks the names in them: file groups, partitions,
base files. `commit` is the metadata of commits, as JSON and as Avro; `plans` contains those of
cleans, rollbacks and other actions, and `records` reads and writes the fields of both. `avro_file`
reads and writes files of one record with a schema that `file_schema` has checked; `resolution`
converts the record to one of Hudi's schemas. `work_files` are the additional files of an instant in
progress. `archive` is the protocol of archives, which contain instants that left the timeline, and
`lsm_timeline` that of tables since version 8; that of version 6 is a log file, in the wing `log`.
"""

from lookupstore.hudi.timeline.cleans import cleaned_files
from lookupstore.hudi.timeline.commit import WriteStat
from lookupstore.hudi.timeline.given_times import When, given_time
from lookupstore.hudi.timeline.records import from_record, to_record
from lookupstore.hudi.timeline.work_files import staging_folder

__all__ = [
    "When",
    "WriteStat",
    "cleaned_files",
    "from_record",
    "given_time",
    "staging_folder",
    "to_record",
]
