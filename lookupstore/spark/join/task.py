"""A task's part of a lookup join: its dimension, opened once per process, and its counts."""

from __future__ import annotations

import functools
import logging
import time
import weakref
from dataclasses import dataclass
from datetime import datetime, timezone
from types import TracebackType
from typing import TYPE_CHECKING, Protocol, TypeAlias, TypeGuard

import pyarrow as pa
from pyspark import TaskContext

from lookupstore.arrow.fitting import is_kindred
from lookupstore.arrow.types import plain_type
from lookupstore.errors import CorruptionError, FormatError, StaleStoreError
from lookupstore.filters.row_filter import RowFilter
from lookupstore.hostcache import stats
from lookupstore.hostcache.counts import Counts
from lookupstore.hostcache.folder import default_folder
from lookupstore.keys.schema import KeySchema
from lookupstore.spark.join.following import (
    STORES_KEPT,
    following,
    opened_version,
    warmed_version,
)
from lookupstore.spark.join.freshness import SETTLE_SECONDS, ChosenVersion, Freshness
from lookupstore.storage.location import Location
from lookupstore.store.local_files import LocalFiles, files_of
from lookupstore.store.store import LookupStore

if TYPE_CHECKING:  # joins with stores need neither
    from lookupstore.columnar import ColumnarFiles
    from lookupstore.hudi import TableLookup

#: Dimensions that are pickled in the state in which the join was planned.
AsPlanned: TypeAlias = "ColumnarFiles | TableLookup"
#: Dimensions of a join.
Dimension: TypeAlias = "LookupStore | AsPlanned"


_log = logging.getLogger(__name__)

# Counts that tasks of this process have reported, by the files that they used.
_reported: weakref.WeakKeyDictionary[LocalFiles, Counts] = weakref.WeakKeyDictionary()


class Sum(Protocol):
    """Counts that add up, as an accumulator of Spark."""

    def add(self, term: Counts) -> None:
        """Add the counts of a task."""


@dataclass(frozen=True)
class Retry:
    """The number and delay of further lookups of missing keys in newer versions.

    Attributes:
        attempts: Greatest number of further lookups.
        delay: Seconds before each of them.
    """

    attempts: int
    delay: float


@dataclass(frozen=True)
class PlannedStore:
    """A store, and the version of it that a join was planned on."""

    location: Location
    version: ChosenVersion


@dataclass(frozen=True)
class LookupTask:
    """The lookup that a worker runs.

    Attributes:
        dimension: Store with its planned version, or files or a table, to look keys up in.
        counted_as: Name of the dimension in the statistics of hosts.
        key_schema: Key fields of the planned version.
        columns: Value columns to read, in the order of the result.
        types: Arrow types of these columns, as Spark reads them.
        where: Condition that rows must meet to be found. None: all rows.
        freshness: Required freshness of the version that answers.
        on_miss: Handling of missing keys without nulls: None for nothing, `raise`, or the retries.
        counts: Sum that the counts of tasks are added to. None: they are not counted.
        warm: Whether the store is prepared before the first lookup.
    """

    dimension: PlannedStore | AsPlanned
    counted_as: str
    key_schema: KeySchema
    columns: tuple[str, ...]
    types: tuple[pa.DataType, ...]
    where: RowFilter | None
    freshness: Freshness
    on_miss: Retry | str | None
    counts: Sum | None
    warm: bool = False

    @property
    def columns_read(self) -> tuple[str, ...]:
        """Return the value columns to read: those of the result, then others of the condition."""
        known = {*self.columns, *self.key_schema.names}
        others = () if self.where is None else self.where.names
        return (*self.columns, *(name for name in others if name not in known))


class Task:
    """The dimension of the lookups of a task, and the report of its counts.

    Use it in a ``with`` block: its counts are reported at the end, also if the query needs no
    more rows.
    """

    def __init__(self, lookup: LookupTask) -> None:
        self._lookup = lookup
        self._dimension: Dimension | None = None
        self._before = Counts()
        self._counts = Counts(tasks=1)

    def dimension_at(self, moment: float | None) -> Dimension:
        """Return the dimension that answers a query at a moment. None: the planned one.

        Raises:
            StaleStoreError: If the version of the store is gone, or older than allowed.
        """
        if self._dimension is None:
            lookup = self._lookup
            planned = lookup.dimension
            if isinstance(planned, PlannedStore):
                chosen = planned.version
                if moment is not None:
                    chosen = lookup.freshness.version_at(planned.location, chosen, moment)
                    self.count(refreshes=chosen.refreshed, failed_refreshes=chosen.failed)
                opened = opened_version(planned.location, chosen.number, chosen.id)
                if lookup.warm:
                    warmed_version(planned.location, chosen.number, chosen.id)
                self._use(following(planned.location).answering(opened))
            elif moment is not None:
                self._use(self._table_of_query(planned, moment))
            else:
                self._use(_kept(planned))
        assert self._dimension is not None
        return self._dimension

    def newest(self) -> Dimension:
        """Return the newest version of the store, and continue with it."""
        store = self._dimension
        assert store is not None
        if not isinstance(store, LookupStore):
            newest_table = store.at()
            self.count(refreshes=1)
            if newest_table is not store:
                self._settle_counts()
                self._use(newest_table)
            return newest_table
        newest = store.newest()
        self.count(refreshes=1)
        if newest is not store:
            self._settle_counts()
            opened = opened_version(newest.location, newest.version, newest.id)
            newest.close()
            self._use(following(opened.location).answering(opened))
        assert self._dimension is not None
        return self._dimension

    def _table_of_query(self, planned: AsPlanned, moment: float) -> AsPlanned:
        """Return the table that answers a query, as of a commit that is fresh enough.

        Raises:
            StaleStoreError: If the commit is older than `max_staleness`, or has no time.
        """
        freshness = self._lookup.freshness
        if freshness.every is None:
            table = _kept(planned)
        elif _is_listed(planned):
            table = self._files_at(planned, freshness.looked_at(moment))
        else:
            table = self._table_at(planned, freshness.looked_at(moment))
        if freshness.max_staleness is not None:
            of_files = _is_listed(table)
            remedy = "write the files again" if of_files else "commit to the table"
            committed = table.committed_at()
            if committed is None:
                lacking = "no file" if of_files else "no commit"
                raise StaleStoreError(
                    f"{table.path}: it has {lacking} with a time, so its age is unknown; {remedy}, "
                    "or leave out max_staleness"
                )
            newest = "file was written" if of_files else "commit was made"
            what = f"{table.path}: its newest {newest}"
            freshness.check_age(what, committed, moment, remedy)
        return table

    def _files_at(self, planned: ColumnarFiles, moment: float) -> ColumnarFiles:
        """Return lookups in the files that are at the paths, listed once for each moment."""
        seen = _seen_files(planned)
        if seen.moment is not None and seen.moment >= moment:
            return seen.files
        before = datetime.fromtimestamp(moment - planned.settle_seconds, timezone.utc)
        try:
            newer = seen.files.listed_before(before)
        except (OSError, CorruptionError, FormatError) as error:
            _log.warning("%s: could not check for newer files: %s", planned.path, error)
            self.count(failed_refreshes=1)
            return seen.files
        self.count(refreshes=1)
        if newer is not seen.files:
            # Lookup files of files that are gone can be evicted.
            files_of(seen.files).release()
        seen.moment, seen.files = moment, newer
        return newer

    def _table_at(self, planned: AsPlanned, moment: float) -> AsPlanned:
        """Return the table as of the newest commit that was completed before a moment."""
        from lookupstore.columnar import ColumnarFiles

        settle = planned.settle_seconds if isinstance(planned, ColumnarFiles) else SETTLE_SECONDS
        before = datetime.fromtimestamp(moment - settle, timezone.utc)
        seen = _seen_commit(planned)
        position: str | None
        try:
            position = planned.position_at(before)
        except OSError as error:
            _log.warning("%s: could not check for a newer commit: %s", planned.path, error)
            self.count(failed_refreshes=1)
            position = seen.position if seen.before is None or seen.before <= before else None
        else:
            self.count(refreshes=1)
            if seen.before is None or seen.before <= before:
                if isinstance(planned, ColumnarFiles) and seen.position not in (None, position):
                    # Lookup files of data files that are not of the table any more can be evicted.
                    files_of(_table_of(planned, seen.position)).release()
                seen.before, seen.position = before, position
        return _table_of(planned, position)

    @property
    def name(self) -> str:
        """Return the name of the dimension in errors."""
        dimension = self._dimension
        if isinstance(dimension, LookupStore):
            return f"{dimension.path}: version {dimension.version}"
        return "" if dimension is None else dimension.path

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

    def _use(self, dimension: Dimension) -> None:
        if isinstance(dimension, LookupStore):
            self._check_columns(dimension)
        self._dimension = dimension
        # Bytes fetched in the background since the previous task are counted here.
        self._before = _reported.get(files_of(dimension), Counts())

    def _check_columns(self, store: LookupStore) -> None:
        lookup = self._lookup
        names = store.value_schema.names
        lacking = [name for name in lookup.columns_read if name not in names]
        what = f"lacks the columns {lacking}" if lacking else None
        if what is None and not store.key_schema.answers(lookup.key_schema):
            what = "has another key"
        if what is None:
            what = self._other_type(store)
        if what is not None:
            raise StaleStoreError(
                f"{store.path}: version {store.version} {what}, unlike the version on which the "
                "join was planned; call lookup_join again"
            )

    def _other_type(self, store: LookupStore) -> str | None:
        """Return the text of the error for a column of another kind. None: all kinds agree."""
        dimension = self._lookup.dimension
        if isinstance(dimension, PlannedStore) and dimension.version.id == store.id:
            return None  # it is what the types were chosen for
        for name, planned in zip(self._lookup.columns, self._lookup.types, strict=True):
            given = plain_type(store.value_schema.field(name).type)
            if not is_kindred(given, planned):
                return f"has {given} in the column {name!r}"
        return None

    def _settle_counts(self) -> None:
        if self._dimension is not None:
            files = files_of(self._dimension)
            counts = files.counts()
            self._counts += counts - self._before
            self._before = _reported[files] = counts

    def __enter__(self) -> Task:
        self._started = time.perf_counter()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._dimension is None:
            return
        self._settle_counts()
        if self._lookup.counts is not None:
            self._lookup.counts.add(self._counts)
        application, query = _names()
        dimension = self._dimension
        version = _version_of(dimension)
        # A worker without a task must not keep room that the task of another worker needs.
        files_of(dimension).share_room()
        name = self._lookup.counted_as
        stats.add(default_folder(), application, query, name, version, self._counts)


def _version_of(dimension: Dimension) -> int | None:
    """Return the version of a store or table, or the commit of a Hudi table. None: files."""
    if isinstance(dimension, LookupStore):
        return dimension.version
    from lookupstore.columnar import ColumnarFiles

    if isinstance(dimension, ColumnarFiles):
        return dimension.version
    return int(dimension.position) if dimension.position.isdecimal() else None


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


@functools.lru_cache(maxsize=STORES_KEPT)
def _kept(planned: AsPlanned) -> AsPlanned:
    """Return the first of equal objects, which has its lookup files open."""
    return planned


def _is_listed(planned: AsPlanned) -> TypeGuard[ColumnarFiles]:
    """Return whether a dimension is files at paths, which belong to no table."""
    from lookupstore.columnar import ColumnarFiles

    return isinstance(planned, ColumnarFiles) and planned.is_listed


@dataclass
class _SeenFiles:
    """The newest files at some paths that this process has found.

    Attributes:
        files: Lookups in the files.
        moment: Latest moment for which they were listed. None: they are as planned.
    """

    files: ColumnarFiles
    moment: float | None = None


@functools.lru_cache(maxsize=STORES_KEPT)
def _seen_files(planned: ColumnarFiles) -> _SeenFiles:
    """Return what this process has found at some paths, once per process."""
    return _SeenFiles(planned)


@dataclass
class _SeenCommit:
    """The newest commit of a table that this process has found.

    Attributes:
        before: Time before which the commit was completed. None: nothing was found yet.
        position: Position of the commit. None: the commit of the plan.
    """

    before: datetime | None = None
    position: str | None = None


@functools.lru_cache(maxsize=STORES_KEPT)
def _seen_commit(planned: AsPlanned) -> _SeenCommit:
    """Return what this process has found of a table, once per process."""
    return _SeenCommit()


@functools.lru_cache(maxsize=STORES_KEPT)
def _table_of(planned: AsPlanned, position: str | None) -> AsPlanned:
    """Return a table as of a commit, None: as planned, once per process."""
    return planned if position is None else planned.at(position)
