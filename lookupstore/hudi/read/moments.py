"""A table at its newest commit and at former ones: its slices, and which of them differ.

A slice that the table has at two moments has the same rows at both. Rows that are gone, and rows
that are new, are in other slices.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import pyarrow as pa
import xxhash

from lookupstore.errors import LookupStoreError, StaleStoreError
from lookupstore.filters.row_filter import RowFilter
from lookupstore.hudi.file_group.groups import FileSlice
from lookupstore.hudi.log.slices import MergedSlice
from lookupstore.hudi.meta_columns import META_COLUMNS
from lookupstore.hudi.read.partition_pruning import partitions_left
from lookupstore.hudi.read.scan_plan import ScanPlan, plan_scan
from lookupstore.hudi.timeline.names import GroupId
from lookupstore.hudi.timeline.timeline import COMPACTION
from lookupstore.hudi.view import TableView, read_view
from lookupstore.source.source import Source
from lookupstore.storage.location import Location, as_location
from lookupstore.storage.read_errors import READ_ERRORS
from lookupstore.tables.history import TableMoment, hash_of
from lookupstore.tables.kept_columns import HostColumns

_Identity = tuple[str, ...]
# Identity of the moment before the first commit.
_NO_COMMIT = "none"


@dataclass(frozen=True)
class SliceMoment:
    """A table at one moment, in its data columns.

    Attributes:
        view: State of the table now.
        plan: Scan of the rows of the moment.
        snapshot_id: Position of the last commit that counts, and the request times of earlier ones
            that were pending.
        later: Request times of commits that do not count.
        condition: Condition that rows meet. None: all rows count.
        as_of: Time of the moment, if it was chosen by its time. Empty: it was not.
    """

    view: TableView = field(repr=False)
    plan: ScanPlan
    snapshot_id: str
    later: frozenset[str] = frozenset()
    condition: RowFilter | None = None
    as_of: str = ""

    @property
    def description(self) -> str:
        """Return a description of the table and the moment."""
        return f"Hudi table {self.view.location.uri} at instant {self.snapshot_id.split(' ')[0]}"

    @property
    def schema(self) -> pa.Schema:
        """Return the data columns."""
        return self.plan.wanted

    @property
    def table_id(self) -> str:
        """Return the name of the table."""
        return self.view.options.name

    @property
    def files_hash(self) -> str:
        """Return 32 hexadecimal digits; see `TableMoment`."""
        return hash_of([self._identify(file) for file in self.plan.files])

    def columns_hash(self, names: Sequence[str]) -> str:
        """Return 32 hexadecimal digits; see `TableMoment`."""
        condition = self.condition
        names = [*dict.fromkeys([*names, *(() if condition is None else condition.names)])]
        columns = pa.schema([self.plan.schema.field(name) for name in names])
        return hash_of([columns.to_string(), None if condition is None else condition.identity])

    def source(self) -> Source:
        """Return all rows as a source.

        Statistics leave out further files and row groups in which no row meets the condition.
        """
        plan, count = self.plan, len(self.plan.files)
        if self.condition is not None:
            plan = plan.narrowed(self.condition.expression)
        files = f"{count} file{'s'[: count != 1]}"
        return Source(
            plan.wanted,
            f"{plan.location.uri} (Hudi table{self.as_of and f' as of {self.as_of}'}, {files})",
            lambda columns: _rows(plan, None, plan.files, columns),
            self._count_rows,
            is_files=True,
            fingerprint=self._fingerprint,
            filtered=lambda condition: self.where(condition).source(),
        )

    def where(self, condition: RowFilter) -> SliceMoment:
        """Return the table with only the rows that meet one more condition.

        Slices that their partition excludes are left out.
        """
        plan = self.plan
        paths = (file.group.partition for file in plan.files)
        left = partitions_left(paths, condition.expression, plan.schema, plan.options)
        files = tuple(file for file in plan.files if file.group.partition in left)
        both = condition.and_also(self.condition)
        return replace(self, plan=replace(plan, files=files), condition=both)

    def keeping(self, kept: HostColumns) -> SliceMoment:
        """Return this object: each slice that changes is read whole."""
        return self

    def lacking(self, other: TableMoment | None) -> Sequence[SliceDifference]:
        """Return the slices with rows that the table lacks at another moment."""
        assert other is None or isinstance(other, SliceMoment)
        theirs = set() if other is None else {other._identify(file) for file in other.plan.files}
        plan = replace(self.plan, files=())
        return [
            SliceDifference(plan, file, self.condition)
            for file in self.plan.files
            if self._identify(file) not in theirs
        ]

    def _count_rows(self) -> int | None:
        # Counting rows that logs change, or that meet a condition, would read them all.
        if self.plan.has_logs or self.condition is not None:
            return None
        try:
            return self.plan.num_rows()
        except (*READ_ERRORS, LookupStoreError):  # reading the rows raises the error with the file
            return None

    @property
    def _fingerprint(self) -> str:
        """Return a text that every completed write changes."""
        view, condition = self.view, self.condition
        writes = [(one.time, one.action, one.position) for one in view.timeline.writes()]
        # A commit may change the columns without adding rows.
        said = [view.location.uri, writes, str(view.table_schema.columns)]
        if self.as_of:
            said.append(self.as_of)
        if condition is not None:
            said.append(condition.identity)
        return xxhash.xxh3_128_hexdigest(json.dumps(said).encode())

    @cached_property
    def _identify(self) -> Callable[[FileSlice], _Identity]:
        """Return a function that returns texts that differ between slices with other rows."""
        if self.view.merges_logs and self.view.options.version == 6:
            return _BlockWriters(self.view, self.later).identity
        return _identity


@dataclass(frozen=True)
class SliceDifference:
    """The rows of a slice that another moment of the table lacks.

    Attributes:
        plan: Scan of the table with the slice.
        file: The slice.
        condition: Condition that rows meet. None: all rows count.
    """

    plan: ScanPlan
    file: FileSlice
    condition: RowFilter | None

    @property
    def num_rows(self) -> int | None:
        """Return None: only the footer of the file has the number."""
        return None

    @property
    def nbytes(self) -> int:
        """Return the size of the files of the slice."""
        return self.file.bytes

    @property
    def is_remote(self) -> bool:
        """Return whether the files are on an object store."""
        return not self.plan.location.in_place

    def rows(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Yield the rows.

        Args:
            columns: Names of the columns to yield.

        Raises: The errors of `ScanPlan.batches`.
        """
        return _rows(self.plan, self.condition, [self.file], columns)


class SliceHistory:
    """A table at its newest commit, with its former ones.

    Args:
        path: Folder or URI of the table.

    Raises:
        FormatError: If tables of this kind cannot be read; the error names the property.
        CorruptionError: If the table is damaged.
        StaleStoreError: If a clean or a rollback deleted a file during the call.
    """

    def __init__(self, path: str | Location) -> None:
        self._view = view = read_view(as_location(path))
        position = max((one.position for one in view.timeline.writes()), default=_NO_COMMIT)
        snapshot_id = " ".join([position, *_pending_before(view, position)])
        #: The newest moment.
        self.newest: SliceMoment = SliceMoment(
            view, plan_scan(view, data_columns(view)), snapshot_id
        )

    def former(self, snapshot_id: str) -> SliceMoment | None:
        """Return a former moment, in the columns of the newest one. None: it is gone.

        It is gone if its commit was archived, rolled back or restored, or a clean deleted a file.

        Args:
            snapshot_id: Identity of the moment.
        """
        view = self._view
        files: tuple[FileSlice, ...] = ()
        position, *pending = snapshot_id.split(" ")
        if position != _NO_COMMIT:
            if position not in {one.position for one in view.timeline.writes()}:
                return None
            try:
                files = tuple(view.slices_until(position, "snapshot", pending))
            except StaleStoreError:
                return None
        later = {one.time for one in view.timeline.writes() if one.position > position}
        plan = replace(self.newest.plan, files=files)
        return SliceMoment(view, plan, snapshot_id, frozenset([*later, *pending]))


def data_columns(view: TableView) -> list[str]:
    """Return the names of the columns of a table that are not meta columns."""
    return [name for name in view.schema.names if name not in META_COLUMNS]


def _rows(
    plan: ScanPlan,
    condition: RowFilter | None,
    files: Sequence[FileSlice],
    columns: Sequence[str],
) -> Iterator[pa.RecordBatch]:
    """Yield some columns of the rows of some slices that meet a condition."""
    if condition is None:
        yield from replace(plan, columns=tuple(columns)).batches(files)
        return
    names = tuple(dict.fromkeys([*columns, *condition.names]))
    for batch in replace(plan, columns=names).batches(files):
        rows = condition.rows_of(batch)
        if rows.num_rows:
            yield rows.select(list(columns))


def _pending_before(view: TableView, position: str) -> list[str]:
    """Return the request times of pending writes that will be before a position.

    Since version 8 there are none: the position of a write is the time of its completion.
    """
    if view.options.version != 6:
        return []
    return [
        one.time
        for one in view.timeline.pending()
        if one.time < position
        and (one.is_write or one.writes_base_files or one.action == COMPACTION)
    ]


def _identity(file: FileSlice) -> _Identity:
    """Return texts that differ between slices with other rows: their files."""
    if not isinstance(file, MergedSlice):
        return file.path, str(file.bytes)
    base = () if file.base is None else (file.base.path, str(file.base.bytes))
    return *base, *(text for log in file.logs for text in (log.path, str(log.bytes)))


class _BlockWriters:
    """The commits that appended to the log files of each group, in version 6.

    Several commits append blocks to one log file there.

    Args:
        view: State of the table.
        later: Request times of commits that do not count.
    """

    def __init__(self, view: TableView, later: frozenset[str]) -> None:
        self._times: dict[GroupId, list[str]] = {}
        # Commits that do not name their files, which may have written to any group.
        self._unknown: list[str] = []
        for instant in view.timeline.writes():
            if instant.time in later:
                continue
            stats = view.commit(instant).stats
            if not stats:
                self._unknown.append(instant.time)
            for partition, some in (stats or {}).items():
                for file_id in {stat.file_id for stat in some if stat.file_id}:
                    self._times.setdefault(GroupId(partition, file_id), []).append(instant.time)

    def identity(self, file: FileSlice) -> _Identity:
        """Return texts that differ between slices with other rows."""
        base = file.base if isinstance(file, MergedSlice) else file
        own = (str(file.group),) if base is None else (base.path, str(base.bytes))
        since = "" if base is None else base.time
        times = [*self._times.get(file.group, ()), *self._unknown]
        return *own, *sorted(time for time in times if time > since)
