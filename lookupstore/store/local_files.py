"""The interface of files that answer lookups on this host, and the counts of what they read.

Users see only lookups. Callers that run lookups for others, such as Spark tasks, also need to know
what the lookups cost, and release disk space that others need.
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
        """Release local copies if the host cache is getting full; the next lookup pins them.

        Call it where lookups are rare.
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
