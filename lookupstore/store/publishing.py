"""Copy a version of a store to another place, and publish it there."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from itertools import islice
from typing import Any

import xxhash

from lookupstore.progress import Bars, progress_bars
from lookupstore.quantities import Duration
from lookupstore.storage.location import Location
from lookupstore.storage.storage_options import paths_with_options
from lookupstore.store.expiry import HOUR
from lookupstore.store.files import missing_file_error, wrong_hash_error, wrong_size_error
from lookupstore.store.manifest import DATA_FOLDER, DataFile, Manifest
from lookupstore.store.new_version import NewVersion, is_whole
from lookupstore.store.publish_step import store_exists_error
from lookupstore.store.store import LookupStore
from lookupstore.store.version_files import (
    VersionName,
    gone_version_error,
    list_names,
    located,
    read_newest,
    read_version,
    read_versions,
    standing,
)

_log = logging.getLogger(__name__)


def publish(
    store: LookupStore | str | os.PathLike[str] | Location,
    path: str | os.PathLike[str] | Location,
    *,
    overwrite: bool = False,
    allow_empty: bool = False,
    retain: Duration = HOUR,
    progress: bool | None = None,
    storage_options: Mapping[str, Any] | None = None,
) -> LookupStore:
    """Copy a version of a store to another place, as the next version there, and open that.

    Files are copied as they are: hosts look up in local copies of plain ones, and make plain copies
    of compressed ones. Files that are already there are not copied again; if the version is the
    current one there, nothing is copied.

    Args:
        store: an open store, whose version is published; or a path, URI or location of a store,
            whose current version is published.
        path: folder, URI or location of the copy; made if missing, else empty or a store.
        overwrite: publish even if another version is there.
        allow_empty: let a version without rows replace one that has some.
        retain: how long the versions that are replaced there stay; see `lookupstore.expire`.
        progress: show a progress bar; None shows it after a second, on a terminal or in a notebook.
        storage_options: of `store` and `path`, where they are URIs, as of `lookupstore.Location`.

    Raises:
        FileNotFoundError: there is no such store.
        ValueError: the version has no rows, the one it would replace has some, and `allow_empty`
            is False.
        FileExistsError: another version is there and `overwrite` is False, or the folder has other
            files.
        StaleStoreError: the version that `store` is open at is gone.
        CorruptionError: a file of the store is damaged.
        CommitConflictError: another publisher was faster.
        CommitUnknownError: the version may or may not be published; nothing was deleted.

    >>> import tempfile, lookupstore, pyarrow as pa
    >>> here, there = tempfile.mkdtemp(), tempfile.mkdtemp()
    >>> store = lookupstore.build(pa.table({"id": [7], "name": ["seven"]}), here, key="id")
    >>> with lookupstore.publish(store, there) as copy:
    ...     copy.id == store.id, copy.get(7)
    (True, {'name': 'seven'})
    """
    store, path = paths_with_options(storage_options, store=store, path=path)
    source, manifest = _version_of(store)
    target = located(path)
    names = standing(target, list_names(target))
    if names and names[-1].id == manifest.id:
        _log.info("%s: already published, as version %d", target.uri, names[-1].number)
        return LookupStore(target)
    if names and not overwrite:
        raise store_exists_error(target)
    with (
        progress_bars(progress, late=True) as bars,
        NewVersion(
            target,
            overwrite=overwrite,
            allow_empty=allow_empty,
            retain=retain,
            version_id=manifest.id,
        ) as new,
    ):
        advance = _megabytes(bars, manifest) if bars else None
        # With the mark there, files that versions name stay; any other may be about to go.
        there = _named_by_content(target)
        files = []
        for i, file in enumerate(manifest.named_files):
            # Runs have the numbers behind those of buckets, and applied ones those behind these.
            after = i - len(manifest.files)
            number = file.bucket if after < 0 else manifest.buckets + after
            name = f"{DATA_FOLDER}/{new.id}-{number:05d}.sst"
            copy = there.get(_content(file)) or replace(file, name=name)
            if copy.name == name or not is_whole(target, copy):
                if copy.name != name:
                    for _ in _checked(source, manifest, file):
                        continue  # it may be the same file: only a whole one replaces it
                    target.delete(copy.name)  # a local file is not written over
                new.written.append(copy.name)
                target.write(copy.name, _checked(source, manifest, file, advance))
                target.check_size(copy.name, copy.bytes)
            elif advance:
                advance(file.bytes)
            files.append(copy)
        copies = iter(files)
        bases = tuple(islice(copies, len(manifest.files)))
        runs = tuple(replace(run, file=next(copies)) for run in manifest.runs)
        applied = tuple(replace(run, file=next(copies)) for run in manifest.applied)
        copied = replace(manifest, files=bases, runs=runs, applied=applied)
        written = [file for file in copied.data_files if file.name in new.written]
        new.publish(replace(copied, rewritten_buckets=len(written)))
    return LookupStore(target)


def _megabytes(bars: Bars, manifest: Manifest) -> Callable[[int], None]:
    """Return what tells a bar of bytes that are copied, or there already."""
    total = sum(file.bytes for file in manifest.named_files)
    advance = bars("Copying", total / 1e6, "MB")
    return lambda nbytes: advance(nbytes / 1e6)


def _named_by_content(location: Location) -> dict[tuple[int, int, str], DataFile]:
    """Return the data files that versions name, the newest of each content."""
    if not list_names(location):
        return {}
    manifests = read_versions(location)
    return {_content(file): file for manifest in manifests for file in manifest.named_files}


def _content(file: DataFile) -> tuple[int, int, str]:
    return file.bucket, file.bytes, file.xxh64


def _version_of(
    store: LookupStore | str | os.PathLike[str] | Location,
) -> tuple[Location, Manifest]:
    if not isinstance(store, LookupStore):
        location = located(store)
        return location, read_newest(location)
    try:
        name = VersionName(store.version, store.id)
        return store.location, read_version(store.location, name)
    except FileNotFoundError:
        raise gone_version_error(store.location, store.version, store.id) from None


def _checked(
    location: Location,
    manifest: Manifest,
    file: DataFile,
    advance: Callable[[int], None] | None = None,
) -> Iterator[bytes]:
    """Read a data file, and raise after its last byte if it is not the one of the manifest.

    Args:
        location: of the store.
        manifest: of the version.
        file: which one.
        advance: told how many bytes were taken, after each piece.
    """
    digest = xxhash.xxh64()
    size = 0
    try:
        for chunk in location.chunks(file.name):
            digest.update(chunk)
            size += len(chunk)
            yield chunk
            if advance:
                advance(len(chunk))
    except FileNotFoundError:
        raise missing_file_error(location, manifest, file) from None
    if size != file.bytes:
        raise wrong_size_error(location.show(file.name), file, size)
    if digest.hexdigest() != file.xxh64:
        raise wrong_hash_error(location.show(file.name), file, digest.hexdigest())
