"""What a commit says of itself: which files it wrote, which file groups it replaced.

Tables of version 6 hold it as JSON, later ones as Avro; the meaning is the same.
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

#: In `extra_metadata`: Avro schema of the data columns, on every commit that Hudi writes.
SCHEMA = "schema"
#: In `extra_metadata` of commits from here: who wrote it, for people.
WRITER = "lookupstore.writer"
#: What `prev_commit` says of a file that replaces none.
NO_COMMIT = "null"

# Records of Avro; the first has the fields of the second, and one more.
_REPLACE = "HoodieReplaceCommitMetadata"
_COMMIT = "HoodieCommitMetadata"

# Of JSON: that of some hundred thousand files.
_MOST_BYTES = 256 << 20

# The fields of version 6, in its order.
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
    """How many milliseconds a file took."""

    total_scan_time: int | None = 0
    total_create_time: int | None = 0
    total_upsert_time: int | None = 0


# Slots: a dictionary of as many names as these takes five times the memory.
@dataclass(frozen=True, slots=True)
class WriteStat:
    """A file that a commit wrote or, in an inflight file, is going to write.

    Fields without a description are those of tables with log files.

    Attributes:
        file_id: of the file group; empty in an inflight file if the group is a new one.
        path: of the file, relative to the table.
        prev_commit: instant of the slice that it replaces, or `NO_COMMIT`.
        num_writes: rows in the file.
        num_deletes: rows that were in the replaced slice and are not in this one.
        num_update_writes: rows that changed.
        num_inserts: rows that are new.
        total_write_bytes: size of the file.
        file_size_in_bytes: the same.
        partition_path: folder of the file, empty for that of the table.
        prev_base_file: name of the file that it replaces; since version 8.
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
        """Return whether the file takes the place of another slice of its group."""
        return self.prev_commit not in (None, NO_COMMIT)


@dataclass(frozen=True)
class CommitMetadata:
    """What a commit did or, in an inflight file, is going to do.

    Attributes:
        stats: a description of each file, by partition path.
        operation: what was asked for: `UPSERT`, `INSERT_OVERWRITE`, `CLUSTER` and so on.
        extra_metadata: texts by name, `SCHEMA` among them.
        replaced: ids of the file groups that are gone since, by partition path; None unless it is
            a replacecommit.
        compacted: false in tables without log files.
        version: of the metadata, which Hudi leaves empty.
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
    """Return what a commit's file says, whether it is JSON or Avro.

    Args:
        content: of a completed file, or of an inflight one, which may be empty.
        path: of the file, for errors.

    Raises:
        CorruptionError: it is damaged, or names what is not a partition or file group of a table.

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
    """Return what the file of a commit holds.

    Args:
        metadata: of the commit.
        version: of the table.

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
    """Check what says where files are; that of a file itself is looked at when it is read."""
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
