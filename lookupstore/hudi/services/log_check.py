"""Check the log files of a merge-on-read table: their content, and the records of commits.

A log file may lack its end where a block ends, or be empty or deleted: its content does not show
that. Commits record the path and the size of each log file that they wrote.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace

from lookupstore.errors import FormatError, LookupStoreError
from lookupstore.hudi.file_group.groups import FileGroup
from lookupstore.hudi.log.merged_rows import SliceReader
from lookupstore.hudi.log.slices import MergedSlice
from lookupstore.hudi.options import SNAPSHOT, check_query
from lookupstore.hudi.timeline.names import GroupId
from lookupstore.hudi.view import TableView, wrong_logs

#: Kind, path and description of a problem.
Problem = tuple[str, str, str]


class LogCheck:
    """A comparison of the log files of current slices with the records of commits.

    Args:
        view: View of the table, for queries of any type.

    Raises:
        CorruptionError: If the path of a log file is not that of a file below the table.
        FormatError: If a log file has a name that is not known.
    """

    def __init__(self, view: TableView) -> None:
        self._view = replace(view, query_type=SNAPSHOT)
        self._files = self._view.logs(None) if self._view.merges_logs else []

    def slices(self) -> list[MergedSlice]:
        """Return the current slices with log files.

        Raises:
            FormatError: If log files of such a table are not read.
        """
        if not self._files:
            return []
        check_query(self._view.options, SNAPSHOT, self._view.location.uri)
        slices = self._view.slices(None, check_files=False)
        return [one for one in slices if isinstance(one, MergedSlice)]

    def recorded(
        self, groups: Sequence[FileGroup], sizes: Mapping[str, int], replaced: Collection[GroupId]
    ) -> Iterator[Problem]:
        """Yield log files that are missing or shorter than commits record.

        Args:
            groups: File groups with base files.
            sizes: Greatest size that completed commits record of each log file, by path.
            replaced: Ids of the groups that are replaced.

        Raises:
            CorruptionError: If a commit records a path that is not that of a file below the table.
        """
        if not self._view.merges_logs:
            return
        there = {log.path: log.bytes for log in self._files}
        for log, nbytes in wrong_logs(self._view, groups, sizes, there, replaced):
            if nbytes is None:
                yield "missing", log.path, "committed, but missing, with its changes"
            else:
                said = f"{log.bytes} bytes as its commit says"
                yield "statistics", log.path, f"has {nbytes} bytes, not {said}"


def log_problems(view: TableView, given: MergedSlice) -> Iterator[Problem]:
    """Read the log files of a slice, and yield what is wrong in each."""
    problem = _read(view, given, given.logs[0].path)
    if problem is None:
        return
    # One log file after the other, so that the damage of one does not hide that of another.
    alone = [_read(view, replace(given, logs=(log,)), log.path) for log in given.logs]
    found = [one for one in alone if one is not None]
    yield from found or [problem]


def _read(view: TableView, given: MergedSlice, path: str) -> Problem | None:
    """Return what is wrong in the log files of a slice. None: nothing."""
    try:
        SliceReader(view.location, view.options, view.schema).changes(given, view.schema.names)
    except FormatError as error:
        return "unsupported", path, str(error)
    except LookupStoreError as error:
        return "file", path, str(error)
    return None
