"""Explain a lookup join before it runs: its plan, and the local copies of the store on hosts.

The hosts are asked with a small Spark job, because only a task on a host sees its disk.
"""

from __future__ import annotations

import functools
import os
import socket
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta, timezone
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from lookupstore.columnar import ColumnarFiles
from lookupstore.columnar.file_lookup import LookupFileNames
from lookupstore.errors import FormatError
from lookupstore.filters import Filter
from lookupstore.hostcache import stats
from lookupstore.hostcache.cache import Residency
from lookupstore.hostcache.recode import plain_size
from lookupstore.html_table import html_table
from lookupstore.quantities import Duration
from lookupstore.spark.frames import check_dataframe
from lookupstore.spark.jobs import named_jobs, parallelism
from lookupstore.spark.join import join, trip
from lookupstore.spark.join.freshness import Freshness
from lookupstore.spark.join.plan import JoinPlan
from lookupstore.spark.join.request import JoinedWith, LookupJoin
from lookupstore.spark.join.task import AsPlanned, Dimension
from lookupstore.spark.join.trip import Trip
from lookupstore.sst import Reader
from lookupstore.storage.location import Location
from lookupstore.store.manifest import DataFile
from lookupstore.store.store import LookupStore
from lookupstore.store.version_files import VersionName, list_names, read_version

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


# Formats of dimensions that are not tables.
_STORE, _FILES = "store", "columnar files"


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


@dataclass(frozen=True, repr=False)
class JoinExplanation:
    """The plan of a lookup join, as `explain_join` returns it.

    Print it, show it in a notebook, or call `to_json`.

    Attributes:
        store: Folder of the store, or its URI without credentials.
        format: Format of the dimension: `store`, `columnar files`, or that of a table, such as
            `Delta table`.
        version: Number of the version or snapshot that the join was planned on; of a Hudi table,
            the position of the commit. None: files have no versions.
        id: Identifier of the content of that version, or of the files.
        created: Time of the version of a store, or of the commit of a table, UTC, ISO 8601. None:
            there is none.
        age: Seconds since that time. None: there is none.
        rows: Number of keys of the store, or of rows of files or a table.
        bytes: Size of the data files in bytes.
        files: Number of data files.
        lookup_files: Number of files that a host may have for lookups: the data files of a store,
            or one lookup file for each columnar file.
        buckets: Number of buckets of the store; 1 for files or a table.
        how: Kind of join, after `on_miss` was applied: `drop` makes it `inner`.
        keys: Key column of each fact column, in the order of the key.
        columns: Spark type of each appended column, by name.
        strategy: Strategy of the join: `replicated` or `bucketed`.
        reason: Reason for this strategy, as a text.
        refresh: Description of the version that answers, as a text.
        versions: Numbers of the present versions that may answer. Versions that are published later
            may answer too, unless `refresh` is `never`. Empty for files and Hudi tables.
        max_staleness: Greatest age of the version in seconds when a query starts. None: any age.
        where: Condition that rows must meet to be found. None: all rows are.
        transport: Description of the data that goes through Python, as a text.
        lookups: Description of where lookups find the blocks of the store, or of the reason and the
            remedy if lookups are slow, as a text.
        hosts: Local copies on each host that answered. None: `residents` was false.
    """

    store: str
    format: str
    version: int | str | None
    id: str
    created: str | None
    age: float | None
    rows: int
    bytes: int
    files: int
    lookup_files: int
    buckets: int
    how: str
    keys: Mapping[str, str]
    columns: Mapping[str, str]
    strategy: str
    reason: str
    refresh: str
    versions: tuple[int, ...]
    max_staleness: float | None
    where: str | None
    transport: str
    lookups: str
    hosts: tuple[HostResidency, ...] | None

    @property
    def warm(self) -> bool:
        """Return whether all hosts that answered have all that lookups use from now on."""
        return bool(self.hosts) and all(
            one.plain_files == self.lookup_files for one in self.hosts or ()
        )

    def to_json(self) -> dict[str, Any]:
        """Return the explanation as plain JSON values."""
        hosts = None if self.hosts is None else [asdict(host) for host in self.hosts]
        return {**asdict(self), "versions": list(self.versions), "hosts": hosts}

    def __repr__(self) -> str:
        lines = [self._title, *(f"  {line}" for line in _aligned(self._facts()))]
        if self.hosts is not None:
            lines += ["", *_aligned([self._heads, *self._host_rows()])]
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        tables = html_table(self._title, [], self._facts())
        if self.hosts is not None:
            tables += html_table("", self._heads, self._host_rows())
        return tables

    @property
    def _title(self) -> str:
        kind = "commit" if isinstance(self.version, str) else "version"
        version = "" if self.version is None else f", {kind} {self.version}"
        return f"lookup join with {self.store}{version}"

    def _facts(self) -> list[tuple[str, str]]:
        columns = [f"{name} {kind}" for name, kind in self.columns.items()]
        allowed = timedelta(seconds=self.max_staleness or 0)
        created = "unknown"
        if self.format == _FILES:
            created = "columnar files, as they are now"
        elif self.age is not None:
            created = f"{self.created}, {timedelta(seconds=round(self.age))} ago"
        parts = f"buckets: {self.buckets:,}" if self._is_store else f"files: {self.files:,}"
        return [
            ("format", self.format),
            ("id", self.id),
            ("created", created),
            ("size", f"{self.rows:,} rows, {self.bytes:,} bytes, {parts}"),
            ("how", self.how),
            ("key", ", ".join(f"{fact} = {key}" for fact, key in self.keys.items())),
            ("appends", ", ".join(columns) or "nothing"),
            *([] if self.where is None else [("where", self.where)]),
            ("strategy", f"{self.strategy}: {self.reason}"),
            ("refresh", self.refresh),
            ("versions", ", ".join(map(str, self.versions)) or "none"),
            ("staleness", "any" if self.max_staleness is None else f"at most {allowed}"),
            ("Python", self.transport),
            ("lookups", self.lookups),
        ]

    @property
    def _is_store(self) -> bool:
        return self.format == _STORE

    @property
    def _heads(self) -> tuple[str, ...]:
        return _HEADS if self._is_store else _LOOKUP_FILE_HEADS

    def _host_rows(self) -> list[tuple[str, ...]]:
        seen = {None: "remote", True: "seen", False: "NOT SEEN"}
        if not self._is_store:
            return [
                (
                    host.host,
                    host.cache,
                    f"{host.used:,} of {host.quota:,}",
                    f"{host.files:,} of {self.lookup_files:,}",
                    f"{host.bytes:,}",
                    f"{host.fetched:,}",
                    seen[host.sees_store],
                )
                for host in self.hosts or ()
            ]
        return [
            (
                host.host,
                host.cache,
                f"{host.used:,} of {host.quota:,}",
                f"{host.files:,} of {self.files:,}",
                f"{host.bytes:,} of {self.bytes:,}",
                f"{host.plain_files:,} of {self.files:,}",
                f"{host.coming_bytes:,} in {host.coming_files:,} files",
                f"{host.fetched:,}",
                seen[host.sees_store],
            )
            for host in self.hosts or ()
        ]


_HEADS = (
    "host",
    "cache folder",
    "bytes used",
    "files here",
    "bytes here",
    "plain",
    "coming",
    "fetched",
    "store",
)
_LOOKUP_FILE_HEADS = (
    "host", "cache folder", "bytes used", "lookup files", "their bytes", "fetched", "files"
)  # fmt: skip


def explain_join(
    df: DataFrame,
    store: JoinedWith,
    on: str | Sequence[str] | Mapping[str, str],
    how: str = "left",
    columns: Sequence[str] | None = None,
    prefix: str | None = None,
    *,
    found: str | None = None,
    strategy: str = "auto",
    refresh: str | float | timedelta | None = None,
    max_staleness: Duration | None = None,
    on_miss: str | tuple[str, int, float | timedelta] = "null",
    warm: bool = False,
    residents: bool = True,
    where: Filter | None = None,
    version: int | None = None,
    as_of: datetime | str | None = None,
    storage_options: Mapping[str, Any] | None = None,
) -> JoinExplanation:
    """Explain what `lookup_join` would do, without reading facts.

    Args:
        df: Facts: a DataFrame of Spark.
        store: Store, columnar files or table, or the path or location of one.
        on: Fact columns that hold the key: names, or a dict from fact column to key column.
        how: Kind of join: `left`, `inner`, `semi` or `anti`.
        columns: Value columns of the store to append. Default: all.
        prefix: Prefix of the names of the appended columns. Default: none.
        found: Name of a boolean column to append, which is true where the key was found. Default:
            no such column.
        strategy: Strategy of the join: `auto`, `replicated` or `bucketed`.
        refresh: Version that answers: `never`, `per_batch`, or a time in seconds, as a timedelta or
            as a text.
        max_staleness: Greatest age of the version when a query starts. Default: any age.
        on_miss: Handling of facts with a missing key: `("retry", attempts, delay)`, `null`, `drop`
            or `raise`.
        warm: Whether hosts prepare the lookups of a replicated store before the first one.
        residents: Whether to ask the hosts for their local copies or lookup files, with a Spark job
            of small tasks. A host without such a task is missing in the answer.
        storage_options: Options of the URI of `store`; see `lookupstore.Location`.

    Raises:
        KeyError: If the facts, the key or the store lack a column.
        TypeError: If an argument or a column has a wrong type.
        ValueError: If an argument is out of range.
        FileNotFoundError: If there is no such store.

    Other arguments are those of `lookup_join`, without `metrics`; it raises the same errors.
    `docs/how-to/spark-join.md` shows an example.
    """
    asked = LookupJoin(
        store,
        on,
        how,
        columns,
        prefix,
        found=found,
        strategy=strategy,
        refresh=refresh,
        max_staleness=max_staleness,
        on_miss=on_miss,
        warm=warm,
        where=where,
        version=version,
        as_of=as_of,
        storage_options=storage_options,
    )
    check_dataframe(df)
    before = Trip.before(df)
    with join.planned(before, asked) as (opened, plan):
        spoken = _transport(before, plan)
        return _explanation(df.sparkSession, opened, plan, where, spoken, residents)


def _transport(before: Trip, plan: JoinPlan) -> str:
    """Describe the data that goes through Python, and the joins that share the trip."""
    text = "only keys go to Python, only columns of the store come back (Arrow UDF)"
    if trip.arrow_udf is None:  # type: ignore[attr-defined]
        text = "whole rows go to Python (mapInArrow)"
    together = len(before.and_then(plan).plans)
    if together > 1:
        text += f"; one trip for {together} joins"
    return text


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


def _explanation(
    spark: SparkSession,
    store: Dimension,
    plan: JoinPlan,
    where: Filter | None,
    transport: str,
    residents: bool,
) -> JoinExplanation:
    freshness = plan.lookup.freshness
    planned: dict[str, Any]
    if isinstance(store, LookupStore):
        info = store.info()
        hosts = hosts_of(spark, store) if residents else None
        planned = {
            "format": _STORE,
            "version": info.version,
            "created": info.created,
            "age": (datetime.now(timezone.utc) - store.created).total_seconds(),
            "bytes": info.bytes,
            "files": info.files,
            "lookup_files": info.files,
            "versions": _choices(store, freshness),
            "lookups": _lookups(store, plan.strategy, hosts or ()),
            "hosts": hosts,
        }
    else:
        planned = {**_table_facts(store), "bytes": store.nbytes, "files": store.num_files}
        files = store.lookup_files()
        planned |= {"lookup_files": len(files), "hosts": None}
        if residents:
            ask = functools.partial(lookup_files_of, store.path, files)
            planned["hosts"] = _answers_of_hosts(spark, store.path, ask)
        planned["lookups"] = (
            "in lookup files, which a host makes of a file when a key may be in it for the first "
            "time, as long as its quota has room (LOOKUPSTORE_CACHE_BYTES)"
        )
    return JoinExplanation(
        store=store.path,
        id=store.id,
        rows=store.num_rows,
        buckets=plan.buckets,
        how=plan.how,
        keys=dict(zip(plan.keys, store.key, strict=True)),
        columns={field.name: field.dataType.simpleString() for field in plan.appended},
        strategy=plan.strategy,
        reason=plan.reason,
        refresh=_refresh(freshness),
        max_staleness=freshness.max_staleness,
        where=None if where is None else str(where),
        transport=transport,
        **planned,
    )


def _table_facts(store: AsPlanned) -> dict[str, Any]:
    """Return the format of files or a table, and the version and its time that are read."""
    version: int | str | None
    committed = None
    if isinstance(store, ColumnarFiles):
        kind, version = store.table_format or _FILES, store.version
        if store.has_commits:
            committed = store.committed_at()
    else:
        kind, version = "Hudi table", store.position or None
        # The zone of its clock may be unknown.
        with suppress(FormatError):
            committed = store.committed_at()
    facts: dict[str, Any] = {"format": kind, "version": version, "created": None, "age": None}
    facts["versions"] = (version,) if isinstance(version, int) else ()
    if committed is not None:
        created = datetime.fromtimestamp(committed, timezone.utc)
        facts["created"] = created.isoformat(timespec="milliseconds")
        facts["age"] = (datetime.now(timezone.utc) - created).total_seconds()
    return facts


def _lookups(store: LookupStore, strategy: str, hosts: Sequence[HostResidency]) -> str:
    """Describe where lookups find blocks, and name hosts without room for fast lookups."""
    codec = _codec(store)
    in_place = store.location.in_place
    files = _files(store)
    if codec == "none":
        if in_place:
            return "in place, in the files of the store"
        text, sizes = "in place, in local copies of the store's files", [one.bytes for one in files]
        remedy = ""
    else:
        text = f"in plain copies on each host, since the files are {codec}"
        remedy = ", or build the store with compression='none'"
        # The size of plain copies of remote files is unknown here, but at least that of the files.
        sizes = [one.bytes for one in files]
        if in_place:
            text += "; made when lookups have decompressed as many blocks as a file has"
            sizes = [_plain_size(store.location, one) for one in files]
    # With buckets a host needs only its own, but each of them completely.
    needed = max(sizes, default=0) if strategy == "bucketed" else sum(sizes)
    small = next((host for host in hosts if host.quota < needed), None)
    if small is None:
        return text
    return (
        f"slow on {small.host}: local copies there may take {small.quota:,} bytes, and those of "
        f"the store take {needed:,} or more; set LOOKUPSTORE_CACHE_BYTES to more there{remedy}"
    )


def _codec(store: LookupStore) -> str:
    return str(store.info().options.get("compression", "none"))


def _files(store: LookupStore) -> tuple[DataFile, ...]:
    return read_version(store.location, VersionName(store.version, store.id)).data_files


def _plain_size(location: Location, file: DataFile) -> int:
    with Reader(location.resolve(file.name)[1]) as reader:
        return plain_size(reader.info()) or 0


def _refresh(freshness: Freshness) -> str:
    if freshness.every is None:
        return "never: the planned version answers"
    if freshness.every == 0:
        return "per_batch: the newest version when a query or micro-batch starts"
    return f"the newest version at the last multiple of {freshness.every:g} s"


def _choices(store: LookupStore, freshness: Freshness) -> tuple[int, ...]:
    if freshness.every is None:
        return (store.version,)
    numbers = {name.number for name in list_names(store.location)}
    return tuple(sorted({store.version, *(n for n in numbers if n > store.version)}))


def hosts_of(spark: SparkSession, store: LookupStore) -> tuple[HostResidency, ...]:
    """Ask hosts with a Spark job which local copies of a store they have."""
    location = store.location
    files = _files(store)
    ask = functools.partial(residents_of, location, store.version, files, _codec(store))
    return _answers_of_hosts(spark, location.uri, ask)


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


def _aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    """Return rows of cells as lines with columns under each other."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    ]
