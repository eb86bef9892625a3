"""Build a store from columnar data, in one process and a bounded amount of memory.

The steps are separate, because a cluster takes them apart: `plan_build` checks what was asked
against a schema, `BuildPlan.encode` turns columns into bytes, `write_bucket` streams the sorted
bytes of one bucket into one data file, and `new_manifest` with `publish_manifest` makes the files
a store.
"""

from __future__ import annotations

import logging
import os
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import asdict, dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa
import pyarrow.compute as pc

from lookupstore._keys import bucket_of
from lookupstore.keys import KeySchema
from lookupstore.manifest import (
    DATA_FOLDER,
    FILE_NAME,
    WRITER,
    DataFile,
    Manifest,
    file_hash,
    is_published,
    publish_manifest,
    store_exists,
    store_folder,
    sync_folder,
)
from lookupstore.progress import progress_bars
from lookupstore.rows import RowSchema
from lookupstore.runs import KEEP_RULES, MIN_MEMORY, Keep, RepeatedKeyError, RunSorter
from lookupstore.source import Source, open_source
from lookupstore.sst import Writer
from lookupstore.store import LookupStore

OnDuplicate = Literal["error", "first", "last"] | tuple[Literal["max"], str]

MAX_BUCKETS = 1 << 16

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class FileOptions:
    """Say how the data files of a store are written; see `lookupstore.sst.Writer`."""

    compression: str = "none"
    level: int | None = None
    block_size: int = 65536
    bloom_fpp: float = 0.05


@dataclass(frozen=True)
class BuildPlan:
    """Hold what a build does with every batch; made by `plan_build`.

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

    def repeated(self, key: bytes) -> ValueError:
        """Return the error for a key that comes more than once, with the key as its columns."""
        values = self.key_schema.decode(pa.array([key], pa.large_binary())).to_pylist()[0]
        shown = ", ".join(f"{name}={value!r}" for name, value in values.items())
        return ValueError(
            f"the key {shown} comes more than once in the source; pass on_duplicate='first', "
            "'last' or ('max', column) to say which row stays"
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
            raise KeyError(f"nullable_keys: {name!r} is not a key column; those are {keys}")
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
    source: str,
    rows_at_most: int | None = None,
    advance: Callable[[int], object] | None = None,
    threads: int = 1,
) -> DataFile | None:
    """Stream the sorted rows of one bucket into a data file and describe it for the manifest.

    Args:
        folder: folder of the store; its data folder exists.
        name: file name without extension; it has to be new.
        bucket: number of the bucket.
        batches: `key` and `value` columns, keys strictly ascending over all batches.
        plan: gives the schemas that the file records.
        options: how the file is written.
        source: what the store is built from, recorded in the file.
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
    first = bytes(batch.column("key")[0].as_py())
    records = 0
    with Writer(
        path,
        key_schema=plan.key_schema.schema,
        value_schema=plan.row_schema.schema,
        source=source,
        expected_entries=rows_at_most,
        threads=threads,
        **asdict(options),
    ) as writer:
        while batch is not None:
            writer.put_many(batch.column("key"), batch.column("value"))
            last = bytes(batch.column("key")[-1].as_py())
            records += batch.num_rows
            if advance is not None:
                advance(batch.num_rows)
            batch = next(rows, None)
    return DataFile(
        name=relative,
        bucket=bucket,
        num_records=records,
        bytes=os.path.getsize(path),
        xxh64=file_hash(path),
        min_key=first.hex(),
        max_key=last.hex(),
    )


def new_manifest(
    plan: BuildPlan,
    files: Iterable[DataFile | None],
    *,
    store_id: str,
    buckets: int,
    options: FileOptions,
    source: str,
) -> Manifest:
    """Return the manifest of data files that `write_bucket` made, in any order; None is no file."""
    present = tuple(sorted((file for file in files if file is not None), key=lambda f: f.bucket))
    return Manifest(
        id=store_id,
        created=datetime.now(timezone.utc).isoformat(timespec="seconds"),
        writer=WRITER,
        key_schema=plan.key_schema,
        row_schema=plan.row_schema,
        buckets=buckets,
        num_rows=sum(file.num_records for file in present),
        source=source,
        options={"on_duplicate": plan.on_duplicate, **asdict(options)},
        files=present,
    )


def make_store_folder(folder: str, store_id: str, *, overwrite: bool) -> list[str]:
    """Make the folder of a store and its data folder; return the folders that are new.

    A hidden file marks the build as running, until `end_build` or `remove_build`: another build
    that fails meanwhile removes the folders that it made only if they are empty.

    Raises:
        FileExistsError: a store is there and `overwrite` is False, or the folder is something else.
    """
    if os.path.exists(os.path.join(folder, FILE_NAME)) and not overwrite:
        raise store_exists(folder)
    if os.path.isdir(folder):
        foreign = [
            name
            for name in sorted(os.listdir(folder))
            if name not in (FILE_NAME, DATA_FOLDER) and not name.startswith(".")
        ]
        if foreign:
            raise FileExistsError(
                f"{folder}: is no store: it holds {foreign[0]!r}; give a new or empty folder"
            )
    elif os.path.exists(folder):
        raise FileExistsError(f"{folder}: is a file; give a new or empty folder")
    made: list[str] = []
    missing = os.path.join(folder, DATA_FOLDER)
    while not os.path.isdir(missing):
        made.append(missing)
        missing = os.path.dirname(missing)
    for path in reversed(made):
        with suppress(FileExistsError):
            os.mkdir(path)
        sync_folder(os.path.dirname(path))
    mark_of_build(folder, store_id).touch()
    return made


def mark_of_build(folder: str, store_id: str) -> Path:
    """Return the path of the hidden file that is there while a build runs."""
    return Path(folder, DATA_FOLDER, f".{store_id}-runs")


def end_build(folder: str, store_id: str) -> None:
    """Remove the mark of a build whose store is published."""
    with suppress(OSError):  # a mark that stays does no harm
        mark_of_build(folder, store_id).unlink()


def check_file_options(folder: str, store_id: str, options: FileOptions, threads: int) -> None:
    """Let the writer refuse bad options before hours of reading, by a file that is never kept.

    Raises:
        ValueError: an option out of range, or a codec that there is not.
    """
    path = os.path.join(folder, DATA_FOLDER, f"{store_id}-options.sst")
    Writer(path, threads=threads, **asdict(options)).abort()


def remove_build(folder: str, store_id: str, made: Sequence[str] = ()) -> None:
    """Remove the files of a build that failed, and of the folders it made those that are empty.

    If the error came after the store was published, only the mark of the build is removed.
    """
    if is_published(folder, store_id):
        end_build(folder, store_id)
        return
    data = Path(folder, DATA_FOLDER)
    # A writer's temporary file has its final name inside its own.
    for path in data.glob(f"*{store_id}-*"):
        path.unlink(missing_ok=True)
    for made_folder in made:
        with suppress(OSError):
            os.rmdir(made_folder)


def build(
    source: Any,
    path: str | os.PathLike[str],
    *,
    key: str | Sequence[str],
    columns: Sequence[str] | None = None,
    buckets: int | None = None,
    on_duplicate: OnDuplicate = "error",
    nullable_keys: str | Sequence[str] = (),
    memory: int = 512 << 20,
    threads: int = 1,
    compression: str = "none",
    level: int | None = None,
    block_size: int = 65536,
    bloom_fpp: float = 0.05,
    overwrite: bool = False,
    progress: bool | None = None,
    temp_dir: str | os.PathLike[str] | None = None,
) -> LookupStore:
    """Build a store from columnar data and open it.

    A failed build removes what it wrote; a killed one leaves no manifest, so nothing that opens.

    Args:
        source: Parquet or ORC (a file, folder, glob or URI, or a list of these), an Arrow table,
            record batch, reader or dataset, an iterable of record batches, or an object with
            `__arrow_c_stream__`: a pandas or polars DataFrame, a DuckDB relation.
        path: local folder or `file://` URI of the store; made if missing, else empty.
        key: the key columns, in the order that sorts the store.
        columns: the value columns; None takes all that are not in the key. Key columns named here
            are left out: a store holds them once.
        buckets: number of data files over which keys are spread by hash; None is 1.
        on_duplicate: what happens to a key that comes more than once: `"error"`; `"first"` or
            `"last"` keep that row in source order; `("max", column)` keeps the row with the
            greatest value (null is least, NaN greatest, of equal ones the later row). The column
            need not be stored.
        nullable_keys: key columns that may hold nulls, which sort first.
        memory: budget in bytes for rows in memory, at least 64 KiB; what is beyond is spilled.
        threads: how many threads read ahead (of files), compress and write, the caller's among
            them; the files are the same whatever it is.
        compression: `"none"` lets lookups use the blocks where they are; `"zstd"` and `"lz4"` make
            files smaller, whose blocks are decompressed into a cache.
        level: level of the compression; None is its default.
        block_size: size of a block of a data file before compression, in bytes.
        bloom_fpp: false positive rate of the filter of a data file; 0 writes no filter.
        overwrite: replace the store at `path`; until the new one is complete the old one answers.
        progress: show a progress bar; None shows it if standard error is a terminal.
        temp_dir: where to spill; None spills beside the store.

    Raises:
        KeyError: a column that the source does not have.
        ValueError: a null or repeated key, or an argument out of range; the error says the remedy.
        TypeError: a source or column type that cannot be stored.
        FileNotFoundError: the source names no files.
        FileExistsError: `path` holds a store or something else.

    >>> import tempfile
    >>> table = pa.table({"id": [2, 1], "name": ["two", "one"]})
    >>> store = build(table, tempfile.mkdtemp(), key="id")
    >>> store.get(1)
    {'name': 'one'}
    """
    folder = store_folder(path)
    buckets = 1 if buckets is None else buckets
    if not isinstance(buckets, int) or not 1 <= buckets <= MAX_BUCKETS:
        raise ValueError(f"buckets is {buckets!r}; give a number from 1 to {MAX_BUCKETS}, or None")
    if not isinstance(memory, int) or memory < MIN_MEMORY:
        raise ValueError(f"memory is {memory!r}; give at least {MIN_MEMORY} bytes")
    if temp_dir is not None and not os.path.isdir(temp_dir):
        raise FileNotFoundError(f"temp_dir: {os.fspath(temp_dir)}: no such folder")
    options = FileOptions(compression, level, block_size, bloom_fpp)
    opened = open_source(source)
    plan = plan_build(
        opened.schema,
        key=key,
        columns=columns,
        on_duplicate=on_duplicate,
        nullable_keys=nullable_keys,
    )
    store_id = uuid.uuid4().hex
    made = make_store_folder(folder, store_id, overwrite=overwrite)
    try:
        check_file_options(folder, store_id, options, threads)
        with (
            progress_bars(progress) as bars,
            RunSorter(
                plan.keep,
                memory=memory,
                folder=os.path.dirname(folder) if temp_dir is None else os.fspath(temp_dir),
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
            files = [
                write_bucket(
                    folder,
                    f"{store_id}-{bucket:05d}",
                    bucket,
                    sorter.sorted_batches(bucket),
                    plan=plan,
                    options=options,
                    source=opened.description,
                    rows_at_most=sorter.rows_at_most(bucket) or None,
                    advance=advance,
                    threads=threads,
                )
                for bucket in range(buckets)
            ]
            _log.info(
                "built %s from %s: %d rows read, %d chunks spilled",
                folder,
                opened.description,
                rows,
                sorter.spilled_chunks,
            )
        manifest = new_manifest(
            plan,
            files,
            store_id=store_id,
            buckets=buckets,
            options=options,
            source=opened.description,
        )
        publish_manifest(folder, manifest, overwrite=overwrite)
        end_build(folder, store_id)
    except RepeatedKeyError as error:
        remove_build(folder, store_id, made)
        raise plan.repeated(error.key) from None
    except BaseException:
        remove_build(folder, store_id, made)
        raise
    return LookupStore(folder)


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
            raise TypeError(f"{argument} holds {name!r}; give names of columns")
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
