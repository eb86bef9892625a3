"""Check every byte of a version: hashes, blocks, order, keys and rows; find stray files."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

from lookupstore.errors import CorruptionError, FormatError
from lookupstore.keys._codec import bucket_of
from lookupstore.progress import Advance
from lookupstore.sst import Reader
from lookupstore.storage.location import Location
from lookupstore.store.buckets import BucketReads
from lookupstore.store.file_checks import missing_file_error, wrong_hash_error
from lookupstore.store.files import BucketFiles
from lookupstore.store.kinds import run_as_layer, tombstones_of
from lookupstore.store.manifest import ChangeRun, DataFile, Manifest
from lookupstore.store.statistics import RowStatistics
from lookupstore.store.version_files import (
    NEWEST_COPY,
    gone_version_error,
    list_names,
    name_of,
    named_files,
)

_log = logging.getLogger(__name__)

#: The records of one data file, batch by batch.
Records: TypeAlias = "Iterator[pa.RecordBatch]"


@dataclass(frozen=True)
class StoreCheck:
    """The result of `LookupStore.verify`, for a store without damage.

    Attributes:
        files: Number of data files, including all runs of changes.
        num_rows: Number of rows.
        bytes: Size of all data files.
        stray: Names of the files of the store that no version names: a killed build left them, or a
            running one is writing them. No reader uses them; `lookupstore.expire` removes them.
    """

    files: int
    num_rows: int
    bytes: int
    stray: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        """Return the result as plain JSON values."""
        return {**asdict(self), "stray": list(self.stray)}


def check_store(
    location: Location, manifest: Manifest, files: BucketFiles, advance: Advance | None = None
) -> StoreCheck:
    """Check every byte of a version; for a remote store, also of the local copies.

    Args:
        location: Location of the store.
        manifest: Manifest of the version.
        files: Open files of the buckets of the version.
        advance: Function that is called with the number of records after each batch.

    Raises:
        CorruptionError: The version is damaged; the error names the first damage that was found.
        StaleStoreError: The version was removed.
    """
    _check_is_there(location, manifest)
    for file in manifest.files:
        check = partial(_check_base, manifest)
        _check_file(location, manifest, file, files, file.bucket, check, advance)
    _check_runs(location, manifest, manifest.runs, files, advance)
    with closing(files.of_runs(manifest.applied)) as merged:
        _check_runs(location, manifest, manifest.applied, merged, advance)
    _check_counts(location, manifest, files)
    return StoreCheck(
        files=len(manifest.named_files),
        num_rows=manifest.num_rows,
        bytes=sum(file.bytes for file in manifest.named_files),
        stray=_stray_files(location),
    )


def _stray_files(location: Location) -> tuple[str, ...]:
    """Return the files that no version names; none if another version is damaged."""
    try:
        named = {*named_files(location), NEWEST_COPY}
    except CorruptionError as error:
        _log.warning("files that are not part of the store were not looked for: %s", error)
        return ()
    return tuple(file.name for file in location.files(recursive=True) if file.name not in named)


def _check_is_there(location: Location, manifest: Manifest) -> None:
    if name_of(manifest) not in list_names(location):
        raise gone_version_error(location, manifest.version, manifest.id)


def _check_runs(
    location: Location,
    manifest: Manifest,
    runs: Sequence[ChangeRun],
    files: BucketFiles,
    advance: Advance | None,
) -> None:
    for number, run in enumerate(runs, manifest.buckets):
        check = partial(_check_run, manifest, run)
        _check_file(location, manifest, run.file, files, number, check, advance)


def _check_file(
    location: Location,
    manifest: Manifest,
    file: DataFile,
    files: BucketFiles,
    number: int,
    check: Callable[[Records], None],
    advance: Advance | None,
) -> None:
    try:
        _check_records(location, manifest, file, files, number, check, advance)
    except FileNotFoundError:
        raise missing_file_error(location, manifest, file) from None


def _check_records(
    location: Location,
    manifest: Manifest,
    file: DataFile,
    files: BucketFiles,
    number: int,
    check: Callable[[Records], None],
    advance: Advance | None,
) -> None:
    path = location.show(file.name)
    found = location.hash(file.name)
    with files.original(number, whole=found == file.xxh64) as reader:
        # The file is checked first: its errors contain the offset, an error of the hash does not.
        reader.verify()
        if found != file.xxh64:
            raise wrong_hash_error(path, file, found)
        try:
            check(_checked_records(path, manifest, file, reader, advance))
        except FormatError as error:
            raise CorruptionError(path, 0, "rows of the store's schema", error) from error


def _checked_records(
    path: str, manifest: Manifest, file: DataFile, reader: Reader, advance: Advance | None
) -> Iterator[pa.RecordBatch]:
    """Yield the records of a file, and check the buckets of its keys and its statistics."""
    statistics = RowStatistics()
    for batch in reader.scan():
        keys = batch.column("key")
        if not len(keys):
            continue
        statistics.add(batch)
        wrong = np.flatnonzero(bucket_of(keys, manifest.buckets) != file.bucket)
        if len(wrong):
            key = keys[int(wrong[0])].as_py().hex()
            raise CorruptionError(path, 0, f"keys of bucket {file.bucket}", f"the key {key}")
        yield batch
        if advance is not None:
            advance(len(keys))
    for name, found in statistics.fields().items():
        expected = getattr(file, name)
        if found != expected:
            raise CorruptionError(path, 0, f"{name} {expected}", found)


def _check_base(manifest: Manifest, records: Records) -> None:
    for batch in records:
        manifest.decode(batch, manifest.row_schema.schema.names)


def _check_run(manifest: Manifest, run: ChangeRun, records: Records) -> None:
    tombstones = 0
    for batch in records:
        layer = run_as_layer(batch)
        gone = tombstones_of(layer)
        tombstones += int(gone.sum())
        rows = layer.select(["key", "value"]).filter(pa.array(~gone))
        manifest.decode(rows, manifest.row_schema.schema.names)
    if tombstones != run.tombstones:
        raise FormatError(f"{tombstones} tombstones, where the manifest has {run.tombstones}")


def _check_counts(location: Location, manifest: Manifest, files: BucketFiles) -> None:
    """Count the rows of buckets with runs again, from their bases and the changes of the runs."""
    reads = BucketReads(location, manifest, files)
    rows = {file.bucket: file.num_records for file in manifest.files}
    for bucket, runs in manifest.runs_by_bucket().items():
        expected = rows.get(bucket, 0) + sum(run.new_rows for run in runs)
        found = sum(batch.num_rows for batch in reads.sorted_rows(bucket))
        if found != expected:
            path = location.show(runs[0].file.name)
            raise CorruptionError(path, 0, f"{expected} rows in bucket {bucket}", found)
