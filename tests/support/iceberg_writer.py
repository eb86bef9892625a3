"""Iceberg tables whose metadata is written here, as the specification has it.

pyiceberg writes no delete files, and no partitions by transforms without another package.

Source: "Table Metadata", "Snapshots", "Manifests" and "Delete Formats" of the specification.
"""

from __future__ import annotations

import datetime
import io
import json
import struct
import uuid
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
from pyroaring import BitMap

DATA, POSITIONS, KEYS = range(3)
#: Types of columns, by the names that the specification gives them.
TYPES: dict[str, pa.DataType] = {
    "int": pa.int32(), "long": pa.int64(), "string": pa.string(), "boolean": pa.bool_(),
    "float": pa.float32(), "double": pa.float64(), "date": pa.date32(), "binary": pa.binary(),
    "timestamp": pa.timestamp("us"), "timestamptz": pa.timestamp("us", "UTC"),
    "decimal(9, 2)": pa.decimal128(9, 2), "decimal(12, 2)": pa.decimal128(12, 2),
}  # fmt: skip
_AVRO: dict[str, Any] = {
    "int": "int", "long": "long", "string": "string", "boolean": "boolean", "float": "float",
    "double": "double", "date": {"type": "int", "logicalType": "date"}, "binary": "bytes",
    "timestamp": {"type": "long", "logicalType": "timestamp-micros", "adjust-to-utc": False},
    "timestamptz": {"type": "long", "logicalType": "timestamp-micros", "adjust-to-utc": True},
}  # fmt: skip
_EPOCH = datetime.date(1970, 1, 1)


@dataclass(frozen=True)
class Column:
    """A column of a table.

    Attributes:
        number: Its field id.
        name: Its name.
        kind: Name of its type.
        default: Value of rows of files that lack the column.
    """

    number: int
    name: str
    kind: str
    default: Any = None

    @property
    def arrow(self) -> pa.Field:
        return pa.field(
            self.name, TYPES[self.kind], metadata={"PARQUET:field_id": str(self.number)}
        )

    @property
    def said(self) -> dict[str, Any]:
        said = {"id": self.number, "name": self.name, "type": self.kind, "required": False}
        return said if self.default is None else said | {"initial-default": self.default}


@dataclass(frozen=True)
class Part:
    """A field of a partition spec.

    Attributes:
        number: Its field id.
        source: Field id of its column.
        name: Its name.
        transform: Its transform, as the specification names it.
        kind: Name of the type of its values.
    """

    number: int
    source: int
    name: str
    transform: str
    kind: str


@dataclass(frozen=True)
class File:
    """A data file or delete file.

    Attributes:
        path: Its path.
        content: `DATA`, `POSITIONS` or `KEYS`.
        count: Number of its rows.
        spec: Number of its partition spec.
        values: Its partition.
        said: Other fields of its entry.
    """

    path: Path
    content: int
    count: int
    spec: int
    values: tuple[Any, ...]
    said: Mapping[str, Any] = field(default_factory=dict)


@dataclass
class _Entry:
    file: File
    snapshot: int
    sequence: int


@dataclass
class IcebergTable:
    """A table in a folder, without a catalog.

    Attributes:
        folder: Folder of the table.
        columns: Its columns.
        version: Format version.
        specs: All partition specs, by their numbers.
        spec: Number of the spec of new files.
        sequence: Sequence number of the newest snapshot.
        snapshots: All snapshots, as the metadata has them.
    """

    folder: Path
    columns: list[Column]
    version: int = 2
    specs: list[list[Part]] = field(default_factory=lambda: [[]])
    spec: int = 0
    sequence: int = 0
    snapshots: list[dict[str, Any]] = field(default_factory=list)
    _schemas: list[list[Column]] = field(default_factory=list)
    _entries: list[_Entry] = field(default_factory=list)
    _written: int = 0
    _uuid: str = field(default_factory=lambda: str(uuid.uuid4()))
    _last: int = 0

    def __post_init__(self) -> None:
        for name in ("metadata", "data"):
            (self.folder / name).mkdir(parents=True)
        self.evolve(self.columns)

    @property
    def metadata_file(self) -> Path:
        """Return the newest metadata file."""
        return self.folder / "metadata" / f"v{self._written}.metadata.json"

    @property
    def arrow(self) -> pa.Schema:
        """Return the columns, with their field ids."""
        return pa.schema([column.arrow for column in self.columns])

    def evolve(self, columns: Sequence[Column]) -> None:
        """Write a schema."""
        self.columns = list(columns)
        self._schemas.append(self.columns)
        self._last = max([self._last, *(column.number for column in columns)])
        self._write()

    def place_by(self, parts: Sequence[Part]) -> None:
        """Write a partition spec for new files."""
        self.specs.append(list(parts))
        self.spec = len(self.specs) - 1
        self._write()

    def data_file(self, rows: pa.Table, values: tuple[Any, ...] = ()) -> File:
        """Write a data file of the newest schema and spec, which no snapshot has yet."""
        path = self.folder / "data" / f"{uuid.uuid4()}.parquet"
        pq.write_table(rows, path, row_group_size=8)
        ids = [one for one in rows["id"].to_pylist() if one is not None]
        ends = {
            name: [{"key": self.columns[0].number, "value": struct.pack("<q", function(ids))}]
            for name, function in (("lower_bounds", min), ("upper_bounds", max))
            if ids and self.columns[0].name == "id"
        }
        return File(path, DATA, len(rows), self.spec, values, ends)

    def positions_file(
        self, deleted: Mapping[Path, Sequence[int]], spec: int, values: tuple[Any, ...]
    ) -> File:
        """Write a file of deleted positions."""
        pairs = sorted((f"file://{path}", one) for path, those in deleted.items() for one in those)
        path = self.folder / "data" / f"{uuid.uuid4()}-deletes.parquet"
        ids = {"file_path": (pa.string(), "2147483546"), "pos": (pa.int64(), "2147483545")}
        schema = pa.schema([
            pa.field(name, kind, False, {"PARQUET:field_id": number})
            for name, (kind, number) in ids.items()
        ])  # fmt: skip
        columns = [[pair[at] for pair in pairs] for at in (0, 1)]
        pq.write_table(pa.table(columns, schema=schema), path)
        return File(path, POSITIONS, len(pairs), spec, values)

    def vector_files(
        self, deleted: Mapping[Path, tuple[Sequence[int], int, tuple[Any, ...]]]
    ) -> list[File]:
        """Write deletion vectors into one file, and return an entry for each.

        Args:
            deleted: Deleted positions of each data file, with its spec and partition.
        """
        path = self.folder / "data" / f"{uuid.uuid4()}-deletes.puffin"
        written, blobs, files = b"PFA1", [], []
        for file, (positions, spec, values) in deleted.items():
            vector = struct.pack(">I", 0xD1D33964) + struct.pack("<QI", 1, 0)
            vector += BitMap(positions).serialize()
            blob = struct.pack(">I", len(vector)) + vector + struct.pack(">I", zlib.crc32(vector))
            blobs.append({
                "type": "deletion-vector-v1", "fields": [2147483546], "snapshot-id": -1,
                "sequence-number": -1, "offset": len(written), "length": len(blob), "properties": {
                    "referenced-data-file": f"file://{file}", "cardinality": str(len(positions)),
                },
            })  # fmt: skip
            said = {
                "file_format": "PUFFIN", "referenced_data_file": f"file://{file}",
                "content_offset": len(written), "content_size_in_bytes": len(blob),
            }  # fmt: skip
            files.append(File(path, POSITIONS, len(positions), spec, values, said))
            written += blob
        footer = json.dumps({"blobs": blobs}).encode()
        path.write_bytes(written + b"PFA1" + footer + struct.pack("<II", len(footer), 0) + b"PFA1")
        return files

    def keys_file(self, keys: pa.Table, spec: int, values: tuple[Any, ...]) -> File:
        """Write a file of deleted keys, in columns of the table."""
        path = self.folder / "data" / f"{uuid.uuid4()}-keys.parquet"
        ids = [column.number for column in self.columns if column.name in keys.column_names]
        schema = pa.schema([
            column.arrow for column in self.columns if column.name in keys.column_names
        ])  # fmt: skip
        pq.write_table(keys.select(schema.names).cast(schema), path)
        return File(path, KEYS, len(keys), spec, values, {"equality_ids": ids})

    def commit(self, added: Sequence[File], removed: Sequence[File] = ()) -> int:
        """Write a snapshot that adds and removes files, and return its number."""
        self.sequence += 1
        number = 10**15 + self.sequence
        self._entries = [one for one in self._entries if one.file not in removed]
        self._entries += [_Entry(file, number, self.sequence) for file in added]
        groups: dict[tuple[int, bool], list[_Entry]] = {}
        for entry in self._entries:
            groups.setdefault((entry.file.spec, entry.file.content != DATA), []).append(entry)
        name = self.folder / "metadata" / f"snap-{number}.avro"
        name.write_bytes(
            _avro(
                _MANIFESTS,
                [self._manifest(*group, entries, number) for group, entries in groups.items()],
            )
        )
        self.snapshots.append({
            "snapshot-id": number, "sequence-number": self.sequence, "schema-id":
            len(self._schemas) - 1, "timestamp-ms": 1_700_000_000_000 + self.sequence,
            "manifest-list": f"file://{name}", "summary": {"operation": "overwrite"},
            **({"parent-snapshot-id": number - 1} if self.sequence > 1 else {}),
            **({"first-row-id": 0, "added-rows": 0} if self.version > 2 else {}),
        })  # fmt: skip
        self._write()
        return number

    def _manifest(
        self, spec: int, is_deletes: bool, entries: Sequence[_Entry], number: int
    ) -> dict[str, Any]:
        parts = self.specs[spec]
        records = [self._record(entry, parts, number) for entry in entries]
        path = self.folder / "metadata" / f"{uuid.uuid4()}-m.avro"
        headers = {
            "schema": json.dumps(_schema(self.columns, len(self._schemas) - 1)),
            "schema-id": str(len(self._schemas) - 1),
            "partition-spec": json.dumps(_spec(parts)),
            "partition-spec-id": str(spec),
            "format-version": str(self.version),
            "content": "deletes" if is_deletes else "data",
        }
        path.write_bytes(_avro(_entry_schema(parts), records, headers))
        return {
            "manifest_path": f"file://{path}",
            "manifest_length": path.stat().st_size,
            "partition_spec_id": spec,
            "content": int(is_deletes),
            "sequence_number": self.sequence,
            "min_sequence_number": min(entry.sequence for entry in entries),
            "added_snapshot_id": number,
            "added_files_count": sum(entry.snapshot == number for entry in entries),
            "existing_files_count": sum(entry.snapshot != number for entry in entries),
            "deleted_files_count": 0,
            "added_rows_count": sum(e.file.count for e in entries if e.snapshot == number),
            "existing_rows_count": sum(e.file.count for e in entries if e.snapshot != number),
            "deleted_rows_count": 0,
        }

    def _record(self, entry: _Entry, parts: Sequence[Part], number: int) -> dict[str, Any]:
        file = entry.file
        return {
            "status": 1 if entry.snapshot == number else 0,
            "snapshot_id": entry.snapshot,
            "sequence_number": entry.sequence,
            "file_sequence_number": entry.sequence,
            "data_file": {
                "content": file.content,
                "file_path": f"file://{file.path}",
                "file_format": "PARQUET",
                "partition": {
                    part.name: value for part, value in zip(parts, file.values, strict=True)
                },
                "record_count": file.count,
                "file_size_in_bytes": file.path.stat().st_size,
                **file.said,
            },
        }

    def _write(self) -> None:
        """Write a metadata file."""
        self._written += 1
        said = {
            "format-version": self.version,
            "table-uuid": self._uuid,
            "location": f"file://{self.folder}",
            "last-sequence-number": self.sequence,
            "last-updated-ms": 1_700_000_000_000 + self._written,
            "last-column-id": self._last,
            "schemas": [_schema(one, at) for at, one in enumerate(self._schemas)],
            "current-schema-id": len(self._schemas) - 1,
            "partition-specs": [
                {"spec-id": at, "fields": _spec(parts)} for at, parts in enumerate(self.specs)
            ],
            "default-spec-id": self.spec,
            "last-partition-id": 999 + sum(map(len, self.specs)),
            "properties": {},
            "snapshots": self.snapshots,
            "current-snapshot-id": self.snapshots[-1]["snapshot-id"] if self.snapshots else -1,
            "snapshot-log": [],
            "metadata-log": [],
            "sort-orders": [{"order-id": 0, "fields": []}],
            "default-sort-order-id": 0,
            "refs": dict(self._refs()),
            **({"next-row-id": 0} if self.version > 2 else {}),
        }
        self.metadata_file.write_text(json.dumps(said))

    def _refs(self) -> Iterator[tuple[str, dict[str, Any]]]:
        if self.snapshots:
            newest = self.snapshots[-1]["snapshot-id"]
            yield "main", {"snapshot-id": newest, "type": "branch"}


def transformed(transform: str, value: Any) -> Any:
    """Return the value of a partition of a row, as Avro takes it."""
    if value is None or transform == "void":
        return None
    if transform.startswith("truncate"):
        width = int(transform[9:-1])
        return value[:width] if isinstance(value, str) else value - value % width
    if transform == "identity":
        return value
    day = value.date() if isinstance(value, datetime.datetime) else value
    if transform == "year":
        return day.year - 1970
    if transform == "month":
        return (day.year - 1970) * 12 + day.month - 1
    assert transform == "day", transform
    return (day - _EPOCH).days


def _schema(columns: Sequence[Column], number: int) -> dict[str, Any]:
    return {"type": "struct", "schema-id": number, "fields": [one.said for one in columns]}


def _spec(parts: Sequence[Part]) -> list[dict[str, Any]]:
    return [
        {"name": one.name, "transform": one.transform, "source-id": one.source,
         "field-id": one.number}
        for one in parts
    ]  # fmt: skip


def _avro(schema: Any, records: Sequence[Any], headers: Mapping[str, str] | None = None) -> bytes:
    body = io.BytesIO()
    fastavro.writer(body, fastavro.parse_schema(schema), records, metadata=dict(headers or {}))
    return body.getvalue()


def _optional(name: str, kind: Any, number: int) -> dict[str, Any]:
    return {"name": name, "type": ["null", kind], "default": None, "field-id": number}


def _entry_schema(parts: Sequence[Part]) -> dict[str, Any]:
    """Return the Avro schema of the entries of a manifest."""
    partition = {
        "type": "record",
        "name": "r102",
        "fields": [_optional(part.name, _avro_type(part), part.number) for part in parts],
    }

    def bounds(key: int, value: int) -> dict[str, Any]:
        pair = {
            "type": "record", "name": f"k{key}_v{value}", "fields": [
                {"name": "key", "type": "int", "field-id": key},
                {"name": "value", "type": "bytes", "field-id": value},
            ],
        }  # fmt: skip
        return {"type": "array", "items": pair, "logicalType": "map"}

    file = {
        "type": "record",
        "name": "r2",
        "fields": [
            {"name": "content", "type": "int", "field-id": 134},
            {"name": "file_path", "type": "string", "field-id": 100},
            {"name": "file_format", "type": "string", "field-id": 101},
            {"name": "partition", "type": partition, "field-id": 102},
            {"name": "record_count", "type": "long", "field-id": 103},
            {"name": "file_size_in_bytes", "type": "long", "field-id": 104},
            _optional("lower_bounds", bounds(126, 127), 125),
            _optional("upper_bounds", bounds(129, 130), 128),
            _optional("equality_ids", {"type": "array", "items": "int", "element-id": 136}, 135),
            _optional("referenced_data_file", "string", 143),
            _optional("content_offset", "long", 144),
            _optional("content_size_in_bytes", "long", 145),
        ],
    }
    return {
        "type": "record",
        "name": "manifest_entry",
        "fields": [
            {"name": "status", "type": "int", "field-id": 0},
            _optional("snapshot_id", "long", 1),
            _optional("sequence_number", "long", 3),
            _optional("file_sequence_number", "long", 4),
            {"name": "data_file", "type": file, "field-id": 2},
        ],
    }


def _avro_type(part: Part) -> Any:
    if part.kind.startswith("decimal"):
        precision = int(part.kind[8:-1].split(",")[0])
        return {
            "type": "fixed", "name": f"decimal_{part.number}", "size": 4 if precision < 10 else 6,
            "logicalType": "decimal", "precision": precision, "scale": 2,
        }  # fmt: skip
    return _AVRO[part.kind]


_MANIFESTS = {
    "type": "record",
    "name": "manifest_file",
    "fields": [
        {"name": "manifest_path", "type": "string", "field-id": 500},
        {"name": "manifest_length", "type": "long", "field-id": 501},
        {"name": "partition_spec_id", "type": "int", "field-id": 502},
        {"name": "content", "type": "int", "field-id": 517},
        {"name": "sequence_number", "type": "long", "field-id": 515},
        {"name": "min_sequence_number", "type": "long", "field-id": 516},
        {"name": "added_snapshot_id", "type": "long", "field-id": 503},
        {"name": "added_files_count", "type": "int", "field-id": 504},
        {"name": "existing_files_count", "type": "int", "field-id": 505},
        {"name": "deleted_files_count", "type": "int", "field-id": 506},
        {"name": "added_rows_count", "type": "long", "field-id": 512},
        {"name": "existing_rows_count", "type": "long", "field-id": 513},
        {"name": "deleted_rows_count", "type": "long", "field-id": 514},
    ],
}
