"""Open tables: location, options, current state and lock."""

from __future__ import annotations

import os
from collections.abc import Hashable, Iterator
from contextlib import contextmanager

import pyarrow as pa

from lookupstore.arrow.outgoing import SHOWN_ROWS, ArrowRows
from lookupstore.hudi.file_group.groups import FileGroup, FileGroups
from lookupstore.hudi.locking.lock import TableLock, table_lock
from lookupstore.hudi.metadata.maintain import prepared
from lookupstore.hudi.options import (
    SNAPSHOT,
    TableOptions,
    check_choice,
    check_lock,
    check_writable,
)
from lookupstore.hudi.read.table_lookup import TableLookup
from lookupstore.hudi.services.rollback import (
    check_not_restored,
)
from lookupstore.hudi.timeline.commit import CommitMetadata
from lookupstore.hudi.timeline.given_times import When, given_time
from lookupstore.hudi.timeline.timeline import Instant, Timeline
from lookupstore.hudi.view import TableView, read_view
from lookupstore.hudi.write.options import WriteOptions
from lookupstore.hudi.write.writable import writable_view
from lookupstore.storage.location import Location


class TableHandle(ArrowRows):
    """An open table, with its location, options and current state."""

    def __init__(
        self, location: Location, options: TableOptions | None = None, query_type: str = SNAPSHOT
    ) -> None:
        if options is None:
            raise TypeError(
                "HudiTable: call HudiTable.open(PATH) to open a table, or HudiTable.create to make "
                "one"
            )
        self._location = location
        self._options = options
        self._query_type = query_type
        # Metadata of completed instants, which never changes.
        self._commits: dict[Instant, CommitMetadata] = {}
        # Lookups in the table as of that timeline, by their arguments.
        self._lookups: tuple[Timeline | None, dict[Hashable, TableLookup]] = (None, {})

    def __repr__(self) -> str:
        return f"<HudiTable {self._location.uri!r} version {self._options.version}>"

    def _first_rows(self) -> pa.Table | None:
        if not os.path.isdir(self._location.uri):
            return None
        with self._reader(limit=SHOWN_ROWS) as reader:
            return reader.read_all()

    def _key_names(self) -> tuple[str, ...]:
        return tuple(self._options.record_key)

    @property
    def location(self) -> Location:
        """Return the location of the table."""
        return self._location

    @property
    def query_type(self) -> str:
        """Return the query type that the table was opened with; see `HudiTable.open`."""
        return self._query_type

    @property
    def options(self) -> TableOptions:
        """Return the options of the table as they were last read."""
        return self._options

    @property
    def schema(self) -> pa.Schema:
        """Return the columns of a scan: the meta columns, then those of the latest commit."""
        return self.view().schema

    def view(self) -> TableView:
        """Read the current state of the table; another writer may have upgraded it."""
        view = read_view(self._location, query_type=self._query_type, commits=self._commits)
        self._options = view.options
        return view

    def timeline(self) -> list[Instant]:
        """Return the instants of the table by request time, each in its last state."""
        return list(self.view().timeline)

    def file_groups(self, as_of: When | None = None) -> list[FileGroup]:
        """Return the current file groups of the table, by partition path and id.

        Args:
            as_of: Request time of the last instant to read. None: the latest.
        """
        view = self.view()
        return FileGroups(view.groups(given_time("as_of", as_of, view.options.timezone)))

    def partitions(self, as_of: When | None = None) -> list[str]:
        """Return the paths of the partitions that have files, sorted.

        Args:
            as_of: Request time of the last instant to read. None: the latest.

        >>> import tempfile
        >>> import pyarrow as pa
        >>> from lookupstore.hudi import HudiTable
        >>> rows = pa.table({"id": [1, 2], "day": ["tu", "mo"]})
        >>> table = HudiTable.create(tempfile.mkdtemp(), rows, record_key="id", partition_by="day")
        >>> _ = table.insert(rows)
        >>> table.partitions()
        ['mo', 'tu']
        """
        view = self.view()
        slices = view.slices(given_time("as_of", as_of, view.options.timezone), check_files=False)
        return sorted({one.group.partition for one in slices})

    def writable(self, options: WriteOptions, *, dry_run: bool = False) -> TableView:
        """Return the state of the table for a write, after rolling back dead writers.

        Args:
            options: Options of the write.
            dry_run: Whether to change nothing.

        Raises:
            FormatError: If the table cannot be written; the error names the property.
            LockedError: If other writers held the lock of the table for too long.
        """
        view = writable_view(self._location, self._commits, options, dry_run=dry_run)
        self._options = view.options
        return view

    @contextmanager
    def _locked(
        self, wait: float, metadata: str, lock: str, *, restores: bool = False
    ) -> Iterator[tuple[TableView, TableLock]]:
        """Hold the lock of the table, and yield the state of the table under that lock.

        Args:
            wait: Seconds to wait for the lock while another writer holds it.
            metadata: What to do with a metadata table: `refuse`, `maintain`, `reduce` or `drop`.
            lock: `table` or `external`: whether the caller holds a lock that the table's properties
                name.
            restores: Whether the caller completes a restore.
        """
        check_choice(metadata)  # before the wait
        with table_lock(self._location, wait=wait) as held:
            view = self._checked(metadata, lock, restores=restores)
            # This is checked before any work from which no instant could be made.
            view.folder.check_clock(view.timeline)
            view = prepared(view, metadata)
            self._options = view.options
            yield view, held

    def _checked(self, metadata: str, lock: str, *, restores: bool = False) -> TableView:
        """Return the state of the table, which maintenance may change; see `_locked`."""
        check_choice(metadata)
        view = self.view()
        check_writable(view.options, self._location.uri, metadata)
        check_lock(view.options, self._location, lock)
        if not restores:
            check_not_restored(view)
        return view
