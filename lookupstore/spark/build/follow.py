"""Follow a table with Spark: executors build the store, and the driver applies what changes."""

from __future__ import annotations

import functools
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from lookupstore.builder.bucket_count import bucket_count, check_buckets
from lookupstore.builder.data_files import file_options
from lookupstore.errors import DuplicateKeyError
from lookupstore.filters import Filter
from lookupstore.following.follow import FollowingStore, followed
from lookupstore.following.follower import ONE_ROW, Follower
from lookupstore.following.targets import Target
from lookupstore.keywords import KEY_ADVICE, WHERE_ADVICE, with_advice
from lookupstore.quantities import Duration, Size, bytes_of
from lookupstore.sorting.ahead import threads_of
from lookupstore.sorting.runs import MIN_MEMORY
from lookupstore.spark.build.build import check_seen, moved_packs, publish_files, task_of
from lookupstore.spark.build.table_parts import TableParts
from lookupstore.spark.build.task import ENTRY, encode_parts, write_batches
from lookupstore.spark.jobs import watched_jobs
from lookupstore.spark.raised import raised_in
from lookupstore.spark.sessions import session
from lookupstore.storage.location import Location
from lookupstore.storage.storage_options import paths_with_options
from lookupstore.store.expiry import HOUR
from lookupstore.store.manifest import DataFile, FollowedSnapshot
from lookupstore.store.new_version import NewVersion
from lookupstore.store.version_files import VersionName, located


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
    memory: Size = 1 << 30,
    compression: str | None = None,
    overwrite: bool = False,
    allow_new_key: bool = False,
    retain: Duration = HOUR,
    spark: SparkSession | None = None,
    storage_options: Mapping[str, Any] | None = None,
) -> FollowingStore:
    """Bring a store to the newest snapshot of a table with Spark, and open it on the driver.

    Executors read the table when all rows are read: for the first version, and when
    `lookupstore.follow` would read all rows again. The driver reads and writes the changes of later
    calls, and of `sync()` of the returned store.

    Args:
        table: Table as `lookupstore.follow` takes it. Executors read its files, without Spark's
            readers.
        path: Folder of the store, on a file system that the driver and all executors share; or a
            URI or location.
        key: Names of the key columns, which must be unique in each snapshot.
        columns: Names of the value columns. Default: all columns that are not in the key.
        where: Condition that rows must meet to be stored, as `lookupstore.build` takes it. Default:
            all rows.
        buckets: Number of data files of a build, and of the tasks that write them. Default: that of
            the store; for a new store, by the size of the table.
        nullable_keys: Key columns that may hold nulls. In others a null is an error.
        memory: Memory of the driver for rows that changed, in bytes or as a text such as `"1GB"`.
        compression: Name of the codec of the data files of a build. Default: none in a local
            folder, zstd elsewhere.
        overwrite: Whether to build the store again from all rows, also if it follows no table.
        allow_new_key: Whether the key may have other names or types than in the store.
        retain: Time for which replaced versions are kept; see `lookupstore.expire`.
        spark: Session whose executors build. Default: the active one, or a new one from
            `session()`.
        storage_options: Options of the URIs of the table and the store, as `lookupstore.follow`
            takes them. Executors use them too.

    Raises: The errors of `lookupstore.follow`. Errors of executors are raised with their own types.
    """
    path, table = paths_with_options(storage_options, path=path, table=followed(table))
    location = located(path)
    check_buckets(buckets)
    follower = SparkFollower(
        table,
        location,
        key=key,
        columns=columns,
        where=where,
        nullable_keys=nullable_keys,
        buckets=buckets,
        allow_new_key=allow_new_key,
        retain=retain,
        progress=None,
        options=file_options(location, compression),
        memory=bytes_of(memory, "memory", least=2 * MIN_MEMORY),
        threads=threads_of(None),
        temp_dir=None,
        spark=spark or session(),
    )
    return FollowingStore(follower, follower.sync(overwrite=overwrite))


@dataclass(frozen=True)
class SparkFollower(Follower):
    """A table and a store that follows it, which executors build.

    Attributes:
        spark: Session of the executors.
    """

    spark: SparkSession

    def _publish(
        self,
        new: NewVersion,
        target: Target,
        replaces: VersionName | None,
        follows: FollowedSnapshot,
    ) -> VersionName:
        spark, newest = self.spark, target.newest
        parts = TableParts(newest.description, newest.schema, newest.lacking(None))
        title = f"lookupstore: build {self.location.uri}"
        try:
            with new, watched_jobs(spark, title, "Building") as written:
                current, buckets = new.current(), self.buckets
                if buckets is None and current is not None:
                    buckets = current.buckets
                if buckets is None:
                    buckets = bucket_count(parts.nbytes)
                plan, options = target.plan, self.options
                task = task_of(new, plan, newest.schema, buckets, options, rows=written, reads=True)
                packs = moved_packs(parts.packs(spark, task), task)
                entries = packs.mapInArrow(functools.partial(write_batches, task), ENTRY)
                files = [DataFile(**row.asDict()) for row in entries.collect()]
                check_seen(self.location, [file.name for file in files])
                return publish_files(
                    new, task, files, newest.description, replaces=replaces, follows=follows
                )
        except PySparkException as error:
            raised = raised_in(error, (encode_parts, write_batches))
            if isinstance(raised, DuplicateKeyError):
                what = str(raised).partition(";")[0]
                raise DuplicateKeyError(f"{what}; {ONE_ROW}", key=raised.key) from None
            if raised is None:
                raise
            raise raised from None
