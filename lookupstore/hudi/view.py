"""A table at one moment: its columns, its file groups, and what changed in a range of instants."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import cached_property

import pyarrow as pa

from lookupstore.errors import CorruptionError, FormatError, StaleStoreError, listed
from lookupstore.hudi.file_group.groups import (
    FileGroup,
    FileSlice,
    file_groups_at,
    list_base_files,
    parse_base_file,
)
from lookupstore.hudi.keys.table_schema import TableSchema, parse_table_schema
from lookupstore.hudi.meta_columns import META_COLUMNS, META_FIELDS
from lookupstore.hudi.options import (
    COPY_ON_WRITE,
    META_FOLDER,
    PARTITION,
    PROPERTIES,
    SNAPSHOT,
    TIMEZONE,
    TableOptions,
    check_query,
    read_options,
)
from lookupstore.hudi.timeline.archive import Archive, completed_writes
from lookupstore.hudi.timeline.archived_log import ArchivedLog
from lookupstore.hudi.timeline.cleans import CleanedFile, cleaned_files
from lookupstore.hudi.timeline.commit import WRITER, CommitMetadata, parse_commit
from lookupstore.hudi.timeline.history import History
from lookupstore.hudi.timeline.names import BASE_FILE, GroupId, is_log_file
from lookupstore.hudi.timeline.plans import CleanerPlan, parse_plan
from lookupstore.hudi.timeline.timeline import (
    CLEAN,
    REPLACE,
    SAVEPOINT,
    Clock,
    Instant,
    State,
    Timeline,
    TimelineFolder,
    Zone,
)
from lookupstore.hudi.timeline.zone import find_zone
from lookupstore.storage.location import Location


@dataclass(frozen=True)
class TableView:
    """A table as it was when its timeline was read.

    Files are listed after that: those of later commits do not count.

    Attributes:
        options: of the table.
        folder: of its timeline.
        timeline: what had happened.
        location: of the table.
        commits: what completed instants did, as far as somebody asked; that never changes.
        foreign: List to which the paths of Parquet files are added that are not named as base files
            are. Default: such files are refused.
    """

    options: TableOptions
    folder: TimelineFolder
    timeline: Timeline
    location: Location
    commits: dict[Instant, CommitMetadata] = field(default_factory=dict, repr=False)
    foreign: list[str] | None = field(default=None, repr=False, compare=False)

    def commit(self, instant: Instant) -> CommitMetadata:
        """Return what a completed commit did.

        Raises:
            CorruptionError: its file is damaged.
            StaleStoreError: it is gone.
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
        """Return the archive of the timeline, as it is when it is read."""
        if self.options.version == 6:
            return ArchivedLog(self.location, self.options.archive)
        return History(self.location, self.options.archive)

    @cached_property
    def table_schema(self) -> TableSchema:
        """Return the data columns that the latest commit has, or the properties say.

        Raises:
            FormatError: nobody says the columns, or one has a type that is not read.
            CorruptionError: what they give is not a schema.
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
        """Return the names of the columns that are wanted; None: of all.

        Raises:
            TypeError: these are no names.
            KeyError: there is no such column.
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
                raise KeyError(f"columns: the table has no column {name!r}; it has {known}")
        return names

    def groups(self, as_of: str | None) -> list[FileGroup]:
        """Return the file groups as of a request time; None: the current ones.

        Raises:
            CorruptionError: the timeline is damaged.
            FormatError: as of `files`.
            StaleStoreError: files went before they were listed: a clean came between; or a clean
                removed files of that time; or commits up to it are archived, and nobody knows
                what they had.
        """
        self._check_reached("as_of", as_of, lambda one: one.time)
        replaced: set[GroupId] = set()
        for instant in self.timeline.writes(as_of):
            replaced |= self.replaced(instant)
        files = self.files()
        self._check_listed(as_of)
        groups = file_groups_at(files, self.timeline, replaced, self.location.uri, as_of)
        if as_of is not None:
            later = {one.time for one in self.timeline.writes() if one.time > as_of}
            self._check_not_cleaned(groups, replaced, later, "as_of", as_of)
        return groups

    def groups_until(self, position: str | None, argument: str = "until") -> list[FileGroup]:
        """Return the file groups as of a position; None: the current ones.

        That is when no later commit was completed, in tables of version 6 none requested.

        Args:
            position: of the last instant that counts.
            argument: that says it, for errors.

        Raises: as of `groups`.
        """
        if position is None:
            return self.groups(None)
        self._check_reached(argument, position, lambda one: one.position)
        later = {one.time for one in self.timeline.writes() if one.position > position}
        before = tuple(one for one in self.timeline if one.time not in later)
        view = replace(self, timeline=Timeline(before))
        replaced: set[GroupId] = set()
        for instant in view.timeline.writes():
            replaced |= self.replaced(instant)
        files = [file for file in self.files() if file.time not in later]
        self._check_listed(None)
        groups = file_groups_at(files, view.timeline, replaced, self.location.uri)
        self._check_not_cleaned(groups, replaced, later, argument, position)
        return groups

    def _check_not_cleaned(
        self,
        groups: Sequence[FileGroup],
        replaced: Collection[GroupId],
        later: Collection[str],
        argument: str,
        moment: str,
    ) -> None:
        """Check that no clean has removed a file of a moment, whose rows would be missing.

        Args:
            groups: as of the moment, of files that are there.
            replaced: groups that were gone at the moment.
            later: request times of the commits after it.
            argument: that said the moment.
            moment: time of an instant.
        """
        newest = {group.id: group.current.time for group in groups}
        missing: dict[GroupId, CleanedFile] = {}
        for file in cleaned_files(self.folder, self.timeline, moment):
            match = BASE_FILE.fullmatch(file.name)
            if match is None or match["time"] in later or match["time"] > moment:
                continue
            group = GroupId(file.partition, match["file_id"])
            if group not in replaced and newest.get(group, "") < match["time"]:
                missing[group] = file
        if missing:
            # What was replaced long ago, the archive knows.
            for commit in self.archive.commits():
                for partition, ids in (commit.replaced or {}).items():
                    for file_id in ids:
                        missing.pop(GroupId(partition, file_id), None)
        for file in missing.values():
            shown = self.location.show(f"{file.partition}/{file.name}".lstrip("/"))
            raise StaleStoreError(
                f"{shown}: removed by the clean {file.clean.time}, so that the table as of "
                f"{moment} lacks rows; give a later {argument}, or savepoint a commit before its "
                "files are cleaned"
            )

    def _check_listed(self, as_of: str | None) -> None:
        """Check that the listing has all files that the timeline names.

        Those that go are of commits that are taken back, whose completed file goes before, and
        those that a clean deletes, which says before that it does.
        """
        now = self.folder.load()
        if now == self.timeline:
            return
        seen = {instant.time for instant in self.timeline.writes(as_of)}
        there = {instant.time for instant in now.writes()}
        gone = seen - there
        for time in sorted(gone - completed_writes(self.archive, gone)):
            raise StaleStoreError(f"{self.location.uri}: {time} was rolled back; read again")
        # Of what others committed since, a clean knows; as of what it retains all is there.
        news = min(there - seen, default=None)
        known = {instant.time for instant in self.timeline if instant.action == CLEAN}
        for instant in now:
            if news is not None and instant.action == CLEAN and instant.time not in known:
                requested = replace(instant, state=State.REQUESTED, completed=None)
                path = self.folder.path(requested)
                plan = parse_plan(CleanerPlan, self.folder.read(requested), path)
                earliest = plan.earliest_instant_to_retain
                if earliest is not None and news <= earliest.timestamp:
                    raise StaleStoreError(f"{path}: it may have removed what was read; read again")

    def _check_reached(
        self, argument: str, moment: str | None, of: Callable[[Instant], str]
    ) -> None:
        """Check that the timeline goes back to a moment, so that the table as of it is known.

        What replaced rows since then is not known of what is archived, nor what cleans removed.

        Args:
            argument: that says the moment.
            moment: a request time or a position; None: now.
            of: gives that of an instant.
        """
        begin = first_time(self.timeline)
        if moment is None or begin is None:
            return
        writes = self.timeline.writes()
        first = min(of(one) for one in writes if one.time >= begin)
        # A savepoint keeps its commit, and its files.
        if moment >= first or moment in map(of, writes) or self.archive.is_empty():
            return
        raise StaleStoreError(
            f"{self.location.uri}: {argument} is {moment}, but commits before {first} are "
            f"archived, in {self.archive.shown}: the table as of them cannot be read; give "
            f"{first} or later"
        )

    def _check_changes_reached(self, since: str | None) -> None:
        """Check that no archived commit is after a position."""
        # Savepoints stay when later commits are archived.
        first = first_time(self.timeline)
        writes = self.timeline.writes()
        positions = [one.position for one in writes if first is not None and one.time >= first]
        if since is not None and positions and since >= min(positions):
            return
        last = max((one.position for one in self.archive.instants() if one.is_write), default="")
        if last > (since or ""):
            raise StaleStoreError(
                f"{self.location.uri}: since is {since}, but commits up to {last} are archived, in "
                f"{self.archive.shown}: what they changed cannot be told from the rows; read all "
                f"rows, then give {last} or later"
            )

    def files(self) -> list[FileSlice]:
        """Return all base files that there are now, of whichever instant, by path.

        Raises:
            FormatError: a Parquet file is not named as base files are, unless `foreign` takes it.
        """
        top = self.unnamed_partition is not None
        partitioned = top or bool(self.options.partition_by)
        return list_base_files(
            self.location, partitioned=partitioned, top=top, foreign=self.foreign
        )

    @cached_property
    def unnamed_partition(self) -> str | None:
        """Return a partition that commits wrote to, where properties name no partition columns.

        Raises:
            CorruptionError: a commit is damaged.
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
            remedy: what else can be done.

        Raises:
            FormatError: they do not.
            CorruptionError: a commit is damaged.
        """
        path = self.unnamed_partition
        if path is not None:
            raise FormatError(
                f"{self.location.uri}: commits wrote to the partition {path!r}, but the table has "
                f"no {PARTITION}, so that the partition of a row is not known; add the property to "
                f"{self.location.show(PROPERTIES)}, or {remedy}"
            )

    def reloaded(self) -> TableView:
        """Return the table as it is now, of the same options."""
        return replace(self, timeline=self.folder.load())

    def changed(self, since: str | None, until: str | None) -> tuple[list[FileSlice], list[str]]:
        """Return the files that hold what changed in a range, and the times of those commits.

        Args:
            since: position of the last instant before the range; None: there is none.
            until: position of the last instant of the range; None: of all.

        Raises:
            FormatError: the rows of the table do not say when they changed.
            CorruptionError: the timeline is damaged.
            StaleStoreError: commits of the range are archived.
        """
        if not self.options.meta_fields:
            raise FormatError(f"{self.location.uri}: rows have no meta columns")
        if self.options.table_type != COPY_ON_WRITE:
            raise FormatError(
                f"{self.location.uri}: a table of type {self.options.table_type}: its log files, "
                "which are not read, have what changed"
            )
        self._check_changes_reached(since)
        slices: dict[GroupId, FileSlice] = {}
        replaced: set[GroupId] = set()
        times = []
        for instant in self.timeline.writes():
            if until is not None and instant.position > until:
                continue
            replaced |= self.replaced(instant)
            if since is None or instant.position > since:
                times.append(instant.time)
                # Instants come by time: the last slice of a group is the newest.
                slices.update((file.group, file) for file in self.written(instant))
        files = [file for group, file in sorted(slices.items()) if group not in replaced]
        return files, times

    def written(self, instant: Instant) -> Iterator[FileSlice]:
        """Yield the base files that a completed commit says that it wrote.

        Raises:
            CorruptionError: its file is damaged.
        """
        shown = self.folder.path(instant)
        for stats in (self.commit(instant).stats or {}).values():
            for stat in stats:
                if not stat.path:
                    raise CorruptionError(shown, 0, "the path of a written file", stat.path)
                if not is_log_file(stat.path):
                    yield parse_base_file(stat.path, stat.file_size_in_bytes or 0, shown)

    def replaced(self, instant: Instant) -> frozenset[GroupId]:
        """Return the file groups that are gone since a completed instant.

        Raises:
            CorruptionError: its file is damaged.
        """
        if instant.action != REPLACE:
            return frozenset()
        replaced = self.commit(instant).replaced or {}
        return frozenset(
            GroupId(partition, file_id) for partition, ids in replaced.items() for file_id in ids
        )


def first_time(timeline: Timeline) -> str | None:
    """Return the time before which files are those of archived commits; None: nobody knows.

    Savepoints stay when later commits are archived, so that files after them may count as well.
    """
    saved = {instant.time for instant in timeline if instant.action == SAVEPOINT}
    return next((one.time for one in timeline.writes() if one.time not in saved), None)


def read_view(
    location: Location,
    *,
    query_type: str = SNAPSHOT,
    commits: dict[Instant, CommitMetadata] | None = None,
    clock: Clock | None = None,
) -> TableView:
    """Return a table as it is now.

    Args:
        location: of the table.
        query_type: that the view is for, `snapshot` or `read_optimized`: of a merge-on-read table,
            only the second.
        commits: what is known of its commits; None: nothing.
        clock: tells the time of instants; None: that of the machine.

    Raises:
        FileNotFoundError: there is none.
        CorruptionError: its properties, or names of its timeline, are damaged.
        FormatError: it is of a kind that is not read; the error names the property.
        ValueError: there is no such kind of query.
    """
    options = read_options(location)
    check_query(options, query_type, location.uri)
    known = {} if commits is None else commits
    zone = _ZoneOf(location, options)
    folder = TimelineFolder(location, options.timeline, options.version, clock=clock, zone=zone)
    return TableView(options, folder, folder.load(), location, known)


@dataclass(frozen=True)
class _ZoneOf:
    """What finds the zone of a table's instants.

    Attributes:
        location: of the table.
        options: of the table.
    """

    location: Location
    options: TableOptions

    def __call__(self, timeline: Timeline, now: datetime) -> Zone:
        folder = TimelineFolder(self.location, self.options.timeline, self.options.version)

        # Whose an instant is, its completed file says.
        completed = {one.time: one for one in timeline.writes()}

        def is_ours(time: str) -> bool:
            one = completed[time]
            with suppress(FileNotFoundError):  # rolled back since
                commit = parse_commit(folder.read(one), folder.path(one))
                return WRITER in (commit.extra_metadata or {})
            return False

        return find_zone(
            self.options.timezone,
            {time: at for time, at in timeline.requested.items() if time in completed},
            self.options.saved,
            is_ours,
            now,
            self.location.uri,
            TIMEZONE,
        )
