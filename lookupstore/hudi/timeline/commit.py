"""The metadata of a commit: the files that it wrote, the file groups that it replaced.

Tables of version 6 store it as JSON, later ones as Avro; the meaning is the same.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from lookupstore.errors import CorruptionError
from lookupstore.hudi.timeline.avro_file import MAGIC, avro_bytes, read_record
from lookupstore.hudi.timeline.names import check_file_id, check_partition
from lookupstore.hudi.timeline.records import from_record, stored, to_record
from lookupstore.storage.json_text import parse_json

#: Key in `extra_metadata` for the Avro schema of the data columns, on every commit of Hudi.
SCHEMA = "schema"
#: Key in `extra_metadata` of commits of lookupstore for the name of the writer.
WRITER = "lookupstore.writer"
#: Value of `prev_commit` for a file that does not replace another one.
NO_COMMIT = "null"

# Names of Avro records; the first has the fields of the second, and one more.
_REPLACE = "HoodieReplaceCommitMetadata"
_COMMIT = "HoodieCommitMetadata"

# Maximum size of the JSON, which suffices for some hundred thousand files.
_MOST_BYTES = 256 << 20

# Names of the fields in version 6, in its order.
_JSON_STAT = (
    "fileId", "path", "cdcStats", "prevCommit", "numWrites", "numDeletes", "numUpdateWrites",
    "numInserts", "totalWriteBytes", "totalWriteErrors", "tempPath", "partitionPath",
    "totalLogRecords", "totalLogFilesCompacted", "totalLogSizeCompacted",
    "totalUpdatedRecordsCompacted", "totalLogBlocks", "totalCorruptLogBlock",
    "totalRollbackBlocks", "fileSizeInBytes", "minEventTime", "maxEventTime", "runtimeStats",
)  # fmt: skip
_JSON_TIMES = ("totalScanTime", "totalUpsertTime", "totalCreateTime")
_JSON_COMMIT = ("partitionToWriteStats", "compacted", "extraMetadata", "operationType")


@dataclass(frozen=True)
class RuntimeStats:
    """The milliseconds that a file took."""

    total_scan_time: int | None = 0
    total_create_time: int | None = 0
    total_upsert_time: int | None = 0


# The class has slots: a dictionary with as many names takes five times the memory.
@dataclass(frozen=True, slots=True)
class WriteStat:
    """A file that a commit wrote or, in an inflight file, is going to write.

    Fields without a description are those of tables with log files.

    Attributes:
        file_id: Id of the file group; empty in an inflight file if the group is a new one.
        path: Path of the file, relative to the table.
        prev_commit: Request time of the instant that wrote the replaced slice, or `NO_COMMIT`.
        num_writes: Number of rows in the file.
        num_deletes: Number of rows of the replaced slice that are not in this one.
        num_update_writes: Number of rows that changed.
        num_inserts: Number of rows that are new.
        total_write_bytes: Size of the file, in bytes.
        file_size_in_bytes: Size of the file, in bytes.
        partition_path: Folder of the file, relative to the table; empty for that of the table.
        prev_base_file: Name of the file that it replaces; since version 8.
    """

    file_id: str | None = ""
    path: str | None = None
    prev_commit: str | None = NO_COMMIT
    num_writes: int | None = 0
    num_deletes: int | None = 0
    num_update_writes: int | None = 0
    total_write_bytes: int | None = 0
    total_write_errors: int | None = 0
    partition_path: str | None = None
    total_log_records: int | None = 0
    total_log_files: int | None = None
    total_updated_records_compacted: int | None = 0
    num_inserts: int | None = 0
    total_log_blocks: int | None = 0
    total_corrupt_log_block: int | None = 0
    total_rollback_blocks: int | None = 0
    file_size_in_bytes: int | None = 0
    log_version: int | None = None
    log_offset: int | None = None
    base_file: str | None = None
    log_files: tuple[str, ...] | None = None
    cdc_stats: Mapping[str, int] | None = None
    prev_base_file: str | None = None
    min_event_time: int | None = None
    max_event_time: int | None = None
    runtime_stats: RuntimeStats | None = None
    total_log_files_compacted: int | None = 0
    total_log_read_time_ms: int | None = 0
    total_log_size_compacted: int | None = 0
    temp_path: str | None = None
    num_updates: int | None = 0

    @property
    def replaces(self) -> bool:
        """Return whether the file replaces another slice of its group."""
        return self.prev_commit not in (None, NO_COMMIT)


@dataclass(frozen=True)
class CommitMetadata:
    """The metadata of a commit: its actions or, in an inflight file, its planned actions.

    Attributes:
        stats: Descriptions of the files, by partition path.
        operation: Operation: `UPSERT`, `INSERT_OVERWRITE`, `CLUSTER` and so on.
        extra_metadata: Texts by name, including that of `SCHEMA`.
        replaced: Ids of the file groups that the commit replaced, by partition path. None: it is
            not a replacecommit.
        compacted: False in tables without log files.
        version: Version of the metadata, which Hudi leaves empty.
    """

    stats: Mapping[str, tuple[WriteStat, ...]] | None = stored(
        "partitionToWriteStats", default_factory=dict
    )
    compacted: bool | None = False
    extra_metadata: Mapping[str, str] | None = field(default_factory=dict)
    version: int | None = None
    operation: str | None = stored("operationType", default=None)
    replaced: Mapping[str, tuple[str, ...]] | None = stored(
        "partitionToReplaceFileIds", default=None
    )

    @property
    def schema(self) -> str | None:
        """Return the Avro schema of the data columns, as JSON."""
        return (self.extra_metadata or {}).get(SCHEMA) or None


def parse_commit(content: bytes, path: str) -> CommitMetadata:
    """Return the metadata in a commit's file, whether it is JSON or Avro.

    Args:
        content: Content of a completed file, or of an inflight file that is not empty.
        path: Path of the file, for errors.

    Raises:
        CorruptionError: If the content is damaged, or names a partition or file group that no table
            can have.

    >>> parse_commit(b'{"operationType": "UPSERT"}', "20240418173550988.commit").operation
    'UPSERT'
    """
    if content.startswith(MAGIC):
        record: Any = read_record(content, path, _REPLACE, _COMMIT)
    else:
        record = parse_json(content, path, "metadata of a commit", most_bytes=_MOST_BYTES)
    try:
        metadata = from_record(CommitMetadata, record)
    except ValueError as error:
        raise CorruptionError(path, 0, "metadata of a commit", error) from error
    _check_names(metadata, path)
    return metadata


def commit_bytes(metadata: CommitMetadata, version: int) -> bytes:
    """Return the content of a commit's file.

    Args:
        metadata: Metadata of the commit.
        version: Version of the table.

    >>> commit_bytes(CommitMetadata(operation="DELETE"), version=6).decode().splitlines()[-1]
    '}'
    """
    record = to_record(metadata)
    if version == 6:
        return _json(_json_record(record)).encode()
    if metadata.replaced is not None:
        return avro_bytes(_REPLACE, record)
    del record["partitionToReplaceFileIds"]
    return avro_bytes(_COMMIT, record)


def _check_names(metadata: CommitMetadata, path: str) -> None:
    """Check the paths of files in the metadata; a file itself is checked when it is read."""
    for partition, stats in (metadata.stats or {}).items():
        check_partition(partition, path)
        for stat in stats:
            if stat.partition_path != partition:
                check_partition(stat.partition_path or "", path)
    for partition, file_ids in (metadata.replaced or {}).items():
        check_partition(partition, path)
        for file_id in file_ids:
            check_file_id(file_id, path)


def _json_record(record: dict[str, Any]) -> dict[str, Any]:
    """Return a commit with the fields that version 6 has, in its order."""
    commit = {name: record[name] for name in _JSON_COMMIT}
    stats = {}
    for partition, given in (record["partitionToWriteStats"] or {}).items():
        stats[partition] = [{name: stat[name] for name in _JSON_STAT} for stat in given]
        for stat in stats[partition]:
            if stat["runtimeStats"] is not None:
                stat["runtimeStats"] = {name: stat["runtimeStats"][name] for name in _JSON_TIMES}
    commit["partitionToWriteStats"] = stats
    if record["partitionToReplaceFileIds"] is not None:
        commit["partitionToReplaceFileIds"] = record["partitionToReplaceFileIds"]
    return commit


def _json(value: Any, indent: str = "") -> str:
    """Return JSON as Jackson's pretty printer lays it out, which Hudi writes."""
    inner = f"{indent}  "
    if isinstance(value, dict):
        if not value:
            return "{ }"
        lines = [
            f"{inner}{json.dumps(name, ensure_ascii=False)} : {_json(item, inner)}"
            for name, item in value.items()
        ]
        return "{\n" + ",\n".join(lines) + f"\n{indent}}}"
    if isinstance(value, list):
        return f"[ {', '.join(_json(item, indent) for item in value)} ]" if value else "[ ]"
    return json.dumps(value, ensure_ascii=False)
