"""Build a store from columnar data, in one process and a bounded amount of memory.

A cluster takes the same steps: `plan_build` checks the arguments against a schema,
`BuildPlan.encode` turns columns into bytes, `write_bucket` streams the sorted bytes of one bucket
into one data file, and `lookupstore.store.new_version` makes the files a version of a store.
"""

from __future__ import annotations

import errno
import logging
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from functools import partial
from typing import Any

import pyarrow as pa

from lookupstore.builder.bucket_count import check_buckets, worth_counting
from lookupstore.builder.bucket_sorter import BucketSorter
from lookupstore.builder.data_files import (
    check_file_options,
    file_options,
    files_to_keep,
    new_manifest,
)
from lookupstore.builder.plan import BuildPlan, OnDuplicate, plan_build
from lookupstore.filters import Filter
from lookupstore.filters.row_filter import row_filter
from lookupstore.keywords import KEY_ADVICE, WHERE_ADVICE, with_advice
from lookupstore.progress import progress_bars
from lookupstore.quantities import Duration, Size, bytes_of
from lookupstore.sorting.ahead import made_ahead, threads_of
from lookupstore.sorting.runs import MIN_MEMORY, RepeatedKeyError, RunSorter
from lookupstore.source.opening import open_source, with_every_column
from lookupstore.source.source import Source, where_rows
from lookupstore.source.table_objects import source_at
from lookupstore.source.text_limits import MOST_TEXT
from lookupstore.storage.home import expanded
from lookupstore.storage.location import Location
from lookupstore.storage.storage_options import paths_with_options
from lookupstore.store.data_files import FileOptions, write_bucket
from lookupstore.store.expiry import HOUR
from lookupstore.store.manifest import WRITER, DataFile, FollowedSnapshot, Manifest
from lookupstore.store.new_version import NewVersion, is_whole, settle
from lookupstore.store.store import LookupStore
from lookupstore.store.version_files import VersionName, located, name_of

_NO_ROOM = (errno.ENOSPC, errno.EDQUOT)

_log = logging.getLogger(__name__)


@with_advice({
    **KEY_ADVICE,
    **WHERE_ADVICE,
    "follow": "call lookupstore.follow(TABLE, PATH, key=...)",
    "mode": "give overwrite=True to replace a store",
}.get)  # fmt: skip
def build(
    source: Any,
    path: str | os.PathLike[str] | Location,
    *,
    key: str | Sequence[str],
    columns: Sequence[str] | None = None,
    where: Filter | None = None,
    buckets: int | None = None,
    on_duplicate: OnDuplicate = "error",
    nullable_keys: str | Sequence[str] = (),
    memory: Size = 1 << 30,
    threads: int | None = None,
    compression: str | None = None,
    level: int | None = None,
    block_size: Size | None = None,
    bloom_fpp: float = FileOptions.bloom_fpp,
    overwrite: bool = False,
    allow_empty: bool = False,
    allow_new_key: bool = False,
    retain: Duration = HOUR,
    progress: bool | None = None,
    temp_dir: str | os.PathLike[str] | None = None,
    max_text: Size = MOST_TEXT,
    version: int | None = None,
    as_of: datetime | str | None = None,
    storage_options: Mapping[str, Any] | None = None,
) -> LookupStore:
    """Build a store from columnar data and open it.

    A failed build removes the files that it wrote. A killed build leaves no version, so nothing can
    be opened.

    With `overwrite`, the build publishes the next version. A bucket is not written again if its
    file would have the same bytes as in the current version. The source is not even read if it is
    files or a Hudi table that have not changed since then, and the arguments are the same.

    Args:
        source: Source of the rows. Files: Parquet or ORC (a file, folder, glob or URI, or a list of
            these), CSV, JSON lines or Arrow IPC (a file, glob or URI, or a list of these), a
            `Location` of any of these, or a file open for bytes. Tables: the folder or URI of a
            Hudi, Delta or Paimon table, or of an Iceberg table without a catalog (current rows, in
            data columns), the name `"iceberg:CATALOG.NAMESPACE.TABLE"`, a `deltalake.DeltaTable`,
            a table or scan of pyiceberg, or a `FileStoreTable` of pypaimon. In memory: an Arrow
            table, record batch, reader or dataset, a dict of columns, a list or iterator of dicts,
            a structured NumPy array, a polars LazyFrame, an object with `__arrow_c_stream__` (a
            pandas or polars DataFrame, a DuckDB relation), or an iterable of record batches, tables
            or frames.
        path: Folder or URI of the store, or its `Location`. The folder is made if it is missing.
            Otherwise it must be empty, or hold a store that `overwrite` replaces. Files of a remote
            store are written in a temporary folder first.
        key: Names of the key columns, in the order that sorts the store.
        columns: Names of the value columns. Default: all columns that are not in the key. Key
            columns named here are left out: a store holds them once.
        where: Condition that rows must meet to be stored: SQL such as `"country = 'US'"`, a tuple
            such as `("country", "=", "US")`, a list of tuples that must all be true, or an
            expression of `pyarrow.compute`. Files of a table are skipped if their partition
            excludes them. Default: all rows.
        buckets: Number of data files over which keys are spread by hash. Default: the number of the
            store that is overwritten. For a new store, the default is one for each 512 MiB of rows
            before compression. If the size is unknown, it is 1, or 8 once rows exceed 768 MiB.
        on_duplicate: Rule for a key that occurs more than once. `"error"` fails the build.
            `"first"` and `"last"` keep the first or last row in source order. `("max", column)`
            keeps the row with the greatest value in that column, which need not be stored: null is
            least, NaN greatest, and ties go to the later row, or to the row with the greatest bytes
            if the source has no order.
        nullable_keys: Names of the key columns that may hold nulls, which sort first.
        memory: Budget for rows in memory, at least 64 KiB, in bytes or as a text such as `"1GB"`.
            Rows that do not fit are spilled.
        threads: Number of threads that read ahead (of files), sort, compress and write, including
            the caller's. Default: one for each processor that this process may use. The number does
            not change the files.
        compression: Compression of the data files. `"none"` lets lookups use the blocks in place; a
            codec such as `"zstd"` or `"lz4"` makes smaller files, and hosts make plain copies of
            them for their lookups. Default: `"none"` in a local folder, where lookups use the files
            in place, and `"zstd"` elsewhere.
        level: Level of the compression. Default: that of the codec.
        block_size: Size of a block of a data file before compression, in bytes or as a text such as
            `"8KiB"`. Default: 8 KiB for plain files, 4.5 KiB for compressed ones.
        bloom_fpp: False positive rate of the filter of a data file. 0 writes no filter.
        overwrite: Whether to replace the store at `path`. Until the new version is complete, the
            old one answers lookups. A reader stays on the version that it opened.
        allow_empty: Whether to let a version without rows replace one that has some. The first
            version of a store may be empty in any case.
        allow_new_key: Whether the key may have other names or types than in the replaced version.
            Other types of the same kind, such as int32 and int64, are always allowed: lookups work
            with both.
        retain: Time for which replaced versions are kept: a timedelta, seconds, or a text such as
            `"1h"`. A build that overwrites calls `lookupstore.expire` with it.
        progress: Whether to show a progress bar. Default: if standard error is a terminal, or in a
            notebook.
        temp_dir: Folder to spill to, which also holds the files of a remote store before their
            upload. Default: the parent folder of a local store; the system's temporary folder for a
            remote one.
        max_text: Largest size of one value in files of CSV or JSON lines, in bytes or as a text
            such as `"1GiB"`.
        version: Version of a Delta table, or number of a snapshot of an Iceberg or Paimon table, to
            read. Default: the newest one, or that of the object.
        as_of: Time of the version, snapshot or commit of a table to read instead: a datetime, or a
            text such as `"2026-03-07 13:56:57"`. A time without a zone is in UTC, and for a Hudi
            table in the zone of its instants, where an instant is also accepted. Default: not
            given.
        storage_options: Options for all URIs among `source` and `path`: credentials, region,
            endpoint and the like, by the names that pandas or deltalake have for them.

    Raises:
        KeyError: If the source does not have a column.
        ValueError: If a key is null or repeated, if no rows would replace some, if the replaced
            version has another key, or if an argument is out of range. The error names the remedy.
        TypeError: If the source, or the type of a column, cannot be stored.
        FileNotFoundError: If the source names no files.
        FormatError: If the source is files of a table (the error names the line to write instead),
            if a value of text is longer than `max_text`, or if JSON nests more than 256 brackets.
        CorruptionError: If a file of the source is damaged.
        StaleStoreError: If a file of the source was written while it was read. Build again.
        OSError: If a file cannot be read, or the disk is full. The error names the path.
        FileExistsError: If `path` holds something else than a store, or a store and `overwrite` is
            False.
        CommitConflictError: If another build of the same store was published at the same moment.
        CommitUnknownError: If the version may or may not be published. Nothing was deleted.

    >>> import tempfile
    >>> table = pa.table({"id": [2, 1], "name": ["two", "one"]})
    >>> store = build(table, tempfile.mkdtemp(), key="id")
    >>> store.get(1)
    {'name': 'one'}
    """
    path, source = paths_with_options(storage_options, path=path, source=source)
    location = located(path)
    check_buckets(buckets)
    memory = bytes_of(memory, "memory", least=MIN_MEMORY)
    threads = threads_of(threads)
    temp_dir = existing_folder(temp_dir)
    options = file_options(location, compression, level, block_size, bloom_fpp)
    every = columns is None
    if version is not None or as_of is not None:
        source = source_at(source, version=version, as_of=as_of)
    opened = (with_every_column if every else open_source)(source, max_text=max_text)
    if where is not None:
        opened = where_rows(opened, row_filter(where, opened.schema))
    plan = plan_build(
        opened.schema,
        key=key,
        columns=columns,
        on_duplicate=on_duplicate,
        nullable_keys=nullable_keys,
        source=opened.description,
    )
    if plan.keep in ("first", "last") and not opened.in_order:
        raise ValueError(
            f"on_duplicate is {on_duplicate!r}, but the rows of {opened.description} have no "
            "order; give ('max', column)"
        )
    plan = replace(plan, in_order=opened.in_order)
    new = NewVersion(
        location,
        overwrite=overwrite,
        allow_empty=allow_empty,
        allow_new_key=allow_new_key,
        retain=retain,
        temp_dir=temp_dir,
    )
    try:
        publish_build(
            new,
            opened,
            plan=plan,
            options=options,
            buckets=buckets,
            memory=memory,
            threads=threads,
            progress=progress,
            temp_dir=temp_dir,
        )
    except RepeatedKeyError as error:
        raise plan.repeated_error(error.key) from None
    return LookupStore(location)


def existing_folder(temp_dir: str | os.PathLike[str] | None) -> str | None:
    """Return the folder for temporary files that a caller has given, which must exist.

    Raises:
        FileNotFoundError: There is no such folder.
    """
    if temp_dir is None:
        return None
    folder = expanded(os.fspath(temp_dir))
    if not os.path.isdir(folder):
        raise FileNotFoundError(
            f"temp_dir: {folder}: no such folder; make it, or give an existing one"
        )
    return folder


def publish_build(
    new: NewVersion,
    opened: Source,
    *,
    plan: BuildPlan,
    options: FileOptions,
    buckets: int | None,
    memory: int,
    threads: int,
    progress: bool | None,
    temp_dir: str | None,
    replaces: VersionName | None = None,
    follows: FollowedSnapshot | None = None,
) -> VersionName:
    """Build a version of the rows of a source, and publish it.

    Args:
        new: Version, not begun.
        opened: Source of the rows.
        plan: Plan of the build.
        options: Options of the data files.
        buckets: Number of buckets. None: that of the version which is replaced, or by the size of
            the source.
        memory: Memory for rows in bytes.
        threads: Number of threads, including the caller's.
        progress: Whether to show progress bars. None: on a terminal or in a notebook.
        temp_dir: Folder for spilled rows. None: the default of the location.
        replaces: Name of the only version that it may replace. None: any version, or none.
        follows: Snapshot of a table whose rows these are. None: they follow no table.

    Returns:
        Name of the version.

    Raises:
        RepeatedKeyError: If a key is repeated, and the plan has no rule for it.

    Also raises the errors of `build`.
    """
    location = new.location
    try:
        with new:
            check_file_options(new.folder, new.id, options, threads)
            current = new.current()
            new.check_columns(plan, current)
            if buckets is None and current is not None:
                buckets = current.buckets
            kept = {} if buckets is None else files_to_keep(current, plan, options, buckets)
            if current is not None and _nothing_changed(location, opened, current, kept):
                _log.info(
                    "%s: no change in %s since version %d; its data files are reused",
                    location.uri,
                    opened.description,
                    current.version,
                )
                files: list[DataFile | None] = [*current.files]
                buckets = current.buckets
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
                buckets = len(files)
            manifest = new_manifest(
                plan,
                files,
                store_id=new.id,
                buckets=buckets,
                options=options,
                source=opened.description,
                source_fingerprint=opened.fingerprint,
                follows=follows,
            )
            published = new.publish(manifest, replaces=replaces)
            _log.info(
                "%s: the store has %d bytes, its source %s",
                location.uri,
                manifest.bytes,
                "is not files" if opened.nbytes is None else f"{opened.nbytes} bytes",
            )
    except OSError as error:
        spilled = error.filename == spill_folder(location, temp_dir)
        if error.errno not in _NO_ROOM or (location.in_place and not spilled):
            raise
        what = "rows that do not fit into memory" if spilled else "files before they are uploaded"
        said = f"{os.strerror(error.errno or 0)} for {what}"
        remedy = "pass temp_dir= with a folder that has room"
        raise OSError(error.errno, f"{said}; {remedy}", error.filename) from error
    return name_of(published)


def _sort_and_write(
    opened: Source,
    new: NewVersion,
    kept: Mapping[int, DataFile],
    *,
    plan: BuildPlan,
    options: FileOptions,
    buckets: int | None,
    memory: int,
    threads: int,
    progress: bool | None,
    spill: str,
) -> list[DataFile | None]:
    """Read the source, and return the file of each bucket, a new or a kept one.

    If `buckets` is None, the rows decide the number.
    """
    with (
        progress_bars(progress) as bars,
        BucketSorter(
            buckets,
            partial(_estimated_bytes, opened),
            partial(RunSorter, plan.keep, memory=memory, folder=spill, threads=threads),
        ) as sorter,
    ):
        total = opened.count_rows() if bars else None
        rows = 0
        advance = bars("Reading", total) if bars else None
        # Not in a variable: errors keep those, and a query of DuckDB would stay open.
        for batch in _source_batches(opened, plan, memory // 8, threads):
            sorter.add(plan.encode(batch, rows))
            rows += batch.num_rows
            if advance:
                advance(batch.num_rows)
        advance = bars("Writing", rows) if bars else None
        files = []
        for bucket in range(sorter.buckets):
            file = write_bucket(
                new.folder,
                f"{new.id}-{bucket:05d}",
                bucket,
                sorter.sorted_batches(bucket),
                schemas=plan,
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
            sorter.buckets,
            rows,
            sorter.spills,
        )
    return files


def _estimated_bytes(opened: Source, first: pa.RecordBatch) -> int | None:
    """Return an estimate of the bytes of a source's rows as they are stored.

    Args:
        opened: Source of the rows.
        first: First encoded batch, with at least one row, by whose size the others are estimated.
    """
    if opened.nbytes is not None and not worth_counting(opened.nbytes):
        return opened.nbytes
    rows = opened.count_rows()
    return opened.unpacked if rows is None else rows * first.nbytes // first.num_rows


def _nothing_changed(
    location: Location, opened: Source, current: Manifest, kept: Mapping[int, DataFile]
) -> bool:
    """Return whether a build would make only files that the current version has."""
    return (
        opened.fingerprint is not None
        and opened.fingerprint == current.source_fingerprint
        and current.writer == WRITER
        and len(kept) == len(current.files)
        and current.num_rows > 0
        and all(is_whole(location, file) for file in current.files)
    )


def spill_folder(location: Location, temp_dir: str | os.PathLike[str] | None = None) -> str:
    """Return the folder to spill rows to.

    Default: the parent folder of a local store.
    """
    if temp_dir is not None:
        return os.fspath(temp_dir)
    return location.spill_folder()


def _source_batches(
    source: Source, plan: BuildPlan, size: int, threads: int
) -> Iterator[pa.RecordBatch]:
    """Return batches of a source, those of files made ahead if there are several threads."""
    batches = _small_batches(source, plan, size)
    return made_ahead(batches) if threads > 1 and source.is_files else batches


def _small_batches(source: Source, plan: BuildPlan, size: int) -> Iterator[pa.RecordBatch]:
    """Yield batches of a source, cut so that each is small when it is encoded."""
    for batch in source.batches(plan.columns):
        rows = max(1, batch.num_rows * size // max(1, batch.nbytes))
        for start in range(0, batch.num_rows, rows):
            yield batch.slice(start, rows)
