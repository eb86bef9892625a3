"""A store: typed keys to typed rows, over the sorted files of one version."""

from __future__ import annotations

import html
import os
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any

import pyarrow as pa

from lookupstore.errors import ClosedError, StaleStoreError
from lookupstore.hostcache.cache import Residency
from lookupstore.hostcache.stats import Counts
from lookupstore.keys.arguments import encode_keys
from lookupstore.keys.lookups import Lookups
from lookupstore.keys.schema import KeySchema
from lookupstore.keywords import keyword_only
from lookupstore.quantities import Size, bytes_of
from lookupstore.sst.cache import BlockCache
from lookupstore.storage.location import Location
from lookupstore.store.buckets import BucketReads
from lookupstore.store.check import StoreCheck, check_store
from lookupstore.store.files import BucketFiles
from lookupstore.store.manifest import Manifest
from lookupstore.store.version_files import (
    LOOKS,
    find_version,
    gone_version_error,
    list_names,
    located,
    name_of,
    read_newest,
    read_version,
    replaced_meanwhile_error,
)


@dataclass(frozen=True)
class StoreInfo:
    """A description of a version of a store, for people and programs.

    Attributes:
        path: its folder, or URI without credentials.
        version: number of the version.
        id: identity of this content; every build makes a new one.
        created: UTC time at which the version was published, ISO 8601.
        writer: program and version that built it.
        source: what it was built from.
        key: Arrow type of each key column, by name, in the order that sorts the store.
        values: Arrow type of each value column, by name.
        num_rows: number of keys.
        buckets: number of buckets.
        files: number of data files.
        bytes: size of all data files.
        rewritten_buckets: number of data files that are new in this version; the others are those
            of the version before.
        options: how it was built.
    """

    path: str
    version: int
    id: str
    created: str
    writer: str
    source: str
    key: Mapping[str, str]
    values: Mapping[str, str]
    num_rows: int
    buckets: int
    files: int
    bytes: int
    rewritten_buckets: int
    options: Mapping[str, Any]

    def to_json(self) -> dict[str, Any]:
        """Return the description as plain JSON values."""
        return asdict(self)


def open(
    path: str | os.PathLike[str] | Location,
    *,
    version: int | None = None,
    cache_bytes: Size | None = None,
) -> LookupStore:
    """Open a version of a store.

    Args:
        path: its folder, a URI that pyarrow knows (`file://`, `s3://`, `gs://`, `abfs://`,
            `hdfs://`), or a `lookupstore.storage.location.Location`.
        version: number of the version; None opens the current one.
        cache_bytes: size of a cache of decoded blocks for this store alone, in bytes or as a text
            such as `"1GB"`; None shares the cache of the process.

    Raises:
        FileNotFoundError: there is no such folder or version.
        FormatError: the folder is not a store, or of a newer format.
        CorruptionError: the manifest or a data file contradicts itself.

    >>> import tempfile, lookupstore
    >>> folder = tempfile.mkdtemp()
    >>> _ = lookupstore.build(pa.table({"id": [7], "name": ["seven"]}), folder, key="id")
    >>> with lookupstore.open(folder) as store:
    ...     store.version, store.get(7)
    (1, {'name': 'seven'})
    """
    return LookupStore(path, version=version, cache_bytes=cache_bytes)


class LookupStore(Lookups):
    """Lookups in one version of a store, for one key or millions.

    Threads may share it. It stays on the version that it opened, even when a build replaces that;
    `newest` opens the current one. A pickle has location and version, which are opened again where
    it is loaded; that is an error if the version is gone. `lookupstore.keys.arguments` says in
    which forms methods take `keys`.

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

    def __init__(
        self,
        path: str | os.PathLike[str] | Location,
        *,
        version: int | None = None,
        cache_bytes: Size | None = None,
        residency: Residency | None = None,
    ) -> None:
        """Open a version; `open` says how.

        Args:
            path: folder, URI or location of the store.
            version: number of the version; None opens the current one.
            cache_bytes: size of a cache of decoded blocks for this store alone.
            residency: pins the local copies of a remote store, and the plain copies of compressed
                files; None takes that of the host.
        """
        self._location = located(path)
        #: Absolute path of the folder, or the URI without credentials.
        self.path: str = self._location.uri
        self._cache_bytes = None if cache_bytes is None else bytes_of(cache_bytes, "cache_bytes")
        # None is the host's, and in a pickle that of the host where it is opened.
        self._residency = residency
        self._closed = False
        cache: BlockCache | None = (
            None if self._cache_bytes is None else BlockCache(self._cache_bytes)
        )
        self._manifest, self._files = _open_files(
            self._location, version, cache, Residency() if residency is None else residency
        )
        self._buckets = BucketReads(self._location, self._manifest, self._files)

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
        """Return when the version was published, in UTC."""
        return self._manifest.created_at

    def newest(self) -> LookupStore:
        """Return the store at its current version: itself, or the newer version, opened.

        This store stays open and answers as before. A listing that lags behind never leads back
        to an older version.

        Raises:
            StaleStoreError: each newer version was gone before it was open.
            CorruptionError: the newer version is damaged.
        """
        self._check_open()
        own = name_of(self._manifest)
        names = list_names(self._location)
        # A version that is not listed any more was expired, or withdrawn for one of its number.
        if own in names[-1:] or not names or names[-1].number < own.number:
            return self
        opened = LookupStore(
            self._location, cache_bytes=self._cache_bytes, residency=self._residency
        )
        if opened.version < own.number:
            opened.close()
            return self
        return opened

    def counts(self) -> Counts:
        """Return what lookups of this process have read of the open files, and fetched for them."""
        return self._files.counts()

    def share_room(self) -> None:
        """Release the local copies of the store if room for others is getting short.

        The next call pins them again. Call it where a store stays open and is seldom used.
        """
        self._files.share_room()

    @property
    def id(self) -> str:
        """Return the identity of the store's content; every build makes a new one."""
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

    def __iter__(self) -> Iterator[Any]:
        """Yield the keys in key order, those of several fields as tuples."""
        for batch in self.scan(columns=[]):
            columns = [column.to_pylist() for column in batch.columns]
            yield from columns[0] if len(columns) == 1 else zip(*columns, strict=True)

    def _row_at(self, encoded: bytes, names: Sequence[str]) -> dict[str, Any] | None:
        self._check_open()
        batch = self._buckets.row(encoded, names)
        if batch is None:
            return None
        columns = zip(batch.schema.names, batch.columns, strict=True)
        return {name: column[0].as_py() for name, column in columns}

    def _rows_at(self, keys: Any, names: Sequence[str]) -> tuple[pa.BooleanArray, pa.Table]:
        self._check_open()
        encoded = encode_keys(keys, self._manifest.key_schema)
        present, batch = self._buckets.look_up(encoded, names)
        return present, pa.Table.from_batches([batch])

    def contains(self, keys: Any) -> pa.BooleanArray:
        """Return for each of many keys whether it is stored: Arrow booleans, never null.

        Raises:
            TypeError: keys of a wrong type or form; the error names the right one.
            KeyError: a key field that `keys` does not have.
            CorruptionError: the stored bytes are wrong.
        """
        self._check_open()
        return self._buckets.contains(encode_keys(keys, self._manifest.key_schema))

    @keyword_only
    def scan(
        self,
        *,
        start: Any = None,
        stop: Any = None,
        prefix: Any = None,
        starts_with: str | bytes | None = None,
        columns: Sequence[str] | None = None,
        reverse: bool = False,
    ) -> pa.RecordBatchReader:
        """Read rows in key order: the key columns, then the value columns.

        Args:
            start: first key, included; None is the beginning. A tuple may have the first fields of
                the key only.
            stop: stop before this key; None is the end.
            prefix: only rows whose first key fields have these values: a tuple, or one value for
                the first field.
            starts_with: only rows whose key field after those of `prefix` (without `prefix`: the
                first one) begins with this text or these bytes.
            columns: value columns to read, in this order; None reads all.
            reverse: from the greatest key to the least.

        Raises:
            TypeError: a key of a wrong type, a list where a key is wanted, or an argument without
                its name.
            KeyError: a value column that the store does not have.
            ValueError: `prefix` or `starts_with` together with `start` or `stop`.
            CorruptionError: the stored bytes are wrong (when they are reached).

        Warns:
            UserWarning: no key has the text or bytes at the end of `prefix`, but some begin with
                them.

        >>> import tempfile, lookupstore
        >>> table = pa.table({"city": ["Bath", "Bath", "Bern"], "day": [1, 2, 1]})
        >>> store = lookupstore.build(table, tempfile.mkdtemp(), key=["city", "day"])
        >>> store.scan(prefix="Bath").read_all()["day"].to_pylist()
        [1, 2]
        >>> store.scan(starts_with="B", reverse=True).read_all()["city"].to_pylist()
        ['Bern', 'Bath', 'Bath']
        """
        self._check_open()
        names = self._value_columns(columns)
        key_schema = self._manifest.key_schema
        bounds: tuple[bytes | None, bytes | None] | None = (None, None)
        wider: tuple[bytes | None, bytes | None] | None = None
        whole: tuple[Any, ...] = ()
        if prefix is not None or starts_with is not None:
            if start is not None or stop is not None:
                raise ValueError(
                    "start or stop is given with prefix or starts_with; give one or the other"
                )
            whole = () if prefix is None else key_schema.leading(prefix, "prefix")
            bounds = key_schema.encode_prefix(whole, starts_with)
            if starts_with is None and whole and isinstance(whole[-1], (str, bytes)):
                wider = key_schema.encode_prefix(whole[:-1], whole[-1])
        elif start is not None or stop is not None:
            bounds = key_schema.encode_bounds(start, stop)
        fields = [*key_schema.schema, *(self.value_schema.field(name) for name in names)]
        schema = pa.schema(fields)
        # No key can hold these values, so the range is empty.
        low, high = (b"", b"") if bounds is None else bounds
        batches = self._buckets.scan(schema, names, low, high, reverse)
        if wider is not None:
            batches = self._hinted(batches, wider, whole)
        return pa.RecordBatchReader.from_batches(schema, self._while_open(batches))

    def _hinted(
        self,
        batches: Iterator[pa.RecordBatch],
        wider: tuple[bytes | None, bytes | None],
        prefix: tuple[Any, ...],
    ) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a prefix; warn if there are none, but some begin with it."""
        found = False
        for batch in batches:
            found = found or batch.num_rows > 0
            yield batch
        if found:
            return
        schema = self.key_schema.schema
        if any(batch.num_rows for batch in self._buckets.scan(schema, [], *wider, False)):
            name = schema.names[len(prefix) - 1]
            before = f"prefix={prefix[:-1]!r}, " if prefix[:-1] else ""
            warnings.warn(
                f"{self.path}: no row has {name} = {prefix[-1]!r}, but some begin with it: prefix= "
                f"takes whole values; for those give {before}starts_with={prefix[-1]!r}",
                stacklevel=2,
            )

    def bucket_bounds(self) -> dict[int, tuple[bytes, bytes]]:
        """Return the least and the greatest encoded key of each bucket that has rows.

        >>> import tempfile, lookupstore
        >>> table = pa.table({"id": pa.array([1, 7], pa.uint8())})
        >>> lookupstore.build(table, tempfile.mkdtemp(), key="id").bucket_bounds()
        {0: (b'\\x01', b'\\x07')}
        """
        return {
            file.bucket: (bytes.fromhex(file.min_key), bytes.fromhex(file.max_key))
            for file in self._manifest.files
        }

    def scan_bucket(
        self,
        bucket: int,
        ranges: Sequence[tuple[bytes | None, bytes | None]] = ((None, None),),
        columns: Sequence[str] | None = None,
    ) -> pa.RecordBatchReader:
        """Read rows of one bucket: the key columns, then the value columns.

        Args:
            bucket: its number.
            ranges: of encoded keys: the first one, and the one to stop before; None is no
                bound. Rows come range by range, in key order in each.
            columns: value columns to read, in this order; None reads all.

        Raises:
            KeyError: a value column that the store does not have.
            CorruptionError: the stored bytes are wrong (when they are reached).

        >>> import tempfile, lookupstore
        >>> table = pa.table({"id": pa.array([1, 7, 9], pa.uint8())})
        >>> store = lookupstore.build(table, tempfile.mkdtemp(), key="id")
        >>> store.scan_bucket(0, [(b"\\x07", None)]).read_all()["id"].to_pylist()
        [7, 9]
        """
        self._check_open()
        names = self._value_columns(columns)
        schema = pa.schema(
            [*self.key_schema.schema, *(self.value_schema.field(name) for name in names)]
        )
        batches = self._buckets.scan_bucket(bucket, ranges, schema, names)
        return pa.RecordBatchReader.from_batches(schema, self._while_open(batches))

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
            files=len(manifest.files),
            bytes=manifest.bytes,
            rewritten_buckets=manifest.rewritten_buckets,
            options=dict(manifest.options),
        )

    def verify(self) -> StoreCheck:
        """Read every byte of the store and check it: hashes, blocks, order, keys and rows.

        Raises:
            CorruptionError: the first thing that is wrong.
            StaleStoreError: the version has been replaced, and its files are gone.
        """
        self._check_open()
        return check_store(self._location, self._manifest, self._files)

    def close(self) -> None:
        """Close the files; lookups raise `ClosedError` from then on. Closing again does nothing."""
        if not self._closed:
            self._closed = True
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
            f"<LookupStore {self.path!r}: key ({key}), {values} value "
            f"column{'s'[: values != 1]}, {self.num_rows:,} rows{state}>"
        )

    def _repr_html_(self) -> str:
        info = self.info()
        kinds = [("key", info.key), ("value", info.values)]
        rows = "".join(
            f"<tr><td>{html.escape(name)}</td><td>{html.escape(kind)}</td><td>{role}</td></tr>"
            for role, fields in kinds
            for name, kind in fields.items()
        )
        return (
            f"<table><caption>LookupStore {html.escape(info.path)}: {info.num_rows:,} rows, "
            f"{info.bytes:,} bytes, {info.buckets} bucket{'s'[: info.buckets != 1]}</caption>"
            f"<thead><tr><th>column</th><th>type</th><th>role</th></tr></thead>"
            f"<tbody>{rows}</tbody></table>"
        )

    def _check_open(self) -> None:
        if self._closed:
            raise ClosedError(f"{self.path}: the store is closed; open it again")

    def _while_open(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        while True:
            self._check_open()
            batch = next(batches, None)
            if batch is None:
                return
            yield batch


def _open_files(
    location: Location, version: int | None, cache: BlockCache | None, residency: Residency
) -> tuple[Manifest, BucketFiles]:
    """Open the files of one version, or of the current one, which may change meanwhile."""
    if version is not None:
        name = find_version(location, version)
        try:
            manifest = read_version(location, name)
        except FileNotFoundError:
            raise gone_version_error(location, name.number, name.id) from None
        return manifest, BucketFiles(location, manifest, cache, residency)
    for _ in range(LOOKS):
        manifest = read_newest(location)
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
