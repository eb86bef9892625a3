"""What a scan reads, planned once and read anywhere: files of one moment, and their columns.

A plan is pickled with the location of the table: who reads a part of it asks for no timeline.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from lookupstore.hudi.base_files import BaseFiles, written_at
from lookupstore.hudi.file_groups import FileSlice
from lookupstore.hudi.timeline import given_time
from lookupstore.hudi.view import TableView
from lookupstore.location import Location

# Bytes that take as long as it takes to open a file, as Spark reckons.
_OPEN_BYTES = 4 << 20


@dataclass(frozen=True)
class ScanPlan:
    """Say which rows of a table are read.

    Attributes:
        location: of the table.
        schema: all columns of the table at that moment.
        columns: names of those that are wanted, in this order.
        files: base files that have the rows.
        where: which rows of them; None: all.
    """

    location: Location
    schema: pa.Schema
    columns: tuple[str, ...]
    files: tuple[FileSlice, ...]
    where: pc.Expression | None = None

    @property
    def wanted(self) -> pa.Schema:
        """Return the columns that are wanted."""
        return pa.schema([self.schema.field(name) for name in self.columns])

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
            FormatError: a file has a column whose type is no narrower one than the table's.
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
    since: str | None = None,
    until: str | None = None,
) -> ScanPlan:
    """Plan what `HudiTable.scan` reads, or, with `since` or `until`, `HudiTable.incremental`.

    Args:
        view: the table.
        columns: that are wanted, in this order; None: the meta columns, then the data columns.
        filter: which rows, as an expression of `pyarrow.compute`.
        as_of: request time of the last instant that counts; None: the latest.
        since: position of the last instant whose rows are known already.
        until: position of the last instant whose rows are wanted.

    Raises:
        KeyError: a column that the table has not.
        ValueError: a time is none of an instant, `as_of` is given with another time, or `filter`
            does not fit the columns.
        FormatError: the table is of a kind that is not read; or its rows do not say when they
            changed.
        CorruptionError: the timeline is damaged.
    """
    names = view.names(columns)
    where = filter
    as_of, since, until = (
        given_time(argument, time)
        for argument, time in (("as_of", as_of), ("since", since), ("until", until))
    )
    if since is None and until is None:
        files = [group.current for group in view.groups(as_of)]
    elif as_of is not None:
        raise ValueError("as_of is given with since or until; give one or the others")
    else:
        files, times = view.changed(since, until)
        where = written_at(times) if filter is None else written_at(times) & filter
    if where is not None:
        BaseFiles(view.location, [], view.schema).table(names, where)  # says what is wrong with it
    return ScanPlan(view.location, view.schema, tuple(names), tuple(files), where)
