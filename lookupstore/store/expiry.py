"""Remove versions of a store that nobody can be reading, and files that no version names.

The rule for readers: who has opened a version may go on for `retain` after the next one was
published. After that its files may be gone; those that a reader has open locally stay readable.

The order makes a killed removal harmless: first the files of versions, the oldest first, then data
files that no remaining version names. It also keeps out of the way of publishers, who mark that
they run before they look at the newest version, and remove the mark when they know whether theirs
stays: a version whose mark is there replaces nothing yet, and while any mark is there, no data file
goes. docs/decisions/0020-publishing.md says why that is enough.
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

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Expired:
    """What `expire` has removed.

    Attributes:
        versions: numbers of the versions.
        files: number of data files and leftovers.
        bytes: their size.
    """

    versions: tuple[int, ...]
    files: int
    bytes: int

    def to_json(self) -> dict[str, Any]:
        """Return the result as plain JSON values."""
        return {**asdict(self), "versions": list(self.versions)}


def expire(
    path: Place,
    *,
    retain: Duration = HOUR,
    keep: int = 1,
    storage_options: Mapping[str, Any] | None = None,
) -> Expired:
    """Remove old versions of a store, and files of builds that were killed.

    A version is removed if another replaced it at least `retain` ago, and the build of that one has
    ended; a reader of the old one must be done by then, or have its files open locally. Then data
    files are removed that no remaining version names and that are older than `retain`; they stay
    while a build runs, or up to a day after one was killed. Temporary files stay for a day.

    Args:
        path: the store's folder, URI or location, or the store itself.
        retain: how long a replaced version stays: a timedelta, seconds, or a text such as `"1h"`.
        keep: how many of the newest versions stay in any case, at least 1.
        storage_options: of a URI, as of `lookupstore.Location`.

    Raises:
        FileNotFoundError: there is no such folder.
        FormatError: the folder is not a store.
        CorruptionError: a manifest contradicts itself; nothing is removed.
        ValueError: an argument out of range.

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
    try:
        remove_void(location, names)
    except OSError as error:
        _log.warning("%s: a version that is void was not removed: %s", location.uri, error)
    now = time.time()
    manifests, gone = replaced_versions(location, now, seconds, keep)
    removed: list[Manifest] = []
    for old in gone:
        if not delete_unneeded(location, name_of(old).file):
            break  # the newer ones stay, too: the oldest goes first
        removed.append(old)
    remaining = [manifest for manifest in manifests if manifest not in removed]
    files = [
        file
        for file in unnamed_files(location, remaining, now, seconds)
        if delete_unneeded(location, file.name)
    ]
    return Expired(
        tuple(old.version for old in removed), len(files), sum(file.bytes for file in files)
    )


def names_all_in_use(
    location: Location, manifests: Sequence[Manifest], own_mark: str | None = None
) -> bool:
    """Return whether some versions name all data files that are, or will be, in use.

    Args:
        location: where the store is.
        manifests: all versions that there were before the caller looked for files.
        own_mark: of a build of the caller.
    """
    if running_builds(location, own_mark):
        _log.info("%s: a build is running, so data files are kept", location.uri)
        return False
    # A build that has begun since the marks were read may use a version that came, and even went,
    # after ours were read. As long as the newest of ours is there, none that came has gone.
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
    """Return the versions of a store, and those of them that are to go, the oldest first.

    A version that was there before the marks were read, and is there after that, without a mark of
    its own, is one that its publisher does not take back any more.
    """
    before = {file.name: file.modified for file in location.files(VERSIONS_FOLDER)}
    made = running_builds(location) if len(before) >= keep else {}
    manifests = read_versions(location)
    gone: list[Manifest] = []
    newer, replaced = 0, math.inf
    for manifest in reversed(manifests):
        if newer >= keep and now - replaced >= seconds:
            gone.insert(0, manifest)
        file = name_of(manifest).file
        if file in before and manifest.id not in made.values():
            newer += 1
            # Whoever stood still after that time was stated replaced others when it wrote.
            written = math.floor(before[file] or 0)
            replaced = min(replaced, max(manifest.created_at.timestamp(), written))
    return manifests, gone


def unnamed_files(
    location: Location, manifests: Sequence[Manifest], now: float, seconds: float
) -> list[FoundFile]:
    """Return the files that no version names, if nobody runs who may be about to name them."""
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
    # After the look for files: whoever made one of them had its mark before.
    return old if names_all_in_use(location, manifests) else []


def _is_older(file: FoundFile, moment: float) -> bool:
    return file.modified is not None and file.modified <= moment


def delete_unneeded(location: Location, name: str) -> bool:
    """Delete a file that does no harm if it stays, which is logged; return whether it is gone."""
    try:
        location.delete(name)
    except OSError as error:
        _log.warning("%s: could not remove %s, no longer needed: %s", location.uri, name, error)
        return False
    return True
