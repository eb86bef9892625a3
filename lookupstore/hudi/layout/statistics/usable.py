"""Statistics of columns for readers: what cannot be read is told and counted, and is not used."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Collection
from dataclasses import dataclass

from lookupstore.errors import CorruptionError
from lookupstore.hudi.layout.statistics.table_statistics import TableStatistics
from lookupstore.hudi.layout.statistics.versions import read_statistics
from lookupstore.storage.location import Location
from lookupstore.storage.uris import shown_uri


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
    except (CorruptionError, OSError) as error:
        with _lock:
            _unreadable.count += 1
        warnings.warn(
            f"{shown_uri(location.uri)}: statistics of columns cannot be read, so that {instead}: "
            f"{error}; collect_statistics() makes them again",
            stacklevel=2,
        )
        return None, str(error)
