"""Build a store with Spark: executors encode, shuffle, sort and write; the driver publishes.

Executors run `lookupstore.spark.build.task`. A task that is retried, or runs twice, writes another
file: the driver lists one for each bucket in the manifest and deletes the others.
"""

from __future__ import annotations

import functools
import logging
import os
import posixpath
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any, TypeAlias
from urllib.parse import unquote

import pyarrow as pa
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from lookupstore.builder.bucket_count import bucket_count, check_buckets
from lookupstore.builder.data_files import file_options, files_to_keep, new_manifest
from lookupstore.builder.plan import BuildPlan, OnDuplicate, plan_build
from lookupstore.keywords import KEY_ADVICE, WHERE_ADVICE, with_advice
from lookupstore.quantities import Duration, Size
from lookupstore.source.opening import open_source
from lookupstore.source.search import FORMATS
from lookupstore.source.table_folders import TableFormat
from lookupstore.source.table_objects import library_format
from lookupstore.spark.buckets import BUCKET, has_a_task_each, in_buckets
from lookupstore.spark.build.clocks import check_clocks
from lookupstore.spark.build.plan_size import COLUMNAR_RATIO, plan_bytes
from lookupstore.spark.build.splits import Splits, check_no_others, plan_splits
from lookupstore.spark.build.table_parts import TableParts, table_parts
from lookupstore.spark.build.task import (
    ENTRY,
    BuildTask,
    encode_batches,
    encode_parts,
    encode_splits,
    write_batches,
)
from lookupstore.spark.catalog_tables import could_name_table
from lookupstore.spark.frames import UPDATE_STREAM, check_no_stream
from lookupstore.spark.jobs import watched_jobs
from lookupstore.spark.paths import (
    PATTERN,
    Reading,
    check_files,
    check_unseen,
    plan_reading,
    uri_of,
)
from lookupstore.spark.raised import raised_in
from lookupstore.spark.sessions import session
from lookupstore.spark.types import TIME_SETTING, arrow_schema, column_named
from lookupstore.spark.unread import SPARK_ERRORS, naming_files
from lookupstore.storage.catalog_names import is_catalog_name
from lookupstore.storage.home import expanded
from lookupstore.storage.location import Location
from lookupstore.storage.storage_options import paths_with_options, takes_options
from lookupstore.storage.uris import check_path, shown_uri
from lookupstore.store.data_files import FileOptions
from lookupstore.store.expiry import HOUR, delete_unneeded
from lookupstore.store.manifest import DATA_FOLDER, DataFile, FollowedSnapshot
from lookupstore.store.marks import is_mark
from lookupstore.store.new_version import NewVersion
from lookupstore.store.store import LookupStore
from lookupstore.store.version_files import VersionName, located, name_of

Paths: TypeAlias = "str | os.PathLike[str] | Sequence[str | os.PathLike[str]]"

#: Description of the source of a store that is built from a DataFrame, whose files are unknown.
DATAFRAME = "Spark DataFrame"

_log = logging.getLogger(__name__)


def _build_advice(name: str) -> str | None:
    """Return what to write instead of an argument of `lookupstore.build`."""
    if name not in WHERE_ADVICE and name != "where":
        return KEY_ADVICE.get(name)
    return (
        "give a DataFrame with these rows, such as spark.read.parquet(path).where(condition); for "
        "a table, follow(table, path, where=...) builds a store of them"
    )


@with_advice(_build_advice)
def build_store(
    df_or_path: Any,
    path: str | os.PathLike[str] | Location,
    *,
    key: str | Sequence[str],
    columns: Sequence[str] | None = None,
    buckets: int | None = None,
    on_duplicate: OnDuplicate = "error",
    nullable_keys: str | Sequence[str] = (),
    compression: str | None = None,
    level: int | None = None,
    block_size: Size | None = None,
    bloom_fpp: float = FileOptions.bloom_fpp,
    overwrite: bool = False,
    allow_empty: bool = False,
    allow_new_key: bool = False,
    retain: Duration = HOUR,
    version: int | None = None,
    as_of: datetime | str | None = None,
    spark: SparkSession | None = None,
    storage_options: Mapping[str, Any] | None = None,
) -> LookupStore:
    """Build a store with Spark and open it on the driver.

    Args:
        df_or_path: Rows to store: a DataFrame, files or a table. Files are Parquet or ORC: a file,
            folder, glob or URI, or a list of these. A table is the folder or URI of a Delta, Hudi
            or Paimon table, or of an Iceberg table without a catalog; the name
            `"iceberg:CATALOG.NAMESPACE.TABLE"`; a `deltalake.DeltaTable`; a table or scan of
            pyiceberg; or a `FileStoreTable` of pypaimon. The driver lists the files of a table, and
            executors read them without Spark's readers. A path of plain Parquet takes half the time
            of a DataFrame of it.
        path: Folder of the store, on a file system that the driver and all executors share; or a
            URI or location, to which executors upload files that they write in temporary folders.
        key: Key columns, in the order that sorts the store.
        columns: Value columns. Default: all columns that are not in the key.
        buckets: Number of data files over which keys are spread by hash, and of the tasks that
            write them. Default: the number of the store that is overwritten; for a new store, one
            for each 512 MiB of rows before compression, by Spark's statistics, or 8 if the size is
            unknown.
        on_duplicate: Handling of repeated keys: `"error"` raises an error; `"first"`, `"last"` or
            `("max", column)` keeps the first row, the last one, or the one with the greatest value
            in a column; see `lookupstore.build`. Rows of files are ordered by path (of a list: as
            listed), then by their position in the file. Rows of a DataFrame are ordered by Spark's
            partitions, then by their position there, which is the written order only if they were
            not shuffled.
        nullable_keys: Key columns that may hold nulls, which sort first. Default: none.
        compression: Codec of the data files. `"none"` lets lookups use the blocks in place. A codec
            such as `"zstd"` or `"lz4"` makes smaller files, and hosts make uncompressed copies of
            them for their lookups. Default: `"none"` in a local folder, and `"zstd"` elsewhere.
        level: Level of the compression. Default: that of the codec.
        block_size: Size of a block of a data file before compression. Default: 8 KiB for
            uncompressed files, 4.5 KiB for compressed ones.
        bloom_fpp: False positive rate of the filter of a data file; 0 writes no filter.
        overwrite: Whether to replace the store at `path`. The old version answers until the new one
            is complete. Files of buckets that have not changed are kept.
        allow_empty: Whether a version without rows may replace one that has rows.
        allow_new_key: Whether the key may have other names or types than in the replaced version;
            see `lookupstore.build`.
        retain: Time for which replaced versions are kept: a timedelta, seconds, or a text such as
            `"1h"`; see `lookupstore.expire`.
        version: Version of a Delta table, or number of a snapshot of an Iceberg or Paimon table, to
            store. For a Hudi table, give `as_of`. Default: the newest one, or that of the object.
        as_of: Time of the version, snapshot or commit of a table to store instead: a datetime, or a
            text such as `"2026-03-07 13:56:57+01:00"`. A time without a zone is in UTC, and for a
            Hudi table in the zone of its instants, where an instant is also accepted.
        spark: Session that reads paths. Default: the active one, or a new one from `session()`.
        storage_options: Options, such as credentials, of `path` and of the URI or name of a table;
            see `lookupstore.Location`. Executors use them too. Spark reads files with its own
            settings.

    Raises:
        KeyError: If the source lacks a column.
        ValueError: If a key is null or repeated, there are no rows where there were some, the
            replaced version has another key, a file changes while the build runs, or an argument is
            out of range. The error names the remedy.
        TypeError: If the source or the type of a column cannot be stored.
        FileExistsError: If `path` holds a store and `overwrite` is false, or holds something else.
        FormatError: If the paths are files of a table, or a table has something that is not
            supported. The error names the line to write instead, or the feature.
        ImportError: If the package that lists or reads the files of a table is not installed.
        CorruptionError: If a file is damaged.
        StaleStoreError: If a file of a table is gone.
        FileNotFoundError: If the source does not exist, or an executor wrote to a folder that the
            driver does not see.
        CommitConflictError: If another build of the same store was published at the same moment.
        CommitUnknownError: If the version may or may not be published. Nothing was deleted.

    Errors of executors are raised with their own types. A failed build removes its files and leaves
    an older store unchanged.
    """
    nbytes: int | None = None
    df: DataFrame | TableParts
    paths: list[str] = []
    pinned = (
        None if version is None and as_of is None else "as_of" if version is None else "version"
    )
    told, first, given, table_format = Reading(), "", df_or_path, library_format(df_or_path)
    if not isinstance(given, DataFrame) and table_format is None:
        paths = _paths(given)
    uris = [one for one in paths if takes_options(one)]
    location = located(paths_with_options(storage_options, path=path, df_or_path=uris)[0])
    if isinstance(given, DataFrame):
        if pinned is not None:
            raise ValueError(
                f"{pinned} is given, but df_or_path is a DataFrame; read that version with Spark, "
                "and leave it out"
            )
        df, source = given, DATAFRAME
        check_no_stream(df, "df_or_path", UPDATE_STREAM)
        spark = df.sparkSession
    else:
        spark = spark or session()
        if paths:
            first = shown_uri(paths[0])
            told = plan_reading(paths, pinned, storage_options)
            given, table_format = told.table_path, told.table
        if table_format is TableFormat.HUDI:
            if version is not None:
                raise ValueError(
                    f"version is given, but {first} is a Hudi table, whose commits have times; "
                    "give the time of an instant as as_of"
                )
            df, nbytes = _read_rows(spark, given, as_of)
            source, paths = f"{first} (Hudi table)", []
        elif table_format is not None:
            df = table_parts(table_format, given, version=version, as_of=as_of)
            source, paths, nbytes = df.description, [], df.nbytes
        else:
            check_unseen(paths, spark)
            with naming_files():
                df = _read(spark, paths, told)
            check_files(paths, df)
            source = first if len(paths) == 1 else f"{first} and {len(paths) - 1} more"
    check_buckets(buckets)
    schema = df.schema if isinstance(df, TableParts) else arrow_schema(df.schema)
    plan = plan_build(
        schema,
        key=key,
        columns=columns,
        on_duplicate=on_duplicate,
        nullable_keys=nullable_keys,
    )
    if isinstance(df, TableParts):
        plan = _without_order(plan, on_duplicate, df)
    options = file_options(location, compression, level, block_size, bloom_fpp)
    found = told.local
    every_column = columns is None
    splits: Splits = ()
    if paths and isinstance(df, DataFrame):
        if _kind_of(paths, told) == "orc":
            check_clocks(df, plan.columns)
        splits = plan_splits(df, found, plan.columns, every_column)
        if every_column and not splits:
            _check_columns(df, paths, told)
    in_order = plan.keep != "error" and plan.in_order and not splits
    files_in_order = _files_in_order(spark, paths, told) if in_order else ()
    try:
        with (
            naming_files(),
            NewVersion(
                location,
                overwrite=overwrite,
                allow_empty=allow_empty,
                allow_new_key=allow_new_key,
                retain=retain,
            ) as new,
            watched_jobs(spark, f"lookupstore: build {location.uri}", "Building") as written,
        ):
            size = sum(info.size for one in found for info in one.infos)
            known = f", {size} bytes" if found else ""
            if buckets is None:
                if (current := new.current()) is not None:
                    buckets = current.buckets
                else:
                    if nbytes is None and isinstance(df, DataFrame):
                        nbytes = plan_bytes(df.select(*map(column_named, plan.columns)))
                    buckets = bucket_count(nbytes)
            _log.info("%s: building %d buckets of %s%s", location.uri, buckets, source, known)
            reads = bool(splits) or isinstance(df, TableParts)
            task = task_of(new, plan, schema, buckets, options, files_in_order, written, reads)
            run = functools.partial(write_batches, task)
            if isinstance(df, TableParts):
                packs = moved_packs(df.packs(spark, task), task)
            else:
                packs = _packed_rows(df, task, splits)
            entries = packs.mapInArrow(run, ENTRY)
            files = [DataFile(**row.asDict()) for row in entries.collect()]
            check_seen(location, [file.name for file in files])
            publish_files(new, task, files, source)
    except PySparkException as error:
        raised = raised_in(error, (encode_batches, encode_splits, encode_parts, write_batches))
        if raised is None:
            raise
        raise raised from None
    return LookupStore(location)


def _without_order(plan: BuildPlan, on_duplicate: OnDuplicate, table: TableParts) -> BuildPlan:
    """Return the plan of a build of rows without an order.

    Raises:
        ValueError: If the order decides between rows of one key.
    """
    if plan.keep in ("first", "last"):
        raise ValueError(
            f"on_duplicate is {on_duplicate!r}, but the rows of {table.description} have no "
            "order; give ('max', column)"
        )
    return replace(plan, in_order=False)


def task_of(
    new: NewVersion,
    plan: BuildPlan,
    schema: pa.Schema,
    buckets: int,
    options: FileOptions,
    files: tuple[str, ...] = (),
    rows: Any = None,
    reads: bool = False,
) -> BuildTask:
    """Return the information about a new version, which has begun, that executors need.

    Raises:
        ValueError: If the replaced version has another key; see `NewVersion.check_columns`.
    """
    current = new.current()
    new.check_columns(plan, current)
    return BuildTask(
        plan=plan,
        schema=pa.schema([schema.field(name) for name in plan.columns]),
        files=files,
        location=new.location,
        store_id=new.id,
        buckets=buckets,
        options=options,
        kept=files_to_keep(current, plan, options, buckets),
        rows=rows,
        reads=reads,
    )


def check_seen(location: Location, names: Sequence[str]) -> None:
    """Check that the driver sees the data files that executors wrote.

    Raises:
        FileNotFoundError: If the driver does not see one of them.
    """
    seen = {file.name for file in location.files(DATA_FOLDER)}
    for name in names:
        if name not in seen:
            raise FileNotFoundError(
                f"{location.show(name)}: an executor wrote it, but the driver does not see it; "
                "give a path on a file system that both share"
            )


def publish_files(
    new: NewVersion,
    task: BuildTask,
    files: Sequence[DataFile],
    source: str,
    *,
    replaces: VersionName | None = None,
    follows: FollowedSnapshot | None = None,
) -> VersionName:
    """Publish data files, one per bucket, after deleting all other files of the build.

    The deleted files were written by attempts that failed, or that Spark did not use.

    Args:
        new: The new version, begun.
        task: Description of the build.
        files: Data files that tasks wrote.
        source: Description of the source of the rows.
        replaces: Name of the only version that it may replace. None: any version, or none.
        follows: Snapshot of a table whose rows these are. None: they follow no table.

    Returns:
        Name of the version.

    Raises:
        FileExistsError, CommitConflictError, CommitUnknownError: If publishing fails; see
            `NewVersion.publish`.
    """
    buckets = [file.bucket for file in files]
    if len(set(buckets)) != len(buckets):
        raise RuntimeError(f"{task.location.uri}: Spark wrote a bucket twice: {sorted(buckets)}")
    delete_unlisted(task.location, task.store_id, [file.name for file in files])
    manifest = new_manifest(
        task.plan,
        files,
        store_id=new.id,
        buckets=task.buckets,
        options=task.options,
        source=source,
        follows=follows,
    )
    published = new.publish(manifest, replaces=replaces)
    _log.info(
        "%s: %d rows in %d files, %d bytes",
        new.location.uri,
        manifest.num_rows,
        len(files),
        manifest.bytes,
    )
    return name_of(published)


def delete_unlisted(location: Location, version_id: str, names: Sequence[str]) -> None:
    """Delete the files of a planned version that it will not name."""
    for found in location.files(DATA_FOLDER):
        is_ours = f"{version_id}-" in found.name and not is_mark(found.name)
        if is_ours and found.name not in names:
            delete_unneeded(location, found.name)


def _packed_rows(df: DataFrame, task: BuildTask, splits: Splits) -> DataFrame:
    """Return the encoded rows in packs, with all packs of a bucket adjacent in one task."""
    if splits:
        numbers = df.sparkSession.range(0, len(splits), 1, len(splits))
        packs = numbers.mapInArrow(functools.partial(encode_splits, task, splits), task.packs)
    else:
        packs = _numbered(df, task).mapInArrow(functools.partial(encode_batches, task), task.packs)
    return moved_packs(packs, task)


def moved_packs(packs: DataFrame, task: BuildTask) -> DataFrame:
    """Return packs with all those of a bucket adjacent in one task."""
    moved = in_buckets(packs, task.buckets)
    return moved if has_a_task_each(packs) else moved.sortWithinPartitions(BUCKET)


def _numbered(df: DataFrame, task: BuildTask) -> DataFrame:
    """Return the columns that a task reads from Spark."""
    columns = [column_named(name) for name in task.schema.names]
    where: dict[str, Column] = {"row": F.monotonically_increasing_id()}
    if task.files:
        where["file"] = _plain_uri(df.metadataColumn("_metadata").getField("file_path"))
        where["split"] = df.metadataColumn("_metadata").getField("file_block_start")
    columns += [where[name] for name in task.order]
    return df.select(*(column.alias(f"c{i}") for i, column in enumerate(columns)))


def _paths(given: Paths) -> list[str]:
    listed = list(given) if isinstance(given, (list, tuple)) else [given]
    remedy = (
        "give a Spark DataFrame, paths of Parquet or ORC, "
        "or a table of Delta, Hudi, Iceberg or Paimon"
    )
    paths: list[str] = []
    for item in listed:
        if not isinstance(item, (str, os.PathLike)):
            found = f"{type(item).__module__}.{type(item).__qualname__}".removeprefix("builtins.")
            raise TypeError(
                f"df_or_path: found a {found}; {remedy}; for a HudiTable, give its path; for an "
                "Arrow table, or a DataFrame of pandas or polars, use lookupstore.build"
            )
        check_path(os.fspath(item))
        paths.append(expanded(os.fspath(item)))
    if not listed:
        raise TypeError(f"df_or_path is empty; {remedy}")
    for path in paths:
        # This is checked first, because Spark would log a long trace. Spark interprets globs and
        # URIs.
        if is_catalog_name(path):
            continue
        if "://" not in path and PATTERN.isdisjoint(path) and not os.path.exists(path):
            remedy = ""
            if could_name_table(path):
                remedy = f"; for a table of Spark's catalog, give spark.table({path!r})"
            raise FileNotFoundError(f"df_or_path: {path}: no such file or folder{remedy}")
    return paths


def _kind_of(paths: Sequence[str], told: Reading) -> str:
    """Return the format that files are read in, by Spark's name."""
    return told.file_format or _format(paths[0])


def _read(spark: SparkSession, paths: Sequence[str], told: Reading, **options: str) -> DataFrame:
    reader = spark.read.format(_kind_of(paths, told)).options(**told.options, **options)
    try:
        df = reader.load([uri_of(path) for path in paths])
        for name in told.texts:
            df = df.withColumn(name, column_named(name).cast("string"))
        return df
    except AnalysisException as error:
        shown = ", ".join(paths)
        if "PATH_NOT_FOUND" in str(error):
            raise FileNotFoundError(f"df_or_path: {shown}: no such file or folder") from None
        if "UNSUPPORTED_TIME_TYPE" in str(error):
            raise TypeError(
                f"df_or_path: {shown}: a column is a time, but this Spark session has times off; "
                f"set {TIME_SETTING} to true"
            ) from None
        if "PARQUET_TYPE_ILLEGAL" in str(error):
            raise _not_for_spark_error(paths) from None
        raise


def _check_columns(df: DataFrame, paths: Sequence[str], told: Reading) -> None:
    """Check that no file has a column that the DataFrame lacks.

    Raises:
        ValueError: If a file has one.
    """
    files, known = df.inputFiles(), {name.lower() for name in df.columns}
    if len(files) < 2:
        return
    try:
        merged = _read(df.sparkSession, paths, told, mergeSchema="true").columns
    except SPARK_ERRORS:  # their types differ
        merged = None
    if merged is None or not known.issuperset(name.lower() for name in merged):
        for file in map(unquote, files):  # Spark returns URIs but does not accept them as paths
            with naming_files():
                names = _read(df.sparkSession, [file], told).columns
            check_no_others(file.removeprefix("file://"), names, known)


def _read_rows(
    spark: SparkSession, path: str, as_of: datetime | str | None
) -> tuple[DataFrame, int]:
    """Return the rows of a Hudi table, in its data columns, and their approximate size."""
    # These are imported here, because they need an extra.
    from lookupstore.hudi import HudiTable
    from lookupstore.hudi.read import time_with_rows
    from lookupstore.spark.hudi.read import read_table

    table = HudiTable.open(path)
    view = table.view()
    time = None if as_of is None else time_with_rows(view, as_of)
    nbytes = COLUMNAR_RATIO * sum(file.bytes for file in view.slices(None))
    names = view.table_schema.columns.names
    return read_table(spark, table, columns=names, as_of=time), nbytes


def _not_for_spark_error(paths: Sequence[str]) -> TypeError:
    """Return the error for columns whose Parquet type Spark refuses, with their names."""
    shown = ", ".join(paths)
    try:
        schema = open_source(list(paths)).schema
    except OSError:  # the pattern has another meaning in Spark
        schema = pa.schema([])
    names = [
        repr(field.name)
        for field in schema
        if pa.types.is_timestamp(field.type) and field.type.unit == "ns"
    ]
    if not names:
        return TypeError(
            f"df_or_path: {shown}: a column has a Parquet type that Spark cannot read; build "
            "with lookupstore.build"
        )
    return TypeError(
        f"df_or_path: {shown}: Spark cannot read timestamps in nanoseconds, as in the columns "
        f"{', '.join(names)}; build with lookupstore.build, or write them in microseconds"
    )


def _format(path: str) -> str:
    """Return the format in the name of a file, Parquet by default."""
    return FORMATS.get(posixpath.splitext(path.lower())[1], "parquet")


def _files_in_order(spark: SparkSession, paths: Sequence[str], told: Reading) -> tuple[str, ...]:
    """Return the files that Spark finds at the paths, in the order in which their rows count."""
    files: dict[str, None] = {}
    for path in paths:
        df = _read(spark, [path], told)
        found = [re.sub("^([^:]+):/+", r"\1:/", file) for file in df.inputFiles()]
        files.update(dict.fromkeys(sorted(found, key=unquote)))
    return tuple(files)


def _plain_uri(path: Column) -> Column:
    """Return a file's URI with one slash after the scheme: Spark writes it in two ways."""
    return F.regexp_replace(path, "^([^:]+):/+", "$1:/")
