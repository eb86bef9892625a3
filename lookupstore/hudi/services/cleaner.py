"""Removing files that no reader needs any more: slices that newer ones replaced, groups that went.

What goes is planned first, and decided once more, from what the timeline then says, when it goes:
a clean that was killed is ended by the next one, and what happened between the two counts.

Source: CleanPlanner and CleanActionExecutor of Apache Hudi.
"""

from __future__ import annotations

import time as clock
from dataclasses import replace
from datetime import datetime, timedelta

from lookupstore.errors import CorruptionError
from lookupstore.hudi.file_group.groups import FileSlice, file_groups_at
from lookupstore.hudi.locking.heartbeat import Heartbeats
from lookupstore.hudi.locking.lock import TableLock
from lookupstore.hudi.metadata.maintain import metadata_table
from lookupstore.hudi.services.never_completed import delete_files
from lookupstore.hudi.services.savepoint import saved_paths
from lookupstore.hudi.timeline.names import GroupId
from lookupstore.hudi.timeline.plans import (
    ActionInstant,
    CleanerPlan,
    CleanFile,
    CleanMetadata,
    CleanPartition,
    check_deleted,
    parse_plan,
    plan_bytes,
)
from lookupstore.hudi.timeline.timeline import CLEAN, Instant, State, print_time
from lookupstore.hudi.view import TableView

_BY_COMMITS, _BY_HOURS = "KEEP_LATEST_COMMITS", "KEEP_LATEST_BY_HOURS"
# By how much the clocks of the world's zones are behind at most.
_ZONES = timedelta(hours=12)


def clean(
    view: TableView,
    lock: TableLock,
    *,
    retain_commits: int | None = None,
    retain_hours: float | None = None,
    now: datetime,
) -> list[Instant]:
    """Finish the cleans of dead writers, then remove files that are older than what is retained.

    A table as of the earliest instant that is retained, or of a later one, keeps all of its rows;
    so do those of savepoints, and what writes that are pending may have read.

    Args:
        view: of the table as it is.
        lock: of the table, which is held.
        retain_commits: how many of the last commits stay readable.
        retain_hours: for how many hours back the table stays readable; with `retain_commits`,
            whichever is more.
        now: what time it is.

    Returns:
        the cleans, completed; none if there is nothing to remove.

    Raises:
        ValueError: neither is given, or one is out of range.
        CorruptionError: the timeline, a plan or a savepoint is damaged.
        LockLostError: the lock was lost; the next clean goes on.
    """
    earliest = _earliest(view, retain_commits, retain_hours, now)
    done = _finish_pending(view, lock)
    if earliest is None:
        return done
    files = removable_files(view, earliest.time)
    if not files:
        return done
    by_partition: dict[str, list[CleanFile]] = {}
    for file in files:
        full = CleanFile(view.location.full(file.path))
        by_partition.setdefault(file.group.partition, []).append(full)
    state = earliest.state.value.upper()
    plan = CleanerPlan(
        earliest_instant_to_retain=ActionInstant(earliest.time, earliest.action, state),
        policy=_BY_HOURS if retain_commits is None else _BY_COMMITS,
        files={partition: tuple(paths) for partition, paths in by_partition.items()},
    )
    lock.check()
    heartbeats = Heartbeats(view.location)
    content = plan_bytes(plan)
    with heartbeats.request(view.folder, CLEAN, content, owner=lock.owner) as beat:
        done.append(finish(view, _started(view, beat.instant, content), plan, lock))
    return done


def removable_files(view: TableView, earliest: str) -> list[FileSlice]:
    """Return the files that no reader of an instant, or of a later one, needs; by path.

    Args:
        view: of the table.
        earliest: request time of that instant.

    Raises:
        CorruptionError: the timeline or a savepoint is damaged.
    """
    replaced: dict[GroupId, str] = {}
    for instant in view.timeline.writes():
        for group in view.replaced(instant):
            replaced.setdefault(group, instant.time)
    saved = saved_paths(view)
    found: list[FileSlice] = []
    for each in file_groups_at(view.files(), view.timeline, (), view.location.uri):
        gone = replaced.get(each.id)
        if gone is not None and gone <= earliest:
            found += each.slices
        else:
            found += [file for file in each.slices if file.time <= earliest][:-1]
    return sorted((file for file in found if file.path not in saved), key=lambda one: one.path)


def _earliest(
    view: TableView, retain_commits: int | None, retain_hours: float | None, now: datetime
) -> Instant | None:
    """Return the earliest instant that stays readable; None: all do."""
    if retain_commits is None and retain_hours is None:
        raise ValueError("give retain_commits, retain_hours or both")
    if retain_commits is not None and retain_commits < 1:
        raise ValueError(
            f"retain_commits is {retain_commits}; the last commit always stays: give 1"
        )
    if retain_hours is not None and not retain_hours >= 0:
        raise ValueError(f"retain_hours is {retain_hours}; give a number of hours, at least 0")
    writes = view.timeline.writes()
    bounds: list[list[Instant]] = []
    if retain_commits is not None:
        bounds.append(writes[: max(0, len(writes) + 1 - retain_commits)])
    if retain_hours is not None:
        end = now - timedelta(hours=retain_hours)
        if view.options.timezone != "UTC":
            end -= _ZONES
        # What was current at that time was committed before.
        bounds.append(view.timeline.writes(as_of=print_time(end)))
    for pending in view.timeline.pending():
        if pending.is_write:
            bounds.append([one for one in writes if one.time < pending.time])
    if not all(bounds):
        return None
    return min((bound[-1] for bound in bounds), key=lambda one: one.time)


def _finish_pending(view: TableView, lock: TableLock) -> list[Instant]:
    done = []
    heartbeats = Heartbeats(view.location)
    pending = [one for one in view.timeline.pending() if one.action == CLEAN]
    now = lock.now() if pending else None
    for instant in pending:
        if not heartbeats.is_dead(instant.time, now):
            continue
        requested = replace(instant, state=State.REQUESTED)
        path = view.folder.path(requested)
        content = view.folder.read(requested)
        plan = parse_plan(CleanerPlan, content, path)
        check_deleted(plan, path)
        if instant.state is State.REQUESTED:
            instant = _started(view, instant, content)
        done.append(finish(view, instant, plan, lock))
        heartbeats.delete(instant.time)
    return done


def _started(view: TableView, requested: Instant, plan: bytes) -> Instant:
    """Let a clean be inflight; in version 6 Java reads the plan from that file, too."""
    return view.folder.start(requested, plan if view.options.version == 6 else b"")


def finish(view: TableView, started: Instant, plan: CleanerPlan, lock: TableLock) -> Instant:
    """Do what a plan says, or what is left of it and still right."""
    began = clock.monotonic()
    writes = view.timeline.writes()
    if plan.earliest_instant_to_retain is None or not writes:
        path = view.folder.path(replace(started, state=State.REQUESTED))
        expected = "earliestInstantToRetain: a commit of the table"
        raise CorruptionError(path, 0, expected, plan.earliest_instant_to_retain)
    earliest = plan.earliest_instant_to_retain.timestamp
    planned = {
        partition: [file.file_path or "" for file in files]
        for partition, files in (plan.files or {}).items()
    }
    wanted = {path for paths in planned.values() for path in paths}
    removable = [
        file for file in removable_files(view, earliest) if view.location.full(file.path) in wanted
    ]
    lock.check()
    listed = metadata_table(view)
    # One that died here has deleted all that it then took out: what is left goes with the next.
    is_recorded = listed is not None and listed.has(started.time)
    if not is_recorded:
        delete_files(view, removable)
    there = {view.location.full(file.path) for file in view.files()}
    partitions = {}
    for partition, paths in planned.items():
        # A plan has whole paths, and the result names.
        names = {path: path.rpartition("/")[2] for path in paths}
        gone = tuple(name for path, name in names.items() if path not in there)
        partitions[partition] = CleanPartition(partition, plan.policy, tuple(names.values()), gone)
    if listed is not None and not is_recorded:
        deleted = {one.partition_path: one.success_delete_files for one in partitions.values()}
        listed.remove(started.time, deleted, lock)
    metadata = CleanMetadata(
        policy=plan.policy,
        start_clean_time=started.time,
        time_taken_in_millis=round((clock.monotonic() - began) * 1000),
        total_files_deleted=sum(len(one.success_delete_files) for one in partitions.values()),
        earliest_commit_to_retain=earliest,
        last_completed_commit_timestamp=writes[-1].time,
        partition_metadata=partitions,
    )
    return view.folder.complete(started, plan_bytes(metadata), lock.check)
