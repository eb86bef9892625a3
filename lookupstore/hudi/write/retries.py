"""Retry a write on the current table after a conflict with another writer, or a clean."""

from __future__ import annotations

import logging
import random
import time
from collections.abc import Callable
from typing import TypeVar

from lookupstore.errors import CommitConflictError, StaleStoreError
from lookupstore.hudi.view import TableView
from lookupstore.hudi.write.plan import DELETE, INSERT, UPSERT
from lookupstore.source.kept import KeptRows

T = TypeVar("T")

#: Writes that are retried. A write that replaces all rows of a partition or table may have been
#: made of the previous rows; a retry would lose the rows that were added since.
RETRIED = frozenset({UPSERT, INSERT, DELETE})

_log = logging.getLogger(__name__)

# Longest pause in seconds after the first conflict, which doubles with each conflict, and longest
# pause of all.
_PAUSE, _LONGEST = 0.05, 5.0


def retried_on(
    open_view: Callable[[], TableView],
    write: Callable[[TableView, int], T],
    retries: int,
    rows: KeptRows | None = None,
) -> T:
    """Write to the current table, and again after another writer's commit or clean.

    Args:
        open_view: Function that returns the current table.
        write: Function that writes, given the table and the number of conflicts so far.
        retries: Number of times to try again.
        rows: Rows of the write; see `retried`.

    Raises the errors of `retried`.
    """
    view: TableView | None = None

    def attempt(number: int) -> T:
        nonlocal view
        view = open_view()
        return write(view, number)

    def has_changed() -> bool:
        return view is not None and view.reloaded().timeline != view.timeline

    return retried(attempt, retries, rows, has_changed)


def retried(
    write: Callable[[int], T],
    retries: int,
    rows: KeptRows | None = None,
    has_changed: Callable[[], bool] = lambda: False,
) -> T:
    """Write, and after a conflict find the keys again and write again.

    Source: HoodieSparkSqlWriter (hoodie.write.num.retries.on.conflict.failures) of Apache Hudi.

    Args:
        write: Function that writes, given the number of conflicts so far.
        retries: Number of times to try again.
        rows: Rows of the write. None: the rows can be read any number of times.
        has_changed: Function that returns whether the table has changed since the last try began. A
            missing file is then one that a clean removed.

    Returns:
        Result of the first write without a conflict.

    Raises:
        CommitConflictError: If another writer committed first on every try, the conflict is with a
            pending instant, or the rows cannot be read again.
        StaleStoreError: If a clean removed files on every try, or the rows cannot be read again.
    """
    attempt = 0
    while True:
        try:
            return write(attempt)
        except (CommitConflictError, StaleStoreError) as error:
            if attempt == retries:
                raise
            if isinstance(error, CommitConflictError):
                if error.is_pending:
                    raise
            elif not has_changed():  # files with given rows have changed
                raise
            if rows is not None and not rows.can_be_read_again:
                raise
            _log.info("another writer was faster, so the write is tried again: %s", error)
        attempt += 1
        # Two writers that collided once are unlikely to collide again.
        time.sleep(random.uniform(0, min(_LONGEST, _PAUSE * 2 ** (attempt - 1))))
