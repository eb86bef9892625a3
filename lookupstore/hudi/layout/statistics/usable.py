"""Read statistics for scans, and warn of those that cannot be read."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from lookupstore.hudi.file_group.groups import FileSlice
from lookupstore.hudi.layout.statistics.proof import check_footers
from lookupstore.hudi.layout.statistics.skipping import Skipping, skip
from lookupstore.hudi.layout.statistics.table_statistics import TableStatistics
from lookupstore.hudi.layout.statistics.versions import read_statistics
from lookupstore.hudi.layout.unfailing import COLLECT, failure, said, warn
from lookupstore.storage.location import Location


@dataclass
class _Unreadable:
    count: int = 0


_unreadable, _lock = _Unreadable(), threading.Lock()


def unreadable_statistics() -> int:
    """Return the number of times that this process could not read statistics of columns.

    Each failure is also a warning, which Python shows once per place in the program. This number
    counts all failures. Use it as a metric: after a failure, scans read more than they must.

    >>> before = unreadable_statistics()
    >>> unreadable_statistics() - before
    0
    """
    return _unreadable.count


def usable_statistics(
    location: Location, pending: Collection[str], instead: str
) -> tuple[TableStatistics | None, str | None]:
    """Return the statistics of a table, or the reason why they cannot be read.

    Args:
        location: Location of the table.
        pending: Request times of pending writes.
        instead: Consequence of a failure, for the warning.

    Returns:
        Statistics, and the text of the error. Both are None if the table keeps no statistics.
    """
    try:
        return read_statistics(location, pending), None
    except Exception as error:
        return None, _unusable(location, instead, error)


def usable_skipping(
    location: Location,
    pending: Collection[str],
    where: pc.Expression,
    columns: pa.Schema,
    files: Sequence[FileSlice],
    others: Callable[[], TableStatistics | None],
) -> tuple[Skipping | None, str | None]:
    """Find the files that a filter rules out, or the reason why that is unknown.

    If the table has no statistics of lookupstore, those of another program are used, after a check
    of some footers.

    Args:
        location: Location of the table.
        pending: Request times of pending writes.
        where: Filter, with columns and types of the table.
        columns: All columns of the table.
        files: Base files to look at.
        others: Function that reads the statistics of another program, or returns None if there are
            none.

    Returns:
        Result of `skip`, and the text of the error. Both are None if there are no statistics.
    """
    instead = "filters skip no files"
    statistics, unreadable = usable_statistics(location, pending, instead)
    if unreadable is not None:
        return None, unreadable
    try:
        if statistics is not None:
            return skip(statistics, where, columns, files), None
        statistics = others()
        if statistics is None:
            return None, None
        skipping = skip(statistics, where, columns, files)
        check_footers(location, skipping, where, columns, files)
        return skipping, None
    except Exception as error:
        return None, _unusable(location, instead, error)


def _unusable(location: Location, instead: str, error: Exception) -> str:
    """Count a failure and warn of it; return its text."""
    with _lock:
        _unreadable.count += 1
    without = f"statistics of columns cannot be read, so that {instead}"
    warn(failure(location, without, error, COLLECT))
    return said(error)
