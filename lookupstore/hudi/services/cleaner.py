"""Remove files that no reader needs any more: replaced slices, and removed file groups.

A clean is planned first, and checked again with the timeline at the time of the removal: a killed
clean is completed by the next one, and instants in between count.

Source: CleanPlanner and CleanActionExecutor of Apache Hudi.
"""

from __future__ import annotations

import time as clock
from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime, timedelta

from lookupstore.errors import CorruptionError
from lookupstore.hudi.file_group.groups import FileSlice, file_groups_at
from lookupstore.hudi.locking.heartbeat import Heartbeats
from lookupstore.hudi.locking.lock import TableLock
from lookupstore.hudi.metadata.maintain import metadata_table
from lookupstore.hudi.services.never_completed import delete_files, never_completed
from lookupstore.hudi.services.savepoint import saved_paths
from lookupstore.hudi.timeline.instant_times import print_time
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
from lookupstore.hudi.timeline.timeline import CLEAN, Instant, State
from lookupstore.hudi.view import TableView

_BY_COMMITS, _BY_HOURS = "KEEP_LATEST_COMMITS", "KEEP_LATEST_BY_HOURS"
_BY_VERSIONS = "KEEP_LATEST_FILE_VERSIONS"
# Largest difference by which the clock of a time zone may be behind.
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
    """Finish the cleans of dead writers, then remove files that are not retained.

    A table as of the earliest retained instant, or of a later one, keeps all of its rows. So do
    savepoints, and the instants that pending writes may have read. With `retain_versions`, each
    file group keeps that many slices, and only the table as of the last instant is sure to keep all
    of its rows.

    Args:
        view: View of the table, with the current timeline.
        lock: Lock of the table, which the caller holds.
        retain_commits: Number of the last commits that stay readable. None: the other numbers
            decide.
        retain_hours: Number of hours for which the table stays readable. With `retain_commits`, the
            one that keeps more applies. None: the other numbers decide.
        retain_versions: Number of slices that each file group keeps, instead of the other two
            numbers. None: the other numbers decide.
        now: Current time.

    Returns:
        The completed cleans; empty if there is nothing to remove.

    Raises:
        ValueError: If no number is given, if one is out of range, or if `retain_versions` is given
            together with another.
        CorruptionError: If the timeline, a plan or a savepoint is damaged.
        LockLostError: If the lock was lost. The next clean finishes this one.
    """
    check_retained(retain_commits, retain_hours, retain_versions)
    earliest = _earliest(view, retain_commits, retain_hours, retain_versions, now)
    done = _finish_pending(view, lock)
    files = _removable(view, earliest, retain_versions)
    if earliest is None or not files:
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


def files_to_clean(
    view: TableView,
    *,
    retain_commits: int | None = None,
    retain_hours: float | None = None,
    retain_versions: int | None = None,
    now: datetime,
) -> list[FileSlice]:
    """Return the files that a clean would delete, by path, and change nothing.

    No lock is needed. Without one, the clock of the file system is unknown: a writer on another
    machine counts as alive, and its files stay.

    Args:
        view: View of the table, with the current timeline.
        retain_commits: See `clean`.
        retain_hours: See `clean`.
        retain_versions: See `clean`.
        now: Current time.

    Raises:
        ValueError: If no number is given, if one is out of range, or if `retain_versions` is given
            together with another.
        CorruptionError: If the timeline, a plan or a savepoint is damaged.
    """
    check_retained(retain_commits, retain_hours, retain_versions)
    earliest = _earliest(view, retain_commits, retain_hours, retain_versions, now)
    found = [stray.file for stray in never_completed(view)]
    view = replace(view, deleted=frozenset(file.path for file in found))
    for requested, plan in _dead_plans(view, None):
        found += _removable_of_plan(view, requested, plan)
    found += _removable(view, earliest, retain_versions)
    return sorted(set(found), key=lambda one: one.path)


def check_retained(commits: int | None, hours: float | None, versions: int | None) -> None:
    """Check the numbers by which a clean decides what to retain.

    Raises:
        ValueError: If no number is given, if one is out of range, or if two contradict each other.
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
    """Return the files, by path, that readers from an instant on do not need.

    Files that savepoints keep are not among them.

    Args:
        view: View of the table.
        earliest: Request time of the earliest instant that stays readable.

    Raises:
        CorruptionError: If the timeline or a savepoint is damaged.
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


def _removable(
    view: TableView, earliest: Instant | None, retain_versions: int | None
) -> list[FileSlice]:
    """Return the files that readers from an instant on do not need, without the last versions."""
    if earliest is None:
        return []
    kept = set() if retain_versions is None else _last_versions(view, retain_versions)
    return [file for file in removable_files(view, earliest.time) if file.path not in kept]


def _earliest(
    view: TableView,
    retain_commits: int | None,
    retain_hours: float | None,
    retain_versions: int | None,
    now: datetime,
) -> Instant | None:
    """Return the earliest instant that stays readable. None: all do."""
    if retain_versions is not None:
        return _last_needed(view)
    writes = view.timeline.writes()
    bounds: list[list[Instant]] = []
    if retain_commits is not None:
        bounds.append(writes[: max(0, len(writes) + 1 - retain_commits)])
    if retain_hours is not None:
        end = now - timedelta(hours=retain_hours)
        if view.options.timezone != "UTC":
            end -= _ZONES
        # The table at that time consisted of earlier commits.
        bounds.append(view.timeline.writes(as_of=print_time(end)))
    return _before_pending(view, bounds)


def _before_pending(view: TableView, bounds: list[list[Instant]]) -> Instant | None:
    """Return the earlier of the last of some instants and the instants before pending ones."""
    writes = view.timeline.writes()
    for pending in view.timeline.pending():
        if pending.is_write:
            bounds.append([one for one in writes if one.time < pending.time])
    if not all(bounds):
        return None
    return min((bound[-1] for bound in bounds), key=lambda one: one.time)


def _last_needed(view: TableView) -> Instant | None:
    """Return the last instant, or the one that a pending write has read. None: there is none."""
    return _before_pending(view, [view.timeline.writes()])


def _last_versions(view: TableView, count: int) -> set[str]:
    """Return the paths of the last slices of each file group that is not replaced."""
    return {file.path for group in view.groups(None) for file in group.slices[-count:]}


def _finish_pending(view: TableView, lock: TableLock) -> list[Instant]:
    done = []
    now = lock.now() if any(one.action == CLEAN for one in view.timeline.pending()) else None
    for instant, plan in _dead_plans(view, now):
        if instant.state is State.REQUESTED:
            instant = _started(view, instant, view.folder.read(instant))
        done.append(finish(view, instant, plan, lock))
        Heartbeats(view.location).delete(instant.time)
    return done


def _dead_plans(view: TableView, now: float | None) -> Iterator[tuple[Instant, CleanerPlan]]:
    """Yield the pending cleans of dead writers, and their plans.

    Args:
        view: View of the table.
        now: Current time on the file system of the table, in seconds since 1970. None: unknown.
    """
    heartbeats = Heartbeats(view.location)
    for instant in view.timeline.pending():
        if instant.action == CLEAN and heartbeats.is_dead(instant.time, now):
            requested = replace(instant, state=State.REQUESTED)
            path = view.folder.path(requested)
            plan = parse_plan(CleanerPlan, view.folder.read(requested), path)
            check_deleted(plan, path)
            yield instant, plan


def _started(view: TableView, requested: Instant, plan: bytes) -> Instant:
    """Mark a clean as inflight; in version 6, Java also reads the plan from that file."""
    return view.folder.start(requested, plan if view.options.version == 6 else b"")


def finish(view: TableView, started: Instant, plan: CleanerPlan, lock: TableLock) -> Instant:
    """Delete the files of a plan that are still removable, and complete the clean."""
    began = clock.monotonic()
    writes = view.timeline.writes()
    retained = plan.earliest_instant_to_retain
    removable = _removable_of_plan(view, started, plan)
    planned = {
        partition: [file.file_path or "" for file in files]
        for partition, files in (plan.files or {}).items()
    }
    lock.check()
    listed = metadata_table(view)
    # A clean that died after it was recorded has deleted its files: the next clean deletes the
    # rest.
    is_recorded = listed is not None and listed.has(started.time)
    if not is_recorded:
        delete_files(view, removable)
    there = {view.location.full(file.path) for file in view.files()}
    partitions = {}
    for partition, paths in planned.items():
        # A plan has complete paths, and the result has names.
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
        earliest_commit_to_retain="" if retained is None else retained.timestamp,
        last_completed_commit_timestamp=writes[-1].time if writes else "",
        partition_metadata=partitions,
    )
    return view.folder.complete(started, plan_bytes(metadata), lock.check)


def _removable_of_plan(view: TableView, instant: Instant, plan: CleanerPlan) -> list[FileSlice]:
    """Return the files of a plan that are still removable."""
    writes = view.timeline.writes()
    retained = plan.earliest_instant_to_retain
    if retained is None and plan.policy == _BY_VERSIONS:
        # The plan does not record the number of versions: slices that are, or were, current stay.
        needed = _last_needed(view)
        earliest = "" if needed is None else needed.time
    elif retained is None or not writes:
        path = view.folder.path(replace(instant, state=State.REQUESTED))
        raise CorruptionError(path, 0, "earliestInstantToRetain: a commit of the table", retained)
    else:
        earliest = retained.timestamp
    wanted = {file.file_path for files in (plan.files or {}).values() for file in files}
    return [
        file for file in removable_files(view, earliest) if view.location.full(file.path) in wanted
    ]
