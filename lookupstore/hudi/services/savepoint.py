"""Savepoints: commits whose files no clean removes and that no rollback takes back.

Source: SavepointActionExecutor of Apache Hudi.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from datetime import datetime

from lookupstore.hudi.file_group.groups import file_groups_at
from lookupstore.hudi.locking.lock import TableLock
from lookupstore.hudi.timeline.names import BASE_FILE, GroupId
from lookupstore.hudi.timeline.plans import (
    CleanerPlan,
    CleanMetadata,
    SavepointMetadata,
    SavepointPartition,
    parse_plan,
    plan_bytes,
)
from lookupstore.hudi.timeline.timeline import CLEAN, SAVEPOINT, Instant, State
from lookupstore.hudi.view import TableView


def savepoints(view: TableView) -> dict[str, SavepointMetadata]:
    """Return the files that each savepoint keeps, by the request time of its commit.

    Raises:
        CorruptionError: If a savepoint is damaged.
    """
    found = {}
    for instant in view.timeline:
        if instant.action == SAVEPOINT and instant.is_completed:
            path = view.folder.path(instant)
            found[instant.time] = parse_plan(SavepointMetadata, view.folder.read(instant), path)
    return found


def saved_paths(view: TableView) -> set[str]:
    """Return the paths of the files that savepoints keep, relative to the table.

    Raises:
        CorruptionError: If a savepoint is damaged.
    """
    return {
        f"{partition}/{name}" if partition else name
        for kept in savepoints(view).values()
        for partition, files in kept.partition_metadata.items()
        for name in files.savepoint_data_file
    }


def make_savepoint(
    view: TableView, time: str | None, lock: TableLock, *, user: str, comment: str, now: datetime
) -> Instant:
    """Keep the files that the table has as of a commit.

    Args:
        view: View of the table, with the current timeline.
        time: Request time of the commit. None: the last commit.
        lock: Lock of the table, which the caller holds.
        user: Name of the user who makes the savepoint.
        comment: Reason for the savepoint.
        now: Current time.

    Returns:
        The completed savepoint.

    Raises:
        ValueError: If there is no such commit, if it already has a savepoint, or if a clean removed
            files of it.
        LockLostError: If the lock was lost. Try again; nothing else is necessary.
    """
    writes = view.timeline.writes()
    if not writes:
        raise ValueError(f"{view.location.uri}: there is no commit to keep; write first")
    commit = next((one for one in writes if time in (None, one.time)), None)
    commit = writes[-1] if time is None else commit
    if commit is None:
        raise ValueError(
            f"instant is {time!r}; give the time of a completed commit: timeline() lists them"
        )
    if commit.time in savepoints(view):
        raise ValueError(f"{view.folder.path(commit)}: there is already a savepoint of it")
    earliest = earliest_whole(view)
    if earliest > commit.time:
        raise ValueError(
            f"{view.folder.path(commit)}: a clean removed files of it; commits from {earliest} on "
            "are complete"
        )
    names: dict[str, list[str]] = {}
    for group in view.groups(commit.time):
        names.setdefault(group.id.partition, []).append(group.current.name)
    metadata = SavepointMetadata(
        savepointed_by=user,
        savepointed_at=round(now.timestamp() * 1000),
        comments=comment,
        partition_metadata={
            partition: SavepointPartition(partition, tuple(files))
            for partition, files in names.items()
        },
    )
    lock.check()
    started = view.folder.start_savepoint(commit.time)
    return view.folder.complete(started, plan_bytes(metadata), lock.check)


def delete_savepoint(view: TableView, time: str, lock: TableLock) -> None:
    """Delete the savepoint of a commit.

    Args:
        view: View of the table, with the current timeline.
        time: Request time of the commit.
        lock: Lock of the table, which the caller holds.

    Raises:
        ValueError: If the commit has no savepoint.
        LockLostError: If the lock was lost. Try again; nothing else is necessary.
    """
    found = [one for one in view.timeline if (one.time, one.action) == (time, SAVEPOINT)]
    if not found:
        known = ", ".join(savepoints(view)) or "none"
        raise ValueError(f"instant is {time!r}, which has no savepoint; savepoints: {known}")
    lock.check()
    for instant in found:
        if instant.is_completed:
            view.folder.delete(instant)
        view.folder.delete(replace(instant, state=State.INFLIGHT, completed=None))


def earliest_whole(view: TableView) -> str:
    """Return the time from which on each commit has all of its files; `""`: all do.

    Completed cleans have removed files of earlier commits, and pending cleans are going to. A clean
    that keeps versions of file groups does not record such a time, so the time is derived from the
    files that it removes.

    Raises:
        CorruptionError: If the plan or result of a clean is damaged.
    """
    times = [""]
    for instant in view.timeline:
        if instant.action != CLEAN:
            continue
        if instant.is_completed:
            done = parse_plan(CleanMetadata, view.folder.read(instant), view.folder.path(instant))
            if done.earliest_commit_to_retain:
                times.append(done.earliest_commit_to_retain)
            else:
                gone = {
                    partition: one.success_delete_files
                    for partition, one in done.partition_metadata.items()
                }
                times += _followed(view, gone, done.last_completed_commit_timestamp)
            continue
        requested = replace(instant, state=State.REQUESTED)
        plan = parse_plan(CleanerPlan, view.folder.read(requested), view.folder.path(requested))
        if plan.earliest_instant_to_retain is not None:
            times.append(plan.earliest_instant_to_retain.timestamp)
        else:
            going = {
                partition: [file.file_path or "" for file in files]
                for partition, files in (plan.files or {}).items()
            }
            writes = view.timeline.writes()
            times += _followed(view, going, writes[-1].time if writes else "")
    return max(times)


def _followed(view: TableView, gone: Mapping[str, Iterable[str]], last: str) -> Iterator[str]:
    """Yield the times from which on removed files are not needed.

    Args:
        view: View of the table.
        gone: Names or paths of the removed files, by partition path.
        last: Request time of a commit that does not need the files.
    """
    replaced: dict[GroupId, str] = {}
    for instant in view.timeline.writes():
        for group in view.replaced(instant):
            replaced.setdefault(group, instant.time)
    groups = {
        one.id: one for one in file_groups_at(view.files(), view.timeline, (), view.location.uri)
    }
    for partition, names in gone.items():
        for name in names:
            match = BASE_FILE.fullmatch(name.rpartition("/")[2])
            if match is not None:
                id = GroupId(partition, match["file_id"])
                slices = groups[id].slices if id in groups else ()
                later = [file.time for file in slices if file.time > match["time"]]
                yield min(later, default=replaced.get(id, last))
