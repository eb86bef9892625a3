"""Copy a version of a store to another place, and publish it there."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from typing import Any

import xxhash

from lookupstore.progress import Bars, progress_bars
from lookupstore.quantities import Duration
from lookupstore.storage.location import Location
from lookupstore.storage.storage_options import paths_with_options
from lookupstore.store.expiry import HOUR
from lookupstore.store.file_checks import (
    missing_file_error,
    wrong_hash_error,
    wrong_size_error,
)
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
    allow_new_key: bool = False,
    retain: Duration = HOUR,
    progress: bool | None = None,
    storage_options: Mapping[str, Any] | None = None,
) -> LookupStore:
    """Publish a version of a store at another location, and open it there.

    It becomes the next version there. Files are copied as they are: hosts look keys up in local
    copies of plain files, and make plain copies of compressed ones. Files that are already there
    are not copied again. If the version is the current one there, nothing is copied.

    Args:
        store: Open store, whose version is published; or a path, URI or location of a store, whose
            current version is published.
        path: Folder, URI or location of the copy. It is made if missing; otherwise it must be empty
            or a store.
        overwrite: Whether to publish even if another version is there.
        allow_empty: Whether a version without rows may replace one that has some.
        allow_new_key: Whether the key may have other names or types than in the replaced version;
            see `lookupstore.build`.
        retain: Time for which the replaced versions of the copy are kept; see `lookupstore.expire`.
        progress: Whether to show a progress bar. Default: after one second, on a terminal or in a
            notebook.
        storage_options: Credentials, region, endpoint and similar options of the URIs in `store`
            and `path`, by the names that pandas or deltalake have for them; see
            `lookupstore.Location`.

    Raises:
        FileNotFoundError: There is no such store.
        ValueError: If the version has no rows, the one it would replace has some, and `allow_empty`
            is False; or if that one has another key, and `allow_new_key` is False.
        FileExistsError: Another version is there and `overwrite` is False, or the folder has other
            files.
        StaleStoreError: The version of the open `store` was removed.
        CorruptionError: A file of the store is damaged.
        CommitConflictError: Another publisher was faster.
        CommitUnknownError: The version may or may not be published; nothing was deleted.

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
            allow_new_key=allow_new_key,
            retain=retain,
            version_id=manifest.id,
        ) as new,
    ):
        advance = _megabytes(bars, manifest) if bars else None
        # While the mark exists, files that versions name are kept; any other file may be deleted.
        replaced = read_versions(target) if list_names(target) else []
        new.check_columns(manifest, replaced[-1] if replaced else None)
        there = _named_by_content(replaced)
        files = []
        for i, file in enumerate(manifest.named_files):
            # Runs are numbered after the buckets, and applied runs after these.
            after = i - len(manifest.files)
            number = file.bucket if after < 0 else manifest.buckets + after
            name = f"{DATA_FOLDER}/{new.id}-{number:05d}.sst"
            copy = there.get(_content(file)) or replace(file, name=name)
            if copy.name == name or not is_whole(target, copy):
                if copy.name != name:
                    for _ in _checked(source, manifest, file):
                        continue  # it may be the same file: replace it only by a whole one
                    target.delete(copy.name)  # a local file is not overwritten
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
    """Return a function that advances a bar by bytes that are copied or already there."""
    total = sum(file.bytes for file in manifest.named_files)
    advance = bars("Copying", total / 1e6, "MB")
    return lambda nbytes: advance(nbytes / 1e6)


def _named_by_content(manifests: Sequence[Manifest]) -> dict[tuple[int, int, str], DataFile]:
    """Return the data files that versions name, the newest of each content."""
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
    """Read a data file, and raise after its last byte if it is not the right one.

    Args:
        location: Location of the store.
        manifest: Manifest of the version.
        file: Manifest entry of the file.
        advance: Function that is called with the number of bytes of each piece after it was used.
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
