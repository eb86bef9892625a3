"""Records of the `files` partition: partitions of a table, and their files.

Several records of a key are merged: a file that a later record adds or deletes is added or deleted.

Source: HoodieMetadataPayload of Apache Hudi (createPartitionListRecord, combineFileSystemMetadata).
"""

from __future__ import annotations

import functools
import importlib.resources
import io
import json
from collections.abc import Mapping
from typing import Any, NamedTuple

import fastavro

from lookupstore.errors import CorruptionError, FormatError
from lookupstore.hudi.log.hfile import HFile, hfile_bytes
from lookupstore.hudi.meta_columns import META_COLUMNS
from lookupstore.hudi.options import avro_json
from lookupstore.hudi.timeline.avro_file import record_decoder
from lookupstore.hudi.timeline.names import check_partition

_RECORD, _READ_AS = "HoodieMetadataRecord", "HoodieMetadataFiles"
_ALL = "__all_partitions__"
_PARTITIONS, _FILES = 1, 2
# Key of the table's own folder.
_ROOT = "."
_UNUSED = (
    *META_COLUMNS,
    "BloomFilterMetadata",
    "ColumnStatsMetadata",
    "recordIndexMetadata",
    "SecondaryIndexMetadata",
)


class FileInfo(NamedTuple):
    """The record of a file, or of a partition, which has no size.

    Attributes:
        bytes: Size of the file in bytes.
        is_deleted: Whether the file was deleted.
    """

    bytes: int
    is_deleted: bool


class Listing:
    """The partitions of a table, and their files, merged from records.

    Attributes:
        partitions: Paths of the partitions in the list of partitions.
        files: Sizes of files in bytes, by the path of the partition and the name of the file.
    """

    def __init__(self) -> None:
        self.partitions: set[str] = set()
        self.files: dict[str, dict[str, int]] = {}

    def add(self, file: HFile, schema: bytes, path: str, at_schema: int) -> None:
        """Apply the records of a base file or of a log block.

        Args:
            file: HFile with the records, which are later than all records before.
            schema: Schema by which the records were written, as JSON.
            path: Path of the file, for errors.
            at_schema: Offset of the schema in the file.

        Raises:
            CorruptionError: If a record is damaged.
        """
        read = record_decoder(schema, path, at_schema, _READ_AS, _RECORD)
        for entry in file.entries:
            record = read(entry.value, entry.at)
            try:
                key = entry.key.decode()
            except UnicodeDecodeError as error:
                raise CorruptionError(path, entry.at, "a key in UTF-8", error) from error
            wanted = _PARTITIONS if key == _ALL else _FILES
            if record["type"] != wanted:
                raise CorruptionError(path, entry.at, f"type {wanted} of {key!r}", record["type"])
            infos = record["filesystemMetadata"] or {}
            if key == _ALL:
                self._add_partitions(infos, path, entry.at)
            else:
                self._add_files(_partition(key, path), infos, path, entry.at)

    def _add_partitions(
        self, infos: Mapping[str, Mapping[str, object]], path: str, at: int
    ) -> None:
        for name, info in infos.items():
            partition = _partition(name, path)
            if info["isDeleted"]:
                self.partitions.discard(partition)
            else:
                self.partitions.add(partition)

    def _add_files(
        self, partition: str, infos: Mapping[str, Mapping[str, int]], path: str, at: int
    ) -> None:
        files = self.files.setdefault(partition, {})
        for name, info in infos.items():
            if not name or "/" in name:
                raise CorruptionError(path, at, "the name of a file", repr(name))
            if info["isDeleted"]:
                files.pop(name, None)
            elif info["size"] < 0:
                raise CorruptionError(path, at, f"the size of {name}", info["size"])
            else:
                files[name] = max(info["size"], files.get(name, 0))


def _partition(key: str, path: str) -> str:
    if key == _ROOT:
        return ""
    check_partition(key, path)
    return key


def schema_bytes() -> bytes:
    """Return the schema of the records, as JSON."""
    return _schema()[0]


def table_schema() -> str:
    """Return the schema without the meta columns, as in commits of the metadata table."""
    schema = json.loads(schema_bytes())
    schema["fields"] = [one for one in schema["fields"] if one["name"] not in META_COLUMNS]
    return avro_json(schema)


def changes_bytes(changes: Mapping[str, Mapping[str, FileInfo]], millis: int) -> bytes:
    """Return an HFile with the changes of an instant.

    Args:
        changes: Changed files, by the path of the partition and the name of the file.
        millis: Time of the write, in milliseconds since 1970.

    Raises:
        FormatError: If a partition has the name of the list of all partitions.
    """
    keys = {partition or _ROOT: infos for partition, infos in changes.items()}
    if _ALL in keys:
        raise FormatError(f"a metadata table cannot list the files of a partition called {_ALL!r}")
    records = {_ALL: _record(_PARTITIONS, {key: FileInfo(0, False) for key in keys})}
    records |= {key: _record(_FILES, infos) for key, infos in keys.items()}
    entries = sorted((key.encode(), value) for key, value in records.items())
    return hfile_bytes(entries, schema_bytes(), millis)


def _record(kind: int, infos: Mapping[str, FileInfo]) -> bytes:
    stored = {
        name: {"size": info.bytes, "isDeleted": info.is_deleted} for name, info in infos.items()
    }
    # The key is stored in the HFile.
    record = {**dict.fromkeys(_UNUSED), "key": "", "type": kind, "filesystemMetadata": stored}
    body = io.BytesIO()
    fastavro.schemaless_writer(body, _schema()[1], record)
    return body.getvalue()


@functools.cache
def _schema() -> tuple[bytes, Any]:
    file = importlib.resources.files("lookupstore.hudi.metadata") / "avro" / f"{_RECORD}.avsc"
    text = file.read_text(encoding="utf-8").rstrip("\n")
    return text.encode(), fastavro.parse_schema(json.loads(text))
