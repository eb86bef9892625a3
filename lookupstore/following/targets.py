"""The newest snapshot of a table, and the plan of its rows in a store."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import xxhash

from lookupstore.builder.plan import BuildPlan, plan_build
from lookupstore.errors import FormatError
from lookupstore.source.search import FoundTable, find_source, path_of, shown_path
from lookupstore.source.source import type_name
from lookupstore.source.table_folders import TableFormat
from lookupstore.source.table_objects import library_format
from lookupstore.source.table_readers import table_reader
from lookupstore.storage.location import Location
from lookupstore.store.manifest import FollowedSnapshot
from lookupstore.tables.columns import FIELD_ID
from lookupstore.tables.snapshot import Snapshot, TableHistory

_FORMATS = (TableFormat.DELTA, TableFormat.ICEBERG, TableFormat.HUDI)


@dataclass(frozen=True)
class Target:
    """What a store is to become.

    Attributes:
        history: The table at its newest snapshot.
        plan: Plan of its rows in the store.
        follows: The snapshot, as the manifest of the store records it.
    """

    history: TableHistory
    plan: BuildPlan
    follows: FollowedSnapshot

    @property
    def snapshot(self) -> Snapshot:
        """Return the newest snapshot."""
        return self.history.newest


def newest_target(
    table: Any,
    *,
    key: str | Sequence[str],
    columns: Sequence[str] | None,
    nullable_keys: str | Sequence[str],
) -> Target:
    """Open a table at its newest snapshot, and plan its rows in a store.

    The arguments and errors are those of `lookupstore.follow`.
    """
    history = table_history(table)
    snapshot = history.newest
    plan = plan_build(
        snapshot.schema,
        key=key,
        columns=columns,
        nullable_keys=nullable_keys,
        source=snapshot.description,
    )
    follows = FollowedSnapshot(
        snapshot.table_id,
        snapshot.snapshot_id,
        files_hash(snapshot),
        columns_hash(snapshot, plan.columns),
    )
    return Target(history, plan, follows)


def table_history(table: Any) -> TableHistory:
    """Open a table at its newest snapshot.

    Args:
        table: Folder or URI of a Delta table, or of an Iceberg table without a catalog; a
            `deltalake.DeltaTable`; or a table or scan of pyiceberg.

    Raises:
        TypeError: If `table` is something else.
        FormatError: If the path is not that of such a table.

    Also raises the errors of `lookupstore.build`.
    """
    table_format = library_format(table)
    if table_format is None:
        if not isinstance(table, (str, os.PathLike, Location)):
            raise TypeError(
                f"table is {type_name(table)}; give the folder or URI of a Delta or Iceberg table, "
                "a deltalake.DeltaTable, or a table or scan of pyiceberg"
            )
        path = path_of(table)
        found = find_source([path], tables=_FORMATS)
        if not isinstance(found, FoundTable):
            raise FormatError(
                f"table: {shown_path(path)} has files that belong to no table; build a store of "
                "them, and again with overwrite=True when they change"
            )
        if found.format is TableFormat.HUDI:
            raise FormatError(
                f"table: {shown_path(path)} is a Hudi table, which stores do not follow; pass "
                "HudiTable.changes() to lookupstore.upsert with changes_by='changelog'"
            )
        table_format, table = found.format, found.path
    history: TableHistory = table_reader(table_format).table_history(table)
    return history


def files_hash(snapshot: Snapshot) -> str:
    """Return 32 hexadecimal digits that differ between sets of files with their deletes."""
    return _hash([file.identity for file in snapshot.files])


def columns_hash(snapshot: Snapshot, names: Sequence[str]) -> str:
    """Return 32 hexadecimal digits that differ if rows of the same files would differ.

    Args:
        snapshot: Snapshot that has the files.
        names: Names of the columns that are read.
    """
    places = [snapshot.columns.get_field_index(name) for name in names]
    stored = [snapshot.stored.field(place) for place in places]
    numbers = {int((field.metadata or {}).get(FIELD_ID, -1)) for field in stored}
    ids = snapshot.ids_of_names or {}
    # Columns with these ids, and what is in them.
    roots = {path[0] for path, number in ids.items() if len(path) == 1 and number in numbers}
    condition = snapshot.filter
    return _hash(
        [
            pa.schema([snapshot.columns.field(name) for name in names]).to_string(),
            pa.schema(stored).to_string(),
            sorted([*path, str(number)] for path, number in ids.items() if path[0] in roots),
            None if condition is None else str(condition.expression),
        ]
    )


def _hash(said: object) -> str:
    return xxhash.xxh3_128_hexdigest(json.dumps(said).encode())
