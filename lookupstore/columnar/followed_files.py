"""Lookups in columnar files that may change: look for newer files, and open these instead.

A service replaces its lookups by `newest` or `refresh`. The tasks of a Spark query choose a commit
of a table by its time (`position_at`), and open that (`at`). Files at paths have no commits: each
task lists them (`listed_before`). Lookup files of data files that did not change are used again.
"""

from __future__ import annotations

import logging
import threading
from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING

from lookupstore.columnar.chosen_files import wanted_names
from lookupstore.columnar.listed_files import ListedFiles
from lookupstore.columnar.lookup_file import POSITION
from lookupstore.columnar.named_files import NamedFiles, NamedTable, Origin, named_files
from lookupstore.columnar.open_files import OpenFiles
from lookupstore.columnar.planned_files import FILE, PlannedFiles
from lookupstore.columnar.source_file import SourceFile
from lookupstore.errors import FormatError, StaleStoreError
from lookupstore.filters import Filter
from lookupstore.store.refreshing import Refresh, Refreshes
from lookupstore.tables.commits import TableCommits

if TYPE_CHECKING:  # in typing since Python 3.11
    from typing_extensions import Self

# Age from which on an added file counts: its writer is probably done, and times may have whole
# seconds, rounded down.
_SETTLE_SECONDS = 2.0

_log = logging.getLogger(__name__)


class FollowedFiles(PlannedFiles[OpenFiles]):
    """Lookups in files that may have been replaced by newer ones."""

    _columns: Sequence[str] | None
    _table: str | None

    def _follow(
        self,
        origin: Origin,
        listed: float,
        commit: str,
        where: Filter | None,
        latest_partition: str | None,
    ) -> None:
        """Remember how the files were named.

        Args:
            origin: What names the files again.
            listed: Time before the files at paths were listed, in seconds since 1970.
            commit: Position of the commit of a table that has the files.
            where: Condition that rows must meet. None: all rows count.
            latest_partition: Partition column of which only the greatest value is read. None: all.
        """
        self._origin = origin
        self._listed = listed
        # Files at paths, also those that the condition excludes. None: only the others are known.
        self._read: Sequence[SourceFile] | None = None
        self._commit = commit
        self._where = where
        self._latest_partition = latest_partition
        self._refreshes: Refreshes[Self] = Refreshes()

    @abstractmethod
    def _reopened(self, found: NamedFiles, columns: Sequence[str] | None) -> Self:
        """Return lookups in other files with the options of this object.

        Args:
            found: The files.
            columns: Names of the value columns. None: all columns that are not in the key.
        """

    def newest(self) -> Self:
        """Return these lookups if nothing has changed, otherwise lookups in the newest files.

        A table is looked at again, or the files at the paths are listed again. This object stays
        open, and its answers do not change. If it was opened with `version` or `as_of`, or of an
        object that stands for one snapshot, it is returned.

        Raises the errors of `ColumnarFiles`.

        >>> import tempfile, pyarrow as pa, pyarrow.parquet as pq
        >>> from lookupstore.columnar import ColumnarFiles
        >>> folder = tempfile.mkdtemp()
        >>> pq.write_table(pa.table({"id": [1]}), f"{folder}/1.parquet")
        >>> files = ColumnarFiles(folder, key="id")
        >>> pq.write_table(pa.table({"id": [2]}), f"{folder}/2.parquet")
        >>> 2 in files, 2 in files.newest()
        (False, True)
        """
        columns = self._columns
        if isinstance(self._origin, NamedTable):
            commits = self._origin.commits
            position = self._commit if commits.fixed else commits.newest()
            if position == self._commit:
                return self
            newer = self._at(position, columns)
            self._goes_on_in(newer)
            return newer
        newest = self._listed_again(columns, None)
        if newest is not self:
            self._goes_on_in(newest)
        return newest

    def listed_before(self, moment: datetime) -> Self:
        """Return lookups of the same columns in the files that are at the paths now.

        Files that were added after the moment do not count, as long as no other file is gone or was
        replaced. If nothing has changed, this object is returned.

        Args:
            moment: Time, with a time zone.

        Raises:
            StaleStoreError: If the columns changed.
            OSError: If the files cannot be listed or read.
            CorruptionError: If a footer is damaged, perhaps because the file is being written.
        """
        return self._unchanged(lambda columns: self._listed_again(columns, moment.timestamp()))

    def _listed_again(self, columns: Sequence[str] | None, before: float | None) -> Self:
        """Return lookups in the files at the paths, or this object if nothing has changed.

        Args:
            columns: Names of the value columns. None: all columns that are not in the key.
            before: Time before which an added file must have been written to count. None: all do.
        """
        assert not isinstance(self._origin, NamedTable)
        if self._read is None:
            self._read = [
                replace(plan.source, filter=None, has_others=True) for plan in self._plans
            ]
        known = {file.path: file for file in self._read}
        found = named_files(
            self._origin,
            self.key,
            wanted_names(self.key, columns, self.mode),
            self._where,
            latest_partition=self._latest_partition,
            known=None if self._table else ListedFiles(known, self._listed, before),
        )
        is_same = bool(found.read) and len(found.read) == len(known)
        newest = self
        if not is_same or any(known.get(file.path) is not file for file in found.read):
            newest = self._reopened(found, columns)
            newest = self if newest == self else newest
        newest._read, newest._listed = found.read or None, found.listed
        return newest

    def refresh(self) -> Self:
        """Return newer lookups whose lookup files are on this host, otherwise this object.

        If lookups of this object use lookup files, a call that finds newer files starts a thread,
        which makes those that are missing. This object answers meanwhile, and a later call returns
        the newer one. Failures are logged, and a later call tries again.

        Raises the errors of `newest`, except `OSError` and `FormatError`.
        """
        return self._refreshes.next(self, self._begin_refresh)

    def _begin_refresh(self) -> Self | Refresh[Self]:
        try:
            newest = self.newest()
        except (FormatError, OSError) as error:
            _log.warning("%s: the files go on: %s", self.path, error)
            return self
        if newest is self or not any(lookup.is_on_host() for lookup in self._lookups):
            return newest
        known = {lookup.plan.name for lookup in self._lookups}
        added = [lookup for lookup in newest._lookups if lookup.plan.name not in known]

        def fetch(stop: threading.Event) -> None:
            for lookup in added:
                if stop.is_set():
                    return
                lookup.reader()

        return Refresh(newest, self.path, fetch) if added else newest

    def close(self) -> None:
        """Close all files, and end a refresh. A lookup opens them again."""
        self._refreshes.cancel()
        super().close()

    @property
    def has_commits(self) -> bool:
        """Return whether the files are those of a table that has a time for each commit."""
        return isinstance(self._origin, NamedTable)

    @property
    def has_path(self) -> bool:
        """Return whether `path` is a path or name; otherwise it describes a table of a library."""
        return not isinstance(self._origin, NamedTable) or bool(self._origin.uri)

    @property
    def is_listed(self) -> bool:
        """Return whether the files are those at some paths, which belong to no table."""
        return not isinstance(self._origin, NamedTable) and self._table is None

    @property
    def version(self) -> int | None:
        """Return the number of the version or snapshot of a table. None: the files have none."""
        if not isinstance(self._origin, NamedTable):
            return None
        return self._origin.commits.number_of(self._commit)

    @property
    def settle_seconds(self) -> float:
        """Return the age from which on all processes see a commit of the table, or an added file.

        Raises:
            ValueError: If the files are those of a table without commits.
        """
        return _SETTLE_SECONDS if self.is_listed else self._commits().settle_seconds

    def position_at(self, moment: datetime) -> str:
        """Return the position of the newest commit of the table up to a moment.

        It is never older than the commit that this object reads. Other processes find the same one.

        Args:
            moment: Time, with a time zone.

        Raises:
            ValueError: If the files belong to no table, or other processes cannot open the table;
                or if this object stands for one commit.
            OSError: If the storage or catalog does not answer.
        """
        commits = self._commits()
        if commits.fixed:
            raise ValueError(
                f"{self.path} was opened with {commits.fixed}, and so never changes; pass the "
                "table, its path or its name in a catalog, without it"
            )
        return commits.elsewhere().newest_at(moment.timestamp(), self._commit)

    def committed_at(self) -> float | None:
        """Return the time of the commit that this object reads, in seconds since 1970.

        For files at paths, it is the time at which the newest file was written. None: The time is
        not recorded, or no longer.

        Raises:
            ValueError: If the files are those of a table without commits.
            OSError: If the storage or catalog does not answer.
        """
        if self.is_listed:
            written = [plan.source.stored.written for plan in self._plans]
            return max((one / 1e9 for one in written if one is not None), default=None)
        return self._commits().time_of(self._commit)

    def at(self, position: str | None = None) -> Self:
        """Return lookups of the same columns in the table as of another commit.

        Args:
            position: Position of the commit. Default: the newest one, or the files that are at the
                paths now.

        Raises:
            ValueError: If the files belong to no table, and a position is given.
            StaleStoreError: If the columns changed, or files are gone.
            OSError: If the storage or catalog does not answer.
        """
        if position is None and self.is_listed:
            return self._unchanged(lambda columns: self._listed_again(columns, None))
        commits = self._commits()
        place = commits.newest() if position is None else position
        if place == self._commit:
            return self
        return self._unchanged(lambda columns: self._at(place, columns))

    def _unchanged(self, opened: Callable[[Sequence[str] | None], Self]) -> Self:
        """Return other lookups if they have the columns of these.

        Args:
            opened: Function that returns them by the names of their value columns.

        Raises:
            StaleStoreError: If they have other columns.
        """
        added = (FILE, POSITION) if self.mode == "value_and_position" else ()
        with_values = self.mode in ("value", "value_and_position")
        columns = [name for name in self._values.names if name not in added]
        try:
            files = opened(columns if with_values else None)
        except KeyError as error:
            raise StaleStoreError(f"{self.path}: {error.args[0]}; look up again") from None
        if files._key != self._key or files._values != self._values:
            raise StaleStoreError(
                f"{self.path}: columns have other types since it was opened; open it again"
            )
        return files

    def _commits(self) -> TableCommits:
        if not isinstance(self._origin, NamedTable):
            raise ValueError(f"{self.path}: the files belong to no table with commits")
        return self._origin.commits

    def _at(self, position: str, columns: Sequence[str] | None) -> Self:
        assert isinstance(self._origin, NamedTable)
        found = self._origin.files(position, self.key, self._where, self._latest_partition)
        return self._reopened(found, columns)
