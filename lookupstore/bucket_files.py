"""The open data files of one version of a store, by bucket.

Readers need a local file. For a local store the file is there already; of a remote one the host's
`Residency` holds a local copy, which answers while it is still coming. Files of a local store are
all opened at once, so that it goes on answering when it is replaced; files of a remote one when the
first key falls into their bucket.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator

from lookupstore.errors import ClosedError, CorruptionError, LookupStoreError
from lookupstore.location import Location
from lookupstore.manifest import DataFile, Manifest
from lookupstore.residency import Copy, FetchCounts, Residency
from lookupstore.sst import Reader
from lookupstore.sst.cache import BlockCache
from lookupstore.versions import gone_version, list_names, name_of


class BucketFiles:
    """Opens the data files of a version, and closes them.

    Args:
        location: where the store is.
        manifest: the version.
        cache: for decoded blocks; None takes the one of the process.
        residency: holds the local copies of the files of a remote store.

    Raises:
        StaleStoreError: a file is gone, and so is the version.
        CorruptionError: a file is gone, or contradicts the manifest.
    """

    def __init__(
        self,
        location: Location,
        manifest: Manifest,
        cache: BlockCache | None,
        residency: Residency,
    ) -> None:
        self._location = location
        self._manifest = manifest
        self._cache = cache
        self._residency = residency
        self._entries = {file.bucket: file for file in manifest.files}
        self._locks = {bucket: threading.Lock() for bucket in self._entries}
        self._readers: dict[int, Reader] = {}
        self._copies: dict[int, Copy] = {}
        self._closed = False
        if location.local is not None:
            try:
                for bucket in self._entries:
                    self._open(bucket)
            except BaseException:
                self.close()
                raise

    def __iter__(self) -> Iterator[int]:
        return iter(self._entries)

    def get(self, bucket: int) -> Reader | None:
        """Return the reader of a bucket; None if the bucket is empty."""
        reader = self._readers.get(bucket)
        if reader is not None:
            copy = self._copies.get(bucket)
            return reader if copy is None or not copy.outdated else self._open(bucket)
        return self._open(bucket) if bucket in self._entries else None

    def __getitem__(self, bucket: int) -> Reader:
        reader = self.get(bucket)
        if reader is None:
            raise KeyError(bucket)
        return reader

    def opened(self) -> list[Reader]:
        """Return the readers of the files that are open."""
        return list(self._readers.values())

    def fetched(self) -> FetchCounts:
        """Return what this process has fetched for the files that are open."""
        counts = [copy.counts for copy in list(self._copies.values())]
        return FetchCounts(
            sum(one.bytes for one in counts),
            sum(one.requests for one in counts),
            sum(one.retries for one in counts),
        )

    def close(self) -> None:
        """Close all files, and let go of their local copies."""
        self._closed = True
        for bucket, lock in self._locks.items():
            with lock:
                reader = self._readers.get(bucket)
                if reader is not None:
                    reader.close()
                copy = self._copies.pop(bucket, None)
                if copy is not None:
                    copy.close()

    def _open(self, bucket: int) -> Reader:
        file = self._entries[bucket]
        with self._locks[bucket]:
            reader = self._readers.get(bucket)
            copy = self._copies.get(bucket)
            if reader is None or (copy is not None and copy.outdated):
                if self._closed:
                    raise ClosedError(f"{self._location.uri}: the store is closed; open it again")
                try:
                    reader = self._open_file(file)
                except FileNotFoundError:
                    raise missing_file(self._location, self._manifest, file) from None
                self._readers[bucket] = reader
        return reader

    def _open_file(self, file: DataFile) -> Reader:
        if self._location.local is not None:
            path = self._location.show(file.name)
            size = os.stat(path).st_size
            if size != file.bytes:
                raise wrong_size(path, file, size)
            return _checked(Reader(path, cache=self._cache), file)
        filesystem, path = self._location.resolve(file.name)
        copy = self._residency.hold(
            filesystem,
            path,
            nbytes=file.bytes,
            xxh64=file.xxh64,
            uri=self._location.show(file.name),
            recode=self._manifest.options.get("compression") != "none",
        )
        try:
            reader = _checked(Reader(copy.path, cache=self._cache, fill=copy.fill), file)
        except BaseException:
            copy.close()
            raise
        # Whoever is in a call with a reader of the copy before keeps both until it returns.
        old = self._copies.get(file.bucket)
        self._copies[file.bucket] = copy
        if old is not None:
            old.close()
        return reader


def missing_file(location: Location, manifest: Manifest, file: DataFile) -> LookupStoreError:
    """Return the error for a data file that is not there: its version may be gone, too."""
    if name_of(manifest) not in list_names(location):
        return gone_version(location, manifest.version, manifest.id)
    return CorruptionError(
        location.show(file.name), 0, "a data file that the manifest names", "no file"
    )


def wrong_size(path: str, file: DataFile, size: int) -> CorruptionError:
    """Return the error for a file that is longer or shorter than the manifest says."""
    return CorruptionError(path, min(size, file.bytes), f"{file.bytes} bytes", f"{size} bytes")


def wrong_hash(path: str, file: DataFile, found: str) -> CorruptionError:
    """Return the error for a file whose bytes are not those that the manifest says."""
    return CorruptionError(path, 0, f"a file with XXH64 {file.xxh64}", found)


def _checked(reader: Reader, file: DataFile) -> Reader:
    if len(reader) != file.num_records:
        reader.close()
        raise CorruptionError(
            reader.path, 0, f"{file.num_records} records", f"{len(reader)} records"
        )
    return reader
