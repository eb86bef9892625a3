"""Marks of versions that are being made: hidden files that exist until the version is settled.

docs/decisions/0020-publishing.md explains their purpose.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from datetime import timedelta
from typing import NamedTuple

from lookupstore.storage.location import Location
from lookupstore.store.manifest import DATA_FOLDER

# Age from which a mark, or a temporary file, is considered left by a process that was killed.
MARK_AGE = timedelta(days=1)

# Identity of the build, identity of its version if that differs, and the suffix of a change.
_MARK = re.compile(
    rf"{DATA_FOLDER}/\.([0-9a-f]{{32}})(?:-([0-9a-f]{{32}}))?(-change)?-runs"
)  # fmt: skip


class Mark(NamedTuple):
    """A mark of a version that is being made.

    Attributes:
        name: Name of the file.
        version: Identity of the version.
        is_change: Whether the version may replace one version only, because it is a change of that
            version.
        modified: Time at which it was made, in seconds since 1970. None: unknown.
    """

    name: str
    version: str
    is_change: bool
    modified: float | None


def mark_name(build_id: str, version_id: str | None = None, *, change: bool = False) -> str:
    """Return the name of the hidden file that is there while a version is made."""
    both = build_id if version_id in (None, build_id) else f"{build_id}-{version_id}"
    return f"{DATA_FOLDER}/.{both}{'-change' if change else ''}-runs"


def is_mark(name: str) -> bool:
    """Return whether a file is a mark, by its name."""
    return _MARK.fullmatch(name) is not None


def running_builds(location: Location, own_mark: str | None = None) -> dict[str, str]:
    """Return the marks of builds that run, with the identity of the version that each makes."""
    running = running_marks(location)
    return {mark.name: mark.version for mark in running if mark.name != own_mark}


def running_marks(location: Location) -> list[Mark]:
    """Return the marks that were not left by dead builds."""
    dead = time.time() - MARK_AGE.total_seconds()
    return [one for one in marks(location) if one.modified is None or one.modified > dead]


def marks(location: Location) -> Iterator[Mark]:
    """Yield all marks, regardless of their age.

    A version that existed before this listing, and still exists after it, is settled if it has no
    mark: its publisher has decided to keep it.
    """
    for file in location.files(DATA_FOLDER):
        match = _MARK.fullmatch(file.name)
        if match:
            version = match[2] or match[1]
            yield Mark(file.name, version, match[3] is not None, file.modified)
