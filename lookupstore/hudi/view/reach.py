"""Checks that all files and commits that a view needs still exist.

A clean, a rollback or the archival of commits may have removed them, also while they are read.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from typing import TYPE_CHECKING

from lookupstore.errors import StaleStoreError
from lookupstore.hudi.file_group.groups import CommittedInstants, FileGroup
from lookupstore.hudi.timeline.archive import completed_writes
from lookupstore.hudi.timeline.cleans import CleanedFile, cleaned_files
from lookupstore.hudi.timeline.names import BASE_FILE, LOG_FILE, GroupId
from lookupstore.hudi.timeline.timeline import CLEAN, SAVEPOINT, Instant, Timeline
from lookupstore.storage.location import FoundFile

if TYPE_CHECKING:  # the view calls these checks
    from lookupstore.hudi.view.table_view import TableView


def check_not_cleaned(
    view: TableView,
    groups: Sequence[FileGroup],
    replaced: Collection[GroupId],
    later: Collection[str],
    argument: str,
    moment: str,
) -> None:
    """Check that no clean has removed a file that the table needs as of a moment.

    Args:
        view: State of the table.
        groups: File groups as of the moment, from the files that still exist.
        replaced: File groups that were replaced by then.
        later: Request times of the commits after the moment.
        argument: Name of the caller's argument, which errors name.
        moment: Request time or position of an instant.
    """
    cleaned = cleaned_files(view.folder, view.timeline, moment)
    missing = _missing(
        view, cleaned, groups, replaced, lambda time: time not in later and time <= moment
    )
    if missing:
        # Instants that were replaced long ago are in the archive.
        for commit in view.archive.commits():
            for partition, ids in (commit.replaced or {}).items():
                for file_id in ids:
                    missing.pop(GroupId(partition, file_id), None)
    for file in missing.values():
        raise StaleStoreError(
            f"{view.location.show(file.path)}: removed by the clean {file.clean.time}, so that the "
            f"table as of {moment} lacks rows; give a later {argument}, or savepoint a commit "
            "before its files are cleaned"
        )


def _missing(
    view: TableView,
    cleaned: Iterable[CleanedFile],
    groups: Sequence[FileGroup],
    replaced: Collection[GroupId],
    counts: Callable[[str], bool],
) -> dict[GroupId, CleanedFile]:
    """Return the removed files that were those of current slices.

    Args:
        view: State of the table.
        cleaned: Files that cleans removed.
        groups: File groups from the files that still exist.
        replaced: File groups that were replaced.
        counts: Function that returns whether the files of an instant count, given its request time.
    """
    newest = {group.id: group.current.time for group in groups}
    missing: dict[GroupId, CleanedFile] = {}
    for file in cleaned:
        match = BASE_FILE.fullmatch(file.name)
        if match is None and view.merges_logs:
            match = LOG_FILE.fullmatch(file.name)
        if match is None or not counts(match["time"]):
            continue
        group = GroupId(file.partition, match["file_id"])
        if group not in replaced and newest.get(group, "") < match["time"]:
            missing[group] = file
    return missing


def check_listed(
    view: TableView,
    as_of: str | None,
    found: Sequence[FoundFile],
    groups: Sequence[FileGroup],
    replaced: Collection[GroupId],
) -> None:
    """Check that no file was deleted between reading the timeline and listing files.

    Only rollbacks and cleans delete files. A rollback deletes the completed file of the commit
    first, and a clean requests its instant first, so that the timeline shows both.

    Args:
        view: State of the table.
        as_of: Request time of the last instant that counts. None: all instants count.
        found: Files that were listed.
        groups: File groups with base files, from these files.
        replaced: File groups that were replaced.
    """
    now = view.folder.load()
    if now == view.timeline:
        return
    seen = {instant.time for instant in view.timeline.writes(as_of)}
    there = {instant.time for instant in now.writes()}
    gone = seen - there
    for time in sorted(gone - completed_writes(view.archive, gone)):
        raise StaleStoreError(f"{view.location.uri}: {time} was rolled back; read again")
    # A clean removes files that were current until a commit which the view does not know.
    known = {instant.time for instant in view.timeline if instant.action == CLEAN}
    cleans = Timeline(tuple(one for one in now if one.action == CLEAN and one.time not in known))
    listed = {file.name for file in found}
    cleaned = (file for file in cleaned_files(view.folder, cleans, "") if file.path not in listed)
    counts = CommittedInstants.of(view.timeline, as_of).include
    for file in _missing(view, cleaned, groups, replaced, counts).values():
        raise StaleStoreError(
            f"{view.location.show(file.path)}: removed by the clean {file.clean.time} while the "
            "table was read; read it again"
        )


def check_reached(
    view: TableView, argument: str, moment: str | None, of: Callable[[Instant], str]
) -> None:
    """Check that the timeline goes back to a moment, so that a view of it is complete.

    Archived commits and cleans do not show which rows they replaced or removed since then.

    Args:
        view: State of the table.
        argument: Name of the caller's argument, which errors name.
        moment: Request time or position of an instant. None: the current table.
        of: Function that returns the request time or the position of an instant.
    """
    begin = first_time(view.timeline)
    if moment is None or begin is None:
        return
    writes = view.timeline.writes()
    first = min(of(one) for one in writes if one.time >= begin)
    # A savepoint keeps its commit, and its files.
    if moment >= first or moment in map(of, writes) or view.archive.is_empty():
        return
    raise StaleStoreError(
        f"{view.location.uri}: {argument} is {moment}, but commits before {first} are "
        f"archived, in {view.archive.shown}: the table as of them cannot be read; give "
        f"{first} or later"
    )


def check_begun(view: TableView, as_of: str) -> None:
    """Check that a table had a commit at a time, after `check_reached`.

    Args:
        view: State of the table. A table without commits has no rows at any time.
        as_of: Request time of an instant.

    Raises:
        ValueError: If the first commit is later.
    """
    writes = view.timeline.writes()
    if writes and not any(one.time <= as_of for one in writes):
        raise ValueError(
            f"{view.location.uri}: as_of is {as_of}, when the table had no commit yet; give a "
            f"later time: the first commit is {min(one.time for one in writes)}"
        )


def check_changes_reached(view: TableView, since: str | None) -> None:
    """Check that no archived commit is after a position."""
    # Savepoints are kept when later commits are archived.
    first = first_time(view.timeline)
    writes = view.timeline.writes()
    positions = [one.position for one in writes if first is not None and one.time >= first]
    if since is not None and positions and since >= min(positions):
        return
    last = max((one.position for one in view.archive.instants() if one.is_write), default="")
    if last > (since or ""):
        said = "since is not given" if since is None else f"since is {since}"
        raise StaleStoreError(
            f"{view.location.uri}: {said}, but commits up to {last} are archived, in "
            f"{view.archive.shown}: the rows do not show what these changed; read all "
            f"rows, then continue from {last} or later"
        )


def first_time(timeline: Timeline) -> str | None:
    """Return the time before which files belong to archived commits; None: unknown.

    Commits with a savepoint do not count, because they are kept when later commits are archived.
    """
    saved = {instant.time for instant in timeline if instant.action == SAVEPOINT}
    return next((one.time for one in timeline.writes() if one.time not in saved), None)
