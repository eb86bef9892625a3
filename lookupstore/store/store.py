"""A store: typed keys to typed rows, over the sorted files of one version."""

from __future__ import annotations

import logging
import math
import os
import threading
import weakref
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, suppress
from datetime import datetime
from functools import partial
from itertools import islice
from typing import Any, TypeVar

import pyarrow as pa

from lookupstore.errors import ClosedError, StaleStoreError
from lookupstore.hostcache.cache import Residency
from lookupstore.keys.arguments import encode_keys
from lookupstore.keys.lookups import value_columns
from lookupstore.keys.schema import KeySchema
from lookupstore.progress import not_shown, progress_bars
from lookupstore.quantities import Duration, Size, bytes_of, counted, seconds_of
from lookupstore.rows._codec import BadRowError
from lookupstore.rows._small import SmallPlan, SmallRows
from lookupstore.sorting.runs import MIN_MEMORY
from lookupstore.source.text_limits import MOST_TEXT
from lookupstore.sst.cache import BlockCache
from lookupstore.storage.location import Location
from lookupstore.storage.storage_options import paths_with_options
from lookupstore.store._points import PointLookups
from lookupstore.store.background import compact_in_background
from lookupstore.store.buckets import BucketReads
from lookupstore.store.change_shapes import ChangesBy
from lookupstore.store.changed_bucket import CompactionRule
from lookupstore.store.changelog import Changelog, OpenVersion
from lookupstore.store.changing import compact_version, upsert_version
from lookupstore.store.check import StoreCheck, check_store
from lookupstore.store.expiry import HOUR
from lookupstore.store.files import BucketFiles
from lookupstore.store.local_files import LocalLookups
from lookupstore.store.manifest import MAX_RUNS, Manifest
from lookupstore.store.refreshing import Refresh
from lookupstore.store.rules import Rule
from lookupstore.store.steps import has_same_rows
from lookupstore.store.store_info import StoreInfo
from lookupstore.store.version_files import (
    LOOKS,
    Moment,
    Place,
    VersionName,
    list_names,
    located,
    name_of,
    read_newest,
    read_numbered,
    read_version,
    replaced_meanwhile_error,
    standing,
    version_at,
)
from lookupstore.store.warming import Limits, warm_files

B = TypeVar("B")

#: Number of keys of a call up to which the columns of its answer are made in one piece.
FEW = 4096
#: Number of keys of a call up to which they are looked up one after the other: a lookup of many
#: keys takes two microseconds before the first one, and then hides the latency of memory.
EACH = 4

_log = logging.getLogger(__name__)

_opened: weakref.WeakSet[LookupStore] = weakref.WeakSet()


def open(
    path: str | os.PathLike[str] | Location,
    *,
    version: int | None = None,
    cache_bytes: Size | None = None,
    storage_options: Mapping[str, Any] | None = None,
) -> LookupStore:
    """Open a version of a store.

    Args:
        path: Folder of the store, a URI that pyarrow knows (`file://`, `s3://`, `gs://`, `abfs://`,
            `hdfs://`), or a `lookupstore.Location`.
        version: Number of the version. Default: the current version.
        cache_bytes: Size of a cache of decoded blocks for this store alone, in bytes or as a text
            such as `"1GB"`. Default: the cache that all stores of the process share.
        storage_options: Credentials, region, endpoint and similar options of a URI, by the names
            that pandas or deltalake have for them; see `lookupstore.Location`.

    Raises:
        FileNotFoundError: There is no such folder or version.
        FormatError: The folder is not a store, or its format is newer.
        CorruptionError: The manifest or a data file contradicts itself.

    >>> import tempfile, lookupstore
    >>> folder = tempfile.mkdtemp()
    >>> _ = lookupstore.build(pa.table({"id": [7], "name": ["seven"]}), folder, key="id")
    >>> with lookupstore.open(folder) as store:
    ...     store.version, store.get(7)
    (1, {'name': 'seven'})
    """
    location = located(path, storage_options)
    return LookupStore(location, version=version, cache_bytes=cache_bytes)


def upsert(
    path: Place,
    changes: Any = None,
    *,
    deletes: Any = None,
    columns: str | Sequence[str] | None = None,
    changes_by: ChangesBy | None = None,
    rule: Rule = "replace",
    sequence: str | None = None,
    max_runs: int = 8,
    max_run_share: float = 0.25,
    max_run_age: Duration | None = None,
    background: bool = False,
    memory: Size = 512 << 20,
    threads: int | None = None,
    retain: Duration = HOUR,
    temp_dir: str | os.PathLike[str] | None = None,
    progress: bool | None = None,
    max_text: Size = MOST_TEXT,
    storage_options: Mapping[str, Any] | None = None,
) -> LookupStore:
    """Change rows of a store and open it at the next version.

    The cost depends on the number of changes. Each bucket with changes gets a run, one more file
    that lookups read; other files do not change. If nothing changes, no version is published. If
    another writer publishes meanwhile, the changes are applied to its version: after two concurrent
    upserts, both are in the store.

    Args:
        path: Folder, URI or location of the store, or an open store; its current version is
            changed.
        changes: Rows with the key columns and the value columns of the store, in any form that
            `lookupstore.build` takes. Default: no rows. A column of another type than in the store
            is cast if each value keeps its meaning. A column may be missing if its rule leaves
            nulls out. A changelog is applied in its order: see `changes_by`.
        deletes: Keys to delete, in any of the forms of `lookupstore.keys.arguments`; a key that is
            not stored is not an error. Default: none.
        columns: Names of the value columns to take from the changes, which may then have columns
            that the store lacks. Default: all.
        changes_by: Form of the changes. `"rows"`: rows to upsert. `"changelog"`: events in the form
            that `LookupStore.changes` returns. `"debezium"`: events with `op` and the rows `before`
            and `after`, or with these in a struct `payload`. `"hudi"`: change data of Apache Hudi,
            with a column `change`, with `op` and the rows `before` and `after`, or with rows whose
            `_hoodie_is_deleted` marks deletes. For each key, the last event wins. Default:
            `"changelog"` if there is a text column `change` that the store lacks, otherwise
            `"rows"`.
        rule: Rule that merges the values of a key that is stored, or that occurs more than once in
            the changes: one rule for all value columns, or a dict of rules by column, in which
            missing columns have `"replace"`. `"replace"` takes the newest value, `"first"` the
            oldest, `"partial"` the newest that is not null; `"sum"`, `"min"` and `"max"` leave
            nulls out (NaN is greatest).
        sequence: Name of the value column that decides which of two rows with one key is newer: the
            row with the greater value (null is least), or the later row if the values are equal.
            Default: the later row. Deletes ignore it. If the changes have no order, as in the
            `scan()` of a Delta table, the upsert raises ValueError if the newest row of a key is
            uncertain.
        max_runs: Largest number of runs of a bucket, from 0 to 64; a bucket with more is compacted
            at once. 0 compacts every bucket with changes.
        max_run_share: Largest size of the runs of a bucket, as a share of the size of its base; a
            bucket with more is compacted at once.
        max_run_age: Age of the oldest run of a bucket at which an upsert of that bucket compacts
            it, as a timedelta, seconds, or a text such as `"1h"`. Default: no limit.
        background: Whether to compact due buckets after the upsert instead of in it, by one thread
            of this process, as a version of its own. Runs that are published meanwhile stay; only a
            bucket that already has 64 runs is compacted at once.
        memory: Memory for changes, in bytes or as a text such as `"1GB"`; changes that do not fit
            are spilled to disk.
        threads: Number of threads that read, compress and write, including the caller's. Default:
            one for each processor that the process may use, at most 64.
        retain: Time for which replaced versions are kept; see `lookupstore.expire`.
        temp_dir: Folder for spilled changes, and for the files of a remote store before they are
            uploaded. Default: the parent folder of a local store, or the system's temporary folder
            for a remote one.
        progress: Whether to show progress bars. Default: after one second, on a terminal or in a
            notebook.
        max_text: Longest value in files of CSV or JSON lines, in bytes or as a text such as
            `"1GiB"`.
        storage_options: Credentials, region, endpoint and similar options of the URIs of the store
            and of files with changes, by the names that pandas or deltalake have for them; see
            `lookupstore.Location`.

    Raises:
        KeyError: If the changes or the store lack a column.
        ValueError: If a key is null, a column cannot hold a value or a sum, a key is to be upserted
            and deleted, a key has several rows in changes without order, a row is not an event of
            its changelog, or an argument is out of range.
        TypeError: If the type of a column means something else in the store, or does not support
            its rule.
        FileNotFoundError: There is no such store, or the source names no files.
        FormatError: If the folder is not a store, a value of text is longer than `max_text`, or
            JSON nests more than 256 brackets.
        CorruptionError: A file of the store or of the source is damaged.
        CommitConflictError: Another writer published first on every retry; the store is
            unchanged.
        CommitUnknownError: The version may or may not be published; nothing was deleted.

    >>> import tempfile, lookupstore
    >>> folder = tempfile.mkdtemp()
    >>> table = pa.table({"id": [1, 2, 3], "name": ["one", "two", "three"], "hits": [5, 5, 5]})
    >>> lookupstore.build(table, folder, key="id").close()
    >>> changes = pa.table({"id": [2, 4], "name": ["zwei", None], "hits": [1, 1]})
    >>> store = upsert(folder, changes, deletes=[3], rule={"name": "partial", "hits": "sum"})
    >>> store.version, len(store), store.get(3)
    (2, 3, None)
    >>> store.get(2), store.get(4)
    ({'name': 'zwei', 'hits': 6}, {'name': None, 'hits': 1})
    """
    path, changes = paths_with_options(storage_options, path=path, changes=changes)
    location = located(path)
    age = None if max_run_age is None else seconds_of(max_run_age, "max_run_age")
    due = CompactionRule(max_runs, max_run_share, age)
    published = upsert_version(
        location,
        changes,
        deletes,
        columns=columns,
        changes_by=changes_by,
        rule=rule,
        sequence=sequence,
        compaction=CompactionRule(MAX_RUNS, math.inf) if background else due,
        memory=bytes_of(memory, "memory", least=MIN_MEMORY),
        threads=threads,
        retain=retain,
        temp_dir=temp_dir,
        progress=progress,
        max_text=max_text,
    )
    if background:
        compact_in_background(
            location.uri,
            # There is only one thread: a process that ends while it runs cannot start more.
            partial(compact_version, location, threads=1, retain=retain, temp_dir=temp_dir,
                    progress=False, rule=due),
        )  # fmt: skip
    return LookupStore(location, version=published)


class LookupStore(PointLookups, LocalLookups):
    """Lookups in one version of a store, for one key or millions.

    Threads may share a store. It stays on the version that it opened, even when a build replaces
    that version; `newest` opens the current one. A pickle contains the location and the version,
    which are opened again where it is loaded; if the version is gone, loading raises
    `StaleStoreError`. See `lookupstore.keys.arguments` for the forms of `keys`.

    >>> import tempfile, lookupstore
    >>> table = pa.table({"region": ["eu", "eu", "us"], "id": [1, 2, 1], "name": ["a", "b", "c"]})
    >>> store = lookupstore.build(table, tempfile.mkdtemp(), key=["region", "id"])
    >>> store.get(("eu", 2)), store.get({"region": "us", "id": 1}), store.get(("us", 9))
    ({'name': 'b'}, {'name': 'c'}, None)
    >>> store["eu", 2], ("us", 9) in store, list(store)
    ({'name': 'b'}, False, [('eu', 1), ('eu', 2), ('us', 1)])
    >>> store.lookup([("us", 1), ("us", 9)], found=True).to_pylist()
    [{'name': 'c', 'found': True}, {'name': None, 'found': False}]
    >>> [row["id"] for row in store.scan(prefix="eu").read_all().to_pylist()]
    [1, 2]
    """

    _files: BucketFiles

    def __init__(
        self,
        path: str | os.PathLike[str] | Location,
        *,
        version: int | VersionName | None = None,
        cache_bytes: Size | None = None,
        residency: Residency | None = None,
        storage_options: Mapping[str, Any] | None = None,
    ) -> None:
        """Open a version of a store, like `lookupstore.open`.

        Args:
            path: Folder, URI or location of the store.
            version: Number of the version, or name of a version that was just published: that
                version is opened, or a newer one. Default: the current version.
            cache_bytes: Size of a cache of decoded blocks for this store alone, in bytes or as a
                text such as `"1GB"`. Default: the cache that all stores of the process share.
            residency: Manager of the local copies of a remote store, and of the plain copies of
                compressed files. Default: the one of the host.
            storage_options: Credentials, region, endpoint and similar options of a URI, by the
                names that pandas or deltalake have for them; see `lookupstore.Location`.
        """
        self._location = located(path, storage_options)
        #: Absolute path of the folder, or the URI without credentials.
        self.path: str = self._location.uri
        self._cache_bytes = None if cache_bytes is None else bytes_of(cache_bytes, "cache_bytes")
        # None stands for the residency of the host; a pickle that is loaded elsewhere uses that
        # host's.
        self._residency = residency
        self._closed = False
        self._refreshing = threading.Lock()
        _opened.add(self)
        self._refresh: Refresh[LookupStore] | None = None
        cache: BlockCache | None = (
            None if self._cache_bytes is None else BlockCache(self._cache_bytes)
        )
        self._manifest, self._files = open_files(
            self._location, version, cache, Residency() if residency is None else residency
        )
        self._buckets = BucketReads(self._location, self._manifest, self._files)
        self._last_plan: tuple[Any, SmallPlan | None] | None = None
        manifest = self._manifest
        self._begin(manifest.key_schema, manifest.row_schema, self._buckets, manifest.buckets)

    @property
    def location(self) -> Location:
        """Return where the store is, with the credentials that it was opened with."""
        return self._location

    @property
    def version(self) -> int:
        """Return the number of the version that is open."""
        return self._manifest.version

    @property
    def created(self) -> datetime:
        """Return the time at which the version was published, in UTC."""
        return self._manifest.created_at

    def newest(self) -> LookupStore:
        """Return this store if its version is current, otherwise open the newer version.

        This store stays open and its answers do not change. The call never returns an older
        version, even if a listing of the object store lags behind.

        Raises:
            StaleStoreError: Each newer version was removed before it could be opened.
            CorruptionError: The newer version is damaged.
        """
        self._check_open()
        own = name_of(self._manifest)
        names = standing(self._location, list_names(self._location))
        # A version that is not listed any more was expired, or withdrawn in favor of another one
        # with its number.
        if own in names[-1:] or not names or names[-1].number < own.number:
            return self
        opened = self._opened_again()
        if opened.version < own.number or opened.id == own.id:
            opened.close()
            return self
        return opened

    def refresh(self) -> LookupStore:
        """Return a newer version whose files are on this host, otherwise this store.

        A call that finds a newer version starts a thread, which fetches the files that this host
        lacks, of the buckets that lookups have opened. This store answers meanwhile, and a later
        call returns the newer store once all those files are on this host. A store in a folder
        needs no fetch. Failures are logged, also those of the look for a newer version, and a later
        call tries again. The caller closes both stores; closing this one ends a fetch.

        Raises:
            FileNotFoundError: The store was deleted.
            StaleStoreError: Each newer version was removed before it could be opened.
            CorruptionError: The newer version is damaged.

        >>> import tempfile, lookupstore
        >>> store = lookupstore.build(pa.table({"id": [1, 2]}), tempfile.mkdtemp(), key="id")
        >>> store.refresh() is store
        True
        >>> lookupstore.upsert(store, pa.table({"id": [3]})).close()
        >>> store.refresh().version
        2
        """
        self._check_open()
        with self._refreshing:
            under_way = self._refresh
            if under_way is not None:
                if not under_way.ended:
                    return self
                self._refresh = None
                if under_way.is_here:
                    return under_way.newer
                under_way.newer.close()
            try:
                newer = self.newest()
            except FileNotFoundError:
                raise
            except OSError as error:  # no answer from the object store, but this host may answer
                _log.warning("%s: version %d goes on: %s", self.path, self.version, error)
                return self
            if newer is self or self._location.in_place:
                return newer
            self._refresh = fetch_newer(self, newer)
            return self

    def upsert(
        self,
        changes: Any = None,
        *,
        deletes: Any = None,
        columns: str | Sequence[str] | None = None,
        changes_by: ChangesBy | None = None,
        rule: Rule = "replace",
        sequence: str | None = None,
        max_runs: int = 8,
        max_run_share: float = 0.25,
        max_run_age: Duration | None = None,
        background: bool = False,
        memory: Size = 512 << 20,
        threads: int | None = None,
        retain: Duration = HOUR,
        temp_dir: str | os.PathLike[str] | None = None,
        progress: bool | None = None,
        max_text: Size = MOST_TEXT,
    ) -> LookupStore:
        """Change rows of the store's current version and open it at the next one.

        This store stays open and its answers do not change. The arguments and errors are those of
        `lookupstore.upsert`.

        >>> import tempfile, lookupstore
        >>> table = pa.table({"id": [1, 2], "name": ["one", "two"]})
        >>> store = lookupstore.build(table, tempfile.mkdtemp(), key="id")
        >>> newer = store.upsert(pa.table({"id": [1], "name": ["eins"]}), deletes=[2])
        >>> newer.get(1), 2 in newer, store.get(1)
        ({'name': 'eins'}, False, {'name': 'one'})
        """
        self._check_open()
        changed = upsert(
            self._location,
            changes,
            deletes=deletes,
            columns=columns,
            changes_by=changes_by,
            rule=rule,
            sequence=sequence,
            max_runs=max_runs,
            max_run_share=max_run_share,
            max_run_age=max_run_age,
            background=background,
            memory=memory,
            threads=threads,
            retain=retain,
            temp_dir=temp_dir,
            progress=progress,
            max_text=max_text,
        )
        if self._cache_bytes is None and self._residency is None:
            return changed
        with changed:  # this store was opened with other arguments
            return self._opened_again(name_of(changed._manifest))

    def compact(
        self,
        *,
        threads: int | None = None,
        retain: Duration = HOUR,
        temp_dir: str | os.PathLike[str] | None = None,
        progress: bool | None = None,
    ) -> LookupStore:
        """Merge the runs of the current version into their buckets and open the result.

        The files of these buckets have the same bytes as those that a build of the same rows
        writes. If there are no runs, no version is published.

        Args:
            threads: Number of threads that read, compress and write, including the caller's.
                Default: one for each processor that the process may use, at most 64.
            retain: Time for which replaced versions are kept; see `lookupstore.expire`.
            temp_dir: Folder for the files of a remote store before they are uploaded. Default: the
                system's temporary folder.
            progress: Whether to show a progress bar. Default: after one second, on a terminal or in
                a notebook.

        Raises:
            CorruptionError: A file of the store is damaged.
            CommitConflictError: Another writer published first on every retry; the store is
                unchanged.
            CommitUnknownError: The version may or may not be published; nothing was deleted.

        >>> import tempfile, lookupstore
        >>> store = lookupstore.build(pa.table({"id": [1, 2]}), tempfile.mkdtemp(), key="id")
        >>> store = store.upsert(pa.table({"id": [3]}), max_run_share=10)
        >>> store.info().runs, store.compact().info().runs
        (1, 0)
        """
        self._check_open()
        compacted = compact_version(
            self._location, threads=threads, retain=retain, temp_dir=temp_dir, progress=progress
        )
        return self._opened_again(compacted)

    def changes(
        self,
        since: Moment | None = None,
        until: Moment | None = None,
        *,
        columns: Sequence[str] | None = None,
        ignore: Sequence[str] = (),
    ) -> pa.RecordBatchReader:
        """Return how each row changed between two versions, with its values before.

        The first column, `change`, is `insert`, `delete`, or `update_before` followed in the next
        row by `update_after`. The key columns and value columns follow. Applying the rows in their
        order to the first version gives the second. A key has at most one change, and none if its
        row has the same values in both versions; NaNs are equal, and so are 0.0 and -0.0. Rows come
        bucket by bucket, in key order in each; if the versions have different numbers of buckets,
        all rows come in key order.

        Only the keys that upserts wrote in between are looked up, in both versions. If a version in
        between was removed, or was made by a build, all rows of each bucket with different files
        are compared.

        Args:
            since: Number of the version at the beginning, or a time at which it was the current
                one: a datetime with its zone, or ISO 8601 text (UTC if it has no zone). Default: no
                version, so that all rows are inserts.
            until: Number of the version at the end, or a time, as a datetime with its zone or ISO
                8601 text. Default: the open version.
            columns: Names of the value columns to return, in this order. Default: all.
            ignore: Names of value columns whose changes do not count.

        Raises:
            KeyError: The store does not have a value column of that name.
            ValueError: If `until` is before `since`, a text is not a time, a datetime has no zone,
                a requested column is called `change`, or the two versions have different columns.
            TypeError: `since` or `until` is neither a number nor a time.
            FileNotFoundError: There is no such version, or it was removed.
            StaleStoreError: A version was removed while it was read.
            CorruptionError: The stored bytes are damaged.

        >>> import tempfile, lookupstore
        >>> table = pa.table({"id": [1, 2, 3], "name": ["one", "two", "three"]})
        >>> store = lookupstore.build(table, tempfile.mkdtemp(), key="id")
        >>> store = store.upsert(pa.table({"id": [2, 4], "name": ["zwei", "four"]}), deletes=[3])
        >>> for row in store.changes(1).read_all().to_pylist():
        ...     print(row)
        {'change': 'update_before', 'id': 2, 'name': 'two'}
        {'change': 'update_after', 'id': 2, 'name': 'zwei'}
        {'change': 'delete', 'id': 3, 'name': 'three'}
        {'change': 'insert', 'id': 4, 'name': 'four'}
        """
        self._check_open()
        names, ignored = value_columns(self, columns), value_columns(self, ignore)
        own = name_of(self._manifest)
        last = own if until is None else version_at(self._location, until, "until")
        first = None if since is None else version_at(self._location, since, "since")
        if last is None:
            raise FileNotFoundError(f"{self.path}: until is {until!r}; no version is as old")
        if first is not None and last.number < first.number:
            shown = f"the open version, {own.number}" if until is None else repr(until)
            raise ValueError(
                f"until is {shown}, before since, {since!r}; give them the other way round"
            )
        stack = ExitStack()
        try:
            after = self._version(last, stack)
            before = None if first is None else self._version(first, stack)
            changelog = Changelog(self._location, before, after, names, ignored)
        except BaseException:
            stack.close()
            raise
        stack.enter_context(closing(changelog))

        def batches() -> Iterator[pa.RecordBatch]:
            with stack:
                yield from self._while_open(changelog.batches())

        return pa.RecordBatchReader.from_batches(changelog.schema, batches())

    def _version(self, name: VersionName, stack: ExitStack) -> OpenVersion:
        """Return a version of the store, open: its own, or one that `stack` closes."""
        if name == name_of(self._manifest):
            return OpenVersion(self._manifest, self._files, self._buckets)
        residency = Residency() if self._residency is None else self._residency
        manifest, files = open_files(self._location, name.number, None, residency)
        stack.enter_context(closing(files))
        return OpenVersion(manifest, files, BucketReads(self._location, manifest, files))

    def _opened_again(self, version: VersionName | None = None) -> LookupStore:
        return LookupStore(
            self._location,
            version=version,
            cache_bytes=self._cache_bytes,
            residency=self._residency,
        )

    @property
    def id(self) -> str:
        """Return the identity of the store's content, new with each build or change."""
        return self._manifest.id

    @property
    def key_schema(self) -> KeySchema:
        """Return the key columns and their encoding."""
        return self._manifest.key_schema

    @property
    def value_schema(self) -> pa.Schema:
        """Return the value columns."""
        return self._manifest.row_schema.schema

    @property
    def num_rows(self) -> int:
        """Return the number of keys."""
        return self._manifest.num_rows

    @property
    def _calls_in_threads(self) -> bool:
        return self._files.layers_in_place() is not None

    def lookup(
        self, keys: Any, columns: Sequence[str] | None = None, *, found: bool | str = False
    ) -> pa.Table:
        """Return the value columns at many keys: row i answers key i, nulls where it is missing.

        The arguments and errors are those of `Lookups.lookup`.

        >>> import tempfile, lookupstore
        >>> table = pa.table({"id": [7], "name": ["seven"]})
        >>> store = lookupstore.build(table, tempfile.mkdtemp(), key="id")
        >>> store.lookup([8, 7], found=True).to_pylist()
        [{'name': None, 'found': False}, {'name': 'seven', 'found': True}]
        """
        is_few = isinstance(keys, (list, pa.Array)) and len(keys) <= FEW
        if is_few and not found and (columns is None or isinstance(columns, (str, list, tuple))):
            plan = self._plan(columns)
            self._check_open()
            if plan is not None:
                encoded = encode_keys(keys, self._manifest.key_schema)
                batch = self._rows_at_few(encoded, plan)
                if batch is not None:
                    return pa.Table.from_batches([batch])
        return super().lookup(keys, columns, found=found)

    def _rows_at_few(self, keys: pa.Array, plan: SmallPlan) -> pa.RecordBatch | None:
        """Return columns of the row at each of a few encoded keys. None: use `lookup` instead."""
        if len(keys) <= EACH:
            answers = SmallRows(len(keys), plan)
            try:
                if self._lookup_each(keys, answers):
                    return answers.batch()
            except BadRowError:
                return None
        few = self._buckets.lookup_few(keys, plan)
        if few is None or (batch := few.batch()) is None:
            return None
        self._key_counts.add(len(keys), few.missing)
        return batch

    def _plan(self, columns: str | Sequence[str] | None) -> SmallPlan | None:
        """Return the plan for reading a few rows into value columns. None: there is none."""
        wanted = tuple(columns) if isinstance(columns, list) else columns
        last = self._last_plan  # most calls use the columns of the call before
        if last is None or last[0] != wanted:
            plan = self._manifest.row_schema.small_plan(value_columns(self, columns))
            self._last_plan = last = wanted, plan
        return last[1]

    def _lookup(self, keys: Any, names: Sequence[str]) -> tuple[pa.BooleanArray, pa.Table]:
        self._check_open()
        encoded = encode_keys(keys, self._manifest.key_schema)
        present, batch = self._buckets.lookup(encoded, names)
        self._count(present)
        return present, pa.Table.from_batches([batch])

    def contains(self, keys: Any) -> pa.BooleanArray:
        """Return whether each of many keys is stored, as Arrow booleans without nulls.

        Raises:
            TypeError: If the keys are of a wrong type or form; the error names the right one.
            KeyError: If `keys` lacks a key field.
            CorruptionError: The stored bytes are damaged.
        """
        self._check_open()
        present = self._buckets.contains(encode_keys(keys, self._manifest.key_schema))
        self._count(present)
        return present

    def _scan(
        self, names: Sequence[str], start: bytes | None, stop: bytes | None, reverse: bool
    ) -> Iterator[pa.RecordBatch]:
        self._check_open()
        return self._while_open(self._buckets.scan(names, start, stop, reverse))

    def _python_rows(self) -> Iterator[tuple[pa.RecordBatch, list[dict[str, Any]]]]:
        self._check_open()
        return self._while_open(self._buckets.python_rows(self.value_schema.names))

    def info(self) -> StoreInfo:
        """Describe the store."""
        manifest = self._manifest
        return StoreInfo(
            path=self.path,
            version=manifest.version,
            id=manifest.id,
            created=manifest.created,
            writer=manifest.writer,
            source=manifest.source,
            key={field.name: str(field.type) for field in manifest.key_schema.schema},
            values={field.name: str(field.type) for field in manifest.row_schema.schema},
            num_rows=manifest.num_rows,
            buckets=manifest.buckets,
            files=len(manifest.data_files),
            bytes=manifest.bytes,
            runs=len(manifest.runs),
            run_bytes=manifest.run_bytes,
            bytes_here=self._files.bytes_here,
            bytes_fetched=self._files.counts().bytes_fetched,
            applied_bytes=manifest.applied_bytes,
            rewritten_buckets=manifest.rewritten_buckets,
            options=dict(manifest.options),
        )

    def warm(
        self,
        *,
        seconds: Duration | None = None,
        bytes: Size | None = None,
        progress: bool | None = None,
    ) -> bool:
        """Read the data files and prepare lookups, so that the first lookups are fast.

        The processes of a host share one lookup table for a large uncompressed file. Data files at
        a URI are copied to this host first. A call that reached a limit can be repeated: it
        continues where the last one stopped.

        Args:
            seconds: Time after which to stop, in seconds or as a text such as `"30s"`. Default: no
                limit.
            bytes: Size of the blocks after which to stop, in bytes or as a text such as `"1GB"`. A
                bucket at a URI is copied whole before its blocks count. Default: no limit.
            progress: Whether to show a progress bar. Default: after one second, on a terminal or in
                a notebook.

        Returns:
            True if all data files were read, False if a limit was reached first. Compressed blocks
            are prepared only as far as the cache of decompressed blocks has room.

        Raises:
            ClosedError: If the store is closed.
            CorruptionError: If a data file is damaged.
            DiskQuotaError: If there is no room for the local copy of a file.
            OSError: If the object store does not answer.
            StaleStoreError: If the version has been replaced, and its files are gone.
            TypeError: If a limit is neither a number nor a text.
            ValueError: If a limit is negative, or not an amount.

        >>> import tempfile, lookupstore
        >>> store = lookupstore.build(pa.table({"id": [7]}), tempfile.mkdtemp(), key="id")
        >>> store.warm(seconds=30)
        True
        """
        self._check_open()
        time = None if seconds is None else seconds_of(seconds, "seconds")
        size = None if bytes is None else bytes_of(bytes, "bytes")
        total = sum(file.bytes for file in self._manifest.named_files)
        with progress_bars(progress, late=True) as bars:
            advance = bars("Warming", total, "bytes") if bars else not_shown
            return warm_files(self._files, Limits(time, size, advance))

    def verify(self, *, progress: bool | None = None) -> StoreCheck:
        """Check every byte of the store, with its hashes, blocks, order, keys and rows.

        Args:
            progress: Whether to show a progress bar. Default: after one second, on a terminal or in
                a notebook.

        Raises:
            CorruptionError: The store is damaged; the error names the first damage that was found.
            StaleStoreError: The version has been replaced, and its files are gone.
        """
        self._check_open()
        records = sum(file.num_records for file in self._manifest.named_files)
        with progress_bars(progress, late=True) as bars:
            advance = bars("Checking", records) if bars else None
            return check_store(self._location, self._manifest, self._files, advance)

    def close(self) -> None:
        """Close the files; lookups raise `ClosedError` from then on. Closing again does nothing."""
        if not self._closed:
            self._closed = True
            self._end()
            with self._refreshing:
                under_way, self._refresh = self._refresh, None
            if under_way is not None:
                under_way.cancel()
                under_way.newer.close()
            self._files.close()

    def __enter__(self) -> LookupStore:
        self._check_open()
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        return _reopen, (self._location, self._cache_bytes, self._residency, self.version, self.id)

    def __repr__(self) -> str:
        key = ", ".join(f"{f.name}: {f.type}" for f in self._manifest.key_schema.schema)
        values = len(self.value_schema)
        state = ", closed" if self._closed else ""
        return (
            f"<LookupStore {self.path!r}: key ({key}), {counted(values, 'value column')}, "
            f"{counted(self.num_rows, 'row')}{state}>"
        )

    def _title(self) -> str:
        info = self.info()
        return (
            f"LookupStore {info.path}: {counted(info.num_rows, 'row')}, "
            f"{counted(info.bytes, 'byte')}, {counted(info.buckets, 'bucket')}"
        )

    def _first_rows(self) -> pa.Table | None:
        if self._closed or not os.path.isdir(self.path):
            return None
        with self.scan() as reader:
            return pa.Table.from_batches([*islice(reader, 1)], reader.schema)

    def _check_open(self) -> None:
        if self._closed:
            raise ClosedError(f"{self.path}: the store is closed; open it again")

    def _while_open(self, batches: Iterator[B]) -> Iterator[B]:
        while True:
            self._check_open()
            batch = next(batches, None)
            if batch is None:
                return
            yield batch


def buckets_of(store: LookupStore) -> BucketReads:
    """Return the buckets of a store, for callers that read one bucket at a time."""
    return store._buckets


def fetch_newer(store: LookupStore, newer: LookupStore) -> Refresh[LookupStore]:
    """Begin to fetch the files of a newer version for buckets that were used, in a thread."""
    asked, files = store._files.asked, newer._files
    return Refresh(
        newer,
        f"{store.path}: version {newer.version}",
        lambda stop: files.fetch(asked, stop),
    )


def fetch_all(store: LookupStore) -> Refresh[LookupStore]:
    """Begin to fetch all files of a store in a thread; release its copies if room is short."""
    files = store._files

    def fetch(stop: threading.Event) -> None:
        files.fetch(set(files), stop)
        files.share_room()

    return Refresh(store, f"{store.path}: version {store.version}", fetch)


def is_here(store: LookupStore) -> bool:
    """Return whether this host has all bytes of a store."""
    return store._files.are_here


def can_stand_in(store: LookupStore, newer: LookupStore) -> bool:
    """Return whether an open store can answer instead of a newer version.

    It can if only compactions came in between and their versions can be listed, all files of the
    store are on this host, but not those of the newer version, and there is room for both.

    Raises:
        CorruptionError: A version in between is damaged.
        OSError: The object store does not answer.
    """
    if store.path != newer.path or is_here(newer) or not is_here(store):
        return False
    if store._files.is_room_short:
        return False
    return has_same_rows(newer._location, store._manifest, newer._manifest)


def parent_here(store: LookupStore) -> VersionName | None:
    """Return the name of the parent of a store's version if this host has its files.

    The object store is not asked if the host has no local copies, or already has all files of the
    store.

    Raises:
        CorruptionError: The manifest of the parent is damaged.
        OSError: The object store does not answer, or the version has expired.
    """
    files, parent = store._files, store._manifest.parent
    if parent is None or files.are_here or not files.has_any_copy:
        return None
    name = next((one for one in list_names(store._location) if one.id == parent), None)
    if name is None or not files.has_copies(read_version(store._location, name).data_files):
        return None
    return name


def open_files(
    location: Location,
    version: int | VersionName | None,
    cache: BlockCache | None,
    residency: Residency,
) -> tuple[Manifest, BucketFiles]:
    """Open the files of one version, or of the current one, which may change meanwhile.

    A version with a name was published. If the current version has the same number, it was not, and
    lacks the changes of the named version: its writer has yet to withdraw it.
    """
    published = version if isinstance(version, VersionName) else None
    if version is not None and not isinstance(version, VersionName):
        manifest = read_numbered(location, version)
        return manifest, BucketFiles(location, manifest, cache, residency)
    for _ in range(LOOKS):
        manifest = read_newest(location)
        if published is not None and manifest.version == published.number:
            with suppress(FileNotFoundError):  # newer ones have replaced it
                manifest = read_version(location, published)
        try:
            return manifest, BucketFiles(location, manifest, cache, residency)
        except StaleStoreError:
            continue
    raise replaced_meanwhile_error(location)


def _reopen(
    location: Location,
    cache_bytes: int | None,
    residency: Residency | None,
    version: int,
    store_id: str,
) -> LookupStore:
    try:
        store = LookupStore(location, version=version, cache_bytes=cache_bytes, residency=residency)
    except FileNotFoundError as error:
        raise StaleStoreError(
            f"{error} (replaced since the store was pickled, as {store_id}); open it again"
        ) from None
    if store.id != store_id:
        store.close()
        raise StaleStoreError(
            f"{location.uri}: replaced since the store was pickled (it was {store_id}, now it is "
            f"{store.id}); open it again"
        )
    return store


def _after_fork() -> None:
    # A thread that is not in this process may have held the lock.
    for store in _opened:
        store._refreshing = threading.Lock()


os.register_at_fork(after_in_child=_after_fork)
