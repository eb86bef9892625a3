"""Moving what is old from the timeline to the archive, so that a table opens as it did when young.

Instants are written to the archive first, and leave the timeline when they are in it, the oldest
first. A killed archival leaves some that are in both, which the next one takes out.

Only the oldest commits go, without a gap, since a base file counts if it is older than the first
commit that is left. So none goes that a reader needs to know which of these are the table's: a
commit that replaced file groups whose files are still there, or one from which on a pending
instant, a clean or a savepoint promises something.

Source: TimelineArchiverV1, TimelineArchiverV2 and ClusteringUtils of Apache Hudi.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import accumulate

from lookupstore.hudi.locking.lock import TableLock
from lookupstore.hudi.metadata.maintain import metadata_table
from lookupstore.hudi.services.never_completed import delete_never_completed
from lookupstore.hudi.services.savepoint import earliest_whole, savepoints
from lookupstore.hudi.timeline.archive import OldInstant
from lookupstore.hudi.timeline.plans import CleanMetadata, parse_plan
from lookupstore.hudi.timeline.timeline import (
    CLEAN,
    CLUSTERING,
    NEWEST,
    REPLACE,
    ROLLBACK,
    Instant,
    State,
)
from lookupstore.hudi.view import TableView

#: As Hudi has them, `hoodie.keep.min.commits` and `hoodie.keep.max.commits`.
MIN_COMMITS, MAX_COMMITS = 20, 30
# What is read, and written to one file of the archive, at once: instants and their bytes.
_MOST, _MOST_BYTES = 1000, 64 << 20


@dataclass(frozen=True)
class Archival:
    """What an archival did.

    Attributes:
        instants: that left the timeline, by request time.
        first: request time of the first commit that is left: time travel to before it, and
            incremental reads from before it, are a `StaleStoreError` from now on. None: nothing is
            archived now.
        kept_by: why not more went, if it is not by the numbers: what the first commit is kept for.
    """

    instants: tuple[Instant, ...] = ()
    first: str | None = None
    kept_by: str | None = None

    @property
    def commits(self) -> list[Instant]:
        """Return the archived commits, which time travel no longer reaches."""
        return [one for one in self.instants if one.is_write]


@dataclass(frozen=True)
class _Bound:
    """A time from which on commits stay, and why."""

    time: str
    why: str


def archive(
    view: TableView,
    lock: TableLock,
    *,
    min_commits: int = MIN_COMMITS,
    max_commits: int = MAX_COMMITS,
) -> Archival:
    """Archive the oldest commits if there are many, and rollbacks and cleans before the last of it.

    Args:
        view: of the table as it is.
        lock: of the table, which is held.
        min_commits: how many of the last commits stay in the timeline at least.
        max_commits: how many may be there before any is archived.

    Raises:
        ValueError: a number is out of range.
        CorruptionError: the timeline, a clean, a savepoint or the archive is damaged.
        LockLostError: the lock was lost; the next archival goes on.
    """
    check_commits(min_commits, max_commits)
    writes = view.timeline.writes()
    if len(writes) <= max_commits:
        return Archival()
    # Of many, those that are not committed would count as soon as the commits before them go.
    delete_never_completed(view)
    count = len(writes) - max(min_commits, _least_count(view, writes))
    bound = min(_bounds(view), key=lambda one: one.time, default=None)
    going = [one for one in writes[: max(0, count)] if bound is None or one.time < bound.time]
    kept_by = bound.why if bound is not None and len(going) < count else None
    del going[_ended_first(writes, len(going)) :]
    if not going:
        return Archival(kept_by=kept_by)
    first = writes[len(going)].time
    old = sorted((*going, *_services(view, going[-1].time, first)), key=lambda one: one.time)
    there = view.archive.added_last()
    for batch in _batches(view, old):
        new = [one for one in batch if one.instant not in there]
        if new:
            lock.check()
            view.archive.add(new, lock.check)
        _remove(view, [one.instant for one in batch], lock)
    view.archive.tidy(lock.check)
    return Archival(tuple(old), first, kept_by)


def check_commits(min_commits: int, max_commits: int) -> None:
    """Check how many commits an archival is to leave.

    Raises:
        ValueError: a number is out of range.
    """
    if not 1 <= min_commits <= max_commits:
        raise ValueError(
            f"min_commits is {min_commits}, max_commits {max_commits}; give at least 1, and at "
            "least as many: the last commit always stays"
        )


def _least_count(view: TableView, writes: Sequence[Instant]) -> int:
    """Return how many of the last commits say what else nobody does: columns, and the zone."""
    newest = enumerate(reversed(writes), 1)
    columns = next((count for count, one in newest if view.commit(one).schema is not None), 1)
    return max(columns, 1 if view.options.timezone == "UTC" else NEWEST)


def _ended_first(writes: Sequence[Instant], most: int) -> int:
    """Return how many of the first commits ended before all others: at most as many as given.

    Incremental reads go by when commits ended: none that went may be in a range of those that stay.
    """
    positions = [one.position for one in writes]
    last = list(accumulate(positions, max))
    first = list(accumulate(reversed(positions), min))[::-1]
    return next((count for count in range(most, 0, -1) if last[count - 1] < first[count]), 0)


def _bounds(view: TableView) -> Iterator[_Bound]:
    """Yield from when on commits stay."""
    writes = view.timeline.writes()
    for pending in view.timeline.pending():
        # Readers see the table as of the commit before it until it is completed.
        before = max((one.time for one in writes if one.time < pending.time), default=pending.time)
        yield _Bound(before, f"{view.folder.path(pending)}, which is not completed")
    for saved in savepoints(view):
        yield _Bound(saved, f"the savepoint of {saved}")
    earliest = earliest_whole(view)
    if earliest:
        yield _Bound(earliest, f"the last clean, which keeps commits from {earliest} on")
    if (listed := metadata_table(view)) is not None:
        # Java reads a log file of it only if the timeline has the instant that wrote it.
        why = "the metadata table, of which Java reads what it has not compacted by the timeline"
        yield _Bound(listed.compacted(), why)
    there = {file.group for file in view.files()}
    for instant in writes:
        if instant.action == REPLACE and view.replaced(instant) & there:
            path = view.folder.path(instant)
            yield _Bound(instant.time, f"{path}, which replaced files that are there: clean first")
            break


def _services(view: TableView, last: str, first: str) -> Iterator[Instant]:
    """Yield the rollbacks and cleans before the last commit that goes.

    The last clean stays, since writers in Java plan by it, and one that removed files that commits
    which stay had, since it says so.

    Args:
        view: of the table.
        last: time of the last commit that goes.
        first: time of the first one that stays.
    """
    cleans = [one for one in view.timeline if one.action == CLEAN and one.is_completed]
    for instant in view.timeline:
        if not instant.is_completed or instant.time >= last:
            continue
        if instant.action == ROLLBACK:
            yield instant
        elif instant.action == CLEAN and instant != cleans[-1]:
            path = view.folder.path(instant)
            done = parse_plan(CleanMetadata, view.folder.read(instant), path)
            if done.earliest_commit_to_retain <= first:
                yield instant


def _batches(view: TableView, old: Sequence[Instant]) -> Iterator[list[OldInstant]]:
    """Yield instants with what their files hold, as many as go to one file of the archive."""
    batch: list[OldInstant] = []
    nbytes = 0
    written = view.folder.times_written(view.timeline)
    for instant in old:
        contents, reached = {}, {}
        for state, names in _files(instant):
            for one in names:
                with suppress(FileNotFoundError):
                    contents[state] = view.folder.read(one)
                    nbytes += len(contents[state])
                    if one.file_name in written:
                        # A file that was copied back with an older date is no older than its name.
                        reached[state] = max(instant.time, written[one.file_name])
        batch.append(OldInstant(instant, contents, reached))
        if len(batch) >= _MOST or nbytes > _MOST_BYTES:
            yield batch
            batch, nbytes = [], 0
    if batch:
        yield batch


def _files(instant: Instant) -> Iterator[tuple[State, list[Instant]]]:
    """Yield what the files of an instant may be called, by the state that they say."""
    for state in (State.REQUESTED, State.INFLIGHT):
        before = replace(instant, state=state, completed=None)
        names = [before]
        if instant.action == REPLACE:
            names.append(replace(before, action=CLUSTERING))
        yield state, names
    yield State.COMPLETED, [instant]


def _remove(view: TableView, old: Sequence[Instant], lock: TableLock) -> None:
    """Take instants out of the timeline.

    What says that one was begun goes first: alone, it would be pending. Of what is completed the
    oldest goes first, so that none is missing after the first one that is there.
    """
    lock.check()
    view.folder.delete(
        *(
            one
            for instant in old
            for state, names in _files(instant)
            if state is not State.COMPLETED
            for one in names
        )
    )
    for instant in old:
        lock.check()
        view.folder.delete(instant)
