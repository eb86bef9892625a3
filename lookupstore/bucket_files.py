"""The open data files of one version of a store, by bucket.

Readers need a local file. Where that comes from is one function, `Fetch`: for a local store the
file is there already, and for a remote one `TemporaryCopies` downloads it. Files of a local store
are all opened at once, so that it goes on answering when it is replaced; files of a remote one when
the first key falls into their bucket.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import threading
import weakref
from collections.abc import Callable, Iterator
from typing import TypeAlias

import xxhash

from lookupstore.errors import ClosedError, CorruptionError, LookupStoreError
from lookupstore.location import Location
from lookupstore.manifest import DataFile, Manifest
from lookupstore.sst import Reader
from lookupstore.sst.cache import BlockCache
from lookupstore.versions import gone_version, list_names, name_of

#: Gives the local path of a data file, which must stay as long as the store is open.
#: It raises FileNotFoundError if the file is not at the location.
Fetch: TypeAlias = Callable[[Location, DataFile], str]


class BucketFiles:
    """Opens the data files of a version, and closes them.

    Args:
        location: where the store is.
        manifest: the version.
        cache: for decoded blocks; None takes the one of the process.
        fetch: gives the local path of a file; None takes local files where they are, and
            downloads others into a folder that `close` removes.

    Raises:
        StaleStoreError: a file is gone, and so is the version.
        CorruptionError: a file is gone, or contradicts the manifest.
    """

    def __init__(
        self,
        location: Location,
        manifest: Manifest,
        cache: BlockCache | None,
        fetch: Fetch | None = None,
    ) -> None:
        self._location = location
        self._manifest = manifest
        self._cache = cache
        self._copies = TemporaryCopies() if fetch is None and location.local is None else None
        self._fetch: Fetch = fetch or self._copies or local_path
        self._entries = {file.bucket: file for file in manifest.files}
        self._locks = {bucket: threading.Lock() for bucket in self._entries}
        self._readers: dict[int, Reader] = {}
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
        if reader is not None or bucket not in self._entries:
            return reader
        return self._open(bucket)

    def __getitem__(self, bucket: int) -> Reader:
        reader = self.get(bucket)
        if reader is None:
            raise KeyError(bucket)
        return reader

    def close(self) -> None:
        """Close all files, and remove what was downloaded for them."""
        self._closed = True
        for bucket, lock in self._locks.items():
            with lock:
                reader = self._readers.get(bucket)
                if reader is not None:
                    reader.close()
        if self._copies is not None:
            self._copies.close()

    def _open(self, bucket: int) -> Reader:
        file = self._entries[bucket]
        with self._locks[bucket]:
            reader = self._readers.get(bucket)
            if reader is None:
                if self._closed:
                    raise ClosedError(f"{self._location.uri}: the store is closed; open it again")
                try:
                    reader = _checked_reader(self._fetch(self._location, file), file, self._cache)
                except FileNotFoundError:
                    raise missing_file(self._location, self._manifest, file) from None
                self._readers[bucket] = reader
        return reader


class TemporaryCopies:
    """Downloads data files into a temporary folder, and checks them against the manifest.

    The folder goes with `close`, or with the object; in the process that made it.
    """

    def __init__(self) -> None:
        self._folder = tempfile.mkdtemp(prefix="lookupstore-")
        self._finalizer = weakref.finalize(self, _remove_folder, self._folder, os.getpid())

    def __call__(self, location: Location, file: DataFile) -> str:
        """Return the local path of a file, once it is there.

        Raises:
            FileNotFoundError: the file is not at the location.
            CorruptionError: it is not the file that the manifest describes.
        """
        path = os.path.join(self._folder, os.path.basename(file.name))
        digest = xxhash.xxh64()
        size = 0
        with open(path, "wb") as copy:
            for chunk in location.chunks(file.name):
                digest.update(chunk)
                size += len(chunk)
                copy.write(chunk)
        if size != file.bytes:
            raise wrong_size(location.show(file.name), file, size)
        if digest.hexdigest() != file.xxh64:
            raise wrong_hash(location.show(file.name), file, digest.hexdigest())
        return path

    def close(self) -> None:
        """Remove the folder."""
        self._finalizer()


def local_path(location: Location, file: DataFile) -> str:
    """Return the path of a data file of a local store."""
    return location.show(file.name)


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


def _checked_reader(path: str, file: DataFile, cache: BlockCache | None) -> Reader:
    size = os.stat(path).st_size
    if size != file.bytes:
        raise wrong_size(path, file, size)
    reader = Reader(path, cache=cache)
    if len(reader) != file.num_records:
        reader.close()
        raise CorruptionError(path, 0, f"{file.num_records} records", f"{len(reader)} records")
    return reader


def _remove_folder(folder: str, process: int) -> None:
    if os.getpid() == process:  # a child of fork reads on in the folder of its parent
        shutil.rmtree(folder, ignore_errors=True)
