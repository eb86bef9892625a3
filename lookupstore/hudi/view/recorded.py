"""Compare the files of a table with those that commits record.

Folders do not show that a file is missing: readers would return the rows of an older file, without
a change, or none. In version 6, later commits may append to a log file: it is then longer than the
first of them records, and never shorter.

Source: org.apache.hudi.io.HoodieAppendHandle.close of Apache Hudi.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from lookupstore.errors import CorruptionError
from lookupstore.hudi.file_group.groups import FileGroup, FileSlice
from lookupstore.hudi.log.slices import LogFile, MergedSlice
from lookupstore.hudi.timeline.names import GroupId, is_log_file
from lookupstore.storage.location import FoundFile

if TYPE_CHECKING:  # the view calls the check
    from lookupstore.hudi.view.table_view import TableView


class WrongLog(NamedTuple):
    """A log file that is missing, or lacks its end.

    Attributes:
        file: Log file as a commit records it.
        bytes: Size of the file. None: it is missing.
    """

    file: LogFile
    bytes: int | None


def check_recorded(
    view: TableView,
    groups: Sequence[FileGroup],
    slices: Sequence[FileSlice],
    replaced: Collection[GroupId],
    as_of: str | None,
) -> None:
    """Check that the files of the newest commit exist, if its metadata was read.

    The other commits are not read for this: each would cost a request.

    Args:
        view: State of the table.
        groups: File groups with base files.
        slices: Current slices of all file groups.
        replaced: Ids of the groups that are replaced.
        as_of: Request time of the last instant that counts. None: all instants count.

    Raises:
        CorruptionError: If a file is missing, or a log file is shorter than recorded.
    """
    newest = next(reversed(view.timeline.writes(as_of)), None)
    if newest is None or newest not in view.commits:
        return
    wanted = f"a file that the commit {newest.time} wrote"
    times = {group.id: group.current.time for group in groups}
    for file in view.written(newest):
        if file.group not in replaced and times.get(file.group, "") < file.time:
            raise CorruptionError(view.location.show(file.path), 0, wanted, "none")
    sizes = {
        stat.path: stat.file_size_in_bytes or 0
        for stats in (view.commit(newest).stats or {}).values()
        for stat in stats
        if stat.path and is_log_file(stat.path)
    }
    there = {log.path: log.bytes for log in logs_of(slices)}
    for log, nbytes in wrong_logs(view, groups, sizes, there, replaced, as_of):
        shown = view.location.show(log.path)
        if nbytes is None:
            raise CorruptionError(shown, 0, wanted, "none")
        raise CorruptionError(shown, nbytes, f"{log.bytes} bytes, as its commit says", nbytes)


def wrong_logs(
    view: TableView,
    groups: Sequence[FileGroup],
    sizes: Mapping[str, int],
    there: Mapping[str, int],
    replaced: Collection[GroupId],
    as_of: str | None = None,
) -> Iterator[WrongLog]:
    """Yield log files of current slices that are missing or shorter than commits record.

    Args:
        view: State of the table.
        groups: File groups with base files.
        sizes: Greatest size that commits record of each log file, by path.
        there: Sizes of the log files of current slices, by path.
        replaced: Ids of the groups that are replaced.
        as_of: Request time of the last instant that counts. None: all instants count.

    Raises:
        CorruptionError: If a commit records a path that is not that of a file below the table.
    """
    found = [FoundFile(path, size, None) for path, size in sizes.items()]
    for log in logs_of(view.with_logs(groups, found, replaced, as_of)):
        nbytes = there.get(log.path)
        if nbytes is None or nbytes < log.bytes:
            yield WrongLog(log, nbytes)


def logs_of(slices: Sequence[FileSlice]) -> list[LogFile]:
    """Return the log files of slices."""
    return [log for one in slices if isinstance(one, MergedSlice) for log in one.logs]
