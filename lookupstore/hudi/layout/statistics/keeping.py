"""Keep the statistics of a table up to date with every write.

A write computes the statistics of its new files before it takes the lock of the table. Under the
lock, just before it completes, it merges them with those of the other files. A file without
statistics is only read more often. Failures of statistics therefore never fail a write.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import ThreadPoolExecutor

import pyarrow as pa

from lookupstore.errors import LookupStoreError
from lookupstore.hudi.file_group.groups import FileSlice, parse_base_file
from lookupstore.hudi.keys.table_schema import parse_table_schema
from lookupstore.hudi.layout.statistics.file_statistics import (
    FileStatistics,
    file_statistics,
    most_columns,
)
from lookupstore.hudi.layout.statistics.table_statistics import TableStatistics
from lookupstore.hudi.layout.statistics.versions import (
    kept_columns,
    read_statistics,
    release,
    set_kept_columns,
    write_version,
)
from lookupstore.hudi.layout.unfailing import COLLECT, NO_STATISTICS, failure, said, warn
from lookupstore.hudi.meta_columns import META_COLUMNS, META_FIELDS
from lookupstore.hudi.timeline.commit import WriteStat
from lookupstore.hudi.timeline.names import GroupId
from lookupstore.hudi.view import TableView
from lookupstore.storage.location import Location

#: Number of columns with statistics if none are named: the first columns of the table.
MOST_COLUMNS = 32
# Number of footers that are read at a time.
_THREADS = 16

_log = logging.getLogger(__name__)


def statistics_of(
    location: Location,
    files: Sequence[FileSlice],
    columns: pa.Schema,
    of_file: Callable[[Location, FileSlice, pa.Schema], FileStatistics] = file_statistics,
) -> TableStatistics:
    """Return the statistics of columns of files.

    Args:
        location: Location of the table.
        files: Base files of the table.
        columns: Columns to compute statistics of, in their types in the table.
        of_file: Function that returns the statistics of one file. Default: read the footer, and
            also the rows if the footer is not enough.

    Raises:
        CorruptionError: If a file is damaged.
        FormatError: If a column of a file cannot be widened to the type in the table.
        StaleStoreError: If a file was deleted.
        OSError: If a file cannot be read.
    """
    with ThreadPoolExecutor(_THREADS, thread_name_prefix="lookupstore-statistics") as pool:
        found = list(pool.map(lambda file: of_file(location, file, columns), files))
    return TableStatistics.of(found, columns)


def new_statistics(
    location: Location, stats: Sequence[WriteStat], schema: str, shown: str
) -> TableStatistics | None:
    """Return the statistics of the files of a write.

    None: the table keeps no statistics.

    Args:
        location: Location of the table.
        stats: Commit entries of the files that were written.
        schema: Avro schema of the table's data columns after the write.
        shown: Path of the instant, for errors.

    Raises:
        CorruptionError: If the file with the names of the kept columns is damaged, or a base file
            is.
        FormatError: If a column of a file cannot be widened to the type in the table.
        StaleStoreError: If a file was deleted.
        OSError: If a file cannot be read.
    """
    kept = kept_columns(location)
    if kept is None:
        return None
    columns = parse_table_schema(schema, shown, META_COLUMNS).columns
    files = [
        parse_base_file(stat.path or "", stat.file_size_in_bytes or 0, shown) for stat in stats
    ]
    return statistics_of(location, files, _wanted(columns, kept.names))


def keep_statistics(
    now: TableView, time: str, new: TableStatistics, replaced: Collection[GroupId]
) -> None:
    """Write the statistics of an instant that is about to be completed.

    The caller holds the lock of the table. If the previous statistics are damaged, a warning is
    shown, and only the statistics of the new files are kept.

    Args:
        now: Current view of the table.
        time: Request time of the instant.
        new: Statistics of the new files of the instant.
        replaced: File groups that the instant replaces.

    Raises:
        OSError: If a file cannot be read or written.
    """
    pending = pending_writes(now)
    try:
        before = read_statistics(now.location, pending)
    except LookupStoreError as error:
        warn(failure(now.location, NO_STATISTICS, error, COLLECT))
        before = None
    if before is not None:
        groups = {f"{one.partition}/{one.file_id}".lstrip("/") for one in replaced}
        groups |= set(new.groups())
        new = before.without((), groups).with_files(new)
    write_version(now.location, time, new, pending)


def pending_writes(view: TableView) -> tuple[str, ...]:
    """Return the request times of all pending writes."""
    return tuple(one.time for one in view.timeline.pending() if one.is_write)


def collect(view: TableView, names: Sequence[str] | None) -> TableStatistics:
    """Compute the statistics of columns of all current files of a table.

    Args:
        view: View of the table.
        names: Names of the columns; columns without an order are left out. Default: the first 32
            data columns with an order.

    Raises:
        ValueError: If a column is named twice.
        KeyError: If the table does not have a column.
        CorruptionError: If the timeline or a file is damaged.
        FormatError: If a column of a file cannot be widened to the type in the table.
        StaleStoreError: If a file was deleted.
        OSError: If a file cannot be read.
    """
    if names is not None:
        names = list(view.names(names))
        twice = [name for name, count in Counter(names).items() if count > 1]
        if twice:
            raise ValueError(f"columns: {twice[0]!r} is named twice; name each column once")
    columns = _wanted(view.table_schema.columns, names)
    return statistics_of(view.location, [one.current for one in view.groups(None)], columns)


def names_with(view: TableView, by: Sequence[str]) -> list[str] | None:
    """Return the columns to keep statistics of, with some new columns added.

    Args:
        view: View of the table.
        by: Names of the columns to add; columns without an order are left out.

    Returns:
        Names of the columns that the table keeps statistics of, and of the new ones. None: the
        table already keeps statistics of all columns in `by` that have an order.

    Raises:
        CorruptionError: If the file with the names of the kept columns is damaged.
        OSError: If that file cannot be read.
    """
    columns = view.table_schema.columns
    kept = kept_columns(view.location)
    before = [] if kept is None else _wanted(columns, kept.names).names
    new = [name for name in most_columns(columns, by, len(by)).names if name not in before]
    return [*before, *new] if new else None


def start(now: TableView, collected: TableStatistics, names: Sequence[str] | None) -> None:
    """Start to keep statistics of a table, beginning with those that were collected.

    The caller holds the lock of the table.

    Args:
        now: Current view of the table.
        collected: Statistics of files of the table; some of the files may have been deleted.
        names: Names of the columns to keep statistics of. Default: the first 32 data columns with
            an order.

    Raises:
        OSError: If a file cannot be read or written.
    """
    location = now.location
    set_kept_columns(location, names)
    there = {one.path for one in now.files()}
    release(location, there)
    writes = now.timeline.writes()
    if not writes:
        return
    pending = pending_writes(now)
    try:
        collected = _with_newer(read_statistics(location, pending), collected, there)
    except OSError:
        raise
    except Exception as error:
        # They are made again now; those of files that were committed meanwhile are made next time.
        _log.info("%s: statistics are not continued: %s", location.uri, said(error))
    paths = set(collected.table["path"].to_pylist())
    write_version(location, writes[-1].time, collected.without(paths - there), pending)


def _with_newer(
    before: TableStatistics | None, collected: TableStatistics, there: Collection[str]
) -> TableStatistics:
    """Add the statistics of files that were committed after the collection."""
    if before is None:
        return collected
    newer = before.without(set(collected.table["path"].to_pylist()))
    gone = set(newer.table["path"].to_pylist()) - set(there)
    return newer.without(gone).with_files(collected)


def _wanted(columns: pa.Schema, names: Sequence[str] | None) -> pa.Schema:
    # Meta columns have statistics only if they are named.
    everything = columns if names is None else pa.schema([*META_FIELDS, *columns])
    return most_columns(everything, names, MOST_COLUMNS)
