"""Merge-on-read tables, written by hand: log files byte by byte, and Hudi's rules one by one."""

from __future__ import annotations

import io
import json
import struct
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
from support.hudi.small_tables import SmallTable

from lookupstore.hudi import HudiTable, Instant
from lookupstore.hudi.keys.avro_types import avro_schema
from lookupstore.hudi.log.hfile import hfile_bytes
from lookupstore.hudi.meta_columns import META_COLUMNS
from lookupstore.hudi.timeline.commit import WriteStat
from lookupstore.hudi.timeline.timeline import TimelineFolder

MAGIC = b"#HUDI#"
COMMAND, DELETES, AVRO, HFILE, PARQUET, CDC = 0, 1, 3, 4, 5, 6
INSTANT, TARGET, SCHEMA_HEADER, COMMAND_TYPE, COMPACTED, PARTIAL = 0, 1, 2, 3, 4, 7
EVENT, COMMIT = "EVENT_TIME_ORDERING", "COMMIT_TIME_ORDERING"
SCHEMA = pa.schema({"id": pa.int32(), "ts": pa.int64(), "value": pa.string()})
# Place of each kind of ordering value in the union of a delete.
ORDERINGS = ("null", "boolean", "int", "long", "float", "double", "bytes", "string", "date")
Row = dict[str, Any]


@dataclass
class Change:
    """A change of one row in a log file.

    Attributes:
        key: Key of the row.
        ts: Ordering value. None: that of a delete without one.
        row: New row. None: a delete of a delete block.
        marked: Whether the row is marked as deleted.
    """

    key: str
    ts: int | None
    row: Row | None
    marked: bool = False

    @property
    def is_delete(self) -> bool:
        return self.row is None or self.marked

    @property
    def always(self) -> bool:
        return self.is_delete and self.ts is None


def merged(base: Mapping[str, Row], changes: Iterable[Change], mode: str) -> dict[str, Row]:
    """Merge changes one after the other, as the buffer of Hudi's reader does."""
    logged: dict[str, Change] = {}
    for new in changes:
        old = logged.get(new.key)
        if mode == COMMIT or old is None:
            logged[new.key] = new
        elif old.always and new.row is None:
            continue
        elif new.always or old.always or (new.ts or 0) >= (old.ts or 0):
            logged[new.key] = new
    rows: dict[str, Row] = {}
    for key, row in base.items():
        change = logged.pop(key, None)
        if change is None:
            rows[key] = row
        elif mode == COMMIT or change.always or row["ts"] is None or change.ts >= row["ts"]:
            if change.row is not None and not change.marked:
                rows[key] = change.row
        else:
            rows[key] = row
    for key, change in logged.items():
        if change.row is not None and not change.marked:
            rows[key] = change.row
    return rows


def block(kind: int, headers: Mapping[int, bytes], content: bytes, version: int = 1) -> bytes:
    """Return the bytes of a log block."""
    body = struct.pack(">iii", version, kind, len(headers))
    for name, value in headers.items():
        body += struct.pack(">ii", name, len(value)) + value
    body += struct.pack(">q", len(content)) + content + struct.pack(">i", 0)
    size = len(body) + 8
    return MAGIC + struct.pack(">q", size) + body + struct.pack(">q", size + 6)


def deletes_content(deletes: Iterable[tuple[str, str, Any]]) -> bytes:
    """Return the content of a delete block: key, kind of the ordering value, and the value."""
    deletes = list(deletes)
    body = io.BytesIO()
    if deletes:
        body.write(number(len(deletes)))
    for key, kind, value in deletes:
        body.write(number(1) + text(key) + number(1) + text("") + number(ORDERINGS.index(kind)))
        if kind == "string":
            body.write(text(value))
        elif kind == "double":
            body.write(struct.pack("<d", value))
        elif kind != "null":
            body.write(number(value))
    body.write(number(0))
    return struct.pack(">ii", 3, len(body.getvalue())) + body.getvalue()


def number(value: int) -> bytes:
    """Return an Avro number."""
    into = io.BytesIO()
    fastavro.schemaless_writer(into, "long", value)
    return into.getvalue()


def text(value: str) -> bytes:
    """Return an Avro string."""
    return number(len(value.encode())) + value.encode()


class LogTable(SmallTable):
    """A merge-on-read table that tests write by hand."""

    def __init__(
        self,
        path: Path,
        version: int,
        mode: str = EVENT,
        schema: pa.Schema = SCHEMA,
        ordering: str | None = "ts",
        partition_by: Sequence[str] = (),
    ) -> None:
        self.path = path
        self.version = version
        self.schema = schema
        self.slice = ""
        table = HudiTable.create(path, schema, record_key=["id"], ordering=ordering,
                                 merge_mode=mode, version=version, name="t", hive_style=True,
                                 partition_by=partition_by)  # fmt: skip
        self.properties(lambda said: said.replace("COPY_ON_WRITE", "MERGE_ON_READ"))
        self.table = table
        self.folder = TimelineFolder(table.location, table.options.timeline, version)
        options = table.options
        avro: Any = avro_schema(schema, options.record_name, options.namespace)
        meta = [{"name": name, "type": ["null", "string"], "default": None}
                for name in META_COLUMNS]  # fmt: skip
        avro["fields"] = [*meta, *avro["fields"]]
        self.avro: str = json.dumps(avro)

    def properties(self, change: Any) -> None:
        """Change the text of the table's properties."""
        (file,) = (self.path / ".hoodie").glob("*.properties")
        file.write_text(change(file.read_text()))

    def opened(self) -> HudiTable:
        return HudiTable.open(self.path)

    def base(self, file_id: str, rows: Sequence[Row], action: str = "deltacommit") -> Instant:
        """Write a base file, and complete its instant."""
        instant = self.begin(action)
        stat = self.write(instant.time, file_id, rows, schema=self.schema)
        self.slice = instant.time
        return self.finish(instant, [stat], schema=self.schema)

    def headers(self, time: str) -> dict[int, bytes]:
        return {INSTANT: time.encode(), SCHEMA_HEADER: self.avro.encode()}

    def with_meta(self, time: str, rows: Sequence[Row]) -> list[Row]:
        values = [
            (time, f"{time}_0_{at}", str(row["id"]), "", "a-0") for at, row in enumerate(rows)
        ]
        return [
            {**dict(zip(META_COLUMNS, meta, strict=True)), **row}
            for meta, row in zip(values, rows, strict=True)
        ]

    def records(self, time: str, rows: Sequence[Row], *, keyless: bool = False) -> list[bytes]:
        """Return rows as Avro."""
        schema = fastavro.parse_schema(json.loads(self.avro))
        found = []
        for row in self.with_meta(time, rows):
            into = io.BytesIO()
            key = {META_COLUMNS[2]: ""} if keyless else {}
            fastavro.schemaless_writer(into, schema, {**row, **key})
            found.append(into.getvalue())
        return found

    def data(self, time: str, rows: Sequence[Row], kind: int = AVRO) -> bytes:
        """Return a data block."""
        if kind == AVRO:
            content = struct.pack(">ii", 3, len(rows))
            for record in self.records(time, rows):
                content += struct.pack(">i", len(record)) + record
        elif kind == HFILE:
            pairs = zip((str(row["id"]) for row in rows), self.records(time, rows, keyless=True),
                        strict=True)  # fmt: skip
            entries = sorted((key.encode(), value) for key, value in pairs)
            content = hfile_bytes(entries, self.avro.encode(), 0)
        else:
            meta = [pa.field(name, pa.string()) for name in META_COLUMNS]
            table = pa.Table.from_pylist(
                self.with_meta(time, rows), pa.schema([*meta, *self.schema])
            )
            into = pa.BufferOutputStream()
            pq.write_table(table, into, store_schema=False)
            content = into.getvalue().to_pybytes()
        return block(kind, self.headers(time), content)

    def deletes(self, time: str, deletes: Iterable[tuple[str, str, Any]]) -> bytes:
        """Return a delete block."""
        return block(DELETES, self.headers(time), deletes_content(deletes))

    def rollback_block(self, time: str, target: str) -> bytes:
        """Return a block that takes back the blocks of an instant."""
        headers = {INSTANT: time.encode(), TARGET: target.encode(), COMMAND_TYPE: b"0"}
        return block(COMMAND, headers, b"")

    def log(
        self, file_id: str, time: str, content: bytes, number: int = 1, partition: str = ""
    ) -> Path:
        """Append to a log file."""
        path = self.path / partition / f".{file_id}_{time}.log.{number}_0-1-2"
        with path.open("ab") as file:
            file.write(content)
        return path

    def name_time(self, time: str) -> str:
        """Return the time in the name of a log file: in version 6 that of the slice."""
        return self.slice if self.version == 6 and self.slice else time

    def delta(
        self, file_id: str, content: Any, name_time: str | None = None, partition: str = ""
    ) -> Instant:
        """Write a log file with the blocks that `content` returns of a time, and commit."""
        instant = self.begin("deltacommit")
        name_time = name_time or self.name_time(instant.time)
        log = self.log(file_id, name_time, content(instant.time), partition=partition)
        stat = WriteStat(
            file_id=file_id,
            path=log.relative_to(self.path).as_posix(),
            partition_path=partition,
            file_size_in_bytes=log.stat().st_size,
        )
        return self.finish(instant, [stat], schema=self.schema)

    def rows(self, **scan: Any) -> dict[str, Row]:
        """Return the rows of a scan by their keys."""
        found = self.opened().scan(columns=[META_COLUMNS[2], *self.schema.names], **scan)
        rows = {row.pop(META_COLUMNS[2]): row for row in found.to_pylist()}
        assert len(rows) == found.num_rows
        return rows
