"""Statistics of columns for readers: what cannot be read is told and counted, and is not used."""

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
    """Return how often this process could not read statistics of columns, and used none.

    Each time a warning says so, once per place in the program. This counts all of them, so that a
    metric of yours can show that scans read more than they must.

    >>> before = unreadable_statistics()
    >>> unreadable_statistics() - before
    0
    """
    return _unreadable.count


def usable_statistics(
    location: Location, pending: Collection[str], instead: str
) -> tuple[TableStatistics | None, str | None]:
    """Return what is known of columns of base files, and why that cannot be read, if so.

    Args:
        location: of the table.
        pending: request times of writes that are not completed.
        instead: what is done without, for the warning.
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
    """Return what statistics say of some files, and why they say nothing, if so; see `skip`.

    Those of another program are used if the table keeps none of ours, and footers say the same.

    Args:
        location: of the table.
        pending: as of `usable_statistics`.
        where: the filter, which fits the columns.
        columns: all columns of the table.
        files: that are looked at.
        others: reads those of another program; None: it has none.
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
    """Count a failure and warn of it; return what it says."""
    with _lock:
        _unreadable.count += 1
    without = f"statistics of columns cannot be read, so that {instead}"
    warn(failure(location, without, error, COLLECT))
    return said(error)
