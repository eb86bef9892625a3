"""Splits of Parquet files that tasks read by Arrow: which files those are, and who reads what.

A value that Spark reads is copied from columns to rows, to Arrow's columns and to Python, which
takes longer than all else that a build does with it. So tasks read files themselves where that
gives the same rows: local files, which executors reach as Spark does, of types that have one
meaning. All others are left to Spark.
"""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias
from urllib.parse import unquote, urlsplit

import pyarrow as pa
import xxhash
from pyarrow import fs
from pyspark.sql import DataFrame, SparkSession

from lookupstore.arrow.texts import check_texts
from lookupstore.errors import LookupStoreError, StaleStoreError
from lookupstore.parquet.arrow_file import ParquetRows
from lookupstore.parquet.footer import read_footer
from lookupstore.source.reading import check_names, read_file
from lookupstore.source.search import FoundFiles
from lookupstore.spark.jobs import parallelism
from lookupstore.spark.types import spark_type
from lookupstore.storage.file_address import FileAddress
from lookupstore.storage.file_identity import (
    FileIdentity,
    changed_error,
    open_settled,
    opened_unchanged,
)
from lookupstore.storage.read_errors import READ_ERRORS

#: What a task reads, in bytes of a row group before compression: as little as is worth a task, and
#: as much as may be lost with one.
TASK_BYTES = (4 << 20, 128 << 20)

_WHAT = "a Parquet file"
_FOOTER_THREADS = 8
# The last bytes of a file: the length of its footer, and four that are in every file.
_TAIL = 8
# As Spark's `openCostInBytes`: a file costs a task as much as so many bytes, beside those it reads.
_OPEN_BYTES = 4 << 20
# Settings with which Spark leaves files out, reads encrypted ones, finds columns by another name,
# or moves timestamps to another zone; and what they are without.
_PLAIN_SETTINGS = {
    "spark.sql.files.ignoreCorruptFiles": "false",
    "spark.sql.files.ignoreMissingFiles": "false",
    "spark.sql.parquet.fieldId.read.enabled": "false",
    "spark.sql.parquet.int96TimestampConversion": "false",
    "parquet.crypto.factory.class": "",
    "spark.hadoop.parquet.crypto.factory.class": "",
}
# Old writers counted days by another calendar. What Spark writes says so, for other files settings
# decide. Source: Spark's SQL migration guide, 3.0 and 3.1; DataSourceUtils.datetimeRebaseSpec and
# int96RebaseSpec.
_CALENDARS = (
    "spark.sql.parquet.datetimeRebaseModeInRead",
    "spark.sql.parquet.int96RebaseModeInRead",
)
_OLD_CALENDARS = {b"org.apache.spark.legacyDateTime", b"org.apache.spark.legacyINT96"}
_WRITER, _TODAYS_WRITER = b"org.apache.spark.version", b"3.1.0"
_TIMES = re.compile("date|timestamp")

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Split:
    """Row groups of a file that stand together.

    Attributes:
        stored: what tells the file from others of its path.
        file: its number among the files, in the order in which their rows count.
        groups: numbers of the row groups.
        first_row: number of their first row in the file.
    """

    stored: FileIdentity
    file: int
    groups: range
    first_row: int

    @property
    def path(self) -> str:
        """Return the path of the file."""
        return self.stored.path

    def batches(self, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        """Yield the columns of a schema, in the types that Spark has for them.

        Raises:
            ValueError: the file is not the one of which the driver read the footer, or was written
                while it was read; or a value is beyond those of Spark's type, or a text is not
                UTF-8.
            CorruptionError: it is damaged.
            OSError: it cannot be read.
        """
        try:
            yield from self._batches(schema)
        except StaleStoreError as error:
            raise ValueError(
                f"{self.path} changed while the build ran; build again, or, if each host has its "
                "own copy, give a DataFrame"
            ) from error

    def _batches(self, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        address, row = _address(self.path), self.first_row
        with ExitStack() as stack:
            with address.reading(_WHAT):
                file = stack.enter_context(opened_unchanged(address, self.stored))
                if _digest(file) != self.stored.footer:
                    raise changed_error(address)
                batches = read_file(
                    file,
                    "parquet",
                    schema.names,
                    self.path,
                    page_bytes=address.page_bytes,
                    groups=self.groups,
                )
            while True:
                # Around each read alone: what is done with a batch is not the file's fault.
                with address.reading(_WHAT):
                    batch = next(batches, None)
                if batch is None:
                    return
                check_texts(batch, f"source: {self.path}", row)
                row += batch.num_rows
                columns = [self._cast(batch.column(field.name), field) for field in schema]
                yield pa.RecordBatch.from_arrays(columns, schema=schema)

    def _cast(self, column: pa.Array, field: pa.Field) -> pa.Array:
        if column.type == field.type:
            return column
        try:
            return column.cast(field.type)
        except pa.ArrowInvalid as error:
            raise ValueError(
                f"{self.path}: the column {field.name!r} is {column.type}, and Spark, which has "
                f"{field.type}, cannot hold all of its values: {error}"
            ) from None


#: Splits by the number of the task that reads them.
Splits: TypeAlias = tuple[tuple[Split, ...], ...]


class _Footer(NamedTuple):
    """What tells whether and how a file is read: of its row groups the rows, and the bytes."""

    stored: FileIdentity
    schema: pa.Schema
    said: Mapping[bytes, bytes]
    groups: tuple[tuple[int, int], ...]


class _ForSparkError(Exception):
    """What keeps tasks from reading files as Spark does."""


def plan_splits(
    df: DataFrame, found: Sequence[FoundFiles], names: Sequence[str], every_column: bool
) -> Splits:
    """Return what each task reads by Arrow; nothing if Spark has to read the files.

    Args:
        df: the files as Spark reads them.
        found: local files as we find them, in the order in which their rows count.
        names: of the columns that are read.
        every_column: whether those are all, so that no file may have another one.

    Raises:
        ValueError: a file has a column that Spark does not read.
    """
    spark = df.sparkSession
    try:
        files = _same_files(df, found)
        kinds = {field.name: field.dataType.simpleString() for field in df.schema}
        wanted = {name: kinds[name] for name in names}
        _check_settings(spark)
        _check_folders(files, wanted)
        known = df.columns if every_column else None
        footers = _footers(files, _Columns(spark, wanted), known)
    except _ForSparkError as error:
        _log.info("Spark reads the files, and tasks do not: %s", error)
        return ()
    return _by_task(footers, parallelism(spark))


def _same_files(df: DataFrame, found: Sequence[FoundFiles]) -> list[str]:
    """Return the files if Spark has found the same, each once."""
    if not found:
        raise _ForSparkError("only Spark finds them")
    files = [os.path.abspath(file) for one in found for file in one.files]
    if any(kind != "parquet" for one in found for kind in one.formats):
        raise _ForSparkError("they are not Parquet")
    uris = [urlsplit(uri) for uri in df.inputFiles()]
    # Spark reads a file twice that is listed twice, and says so nowhere.
    if len(set(files)) < len(files) or {unquote(uri.path) for uri in uris} != set(files):
        raise _ForSparkError("Spark finds others, or one is listed twice")
    return files


def _check_settings(spark: SparkSession) -> None:
    for name, plain in _PLAIN_SETTINGS.items():
        if spark.conf.get(name, plain) != plain:
            raise _ForSparkError(f"{name} is set")


def _check_folders(files: Sequence[str], wanted: Mapping[str, str]) -> None:
    """Check that no folder gives a column its value."""
    given = {part.partition("=")[0] for file in files for part in file.split("/") if "=" in part}
    lower = {unquote(name).lower() for name in given}
    for name in wanted:
        if name.lower() in lower:
            raise _ForSparkError(f"the column {name!r} may be in the names of folders")


def check_no_others(path: str, names: Iterable[str], known: Iterable[str]) -> None:
    """Check that Spark reads all columns of a file.

    Raises:
        ValueError: it does not.
    """
    lower = {name.lower() for name in known}
    for name in names:
        if name.lower() not in lower:
            raise ValueError(
                f"df_or_path: {path} has the column {name!r}, which other files lack, and Spark "
                "leaves it out; choose columns with columns=, or give a DataFrame: "
                "spark.read.option('mergeSchema', 'true')"
            )


def _footers(files: Sequence[str], columns: _Columns, known: Sequence[str] | None) -> list[_Footer]:
    """Return the footers of files, all of which have the columns, and no others than are known."""
    pool = ThreadPoolExecutor(_FOOTER_THREADS, "lookupstore-footer")
    try:
        footers = []
        for path, footer in zip(files, pool.map(_footer, files), strict=True):
            if known is not None:
                check_no_others(path, footer.schema.names, known)
            columns.check(footer)
            # Files have one schema: it is held once.
            footers.append(footer._replace(schema=columns.checked, said={}))
        return footers
    finally:
        pool.shutdown(cancel_futures=True)


def _footer(path: str) -> _Footer:
    address = _address(path)
    try:
        with ExitStack() as stack:
            stack.enter_context(address.reading(_WHAT))
            file, stored = open_settled(address)
            stack.enter_context(file)
            if stored.unsettled:
                raise _ForSparkError(f"{path} was written a moment ago, and may change unseen")
            read_footer(file, path)
            opened = ParquetRows(file, path)
            metadata = opened.metadata
            groups = map(metadata.row_group, range(metadata.num_row_groups))
            schema = opened.schema
            check_names(schema)
            return _Footer(
                stored.with_footer(_digest(file)),
                schema,
                metadata.metadata or {},
                tuple((group.num_rows, group.total_byte_size) for group in groups),
            )
    except (*READ_ERRORS, LookupStoreError) as error:  # Spark may know, or says it
        raise _ForSparkError(str(error)) from None


def _digest(file: pa.NativeFile) -> str:
    """Return a hash of the footer of a file."""
    end = max(0, file.size() - _TAIL)
    tail = file.read_at(_TAIL, end)
    start = end - int.from_bytes(tail[:4], "little")
    return xxhash.xxh3_64_hexdigest(tail if start < 0 else file.read_at(end - start, start) + tail)


class _Columns:
    """Columns that are to be in files, in types that are Spark's, of days as we count them."""

    def __init__(self, spark: SparkSession, kinds: Mapping[str, str]) -> None:
        self.checked = pa.schema([])
        self._kinds = kinds
        self._has_times = any(_TIMES.search(kind) for kind in kinds.values())
        # Of a file of which nobody says who wrote it.
        self._calendars = {str(spark.conf.get(name)).upper() for name in _CALENDARS}

    def check(self, footer: _Footer) -> None:
        """Check the columns of a file."""
        if self._has_times:
            version = footer.said.get(_WRITER)
            # Spark compares versions as text, too.
            is_todays = (
                self._calendars == {"CORRECTED"} if version is None else version >= _TODAYS_WRITER
            )
            if not is_todays or not _OLD_CALENDARS.isdisjoint(footer.said):
                raise _ForSparkError("dates may be of an old calendar")
        if self.checked.equals(footer.schema):
            return
        for name, kind in self._kinds.items():
            if _kind(footer.schema, name) != kind:
                raise _ForSparkError(
                    f"Arrow does not read the column {name!r} of each file as {kind}"
                )
        self.checked = footer.schema


def _kind(schema: pa.Schema, name: str) -> str | None:
    """Return Spark's name of a column's type.

    None: Spark has no such type, or there is not one column of that name, whatever its case.
    """
    lower = [one.lower() for one in schema.names]
    if name not in schema.names or lower.count(name.lower()) != 1:
        return None
    try:
        spark, _ = spark_type(schema.field(name).type, name)
    except TypeError:
        return None
    return str(spark.simpleString())


def _by_task(footers: Sequence[_Footer], tasks: int) -> Splits:
    """Cut files between row groups, so that each task has about as much to read."""
    least, most = TASK_BYTES
    total = sum(nbytes for footer in footers for _, nbytes in footer.groups)
    total += _OPEN_BYTES * len(footers)
    rounds = max(1, -(-total // (most * tasks)))
    enough = max(least, -(-total // (rounds * tasks)))
    by_task: list[tuple[Split, ...]] = []
    splits: list[Split] = []
    size = 0
    for number, footer in enumerate(footers):
        if not footer.groups:
            continue
        first = first_row = row = 0
        size += _OPEN_BYTES
        for group, (rows, nbytes) in enumerate(footer.groups, 1):
            size += nbytes
            row += rows
            if size >= enough or group == len(footer.groups):
                groups = range(first, group)
                splits.append(Split(footer.stored, number, groups, first_row))
                first, first_row = group, row
            if size >= enough:
                by_task.append(tuple(splits))
                splits, size = [], 0
    return (*by_task, tuple(splits)) if splits else tuple(by_task)


def _address(path: str) -> FileAddress:
    return FileAddress.on(fs.LocalFileSystem(), path)
