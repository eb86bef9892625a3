"""Lookups in columnar files that may change: look for newer files, and open these instead.

A service replaces its lookups by `newest` or `refresh`. The tasks of a Spark query choose a commit
of a table by its time (`position_at`), and open that (`at`). Lookup files of data files that did
not change are used again.
"""

from __future__ import annotations

import logging
import threading
from abc import abstractmethod
from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING

from lookupstore.columnar.chosen_files import wanted_names
from lookupstore.columnar.lookup_file import POSITION
from lookupstore.columnar.named_files import NamedFiles, NamedTable, Origin, named_files
from lookupstore.columnar.open_files import OpenFiles
from lookupstore.columnar.planned_files import FILE, PlannedFiles
from lookupstore.errors import FormatError, StaleStoreError
from lookupstore.filters import Filter
from lookupstore.store.refreshing import Refresh, Refreshes
from lookupstore.tables.commits import TableCommits

if TYPE_CHECKING:  # in typing since Python 3.11
    from typing_extensions import Self

_log = logging.getLogger(__name__)


class FollowedFiles(PlannedFiles[OpenFiles]):
    """Lookups in files that may have been replaced by newer ones."""

    _columns: Sequence[str] | None

    def _follow(
        self, origin: Origin, commit: str, where: Filter | None, latest_partition: str | None
    ) -> None:
        """Remember how the files were named.

        Args:
            origin: What names the files again.
            commit: Position of the commit of a table that has the files.
            where: Condition that rows must meet. None: all rows count.
            latest_partition: Partition column of which only the greatest value is read. None: all.
        """
        self._origin = origin
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
        found = named_files(
            self._origin,
            self.key,
            wanted_names(self.key, columns, self.mode),
            self._where,
            latest_partition=self._latest_partition,
        )
        newest = self._reopened(found, columns)
        if newest == self:
            return self
        self._goes_on_in(newest)
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
    def version(self) -> int | None:
        """Return the number of the version or snapshot of a table. None: the files have none."""
        if not isinstance(self._origin, NamedTable):
            return None
        return self._origin.commits.number_of(self._commit)

    @property
    def settle_seconds(self) -> float:
        """Return the age from which on a commit of the table can be seen by all processes.

        Raises:
            ValueError: If the files belong to no table.
        """
        return self._commits().settle_seconds

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

        None: The table does not record it any more.

        Raises:
            ValueError: If the files belong to no table.
            OSError: If the storage or catalog does not answer.
        """
        return self._commits().time_of(self._commit)

    def at(self, position: str | None = None) -> Self:
        """Return lookups of the same columns in the table as of another commit.

        Args:
            position: Position of the commit. Default: the newest.

        Raises:
            ValueError: If the files belong to no table.
            StaleStoreError: If the columns changed, or files are gone.
            OSError: If the storage or catalog does not answer.
        """
        if position is None:
            position = self._commits().newest()
        if position == self._commit:
            return self
        added = (FILE, POSITION) if self.mode == "value_and_position" else ()
        with_values = self.mode in ("value", "value_and_position")
        columns = [name for name in self._values.names if name not in added]
        try:
            files = self._at(position, columns if with_values else None)
        except KeyError as error:
            raise StaleStoreError(f"{self.path}: {error.args[0]}; look up again") from None
        if files._key != self._key or files._values != self._values:
            raise StaleStoreError(
                f"{self.path}: columns have other types since it was opened; open the table again"
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
