"""Open the files of one version of a store."""

from __future__ import annotations

from contextlib import suppress
from typing import NamedTuple

from lookupstore.errors import StaleStoreError
from lookupstore.hostcache.cache import Residency
from lookupstore.sst.cache import BlockCache
from lookupstore.storage.location import Location
from lookupstore.store.buckets import BucketReads
from lookupstore.store.files import BucketFiles
from lookupstore.store.manifest import Manifest
from lookupstore.store.version_files import (
    LOOKS,
    VersionName,
    read_newest,
    read_numbered,
    read_version,
    replaced_meanwhile_error,
)


class OpenVersion(NamedTuple):
    """A version of a store whose files are open."""

    location: Location
    manifest: Manifest
    files: BucketFiles
    reads: BucketReads


def open_version(
    location: Location,
    version: int | VersionName | None,
    cache: BlockCache | None,
    residency: Residency | None,
) -> OpenVersion:
    """Open the files of one version, or of the current one, which may change meanwhile.

    A version with a name was published. If the current version has the same number, it was not, and
    lacks the changes of the named version: its writer has yet to withdraw it.

    Args:
        location: Location of the store.
        version: Number or name of the version. None: the current version.
        cache: Cache of decoded blocks. None: the cache that all stores of the process share.
        residency: Manager of the local copies of files. None: the one of the host.

    Raises:
        FileNotFoundError: There is no such store or version.
        StaleStoreError: Each version was removed before it could be opened.
        CorruptionError: The manifest or a data file is damaged.
    """
    copies = Residency() if residency is None else residency
    published = version if isinstance(version, VersionName) else None
    if version is not None and not isinstance(version, VersionName):
        return _opened(location, read_numbered(location, version), cache, copies)
    for _ in range(LOOKS):
        manifest = read_newest(location)
        if published is not None and manifest.version == published.number:
            with suppress(FileNotFoundError):  # newer ones have replaced it
                manifest = read_version(location, published)
        try:
            return _opened(location, manifest, cache, copies)
        except StaleStoreError:
            continue
    raise replaced_meanwhile_error(location)


def _opened(
    location: Location, manifest: Manifest, cache: BlockCache | None, residency: Residency
) -> OpenVersion:
    files = BucketFiles(location, manifest, cache, residency)
    return OpenVersion(location, manifest, files, BucketReads(location, manifest, files))
