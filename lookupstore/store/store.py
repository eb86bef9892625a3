"""A store: typed keys to typed rows, over the sorted files of one version."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from itertools import islice
from typing import TYPE_CHECKING, Any, TypeVar

import pyarrow as pa

from lookupstore.errors import ClosedError, FormatError, StaleStoreError
from lookupstore.hostcache.cache import Residency
from lookupstore.keys.arguments import encode_keys
from lookupstore.keys.lookups import value_columns
from lookupstore.keys.schema import KeySchema
from lookupstore.keywords import with_advice
from lookupstore.progress import not_shown, progress_bars
from lookupstore.quantities import Duration, Size, bytes_of, counted, seconds_of
from lookupstore.rows._codec import BadRowError
from lookupstore.rows._small import SmallPlan, SmallRows
from lookupstore.rows.python_values import prepare_values
from lookupstore.sst.cache import BlockCache
from lookupstore.storage.location import Location
from lookupstore.store._points import PointLookups
from lookupstore.store.changeable import ChangeableStore
from lookupstore.store.files import BucketFiles
from lookupstore.store.open_version import OpenVersion, open_version
from lookupstore.store.refreshing import Refresh, Refreshes
from lookupstore.store.store_info import StoreInfo, info_of
from lookupstore.store.version_files import (
    VersionName,
    list_names,
    located,
    name_of,
    names_of_store,
    standing,
)
from lookupstore.store.version_times import Moment, number_at
from lookupstore.store.warming import Limits, warm_files

if TYPE_CHECKING:
    from lookupstore.store.check import StoreCheck

B = TypeVar("B")

#: Number of keys of a call up to which the columns of its answer are made in one piece.
FEW = 4096
#: Number of keys of a call up to which they are looked up one after the other: a lookup of many
#: keys takes two microseconds before the first one, and then hides the latency of memory.
EACH = 4

_log = logging.getLogger(__name__)


@with_advice({
    "mode": "leave it out: a store is open for lookups, and lookupstore.upsert changes it",
    "key": "leave it out: a store records its key; for Parquet, use lookupstore.ColumnarFiles",
}.get)  # fmt: skip
def open(
    path: str | os.PathLike[str] | Location,
    *,
    version: int | None = None,
    as_of: datetime | str | None = None,
    cache_bytes: Size | None = None,
    storage_options: Mapping[str, Any] | None = None,
) -> LookupStore:
    """Open a version of a store.

    Args:
        path: Folder of the store, a URI that pyarrow knows (`file://`, `s3://`, `gs://`, `abfs://`,
            `hdfs://`), or a `lookupstore.Location`.
        version: Number of the version. Default: the current version.
        as_of: Time when the version was current instead, as a datetime or a text such as
            `"2026-11-22 07:30Z"`; a text without a zone is in UTC.
        cache_bytes: Size of a cache of decoded blocks for this store alone, in bytes or as a text
            such as `"1GB"`. Default: the cache that all stores of the process share.
        storage_options: Credentials, region, endpoint and similar options of a URI, by the names
            that pandas or deltalake have for them; see `lookupstore.Location`.

    Raises:
        FileNotFoundError: There is no such folder or version.
        ValueError: `as_of` is not a time, is in the future, or is before the first version; or
            `version` is given, too.
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
    version = number_at(location, version, as_of)
    return LookupStore(location, version=version, cache_bytes=cache_bytes)


class LookupStore(PointLookups, ChangeableStore):
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
        self._refreshes: Refreshes[LookupStore] = Refreshes()
        cache: BlockCache | None = (
            None if self._cache_bytes is None else BlockCache(self._cache_bytes)
        )
        opened = open_version(self._location, version, cache, residency)
        self._manifest, self._files, self._buckets = opened.manifest, opened.files, opened.reads
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
            FileNotFoundError: The store was deleted.
            FormatError: The folder is not a store any more.
            StaleStoreError: Each newer version was removed before it could be opened.
            CorruptionError: The newer version is damaged.
        """
        self._check_open()
        own = name_of(self._manifest)
        names = standing(self._location, list_names(self._location))
        # A listing may lag behind; the file of a version does not.
        if not names and self._location.size(own.file) is None:
            names = names_of_store(self._location)
        # A version that is not listed any more was expired, or withdrawn in favor of another one
        # with its number. If there are older versions only, and its file is gone, too, the store
        # was deleted and built again.
        is_older = bool(names) and names[-1].number < own.number
        is_another = is_older and self._location.size(own.file) is None
        if own in names[-1:] or not names or (is_older and not is_another):
            return self
        opened = self._opened_again()
        if opened.id == own.id or (opened.version < own.number and not is_another):
            opened.close()
            return self
        self._goes_on_in(opened)
        return opened

    def refresh(self) -> LookupStore:
        """Return a newer version whose files are on this host, otherwise this store.

        A call that finds a newer version starts a thread, which fetches the files that this host
        lacks, of the buckets that lookups have opened. This store answers meanwhile, and a later
        call returns the newer store once all those files are on this host. A store in a folder
        needs no fetch. Failures are logged, also those of the look for a newer version and a
        deleted store, and a later call tries again. The caller closes both stores; closing this one
        ends a fetch.

        Raises:
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
        return self._refreshes.next(self, self._begin_refresh)

    def _begin_refresh(self) -> LookupStore | Refresh[LookupStore]:
        """Look for a newer version, and return it if it needs no fetch, otherwise begin to fetch.

        If there is none, this store is returned.
        """
        try:
            newer = self.newest()
        except (FormatError, OSError) as error:  # the store does not answer, but this host may
            _log.warning("%s: version %d goes on: %s", self.path, self.version, error)
            return self
        if newer is self or self._location.in_place:
            return newer
        asked, files = self._files.asked, newer._files
        shown = f"{self.path}: version {newer.version}"
        return Refresh(newer, shown, lambda stop: files.fetch(asked, stop))

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
            FileNotFoundError: There is no such version, it was removed, or `since` or `until` is
                before the first version.
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
        # Processes that only look up, such as Spark's workers, save the memory of these imports.
        from lookupstore.store.changelog import open_changelog

        self._check_open()
        names, ignored = value_columns(self, columns), value_columns(self, ignore)
        changelog, stack = open_changelog(
            version_of(self), since, until, names, ignored, self._residency
        )

        def batches() -> Iterator[pa.RecordBatch]:
            with stack:
                yield from self._while_open(changelog.batches())

        return pa.RecordBatchReader.from_batches(changelog.schema, batches())

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
        return info_of(version_of(self))

    @with_advice({"timeout": "give seconds="}.get)
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
        continues where the last one stopped. If values are times in nanoseconds, pandas is
        imported, if it is installed.

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
        prepare_values(self.value_schema)
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
        from lookupstore.store.check import check_store  # as in `changes`

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
            self._refreshes.cancel()
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


def version_of(store: LookupStore) -> OpenVersion:
    """Return the open version of a store, for callers that read its files themselves."""
    return OpenVersion(store._location, store._manifest, store._files, store._buckets)


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
