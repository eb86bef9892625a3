"""Statistics that every write keeps current, once a table has them.

What a write knows of its new files is worked out before it takes the lock of the table, and merged
with what is known of the others under it, just before the write completes. Without statistics of a
file nothing is wrong, but that the file is read: so nothing of this fails a write.
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

#: Columns that statistics are kept of, if nobody names them: the first ones of the table.
MOST_COLUMNS = 32
# Footers that are read at one time.
_THREADS = 16

_log = logging.getLogger(__name__)


def statistics_of(
    location: Location,
    files: Sequence[FileSlice],
    columns: pa.Schema,
    of_file: Callable[[Location, FileSlice, pa.Schema], FileStatistics] = file_statistics,
) -> TableStatistics:
    """Return what is known of columns of files.

    Args:
        location: of the table.
        files: of it.
        columns: that are wanted.
        of_file: what says it of one file.

    Raises: as of `file_statistics`.
    """
    with ThreadPoolExecutor(_THREADS, thread_name_prefix="lookupstore-statistics") as pool:
        found = list(pool.map(lambda file: of_file(location, file, columns), files))
    return TableStatistics.of(found, columns)


def new_statistics(
    location: Location, stats: Sequence[WriteStat], schema: str, shown: str
) -> TableStatistics | None:
    """Return what is known of the files of a write; None: the table keeps no statistics.

    Args:
        location: of the table.
        stats: of the files that were written.
        schema: Avro schema of the table's data columns with them.
        shown: path of the instant, for errors.

    Raises:
        CorruptionError: what says of which columns they are kept is damaged, or a file is.
        OSError: a file cannot be read.
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
    """Write the version of an instant that is about to be completed.

    The caller holds the lock of the table.

    Args:
        now: the table as it is.
        time: of the instant.
        new: what is known of its files.
        replaced: file groups that are gone with it.

    Raises:
        OSError: a file cannot be read or written.
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
    """Return the request times of the writes that are not completed."""
    return tuple(one.time for one in view.timeline.pending() if one.is_write)


def collect(view: TableView, names: Sequence[str] | None) -> TableStatistics:
    """Return what is known of columns of all current files of a table, from the files.

    Args:
        view: of the table.
        names: of the columns; None: the first ones.

    Raises:
        ValueError: a column is named twice.
        KeyError: a column that the table does not have.
        CorruptionError, StaleStoreError, FormatError, OSError: as of `file_statistics`.
    """
    if names is not None:
        names = list(view.names(names))
        twice = [name for name, count in Counter(names).items() if count > 1]
        if twice:
            raise ValueError(f"columns: {twice[0]!r} is named twice; name each column once")
    columns = _wanted(view.table_schema.columns, names)
    return statistics_of(view.location, [one.current for one in view.groups(None)], columns)


def names_with(view: TableView, by: Sequence[str]) -> list[str] | None:
    """Return the columns to keep statistics of, so that some are among them.

    Args:
        view: of the table.
        by: names of the columns that have to be among them, as far as their values have an order.

    Returns:
        None: the table keeps statistics of all of these.

    Raises:
        CorruptionError: what says of which columns they are kept is damaged.
        OSError: it cannot be read.
    """
    columns = view.table_schema.columns
    kept = kept_columns(view.location)
    before = [] if kept is None else _wanted(columns, kept.names).names
    new = [name for name in most_columns(columns, by, len(by)).names if name not in before]
    return [*before, *new] if new else None


def start(now: TableView, collected: TableStatistics, names: Sequence[str] | None) -> None:
    """Let a table keep statistics from now on, beginning with those that were collected.

    The caller holds the lock of the table.

    Args:
        now: the table as it is.
        collected: what is known of files of it, of which some may be gone.
        names: of the columns; None: the first ones.

    Raises:
        OSError: a file cannot be written.
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
        # They are made anew here, and those of files that were committed meanwhile next time.
        _log.info("%s: statistics are not continued: %s", location.uri, said(error))
    paths = set(collected.table["path"].to_pylist())
    write_version(location, writes[-1].time, collected.without(paths - there), pending)


def _with_newer(
    before: TableStatistics | None, collected: TableStatistics, there: Collection[str]
) -> TableStatistics:
    """Return statistics with those of files that were committed since they were collected."""
    if before is None:
        return collected
    newer = before.without(set(collected.table["path"].to_pylist()))
    gone = set(newer.table["path"].to_pylist()) - set(there)
    return newer.without(gone).with_files(collected)


def _wanted(columns: pa.Schema, names: Sequence[str] | None) -> pa.Schema:
    # Meta columns only if they are named.
    everything = columns if names is None else pa.schema([*META_FIELDS, *columns])
    return most_columns(everything, names, MOST_COLUMNS)
