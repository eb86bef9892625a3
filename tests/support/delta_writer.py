"""Delta tables whose log is written here, as the protocol has it.

deltalake writes no deletion vectors, and no tables with column mapping.

Source: the Delta protocol.
"""

from __future__ import annotations

import json
import struct
import uuid
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pyarrow as pa
import pyarrow.parquet as pq
from pyroaring import BitMap

from support.delta_tables import z85

#: Types of columns, by the names that the protocol gives them.
TYPES: dict[str, pa.DataType] = {
    "integer": pa.int32(), "long": pa.int64(), "string": pa.string(), "boolean": pa.bool_(),
    "float": pa.float32(), "double": pa.float64(), "date": pa.date32(), "binary": pa.binary(),
    "timestamp": pa.timestamp("us", "UTC"), "timestamp_ntz": pa.timestamp("us"),
    "decimal(9,2)": pa.decimal128(9, 2),
}  # fmt: skip


@dataclass(frozen=True)
class Column:
    """A column of a table.

    Attributes:
        name: Its name.
        stored: Its name in files.
        number: Its number in files.
        kind: Name of its type.
    """

    name: str
    stored: str
    number: int
    kind: str


@dataclass(frozen=True)
class File:
    """A data file.

    Attributes:
        path: Its path below the folder of the table.
        values: Its partition, as texts, by the names of stored columns.
        rows: Number of its rows.
        deleted: Deleted positions.
        vector: Its deletion vector, as the log has it.
        stats: Its statistics, as the log has them.
    """

    path: str
    values: Mapping[str, str | None]
    rows: int
    deleted: frozenset[int] = frozenset()
    vector: Mapping[str, Any] | None = None
    stats: str = ""


@dataclass
class DeltaLog:
    """A table in a folder, whose versions are written one by one.

    Attributes:
        folder: Folder of the table.
        columns: Its columns.
        by: Stored names of the columns by which it is partitioned.
        mapping: Mode of its column mapping: `none`, `name` or `id`.
        files: Files of the newest version.
        version: Number of the newest version.
    """

    folder: Path
    columns: list[Column]
    by: list[str]
    mapping: str
    files: list[File] = field(default_factory=list)
    version: int = -1
    _id: str = field(default_factory=lambda: str(uuid.uuid4()))

    def __post_init__(self) -> None:
        (self.folder / "_delta_log").mkdir(parents=True)
        features = ["deletionVectors", "timestampNtz"]
        features += ["columnMapping"] * (self.mapping != "none")
        self._protocol = {
            "minReaderVersion": 3, "minWriterVersion": 7,
            "readerFeatures": features, "writerFeatures": features,
        }  # fmt: skip
        self._log([{"protocol": self._protocol}, {"metaData": self._metadata()}])

    def _metadata(self) -> dict[str, Any]:
        most = max(column.number for column in self.columns)
        mapped = {"delta.columnMapping.mode": self.mapping,
                  "delta.columnMapping.maxColumnId": str(most)}  # fmt: skip
        return {
            "id": self._id,
            "format": {"provider": "parquet", "options": {}},
            "schemaString": json.dumps({"type": "struct", "fields": self._fields()}),
            "partitionColumns": [one.name for one in self.columns if one.stored in self.by],
            "configuration": {
                "delta.enableDeletionVectors": "true",
                **(mapped if self.mapping != "none" else {}),
            },
            "createdTime": 1_700_000_000_000,
        }

    def _fields(self) -> list[dict[str, Any]]:
        return [
            {
                "name": column.name, "type": column.kind, "nullable": True,
                "metadata": {} if self.mapping == "none" else {
                    "delta.columnMapping.id": column.number,
                    "delta.columnMapping.physicalName": column.stored,
                },
            }
            for column in self.columns
        ]  # fmt: skip

    def evolve(self, columns: Sequence[Column]) -> None:
        """Write a version with other columns."""
        self.columns = list(columns)
        self._log([{"metaData": self._metadata()}])

    def data_file(
        self, rows: Mapping[str, Sequence[Any]], values: Mapping[str, str | None], folder: str
    ) -> File:
        """Write a data file, which no version has yet.

        Args:
            rows: Values of the columns, by their stored names.
            values: Its partition, as texts.
            folder: Folder of the file below that of the table.
        """
        columns = [column for column in self.columns if column.stored not in self.by]
        schema = pa.schema([
            pa.field(
                one.stored, TYPES[one.kind], metadata={"PARQUET:field_id": str(one.number)}
            )
            for one in columns
        ])  # fmt: skip
        path = f"{folder}/part-{uuid.uuid4()}.parquet".lstrip("/")
        (self.folder / path).parent.mkdir(parents=True, exist_ok=True)
        table = pa.table([rows[name] for name in schema.names], schema=schema)
        pq.write_table(table, self.folder / path, row_group_size=8)
        ids = rows[self.columns[0].stored]
        first = self.columns[0].stored
        stats: dict[str, Any] = {"numRecords": len(ids)}
        if ids:
            stats |= {"minValues": {first: min(ids)}, "maxValues": {first: max(ids)}}
            stats["nullCount"] = {first: 0}
        return File(path, values, len(ids), stats=json.dumps(stats))

    def with_deleted(self, file: File, positions: Sequence[int], kind: str) -> File:
        """Return a file with more deleted positions.

        Args:
            file: The file.
            positions: Positions of the rows.
            kind: How its deletion vector is stored: `i`, `u` or `p`.
        """
        deleted = file.deleted | {*positions}
        vector = struct.pack("<iqI", 1681511377, 1, 0) + BitMap(deleted).serialize()
        said: dict[str, Any] = {
            "storageType": kind, "sizeInBytes": len(vector), "cardinality": len(deleted),
        }  # fmt: skip
        if kind == "i":
            said["pathOrInlineDv"] = z85(vector + bytes(-len(vector) % 4))
        else:
            name = uuid.uuid4()
            prefix = "ab" if deleted and min(deleted) % 2 else ""
            path = self.folder / prefix / f"deletion_vector_{name}.bin"
            path.parent.mkdir(exist_ok=True)
            checksum = struct.pack(">I", zlib.crc32(vector))
            path.write_bytes(b"\x01" + struct.pack(">I", len(vector)) + vector + checksum)
            said["offset"] = 1
            is_relative = kind == "u"
            said["pathOrInlineDv"] = (
                prefix + z85(name.bytes) if is_relative else f"file://{quote(str(path))}"
            )
        return replace(file, deleted=deleted, vector=said)

    def commit(self, added: Sequence[File], removed: Sequence[File] = ()) -> None:
        """Write a version that adds and removes files."""
        self.files = [one for one in self.files if one not in removed] + list(added)
        lines = [{"remove": self._removed(one)} for one in removed]
        self._log([*lines, *({"add": self._added(one)} for one in added)])

    def _added(self, file: File) -> dict[str, Any]:
        said = {
            "path": quote(file.path), "partitionValues": dict(file.values),
            "size": (self.folder / file.path).stat().st_size,
            "modificationTime": 1_700_000_000_000, "dataChange": True, "stats": file.stats,
        }  # fmt: skip
        return said if file.vector is None else said | {"deletionVector": dict(file.vector)}

    def _removed(self, file: File) -> dict[str, Any]:
        said = {"path": quote(file.path), "deletionTimestamp": 1_700_000_000_000,
                "dataChange": True}  # fmt: skip
        return said if file.vector is None else said | {"deletionVector": dict(file.vector)}

    def _log(self, actions: Sequence[Mapping[str, Any]]) -> None:
        self.version += 1
        text = "".join(json.dumps(one) + "\n" for one in actions)
        (self.folder / "_delta_log" / f"{self.version:020}.json").write_text(text)

    def checkpoint(self, *, forget: bool) -> None:
        """Write a checkpoint of the newest version.

        Args:
            forget: Whether to remove the versions before it from the log.
        """
        rows: list[dict[str, Any]] = [
            {"protocol": self._protocol},
            {"metaData": self._metadata() | {"configuration": [
                *self._metadata()["configuration"].items()
            ], "format": {"provider": "parquet", "options": []}}},
            *({"add": self._added(one) | {"partitionValues": [*one.values.items()]}}
              for one in self.files),
        ]  # fmt: skip
        log = self.folder / "_delta_log"
        table = pa.Table.from_pylist(rows, schema=_CHECKPOINT)
        pq.write_table(table, log / f"{self.version:020}.checkpoint.parquet")
        (log / "_last_checkpoint").write_text(
            json.dumps({"version": self.version, "size": len(rows)})
        )
        if forget:
            for version in range(self.version):
                (log / f"{version:020}.json").unlink(missing_ok=True)
                (log / f"{version:020}.checkpoint.parquet").unlink(missing_ok=True)


_TEXTS = pa.map_(pa.string(), pa.string())
_FEATURES = pa.list_(pa.string())
_CHECKPOINT = pa.schema({
    "protocol": pa.struct({
        "minReaderVersion": pa.int32(), "minWriterVersion": pa.int32(),
        "readerFeatures": _FEATURES, "writerFeatures": _FEATURES,
    }),
    "metaData": pa.struct({
        "id": pa.string(), "name": pa.string(), "description": pa.string(),
        "format": pa.struct({"provider": pa.string(), "options": _TEXTS}),
        "schemaString": pa.string(), "partitionColumns": pa.list_(pa.string()),
        "configuration": _TEXTS, "createdTime": pa.int64(),
    }),
    "add": pa.struct({
        "path": pa.string(), "partitionValues": _TEXTS, "size": pa.int64(),
        "modificationTime": pa.int64(), "dataChange": pa.bool_(), "stats": pa.string(),
        "tags": _TEXTS,
        "deletionVector": pa.struct({
            "storageType": pa.string(), "pathOrInlineDv": pa.string(), "offset": pa.int32(),
            "sizeInBytes": pa.int32(), "cardinality": pa.int64(),
        }),
    }),
    "remove": pa.struct({
        "path": pa.string(), "deletionTimestamp": pa.int64(), "dataChange": pa.bool_(),
    }),
    "txn": pa.struct({"appId": pa.string(), "version": pa.int64(), "lastUpdated": pa.int64()}),
})  # fmt: skip
