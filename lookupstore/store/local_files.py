"""What is below lookups: files of this host, of which the package counts what they read.

Users see lookups only. Who runs them for others, such as tasks of Spark, also wants to know what
they cost, and gives up room on the disk that others need.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

from lookupstore.hostcache.counts import Counts
from lookupstore.keys.lookups import Lookups


class LocalFiles(ABC):
    """Files of this host that answer lookups."""

    @abstractmethod
    def counts(self) -> Counts:
        """Return what lookups of this process have read of the files, and fetched for them."""

    @abstractmethod
    def share_room(self) -> None:
        """Release local copies if room for others is getting short; the next lookup pins them.

        Call it where lookups are seldom.
        """

    @abstractmethod
    def release(self) -> None:
        """Release all local copies; the next lookup pins them again."""


class LocalLookups(Lookups):
    """Lookups in files of this host."""

    _files: LocalFiles


def files_of(lookups: LocalLookups) -> LocalFiles:
    """Return the files that answer lookups."""
    return lookups._files
