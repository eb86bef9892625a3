"""Plans of scans: the files and columns of one moment.

A plan is pickled with the location of the table, so that a reader of a part does not read the
timeline.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import compress, groupby

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from lookupstore.errors import FormatError
from lookupstore.filters import Filter, names_of, told_to_arrow
from lookupstore.hudi.file_group.groups import FileSlice
from lookupstore.hudi.file_group.scan import BaseFiles, written_at
from lookupstore.hudi.layout import (
    TableStatistics,
    fitting_filter,
    guarantees,
    pending_writes,
    usable_skipping,
    usable_statistics,
)
from lookupstore.hudi.log.merged_rows import SliceReader
from lookupstore.hudi.log.slices import MergedSlice
from lookupstore.hudi.meta_columns import RECORD_KEY
from lookupstore.hudi.options import TableOptions
from lookupstore.hudi.read.java_statistics import java_statistics
from lookupstore.hudi.read.partition_pruning import partitions_left
from lookupstore.hudi.read.scan_funnel import Files, ScanFunnel
from lookupstore.hudi.timeline.given_times import When, given_position, given_time
from lookupstore.hudi.view import TableView, check_begun
from lookupstore.storage.location import Location
from lookupstore.storage.uris import shown_uri

_log = logging.getLogger(__name__)

# Number of bytes that take as long to read as opening a file, as Spark estimates.
_OPEN_BYTES = 4 << 20


@dataclass(frozen=True)
class ScanPlan:
    """The rows of a table to read.

    Attributes:
        location: Location of the table.
        options: Options of the table.
        schema: Schema of all columns of the table at that moment.
        columns: Names of the columns to return, in this order.
        files: Slices with the rows: base files, or `MergedSlice` with log files.
        where: Filter on the rows of these files. None: all rows.
        pending: Request times of the writes that were pending when the scan was planned.
        funnel: Numbers of files that the last filter left. None: no filter.
        skipping: Whether statistics of columns may leave out files.
    """

    location: Location
    options: TableOptions
    schema: pa.Schema
    columns: tuple[str, ...]
    files: tuple[FileSlice, ...]
    where: pc.Expression | None = None
    pending: tuple[str, ...] = ()
    funnel: ScanFunnel | None = None
    skipping: bool = True

    @property
    def wanted(self) -> pa.Schema:
        """Return the schema of the columns to return."""
        return pa.schema([self.schema.field(name) for name in self.columns])

    @property
    def base_files(self) -> BaseFiles:
        """Return a reader of the files as one table.

        Raises:
            FormatError: If there are log files.
        """
        if self.has_logs:
            raise FormatError(
                f"{self.location.uri}: the table has log files, whose changes are not in its base "
                "files; scan the table, or open it with query_type='read_optimized'"
            )
        return BaseFiles(self.location, [file.path for file in self.files], self.schema)

    @property
    def has_logs(self) -> bool:
        """Return whether rows of base files are merged with log files."""
        return any(isinstance(file, MergedSlice) for file in self.files)

    def num_rows(self) -> int:
        """Return the number of rows of all files, from footers where there are no log files.

        Raises: The same errors as `batches`.
        """
        if not self.has_logs:
            return self.base_files.num_rows()
        plan = replace(self, columns=(RECORD_KEY,))
        return sum(batch.num_rows for batch in plan.batches(threads=True))

    def filtered(self, given: Filter) -> ScanPlan:
        """Return the plan with one more filter, after checking that it fits the columns.

        Raises:
            TypeError, ValueError: If `given` is not a filter, or does not fit the columns.
            ImportError: If `given` is SQL, and sqlglot is not installed.
        """
        return self.narrowed(fitting_filter(given, self.schema, self.location))

    def narrowed(self, where: pc.Expression) -> ScanPlan:
        """Return the plan with one more filter.

        Files are skipped if no row of their partition can match or, if the plan uses statistics of
        columns, if these rule out a match. If statistics cannot be read, a warning says so.
        """
        paths = (file.group.partition for file in self.files)
        left = partitions_left(paths, where, self.schema, self.options)
        files = tuple(file for file in self.files if file.group.partition in left)
        funnel = ScanFunnel(Files.of(self.files), Files.of(files), Files.of(files), Files.of(files))
        if files and self.skipping:
            files, funnel = self._skipped(where, files, funnel)
        if len(files) < len(self.files):
            _log.info(
                "%s: reading %d of %d files; the filter leaves out %d by their partitions, and %d "
                "by statistics of columns",
                shown_uri(self.location.uri),
                len(files),
                len(self.files),
                funnel.files.count - funnel.partitions.count,
                funnel.partitions.count - funnel.statistics.count,
            )
        both = where if self.where is None else self.where & where
        return replace(self, files=files, where=both, funnel=funnel)

    def explained(self, *, row_groups: bool) -> ScanFunnel:
        """Return the numbers of files that the last filter left.

        Args:
            row_groups: Whether to read the footers of these files, and count the remaining row
                groups.

        Raises: With `row_groups`, the same errors as `batches`.
        """
        assert self.funnel is not None
        if not row_groups:
            return self.funnel
        told = None if self.where is None else told_to_arrow(self.where, self.schema)
        before, left = self.base_files.row_groups(told)
        sizes = Files(len(before), sum(before)), Files(len(left), sum(left))
        return replace(self.funnel, row_groups=sizes)

    def dataset(self) -> ds.Dataset:
        """Return the files as an Arrow dataset, which skips files as a scan does.

        Raises:
            FormatError: If there are log files.
        """
        if self.has_logs:
            return self.base_files.dataset()  # raises the error
        statistics = self._statistics()[0] if self.skipping else None
        known = {} if statistics is None else guarantees(statistics, self.schema, self.files)
        paths = [file.path for file in self.files]
        return BaseFiles(self.location, paths, self.schema, known).dataset()

    def _statistics(self) -> tuple[TableStatistics | None, str | None]:
        return usable_statistics(self.location, self.pending, "filters skip no files")

    def _skipped(
        self, where: pc.Expression, files: tuple[FileSlice, ...], funnel: ScanFunnel
    ) -> tuple[tuple[FileSlice, ...], ScanFunnel]:
        """Return the files that statistics do not rule out, and their numbers."""

        def others() -> TableStatistics | None:
            names = names_of(where)
            columns = [one for one in self.schema if names is None or one.name in names]
            return java_statistics(
                self.location, self.options, self.pending, pa.schema(columns), plain
            )

        # Statistics of a base file say nothing about the changes in log files.
        merged = [file for file in files if isinstance(file, MergedSlice)]
        plain = tuple(file for file in files if not isinstance(file, MergedSlice))
        found, unreadable = usable_skipping(
            self.location, self.pending, where, self.schema, plain, others
        )
        if found is None:
            return files, replace(funnel, unreadable=unreadable)
        kept = {file.path for file in (*merged, *compress(plain, found.kept))}
        left = tuple(file for file in files if file.path in kept)
        unknown = Files.of([*merged, *compress(plain, ~found.known)])
        funnel = replace(
            funnel, statistics=Files.of(left), without_statistics=unknown, parts=found.parts
        )
        return left, funnel

    def parts(self, nbytes: int, tasks: int = 1) -> list[tuple[FileSlice, ...]]:
        """Return the files in groups, one for each task.

        Args:
            nbytes: Maximum bytes of a group of several files.
            tasks: Number of tasks that can run at the same time. There are as many groups, if there
                are enough files.
        """
        total = sum(file.bytes + _OPEN_BYTES for file in self.files)
        most = min(nbytes, max(_OPEN_BYTES, total // max(1, tasks)))
        parts: list[list[FileSlice]] = []
        size = 0
        for file in self.files:
            if not parts or size + file.bytes + _OPEN_BYTES > most:
                parts.append([])
                size = 0
            parts[-1].append(file)
            size += file.bytes + _OPEN_BYTES
        return [tuple(part) for part in parts]

    def table(self, limit: int | None = None) -> pa.Table:
        """Return the rows of all files.

        Args:
            limit: Maximum number of rows; the first ones. None: all rows.

        Raises: The same errors as `batches`.
        """
        if limit is not None:
            return pa.Table.from_batches(self.first(limit), self.wanted)
        if self._is_told and not self.has_logs:
            return self.base_files.table(self.columns, self.where)
        if self.has_logs and not self.columns:  # batches without columns have no rows in a table
            return replace(self, columns=(RECORD_KEY,)).table().select([])
        return pa.Table.from_batches(self.batches(threads=True), self.wanted)

    def batches(
        self, files: Sequence[FileSlice] | None = None, *, threads: bool = False
    ) -> Iterator[pa.RecordBatch]:
        """Yield the rows of some of the files, a few at a time.

        Args:
            files: Files to read. None: all files of the plan.
            threads: Whether to read and decode several files at the same time, and ahead.

        Raises:
            CorruptionError: If a file is damaged.
            FormatError: If the type of a column of a file cannot be widened to the table's.
            StaleStoreError: If a file was deleted by a clean or a rollback.
            OSError: If a remote file cannot be read, or is damaged.
        """
        given = self.files if files is None else files
        if any(isinstance(file, MergedSlice) for file in given):
            return self._with_logs(given, threads=threads)
        reader = BaseFiles(self.location, [file.path for file in given], self.schema)
        if self.where is None or self._is_told:
            return reader.batches(list(self.columns), self.where, threads=threads)
        return self._filtered(reader, self.where, threads=threads)

    def first(self, limit: int) -> Iterator[pa.RecordBatch]:
        """Yield the first rows, reading files one after the other until there are enough.

        Args:
            limit: Maximum number of rows.

        Raises: The same errors as `batches`.
        """
        for file in self.files if limit else ():
            for batch in self.batches([file]):
                yield batch.slice(0, limit)
                limit -= min(limit, batch.num_rows)
                if not limit:
                    return

    @property
    def _is_told(self) -> bool:
        """Return whether Arrow may choose row groups by the whole filter."""
        return self.where is None or told_to_arrow(self.where, self.schema) is self.where

    def _with_logs(self, files: Sequence[FileSlice], *, threads: bool) -> Iterator[pa.RecordBatch]:
        """Yield the rows of slices in their order, some of which have log files."""
        reader = SliceReader(self.location, self.options, self.schema)
        for is_merged, some in groupby(files, lambda file: isinstance(file, MergedSlice)):
            if not is_merged:
                yield from self.batches(tuple(some), threads=threads)
                continue
            for file in some:
                assert isinstance(file, MergedSlice)
                names = self._asked() if self.where is not None else list(self.columns)
                for batch in reader.batches(file, names, threads=threads):
                    if self.where is None:
                        yield batch
                    else:
                        rows = pa.Table.from_batches([batch]).filter(self.where)
                        yield from rows.select(list(self.columns)).to_batches()

    def _asked(self) -> list[str]:
        """Return the columns to return, and those of the filter."""
        assert self.where is not None
        names = names_of(self.where)
        asked = self.schema.names if names is None else [*self.columns, *sorted(names)]
        return list(dict.fromkeys(asked))

    def _filtered(
        self, reader: BaseFiles, where: pc.Expression, *, threads: bool
    ) -> Iterator[pa.RecordBatch]:
        """Yield matching rows for a filter that Arrow cannot apply, or only in part."""
        told = told_to_arrow(where, self.schema)
        for batch in reader.batches(self._asked(), told, threads=threads):
            # All of a batch is filtered at once, so its rows keep their order. Arrow's threads are
            # used: on one thread, Arrow would wait for the scan of the batch, and the scan for
            # Arrow.
            rows = pa.Table.from_batches([batch]).filter(where)
            yield from rows.select(list(self.columns)).to_batches()


def check_limit(limit: int | None) -> None:
    """Raise `ValueError` or `TypeError` if a limit of rows is invalid."""
    if limit is None:
        return
    if isinstance(limit, bool) or not isinstance(limit, int):
        raise TypeError(f"limit is {limit!r}; give a whole number of rows, or None for all")
    if limit < 0:
        raise ValueError(f"limit is {limit}; give a number of rows from 0 on, or None for all")


def plan_scan(
    view: TableView,
    columns: Sequence[str] | None = None,
    filter: Filter | None = None,
    *,
    as_of: When | None = None,
    skipping: bool = True,
) -> ScanPlan:
    """Plan a read of `HudiTable.scan`.

    Args:
        view: State of the table.
        columns: Names of the columns to return, in this order. None: the meta columns, then the
            data columns.
        filter: Condition on the rows; see `Filter`. None: all rows.
        as_of: Request time of the last instant to read. None: the latest.
        skipping: Whether statistics of columns may leave out files.

    Raises:
        KeyError: If the table does not have a column.
        ValueError: If `as_of` is not a time or before the first commit, or `filter` does not fit
            the columns.
        FormatError: If tables of this kind cannot be read.
        CorruptionError: If the timeline is damaged.
    """
    names = view.names(columns)
    as_of = given_time("as_of", as_of, view.options.timezone)
    slices = view.slices(as_of)
    if as_of is not None and not slices:  # files whose commits were archived count
        check_begun(view, as_of)
    plan = scan_of(view, slices, names, skipping=skipping)
    return plan if filter is None else plan.filtered(filter)


def time_with_rows(view: TableView, as_of: When) -> str:
    """Return a moment of a table as the time of an instant, for a read of all its rows then.

    Args:
        view: State of the table.
        as_of: Instant or time, as `plan_scan` takes it.

    Raises:
        ValueError: If `as_of` is not a time, or is before the first commit.
        StaleStoreError: If the commits of that time were archived.
    """
    time = given_time("as_of", as_of, view.options.timezone)
    assert time is not None
    if not view.timeline.writes(time):
        view.slices(time)  # raises an error if earlier commits were archived
        check_begun(view, time)
        raise ValueError(
            f"{view.location.uri}: as_of is {time}, when the table had no commit yet; give a later "
            "time"
        )
    return time


def plan_changes(
    view: TableView,
    columns: Sequence[str] | None = None,
    filter: Filter | None = None,
    *,
    since: When | None = None,
    until: When | None = None,
    skipping: bool = True,
) -> ScanPlan:
    """Plan a read of `HudiTable.incremental`.

    Args:
        view: State of the table.
        columns: Names of the columns to return, in this order. None: the meta columns, then the
            data columns.
        filter: Condition on the rows; see `Filter`. None: all changed rows.
        since: Position of the last instant before the range. None: the beginning of the table.
        until: Position of the last instant of the range. None: the latest.
        skipping: Whether statistics of columns may leave out files.

    Raises:
        KeyError, ValueError, CorruptionError: See `plan_scan`.
        FormatError: If the rows of the table do not record when they changed.
    """
    names = view.names(columns)
    zone = view.options.timezone
    since = given_position("since", since, zone, view.timeline)
    until = given_position("until", until, zone, view.timeline)
    files, times = view.changed(since, until)
    plan = scan_of(view, files, names, skipping=skipping)
    plan = replace(plan, where=written_at(times))
    return plan if filter is None else plan.filtered(filter)


def scan_of(
    view: TableView,
    files: Sequence[FileSlice],
    columns: Sequence[str] = (),
    *,
    skipping: bool = True,
) -> ScanPlan:
    """Return a plan of all rows of some slices.

    Args:
        view: State of the table.
        files: Slices to read.
        columns: Names of the columns to return.
        skipping: Whether statistics of columns may leave out files.
    """
    return ScanPlan(
        view.location,
        view.options,
        view.schema,
        tuple(columns),
        tuple(files),
        pending=pending_writes(view),
        skipping=skipping,
    )
