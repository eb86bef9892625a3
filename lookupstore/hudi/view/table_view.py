"""``TableView``: the columns, file groups and changes of a table at one moment."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import pyarrow as pa

from lookupstore.errors import CorruptionError, FormatError, StaleStoreError, listed, meant
from lookupstore.hudi.file_group.groups import (
    CommittedInstants,
    FileGroup,
    FileSlice,
    base_files,
    file_groups_at,
    list_data_files,
    parse_base_file,
)
from lookupstore.hudi.keys.table_schema import TableSchema, parse_table_schema
from lookupstore.hudi.log.archived_log import ArchivedLog
from lookupstore.hudi.log.slices import (
    LogFile,
    MergedSlice,
    by_completion,
    by_slice_time,
    log_files,
    slices_with_logs,
)
from lookupstore.hudi.meta_columns import META_COLUMNS, META_FIELDS
from lookupstore.hudi.options import (
    COLUMN_IDS,
    COPY_ON_WRITE,
    META_FOLDER,
    PARTITION,
    PROPERTIES,
    READ_OPTIMIZED,
    SNAPSHOT,
    TYPE,
    TableOptions,
)
from lookupstore.hudi.timeline.archive import Archive
from lookupstore.hudi.timeline.commit import CommitMetadata, parse_commit
from lookupstore.hudi.timeline.lsm_timeline import LsmTimeline
from lookupstore.hudi.timeline.names import GroupId, is_log_file
from lookupstore.hudi.timeline.timeline import (
    COMMIT,
    COMPACTION,
    REPLACE,
    Instant,
    State,
    Timeline,
    TimelineFolder,
)
from lookupstore.hudi.view.reach import (
    check_changes_reached,
    check_listed,
    check_not_cleaned,
    check_reached,
)
from lookupstore.hudi.view.recorded import check_recorded, logs_of
from lookupstore.storage.location import FoundFile, Location


@dataclass(frozen=True)
class TableView:
    """A table as it was when its timeline was read.

    Files are listed later. Files of later commits are ignored.

    Attributes:
        options: Options of the table.
        folder: Folder of the table's timeline.
        timeline: Instants of the table when the timeline was read.
        location: Location of the table.
        commits: Metadata of the completed instants that were read so far. The metadata of an
            instant never changes.
        foreign: List to which the paths of Parquet files are added that are not named as base files
            are. Default: such files are refused.
        deleted: Paths of base files that a dry run treats as deleted.
        query_type: Kind of query that the view is for: `snapshot` or `read_optimized`.
    """

    options: TableOptions
    folder: TimelineFolder
    timeline: Timeline
    location: Location
    commits: dict[Instant, CommitMetadata] = field(default_factory=dict, repr=False)
    foreign: list[str] | None = field(default=None, repr=False, compare=False)
    deleted: frozenset[str] = field(default=frozenset(), repr=False)
    query_type: str = SNAPSHOT

    def commit(self, instant: Instant) -> CommitMetadata:
        """Return the metadata of a completed commit.

        Raises:
            CorruptionError: If the file of the commit is damaged.
            StaleStoreError: If the file of the commit was deleted.
        """
        known = self.commits.get(instant)
        if known is None:
            path = self.folder.path(instant)
            try:
                content = self.folder.read(instant)
            except FileNotFoundError:
                raise StaleStoreError(f"{path}: deleted since the timeline was listed") from None
            known = self.commits[instant] = parse_commit(content, path)
        return known

    @property
    def archive(self) -> Archive:
        """Return the archive of the timeline; its files are read when they are needed."""
        if self.options.version == 6:
            return ArchivedLog(self.location, self.options.archive)
        return LsmTimeline(self.location, self.options.archive)

    @cached_property
    def table_schema(self) -> TableSchema:
        """Return the data columns of the newest commit with a schema, or the properties.

        Raises:
            FormatError: If neither a commit nor the properties contain the columns, or a column has
                a type that is not supported.
            CorruptionError: If the stored schema is damaged.
        """
        said = (
            (self.folder.path(instant), self.commit(instant).schema)
            for instant in reversed(self.timeline.writes())
        )
        where, text = next(
            ((path, schema) for path, schema in said if schema is not None),
            (self.location.uri, self.options.create_schema),
        )
        if text is None:
            raise FormatError(
                f"{where}: neither a commit nor the table's properties name the columns"
            )
        return parse_table_schema(text, where, META_COLUMNS)

    @property
    def schema(self) -> pa.Schema:
        """Return the meta columns, then the data columns; see `table_schema`."""
        return pa.schema([*META_FIELDS, *self.table_schema.columns])

    def names(self, columns: Sequence[str] | None) -> list[str]:
        """Return the names of the requested columns; None: of all columns.

        Raises:
            TypeError: If `columns` is not a name or an iterable of names.
            KeyError: If the table does not have a column.
        """
        if columns is None:
            return list(self.schema.names)
        try:
            names = [columns] if isinstance(columns, str) else list(columns)
        except TypeError:
            raise TypeError(f"columns is {columns!r}; give names of columns, in a list") from None
        for name in names:
            if name not in self.schema.names:
                known = listed(self.schema.names)
                others = meant(name, self.schema.names, f"it has {known}")
                raise KeyError(f"columns: the table has no column {name!r}{others}")
        return names

    @property
    def merges_logs(self) -> bool:
        """Return whether rows are those of base files merged with log files."""
        return self.options.table_type != COPY_ON_WRITE and self.query_type == SNAPSHOT

    def groups(self, as_of: str | None) -> list[FileGroup]:
        """Return the file groups as of a request time; None: the current ones.

        Raises:
            CorruptionError: If the timeline is damaged.
            FormatError: If the folders contain a Parquet file that is not named as base files are,
                unless `foreign` is given, a symbolic link, or a base file in another format; or if
                there are log files with changes.
            StaleStoreError: If a clean or a rollback deleted files before they were listed, a clean
                removed files of that time, or commits up to that time are archived.
        """
        return self._without_logs(self._state(as_of))

    def slices(self, as_of: str | None, *, check_files: bool = True) -> list[FileSlice]:
        """Return the slices with the rows as of a request time; None: the current ones.

        Slices with log files are `MergedSlice`. Errors are those of `groups`, except for changes in
        log files.

        Args:
            as_of: Request time of the last instant that counts. None: all instants count.
            check_files: Whether the files of the newest commit must exist; see `check_recorded`.

        Raises:
            FormatError: If a log file has a name that is not known.
            CorruptionError: If such a file is missing.
        """
        return self._readable(self._state(as_of, check_files=check_files)[1])

    def current(self) -> list[FileSlice]:
        """Return the current base files, whose rows are needed.

        Errors are those of `groups`.

        Raises:
            CorruptionError: If a file of the newest commit is missing; see `check_recorded`.
        """
        groups = self._without_logs(self._state(None, check_files=True))
        return [group.current for group in groups]

    def logs(self, as_of: str | None) -> list[LogFile]:
        """Return the log files of the slices as of a request time; None: the current ones.

        They are those of a snapshot query, whatever the query of the view. Errors are those of
        `slices`.
        """
        return logs_of(replace(self, query_type=SNAPSHOT)._state(as_of)[1])

    def slices_until(
        self, position: str, argument: str = "until", without: Collection[str] = ()
    ) -> list[FileSlice]:
        """Return the slices with the rows as of a position; see `slices` and `groups_until`.

        Args:
            position: Position of the last instant that counts.
            argument: Name of the caller's argument, which errors name.
            without: Request times of other instants that do not count, because they were pending.
        """
        return self._readable(self._state_until(position, argument, without)[1])

    def _readable(self, slices: list[FileSlice]) -> list[FileSlice]:
        if any(isinstance(one, MergedSlice) for one in slices):
            self._check_columns_by_name()
        return slices

    def _state(
        self, as_of: str | None, *, check_files: bool = False
    ) -> tuple[list[FileGroup], list[FileSlice]]:
        """Return the groups of base files, and the current slices with their log files."""
        check_reached(self, "as_of", as_of, lambda one: one.time)
        replaced = self._replaced_until(as_of)
        found = self._data_files()
        files = self._base_files(found)
        groups = file_groups_at(files, self.timeline, replaced, self.location.uri, as_of)
        check_listed(self, as_of, found, groups, replaced)
        if as_of is not None:
            later = {one.time for one in self.timeline.writes() if one.time > as_of}
            check_not_cleaned(self, groups, replaced, later, "as_of", as_of)
        slices = self.with_logs(groups, found, replaced, as_of)
        if check_files:
            check_recorded(self, groups, slices, replaced, as_of)
        return groups, slices

    def _state_until(
        self, position: str, argument: str, without: Collection[str] = ()
    ) -> tuple[list[FileGroup], list[FileSlice]]:
        """Return the same as of a position."""
        check_reached(self, argument, position, lambda one: one.position)
        later = {one.time for one in self.timeline.writes() if one.position > position}
        later |= {one.time for one in self.timeline.writes() if one.time in without}
        before = (self._pending(one) if one.time in later else one for one in self.timeline)
        view = replace(self, timeline=Timeline(tuple(before)))
        replaced = view._replaced_until(None)
        found = self._data_files()
        files = self._base_files(found)
        groups = file_groups_at(files, view.timeline, replaced, self.location.uri)
        check_listed(view, None, found, groups, replaced)
        check_not_cleaned(self, groups, replaced, later, argument, position)
        return groups, view.with_logs(groups, found, replaced)

    def _pending(self, instant: Instant) -> Instant:
        """Return a completed write as it was before its completion.

        In a table with log files, a commit is a compaction.
        """
        if not instant.is_completed or not instant.writes_base_files:  # a savepoint, for example
            return instant
        merges = self.options.table_type != COPY_ON_WRITE and instant.action == COMMIT
        action = COMPACTION if merges else instant.action
        return replace(instant, state=State.INFLIGHT, completed=None, action=action)

    def _replaced_until(self, as_of: str | None) -> set[GroupId]:
        return {one for instant in self.timeline.writes(as_of) for one in self.replaced(instant)}

    def with_logs(
        self,
        groups: Sequence[FileGroup],
        found: Sequence[FoundFile],
        replaced: Collection[GroupId],
        as_of: str | None = None,
    ) -> list[FileSlice]:
        """Return the current slices of groups.

        Args:
            groups: File groups with base files.
            found: Files in the folders of the table.
            replaced: Ids of the groups that are replaced.
            as_of: Request time of the last instant that counts. None: all instants count.
        """
        if not self.merges_logs:
            return [group.current for group in groups]
        committed = CommittedInstants.of(self.timeline, as_of)
        if self.options.version == 6:
            pending = [one.time for one in self.timeline.pending() if one.action == COMPACTION]
            belongs = by_slice_time(committed, pending)
        else:
            belongs = by_completion(committed, self._completed_at())
        logs = log_files(found, self.location)
        return slices_with_logs(groups, logs, committed, replaced, belongs)

    def _check_columns_by_name(self) -> None:
        """Check that the columns of log blocks have the names of the table's columns."""
        writes = self.timeline.writes()
        if writes and COLUMN_IDS in (self.commit(writes[-1]).extra_metadata or {}):
            raise FormatError(
                f"{self.folder.path(writes[-1])}: it has {COLUMN_IDS}: columns go by ids (schema "
                "on read), which is not supported for log files; compact the table with Apache "
                f"Hudi, and read its base files with query_type={READ_OPTIMIZED!r}"
            )

    def _completed_at(self) -> Callable[[str], str]:
        """Return a function from the request time of a completed write to its completion time."""
        known = {one.time: one.position for one in self.timeline.writes()}
        unread = [self.archive]

        def completed_at(time: str) -> str:
            if time not in known and unread:
                known.update({one.time: one.position for one in unread.pop().instants()})
            return known.get(time, time)

        return completed_at

    def _without_logs(self, state: tuple[list[FileGroup], list[FileSlice]]) -> list[FileGroup]:
        """Return the groups, and refuse slices with log files."""
        groups, slices = state
        if any(isinstance(one, MergedSlice) for one in slices):
            raise FormatError(
                f"{self.location.uri}: {TYPE} is {self.options.table_type!r}, and this operation "
                "reads base files only, without the changes in log files; scan the table, build a "
                f"store of its rows, or open it with query_type={READ_OPTIMIZED!r}"
            )
        return groups

    def groups_until(self, position: str | None, argument: str = "until") -> list[FileGroup]:
        """Return the file groups as of a position; None: the current ones.

        Commits that were completed after the position, or requested after it in tables of version
        6, are ignored.

        Args:
            position: Position of the last instant that counts.
            argument: Name of the caller's argument, which errors name.

        Raises:
            CorruptionError: If the timeline is damaged.
            FormatError: If the folders contain a Parquet file that is not named as base files are,
                unless `foreign` is given, a symbolic link, or a base file in another format.
            StaleStoreError: If a clean or a rollback deleted files before they were listed, a clean
                removed files of that position, or commits up to it are archived.
        """
        if position is None:
            return self.groups(None)
        return self._without_logs(self._state_until(position, argument))

    def files(self) -> list[FileSlice]:
        """Return all base files that exist now, of every instant, by path.

        Raises:
            FormatError: If the folders contain a Parquet file that is not named as base files are,
                unless `foreign` is given, a symbolic link, or a base file in another format.
        """
        return self._base_files(self._data_files())

    def _data_files(self) -> list[FoundFile]:
        """List the base files and log files that exist now, of every instant."""
        top = self.unnamed_partition is not None
        partitioned = top or bool(self.options.partition_by)
        return list_data_files(self.location, partitioned=partitioned, top=top)

    def _base_files(self, found: Sequence[FoundFile]) -> list[FileSlice]:
        files = base_files(found, self.location, self.foreign)
        return [file for file in files if file.path not in self.deleted]

    @cached_property
    def unnamed_partition(self) -> str | None:
        """Return a partition that commits wrote to if the properties name no columns.

        Raises:
            CorruptionError: If a commit is damaged.
        """
        if self.options.partition_by or self.location.folders(complete=True) == [META_FOLDER]:
            return None
        for instant in reversed(self.timeline.writes()):
            for path in self.commit(instant).stats or {}:
                if path:
                    return path
        return None

    def check_partitions(self, remedy: str) -> None:
        """Check that the properties name the partition columns, if there are partitions.

        Args:
            remedy: Alternative to adding the property, as text for the error.

        Raises:
            FormatError: If there are partitions, and the properties do not name their columns.
            CorruptionError: If a commit is damaged.
        """
        path = self.unnamed_partition
        if path is not None:
            raise FormatError(
                f"{self.location.uri}: commits wrote to the partition {path!r}, but the table has "
                f"no {PARTITION}, so that the partition of a row is not known; add the property to "
                f"{self.location.show(PROPERTIES)}, or {remedy}"
            )

    def reloaded(self) -> TableView:
        """Return the table as it is now, with the same options."""
        return replace(self, timeline=self.folder.load())

    def changed(self, since: str | None, until: str | None) -> tuple[list[FileSlice], list[str]]:
        """Return the base files with the changes of a range, and the times of its commits.

        Args:
            since: Position of the last instant before the range. None: the beginning of the table.
            until: Position of the last instant of the range. None: the newest instant.

        Raises:
            FormatError: If the rows have no meta columns, or changes may be in log files.
            CorruptionError: If the timeline is damaged.
            StaleStoreError: If commits of the range are archived.
        """
        self.check_changes_are_known()
        check_changes_reached(self, since)
        slices: dict[GroupId, FileSlice] = {}
        replaced: set[GroupId] = set()
        times = []
        for instant in self.timeline.writes():
            if until is not None and instant.position > until:
                continue
            replaced |= self.replaced(instant)
            if since is None or instant.position > since:
                times.append(instant.time)
                # Instants are in the order of time: the last slice of a group is the newest.
                slices.update((file.group, file) for file in self.written(instant))
        files = [file for group, file in sorted(slices.items()) if group not in replaced]
        return files, times

    def check_changes_are_known(self) -> None:
        """Check that base files show which rows changed between two commits.

        Raises:
            FormatError: If the rows have no meta columns, or changes may be in log files.
        """
        if not self.options.meta_fields:
            raise FormatError(f"{self.location.uri}: rows have no meta columns")
        if self.options.table_type != COPY_ON_WRITE:
            raise FormatError(
                f"{self.location.uri}: {TYPE} is {self.options.table_type!r}: the changes between "
                "two commits are not read from log files; scan all rows instead"
            )

    def written(self, instant: Instant) -> Iterator[FileSlice]:
        """Yield the base files that a completed commit wrote.

        Raises:
            CorruptionError: If the file of the commit is damaged.
        """
        shown = self.folder.path(instant)
        for stats in (self.commit(instant).stats or {}).values():
            for stat in stats:
                if not stat.path:
                    raise CorruptionError(shown, 0, "the path of a written file", stat.path)
                if not is_log_file(stat.path):
                    yield parse_base_file(stat.path, stat.file_size_in_bytes or 0, shown)

    def replaced(self, instant: Instant) -> frozenset[GroupId]:
        """Return the file groups that a completed instant removed from the table.

        Raises:
            CorruptionError: If the file of the instant is damaged.
        """
        if instant.action != REPLACE:
            return frozenset()
        replaced = self.commit(instant).replaced or {}
        return frozenset(
            GroupId(partition, file_id) for partition, ids in replaced.items() for file_id in ids
        )
