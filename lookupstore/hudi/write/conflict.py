"""What was committed since a write looked at the table, and whether that is in its way.

All is decided from two views of the table: the one that the write found its keys in, and the one
that it sees when it holds the lock and is about to commit.

Source: SimpleConcurrentFileWritesConflictResolutionStrategy of Apache Hudi, which goes by request
times, and so passes over an instant that began before and ended after the write looked.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from lookupstore.errors import CommitConflictError
from lookupstore.hudi.file_group.groups import FileSlice, parse_base_file
from lookupstore.hudi.timeline.archive import completed_writes
from lookupstore.hudi.timeline.commit import WRITER
from lookupstore.hudi.timeline.names import GroupId
from lookupstore.hudi.timeline.plans import RequestedReplace, parse_plan
from lookupstore.hudi.timeline.timeline import CLUSTERING, REPLACE, Instant, State
from lookupstore.hudi.view import TableView

#: Keys that an error names.
SAMPLE = 5

_AGAIN = "read the table again, then write again"
_WAIT = (
    "wait until the clustering is completed, then write again; if its writer is dead, "
    "rollback({0!r}) ends it"
)


@dataclass(frozen=True)
class Change:
    """What another writer did, or is going to do, to the file groups of a table.

    Attributes:
        instant: by which it did that.
        writer: who that was, if the commit says so.
        groups: that have a new slice, are gone, or are about to.
        written: the new slices.
    """

    instant: Instant
    writer: str | None
    groups: frozenset[GroupId]
    written: tuple[FileSlice, ...] = ()


def changes_since(before: TableView, now: TableView) -> list[Change]:
    """Return what happened between two views, by request time, and what clustering is pending.

    Raises:
        CorruptionError: a commit or a plan is damaged.
    """
    known = {(one.time, one.position) for one in before.timeline.writes()}
    changes = []
    for instant in now.timeline.writes():
        if (instant.time, instant.position) not in known:
            commit = now.commit(instant)
            written = tuple(now.written(instant))
            groups = {one.group for one in written} | now.replaced(instant)
            writer = (commit.extra_metadata or {}).get(WRITER)
            changes.append(Change(instant, writer, frozenset(groups), written))
    return changes + pending_clustering(now)


def pending_clustering(view: TableView) -> list[Change]:
    """Return the file groups that clustering which is not completed is going to replace.

    Raises:
        CorruptionError: a plan is damaged.
    """
    changes = []
    for instant in view.timeline.pending():
        if instant.action not in (CLUSTERING, REPLACE):
            continue
        requested = Instant(instant.time, instant.action, State.REQUESTED)
        try:
            content = view.folder.read(requested)
        except FileNotFoundError:  # rolled back since the timeline was listed
            continue
        # An overwrite has no plan, in some versions not even a file that says so.
        if content:
            plan = parse_plan(RequestedReplace, content, view.folder.path(requested))
            groups = frozenset(_planned(plan, view.folder.path(requested)))
            if groups:
                changes.append(Change(instant, None, groups))
    return changes


def check_groups(
    before: TableView,
    now: TableView,
    touched: Mapping[GroupId, Sequence[str]],
    own: str = "",
) -> None:
    """Check that no other writer touched the file groups that a write replaces.

    Args:
        before: the table as the write found it.
        now: the table as it is, under the lock.
        touched: each group that gets a new slice or goes, with keys of the write in it.
        own: time of the write, which may be a clustering itself.

    Raises:
        CommitConflictError: somebody did; what the write made of these groups would hide it.
        CorruptionError: a commit or a plan is damaged.
    """
    there = {one.time for one in now.timeline.writes()}
    absent = {one.time for one in before.timeline.writes()} - there
    there |= completed_writes(now.archive, absent)
    for instant in before.timeline.writes():
        if instant.time not in there:
            gone = Change(instant, None, frozenset())
            raise _conflict_error(now, gone, "was rolled back since this write began", (), ())
    changes = [one for one in changes_since(before, now) if one.instant.time != own]
    _check_apart(now, changes, touched)


def check_not_clustered(view: TableView, touched: Mapping[GroupId, Sequence[str]]) -> None:
    """Check that no clustering is pending that takes away what a write is about to replace.

    Args:
        view: of the table.
        touched: as of `check_groups`.

    Raises:
        CommitConflictError: one is, whose rows are those before the write.
        CorruptionError: a plan is damaged.
    """
    if touched:
        _check_apart(view, pending_clustering(view), touched)


def _check_apart(
    view: TableView, changes: Sequence[Change], touched: Mapping[GroupId, Sequence[str]]
) -> None:
    """Check that changes of others have no file group in common with those of a write."""
    for change in changes:
        common = sorted(change.groups & set(touched))
        if not common:
            continue
        keys = [key for group in common for key in touched[group][:SAMPLE]][:SAMPLE]
        written = {one.group: one.path for one in change.written}
        files = tuple(written.get(group, "/".join(filter(None, group))) for group in common)
        did, remedy = "changed", _AGAIN
        if not change.instant.is_completed:
            did, remedy = "is about to replace", _WAIT.format(change.instant.time)
        what = f"{did} file groups that this write replaces"
        raise _conflict_error(view, change, what, files, keys, remedy)


def newer_files(before: TableView, now: TableView) -> list[tuple[Change, FileSlice]]:
    """Return the base files that hold rows of commits that a write did not see, by path.

    Two writers may insert one new key, each into a file group of its own: whoever commits second
    looks for its inserted keys in these, under the lock, and raises `key_conflict` if one is there.

    Raises:
        CorruptionError: the timeline is damaged.
    """
    current = {group.current.path for group in now.groups(None)}
    return sorted(
        (
            (change, file)
            for change in changes_since(before, now)
            for file in change.written
            if file.path in current
        ),
        key=lambda pair: pair[1].path,
    )


def check_overwritten(
    before: TableView, now: TableView, partitions: Collection[str] | None
) -> None:
    """Check that no other writer added rows to what a write replaces.

    Args:
        before: the table as the write found it.
        now: the table as it is, under the lock.
        partitions: paths of what is overwritten; None: the whole table.

    Raises:
        CommitConflictError: somebody did; the rows would stay beside those of the write.
        CorruptionError: the timeline is damaged.
    """
    if partitions is not None and not partitions:
        return
    for change, file in newer_files(before, now):
        if partitions is None or file.group.partition in partitions:
            what = "added rows to what this write replaces"
            raise _conflict_error(now, change, what, (file.path,), ())


def key_conflict_error(
    view: TableView, change: Change, file: FileSlice, keys: Sequence[str]
) -> CommitConflictError:
    """Return the error for keys that another writer inserted as well.

    Args:
        view: of the table.
        change: that the file is of.
        file: in which the keys were found.
        keys: that are in it.
    """
    what = "inserted keys that this write inserts, too"
    return _conflict_error(view, change, what, (file.path,), list(keys[:SAMPLE]))


def _conflict_error(
    view: TableView,
    change: Change,
    what: str,
    files: tuple[str, ...],
    keys: Sequence[str],
    remedy: str = _AGAIN,
) -> CommitConflictError:
    instant = change.instant
    writer = f" of {change.writer}" if change.writer else ""
    named = ": " + ", ".join(files[:3]) + (", ..." if len(files) > 3 else "") if files else ""
    sample = f"; keys such as {', '.join(map(repr, keys))}" if keys else ""
    return CommitConflictError(
        f"{view.location.uri}: {instant.action} {instant.time}{writer} {what}{named}{sample}; "
        f"nothing was committed: {remedy}",
        instant=instant.time,
        writer=change.writer,
        files=files,
        keys=tuple(keys),
        is_pending=not instant.is_completed,
    )


def _planned(plan: RequestedReplace, shown: str) -> set[GroupId]:
    """Return the file groups of a clustering plan."""
    clustering = plan.clustering_plan
    if clustering is None:
        return set()
    groups = set()
    for group in clustering.input_groups or ():
        for one in group.slices or ():
            partition = one.partition_path or ""
            file_id = one.file_id
            if not file_id:
                name = (one.data_file_path or "").rpartition("/")[2]
                path = f"{partition}/{name}" if partition else name
                file_id = parse_base_file(path, 0, shown).group.file_id
            groups.add(GroupId(partition, file_id))
    return groups
