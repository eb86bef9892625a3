"""Files of instants that never completed, and that are not in the timeline any more.

A rollback of an instant searches for its files once: by their markers, as Apache Hudi does, or in
the folders. Files that were renamed later, or had no marker, remain. As long as such a file is
later than the first commit of the timeline, no reader counts it. When older commits are archived,
readers treat it as one of their files.

A file that readers count is deleted only if it is proven that its instant never completed: a
rollback in the timeline or in the archive names it as a commit, and the archive does not have the
commit. A missing commit alone proves nothing, because archives may be incomplete. Instants that
cluster or compact may be rolled back, and completed later under the same time.

Source: org.apache.hudi.common.table.timeline.BaseHoodieTimeline (isBeforeTimelineStarts).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass

from lookupstore.errors import CorruptionError
from lookupstore.hudi.file_group.groups import FileSlice
from lookupstore.hudi.metadata.maintain import forget_files
from lookupstore.hudi.timeline.archive import completed_writes
from lookupstore.hudi.timeline.plans import RestoreMetadata, RollbackMetadata, parse_plan
from lookupstore.hudi.timeline.timeline import COMMIT, RESTORE, ROLLBACK
from lookupstore.hudi.view import TableView, first_time


@dataclass(frozen=True)
class StrayFile:
    """A base file of an instant that never completed and has no writer at work on it.

    Attributes:
        file: Base file.
        counts: Whether readers take the file for one of an archived commit, so that its rows are
            read.
    """

    file: FileSlice
    counts: bool


def never_completed(view: TableView, times: Collection[str] | None = None) -> list[StrayFile]:
    """Return the files of instants that never completed, by path.

    Args:
        view: View of the table; its timeline may be out of date.
        times: Request times of the instants to look at. None: all instants.

    Raises:
        FormatError: If a Parquet file is not named as a base file, and the view does not collect
            such files.
        CorruptionError: If a rollback or the archive is damaged. They are read if there are files
            older than the timeline.
    """
    files = [one for one in view.files() if times is None or one.time in times]
    if not files:
        return []
    # The view is read after the files were listed: an instant exists before its files do.
    view = view.reloaded()
    known = {instant.time for instant in view.timeline}
    absent = [one for one in files if one.time not in known]
    first = first_time(view.timeline)
    unclear = {one.time for one in absent if first is None or one.time < first}
    rolled_back = _never_committed(view, unclear)
    return [
        StrayFile(one, first is not None and one.time < first)
        for one in absent
        if (first is not None and one.time > first) or one.time in rolled_back
    ]


def delete_never_completed(view: TableView, times: Collection[str] | None = None) -> None:
    """Delete the files of instants that never completed; see `never_completed`.

    The caller holds the table's lock.
    """
    files = [one.file for one in never_completed(view, times)]
    forget_files(view, files)
    delete_files(view, files)


def check_completed(view: TableView, current: Iterable[FileSlice]) -> None:
    """Check that current base files were written by completed instants.

    The next base files are made from them.

    Args:
        view: View of the table.
        current: Base files that are current in the file groups of the table.

    Raises:
        CorruptionError: If the instant of a file was rolled back.
    """
    known = {instant.time for instant in view.timeline}
    absent = [one for one in current if one.time not in known]
    # Files of archived commits: there are none if nothing is archived.
    rolled_back = _rolled_back(view) if absent else frozenset()
    for file in absent:
        if file.time in rolled_back:
            raise CorruptionError(
                view.location.show(file.path),
                0,
                "a base file of a completed commit",
                f"one of {file.time}, which was rolled back; call rollback(), which deletes it",
            )


def delete_files(view: TableView, files: Iterable[FileSlice]) -> None:
    """Delete base files for good."""
    partitions = set()
    for file in files:
        view.location.delete(file.path)
        partitions.add(file.group.partition)
    # After a power failure, names of files must not reappear without a record of what they are.
    for partition in sorted(partitions):
        view.location.sync(partition)


def _never_committed(view: TableView, times: set[str]) -> set[str]:
    """Return which times are those of commits that were rolled back, recently or earlier."""
    left = times - completed_writes(view.archive, times)
    proven = left & _rolled_back(view) if left else set[str]()
    if left - proven:
        for metadata in view.archive.rollbacks():
            proven |= left & _commits_of(metadata)
    return proven


def _rolled_back(view: TableView) -> frozenset[str]:
    """Return the times of commits that rollbacks in the timeline name.

    Java deletes those of a restore when it is completed, which names what each did.
    """
    found: set[str] = set()
    for instant in view.timeline:
        path = view.folder.path(instant)
        if instant.action == ROLLBACK and instant.is_completed:
            found |= _commits_of(parse_plan(RollbackMetadata, view.folder.read(instant), path))
        elif instant.action == RESTORE and instant.is_completed:
            restored = parse_plan(RestoreMetadata, view.folder.read(instant), path)
            for metadata in (one for many in restored.rollbacks.values() for one in many):
                found |= _commits_of(metadata) if metadata is not None else set()
    return frozenset(found)


def _commits_of(metadata: RollbackMetadata) -> set[str]:
    return {one.commit_time for one in metadata.instants_rollback if one.action == COMMIT}
