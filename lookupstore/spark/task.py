"""A task's part of a lookup join: its store, opened once a worker process, and what it counts."""

from __future__ import annotations

import functools
import time
from dataclasses import dataclass
from types import TracebackType
from typing import Protocol

import pyarrow as pa
from pyspark import TaskContext

from lookupstore import stats
from lookupstore.errors import StaleStoreError
from lookupstore.keys import KeySchema
from lookupstore.location import Location
from lookupstore.residency import default_folder
from lookupstore.spark.freshness import Chosen, Freshness
from lookupstore.stats import Counts
from lookupstore.store import LookupStore

# A worker serves many queries; the files of stores that it no longer uses are closed.
_STORES_KEPT = 16


class Sum(Protocol):
    """Take counts, as an accumulator of Spark does."""

    def add(self, term: Counts) -> None:
        """Add the counts of a task."""


@dataclass(frozen=True)
class Retry:
    """Say how often missing keys are looked up again in newer versions, and after how long.

    Attributes:
        attempts: how often at most.
        delay: seconds before each.
    """

    attempts: int
    delay: float


@dataclass(frozen=True)
class Lookup:
    """Say what a worker looks up.

    Attributes:
        location: of the store.
        planned: the version that the join was planned on.
        key_schema: the key of that version.
        columns: value columns to read, in the order of the result.
        types: the Arrow types in which Spark takes these.
        freshness: which version answers.
        on_miss: what follows if a key without nulls is missing: None: nothing; `raise`; or tries.
        counts: takes what tasks count; None: nobody asked.
    """

    location: Location
    planned: Chosen
    key_schema: KeySchema
    columns: tuple[str, ...]
    types: tuple[pa.DataType, ...]
    freshness: Freshness
    on_miss: Retry | str | None
    counts: Sum | None


class Task:
    """Give the store that answers a task, and report what was done with it.

    Use it in a ``with`` block: what it counted is reported at the end, also if the query needs no
    more rows.
    """

    def __init__(self, lookup: Lookup) -> None:
        self._lookup = lookup
        self._store: LookupStore | None = None
        self._before = Counts()
        self._counts = Counts(tasks=1)

    def store_at(self, moment: float | None) -> LookupStore:
        """Return the store at the version that answers a query of a moment, None: as planned.

        Raises:
            StaleStoreError: the version is gone, or older than allowed.
        """
        if self._store is None:
            lookup = self._lookup
            chosen = lookup.planned
            if moment is not None:
                chosen = lookup.freshness.version_at(lookup.location, chosen, moment)
                self.count(refreshes=chosen.refreshed, failed_refreshes=chosen.failed)
            self._use(_opened(lookup.location, chosen.number, chosen.id))
        assert self._store is not None
        return self._store

    def newest(self) -> LookupStore:
        """Return the newest version of the store that is there now, and go on with it."""
        assert self._store is not None
        newest = self._store.newest()
        self.count(refreshes=1)
        if newest is not self._store:
            self._settle_counts()
            self._use(_opened(self._lookup.location, newest.version, newest.id))
        assert self._store is not None
        return self._store

    def count(
        self,
        *,
        rows: int = 0,
        hits: int = 0,
        refreshes: int = 0,
        failed_refreshes: int = 0,
        seconds: float = 0.0,
    ) -> None:
        """Count something that was done."""
        self._counts += Counts(
            rows=rows,
            hits=hits,
            refreshes=refreshes,
            failed_refreshes=failed_refreshes,
            seconds=seconds,
        )

    def _use(self, store: LookupStore) -> None:
        self._check_columns(store)
        self._store = store
        self._before = store.counts()

    def _check_columns(self, store: LookupStore) -> None:
        lookup = self._lookup
        names = store.value_schema.names
        lacking = [name for name in lookup.columns if name not in names]
        if lacking or store.key_schema != lookup.key_schema:
            what = f"lacks the columns {lacking}" if lacking else "has another key"
            raise StaleStoreError(
                f"{store.path}: version {store.version} {what}, unlike version "
                f"{lookup.planned.number}, on which the join was planned; call lookup_join again"
            )

    def _settle_counts(self) -> None:
        if self._store is not None:
            self._counts += self._store.counts() - self._before

    def __enter__(self) -> Task:
        self._started = time.perf_counter()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._store is None:
            return
        self._settle_counts()
        # A worker without a task must not keep the room that the task of another one needs.
        self._store.share_room()
        if self._lookup.counts is not None:
            self._lookup.counts.add(self._counts)
        application, query = _names()
        version = self._store.version
        stats.add(default_folder(), application, query, self._store.path, version, self._counts)


def _names() -> tuple[str, str]:
    """Return the names of the application and the query that this task is of."""
    context = TaskContext.get()
    if context is None:
        return "", ""
    batch = context.getLocalProperty("streaming.sql.batchId")
    if batch is not None:
        query = f"{context.getLocalProperty('sql.streaming.queryId')} batch {batch}"
    else:
        query = f"execution {context.getLocalProperty('spark.sql.execution.id')}"
    return str(context.getLocalProperty("spark.app.id") or ""), query


@functools.lru_cache(maxsize=_STORES_KEPT)
def _opened(location: Location, version: int, store_id: str) -> LookupStore:
    try:
        store = LookupStore(location, version=version)
    except FileNotFoundError as error:
        raise StaleStoreError(
            f"{error}; the join was planned on it: call lookup_join again, or retain versions for "
            "longer"
        ) from None
    if store.id != store_id:
        store.close()
        raise StaleStoreError(
            f"{location.uri}: replaced since the join was planned (then {store_id}, now "
            f"{store.id}); call lookup_join again"
        )
    return store
