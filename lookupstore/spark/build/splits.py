"""Splits of Parquet files that tasks read with Arrow: the choice of files, and their assignment.

Spark copies each value that it reads from columns to rows, to Arrow's columns and to Python, which
takes longer than all other work of a build. Therefore tasks read files themselves if the rows are
the same: local files that executors reach at the path that Spark uses, with types of one meaning.
Spark reads all other files.
"""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
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
from lookupstore.source.damage import damaged_offset
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

#: Minimum and maximum size of a split, in bytes of row groups before compression: a smaller split
#: is not worth a task, and more should not be lost with one.
TASK_BYTES = (4 << 20, 128 << 20)

_WHAT = "a Parquet file"
_FOOTER_THREADS = 8
# Size of the end of a file: the length of its footer, and four bytes that are in every file.
_TAIL = 8
# Cost of opening a file in bytes, in addition to those that are read, as Spark's `openCostInBytes`.
_OPEN_BYTES = 4 << 20
# Settings with which Spark skips files, reads encrypted ones, finds columns by another name, or
# moves timestamps to another zone; and their values without effect.
_PLAIN_SETTINGS = {
    "spark.sql.files.ignoreCorruptFiles": "false",
    "spark.sql.files.ignoreMissingFiles": "false",
    "spark.sql.parquet.fieldId.read.enabled": "false",
    "spark.sql.parquet.int96TimestampConversion": "false",
    "parquet.crypto.factory.class": "",
    "spark.hadoop.parquet.crypto.factory.class": "",
}
# Settings for files of old writers, which counted days in another calendar. Files of Spark record
# their calendar; for other files, the settings decide. Source: Spark's SQL migration guide, 3.0 and
# 3.1; DataSourceUtils.datetimeRebaseSpec and int96RebaseSpec.
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
    """Adjacent row groups of a file.

    Attributes:
        stored: Identity of the file, which differs from that of other files at its path.
        file: Number of the file among all files, in the order of their rows.
        groups: Numbers of the row groups.
        first_row: Number of their first row in the file.
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
        """Yield the columns of a schema, in Spark's types.

        Raises:
            ValueError: If the driver read the footer of another file, or the file was written while
                it was read; if a value is outside the range of Spark's type; or if a text is not
                UTF-8.
            CorruptionError: If the file is damaged.
            OSError: If the file cannot be read.
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
        place = partial(damaged_offset, address, schema.names, self.groups)
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
                # Only reads are in the context: errors of the use of a batch are not errors of the
                # file.
                with address.reading(_WHAT, place=place):
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
    """The data that decides how a file is read, with rows and bytes of its row groups."""

    stored: FileIdentity
    schema: pa.Schema
    said: Mapping[bytes, bytes]
    groups: tuple[tuple[int, int], ...]


class _ForSparkError(Exception):
    """The reason why tasks cannot read files like Spark."""


def plan_splits(
    df: DataFrame, found: Sequence[FoundFiles], names: Sequence[str], every_column: bool
) -> Splits:
    """Return the row groups that each task reads; [] if Spark must read the files.

    Args:
        df: Files as Spark reads them.
        found: Local files as lookupstore found them, in the order of their rows.
        names: Names of the columns that are read.
        every_column: Whether these are all columns, so that no file may have another one.

    Raises:
        ValueError: If a file has a column that Spark does not read.
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
    # Spark reads a file twice if it is listed twice, and does not report this.
    if len(set(files)) < len(files) or {unquote(uri.path) for uri in uris} != set(files):
        raise _ForSparkError("Spark finds others, or one is listed twice")
    return files


def _check_settings(spark: SparkSession) -> None:
    for name, plain in _PLAIN_SETTINGS.items():
        if spark.conf.get(name, plain) != plain:
            raise _ForSparkError(f"{name} is set")


def _check_folders(files: Sequence[str], wanted: Mapping[str, str]) -> None:
    """Check that no folder determines the value of a column."""
    given = {part.partition("=")[0] for file in files for part in file.split("/") if "=" in part}
    lower = {unquote(name).lower() for name in given}
    for name in wanted:
        if name.lower() in lower:
            raise _ForSparkError(f"the column {name!r} may be in the names of folders")


def check_no_others(path: str, names: Iterable[str], known: Iterable[str]) -> None:
    """Check that Spark reads all columns of a file.

    Raises:
        ValueError: If Spark does not read one.
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
    """Return the footers of files, which must have all the columns, and only known ones."""
    pool = ThreadPoolExecutor(_FOOTER_THREADS, "lookupstore-footer")
    try:
        footers = []
        for path, footer in zip(files, pool.map(_footer, files), strict=True):
            if known is not None:
                check_no_others(path, footer.schema.names, known)
            columns.check(footer)
            # Files have one schema, which is kept once.
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
    except (*READ_ERRORS, LookupStoreError) as error:  # Spark may read it, or raise
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
        # Calendar settings for a file whose writer is unknown.
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
    """Cut files between row groups, so that each task has about the same amount to read."""
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
