"""Paimon tables whose metadata is written here, as Paimon writes it.

pypaimon needs an older pyarrow than these tests. Tables that it wrote are in `golden`; these are
for what it does not write: deletions, levels, deletion vectors, other formats, damage.
"""

from __future__ import annotations

import io
import json
import struct
import uuid
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
import zstandard
from pyarrow import orc
from pyroaring import BitMap

BITMAP = 1581511376
BITMAP64 = 1681511377

_STATS = [
    {"name": "_MIN_VALUES", "type": "bytes"},
    {"name": "_MAX_VALUES", "type": "bytes"},
    {"name": "_NULL_COUNTS", "type": ["null", {"type": "array", "items": ["null", "long"]}]},
]
_FILE = {
    "type": "record",
    "name": "record__FILE",
    "fields": [
        {"name": "_FILE_NAME", "type": "string"},
        {"name": "_FILE_SIZE", "type": "long"},
        {"name": "_ROW_COUNT", "type": "long"},
        {"name": "_MIN_KEY", "type": "bytes"},
        {"name": "_MAX_KEY", "type": "bytes"},
        {"name": "_KEY_STATS", "type": {"type": "record", "name": "stats", "fields": _STATS}},
        {"name": "_VALUE_STATS", "type": "stats"},
        {"name": "_MIN_SEQUENCE_NUMBER", "type": "long"},
        {"name": "_MAX_SEQUENCE_NUMBER", "type": "long"},
        {"name": "_SCHEMA_ID", "type": "long"},
        {"name": "_LEVEL", "type": "int"},
        {"name": "_EXTRA_FILES", "type": {"type": "array", "items": "string"}},
        {"name": "_CREATION_TIME", "type": ["null", "long"]},
        {"name": "_DELETE_ROW_COUNT", "type": ["null", "long"]},
        {"name": "_EMBEDDED_FILE_INDEX", "type": ["null", "bytes"]},
        {"name": "_FILE_SOURCE", "type": ["null", "int"]},
        {"name": "_VALUE_STATS_COLS", "type": ["null", {"type": "array", "items": "string"}]},
        {"name": "_EXTERNAL_PATH", "type": ["null", "string"]},
        {"name": "_FIRST_ROW_ID", "type": ["null", "long"]},
        {"name": "_WRITE_COLS", "type": ["null", {"type": "array", "items": "string"}]},
    ],
}
_NO_STATS = {"_MIN_VALUES": bytes(12), "_MAX_VALUES": bytes(12), "_NULL_COUNTS": []}
_ENTRY = {
    "type": "record",
    "name": "org.apache.paimon.avro.generated.record",
    "fields": [
        {"name": "_VERSION", "type": "int"},
        {"name": "_KIND", "type": "int"},
        {"name": "_PARTITION", "type": "bytes"},
        {"name": "_BUCKET", "type": "int"},
        {"name": "_TOTAL_BUCKETS", "type": "int"},
        {"name": "_FILE", "type": _FILE},
    ],
}
_LIST = {
    "type": "record",
    "name": "record",
    "fields": [
        {"name": "_VERSION", "type": "int"},
        {"name": "_FILE_NAME", "type": "string"},
        {"name": "_FILE_SIZE", "type": "long"},
        {"name": "_NUM_ADDED_FILES", "type": "long"},
        {"name": "_NUM_DELETED_FILES", "type": "long"},
        {"name": "_PARTITION_STATS", "type": {"type": "record", "name": "stats", "fields": _STATS}},
        {"name": "_SCHEMA_ID", "type": "long"},
    ],
}
_RANGE = {
    "type": "record",
    "name": "range",
    "fields": [
        {"name": "f0", "type": "string"},
        {"name": "f1", "type": "int"},
        {"name": "f2", "type": "int"},
        {"name": "_CARDINALITY", "type": ["null", "long"]},
    ],
}
_INDEX = {
    "type": "record",
    "name": "record",
    "fields": [
        {"name": "_VERSION", "type": "int"},
        {"name": "_KIND", "type": "int"},
        {"name": "_PARTITION", "type": "bytes"},
        {"name": "_BUCKET", "type": "int"},
        {"name": "_INDEX_TYPE", "type": "string"},
        {"name": "_FILE_NAME", "type": "string"},
        {"name": "_FILE_SIZE", "type": "long"},
        {"name": "_ROW_COUNT", "type": "long"},
        {"name": "_EXTERNAL_PATH", "type": ["null", "string"]},
        {
            "name": "_DELETIONS_VECTORS_RANGES",
            "type": ["null", {"type": "array", "items": ["null", _RANGE]}],
        },
    ],
}


def binary_row(values: Sequence[Any], types: Sequence[str]) -> bytes:
    """Return a row as `BinaryRow` has it, with the number of its fields."""
    nulls = bytearray((len(values) + 8 + 63) // 64 * 8)
    fields, rest = b"", b""
    start = len(nulls) + 8 * len(values)
    for at, (value, kind) in enumerate(zip(values, types, strict=True)):
        if value is None:
            nulls[(at + 8) // 8] |= 1 << (at + 8) % 8
            fields += bytes(8)
        elif kind.startswith(("STRING", "VARCHAR", "CHAR", "BYTES")):
            content = value.encode() if isinstance(value, str) else value
            if len(content) <= 7:
                fields += content.ljust(7, b"\0") + bytes([0x80 | len(content)])
            else:
                fields += struct.pack("<II", len(content), start + len(rest))
                rest += content + bytes(-len(content) % 8)
        else:
            fields += struct.pack("<q", int(value))
    return struct.pack(">i", len(values)) + bytes(nulls) + fields + rest


def avro_file(schema: Any, records: Sequence[Any], codec: str) -> bytes:
    """Return an Avro file. fastavro has no zstd without another package."""
    parsed = fastavro.parse_schema(schema)
    marker = bytes(range(16))
    header = {"avro.schema": json.dumps(schema).encode(), "avro.codec": codec.encode()}
    pairs = [_sized(name.encode()) + _sized(value) for name, value in header.items()]
    parts = [b"Obj\x01", _long(len(pairs)), *pairs, _long(0), marker]
    for start in range(0, len(records), 3):  # several blocks
        body = io.BytesIO()
        for record in records[start : start + 3]:
            fastavro.schemaless_writer(body, parsed, record)
        block = body.getvalue()
        if codec == "deflate":
            block = zlib.compress(block)[2:-4]
        if codec == "zstandard":
            block = zstandard.ZstdCompressor(write_content_size=False).compress(block)
        parts += [_long(len(records[start : start + 3])), _sized(block), marker]
    return b"".join(parts)


def _sized(content: bytes) -> bytes:
    return _long(len(content)) + content


def _long(number: int) -> bytes:
    number, digits = number << 1, b""
    while number > 127:
        digits, number = digits + bytes([number & 127 | 128]), number >> 7
    return digits + bytes([number])


def vector_bytes(positions: Sequence[int], magic: int) -> bytes:
    """Return a deletion vector: its length, magic, bitmap and checksum."""
    bitmap = BitMap(positions)
    bitmap.run_optimize()
    if magic == BITMAP:
        body = struct.pack(">I", magic) + bitmap.serialize()
    else:
        body = struct.pack("<IQI", magic, 1, 0) + bitmap.serialize()
    return struct.pack(">I", len(body)) + body + struct.pack(">I", zlib.crc32(body))


@dataclass(frozen=True)
class File:
    """A data file of a table."""

    name: str
    entry: dict[str, Any]
    rows: pa.Table


@dataclass
class PaimonTable:
    """A table in a folder, whose files and snapshots are written one by one.

    Attributes:
        folder: Folder of the table.
        fields: Names and types of the columns.
        primary_keys: Names of the columns of the primary key.
        partition_keys: Names of the columns by which files are partitioned.
        options: Options of the table.
        written: Manifests and lists of manifests of the newest snapshot.
        created: Time of its first schema, in milliseconds.
    """

    folder: Path
    fields: Mapping[str, Any]
    primary_keys: Sequence[str] = ()
    partition_keys: Sequence[str] = ()
    options: Mapping[str, str] = field(default_factory=dict)
    ids: dict[str, int] = field(default_factory=dict)
    schema: int = -1
    snapshot: int = 0
    files: dict[str, File] = field(default_factory=dict)
    codec: str = "null"
    created: int = 1_700_000_000_000
    written: list[Path] = field(default_factory=list)
    _next_id: int = 0
    _base: list[dict[str, Any]] = field(default_factory=list)

    def __post_init__(self) -> None:
        for name in ("schema", "snapshot", "manifest", "index"):
            (self.folder / name).mkdir(parents=True, exist_ok=True)
        self.evolve(self.fields)

    def evolve(self, fields: Mapping[str, Any], renamed: Mapping[str, str] | None = None) -> None:
        """Write a schema. Columns of the names in `renamed` are those of the old names there."""
        old, ids = self.ids, {}
        for name in fields:
            before = (renamed or {}).get(name, name if name not in (renamed or {}).values() else "")
            if before in old:
                ids[name] = old[before]
            else:
                ids[name], self._next_id = self._next_id, self._next_id + 1
        self.fields, self.ids, self.schema = fields, ids, self.schema + 1
        self.write_schema()

    def write_schema(self) -> None:
        said = {
            "version": 3,
            "id": self.schema,
            "fields": [
                {"id": self.ids[name], "name": name, "type": kind}
                for name, kind in self.fields.items()
            ],
            "highestFieldId": self._next_id,
            "partitionKeys": list(self.partition_keys),
            "primaryKeys": list(self.primary_keys),
            "options": dict(self.options),
            "timeMillis": self.created + self.schema,
        }
        (self.folder / "schema" / f"schema-{self.schema}").write_text(json.dumps(said))

    def add(
        self,
        rows: pa.Table,
        *,
        partition: Sequence[Any] = (),
        values: Sequence[Any] | None = None,
        bucket: int = 0,
        level: int = 0,
        sequence: Sequence[int] | None = None,
        kinds: Sequence[int] | None = None,
        file_format: str = "parquet",
        **said: Any,
    ) -> File:
        """Write a data file, sorted by its key, and return it for `commit`.

        Args:
            rows: Rows of the file.
            partition: Values of its partition, as the names of folders have them.
            values: The values, as manifests have them. Default: the same.
            bucket: Number of its bucket.
            level: Level of the file.
            sequence: Sequence numbers of the rows. Default: from 0.
            kinds: Kinds of the rows. Default: new rows.
            file_format: Format of the file, and the ending of its name.
            said: Other fields of its entry in the manifest.
        """
        keys = [name for name in self.primary_keys if name not in self.partition_keys]
        stored = rows
        numbers = list(range(rows.num_rows) if sequence is None else sequence)
        if keys:
            for at, name in enumerate(keys):
                stored = stored.add_column(at, f"_KEY_{name}", stored[name])
            stored = stored.append_column("_SEQUENCE_NUMBER", pa.array(numbers, pa.int64()))
            stored = stored.append_column(
                "_VALUE_KIND", pa.array(kinds or [0] * rows.num_rows, pa.int8())
            )
            stored = stored.sort_by([(name, "ascending") for name in keys])
        name = f"data-{uuid.uuid4()}-0.{file_format}"
        parts = [
            f"{key}={'__DEFAULT_PARTITION__' if value in (None, '') else value}"
            for key, value in zip(self.partition_keys, partition, strict=True)
        ]
        path = self.folder.joinpath(*parts, f"bucket-{bucket}", name)
        path.parent.mkdir(parents=True, exist_ok=True)
        {"orc": orc.write_table}.get(file_format, pq.write_table)(stored, path)
        types = [str(self.fields[key]) for key in keys]
        ends = [[stored[key][at].as_py() for key in keys] for at in (0, -1)] if keys else [[], []]
        deletes = sum(kind in (1, 3) for kind in kinds or ())
        entry = {
            "_VERSION": 2,
            "_KIND": 0,
            "_PARTITION": binary_row(
                partition if values is None else values,
                [str(self.fields[key]) for key in self.partition_keys],
            ),
            "_BUCKET": bucket,
            "_TOTAL_BUCKETS": 2,
            "_FILE": {
                "_FILE_NAME": name,
                "_FILE_SIZE": path.stat().st_size,
                "_ROW_COUNT": stored.num_rows,
                "_MIN_KEY": binary_row(ends[0], types),
                "_MAX_KEY": binary_row(ends[1], types),
                "_KEY_STATS": _NO_STATS,
                "_VALUE_STATS": _NO_STATS,
                "_MIN_SEQUENCE_NUMBER": min(numbers, default=0),
                "_MAX_SEQUENCE_NUMBER": max(numbers, default=0),
                "_SCHEMA_ID": self.schema,
                "_LEVEL": level,
                "_EXTRA_FILES": [],
                "_CREATION_TIME": 0,
                "_DELETE_ROW_COUNT": deletes,
                "_EMBEDDED_FILE_INDEX": None,
                "_FILE_SOURCE": 0,
                "_VALUE_STATS_COLS": [],
                "_EXTERNAL_PATH": None,
                "_FIRST_ROW_ID": None,
                "_WRITE_COLS": None,
                **said,
            },
        }
        return File(name, entry, stored)

    def path(self, file: File) -> Path:
        return next(self.folder.rglob(file.name))

    def commit(
        self,
        *added: File,
        removed: Sequence[File] = (),
        vectors: Mapping[str, Sequence[int]] | None = None,
        magic: int = BITMAP,
        milliseconds: int = 0,
        vectors_at: str | None = None,
    ) -> None:
        """Write a snapshot that adds and removes files, and has deletion vectors by file name.

        `vectors_at` is the external path of their file, which the manifest has.
        """
        delta = [file.entry for file in added]
        delta += [{**file.entry, "_KIND": 1} for file in removed]
        self.files.update({file.name: file for file in added})
        self.snapshot += 1
        self.written = []
        said: dict[str, Any] = {
            "version": 3,
            "id": self.snapshot,
            "schemaId": self.schema,
            "baseManifestList": self._manifests([self._base]),
            "deltaManifestList": self._manifests([delta]),
            "changelogManifestList": None,
            "commitUser": "tests",
            "commitIdentifier": self.snapshot,
            "commitKind": "APPEND",
            "timeMillis": milliseconds,
            "totalRecordCount": 0,
            "deltaRecordCount": 0,
        }
        if vectors:
            said["indexManifest"] = self._vectors(vectors, magic, vectors_at)
        for file in removed:
            del self.files[file.name]
        self._base = [*self._base, *delta]
        (self.folder / "snapshot" / f"snapshot-{self.snapshot}").write_text(json.dumps(said))
        (self.folder / "snapshot" / "LATEST").write_text("1")  # it may be out of date

    def _vectors(
        self, vectors: Mapping[str, Sequence[int]], magic: int, elsewhere: str | None
    ) -> str:
        name = f"index-{uuid.uuid4()}-0"
        content, entries = b"\x01", []
        extra = 0 if magic == BITMAP else 8
        for file, positions in vectors.items():
            one = vector_bytes(positions, magic)
            entry = {
                "f0": file, "f1": len(content), "f2": len(one) - 8 + extra,
                "_CARDINALITY": len(positions),
            }  # fmt: skip
            entries.append((self.files[file].entry, entry))
            content += one
        (self.folder / "index" / name).write_bytes(content)
        records = [
            {
                "_VERSION": 1,
                "_KIND": 0,
                "_PARTITION": entry["_PARTITION"],
                "_BUCKET": entry["_BUCKET"],
                "_INDEX_TYPE": "DELETION_VECTORS",
                "_FILE_NAME": name,
                "_FILE_SIZE": len(content),
                "_ROW_COUNT": 1,
                "_EXTERNAL_PATH": elsewhere,
                "_DELETIONS_VECTORS_RANGES": [one],
            }
            for entry, one in entries
        ]
        records.append({
            **records[0], "_INDEX_TYPE": "HASH", "_FILE_NAME": "other",
            "_DELETIONS_VECTORS_RANGES": None,
        })  # fmt: skip
        return self._avro("index-manifest", _INDEX, records)

    def _manifests(self, entries: Sequence[Sequence[dict[str, Any]]]) -> str:
        names = [self._avro("manifest", _ENTRY, those) for those in entries if those]
        records = [
            {
                "_VERSION": 2,
                "_FILE_NAME": name,
                "_FILE_SIZE": (self.folder / "manifest" / name).stat().st_size,
                "_NUM_ADDED_FILES": sum(one["_KIND"] == 0 for one in those),
                "_NUM_DELETED_FILES": sum(one["_KIND"] == 1 for one in those),
                "_PARTITION_STATS": _NO_STATS,
                "_SCHEMA_ID": self.schema,
            }
            for name, those in zip(names, filter(None, entries), strict=True)
        ]
        return self._avro("manifest-list", _LIST, records)

    def _avro(self, kind: str, schema: Any, records: Sequence[Any]) -> str:
        name = f"{kind}-{uuid.uuid4()}-0"
        self.written.append(self.folder / "manifest" / name)
        self.written[-1].write_bytes(avro_file(schema, records, self.codec))
        return name
