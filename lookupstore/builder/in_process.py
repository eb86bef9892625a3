"""Build a store from columnar data, in one process and a bounded amount of memory.

The steps are separate, because a cluster takes them apart: `plan_build` checks what was asked
against a schema, `BuildPlan.encode` turns columns into bytes, `write_bucket` streams the sorted
bytes of one bucket into one data file, and `lookupstore.store.new_version` makes the files a
version of a store.
"""

from __future__ import annotations

import errno
import logging
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from typing import Any, Literal

import pyarrow as pa
import pyarrow.compute as pc

from lookupstore.keys._codec import bucket_of
from lookupstore.keys.schema import KeySchema
from lookupstore.progress import progress_bars
from lookupstore.quantities import Duration, Size, bytes_of
from lookupstore.rows.schema import RowSchema
from lookupstore.sorting.runs import KEEP_RULES, MIN_MEMORY, Keep, RepeatedKeyError, RunSorter
from lookupstore.source.source import Source, open_source
from lookupstore.sst import Writer
from lookupstore.storage.home import expanded
from lookupstore.storage.local import file_hash
from lookupstore.storage.location import Location
from lookupstore.store.expiry import HOUR
from lookupstore.store.manifest import DATA_FOLDER, MAX_BUCKETS, WRITER, DataFile, Manifest
from lookupstore.store.new_version import NewVersion, is_whole, settle
from lookupstore.store.statistics import RowStatistics
from lookupstore.store.store import LookupStore
from lookupstore.store.version_files import located

OnDuplicate = Literal["error", "first", "last"] | tuple[Literal["max"], str]


_NO_ROOM = (errno.ENOSPC, errno.EDQUOT)

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class FileOptions:
    """How the data files of a store are written; see `lookupstore.sst.Writer`."""

    compression: str = "none"
    level: int | None = None
    block_size: int = 65536
    bloom_fpp: float = 0.05


def file_options(
    location: Location,
    compression: str | None = None,
    level: int | None = None,
    block_size: int = FileOptions.block_size,
    bloom_fpp: float = FileOptions.bloom_fpp,
) -> FileOptions:
    """Return how the data files of a store are written, wherever it is built from.

    Args:
        location: of the store; without `compression` files are plain where they are looked up in
            place, a local folder, and zstd where they travel.
        compression: one of `lookupstore.sst.codec.COMPRESSIONS`; None chooses by the location.
        level: level of the compression; None is its default.
        block_size: size of a block before compression, in bytes.
        bloom_fpp: false positive rate of the filter; 0 writes none.

    >>> file_options(Location("users")).compression
    'none'
    """
    if compression is None:
        compression = location.default_compression
    return FileOptions(compression, level, block_size, bloom_fpp)


@dataclass(frozen=True)
class BuildPlan:
    """What a build does with every batch; made by `plan_build`.

    Attributes:
        key_schema: the key columns.
        row_schema: the value columns.
        keep: what happens to repeated keys.
        rank_schema: under the rule `max` the column that decides, as a nullable key; else None.
    """

    key_schema: KeySchema
    row_schema: RowSchema
    keep: Keep
    rank_schema: KeySchema | None

    @property
    def columns(self) -> list[str]:
        """Return the names of the source columns that the build reads, each once."""
        rank = () if self.rank_schema is None else self.rank_schema.names
        return list(dict.fromkeys([*self.key_schema.names, *self.row_schema.schema.names, *rank]))

    @property
    def on_duplicate(self) -> str | list[str]:
        """Return the rule for repeated keys as a plain JSON value."""
        return self.keep if self.rank_schema is None else [self.keep, *self.rank_schema.names]

    def encode(self, batch: pa.RecordBatch, first_row: int | None = 0) -> pa.RecordBatch:
        """Turn a batch of source columns into bytes: `key`, `rank` under the rule `max`, `value`.

        Raises:
            ValueError: a key column that is not in `nullable_keys` holds a null; the error counts
                rows from `first_row`; with None it counts none.
        """
        for name in self.key_schema.names:
            column = batch.column(name)
            if column.null_count and name not in self.key_schema.nullable:
                row = pc.index(column.is_null(), True).as_py()
                where = "a row" if first_row is None else f"row {first_row + row}"
                raise ValueError(
                    f"key column {name!r} is null in {where} of the source; pass "
                    f"nullable_keys=[{name!r}] to store null keys, or filter those rows out"
                )
        columns = {"key": self.key_schema.encode(batch.select(self.key_schema.names))}
        if self.rank_schema is not None:
            columns["rank"] = self.rank_schema.encode(batch.select(self.rank_schema.names))
        columns["value"] = self.row_schema.pack(batch.select(self.row_schema.schema.names))
        return pa.RecordBatch.from_pydict(columns)

    def repeated_error(
        self, key: bytes, rules: str = "'first', 'last' or ('max', column)"
    ) -> ValueError:
        """Return the error for a key that comes more than once, with the key as its columns.

        Args:
            key: its bytes.
            rules: what `on_duplicate` may be where it is given.
        """
        values = self.key_schema.decode(pa.array([key], pa.large_binary())).to_pylist()[0]
        shown = ", ".join(f"{name}={value!r}" for name, value in values.items())
        return ValueError(
            f"the key {shown} occurs more than once in the source; pass on_duplicate={rules} to "
            "choose the row to keep"
        )


def plan_build(
    schema: pa.Schema,
    *,
    key: str | Sequence[str],
    columns: Sequence[str] | None = None,
    on_duplicate: OnDuplicate = "error",
    nullable_keys: str | Sequence[str] = (),
) -> BuildPlan:
    """Check what a build was asked against the schema of its source.

    The arguments are those of `build`.

    Raises:
        KeyError: a column that the source does not have.
        ValueError: no key columns, a column named twice, or an unknown rule.
        TypeError: a key column whose type cannot be ordered, or an argument of a wrong type.

    >>> plan = plan_build(pa.schema({"id": "int64", "name": "string"}), key="id")
    >>> plan.row_schema.schema.names
    ['name']
    """
    keys = _names("key", key)
    if not keys:
        raise ValueError("key is empty; name at least one column of the source")
    for name in keys:
        _check_column(schema, name, "key")
    if columns is None:
        values = [name for name in schema.names if name not in keys]
    else:
        values = [name for name in _names("columns", columns) if name not in keys]
    for name in values:
        _check_column(schema, name, "columns")
    nullable = _names("nullable_keys", nullable_keys)
    for name in nullable:
        if name not in keys:
            raise KeyError(f"nullable_keys: {name!r} is not a key column; the key is {keys}")
    keep, rank = _keep_rule(on_duplicate)
    rank_schema = None
    if rank is not None:
        _check_column(schema, rank, "on_duplicate")
        rank_schema = KeySchema(_fields(schema, [rank], nullable=[rank]), nullable=[rank])
    return BuildPlan(
        KeySchema(_fields(schema, keys, nullable=nullable), nullable=nullable),
        RowSchema(_fields(schema, values, nullable=None)),
        keep,
        rank_schema,
    )


def write_bucket(
    folder: str,
    name: str,
    bucket: int,
    batches: Iterable[pa.RecordBatch],
    *,
    plan: BuildPlan,
    options: FileOptions,
    rows_at_most: int | None = None,
    advance: Callable[[int], object] | None = None,
    threads: int = 1,
) -> DataFile | None:
    """Stream the sorted rows of one bucket into a data file and describe it for the manifest.

    The bytes follow from rows, schemas and options alone, so that equal buckets are equal files:
    what the store is built from, and when, is in the manifest.

    Args:
        folder: local folder; its data folder exists.
        name: file name without extension; it has to be new.
        bucket: number of the bucket.
        batches: `key` and `value` columns, keys strictly ascending over all batches.
        plan: gives the schemas that the file records.
        options: how the file is written.
        rows_at_most: makes the filter for that many; without it, it takes memory by the row.
        advance: told the number of rows after each batch.
        threads: how many compress and write, the caller's among them.

    Returns:
        The manifest's entry, or None if there are no rows: an empty bucket has no file.

    Raises:
        FileExistsError: the file is there already.
        ValueError: keys out of order.
    """
    rows = (batch for batch in batches if batch.num_rows)
    batch = next(rows, None)
    if batch is None:
        return None
    relative = f"{DATA_FOLDER}/{name}.sst"
    path = os.path.join(folder, DATA_FOLDER, f"{name}.sst")
    statistics = RowStatistics()
    with Writer(
        path,
        key_schema=plan.key_schema.schema,
        value_schema=plan.row_schema.schema,
        expected_entries=rows_at_most,
        threads=threads,
        **asdict(options),
    ) as writer:
        while batch is not None:
            writer.put_many(batch.column("key"), batch.column("value"))
            statistics.add(batch)
            if advance is not None:
                advance(batch.num_rows)
            batch = next(rows, None)
    return DataFile(
        name=relative,
        bucket=bucket,
        bytes=os.path.getsize(path),
        xxh64=file_hash(path),
        **statistics.fields(),
    )


def new_manifest(
    plan: BuildPlan,
    files: Iterable[DataFile | None],
    *,
    store_id: str,
    buckets: int,
    options: FileOptions,
    source: str,
    source_fingerprint: str | None = None,
) -> Manifest:
    """Return the manifest of data files, in any order; None stands for an empty bucket.

    Version and time are those of its publication, which comes later. Files that do not begin with
    `store_id` are those of an older version.
    """
    present = tuple(sorted((file for file in files if file is not None), key=lambda f: f.bucket))
    return Manifest(
        version=0,
        id=store_id,
        created="",
        writer=WRITER,
        key_schema=plan.key_schema,
        row_schema=plan.row_schema,
        buckets=buckets,
        num_rows=sum(file.num_records for file in present),
        source=source,
        source_fingerprint=source_fingerprint,
        options=_recorded(plan, options),
        rewritten_buckets=sum(
            file.name.startswith(f"{DATA_FOLDER}/{store_id}-") for file in present
        ),
        files=present,
    )


def files_to_keep(
    current: Manifest | None, plan: BuildPlan, options: FileOptions, buckets: int
) -> Mapping[int, DataFile]:
    """Return by bucket the files of the current version that a new one may go on using.

    Those are all, or none if the versions differ in more than rows.
    """
    if (
        current is None
        or current.key_schema != plan.key_schema
        or current.row_schema != plan.row_schema
        or current.buckets != buckets
        or current.options != _recorded(plan, options)
    ):
        return {}
    return {file.bucket: file for file in current.files}


def _recorded(plan: BuildPlan, options: FileOptions) -> dict[str, Any]:
    return {"on_duplicate": plan.on_duplicate, **asdict(options)}


def check_file_options(folder: str, store_id: str, options: FileOptions, threads: int) -> None:
    """Check options with a file that is not kept, before hours of reading.

    Raises:
        ValueError: an option out of range, or a codec that there is not.
    """
    path = os.path.join(folder, DATA_FOLDER, f"{store_id}-options.sst")
    Writer(path, threads=threads, **asdict(options)).abort()


def build(
    source: Any,
    path: str | os.PathLike[str] | Location,
    *,
    key: str | Sequence[str],
    columns: Sequence[str] | None = None,
    buckets: int | None = None,
    on_duplicate: OnDuplicate = "error",
    nullable_keys: str | Sequence[str] = (),
    memory: Size = 512 << 20,
    threads: int = 1,
    compression: str | None = None,
    level: int | None = None,
    block_size: Size = 65536,
    bloom_fpp: float = 0.05,
    overwrite: bool = False,
    allow_empty: bool = False,
    retain: Duration = HOUR,
    progress: bool | None = None,
    temp_dir: str | os.PathLike[str] | None = None,
) -> LookupStore:
    """Build a store from columnar data and open it.

    A failed build removes what it wrote; a killed one leaves no version, so nothing can be opened.

    With `overwrite` it publishes the next version. A bucket whose file would be the same, to the
    byte, as that of the current version is not written again. Files or a Hudi table that have not
    changed since then, with the same arguments, are not even read.

    Args:
        source: Parquet or ORC (a file, folder, glob or URI, or a list of these), the folder or URI
            of a Hudi table (its current rows, in its data columns), an Arrow table, record batch,
            reader or dataset, an iterable of record batches, or an object with
            `__arrow_c_stream__`: a pandas or polars DataFrame, a DuckDB relation.
        path: folder or URI of the store, or its location; made if missing, else empty. Files of a
            remote store are written in a temporary folder first.
        key: the key columns, in the order that sorts the store.
        columns: the value columns; None takes all that are not in the key. Key columns named here
            are left out: a store holds them once.
        buckets: number of data files over which keys are spread by hash; None is 1.
        on_duplicate: what happens to a key that comes more than once: `"error"`; `"first"` or
            `"last"` keep that row in source order; `("max", column)` keeps the row with the
            greatest value (null is least, NaN greatest, of equal ones the later row). The column
            need not be stored.
        nullable_keys: key columns that may hold nulls, which sort first.
        memory: budget for rows in memory, at least 64 KiB, in bytes or as a text such as `"1GB"`;
            what does not fit is spilled.
        threads: how many threads read ahead (of files), compress and write, the caller's among
            them; the files are the same whatever it is.
        compression: `"none"` lets lookups use the blocks in place; a codec such as `"zstd"` or
            `"lz4"` makes smaller files, of which hosts make plain copies for their lookups. None is
            `"none"` in a local folder, where lookups use the files in place, and `"zstd"`
            elsewhere.
        level: level of the compression; None is its default.
        block_size: size of a block of a data file before compression, in bytes or as a text such as
            `"64KiB"`.
        bloom_fpp: false positive rate of the filter of a data file; 0 writes no filter.
        overwrite: replace the store at `path`; until the new version is complete the old one
            answers. A reader stays on the version it opened.
        allow_empty: let a version without rows replace one that has some. The first version of a
            store may be empty in any case.
        retain: how long replaced versions stay, a timedelta, seconds, or a text such as `"1h"`; see
            `lookupstore.expire`, which is called after a build that overwrites.
        progress: show a progress bar; None shows it if standard error is a terminal.
        temp_dir: where to spill, and where files of a remote store are written first; None is
            beside a local store, and the system's temporary folder for a remote one.

    Raises:
        KeyError: a column that the source does not have.
        ValueError: a null or repeated key, no rows where there were some, or an argument out of
            range; the error names the remedy.
        TypeError: a source or column type that cannot be stored.
        FileNotFoundError: the source names no files.
        FormatError: the source is files of a table; the error names the line to write instead.
        CorruptionError: a file of the source is damaged.
        OSError: a file cannot be read, or the disk is full; the error names the path.
        FileExistsError: `path` holds a store or something else.
        CommitConflictError: another build of the same store was published in the same moment.
        CommitUnknownError: the version may or may not be published; nothing was deleted.

    >>> import tempfile
    >>> table = pa.table({"id": [2, 1], "name": ["two", "one"]})
    >>> store = build(table, tempfile.mkdtemp(), key="id")
    >>> store.get(1)
    {'name': 'one'}
    """
    location = located(path)
    buckets = 1 if buckets is None else buckets
    if not isinstance(buckets, int) or not 1 <= buckets <= MAX_BUCKETS:
        raise ValueError(f"buckets is {buckets!r}; give a number from 1 to {MAX_BUCKETS}, or None")
    memory = bytes_of(memory, "memory", least=MIN_MEMORY)
    if temp_dir is not None:
        temp_dir = expanded(os.fspath(temp_dir))
        if not os.path.isdir(temp_dir):
            raise FileNotFoundError(
                f"temp_dir: {temp_dir}: no such folder; make it, or give an existing one"
            )
    options = file_options(
        location, compression, level, bytes_of(block_size, "block_size"), bloom_fpp
    )
    opened = open_source(source)
    plan = plan_build(
        opened.schema,
        key=key,
        columns=columns,
        on_duplicate=on_duplicate,
        nullable_keys=nullable_keys,
    )
    try:
        with NewVersion(
            location,
            overwrite=overwrite,
            allow_empty=allow_empty,
            retain=retain,
            temp_dir=temp_dir,
        ) as new:
            check_file_options(new.folder, new.id, options, threads)
            current = new.current()
            kept = files_to_keep(current, plan, options, buckets)
            if current is not None and _nothing_changed(location, opened, current, kept):
                _log.info(
                    "%s: no change in %s since version %d; its data files are reused",
                    location.uri,
                    opened.description,
                    current.version,
                )
                files: list[DataFile | None] = [*current.files]
            else:
                files = _sort_and_write(
                    opened,
                    new,
                    kept,
                    plan=plan,
                    options=options,
                    buckets=buckets,
                    memory=memory,
                    threads=threads,
                    progress=progress,
                    spill=spill_folder(location, temp_dir),
                )
            manifest = new_manifest(
                plan,
                files,
                store_id=new.id,
                buckets=buckets,
                options=options,
                source=opened.description,
                source_fingerprint=opened.fingerprint,
            )
            new.publish(manifest)
            _log.info(
                "%s: the store has %d bytes, its source %s",
                location.uri,
                manifest.bytes,
                "is not files" if opened.nbytes is None else f"{opened.nbytes} bytes",
            )
    except RepeatedKeyError as error:
        raise plan.repeated_error(error.key) from None
    except OSError as error:
        spilled = error.filename == spill_folder(location, temp_dir)
        if error.errno not in _NO_ROOM or (location.in_place and not spilled):
            raise
        what = "rows that do not fit into memory" if spilled else "files before they are uploaded"
        said = f"{os.strerror(error.errno or 0)} for {what}"
        remedy = "pass temp_dir= with a folder that has room"
        raise OSError(error.errno, f"{said}; {remedy}", error.filename) from error
    return LookupStore(location)


def _sort_and_write(
    opened: Source,
    new: NewVersion,
    kept: Mapping[int, DataFile],
    *,
    plan: BuildPlan,
    options: FileOptions,
    buckets: int,
    memory: int,
    threads: int,
    progress: bool | None,
    spill: str,
) -> list[DataFile | None]:
    """Read the source, and give each bucket its file: a new one, or the one in `kept`."""
    with (
        progress_bars(progress) as bars,
        RunSorter(
            plan.keep,
            memory=memory,
            folder=spill,
            partitions=buckets,
            partition=lambda keys: bucket_of(keys, buckets),
        ) as sorter,
    ):
        total = opened.count_rows() if bars else None
        rows = 0
        advance = bars("Reading", total) if bars else None
        batches = _source_batches(opened, plan, memory // 8)
        if threads > 1 and opened.is_files:
            batches = _read_ahead(batches)
        for batch in batches:
            sorter.add(plan.encode(batch, rows))
            rows += batch.num_rows
            if advance:
                advance(batch.num_rows)
        advance = bars("Writing", rows) if bars else None
        files = []
        for bucket in range(buckets):
            file = write_bucket(
                new.folder,
                f"{new.id}-{bucket:05d}",
                bucket,
                sorter.sorted_batches(bucket),
                plan=plan,
                options=options,
                rows_at_most=sorter.rows_at_most(bucket) or None,
                advance=advance,
                threads=threads,
            )
            files.append(None if file is None else settle(new.location, new.folder, file, kept))
        _log.info(
            "built %s from %s: %d of %d buckets unchanged, %d rows read, %d spills",
            new.location.uri,
            opened.description,
            sum(file is not None and file in kept.values() for file in files),
            buckets,
            rows,
            sorter.spills,
        )
    return files


def _nothing_changed(
    location: Location, opened: Source, current: Manifest, kept: Mapping[int, DataFile]
) -> bool:
    """Return whether a build would only make the files that the current version has."""
    return (
        opened.fingerprint is not None
        and opened.fingerprint == current.source_fingerprint
        and current.writer == WRITER
        and len(kept) == len(current.files)
        and current.num_rows > 0
        and all(is_whole(location, file) for file in current.files)
    )


def spill_folder(location: Location, temp_dir: str | os.PathLike[str] | None = None) -> str:
    """Return where rows that are to be sorted are spilled: beside a local store, if not told."""
    if temp_dir is not None:
        return os.fspath(temp_dir)
    return location.spill_folder()


def _source_batches(source: Source, plan: BuildPlan, size: int) -> Iterator[pa.RecordBatch]:
    """Yield the source's batches, cut so that the encoded form of one stays small."""
    for batch in source.batches(plan.columns):
        rows = max(1, batch.num_rows * size // max(1, batch.nbytes))
        for start in range(0, batch.num_rows, rows):
            yield batch.slice(start, rows)


def _read_ahead(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield the same batches, the next of them being read by a thread of its own meanwhile."""
    with ThreadPoolExecutor(1, thread_name_prefix="lookupstore-reader") as reader:
        coming = reader.submit(next, batches, None)
        while (batch := coming.result()) is not None:
            coming = reader.submit(next, batches, None)
            yield batch


def _names(argument: str, names: str | Sequence[str]) -> list[str]:
    listed = [names] if isinstance(names, str) else list(names)
    for name in listed:
        if not isinstance(name, str):
            raise TypeError(f"{argument} contains {name!r}; give column names")
        if listed.count(name) > 1:
            raise ValueError(f"{argument} names the column {name!r} twice")
    return listed


def _check_column(schema: pa.Schema, name: str, argument: str) -> None:
    count = schema.names.count(name)
    if count == 0:
        raise KeyError(f"{argument}: the source has no column {name!r}; it has {schema.names}")
    if count > 1:
        raise ValueError(f"{argument}: the source has {count} columns named {name!r}; rename them")


def _keep_rule(on_duplicate: object) -> tuple[Keep, str | None]:
    if isinstance(on_duplicate, (tuple, list)) and len(on_duplicate) == 2:
        rule, column = on_duplicate
        if rule == "max" and isinstance(column, str):
            return "max", column
    for keep in KEEP_RULES:
        if on_duplicate == keep and keep != "max":
            return keep, None
    raise ValueError(
        f"on_duplicate is {on_duplicate!r}; give 'error', 'first', 'last' or ('max', column)"
    )


def _fields(
    schema: pa.Schema, names: Sequence[str], *, nullable: Sequence[str] | None
) -> pa.Schema:
    """Return the named fields without the metadata of the file that they came from."""
    fields = [schema.field(name).remove_metadata() for name in names]
    if nullable is not None:
        fields = [field.with_nullable(field.name in nullable) for field in fields]
    return pa.schema(fields)
