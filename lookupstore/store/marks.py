"""Marks of versions that are being made: hidden files, there until a publisher knows what stays.

docs/decisions/0020-publishing.md says what they are for.
"""

from __future__ import annotations

import re
import time
from datetime import timedelta

from lookupstore.storage.location import Location
from lookupstore.store.manifest import DATA_FOLDER

# A mark, or a temporary file, older than that was left by a process that was killed.
MARK_AGE = timedelta(days=1)

# Of a build, and of the version that it makes if that has another identity.
_MARK = re.compile(rf"{DATA_FOLDER}/\.([0-9a-f]{{32}})(?:-([0-9a-f]{{32}}))?-runs")


def mark_name(build_id: str, version_id: str | None = None) -> str:
    """Return the name of the hidden file that is there while a version is made."""
    both = build_id if version_id in (None, build_id) else f"{build_id}-{version_id}"
    return f"{DATA_FOLDER}/.{both}-runs"


def running_builds(location: Location, own_mark: str | None = None) -> dict[str, str]:
    """Return the marks of builds that run, with the identity of the version that each makes."""
    dead = time.time() - MARK_AGE.total_seconds()
    return {
        mark: version
        for mark, (version, modified) in _marks(location).items()
        if mark != own_mark and not (modified is not None and modified <= dead)
    }


def unsettled(location: Location) -> set[str]:
    """Return the identities of versions that have a mark, of whatever age.

    A version that was there before this look, and still is after it, is settled if it has none: its
    publisher does not take it back any more.
    """
    return {version for version, _ in _marks(location).values()}


def _marks(location: Location) -> dict[str, tuple[str, float | None]]:
    return {
        file.name: (match[2] or match[1], file.modified)
        for file in location.files(DATA_FOLDER)
        if (match := _MARK.fullmatch(file.name))
    }
