"""The history of a table: a row for each instant, with rows, files and bytes."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any

import pyarrow as pa

from lookupstore.hudi.timeline.commit import WRITER, CommitMetadata
from lookupstore.hudi.timeline.timeline import SAVEPOINT, Instant
from lookupstore.hudi.view import TableView, first_time

#: Columns of a history. Columns that only commits have are null for other actions and pending
#: commits.
HISTORY = pa.schema(
    {
        "instant": pa.string(),
        "completed": pa.string(),
        "action": pa.string(),
        "state": pa.string(),
        "operation": pa.string(),
        "rows_inserted": pa.int64(),
        "rows_updated": pa.int64(),
        "rows_deleted": pa.int64(),
        "rows_written": pa.int64(),
        "files_new": pa.int64(),
        "files_rewritten": pa.int64(),
        "files_replaced": pa.int64(),
        "bytes_written": pa.int64(),
        "partitions": pa.int64(),
        "writer": pa.string(),
        "archived": pa.bool_(),
    }
)
# Hudi's name of a commit without new rows: its rows were in other files.
_CLUSTER = "CLUSTER"

_Key = tuple[str, str]


def table_history(view: TableView, limit: int | None = None) -> pa.Table:
    """Return the history of a table: pending instants, then the newest first.

    Args:
        view: State of the table.
        limit: Maximum number of rows, the newest. None: all rows, including those of the archive.

    Raises:
        ValueError: If `limit` is below 0.
        CorruptionError: If a commit or the archive is damaged.
        StaleStoreError: If an instant was archived or rolled back after the view was read.
    """
    if limit is not None and limit < 0:
        raise ValueError(f"limit is {limit}; give how many rows at most, from 0")
    known = {_key(one): one for one in view.timeline}
    archived: dict[_Key, Instant] = {}
    if not _suffices(view, limit):
        archived = {_key(one): one for one in view.archive.instants() if _key(one) not in known}
    newest = sorted([*known.values(), *archived.values()], key=_turn, reverse=True)[:limit]
    rows = dict(
        _archived_rows(
            view, {_key(one) for one in newest if one.is_write and _key(one) in archived}
        )
    )
    for one in newest:
        if _key(one) in known and one.is_completed and one.writes_base_files:
            rows[_key(one)] = _said(view.commit(one))
    return pa.Table.from_pylist(
        [
            {
                "instant": one.time,
                "completed": one.completed,
                "action": one.action,
                "state": one.state.value,
                **rows.get(_key(one), {}),
                "archived": _key(one) in archived,
            }
            for one in newest
        ],
        HISTORY,
    )


def _suffices(view: TableView, limit: int | None) -> bool:
    """Return whether the timeline contains the newest instants, without the archive."""
    first = first_time(view.timeline)
    if limit is None or first is None:
        return False
    # Java counts writes, cleans and rollbacks separately when it archives them. Savepoints are kept
    # when later commits are archived.
    oldest: dict[str, str] = {}
    for one in view.timeline:
        if one.is_completed and one.time >= first and one.action != SAVEPOINT:
            kind = "write" if one.is_write else one.action
            oldest[kind] = min(one.position, oldest.get(kind, one.position))
    least = max(oldest.values())
    later = [one for one in view.timeline if not one.is_completed or one.position >= least]
    return len(later) >= limit


def _archived_rows(view: TableView, wanted: Collection[_Key]) -> Iterator[tuple[_Key, Any]]:
    """Yield the history of archived commits, until all wanted ones are found."""
    left = set(wanted)
    for instant, commit in view.archive.commits_by_instant() if left else ():
        if _key(instant) in left:
            yield _key(instant), _said(commit)
            left.discard(_key(instant))
        if not left:
            return


def _key(instant: Instant) -> _Key:
    return instant.time, instant.action


def _turn(instant: Instant) -> tuple[bool, str, str, bool]:
    """Return the sort key of an instant; a savepoint has the time of its commit."""
    return not instant.is_completed, instant.position, instant.time, instant.action == SAVEPOINT


def _said(commit: CommitMetadata) -> dict[str, Any]:
    """Return the columns of the history that a commit provides."""
    stats = [one for many in (commit.stats or {}).values() for one in many]
    inserted = sum(one.num_inserts or 0 for one in stats)
    rewritten = sum(one.replaces for one in stats)
    return {
        "operation": commit.operation,
        "rows_inserted": 0 if commit.operation == _CLUSTER else inserted,
        "rows_updated": sum(one.num_update_writes or 0 for one in stats),
        "rows_deleted": sum(one.num_deletes or 0 for one in stats),
        "rows_written": sum(one.num_writes or 0 for one in stats),
        "files_new": len(stats) - rewritten,
        "files_rewritten": rewritten,
        "files_replaced": sum(len(set(ids)) for ids in (commit.replaced or {}).values()),
        "bytes_written": sum(one.total_write_bytes or 0 for one in stats),
        "partitions": len({*(commit.stats or {}), *(commit.replaced or {})}),
        "writer": (commit.extra_metadata or {}).get(WRITER),
    }
