"""What a scan reads, planned once and read anywhere: files of one moment, and their columns.

A plan is pickled with the location of the table: who reads a part of it asks for no timeline.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import compress

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from lookupstore.hudi.file_group.groups import FileSlice
from lookupstore.hudi.file_group.scan import BaseFiles, written_at
from lookupstore.hudi.layout import (
    Filter,
    TableStatistics,
    fitting_filter,
    guarantees,
    names_of,
    pending_writes,
    told_to_arrow,
    usable_skipping,
    usable_statistics,
)
from lookupstore.hudi.options import TableOptions
from lookupstore.hudi.read.java_statistics import java_statistics
from lookupstore.hudi.read.partition_pruning import partitions_left
from lookupstore.hudi.read.scan_funnel import Files, ScanFunnel
from lookupstore.hudi.timeline.timeline import When, given_position, given_time
from lookupstore.hudi.view import TableView
from lookupstore.storage.location import Location
from lookupstore.storage.uris import shown_uri

_log = logging.getLogger(__name__)

# Bytes that take as long as it takes to open a file, as Spark reckons.
_OPEN_BYTES = 4 << 20


@dataclass(frozen=True)
class ScanPlan:
    """Which rows of a table are read.

    Attributes:
        location: of the table.
        options: of the table.
        schema: all columns of the table at that moment.
        columns: names of those that are wanted, in this order.
        files: base files that have the rows.
        where: which rows of them; None: all.
        pending: request times of writes that were not completed when it was planned.
        funnel: what the last filter left of the files; None: there was none.
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
        """Return the columns that are wanted."""
        return pa.schema([self.schema.field(name) for name in self.columns])

    @property
    def base_files(self) -> BaseFiles:
        """Return what reads the files as one table."""
        return BaseFiles(self.location, [file.path for file in self.files], self.schema)

    def filtered(self, given: Filter) -> ScanPlan:
        """Return the plan of those of the rows that a filter leaves, too, if it fits the columns.

        Raises:
            TypeError, ValueError: it does not, or is none.
            ImportError: it is SQL, and what parses that is not installed.
        """
        return self.narrowed(fitting_filter(given, self.schema, self.location))

    def narrowed(self, where: pc.Expression) -> ScanPlan:
        """Return the plan of those of the rows that a filter leaves, too.

        Files are left out if no row of their partition can be one of these, or none of their own,
        by statistics of columns, if the plan uses these. If they cannot be read, a warning says so.
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
        """Return what the last filter left of the files.

        Args:
            row_groups: whether to look at the footers of those that are left, too.

        Raises: what `batches` does, with `row_groups`.
        """
        assert self.funnel is not None
        if not row_groups:
            return self.funnel
        told = None if self.where is None else told_to_arrow(self.where, self.schema)
        before, left = self.base_files.row_groups(told)
        sizes = Files(len(before), sum(before)), Files(len(left), sum(left))
        return replace(self.funnel, row_groups=sizes)

    def dataset(self) -> ds.Dataset:
        """Return the files as a dataset of Arrow, which leaves out files as a scan does."""
        statistics = self._statistics()[0] if self.skipping else None
        known = {} if statistics is None else guarantees(statistics, self.schema, self.files)
        paths = [file.path for file in self.files]
        return BaseFiles(self.location, paths, self.schema, known).dataset()

    def _statistics(self) -> tuple[TableStatistics | None, str | None]:
        return usable_statistics(self.location, self.pending, "filters skip no files")

    def _skipped(
        self, where: pc.Expression, files: tuple[FileSlice, ...], funnel: ScanFunnel
    ) -> tuple[tuple[FileSlice, ...], ScanFunnel]:
        """Return the files that statistics leave, and what that came to."""

        def others() -> TableStatistics | None:
            names = names_of(where)
            columns = [one for one in self.schema if names is None or one.name in names]
            return java_statistics(
                self.location, self.options, self.pending, pa.schema(columns), files
            )

        found, unreadable = usable_skipping(
            self.location, self.pending, where, self.schema, files, others
        )
        if found is None:
            return files, replace(funnel, unreadable=unreadable)
        left = tuple(compress(files, found.kept))
        unknown = Files.of(list(compress(files, ~found.known)))
        funnel = replace(
            funnel, statistics=Files.of(left), without_statistics=unknown, parts=found.parts
        )
        return left, funnel

    def parts(self, nbytes: int, tasks: int = 1) -> list[tuple[FileSlice, ...]]:
        """Return the files in groups, each for a task of its own.

        Args:
            nbytes: most bytes of a group of several files.
            tasks: that can run at one time: there are as many groups, if there are files for it.
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
            limit: at most so many, the first ones; None: all.

        Raises: what `batches` does.
        """
        if limit is not None:
            return pa.Table.from_batches(self.first(limit), self.wanted)
        if self._is_told:
            return self.base_files.table(self.columns, self.where)
        return pa.Table.from_batches(self.batches(threads=True), self.wanted)

    def batches(
        self, files: Sequence[FileSlice] | None = None, *, threads: bool = False
    ) -> Iterator[pa.RecordBatch]:
        """Yield the rows of some of the files, a few at a time.

        Args:
            files: that are read; None: all.
            threads: whether to read and decode several files at the same time, and ahead.

        Raises:
            CorruptionError: a file is damaged.
            FormatError: a file has a column whose type cannot be widened to the table's.
            StaleStoreError: a file is gone: it was cleaned, or its commit was rolled back.
            OSError: a remote file could not be read, or is damaged.
        """
        paths = [file.path for file in (self.files if files is None else files)]
        reader = BaseFiles(self.location, paths, self.schema)
        if self.where is None or self._is_told:
            return reader.batches(list(self.columns), self.where, threads=threads)
        return self._filtered(reader, self.where, threads=threads)

    def first(self, limit: int) -> Iterator[pa.RecordBatch]:
        """Yield the first rows; files are read one after the other, until there are enough.

        Args:
            limit: at most so many.

        Raises: what `batches` does.
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

    def _filtered(
        self, reader: BaseFiles, where: pc.Expression, *, threads: bool
    ) -> Iterator[pa.RecordBatch]:
        """Yield rows for which a filter is true that Arrow is told in part, or not at all."""
        names = names_of(where)
        asked = self.schema.names if names is None else [*self.columns, *sorted(names)]
        told = told_to_arrow(where, self.schema)
        for batch in reader.batches(list(dict.fromkeys(asked)), told, threads=threads):
            # A batch goes through at once: its rows keep their order. Not on one thread, on which
            # Arrow would wait for the scan that the batch is of, and that for it.
            rows = pa.Table.from_batches([batch]).filter(where)
            yield from rows.select(list(self.columns)).to_batches()


def check_limit(limit: int | None) -> None:
    """Raise `ValueError` or `TypeError` if a number of rows is none."""
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
    """Plan what `HudiTable.scan` reads.

    Args:
        view: the table.
        columns: that are wanted, in this order; None: the meta columns, then the data columns.
        filter: which rows; see `Filter`.
        as_of: request time of the last instant that counts; None: the latest.
        skipping: Whether statistics of columns may leave out files.

    Raises:
        KeyError: a column that the table does not have.
        ValueError: `as_of` is not the time of an instant, or `filter` does not fit the columns.
        FormatError: the table is of a kind that is not read.
        CorruptionError: the timeline is damaged.
    """
    names = view.names(columns)
    as_of = given_time("as_of", as_of, view.options.timezone)
    files = [group.current for group in view.groups(as_of)]
    return _planned(view, names, files, None, filter, skipping=skipping)


def plan_changes(
    view: TableView,
    columns: Sequence[str] | None = None,
    filter: Filter | None = None,
    *,
    since: When | None = None,
    until: When | None = None,
    skipping: bool = True,
) -> ScanPlan:
    """Plan what `HudiTable.incremental` reads.

    Args:
        view: the table.
        columns: as of `plan_scan`.
        filter: as of `plan_scan`.
        since: position of the last instant whose rows are known already; None: there is none.
        until: position of the last instant whose rows are wanted; None: of all.
        skipping: as of `plan_scan`.

    Raises:
        KeyError, ValueError, CorruptionError: as of `plan_scan`.
        FormatError: the rows of the table do not say when they changed.
    """
    names = view.names(columns)
    zone = view.options.timezone
    since, until = given_position("since", since, zone), given_position("until", until, zone)
    files, times = view.changed(since, until)
    return _planned(view, names, files, written_at(times), filter, skipping=skipping)


def _planned(
    view: TableView,
    names: Sequence[str],
    files: Sequence[FileSlice],
    where: pc.Expression | None,
    given: Filter | None,
    *,
    skipping: bool,
) -> ScanPlan:
    plan = ScanPlan(
        view.location,
        view.options,
        view.schema,
        tuple(names),
        tuple(files),
        where,
        pending_writes(view),
        skipping=skipping,
    )
    return plan if given is None else plan.filtered(given)
