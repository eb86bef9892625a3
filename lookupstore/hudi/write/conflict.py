"""Check whether commits since the beginning of a write conflict with it.

The checks compare two views of the table: the view in which the write found its keys, and the view
under the lock, just before the commit.

Source: SimpleConcurrentFileWritesConflictResolutionStrategy of Apache Hudi, which compares request
times, and so misses an instant that was requested before the first view and completed after it.
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

#: Maximum number of keys that an error names.
SAMPLE = 5

_AGAIN = "read the table again, then write again"
_WAIT = (
    "wait until the clustering is completed, then write again; if its writer is dead, "
    "rollback({0!r}) ends it"
)


@dataclass(frozen=True)
class Change:
    """The change of file groups by another writer, completed or pending.

    Attributes:
        instant: Instant of the change.
        writer: Name of the other writer. None: the commit does not contain it.
        groups: File groups that have a new slice or are removed, or are about to be.
        written: New slices.
    """

    instant: Instant
    writer: str | None
    groups: frozenset[GroupId]
    written: tuple[FileSlice, ...] = ()


def changes_since(before: TableView, now: TableView) -> list[Change]:
    """Return the changes between two views, by request time, then pending clustering.

    Raises:
        CorruptionError: If a commit or a plan is damaged.
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
    """Return the file groups that pending clustering is about to replace.

    Raises:
        CorruptionError: If a plan is damaged.
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
        # An overwrite has no plan, and in some versions not even a file for one.
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
        before: Table as the write found it.
        now: Table as it is now, under the lock.
        touched: File groups that receive a new slice or are removed, each with some keys of the
            write in it.
        own: Time of the write's own instant, which is not a conflict.

    Raises:
        CommitConflictError: If another writer changed one of these file groups, or a commit that
            this write saw was rolled back.
        CorruptionError: If a commit or a plan is damaged.
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
    """Check that no pending clustering replaces file groups that a write replaces.

    Args:
        view: View of the table.
        touched: File groups that receive a new slice or are removed, each with some keys of the
            write in it.

    Raises:
        CommitConflictError: If a pending clustering replaces one of these file groups.
        CorruptionError: If a plan is damaged.
    """
    if touched:
        _check_apart(view, pending_clustering(view), touched)


def _check_apart(
    view: TableView, changes: Sequence[Change], touched: Mapping[GroupId, Sequence[str]]
) -> None:
    """Check that other writers' changes and a write have no file group in common."""
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
    """Return the current base files of commits that a write did not see, by path.

    Two writers may insert the same new key, each into its own file group. The second one to commit
    looks for its inserted keys in these files, under the lock, and raises an error if it finds one.

    Raises:
        CorruptionError: If the timeline is damaged.
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
    """Check that no other writer added rows to the partitions that a write replaces.

    Args:
        before: Table as the write found it.
        now: Table as it is now, under the lock.
        partitions: Paths of the partitions that the write overwrites. None: all partitions.

    Raises:
        CommitConflictError: If another writer added rows. The table would keep them next to the
            rows of the write.
        CorruptionError: If the timeline is damaged.
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
    """Return the error for keys that another writer has also inserted.

    Args:
        view: View of the table.
        change: Change of the other writer that wrote the file.
        file: File in which the keys were found.
        keys: Keys that both writers inserted.
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
