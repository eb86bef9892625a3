"""The local copies of a dimension of joins on each host, as small Spark tasks find them.

Only a task on a host sees its disk.
"""

from __future__ import annotations

import functools
import os
import socket
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass

import pyarrow as pa
from pyspark.sql import SparkSession

from lookupstore.columnar.file_lookup import LookupFileNames
from lookupstore.hostcache import stats
from lookupstore.hostcache.cache import Residency
from lookupstore.spark.jobs import named_jobs, parallelism
from lookupstore.storage.location import Location
from lookupstore.store.manifest import DataFile

# Number of tasks for each task that can run at a time: Spark does not control where a task runs;
# waiting tasks run on whichever executor is free.
_TASKS_EACH = 2
# Seconds that a task waits, so that the first free executor does not run all of them.
_STAY = 0.1
_HOST = (
    "host string, cache string, quota bigint, used bigint, files int, bytes bigint, "
    "plain_files int, coming_files int, coming_bytes bigint, fetched bigint, sees_store boolean"
)
_HOST_TYPES = pa.schema(
    [
        ("host", pa.string()),
        ("cache", pa.string()),
        ("quota", pa.int64()),
        ("used", pa.int64()),
        ("files", pa.int32()),
        ("bytes", pa.int64()),
        ("plain_files", pa.int32()),
        ("coming_files", pa.int32()),
        ("coming_bytes", pa.int64()),
        ("fetched", pa.int64()),
        ("sees_store", pa.bool_()),
    ]
)


@dataclass(frozen=True)
class HostResidency:
    """The local copies of a store, or the lookup files of files or a table, on one host.

    Attributes:
        host: Name of the host.
        cache: Folder of its local copies.
        quota: Limit of the bytes of all local copies in that folder.
        used: Bytes that all local copies in that folder take.
        files: Number of data files of the store that are complete on this host; for a local store,
            those that the host sees with their full size; for files and tables, the number of
            lookup files.
        bytes: Size of these files in bytes.
        plain_files: Number of data files of the store that lookups use in place on this host:
            complete files that are uncompressed or have an uncompressed copy, or lookup files.
        coming_files: Number of data files of the store that are on this host in part.
        coming_bytes: Bytes of these files that are on this host.
        fetched: Bytes that joins of the last week have fetched on this host for this version.
        sees_store: Whether the host sees the folder of a local store, or the first of local files.
            None: they are remote.
    """

    host: str
    cache: str
    quota: int
    used: int
    files: int
    bytes: int
    plain_files: int
    coming_files: int
    coming_bytes: int
    fetched: int
    sees_store: bool | None


def hosts_with_copies(
    spark: SparkSession, location: Location, version: int, files: Sequence[DataFile], codec: str
) -> tuple[HostResidency, ...]:
    """Ask hosts with a Spark job which local copies of a store they have.

    Args:
        spark: Session whose executors are asked.
        location: Location of the store.
        version: Number of the version of the store.
        files: Data files of that version.
        codec: Name of the compression of the files.
    """
    ask = functools.partial(residents_of, location, version, files, codec)
    return _answers_of_hosts(spark, location.uri, ask)


def hosts_with_files(
    spark: SparkSession, path: str, files: Sequence[tuple[str, LookupFileNames]]
) -> tuple[HostResidency, ...]:
    """Ask hosts with a Spark job which lookup files they have.

    Args:
        spark: Session whose executors are asked.
        path: Path of the files, or of the table.
        files: Path or URI of each file, with the names of its lookup file.
    """
    return _answers_of_hosts(spark, path, functools.partial(lookup_files_of, path, files))


def residents_of(
    location: Location,
    version: int,
    files: Sequence[DataFile],
    codec: str,
    batches: Iterable[pa.RecordBatch],
) -> Iterator[pa.RecordBatch]:
    """Yield the data files that this host has; only the host of the task matters."""
    for _ in batches:
        pass
    time.sleep(_STAY)
    residency = Residency()
    here = [_is_here(location, file, residency) for file in files]
    coming = [nbytes for complete, nbytes in here if nbytes and not complete]
    plain = [
        complete and (codec == "none" or residency.has_plain(nbytes=one.bytes, xxh64=one.xxh64))
        for one, (complete, _) in zip(files, here, strict=True)
    ]
    host = HostResidency(
        host=socket.gethostname(),
        cache=residency.folder,
        quota=residency.quota,
        used=residency.used,
        files=sum(complete for complete, _ in here),
        bytes=sum(nbytes for complete, nbytes in here if complete),
        plain_files=sum(plain),
        coming_files=len(coming),
        coming_bytes=sum(coming),
        fetched=_fetched(residency.folder, location.uri, version),
        sees_store=_sees(location) if location.in_place else None,
    )
    yield pa.RecordBatch.from_pylist([asdict(host)], schema=_HOST_TYPES)


def lookup_files_of(
    path: str,
    files: Sequence[tuple[str, LookupFileNames]],
    batches: Iterable[pa.RecordBatch],
) -> Iterator[pa.RecordBatch]:
    """Yield the lookup files that this host has; only the host of the task matters.

    Args:
        path: Path of the files, or of the table.
        files: Path or URI of each file, with the names of its lookup file.
        batches: Rows of the task, which do not count.
    """
    for _ in batches:
        pass
    time.sleep(_STAY)
    residency = Residency()
    sizes = [nbytes for _, names in files if (nbytes := names.nbytes_in(residency))]
    first = files[0][0] if files else path
    host = HostResidency(
        host=socket.gethostname(),
        cache=residency.folder,
        quota=residency.quota,
        used=residency.used,
        files=len(sizes),
        bytes=sum(sizes),
        plain_files=len(sizes),
        coming_files=0,
        coming_bytes=0,
        fetched=_fetched(residency.folder, path, 0),
        sees_store=None if "://" in first else os.path.exists(first),
    )
    yield pa.RecordBatch.from_pylist([asdict(host)], schema=_HOST_TYPES)


def _sees(location: Location) -> bool:
    try:
        return location.is_there()
    except OSError:  # the host may not read the folder, so it does not see the store
        return False


def _fetched(folder: str, store: str, version: int) -> int:
    try:
        return stats.fetched(folder, store, version)
    except OSError:  # statistics are optional: they may be unreadable or damaged
        return 0


def _is_here(location: Location, file: DataFile, residency: Residency) -> tuple[bool, int]:
    if not location.in_place:
        return residency.coverage(nbytes=file.bytes, xxh64=file.xxh64)
    path = location.show(file.name)
    return (True, file.bytes) if _size(path) == file.bytes else (False, 0)


def _size(path: str) -> int | None:
    try:
        return os.stat(path).st_size
    except OSError:
        return None


def _answers_of_hosts(
    spark: SparkSession,
    path: str,
    ask: Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]],
) -> tuple[HostResidency, ...]:
    """Run a function on all hosts, and return the answer of each.

    Args:
        spark: Session whose executors run it.
        path: Path of the dimension, for the names of jobs.
        ask: Function that yields the answer of its host.
    """
    tasks = _TASKS_EACH * parallelism(spark)
    with named_jobs(spark, f"lookupstore: what hosts have of {path}"):
        rows = spark.range(0, tasks, 1, tasks).mapInArrow(ask, _HOST).collect()
    found = {(row.host, row.cache): HostResidency(**row.asDict()) for row in rows}
    return tuple(found[place] for place in sorted(found))
