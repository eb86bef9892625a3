"""Taking back what an instant did: its files first, then what says that it was.

In that order each moment of it is harmless. While the instant is pending its files do not count,
whatever else is in the timeline; without it they would, if they were older than the first commit.
Every step can be done again, so the next writer finishes a rollback that was killed.

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
    """Roll back an instant that is not completed: its files, and itself.

    Nobody may be at work on it, but the caller.

    Args:
        view: of the table; its timeline need not be that of the moment.
        instant: to be taken back.
        lock: of the table, which is held.

    Returns:
        the rollback, completed.

    Raises:
        ValueError: the instant is completed, or writes no base files.
        CommitConflictError: it is gone, or somebody rolls it back already.
        LockLostError: the lock was lost; the next writer goes on.
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
    """Roll back an instant of the caller; if others do, or did, delete what they may have missed.

    Those that roll back look for files once. One that got its name after that is of no instant, and
    is taken for that of an archived one as soon as the commits before it are archived.

    Args:
        view: of the table; its timeline need not be that of the moment.
        instant: to be taken back, which the caller does not work on any more.
        lock: of the table, which is held.

    Raises:
        LockLostError: the lock was lost; the next writer goes on.
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
    """Roll back the last completed commit: readers see the table as it was before it.

    From the first step on it is an instant of a dead owner: what is killed in between is ended by
    the next writer.

    Args:
        view: of the table as it is.
        instant: to be taken back.
        lock: of the table, which is held.

    Raises:
        ValueError: it is not the last one, is kept by a savepoint, a clean has removed what it
            replaced, or its inflight file is not there.
        LockLostError: the lock was lost; the next writer goes on.
    """
    lock.check()
    _check_last(view, instant)
    return roll_back(view, withdraw(view, instant), lock)


def withdraw(view: TableView, instant: Instant) -> Instant:
    """Let a completed commit be pending again, as one of a dead owner, and return it as that.

    The caller holds the table's lock.

    Args:
        view: of the table; its timeline need not be that of the moment.
        instant: that readers do not see from now on.

    Raises:
        ValueError: its inflight file is not there.
    """
    pending = view.folder.before(instant)
    Heartbeats(view.location).claim(instant.time)
    # Java's writers may be the ones who find it pending.
    before = {file.group for file in view.files() if file.time < instant.time}
    for file in view.written(instant):
        mark(view.location, file.path, file.time, replaces=file.group in before)
    # In this moment readers see the table as it was.
    view.folder.delete(instant)
    return pending


def roll_back_named(view: TableView, time: str, lock: TableLock) -> Instant:
    """Roll back the instant of a request time: one of a dead writer, or the last commit.

    Of an instant of another program nobody but the caller knows that it is dead. A rollback of it
    that another program began, and died on, is finished.

    Args:
        view: of the table as it is.
        time: of the instant.
        lock: of the table, which is held.

    Raises:
        ValueError: there is none, its owner is or may be alive, or it cannot be taken back.
        CorruptionError: the plan of a rollback that has begun is damaged.
        LockLostError: the lock was lost; the next writer goes on.
    """
    found = [one for one in view.timeline if one.time == time and one.is_write]
    if not found:
        raise ValueError(f"instant is {time!r}; give the time of a commit: timeline() lists them")
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
    """Finish what dead writers of ours left: rollbacks, then instants that write, then heartbeats.

    Instants of other programs, and of those who are or may be at work, stay as they are. Of dead
    ones whose instants others rolled back the files go that these did not find.

    Args:
        view: of the table; its timeline need not be that of the moment.
        lock: of the table, which is held.

    Returns:
        the rollbacks, completed.

    Raises:
        CorruptionError: a plan is damaged.
        LockLostError: the lock was lost; the next writer goes on.
    """
    lock.check()
    heartbeats = Heartbeats(view.location)
    beating = heartbeats.times()
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
                # Planned by one that had lost the lock: its instant was alive, and is done.
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
    """Check that no other program is on its way back to a savepoint.

    What is committed meanwhile is neither before the savepoint nor after the commits that go.

    Raises:
        CommitConflictError: one is, or died on it.

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
    """Check that an instant is there, and that no rollback of it has begun.

    To be asked under the lock before the instant is completed: files of it may be gone.

    Args:
        view: of the table as it is.
        instant: that is pending.

    Raises:
        CommitConflictError: it is gone, or its rollback is planned.
        CorruptionError: a plan is damaged.
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
    """Return the pending rollback of an instant, with its plan; None: there is none."""
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
    """Complete the rollback of an instant that is not completed, which a killed program began.

    Raises:
        CorruptionError: its plan names what is not the table's.
    """
    check_deleted(plan, view.folder.path(replace(rollback, state=State.REQUESTED)))
    if rollback.state is State.REQUESTED:
        rollback = view.folder.start(rollback)
    return finish(view, rollback, plan, lock)


def finish(view: TableView, rollback: Instant, plan: RollbackPlan, lock: TableLock) -> Instant:
    """Do what a plan says, or what is left of it."""
    began = clock.monotonic()
    lock.check()
    target = plan.instant_to_rollback
    if target is None or not Instant(target.commit_time, target.action, State.INFLIGHT).is_write:
        path = view.folder.path(replace(rollback, state=State.REQUESTED))
        raise CorruptionError(path, 0, "instantToRollback: one that writes files", target)
    # First: as long as the instant is pending, readers pass over it there as well.
    forget_instant(view, target.commit_time, rollback.time, lock)
    # Those that came after the plan was made are found, too.
    files = _files_of(view, target.commit_time)
    delete_files(view, files)
    _delete_statistics(view, target.commit_time)
    delete_staged(view.location, target.commit_time)
    delete_markers(view.location, target.commit_time)
    lock.check()
    # Its last word first: who is killed in between leaves a pending instant.
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
    """Delete the statistics that an instant has kept; those that stay are of files that are gone.

    A failure is a warning: they say nothing wrong of any other file.
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
        # Without any commit nothing says that files of those before it count.
        raise ValueError(
            f"{shown}: the commits before it are archived, in {view.archive.shown}, so it cannot "
            "be undone; write rows that undo what it did"
        )
    previous = max((one.time for one in writes if one != instant), default="")
    if earliest_whole(view) > previous:
        raise ValueError(f"{shown}: a clean removed files that it replaced, so it cannot be undone")
    # Other programs clean by other rules.
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
    """Return what a rollback is to do.

    Raises:
        CorruptionError: its plan is damaged.
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
