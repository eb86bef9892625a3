"""A writer for tests: it writes whole base files and commits, and decides nothing by itself."""

from __future__ import annotations

import copy
import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from lookupstore.errors import FormatError
from lookupstore.hudi import HudiTable, Instant
from lookupstore.hudi.file_group.partition_metadata import mark_partition
from lookupstore.hudi.keys.avro_types import avro_schema
from lookupstore.hudi.meta_columns import META_COLUMNS
from lookupstore.hudi.timeline.commit import CommitMetadata, WriteStat, commit_bytes
from lookupstore.hudi.timeline.names import base_file_name
from lookupstore.hudi.timeline.timeline import CLUSTERING, COMMIT, REPLACE, TimelineFolder
from lookupstore.hudi.view import TableView, read_view

SCHEMA = pa.schema({"id": pa.int32(), "value": pa.string()})
Rows = Sequence[Mapping[str, Any]]


class SmallTable:
    """A table that tests write by hand."""

    def __init__(
        self,
        path: Path,
        version: int,
        schema: pa.Schema = SCHEMA,
        partition_by: Sequence[str] = (),
    ) -> None:
        self.path = path
        self.version = version
        self.table = HudiTable.create(
            path,
            schema,
            record_key=["id"],
            partition_by=partition_by,
            version=version,
            hive_style=True,
            name="t",
        )
        self.folder = TimelineFolder(self.table.location, self.table.options.timeline, version)

    def at(self, path: Path) -> SmallTable:
        """Return a copy of the table that is somewhere else."""
        found = copy.copy(self)
        found.path, found.table = path, HudiTable.open(path)
        found.folder = TimelineFolder(
            found.table.location, found.table.options.timeline, self.version
        )
        return found

    def begin(self, action: str = COMMIT) -> Instant:
        """Request an instant and let it be inflight."""
        return self.folder.start(self.folder.request(action))

    def write(
        self,
        time: str,
        file_id: str,
        rows: Rows,
        partition: str = "",
        schema: pa.Schema = SCHEMA,
        times: Sequence[str] | None = None,
        footer: Mapping[bytes, bytes] | None = None,
    ) -> WriteStat:
        """Write a base file, whose rows have the instant's time, or times of their own."""
        name = base_file_name(file_id, "0-1-2", time)
        data = pa.Table.from_pylist(list(rows), schema)
        meta = {
            META_COLUMNS[0]: list(times or [time] * len(rows)),
            META_COLUMNS[1]: [f"{time}_0_{at}" for at in range(len(rows))],
            META_COLUMNS[2]: [str(row["id"]) for row in rows],
            META_COLUMNS[3]: [partition] * len(rows),
            META_COLUMNS[4]: [name] * len(rows),
        }
        columns = {key: pa.array(values, pa.string()) for key, values in meta.items()}
        columns |= {column: data[column] for column in data.column_names}
        path = f"{partition}/{name}" if partition else name
        (self.path / path).parent.mkdir(parents=True, exist_ok=True)
        with suppress(FormatError):  # tests try paths that lead out of the table
            mark_partition(self.table.location, partition, time)
        table = pa.table(columns)
        with pq.ParquetWriter(self.path / path, table.schema, store_schema=False) as writer:
            writer.write_table(table)
            writer.add_key_value_metadata(dict(footer or {}))
        size = (self.path / path).stat().st_size
        return WriteStat(
            file_id=file_id,
            path=path,
            partition_path=partition,
            num_writes=len(rows),
            num_inserts=len(rows),
            total_write_bytes=size,
            file_size_in_bytes=size,
        )

    def view(self) -> TableView:
        """Return the table as it is now."""
        return read_view(self.table.location)

    def finish(
        self,
        instant: Instant,
        stats: Sequence[WriteStat] = (),
        replaced: Mapping[str, tuple[str, ...]] | None = None,
        schema: pa.Schema | None = SCHEMA,
    ) -> Instant:
        """Complete an instant."""
        by_partition: dict[str, tuple[WriteStat, ...]] = {}
        for stat in stats:
            partition = stat.partition_path or ""
            by_partition[partition] = (*by_partition.get(partition, ()), stat)
        options = self.table.options
        extra = {}
        if schema is not None:
            avro = avro_schema(schema, options.record_name, options.namespace)
            extra["schema"] = json.dumps(avro)
        is_replace = instant.action in (REPLACE, CLUSTERING)
        metadata = CommitMetadata(
            stats=by_partition,
            extra_metadata=extra,
            operation="CLUSTER" if instant.action == CLUSTERING else "UPSERT",
            replaced=(replaced or {}) if is_replace else None,
        )
        return self.folder.complete(instant, commit_bytes(metadata, self.version))

    def commit(
        self, file_id: str, rows: Rows, partition: str = "", schema: pa.Schema = SCHEMA
    ) -> Instant:
        """Write one file, and commit it."""
        instant = self.begin()
        stat = self.write(instant.time, file_id, rows, partition, schema)
        return self.finish(instant, [stat], schema=schema)

    def values(self, as_of: str | None = None) -> dict[int, Any]:
        """Return the table's rows as a dict."""
        rows = HudiTable.open(self.path).scan(columns=["id", "value"], as_of=as_of)
        found = dict(zip(rows["id"].to_pylist(), rows["value"].to_pylist(), strict=True))
        assert len(found) == rows.num_rows
        return found


def row(key: int, value: Any) -> dict[str, Any]:
    """Return a row."""
    return {"id": key, "value": value}
