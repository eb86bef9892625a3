"""Remove versions of a store that no reader can be using, and files that no version names.

The rule for readers: a reader that opened a version may use it for `retain` after the next version
was published. After that, its files may be deleted; files that a reader has open locally stay
readable.

The order makes a killed removal harmless: first the files of versions, the oldest first, then data
files that no remaining version names. The order also avoids conflicts with publishers. They write a
mark before they read the newest version, and remove it once they know whether their own version
stays. A version that has a mark replaces no other version yet, and while any mark exists, no data
file is deleted. docs/decisions/0020-publishing.md explains why that is enough.
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import timedelta
from typing import Any

from lookupstore.quantities import Duration, seconds_of
from lookupstore.storage.location import FoundFile, Location
from lookupstore.storage.naming import is_temporary
from lookupstore.store.manifest import DATA_FOLDER, Manifest
from lookupstore.store.marks import MARK_AGE, running_builds
from lookupstore.store.version_files import (
    NEWEST_COPY,
    VERSIONS_FOLDER,
    Place,
    files_of,
    list_names,
    located,
    name_of,
    read_versions,
    remove_void,
)

HOUR = timedelta(hours=1)
# Most seconds for which publishers leave a version that may be removed.
_LATE = 300.0

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Expired:
    """The versions and files that `expire` has removed.

    Attributes:
        versions: Numbers of the removed versions.
        files: Number of removed data files and leftovers.
        bytes: Size of the removed data files and leftovers.
        failed: Number of files that are no longer needed, including those of versions, and could
            not be removed. The log has the reasons.
    """

    versions: tuple[int, ...]
    files: int
    bytes: int
    failed: int = 0

    def to_json(self) -> dict[str, Any]:
        """Return the result as plain JSON values."""
        return {**asdict(self), "versions": list(self.versions)}


def expire(
    path: Place,
    *,
    retain: Duration = HOUR,
    keep: int = 1,
    dry_run: bool = False,
    storage_options: Mapping[str, Any] | None = None,
) -> Expired:
    """Remove old versions of a store, and files of builds that were killed.

    A version is removed if another version replaced it at least `retain` ago, and the build of that
    other version has ended. A reader of the removed version must be done by then, or have its files
    open locally. Data files are then removed if no remaining version names them and they are older
    than `retain`; they are kept while a build runs, and up to a day after a build was killed.
    Temporary files are kept for a day.

    Args:
        path: Folder, URI or location of the store, or an open store.
        retain: Time for which a replaced version is kept: a timedelta, seconds, or a text such as
            `"1h"`.
        keep: Number of the newest versions that are kept in any case, at least 1.
        dry_run: Whether nothing is removed: the result names what would be.
        storage_options: Credentials, region, endpoint and similar options of a URI, by the names
            that pandas or deltalake have for them; see `lookupstore.Location`.

    Raises:
        FileNotFoundError: There is no such folder.
        FormatError: The folder is not a store.
        CorruptionError: A manifest contradicts itself; nothing is removed.
        ValueError: If an argument is out of range.

    >>> import tempfile, lookupstore, pyarrow as pa
    >>> folder = tempfile.mkdtemp()
    >>> for rows in (1, 2):
    ...     table = pa.table({"id": range(rows)})
    ...     lookupstore.build(table, folder, key="id", overwrite=True).close()
    >>> expire(folder).versions, expire(folder, retain=0).versions
    ((), (1,))
    """
    seconds = seconds_of(retain, "retain")
    if not isinstance(keep, int) or isinstance(keep, bool) or keep < 1:
        raise ValueError(f"keep is {keep!r}; give a number of versions, at least 1")
    location = located(path, storage_options)
    names = list_names(location)
    failed = 0
    try:
        if not dry_run:
            remove_void(location, names)
    except OSError as error:
        failed = 1
        _log.warning("%s: a version that is void was not removed: %s", location.uri, error)
    now = time.time()
    manifests, gone = replaced_versions(location, now, seconds, keep)
    removed: list[Manifest] = []
    for old in gone:
        if not dry_run and not delete_unneeded(location, name_of(old).file):
            break  # newer versions are kept, too: the oldest is removed first
        removed.append(old)
    remaining = [manifest for manifest in manifests if manifest not in removed]
    there = manifests if dry_run else remaining
    unnamed = unnamed_files(location, remaining, now, seconds, there=there)
    files = [file for file in unnamed if dry_run or delete_unneeded(location, file.name)]
    failed += len(gone) - len(removed) + len(unnamed) - len(files)
    return Expired(
        tuple(old.version for old in removed), len(files), sum(file.bytes for file in files), failed
    )


def expire_if_due(location: Location, retain: Duration) -> None:
    """Remove old versions after another one was published, some at a time.

    `expire` reads the manifests of all versions. A publisher that called it each minute would read
    those of an hour each minute. Therefore it is called once the oldest version may have been
    removed for a tenth of `retain`, or for five minutes if that is less.

    Raises the errors of `expire`.
    """
    seconds = seconds_of(retain, "retain")
    files = sorted(location.files(VERSIONS_FOLDER), key=lambda file: file.name)
    written = [file.modified for file in files if file.name != NEWEST_COPY]
    # The second version replaced the first when it was written.
    replaced = written[1] if len(written) > 1 else None
    if replaced is None or time.time() - replaced >= seconds + min(seconds / 10, _LATE):
        expire(location, retain=retain)


def names_all_in_use(
    location: Location, manifests: Sequence[Manifest], own_mark: str | None = None
) -> bool:
    """Return whether some versions name all data files that are, or will be, in use.

    Args:
        location: Location of the store.
        manifests: Manifests of all versions that existed before the caller looked for files.
        own_mark: Name of the mark of the caller's own build. Default: the caller has none.
    """
    if running_builds(location, own_mark):
        _log.info("%s: a build is running, so data files are kept", location.uri)
        return False
    # A build that began after the marks were read may use a version that was published, and even
    # removed, after `manifests` were read. While the newest of `manifests` exists, none of the
    # later versions was removed.
    names = list_names(location)
    if not set(names) <= {name_of(manifest) for manifest in manifests} or (
        manifests and location.size(name_of(manifests[-1]).file) is None
    ):
        _log.info("%s: versions came or went meanwhile, so data files are kept", location.uri)
        return False
    return True


def replaced_versions(
    location: Location, now: float, seconds: float, keep: int
) -> tuple[list[Manifest], list[Manifest]]:
    """Return the versions of a store, and those of them to be removed, the oldest first.

    A version that existed before the marks were read, and still exists after that, without a mark
    of its own, is one that its publisher no longer withdraws.
    """
    before = {file.name for file in location.files(VERSIONS_FOLDER)}
    made = running_builds(location) if len(before) >= keep else {}
    # A publisher that paused dates its file before it removes its mark.
    written = {file.name: file.modified for file in location.files(VERSIONS_FOLDER)}
    manifests = read_versions(location)
    gone: list[Manifest] = []
    newer, replaced = 0, math.inf
    for manifest in reversed(manifests):
        if newer >= keep and now - replaced >= seconds:
            gone.insert(0, manifest)
        file = name_of(manifest).file
        if file in before and file in written and manifest.id not in made.values():
            newer += 1
            # A publisher that paused after it chose `created` replaced others when it wrote the
            # file.
            dated = math.floor(written[file] or 0)
            replaced = min(replaced, max(manifest.created_at.timestamp(), dated))
    return manifests, gone


def unnamed_files(
    location: Location,
    manifests: Sequence[Manifest],
    now: float,
    seconds: float,
    *,
    there: Sequence[Manifest] | None = None,
) -> list[FoundFile]:
    """Return the files that no version names, if no running build may be about to name them.

    Args:
        location: Location of the store.
        manifests: Manifests of the versions that name files.
        now: The time, in seconds since 1970.
        seconds: Least age of a data file, in seconds.
        there: Manifests of the versions that exist. Default: `manifests`.
    """
    known = files_of(manifests)
    held = [
        file
        for file in location.files(recursive=True)
        if (is_temporary(file.name) and _is_older(file, now - MARK_AGE.total_seconds()))
        or (file.name.startswith(f"{DATA_FOLDER}/") and not is_temporary(file.name))
    ]
    old = [file for file in held if file.name not in known and _is_older(file, now - seconds)]
    if not old:
        return []
    # This is checked after the files were listed: a build that wrote one had its mark before.
    return old if names_all_in_use(location, manifests if there is None else there) else []


def _is_older(file: FoundFile, moment: float) -> bool:
    return file.modified is not None and file.modified <= moment


def delete_unneeded(location: Location, name: str) -> bool:
    """Delete a file that is harmless if it stays; log a failure; return whether it is gone."""
    try:
        location.delete(name)
    except OSError as error:
        reason = error.strerror or error
        _log.warning(
            "%s: could not remove %s, which is no longer needed: %s", location.uri, name, reason
        )
        return False
    return True
