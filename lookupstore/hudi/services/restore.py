"""Go back to a savepoint: later commits are rolled back, the last one first.

A pending `restore` instant records its plan, and prevents other writes. First all of these commits
become invisible to readers, one after the other; then their files are deleted. A killed restore is
completed by the next restore to the same savepoint, by any writer.

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
    """Roll back what dead writers left, then all commits after a savepoint.

    Args:
        view: View of the table, with the current timeline.
        savepoint: Request time of the commit that the savepoint keeps.
        lock: Lock of the table, which the caller holds.

    Returns:
        The completed rollbacks, then the completed restore. There is no restore if nothing was
        committed after the savepoint.

    Raises:
        ValueError: If there is no such savepoint, if there is a later one, if a restore to another
            one is pending, or if the later commits cannot be rolled back to exactly the files that
            the savepoint keeps.
        CommitConflictError: If another program is, or may be, writing to the table.
        CorruptionError: If the timeline, a plan or a savepoint is damaged.
        LockLostError: If the lock was lost. The next restore to this savepoint finishes this one.
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
    """Finish a restore, and return its rollbacks and the restore.

    Args:
        view: View of the table, with the current timeline.
        begun: Restore, requested or inflight.
        infos: All instants that the restore rolls back.
        pending: Instants to roll back that are pending, so that readers do not see them any more.
        later: Commits to roll back that readers still see, the last one first.
        lock: Lock of the table, which the caller holds.
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
    """Complete the pending rollbacks of some instants.

    Apache Hudi's Java writers leave such rollbacks when a restore is killed.

    Returns:
        The rollbacks, and the request times of the instants.
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
    """Return the results of rollbacks of instants, including those of a killed restore."""
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
        remedy = "to go back without one, roll back each later commit, the newest first"
        if any(one.time == savepoint for one in view.timeline.writes()):
            remedy = f"make one with savepoint({savepoint!r}), then restore to it"
        elif any(one.time == savepoint for one in view.archive.instants()):
            # Neither a savepoint nor a rollback reaches an archived commit.
            remedy = "its commit is archived: write rows that undo what came after it"
        raise ValueError(
            f"instant is {savepoint!r}, which has no savepoint; savepoints: "
            f"{', '.join(known) or 'none'}; {remedy}"
        )
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
    """Return the instants that a pending restore is to roll back."""
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
    # A commit that was requested before the kept commit may have been completed after it.
    later = [
        one
        for one in view.timeline.writes()
        if one.time > savepoint or one.position > kept.position
    ]
    return sorted(later, key=lambda one: one.position, reverse=True)


def _pending_writes(view: TableView, planned: set[str]) -> list[Instant]:
    """Return the pending instants that are planned for rollback; there may be no others."""
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
    """Check that a restore leaves the files of the savepoint, and no others.

    A clean of another program may have removed some of them. An archival may have archived commits
    whose files would count.
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
