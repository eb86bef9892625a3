"""Explain a lookup join before it runs: its plan, and the local copies of the store on hosts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta, timezone
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from lookupstore.columnar import ColumnarFiles
from lookupstore.errors import FormatError
from lookupstore.filters import Filter
from lookupstore.hostcache.recode import plain_size
from lookupstore.html_table import html_table
from lookupstore.quantities import Duration
from lookupstore.spark.frames import check_dataframe
from lookupstore.spark.join import join, trip
from lookupstore.spark.join.freshness import Freshness
from lookupstore.spark.join.host_copies import HostResidency, hosts_with_copies, hosts_with_files
from lookupstore.spark.join.plan import JoinPlan
from lookupstore.spark.join.request import JoinedWith, LookupJoin
from lookupstore.spark.join.task import AsPlanned, Dimension
from lookupstore.spark.join.trip import Trip
from lookupstore.sst import Reader
from lookupstore.storage.location import Location
from lookupstore.store.manifest import DataFile
from lookupstore.store.store import LookupStore
from lookupstore.store.version_files import VersionName, list_names, read_version

# Formats of dimensions that are not tables.
_STORE, _FILES = "store", "columnar files"


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
            ("versions", ", ".join(map(str, self.versions)) or str(self.version or "none")),
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
        hosts = None
        if residents:
            hosts = hosts_with_copies(
                spark, store.location, store.version, _files(store), _codec(store)
            )
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
            planned["hosts"] = hosts_with_files(spark, store.path, files)
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


def _aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    """Return rows of cells as lines with columns under each other."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    ]
