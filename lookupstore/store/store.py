"""A store: typed keys to typed rows, over the sorted files of one version."""

from __future__ import annotations

import html
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any

import pyarrow as pa

from lookupstore.errors import ClosedError, StaleStoreError
from lookupstore.hostcache.cache import Residency
from lookupstore.keys.arguments import encode_keys
from lookupstore.keys.schema import KeySchema
from lookupstore.quantities import Size, bytes_of
from lookupstore.sst.cache import BlockCache
from lookupstore.storage.location import Location
from lookupstore.store.buckets import BucketReads
from lookupstore.store.check import StoreCheck, check_store
from lookupstore.store.files import BucketFiles
from lookupstore.store.local_files import LocalLookups
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


class LookupStore(LocalLookups):
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

    _files: BucketFiles

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
        self._manifest, self._files = open_files(
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

    def _get(self, encoded: bytes, names: Sequence[str]) -> dict[str, Any] | None:
        self._check_open()
        batch = self._buckets.get(encoded, names)
        if batch is None:
            return None
        columns = zip(batch.schema.names, batch.columns, strict=True)
        return {name: column[0].as_py() for name, column in columns}

    def _lookup(self, keys: Any, names: Sequence[str]) -> tuple[pa.BooleanArray, pa.Table]:
        self._check_open()
        encoded = encode_keys(keys, self._manifest.key_schema)
        present, batch = self._buckets.lookup(encoded, names)
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

    def _scan(
        self, names: Sequence[str], start: bytes | None, stop: bytes | None, reverse: bool
    ) -> Iterator[pa.RecordBatch]:
        self._check_open()
        return self._while_open(self._buckets.scan(names, start, stop, reverse))

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


def buckets_of(store: LookupStore) -> BucketReads:
    """Return the buckets of a store, for who reads one at a time."""
    return store._buckets


def open_files(
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
