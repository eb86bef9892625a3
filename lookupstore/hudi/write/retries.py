"""Writes that met the commit of another writer, and are tried again on the table as it is then."""

from __future__ import annotations

import logging
import random
import time
from collections.abc import Callable
from typing import TypeVar

from lookupstore.errors import CommitConflictError
from lookupstore.hudi.write.plan import DELETE, INSERT, UPSERT
from lookupstore.source.kept import KeptRows

T = TypeVar("T")

#: Writes that are tried again. What replaces all rows of a partition or table may have been made of
#: the rows that were there: those that came since would be lost.
RETRIED = frozenset({UPSERT, INSERT, DELETE})

_log = logging.getLogger(__name__)

# Seconds to wait at most after the first conflict, which double with each, and at most at all.
_PAUSE, _LONGEST = 0.05, 5.0


def retried(write: Callable[[int], T], retries: int, rows: KeptRows | None = None) -> T:
    """Write, and after a conflict write again, from the search for keys on.

    Source: HoodieSparkSqlWriter (hoodie.write.num.retries.on.conflict.failures) of Apache Hudi.

    Args:
        write: The write, which takes the number of conflicts so far.
        retries: Number of times it is tried again.
        rows: Rows of the write, if they can be read once.

    Raises:
        CommitConflictError: if others were faster each time, or an instant is in the way that is
            not completed.
    """
    attempt = 0
    while True:
        try:
            return write(attempt)
        except CommitConflictError as error:
            if error.is_pending or attempt == retries:
                raise
            if rows is not None and not rows.can_be_read_again:
                raise
            _log.info("another writer was faster, so the write is tried again: %s", error)
        attempt += 1
        # Two that met once are not to meet again.
        time.sleep(random.uniform(0, min(_LONGEST, _PAUSE * 2 ** (attempt - 1))))
