"""Describe a version of a store."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from lookupstore.filters.recorded_filter import filter_of
from lookupstore.html_table import html_fields
from lookupstore.store.manifest import FollowedSnapshot
from lookupstore.store.open_version import OpenVersion


@dataclass(frozen=True)
class StoreInfo:
    """A description of a version of a store, for people and programs.

    Attributes:
        path: Folder of the store, or its URI without credentials.
        version: Number of the version.
        id: Identity of this content; each build, upsert and compaction makes a new one.
        created: UTC time at which the version was published, ISO 8601.
        writer: Program, with its release, that wrote this version of the store.
        source: Description of the source of the rows; after an upsert, of the changes.
        key: Arrow type of each key column, by name, in the order that sorts the store.
        values: Arrow type of each value column, by name.
        num_rows: Number of keys.
        buckets: Number of buckets.
        files: Number of data files, runs of changes among them.
        bytes: Size of all data files.
        runs: Number of runs of changes, which `LookupStore.compact` merges into their buckets.
        run_bytes: Size of the runs of changes.
        bytes_here: Number of bytes of the data files that this host has, in the folder of the store
            or as local copies; lookups or `LookupStore.refresh` fetch the missing ones.
        bytes_fetched: Number of bytes that this process has fetched for the open store.
        applied_bytes: Size of the runs that the upsert merged at once, which are kept for
            `LookupStore.changes`; no lookup reads them.
        rewritten_buckets: Number of data files that are new in this version; the other files are
            those of the previous version.
        options: Build options of the store, by name.
        follows: Snapshot of a table that the version follows: `table`, its identity; `path`, its
            path or URI, if the store records it; `where`, the condition that its rows meet;
            `snapshot`, missing if rows were changed in
            another way since; and `rebuilt`, the reason for which the version was built of all
            rows. None: It follows no table.
    """

    path: str
    version: int
    id: str
    created: str
    writer: str
    source: str
    key: Mapping[str, str]
    values: Mapping[str, str]
    num_rows: int
    buckets: int
    files: int
    bytes: int
    runs: int
    run_bytes: int
    bytes_here: int
    bytes_fetched: int
    applied_bytes: int
    rewritten_buckets: int
    options: Mapping[str, Any]
    follows: Mapping[str, str] | None

    def to_json(self) -> dict[str, Any]:
        """Return the description as plain JSON values."""
        return asdict(self)

    def _repr_html_(self) -> str:
        return html_fields(f"StoreInfo {self.path}", {**asdict(self), "path": None})


def info_of(version: OpenVersion) -> StoreInfo:
    """Return the description of an open version."""
    location, manifest, files, _ = version
    return StoreInfo(
        path=location.uri,
        version=manifest.version,
        id=manifest.id,
        created=manifest.created,
        writer=manifest.writer,
        source=manifest.source,
        key={field.name: str(field.type) for field in manifest.key_schema.schema},
        values={field.name: str(field.type) for field in manifest.row_schema.schema},
        num_rows=manifest.num_rows,
        buckets=manifest.buckets,
        files=len(manifest.data_files),
        bytes=manifest.bytes,
        runs=len(manifest.runs),
        run_bytes=manifest.run_bytes,
        bytes_here=files.bytes_here,
        bytes_fetched=files.counts().bytes_fetched,
        applied_bytes=manifest.applied_bytes,
        rewritten_buckets=manifest.rewritten_buckets,
        options=dict(manifest.options),
        follows=_followed(manifest.follows),
    )


def _followed(snapshot: FollowedSnapshot | None) -> dict[str, str] | None:
    if snapshot is None:
        return None
    said = {
        "table": snapshot.table,
        "path": snapshot.place,
        "where": None if snapshot.where is None else str(filter_of(snapshot.where)),
        "snapshot": snapshot.snapshot,
        "rebuilt": snapshot.rebuilt,
    }
    return {name: value for name, value in said.items() if value is not None}
