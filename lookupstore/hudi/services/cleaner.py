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
_BY_VERSIONS = "KEEP_LATEST_FILE_VERSIONS"
# By how much the clocks of the world's zones are behind at most.
_ZONES = timedelta(hours=12)


def clean(
    view: TableView,
    lock: TableLock,
    *,
    retain_commits: int | None = None,
    retain_hours: float | None = None,
    retain_versions: int | None = None,
    now: datetime,
) -> list[Instant]:
    """Finish the cleans of dead writers, then remove files that are older than what is retained.

    A table as of the earliest instant that is retained, or of a later one, keeps all of its rows;
    so do those of savepoints, and what writes that are pending may have read. By versions only the
    table as of the last instant does, and each file group as many slices before that as are left.

    Args:
        view: of the table as it is.
        lock: of the table, which is held.
        retain_commits: how many of the last commits stay readable.
        retain_hours: for how many hours back the table stays readable; with `retain_commits`,
            whichever is more.
        retain_versions: how many slices of each file group stay; in place of the others.
        now: what time it is.

    Returns:
        the cleans, completed; none if there is nothing to remove.

    Raises:
        ValueError: none is given, or one is out of range.
        CorruptionError: the timeline, a plan or a savepoint is damaged.
        LockLostError: the lock was lost; the next clean goes on.
    """
    check_retained(retain_commits, retain_hours, retain_versions)
    earliest = _last_needed(view)
    if retain_versions is None:
        earliest = _earliest(view, retain_commits, retain_hours, now)
    done = _finish_pending(view, lock)
    if earliest is None:
        return done
    files = removable_files(view, earliest.time)
    if retain_versions is not None:
        kept = _last_versions(view, retain_versions)
        files = [file for file in files if file.path not in kept]
    if not files:
        return done
    by_partition: dict[str, list[CleanFile]] = {}
    for file in files:
        full = CleanFile(view.location.full(file.path))
        by_partition.setdefault(file.group.partition, []).append(full)
    state = earliest.state.value.upper()
    retained = ActionInstant(earliest.time, earliest.action, state)
    policy = _BY_HOURS if retain_commits is None else _BY_COMMITS
    plan = CleanerPlan(
        earliest_instant_to_retain=retained if retain_versions is None else None,
        policy=policy if retain_versions is None else _BY_VERSIONS,
        files={partition: tuple(paths) for partition, paths in by_partition.items()},
    )
    lock.check()
    heartbeats = Heartbeats(view.location)
    content = plan_bytes(plan)
    with heartbeats.request(view.folder, CLEAN, content, owner=lock.owner) as beat:
        done.append(finish(view, _started(view, beat.instant, content), plan, lock))
    return done


def check_retained(commits: int | None, hours: float | None, versions: int | None) -> None:
    """Check what a clean is to retain.

    Raises:
        ValueError: nobody says it, a number is out of range, or two contradict each other.
    """
    if commits is None and hours is None and versions is None:
        raise ValueError("give retain_commits, retain_hours or both, or else retain_versions")
    if versions is not None and (commits, hours) != (None, None):
        raise ValueError("give retain_versions, or else retain_commits, retain_hours or both")
    if commits is not None and commits < 1:
        raise ValueError(f"retain_commits is {commits}; the last commit always stays: give 1")
    if hours is not None and not hours >= 0:
        raise ValueError(f"retain_hours is {hours}; give a number of hours, at least 0")
    if versions is not None and versions < 1:
        raise ValueError(f"retain_versions is {versions}; the last one always stays: give 1")


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
    return _before_pending(view, bounds)


def _before_pending(view: TableView, bounds: list[list[Instant]]) -> Instant | None:
    """Return the earliest of the last of some instants, and of those before what is pending."""
    writes = view.timeline.writes()
    for pending in view.timeline.pending():
        if pending.is_write:
            bounds.append([one for one in writes if one.time < pending.time])
    if not all(bounds):
        return None
    return min((bound[-1] for bound in bounds), key=lambda one: one.time)


def _last_needed(view: TableView) -> Instant | None:
    """Return the last instant, or that which a pending write has read; None: there is none."""
    return _before_pending(view, [view.timeline.writes()])


def _last_versions(view: TableView, count: int) -> set[str]:
    """Return the paths of the last slices of each file group that is not replaced."""
    return {file.path for group in view.groups(None) for file in group.slices[-count:]}


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
    retained = plan.earliest_instant_to_retain
    if retained is None and plan.policy == _BY_VERSIONS:
        # Nobody says how many: what is current, and was to others, stays in any case.
        needed = _last_needed(view)
        earliest = "" if needed is None else needed.time
    elif retained is None or not writes:
        path = view.folder.path(replace(started, state=State.REQUESTED))
        raise CorruptionError(path, 0, "earliestInstantToRetain: a commit of the table", retained)
    else:
        earliest = retained.timestamp
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
        earliest_commit_to_retain="" if retained is None else earliest,
        last_completed_commit_timestamp=writes[-1].time if writes else "",
        partition_metadata=partitions,
    )
    return view.folder.complete(started, plan_bytes(metadata), lock.check)
