"""Remove versions of a store that nobody can be reading, and files that no version names.

The rule for readers: who has opened a version may go on for `retain` after the next one was
published. After that its files may be gone; those that a reader has open locally stay readable.

The order makes a killed removal harmless: first the files of versions, then data files that no
remaining version names. It also keeps out of the way of publishers, who mark that they run before
they look at the newest version, and publish before they remove the mark: while a mark is there, no
data file goes, and when none is, versions are listed once more.
"""

from __future__ import annotations

import itertools
import logging
import re
import time
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from datetime import timedelta
from typing import Any

from lookupstore.location import FoundFile, Location
from lookupstore.manifest import DATA_FOLDER
from lookupstore.quantities import Duration, seconds_of
from lookupstore.versions import Place, located, name_of, named_files, read_versions

HOUR = timedelta(hours=1)
# A mark older than that was left by a publisher that was killed.
MARK_AGE = timedelta(days=1)

_MARK_END = "-runs"
# A file, or what is in a folder, that was to get its name when it is complete.
_TEMPORARY = re.compile(r"(^|/)\.[^/]*\.tmp(/|$)")

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
) -> Expired:
    """Remove old versions of a store, and files of builds that were killed.

    A version goes when another replaced it at least `retain` ago; a reader that has it open must be
    done by then, or hold its files open locally. Then data files go that no remaining version names
    and that are older than `retain`; they stay while a build runs, or up to a day after one was
    killed.

    Args:
        path: the store's folder, URI or location, or the store itself.
        retain: how long a replaced version stays: a timedelta, seconds, or a text such as `"1h"`.
        keep: how many of the newest versions stay in any case, at least 1.

    Raises:
        FileNotFoundError: there is no such folder.
        FormatError: the folder is no store.
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
    location = located(path)
    now = time.time()
    manifests = read_versions(location)
    beyond_keep = itertools.islice(itertools.pairwise(manifests), max(0, len(manifests) - keep))
    gone = [old for old, new in beyond_keep if now - new.created_at.timestamp() >= seconds]
    removed = [old for old in gone if delete_unneeded(location, name_of(old).file)]
    files = [
        file for file in _unnamed(location, now - seconds) if delete_unneeded(location, file.name)
    ]
    return Expired(
        tuple(old.version for old in removed), len(files), sum(file.bytes for file in files)
    )


def mark_name(build_id: str) -> str:
    """Return the name of the hidden file that is there while a version is made."""
    return f"{DATA_FOLDER}/.{build_id}{_MARK_END}"


def builds_run(files: Iterable[FoundFile], own: str | None = None) -> bool:
    """Return whether the mark of a build, other than one's own, is among the files of a store."""
    before = time.time() - MARK_AGE.total_seconds()
    return any(
        file.name.endswith(_MARK_END) and file.name != own and not _is_older(file, before)
        for file in files
    )


def _unnamed(location: Location, before: float) -> list[FoundFile]:
    """Return the files that no version names, if nobody runs who may be about to name them."""
    held = [
        file
        for file in location.files(recursive=True)
        if file.name.startswith(f"{DATA_FOLDER}/") or _TEMPORARY.search(file.name)
    ]
    if builds_run(held):
        _log.info("%s: a build is running, so data files are kept", location.uri)
        return []
    # After the look for marks: whoever had one, and has none now, has published.
    named = named_files(location)
    return [file for file in held if file.name not in named and _is_older(file, before)]


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
