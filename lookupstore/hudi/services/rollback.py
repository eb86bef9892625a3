"""Undo an instant: delete its files first, then the files of the instant itself.

With this order, no intermediate state is harmful. While the instant is pending, its files do not
count, whatever else is in the timeline; without it, they would count if they were older than the
first commit. Every step can be done again, so the next writer finishes a rollback that was killed.

Source: BaseRollbackActionExecutor of Apache Hudi.
"""

from __future__ import annotations

import time as clock
from collections.abc import Iterable
from dataclasses import replace

from lookupstore.errors import CommitConflictError, CorruptionError
from lookupstore.hudi.file_group.groups import FileSlice
from lookupstore.hudi.layout import delete_version, optional
from lookupstore.hudi.locking.heartbeat import Heartbeats
from lookupstore.hudi.locking.lock import TableLock
from lookupstore.hudi.metadata.maintain import forget_files, forget_instant
from lookupstore.hudi.services.never_completed import delete_files, delete_never_completed
from lookupstore.hudi.services.savepoint import earliest_whole
from lookupstore.hudi.timeline.commit import NO_COMMIT
from lookupstore.hudi.timeline.names import GroupId
from lookupstore.hudi.timeline.plans import (
    InstantInfo,
    RollbackMetadata,
    RollbackPartition,
    RollbackPlan,
    RollbackRequest,
    check_deleted,
    parse_plan,
    plan_bytes,
)
from lookupstore.hudi.timeline.timeline import RESTORE, ROLLBACK, SAVEPOINT, Instant, State
from lookupstore.hudi.timeline.work_files import delete_markers, delete_staged, mark
from lookupstore.hudi.view import TableView


def roll_back(view: TableView, instant: Instant, lock: TableLock) -> Instant:
    """Roll back an instant that is not completed: delete its files, then the instant.

    Only the caller may be working on the instant.

    Args:
        view: View of the table; its timeline may be out of date.
        instant: Instant to roll back.
        lock: Lock of the table, which the caller holds.

    Returns:
        The completed rollback.

    Raises:
        ValueError: If the instant is completed, or is not a commit, replacecommit or clustering.
        CommitConflictError: If the instant is gone, or another rollback of it has begun.
        CorruptionError: If the plan of a pending rollback is damaged.
        LockLostError: If the lock was lost. The next writer finishes the rollback.
    """
    lock.check()
    if instant.is_completed or not instant.is_write:
        raise ValueError(f"instant {instant.time} is a {instant.state.value} {instant.action}")
    view = view.reloaded()
    check_not_rolled_back(view, instant)
    files = _files_of(view, instant.time)
    plan = RollbackPlan(InstantInfo(instant.time, instant.action), _requests(view, files))
    heartbeats = Heartbeats(view.location)
    with heartbeats.request(view.folder, ROLLBACK, plan_bytes(plan), owner=lock.owner) as beat:
        rollback = view.folder.start(beat.instant)
        return finish(view, rollback, plan, lock)


def take_back(view: TableView, instant: Instant, lock: TableLock) -> None:
    """Roll back an instant of the caller, or delete what another rollback missed.

    Another writer that rolls back the instant lists its files once. A file that got its name after
    that belongs to no instant. Readers would take it for a file of an archived commit as soon as
    the commits before it are archived.

    Args:
        view: View of the table; its timeline may be out of date.
        instant: Instant to roll back, on which the caller no longer works.
        lock: Lock of the table, which the caller holds.

    Raises:
        CorruptionError: If the plan of a pending rollback is damaged.
        LockLostError: If the lock was lost. The next writer finishes the rollback.
    """
    try:
        roll_back(view, instant, lock)
    except CommitConflictError:
        if any(one.time == instant.time for one in view.reloaded().timeline.writes()):
            return
        files = _files_of(view, instant.time)
        forget_files(view, files)
        delete_files(view, files)
        _delete_statistics(view, instant.time)
        delete_staged(view.location, instant.time)
        delete_markers(view.location, instant.time)


def roll_back_last(view: TableView, instant: Instant, lock: TableLock) -> Instant:
    """Roll back the last completed commit: readers see the table as it was before.

    From the first step on, the commit is a pending instant of a dead owner. If the rollback is
    killed, the next writer finishes it.

    Args:
        view: View of the table, with the current timeline.
        instant: Commit to roll back.
        lock: Lock of the table, which the caller holds.

    Returns:
        The completed rollback.

    Raises:
        ValueError: If the commit is not the last one, if a savepoint keeps it, if a clean removed
            files that it replaced, if all commits before it are archived, or if its inflight file
            is missing.
        LockLostError: If the lock was lost. The next writer finishes the rollback.
    """
    lock.check()
    _check_last(view, instant)
    return roll_back(view, withdraw(view, instant), lock)


def withdraw(view: TableView, instant: Instant) -> Instant:
    """Make a completed commit pending again, as an instant of a dead owner.

    The caller holds the table's lock.

    Args:
        view: View of the table; its timeline may be out of date.
        instant: Completed commit, which readers do not see from now on.

    Returns:
        The pending instant.

    Raises:
        ValueError: If the inflight file of the commit is missing.
    """
    pending = view.folder.before(instant)
    Heartbeats(view.location).claim(instant.time)
    # Java's writers may find it pending.
    before = {file.group for file in view.files() if file.time < instant.time}
    for file in view.written(instant):
        mark(view.location, file.path, file.time, replaces=file.group in before)
    # At this moment readers see the table as it was.
    view.folder.delete(instant)
    return pending


def roll_back_named(view: TableView, time: str, lock: TableLock) -> Instant:
    """Roll back an instant of a dead writer, or the last commit, by its request time.

    If another program began the instant, only the caller can know that this program is dead. If
    another program died while it rolled back the instant, its rollback is finished.

    Args:
        view: View of the table, with the current timeline.
        time: Request time of the instant.
        lock: Lock of the table, which the caller holds.

    Returns:
        The completed rollback.

    Raises:
        ValueError: If there is no such commit, if its owner is or may be alive, or if it cannot be
            rolled back.
        CorruptionError: If the plan of a pending rollback is damaged.
        LockLostError: If the lock was lost. The next writer finishes the rollback.
    """
    found = [one for one in view.timeline if one.time == time and one.is_write]
    if not found:
        if any(one.time == time and one.is_write for one in view.archive.instants()):
            raise ValueError(
                f"instant is {time!r}, whose commit is archived, in {view.archive.shown}, so it "
                "cannot be undone; write rows that undo what it did"
            )
        # A rollback removes its commit from the timeline.
        raise ValueError(
            f"instant is {time!r}, which is no commit, or is rolled back already; give the time of "
            "a commit: timeline() lists them"
        )
    if found[0].is_completed:
        return roll_back_last(view, found[0], lock)
    heartbeats = Heartbeats(view.location)
    owner = heartbeats.owner(time)
    if owner is not None and not heartbeats.is_dead(time, lock.now()):
        raise ValueError(
            f"{view.folder.path(found[0])}: {owner.name} is, or may be, still writing it"
        )
    begun = _begun_rollback(view, time)
    if begun is None:
        return roll_back(view, found[0], lock)
    rollback, plan = begun
    owner = heartbeats.owner(rollback.time)
    if owner is not None and not heartbeats.is_dead(rollback.time, lock.now()):
        raise ValueError(
            f"{view.folder.path(rollback)}: {owner.name} is, or may be, still rolling it back"
        )
    done = end_rollback(view, rollback, plan, lock)
    heartbeats.delete(rollback.time)
    return done


def roll_back_pending(view: TableView, lock: TableLock) -> list[Instant]:
    """Finish rollbacks of dead lookupstore writers, then roll back their instants.

    Heartbeats of dead writers are deleted after that. Instants of other programs are kept, and
    instants of writers that are or may be alive. If another program has rolled back an instant of a
    dead writer, files that this rollback missed are deleted. An inflight file that got its name
    after the rollback of its instant is rolled back, too.

    Args:
        view: View of the table; its timeline may be out of date.
        lock: Lock of the table, which the caller holds.

    Returns:
        The completed rollbacks.

    Raises:
        CorruptionError: If a plan, the result of a rollback or the archive is damaged.
        LockLostError: If the lock was lost. The next writer finishes the rollbacks.
    """
    lock.check()
    heartbeats = Heartbeats(view.location)
    beating = heartbeats.times()
    for instant in view.timeline.pending():
        if instant.is_write and instant.time not in beating and view.folder.is_unrequested(instant):
            heartbeats.claim(instant.time)
            beating.append(instant.time)
    if not beating:
        return []
    now = lock.now()
    dead = {time for time in beating if heartbeats.is_dead(time, now)}
    view = view.reloaded()
    completed = {instant.time for instant in view.timeline.writes()}
    done = []
    for rollback in view.timeline.pending():
        if rollback.action == ROLLBACK and rollback.time in dead:
            plan = planned_rollback(view, rollback)
            target = plan.instant_to_rollback
            if target is not None and target.commit_time in completed:
                # A writer that had lost the lock planned it: its instant was alive, and is
                # completed.
                for state in (State.INFLIGHT, State.REQUESTED):
                    view.folder.delete(replace(rollback, state=state))
                heartbeats.delete(rollback.time)
                continue
            done.append(end_rollback(view, rollback, plan, lock))
            heartbeats.delete(rollback.time)
    view = view.reloaded()
    for instant in view.timeline.pending():
        if instant.is_write and instant.time in dead:
            done.append(roll_back(view, instant, lock))
    timeline = view.folder.load()
    done_with = {instant.time for instant in timeline.instants if instant.is_completed}
    pending = {instant.time for instant in timeline.pending()}
    gone = dead - pending
    if gone - done_with:
        delete_never_completed(view, gone - done_with)
    for time in sorted(gone):
        delete_staged(view.location, time)
        delete_markers(view.location, time)
        if time in done_with or heartbeats.is_forgotten(time, now):
            heartbeats.delete(time)
    return done


def check_not_restored(view: TableView) -> None:
    """Check that no restore to a savepoint is pending.

    A commit made during a restore would be neither before the savepoint nor among the commits that
    the restore rolls back.

    Raises:
        CommitConflictError: If a restore is pending. Its program may be at work, or dead.

    Source: BaseHoodieWriteClient.startCommit of Apache Hudi, which refuses it as well.
    """
    for instant in view.timeline.pending():
        if instant.action == RESTORE:
            raise CommitConflictError(
                f"{view.folder.path(instant)}: another program restores the table to a savepoint, "
                "or died doing so, and nothing can be written until that is completed: wait, or "
                "call restore() with the same savepoint, or that of Apache Hudi",
                instant=instant.time,
                is_pending=True,
            )


def check_not_rolled_back(view: TableView, instant: Instant) -> None:
    """Check that an instant is pending, and that no rollback of it has begun.

    Call this under the lock before completing the instant: a rollback may have deleted files of it.

    Args:
        view: View of the table, with the current timeline.
        instant: Pending instant.

    Raises:
        CommitConflictError: If the instant is not pending any more, or a rollback of it is planned.
        CorruptionError: If the plan of a pending rollback is damaged.
    """
    if not any((one.time, one.is_write) == (instant.time, True) for one in view.timeline.pending()):
        raise CommitConflictError(
            f"{view.folder.path(instant)}: gone; another writer rolled it back, or completed it",
            instant=instant.time,
        )
    begun = _begun_rollback(view, instant.time)
    if begun is not None:
        raise CommitConflictError(
            f"{view.folder.path(instant)}: rollback {begun[0].time} of it has begun",
            instant=instant.time,
        )


def _begun_rollback(view: TableView, time: str) -> tuple[Instant, RollbackPlan] | None:
    """Return the pending rollback of an instant, with its plan. None: there is none."""
    for rollback in view.timeline.pending():
        if rollback.action == ROLLBACK:
            plan = planned_rollback(view, rollback)
            target = plan.instant_to_rollback
            if target is not None and target.commit_time == time:
                return rollback, plan
    return None


def end_rollback(
    view: TableView, rollback: Instant, plan: RollbackPlan, lock: TableLock
) -> Instant:
    """Complete the rollback of a pending instant, which a killed program began.

    Raises:
        CorruptionError: If its plan names files that are not the table's.
    """
    check_deleted(plan, view.folder.path(replace(rollback, state=State.REQUESTED)))
    if rollback.state is State.REQUESTED:
        rollback = view.folder.start(rollback)
    return finish(view, rollback, plan, lock)


def finish(view: TableView, rollback: Instant, plan: RollbackPlan, lock: TableLock) -> Instant:
    """Delete the files of the instant that a plan names, and complete the rollback."""
    began = clock.monotonic()
    lock.check()
    target = plan.instant_to_rollback
    if target is None or not Instant(target.commit_time, target.action, State.INFLIGHT).is_write:
        path = view.folder.path(replace(rollback, state=State.REQUESTED))
        raise CorruptionError(path, 0, "instantToRollback: one that writes files", target)
    # This is first: as long as the instant is pending, readers skip it there as well.
    forget_instant(view, target.commit_time, rollback.time, lock)
    # Files that were added after the plan was made are found, too.
    files = _files_of(view, target.commit_time)
    delete_files(view, files)
    _delete_statistics(view, target.commit_time)
    delete_staged(view.location, target.commit_time)
    delete_markers(view.location, target.commit_time)
    lock.check()
    # The file of its last state is deleted first: a rollback killed in between leaves it pending.
    for state in (State.INFLIGHT, State.REQUESTED):
        view.folder.delete(Instant(target.commit_time, target.action, state))
    planned = plan.requests or ()
    deleted = {one.partition_path: set(one.files_to_be_deleted) for one in planned}
    for request in _requests(view, files):
        deleted.setdefault(request.partition_path, set()).update(request.files_to_be_deleted)
    metadata = RollbackMetadata(
        start_rollback_time=rollback.time,
        time_taken_in_millis=round((clock.monotonic() - began) * 1000),
        total_files_deleted=sum(map(len, deleted.values())),
        commits_rollback=(target.commit_time,),
        partition_metadata={
            partition: RollbackPartition(partition, tuple(sorted(names)))
            for partition, names in deleted.items()
        },
        instants_rollback=(target,),
    )
    done = view.folder.complete(rollback, plan_bytes(metadata), lock.check)
    Heartbeats(view.location).delete(target.commit_time)
    return done


def _delete_statistics(view: TableView, time: str) -> None:
    """Delete the statistics that an instant wrote.

    A failure is only a warning: the statistics describe deleted files, and no others.
    """
    without = f"statistics of the instant {time}, which was rolled back, are not deleted"
    with optional(view.location, without, "the next write that keeps statistics replaces them"):
        delete_version(view.location, time)


def _check_last(view: TableView, instant: Instant) -> None:
    shown = view.folder.path(instant)
    writes = view.timeline.writes()
    if instant not in writes:
        raise ValueError(f"{shown}: not a completed commit; give one of the timeline")
    later = [one for one in writes if one.time > instant.time or one.position > instant.position]
    if later:
        raise ValueError(
            f"{shown}: {later[-1].time} came after it, and may depend on it; roll that one back "
            "first"
        )
    if any((one.time, one.action) == (instant.time, SAVEPOINT) for one in view.timeline):
        raise ValueError(f"{shown}: a savepoint keeps it; delete the savepoint first")
    if len(writes) == 1 and not view.archive.is_empty():
        # Without any commit, no instant makes the files of earlier commits count.
        raise ValueError(
            f"{shown}: the commits before it are archived, in {view.archive.shown}, so it cannot "
            "be undone; write rows that undo what it did"
        )
    previous = max((one.time for one in writes if one != instant), default="")
    if earliest_whole(view) > previous:
        raise ValueError(f"{shown}: a clean removed files that it replaced, so it cannot be undone")
    # Other programs clean with other rules.
    there = view.files()
    slices = {(one.group, one.time) for one in there}
    for stats in (view.commit(instant).stats or {}).values():
        for stat in stats:
            group = GroupId(stat.partition_path or "", stat.file_id or "")
            before = stat.prev_commit or NO_COMMIT
            if before != NO_COMMIT and (group, before) not in slices:
                raise _gone_error(shown, group)
    for group in view.replaced(instant) - {one.group for one in there}:
        raise _gone_error(shown, group)


def _gone_error(shown: str, group: GroupId) -> ValueError:
    return ValueError(
        f"{shown}: the files that it replaced in file group {group.file_id} are gone, so it "
        "cannot be undone"
    )


def planned_rollback(view: TableView, rollback: Instant) -> RollbackPlan:
    """Return the plan of a rollback.

    Raises:
        CorruptionError: If the plan is damaged.
    """
    requested = replace(rollback, state=State.REQUESTED)
    return parse_plan(RollbackPlan, view.folder.read(requested), view.folder.path(requested))


def _files_of(view: TableView, time: str) -> list[FileSlice]:
    return [file for file in view.files() if file.time == time]


def _requests(view: TableView, files: Iterable[FileSlice]) -> tuple[RollbackRequest, ...]:
    by_partition: dict[str, list[str]] = {}
    for file in files:
        by_partition.setdefault(file.group.partition, []).append(view.location.full(file.path))
    return tuple(
        RollbackRequest(partition, tuple(paths)) for partition, paths in by_partition.items()
    )
