"""Statistics of lookups on this host: a small table that `lookupstore stats` prints.

The table is a SQLite file in the host's cache folder. A task adds one row when it ends, with any
engine; rows older than a week are deleted. Errors never fail a query: rows that cannot be written
are lost, and the error is logged.
"""

from __future__ import annotations

import logging
import os
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from lookupstore.hostcache.counts import NAMES, Counts, numbers
from lookupstore.hostcache.own_folder import make_own_file, make_own_folder

FILE_NAME = "stats.sqlite"
KEPT_SECONDS = 7 * 24 * 3600.0
# Seconds to wait for another process, which writes for microseconds; a host that hangs is not
# waited for.
_WAIT_SECONDS = 1.0

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class QueryStats:
    """Counts of the tasks of one query with one version of a store or table, on this host.

    Attributes:
        application: Application that ran the query, such as Spark's application id.
        query: Name of the query in that application, such as `execution 7` or `batch 3`.
        store: Path or URI of the store, table or files.
        version: Version of the store or Delta table that answered; the snapshot of an Iceberg or
            Paimon table; or the commit of a Hudi table. None: columnar files have no version.
        last: Time at which the last task ended, in seconds since 1970.
        counts: Sums over the tasks.
    """

    application: str
    query: str
    store: str
    version: int | None
    last: float
    counts: Counts

    def to_json(self) -> dict[str, Any]:
        """Return the statistics as plain JSON values."""
        named = {field.name: getattr(self, field.name) for field in fields(self)}
        return {**{k: v for k, v in named.items() if k != "counts"}, **self.counts.to_json()}


_CREATE = (
    "CREATE TABLE IF NOT EXISTS task (ended REAL NOT NULL, application TEXT NOT NULL, "
    "query TEXT NOT NULL, store TEXT NOT NULL, version INTEGER NOT NULL)"
)
# What is stored if there is no version: the column allows no null, and 0 is a version of Delta
# tables.
_NO_VERSION = ""
_COLUMNS = ["ended", "application", "query", "store", "version", *NAMES]


def add(
    folder: str | os.PathLike[str],
    application: str,
    query: str,
    store: str,
    version: int | None,
    counts: Counts,
) -> None:
    """Add the counts of one task; an error is logged, not raised.

    Args:
        folder: Cache folder of the host, which is made if missing.
        application: Application that ran the query, such as Spark's application id.
        query: Name of the query in that application, such as `execution 7` or `batch 3`.
        store: Path or URI of the store.
        version: Number of the version that answered. None: it has none.
        counts: Counts of the task.
    """
    now = time.time()
    places = ", ".join("?" * len(_COLUMNS))
    told = _NO_VERSION if version is None else version
    row = (now, application, query, store, told, *numbers(counts))
    try:
        make_own_folder(os.fspath(folder))
        make_own_file(os.path.join(folder, FILE_NAME))
        with _table(Path(folder), "rwc") as table:
            # After a power failure of the host, the last rows may be lost; waiting for the disk
            # costs more.
            table.execute("PRAGMA synchronous = OFF")
            table.execute("BEGIN IMMEDIATE")
            table.execute(_CREATE)
            # Programs of several versions may write here, each of which has some of the counts.
            for name in sorted(set(NAMES) - _columns(table)):
                table.execute(f"ALTER TABLE task ADD COLUMN {name} NUMERIC NOT NULL DEFAULT 0")
            table.execute(f"INSERT INTO task ({', '.join(_COLUMNS)}) VALUES ({places})", row)
            table.execute("DELETE FROM task WHERE ended < ?", (now - KEPT_SECONDS,))
    except (OSError, sqlite3.Error) as error:
        _log.warning("%s: could not save the statistics of a task: %s", folder, error)


def read(
    folder: str | os.PathLike[str], limit: int = 20, store: str | None = None
) -> list[QueryStats]:
    """Return the statistics of the queries that ended last, the newest first.

    Args:
        folder: Cache folder of the host; if it has no table, there are no statistics.
        limit: Largest number of queries; -1 for all.
        store: Path of a store, or its URI without credentials, whose queries are returned. Default:
            all stores.

    Raises:
        OSError: The table cannot be read.

    >>> import tempfile
    >>> folder = tempfile.mkdtemp()
    >>> for rows in (10, 20):
    ...     add(folder, "app", "execution 1", "/stores/u", 3, Counts(tasks=1, rows=rows, hits=9))
    >>> [(one.query, one.counts.rows, one.counts.misses) for one in read(folder)]
    [('execution 1', 30, 12)]
    """
    path = Path(folder, FILE_NAME)
    if not path.exists():
        return []
    try:
        with _table(Path(folder), "ro") as table:
            known = _columns(table)
            if not known:  # a process is about to make the table
                return []
            summed = ", ".join(f"SUM({name})" if name in known else "0" for name in NAMES)
            found = table.execute(
                f"SELECT application, query, store, version, MAX(ended), {summed} FROM task "
                "WHERE ?1 IS NULL OR store = ?1 "
                "GROUP BY application, query, store, version ORDER BY MAX(ended) DESC LIMIT ?2",
                (store, limit),
            ).fetchall()
    except sqlite3.Error as error:
        raise OSError(f"{path}: the statistics cannot be read: {error}") from None
    return [
        QueryStats(
            application,
            query,
            store,
            None if version == _NO_VERSION else version,
            last,
            Counts(*sums),
        )
        for application, query, store, version, last, *sums in found
    ]


def fetched(folder: str | os.PathLike[str], store: str, version: int) -> int:
    """Return the number of bytes that tasks of this host fetched of one version of a store.

    Args:
        folder: Cache folder of the host; if it has no table, the result is 0.
        store: Path of the store, or its URI without credentials.
        version: Number of the version.

    Raises:
        OSError: The table cannot be read.

    >>> import tempfile
    >>> folder = tempfile.mkdtemp()
    >>> for version in (3, 4, 4):
    ...     add(folder, "app", "execution 1", "/stores/u", version, Counts(bytes_fetched=700))
    >>> fetched(folder, "/stores/u", 4), fetched(folder, "/stores/u", 5)
    (1400, 0)
    """
    counts = [one.counts for one in read(folder, -1, store) if one.version == version]
    return sum(one.bytes_fetched for one in counts)


@contextmanager
def _table(folder: Path, mode: str) -> Iterator[sqlite3.Connection]:
    """Open the table for one transaction; reading it (`ro`) needs no permission to write."""
    uri = f"{(folder.absolute() / FILE_NAME).as_uri()}?mode={mode}"
    with (
        closing(
            sqlite3.connect(uri, uri=True, timeout=_WAIT_SECONDS, isolation_level=None)
        ) as connection,
        connection,
    ):
        yield connection


def _columns(table: sqlite3.Connection) -> set[str]:
    return {row[1] for row in table.execute("PRAGMA table_info(task)")}
