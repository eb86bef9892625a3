"""Lookup tables for large files that the processes of a host share, stored next to local copies.

`lookupstore.sst.shared` describes these files. A process that finds none, or a damaged one, makes
it again.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from contextlib import suppress

from lookupstore.hostcache.folder import CLAIM, COPY, MAKING, HostFolder, is_claimed
from lookupstore.hostcache.lookup_files import LookupFiles, PinnedLookupFile
from lookupstore.hostcache.own_folder import make_own_file, make_own_folder


class SharedTables:
    """The files of a host that hold lookup tables for other files.

    Args:
        folder: Folder of the host's files.
        files: Its lookup files, among which these are kept.
    """

    def __init__(self, folder: HostFolder, files: LookupFiles) -> None:
        self._folder = folder
        self._files = files
        self._claims: dict[str, int] = {}  # time set by this process, in nanoseconds

    def pin(self, name: str) -> PinnedLookupFile | None:
        """Return a pinned file. None: the host does not have it.

        Args:
            name: Name of the file, 32 hexadecimal digits.

        Raises:
            OSError: The folder cannot be written.
        """
        return self._files.pin(name) if self._files.has(name) else None

    def claim(self, name: str) -> bool:
        """Return whether this process is to make a file that no other process has claimed.

        A claim expires after `CLAIM_SECONDS`, unless another call renews it, and after
        `MOST_CLAIM_SECONDS` in any case.

        Raises:
            OSError: The folder cannot be written.
        """
        self._folder.make()
        folder = os.path.join(self._folder.path, MAKING, f"{name}{COPY}")  # the folder of its maker
        make_own_folder(folder)
        path = os.path.join(folder, CLAIM)
        now = time.time_ns()
        if not self._is_own(name, path):
            if is_claimed(folder):
                return False
            with suppress(FileNotFoundError):
                os.unlink(path)
        make_own_file(path)
        os.utime(path, ns=(now, now))
        self._claims[name] = now
        return True

    def _is_own(self, name: str, path: str) -> bool:
        """Return whether a claim was last renewed by this process."""
        try:
            return os.stat(path).st_mtime_ns == self._claims.get(name)
        except FileNotFoundError:
            return False

    def make(self, name: str, nbytes: int, write: Callable[[str], None]) -> None:
        """Make a file with bytes that `write` writes to a path, unless the host has it.

        Raises:
            DiskQuotaError: It is larger than the quota, or files in use leave no room.
            OSError: The folder cannot be written.
        """
        self._claims.pop(name, None)
        self._files.make(name, nbytes, lambda path, _: write(path)).close()

    def discard(self, name: str) -> None:
        """Remove a damaged file; processes that have mapped it keep it."""
        self._files.discard(name)
