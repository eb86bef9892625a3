"""Move old instants from the timeline to the archive, so that a table opens fast.

Instants are written to the archive first, and are then removed from the timeline, the oldest first.
A killed archival leaves some instants in both, which the next archival removes.

Only the oldest commits are removed, without a gap, since a base file counts if it is older than the
first remaining commit. Commits stay if readers need them to decide which files belong to the table:
a commit that replaced file groups with files that still exist, or the first commit that a pending
instant, a clean or a savepoint depends on.

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
from lookupstore.quantities import counted

#: Defaults of Hudi for `hoodie.keep.min.commits` and `hoodie.keep.max.commits`.
MIN_COMMITS, MAX_COMMITS = 20, 30
# Maximum number of instants, and of their bytes, that are read and written to one archive file.
_MOST, _MOST_BYTES = 1000, 64 << 20


@dataclass(frozen=True)
class Archival:
    """The result of an archival.

    Attributes:
        instants: Instants that left the timeline, sorted by request time.
        first: Request time of the first commit that is left in the timeline. Time travel and
            incremental reads that begin before it raise `StaleStoreError` from now on. None: this
            archival archived nothing.
        kept_by: Description of what keeps further commits in the timeline, such as a savepoint or a
            pending instant. None: only the numbers and the order of commits do.
    """

    instants: tuple[Instant, ...] = ()
    first: str | None = None
    kept_by: str | None = None

    def __repr__(self) -> str:
        """Return the number of instants, which can be many, and the other fields."""
        count = counted(len(self.instants), "instant")
        return f"<Archival of {count}, first={self.first!r}, kept_by={self.kept_by!r}>"

    @property
    def commits(self) -> list[Instant]:
        """Return the archived commits, which time travel no longer reaches."""
        return [one for one in self.instants if one.is_write]


@dataclass(frozen=True)
class _Bound:
    """A time from which on commits stay, and the reason."""

    time: str
    why: str


def archive(
    view: TableView,
    lock: TableLock,
    *,
    min_commits: int = MIN_COMMITS,
    max_commits: int = MAX_COMMITS,
) -> Archival:
    """Archive the oldest commits if there are many, and rollbacks and cleans before.

    Args:
        view: View of the table, with the current timeline.
        lock: Lock of the table, which the caller holds.
        min_commits: Least number of the last commits that stay in the timeline.
        max_commits: Number of commits up to which nothing is archived.

    Raises:
        ValueError: If a number is out of range.
        CorruptionError: If the timeline, a clean, a savepoint or the archive is damaged.
        LockLostError: If the lock was lost. The next archival finishes this one.
    """
    check_commits(min_commits, max_commits)
    writes = view.timeline.writes()
    if len(writes) <= max_commits:
        return Archival()
    # Among many, instants other than commits would count as soon as the commits before them are
    # removed.
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
    """Check the numbers of commits that an archival is given.

    Raises:
        ValueError: If a number is out of range.
    """
    if not 1 <= min_commits <= max_commits:
        raise ValueError(
            f"min_commits is {min_commits}, max_commits {max_commits}; give at least 1, and at "
            "least as many: the last commit always stays"
        )


def _least_count(view: TableView, writes: Sequence[Instant]) -> int:
    """Return the number of last commits that alone show the columns, and the zone."""
    newest = enumerate(reversed(writes), 1)
    columns = next((count for count, one in newest if view.commit(one).schema is not None), 1)
    return max(columns, 1 if view.options.timezone == "UTC" else NEWEST)


def _ended_first(writes: Sequence[Instant], most: int) -> int:
    """Return the number of first commits that ended before all others, at most the given number.

    Incremental reads use the times at which commits ended: no removed commit may be in a range of
    the remaining ones.
    """
    positions = [one.position for one in writes]
    last = list(accumulate(positions, max))
    first = list(accumulate(reversed(positions), min))[::-1]
    return next((count for count in range(most, 0, -1) if last[count - 1] < first[count]), 0)


def _bounds(view: TableView) -> Iterator[_Bound]:
    """Yield the times from which on commits stay."""
    writes = view.timeline.writes()
    for pending in view.timeline.pending():
        # Until it is completed, readers see the table as of the commit before it.
        before = max((one.time for one in writes if one.time < pending.time), default=pending.time)
        yield _Bound(before, f"{view.folder.path(pending)}, which is not completed")
    for saved in savepoints(view):
        yield _Bound(saved, f"the savepoint of {saved}")
    earliest = earliest_whole(view)
    if earliest:
        yield _Bound(earliest, f"the last clean, which keeps commits from {earliest} on")
    if (listed := metadata_table(view)) is not None:
        # Java reads a log file of the metadata table only if the timeline has the instant that
        # wrote it.
        why = "the metadata table, of which Java reads what it has not compacted by the timeline"
        yield _Bound(listed.compacted(), why)
    there = {file.group for file in view.files()}
    for instant in writes:
        if instant.action == REPLACE and view.replaced(instant) & there:
            path = view.folder.path(instant)
            yield _Bound(instant.time, f"{path}, which replaced files that are there: clean first")
            break


def _services(view: TableView, last: str, first: str) -> Iterator[Instant]:
    """Yield the rollbacks and cleans before the last commit to archive.

    The last clean stays, since writers in Java plan with it. A clean that removed files of commits
    which stay in the timeline stays as well, since it records the removal.

    Args:
        view: View of the table.
        last: Request time of the last commit to archive.
        first: Request time of the first commit that stays.
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
    """Yield instants with the content of their files, in groups for one file of the archive."""
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
                        # A file that was copied back with an older date is not older than its name.
                        reached[state] = max(instant.time, written[one.file_name])
        batch.append(OldInstant(instant, contents, reached))
        if len(batch) >= _MOST or nbytes > _MOST_BYTES:
            yield batch
            batch, nbytes = [], 0
    if batch:
        yield batch


def _files(instant: Instant) -> Iterator[tuple[State, list[Instant]]]:
    """Yield the possible names of the files of an instant, by state."""
    for state in (State.REQUESTED, State.INFLIGHT):
        before = replace(instant, state=state, completed=None)
        names = [before]
        if instant.action == REPLACE:
            names.append(replace(before, action=CLUSTERING))
        yield state, names
    yield State.COMPLETED, [instant]


def _remove(view: TableView, old: Sequence[Instant], lock: TableLock) -> None:
    """Remove instants from the timeline.

    The files of states before completion are removed first: without the completed file, the instant
    would be pending. Completed files are removed from the oldest on, so that none is missing after
    the first remaining one.
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
