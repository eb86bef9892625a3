"""When folders are put on disk, and what is in them then."""

from __future__ import annotations

import fcntl
import os
import stat
import sys
from pathlib import Path

import pytest


def synced_folders(patch: pytest.MonkeyPatch) -> list[tuple[Path, set[str]]]:
    """Record each folder that is synced from now on, with the names that it has at that moment."""
    found: list[tuple[Path, set[str]]] = []

    def fsync(descriptor: int) -> None:
        if stat.S_ISDIR(os.fstat(descriptor).st_mode):
            found.append((path_of(descriptor), set(os.listdir(descriptor))))

    patch.setattr(os, "fsync", fsync)
    return found


def path_of(descriptor: int) -> Path:
    """Return the path of an open folder."""
    if sys.platform == "darwin":
        found = fcntl.fcntl(descriptor, fcntl.F_GETPATH, bytes(1024))
        return Path(os.fsdecode(found.rstrip(b"\0")))
    return Path(f"/proc/self/fd/{descriptor}").readlink()
