"""When folders are put on disk, and what is in them then."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest


def synced_folders(patch: pytest.MonkeyPatch) -> list[tuple[Path, set[str]]]:
    """Record each folder that is synced from now on, with the names that it has at that moment."""
    found: list[tuple[Path, set[str]]] = []

    def fsync(descriptor: int) -> None:
        if stat.S_ISDIR(os.fstat(descriptor).st_mode):
            folder = Path(f"/proc/self/fd/{descriptor}").readlink()
            found.append((folder, set(os.listdir(descriptor))))

    patch.setattr(os, "fsync", fsync)
    return found
