"""What a scan reads, planned once and read anywhere: files of one moment, and their columns.

A plan is pickled with the location of the table: who reads a part of it asks for no timeline.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa
import pyarrow.compute as pc

from lookupstore.hudi.file_group.groups import FileSlice
from lookupstore.hudi.file_group.scan import BaseFiles, written_at
from lookupstore.hudi.options import TableOptions
from lookupstore.hudi.read.partition_pruning import partitions_left
from lookupstore.hudi.timeline.timeline import given_time
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
    """

    location: Location
    options: TableOptions
    schema: pa.Schema
    columns: tuple[str, ...]
    files: tuple[FileSlice, ...]
    where: pc.Expression | None = None

    @property
    def wanted(self) -> pa.Schema:
        """Return the columns that are wanted."""
        return pa.schema([self.schema.field(name) for name in self.columns])

    @property
    def base_files(self) -> BaseFiles:
        """Return what reads the files as one table."""
        return BaseFiles(self.location, [file.path for file in self.files], self.schema)

    def narrowed(self, where: pc.Expression) -> ScanPlan:
        """Return the plan of those of the rows that a filter leaves, too.

        Files are left out if no row of their partition can be one of these.
        """
        paths = (file.group.partition for file in self.files)
        left = partitions_left(paths, where, self.schema, self.options)
        files = tuple(file for file in self.files if file.group.partition in left)
        if len(files) < len(self.files):
            _log.info(
                "%s: reading %d of %d files; the filter leaves out the partitions of the others",
                shown_uri(self.location.uri),
                len(files),
                len(self.files),
            )
        both = where if self.where is None else self.where & where
        return replace(self, files=files, where=both)

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

    def batches(self, files: Sequence[FileSlice]) -> Iterator[pa.RecordBatch]:
        """Yield the rows of some of the files, on one thread.

        Raises:
            CorruptionError: a file is damaged.
            FormatError: a file has a column whose type cannot be widened to the table's.
            StaleStoreError: a file is gone: it was cleaned, or its commit was rolled back.
            OSError: a remote file could not be read, or is damaged.
        """
        paths = [file.path for file in files]
        reader = BaseFiles(self.location, paths, self.schema)
        yield from reader.batches(list(self.columns), self.where, threads=False)


def plan_scan(
    view: TableView,
    columns: Sequence[str] | None = None,
    filter: pc.Expression | None = None,
    *,
    as_of: str | None = None,
) -> ScanPlan:
    """Plan what `HudiTable.scan` reads.

    Args:
        view: the table.
        columns: that are wanted, in this order; None: the meta columns, then the data columns.
        filter: which rows, as an expression of `pyarrow.compute`.
        as_of: request time of the last instant that counts; None: the latest.

    Raises:
        KeyError: a column that the table does not have.
        ValueError: `as_of` is not the time of an instant, or `filter` does not fit the columns.
        FormatError: the table is of a kind that is not read.
        CorruptionError: the timeline is damaged.
    """
    names = view.names(columns)
    as_of = given_time("as_of", as_of)
    return _planned(view, names, [group.current for group in view.groups(as_of)], None, filter)


def plan_changes(
    view: TableView,
    columns: Sequence[str] | None = None,
    filter: pc.Expression | None = None,
    *,
    since: str | None = None,
    until: str | None = None,
) -> ScanPlan:
    """Plan what `HudiTable.incremental` reads.

    Args:
        view: the table.
        columns: as of `plan_scan`.
        filter: as of `plan_scan`.
        since: position of the last instant whose rows are known already; None: there is none.
        until: position of the last instant whose rows are wanted; None: of all.

    Raises:
        KeyError, ValueError, CorruptionError: as of `plan_scan`.
        FormatError: the rows of the table do not say when they changed.
    """
    names = view.names(columns)
    since, until = given_time("since", since), given_time("until", until)
    files, times = view.changed(since, until)
    return _planned(view, names, files, written_at(times), filter)


def _planned(
    view: TableView,
    names: Sequence[str],
    files: Sequence[FileSlice],
    where: pc.Expression | None,
    filter: pc.Expression | None,
) -> ScanPlan:
    plan = ScanPlan(view.location, view.options, view.schema, tuple(names), tuple(files), where)
    if filter is None:
        return plan
    BaseFiles(view.location, [], view.schema).table(names, filter)  # says what is wrong with it
    return plan.narrowed(filter)
