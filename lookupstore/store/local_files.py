"""The interface of files that answer lookups on this host, and the counts of what they read.

Users see only lookups. Callers that run lookups for others, such as Spark tasks, also need to know
what the lookups cost, and release disk space that others need.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

import pyarrow as pa

from lookupstore.hostcache.counts import Counts
from lookupstore.keys.lookups import Lookups
from lookupstore.store._points import KeyCounts


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

    @property
    @abstractmethod
    def _key_counts(self) -> KeyCounts:
        """Return the counts of the keys of all lookups."""

    def _count(self, present: pa.BooleanArray) -> None:
        """Count the keys of a call, from whether each has a row."""
        self._key_counts.add(len(present), len(present) - present.true_count)

    def stats(self) -> dict[str, int]:
        """Return what the lookups of this object have done in this process, for metrics.

        The counts only grow, and continue after `close`. What scans read is not counted.

        Returns:
            Counts by name: `keys` that were looked up, repeated and null ones among them; `misses`,
            those without a row; `filter_negatives`, the missing keys of batches that needed no
            block; `blocks_read` and `bytes_read`, the blocks that were read and checked for the
            first time, from disk or the page cache; `bytes_fetched`, `range_requests` and
            `retries` of remote storage. All are 0 at first.

        >>> import tempfile, lookupstore
        >>> table = {"id": [7], "name": ["seven"]}
        >>> store = lookupstore.build(table, tempfile.mkdtemp(), key="id")
        >>> store.lookup([7, 8, None]).num_rows, store.get(9)
        (3, None)
        >>> store.stats()["keys"], store.stats()["misses"]
        (4, 3)
        """
        read = self._files.counts()
        return {
            "keys": self._key_counts.keys,
            "misses": self._key_counts.missing,
            "filter_negatives": read.filter_negatives,
            "blocks_read": read.blocks_read,
            "bytes_read": read.bytes_read,
            "bytes_fetched": read.bytes_fetched,
            "range_requests": read.range_requests,
            "retries": read.retries,
        }


def files_of(lookups: LocalLookups) -> LocalFiles:
    """Return the files that answer lookups."""
    return lookups._files
