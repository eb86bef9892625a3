"""Check every byte of a version: hashes, blocks, order, keys, rows, and what lies beside it."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from lookupstore.errors import CorruptionError, FormatError
from lookupstore.keys._codec import bucket_of
from lookupstore.sst import Reader
from lookupstore.storage.location import Location
from lookupstore.store.files import BucketFiles, missing_file_error, wrong_hash_error
from lookupstore.store.manifest import DataFile, Manifest
from lookupstore.store.statistics import RowStatistics
from lookupstore.store.version_files import gone_version_error, list_names, name_of, named_files


@dataclass(frozen=True)
class StoreCheck:
    """What `LookupStore.verify` has read and found valid.

    Attributes:
        files: number of data files.
        num_rows: number of rows.
        bytes: size of all data files.
        stray: files of the store that no version names: left by a build that was killed, or being
            written by one that runs now. No reader looks at them; `lookupstore.expire` removes
            them.
    """

    files: int
    num_rows: int
    bytes: int
    stray: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        """Return the result as plain JSON values."""
        return {**asdict(self), "stray": list(self.stray)}


def check_store(location: Location, manifest: Manifest, files: BucketFiles) -> StoreCheck:
    """Read every byte of a version and check it; of a remote one at its place and here.

    Raises:
        CorruptionError: the first thing that is wrong.
        StaleStoreError: the version is not there any more.
    """
    _check_is_there(location, manifest)
    for file in manifest.files:
        try:
            _check_file(location, manifest, file, files)
        except FileNotFoundError:
            raise missing_file_error(location, manifest, file) from None
    named = named_files(location)
    return StoreCheck(
        files=len(manifest.files),
        num_rows=manifest.num_rows,
        bytes=manifest.bytes,
        stray=tuple(file.name for file in location.files(recursive=True) if file.name not in named),
    )


def _check_is_there(location: Location, manifest: Manifest) -> None:
    if name_of(manifest) not in list_names(location):
        raise gone_version_error(location, manifest.version, manifest.id)


def _check_file(location: Location, manifest: Manifest, file: DataFile, files: BucketFiles) -> None:
    path = location.show(file.name)
    found = location.hash(file.name)
    with files.original(file.bucket, whole=found == file.xxh64) as reader:
        # Asked first: an error of the file itself knows the offset, the hash does not.
        reader.verify()
        if found != file.xxh64:
            raise wrong_hash_error(path, file, found)
        _check_records(path, manifest, file, reader)


def _check_records(path: str, manifest: Manifest, file: DataFile, reader: Reader) -> None:
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
        try:
            manifest.decode(batch, manifest.row_schema.schema.names)
        except FormatError as error:
            raise CorruptionError(path, 0, "rows of the store's schema", error) from error
    for name, found in statistics.fields().items():
        expected = getattr(file, name)
        if found != expected:
            raise CorruptionError(path, 0, f"{name} {expected}", found)
