"""The interface of files that answer lookups on this host, and the counts of what they read.

Users see only lookups. Callers that run lookups for others, such as Spark tasks, also need to know
what the lookups cost, and release disk space that others need.
"""

from __future__ import annotations

import os
import threading
import weakref
from abc import ABC, abstractmethod

import pyarrow as pa

from lookupstore.hostcache.counts import Counts
from lookupstore.keys.lookups import Lookups
from lookupstore.store._points import KeyCounts

_all: weakref.WeakSet[VersionCounts] = weakref.WeakSet()


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


class VersionCounts:
    """The counts of lookups that took each other's place, such as the versions of a store.

    Args:
        first: The first of these lookups.
    """

    def __init__(self, first: LocalLookups) -> None:
        self._lock = threading.Lock()
        # Sum of the counts of lookups that are gone, and the others: always replaced together.
        self._state: tuple[dict[str, int], tuple[_Counted, ...]] = ({}, ())
        _all.add(self)
        self.add(first)

    def add(self, lookups: LocalLookups) -> None:
        """Add lookups, which are counted until their last one."""
        counted = _Counted(lookups._key_counts, lookups._files)
        weakref.finalize(lookups, counted.end).atexit = False
        with self._lock:
            past, present = self._state
            kept = [counted]
            for one in present:
                if one.has_ended:
                    past = _sum(past, one.stats())
                else:
                    kept.append(one)
            self._state = past, tuple(kept)

    def stats(self) -> dict[str, int]:
        """Return the sum of the counts."""
        past, present = self._state
        for one in present:
            past = _sum(past, one.stats())
        return past

    def after_fork(self) -> None:
        """Replace a lock that a thread of the parent may have held."""
        self._lock = threading.Lock()


class _Counted:
    """The counts of lookups, also after these are gone."""

    def __init__(self, keys: KeyCounts, files: LocalFiles) -> None:
        self._keys = keys
        self._files: LocalFiles | None = files
        self._last: dict[str, int] = {}

    @property
    def has_ended(self) -> bool:
        return self._files is None

    def end(self) -> None:
        """Keep the counts without the files. It may be called at any moment, and takes no lock."""
        self._last = self.stats()
        self._files = None

    def stats(self) -> dict[str, int]:
        files = self._files
        return self._last if files is None else _stats(self._keys, files)


class LocalLookups(Lookups):
    """Lookups in files of this host."""

    _files: LocalFiles
    # None: these lookups took no others' place, and none took theirs.
    _versions: VersionCounts | None = None

    @property
    @abstractmethod
    def _key_counts(self) -> KeyCounts:
        """Return the counts of the keys of all lookups."""

    def _count(self, present: pa.BooleanArray) -> None:
        """Count the keys of a call, from whether each has a row."""
        self._key_counts.add(len(present), len(present) - present.true_count)

    def stats(self) -> dict[str, int]:
        """Return what the lookups of this object have done in this process, for metrics.

        The counts only grow, and continue after `close`. Lookups that `newest`, `refresh` or `sync`
        returned have the same counts as those before them, added up. The child of a fork continues
        the counts of its parent. What scans read is not counted.

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
        versions = self._versions
        return _stats(self._key_counts, self._files) if versions is None else versions.stats()

    def _goes_on_in(self, newer: LocalLookups) -> None:
        """Add the counts of newer lookups to those of these."""
        if self._versions is None:
            self.__dict__.setdefault(
                "_versions", VersionCounts(self)
            )  # another thread may be first
        assert self._versions is not None
        newer._versions = self._versions
        self._versions.add(newer)

    def counts_with(self, other: LocalLookups) -> bool:
        """Return whether `stats` of these and of other lookups are the same counts."""
        return self is other or (self._versions is not None and self._versions is other._versions)


def _stats(keys: KeyCounts, files: LocalFiles) -> dict[str, int]:
    read = files.counts()
    return {
        "keys": keys.keys,
        "misses": keys.missing,
        "filter_negatives": read.filter_negatives,
        "blocks_read": read.blocks_read,
        "bytes_read": read.bytes_read,
        "bytes_fetched": read.bytes_fetched,
        "range_requests": read.range_requests,
        "retries": read.retries,
    }


def _sum(one: dict[str, int], other: dict[str, int]) -> dict[str, int]:
    return {name: count + one.get(name, 0) for name, count in other.items()}


def files_of(lookups: LocalLookups) -> LocalFiles:
    """Return the files that answer lookups."""
    return lookups._files


def _after_fork() -> None:
    for counts in _all:
        counts.after_fork()


os.register_at_fork(after_in_child=_after_fork)
