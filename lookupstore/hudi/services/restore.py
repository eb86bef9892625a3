"""Going back to a savepoint: what was committed after it is rolled back, the last commit first.

A pending `restore` instant says what goes, and keeps others from writing. First readers lose sight
of all of these commits, one after the other, then their files go. A restore that was killed is
ended by the next one to the same savepoint, whoever began it.

Source: RestorePlanActionExecutor and BaseRestoreActionExecutor of Apache Hudi.
"""

from __future__ import annotations

import time as clock
from collections.abc import Sequence
from dataclasses import replace

from lookupstore.errors import CommitConflictError, CorruptionError
from lookupstore.hudi.locking.heartbeat import Heartbeats
from lookupstore.hudi.locking.lock import TableLock
from lookupstore.hudi.services.rollback import (
    end_rollback,
    planned_rollback,
    roll_back,
    roll_back_pending,
    withdraw,
)
from lookupstore.hudi.services.savepoint import savepoints
from lookupstore.hudi.timeline.plans import (
    InstantInfo,
    RestoreMetadata,
    RestorePlan,
    RollbackMetadata,
    parse_plan,
    plan_bytes,
)
from lookupstore.hudi.timeline.timeline import (
    RESTORE,
    ROLLBACK,
    SAVEPOINT,
    Instant,
    State,
    Timeline,
)
from lookupstore.hudi.view import TableView


def restore(view: TableView, savepoint: str, lock: TableLock) -> list[Instant]:
    """Roll back all that was committed after a savepoint, and before that what dead writers left.

    Args:
        view: of the table as it is.
        savepoint: time of the commit that it keeps.
        lock: of the table, which is held.

    Returns:
        the rollbacks, then the restore, completed; no restore if nothing came after the savepoint.

    Raises:
        ValueError: there is no such savepoint, or a later one; another restore is pending; what
            came after it cannot be rolled back, or would not leave the files that it keeps.
        CommitConflictError: another program is, or may be, writing to the table.
        CorruptionError: the timeline, a plan or a savepoint is damaged.
        LockLostError: the lock was lost; the next restore to this savepoint goes on.
    """
    lock.check()
    _check_savepoint(view, savepoint)
    begun = next((one for one in view.timeline.pending() if one.action == RESTORE), None)
    planned = () if begun is None else _planned(view, begun, savepoint)
    done = roll_back_pending(view, lock)
    view = view.reloaded()
    pending = _pending_writes(view, {one.commit_time for one in planned})
    later = _later(view, savepoint)
    _check_left(view, savepoint, later)
    if begun is None:
        if not later:
            return done
        infos = tuple(InstantInfo(one.time, one.action) for one in later)
        plan = plan_bytes(RestorePlan(infos, savepoint_to_restore_timestamp=savepoint))
        heartbeats = Heartbeats(view.location)
        with heartbeats.request(view.folder, RESTORE, plan, owner=lock.owner) as beat:
            return done + _finish(view, beat.instant, infos, [], later, lock)
    known = {one.commit_time for one in planned}
    # Java's writers may complete a commit that they had begun before.
    missed = [InstantInfo(one.time, one.action) for one in later if one.time not in known]
    done += _finish(view, begun, [*planned, *missed], pending, later, lock)
    Heartbeats(view.location).delete(begun.time)
    return done


def _finish(
    view: TableView,
    begun: Instant,
    infos: Sequence[InstantInfo],
    pending: Sequence[Instant],
    later: Sequence[Instant],
    lock: TableLock,
) -> list[Instant]:
    """Do what is left of a restore, and return the rollbacks and the restore.

    Args:
        view: of the table as it is.
        begun: the restore, requested or inflight.
        infos: all instants that go with it.
        pending: those of them that are there, and that readers do not see any more.
        later: those that readers still see, the last one first.
        lock: of the table, which is held.
    """
    began = clock.monotonic()
    if begun.state is State.REQUESTED:
        begun = view.folder.start(begun)
    going = list(pending)
    for instant in later:
        lock.check()
        going.append(withdraw(view, instant))
    times = tuple(one.commit_time for one in infos)
    done, ended = _end_rollbacks(view, set(times), lock)
    done += [roll_back(view, one, lock) for one in going if one.time not in ended]
    metadata = RestoreMetadata(
        start_restore_time=begun.time,
        time_taken_in_millis=round((clock.monotonic() - began) * 1000),
        instants_to_rollback=times,
        rollbacks=_rollbacks(view.reloaded(), set(times)),
        restore_instant_info=tuple(infos),
    )
    return [*done, view.folder.complete(begun, plan_bytes(metadata), lock.check)]


def _end_rollbacks(
    view: TableView, times: set[str], lock: TableLock
) -> tuple[list[Instant], set[str]]:
    """Complete the rollbacks of some instants that a restore of Java left when it was killed.

    Returns:
        the rollbacks, and the times of the instants.
    """
    done, ended = [], set()
    for rollback in view.timeline.pending():
        if rollback.action == ROLLBACK:
            plan = planned_rollback(view, rollback)
            target = plan.instant_to_rollback
            if target is not None and target.commit_time in times:
                done.append(end_rollback(view, rollback, plan, lock))
                ended.add(target.commit_time)
    return done, ended


def _rollbacks(view: TableView, times: set[str]) -> dict[str, tuple[RollbackMetadata, ...]]:
    """Return what rollbacks of instants did, also those that a killed restore had completed."""
    found: dict[str, tuple[RollbackMetadata, ...]] = {}
    for instant in view.timeline:
        if instant.action == ROLLBACK and instant.is_completed:
            path = view.folder.path(instant)
            metadata = parse_plan(RollbackMetadata, view.folder.read(instant), path)
            found |= {time: (metadata,) for time in metadata.commits_rollback if time in times}
    return found


def _check_savepoint(view: TableView, savepoint: str) -> None:
    known = savepoints(view)
    if savepoint not in known:
        raise ValueError(f"instant is {savepoint!r}; savepoints: {', '.join(known) or 'none'}")
    if all(one.time != savepoint for one in view.timeline.writes()):
        raise ValueError(
            f"{view.location.uri}: the commit {savepoint} is archived, and so may be later ones, "
            "which cannot be rolled back"
        )
    kept = [one.time for one in view.timeline if one.action == SAVEPOINT and one.time > savepoint]
    if kept:
        raise ValueError(
            f"{view.location.uri}: savepoints keep later commits, {', '.join(kept)}; delete them "
            "first"
        )


def _planned(view: TableView, begun: Instant, savepoint: str) -> tuple[InstantInfo, ...]:
    """Return what a pending restore is to roll back."""
    requested = replace(begun, state=State.REQUESTED)
    path = view.folder.path(requested)
    plan = parse_plan(RestorePlan, view.folder.read(requested), path)
    to = plan.savepoint_to_restore_timestamp
    if to != savepoint:
        shown = "one that it does not name" if to is None else to
        raise ValueError(
            f"{path}: a restore to another savepoint is not completed, to {shown}; call restore() "
            "with that one first, or let its program complete it"
        )
    seen = {one.time for one in _later(view, savepoint)}
    before = {one.time for one in view.timeline.writes()} - seen
    for one in plan.instants_to_rollback:
        info = Instant(one.commit_time, one.action, State.INFLIGHT)
        if not info.is_write or one.commit_time in before:
            expected = f"instantsToRollback: commits after {savepoint}"
            raise CorruptionError(path, 0, expected, one)
    return plan.instants_to_rollback


def _later(view: TableView, savepoint: str) -> list[Instant]:
    """Return the commits after a savepoint, the last one first."""
    (kept,) = (one for one in view.timeline if (one.time, one.action) == (savepoint, SAVEPOINT))
    # One that was requested before the commit may be completed after it was kept.
    later = [
        one
        for one in view.timeline.writes()
        if one.time > savepoint or one.position > kept.position
    ]
    return sorted(later, key=lambda one: one.position, reverse=True)


def _pending_writes(view: TableView, planned: set[str]) -> list[Instant]:
    """Return the instants that are pending and planned to go; there may be no others."""
    pending = [one for one in view.timeline.pending() if one.is_write]
    for instant in pending:
        if instant.time not in planned:
            owner = Heartbeats(view.location).owner(instant.time)
            who = "another program" if owner is None else owner.name
            raise CommitConflictError(
                f"{view.folder.path(instant)}: {who} is, or may be, still writing it: wait, or, if "
                "you know that it is dead, roll it back",
                instant=instant.time,
            )
    return pending


def _check_left(view: TableView, savepoint: str, later: Sequence[Instant]) -> None:
    """Check that the files of a savepoint, and no others, are left of a table after it.

    A clean of another program may have removed some, and an archival may have taken out the
    commits that others are of.
    """
    shown = view.location.uri
    archived = [
        one.time for one in view.archive.instants() if one.is_write and one.time > savepoint
    ]
    there = {one.time for one in view.timeline}
    for time in archived:
        if time not in there:
            raise ValueError(
                f"{shown}: {time}, which came after {savepoint}, is archived, in "
                f"{view.archive.shown}, so it cannot be rolled back"
            )
    for instant in later:
        if not instant.is_write:
            raise ValueError(f"{view.folder.path(instant)}: a {instant.action} is not rolled back")
        view.folder.before(instant)
    going = {one: replace(one, state=State.INFLIGHT, completed=None) for one in later}
    left = Timeline(tuple(going.get(one, one) for one in view.timeline))
    files = {group.current.path for group in replace(view, timeline=left).groups(None)}
    kept = {
        f"{partition}/{name}" if partition else name
        for partition, saved in savepoints(view)[savepoint].partition_metadata.items()
        for name in saved.savepoint_data_file
    }
    for path in sorted(files ^ kept):
        what = "gone" if path in kept else "not a file of the savepoint, but would be current"
        raise ValueError(
            f"{view.location.show(path)}: {what}; the table cannot be restored to {savepoint}"
        )
