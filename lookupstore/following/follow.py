"""Follow a table: build a store of it once, and then apply what changes."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from lookupstore.builder.bucket_count import check_buckets
from lookupstore.builder.data_files import file_options
from lookupstore.builder.in_process import existing_folder
from lookupstore.filters import Filter
from lookupstore.filters.recorded_filter import filter_of
from lookupstore.following.follower import Follower
from lookupstore.keywords import KEY_ADVICE, WHERE_ADVICE, with_advice
from lookupstore.quantities import Duration, Size, bytes_of
from lookupstore.sorting.ahead import threads_of
from lookupstore.sorting.runs import MIN_MEMORY
from lookupstore.storage.location import Location
from lookupstore.storage.storage_options import paths_with_options
from lookupstore.store.data_files import options_of
from lookupstore.store.expiry import HOUR
from lookupstore.store.store import LookupStore
from lookupstore.store.version_files import VersionName, located, read_newest

_MEMORY = 1 << 30
# Query type of an open Hudi table that reads all current rows.
_SNAPSHOT = "snapshot"


class FollowingStore(LookupStore):
    """An open store with the arguments of `follow`.

    A pickle of it is opened as a `LookupStore`, whose `sync` has those that the store records.

    Args:
        follower: The table and the store.
        version: Name of the version to open. None: the current one.
    """

    def __init__(self, follower: Follower, version: VersionName | None = None) -> None:
        self._follower = follower
        super().__init__(follower.location, version=version)

    def sync(
        self,
        *,
        retain: Duration | None = None,
        storage_options: Mapping[str, Any] | None = None,
    ) -> FollowingStore:
        """Bring the store to the newest snapshot of the table, and open the result.

        This store stays open and its answers do not change. If there is nothing newer, it is
        returned.

        Args:
            retain: Time for which replaced versions are kept. Default: that of the call of
                `lookupstore.follow` that returned this store.
            storage_options: Options of the URI of the table, such as credentials. Default: those of
                that call.

        Raises: the errors of `lookupstore.follow`.

        >>> import tempfile, deltalake, lookupstore, pyarrow as pa
        >>> table = tempfile.mkdtemp()
        >>> deltalake.write_deltalake(table, pa.table({"id": [1, 2]}))
        >>> store = lookupstore.follow(table, tempfile.mkdtemp(), key="id")
        >>> store.sync() is store
        True
        >>> deltalake.write_deltalake(table, pa.table({"id": [3]}), mode="append")
        >>> len(store.sync()), len(store)
        (3, 2)
        """
        self._check_open()
        follower = self._follower
        if retain is not None:
            follower = replace(follower, retain=retain)
        if storage_options is not None:
            (table,) = paths_with_options(storage_options, table=follower.table)
            follower = replace(follower, table=table)
        published = follower.sync()
        if published is None:
            newest = self.newest()
            assert isinstance(newest, FollowingStore)
            return newest
        newer = self._opened_again(published)
        self._goes_on_in(newer)
        return newer

    def _opened_again(self, version: VersionName | None = None) -> FollowingStore:
        return FollowingStore(self._follower, version)


@with_advice({**KEY_ADVICE, **WHERE_ADVICE}.get)
def follow(
    table: Any,
    path: str | os.PathLike[str] | Location,
    *,
    key: str | Sequence[str],
    columns: Sequence[str] | None = None,
    where: Filter | None = None,
    buckets: int | None = None,
    nullable_keys: str | Sequence[str] = (),
    memory: Size = _MEMORY,
    threads: int | None = None,
    compression: str | None = None,
    overwrite: bool = False,
    allow_new_key: bool = False,
    retain: Duration = HOUR,
    progress: bool | None = None,
    temp_dir: str | os.PathLike[str] | None = None,
    storage_options: Mapping[str, Any] | None = None,
) -> FollowingStore:
    """Bring a store to the newest snapshot of a table, and open it.

    The first call builds the store. Later calls, and `sync()` of the returned store, publish the
    rows that differ between the snapshot in the store and the newest one, as one version. They read
    only the data files that were added, the keys of those that were removed, and rows of files with
    new deletes. Rows that only moved to other files, as in a compaction, do not change.

    If the table is on an object store and may delete rows by position, the key columns of its files
    are kept in the cache folder of the host, and read from there.

    All rows are read again if this is not possible: if the table, a column that is stored, or
    `where` was replaced; if a vacuum, expiry, clean or restore removed the snapshot that the store
    has; or if the store was changed by other calls. A warning is logged, and
    `store.info().follows` contains the reason.

    Any number of processes may follow one table with one store: each snapshot is applied once.

    Args:
        table: Folder or URI of a Delta, Hudi or Paimon table, of an Iceberg table without a
            catalog, or of another store; the name of an Iceberg table in a catalog,
            `"iceberg:CATALOG.NAMESPACE.TABLE"`, with `.branch_NAME` at its end for a branch; an
            open store or `lookupstore.hudi.HudiTable`; a `deltalake.DeltaTable`; a table or scan of
            pyiceberg; or a `FileStoreTable` of pypaimon. The newest version is followed, even if
            the object has an older one open.
        path: Folder, URI or location of the store. It is made if missing; otherwise it must be
            empty or a store that follows a table.
        key: Names of the key columns, which must be unique in each snapshot.
        columns: Names of the value columns, in the order in which lookups return them. Default: all
            columns that are not in the key.
        where: Condition that rows must meet to be stored, as `lookupstore.build` takes it. Default:
            all rows.
        buckets: Number of data files of a build. Default: that of the store; for a new store, by
            the size of the table.
        nullable_keys: Key columns that may hold nulls. In others a null is an error.
        memory: Memory for rows, in bytes or as a text such as `"1GB"`; rows that do not fit are
            spilled to disk.
        threads: Number of threads that sort, compress and write, including the caller's. Default:
            one for each processor that the process may use, at most 64.
        compression: Name of the codec of the data files of a build. Default: none in a local
            folder, zstd elsewhere.
        overwrite: Whether to build the store again from all rows, also if it follows no table.
        allow_new_key: Whether the key may have other names or types than in the store; see
            `lookupstore.build`.
        retain: Time for which replaced versions are kept; see `lookupstore.expire`.
        progress: Whether to show progress bars. Default: after one second, on a terminal or in a
            notebook.
        temp_dir: Folder for spilled rows, and for the files of a remote store before they are
            uploaded. Default: the parent folder of a local store, or the system's temporary folder
            for a remote one.
        storage_options: Credentials, region, endpoint and similar options of the URIs of the table
            and the store, by the names that pandas or deltalake have for them; see
            `lookupstore.Location`.

    Raises:
        DuplicateKeyError: If a key has several rows in the newest snapshot.
        KeyError: If the table lacks a column.
        ValueError: If a key is null, the key is another than that of the store and
            `allow_new_key` is False, the scan is of one snapshot, `where` is not understood, or an
            argument is out of range.
        TypeError: If `table` is not a table, `where` is not a filter, or the type of a key column
            has no order.
        FileNotFoundError: There is no such table or folder.
        FileExistsError: There is a store that follows no table or one at another path, or the
            folder has other files.
        FormatError: If the table has something that is not supported, which the error names, or
            the path is not that of a table.
        ImportError: If the package that reads the table, or SQL, is not installed.
        CorruptionError: A file of the table or the store is damaged.
        StaleStoreError: A file of the newest snapshot is gone.
        CommitConflictError: Another writer published first on every retry.
        CommitUnknownError: The version may or may not be published; nothing was deleted.

    >>> import tempfile, deltalake, lookupstore, pyarrow as pa
    >>> table, folder = tempfile.mkdtemp(), tempfile.mkdtemp()
    >>> deltalake.write_deltalake(table, pa.table({"id": [1, 2], "name": ["one", "two"]}))
    >>> store = lookupstore.follow(table, folder, key="id")
    >>> deltalake.DeltaTable(table).delete("id = 2")["num_deleted_rows"]
    1
    >>> store = lookupstore.follow(table, folder, key="id")
    >>> store.get(1), store.get(2), store.version
    ({'name': 'one'}, None, 2)
    """
    path, table = paths_with_options(storage_options, path=path, table=followed(table))
    location = located(path)
    check_buckets(buckets)
    follower = Follower(
        table,
        location,
        key=key,
        columns=columns,
        where=where,
        nullable_keys=nullable_keys,
        buckets=buckets,
        allow_new_key=allow_new_key,
        retain=retain,
        progress=progress,
        options=file_options(location, compression),
        memory=bytes_of(memory, "memory", least=2 * MIN_MEMORY),
        threads=threads_of(threads),
        temp_dir=existing_folder(temp_dir),
    )
    return FollowingStore(follower, follower.sync(overwrite=overwrite))


def followed(table: Any) -> Any:
    """Return a table for a `Follower`: an open store or Hudi table is followed by its path.

    Raises:
        ValueError: If a Hudi table was opened to read only some of its rows.
    """
    if isinstance(table, LookupStore):
        return table.location
    hudi = sys.modules.get("lookupstore.hudi.table.table")
    if hudi is None or not isinstance(table, hudi.HudiTable):
        return table
    if table.query_type != _SNAPSHOT:
        raise ValueError(
            f"table is open with query_type={table.query_type!r}, but follow needs all current "
            "rows; open it without query_type"
        )
    return table.location


def recorded_follower(
    store: LookupStore, *, retain: Duration | None, storage_options: Mapping[str, Any] | None
) -> Follower:
    """Return the table that a store records, and how the store follows it.

    Args:
        store: The store.
        retain: Time for which replaced versions are kept. Default: one hour.
        storage_options: Options of the URI of the table.

    Raises:
        ValueError: If the store follows no table, or does not record its path.
    """
    manifest = read_newest(store.location)
    follows = manifest.follows
    if follows is None:
        raise ValueError(
            f"{store.path}: the store follows no table; make one that does: "
            "lookupstore.follow(TABLE, PATH, key=...)"
        )
    if follows.place is None:
        raise ValueError(
            f"{store.path}: the store does not record where its table is, or with which filter it "
            f"was built; pass both again: lookupstore.follow(TABLE, {store.path!r}, "
            f"key={list(manifest.key_schema.names)!r}, where=...)"
        )
    (table,) = paths_with_options(storage_options, table=follows.place)
    return Follower(
        table,
        store.location,
        key=manifest.key_schema.names,
        columns=None if follows.every_column else manifest.row_schema.schema.names,
        where=filter_of(follows.where),
        nullable_keys=[*manifest.key_schema.nullable],
        buckets=None,
        allow_new_key=False,
        retain=HOUR if retain is None else retain,
        progress=None,
        options=options_of(manifest),
        memory=_MEMORY,
        threads=threads_of(None),
        temp_dir=None,
    )
