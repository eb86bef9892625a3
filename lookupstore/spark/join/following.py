"""Choose the open version of a store that answers in a worker while a compacted one is fetched.

A compaction changes files, but no rows. While a host fetches the files of a compacted version, its
workers answer from the version before, if the host has all of it; workers that start meanwhile do
the same. All tasks of a query have the same answers from either version.
"""

from __future__ import annotations

import functools
import logging
import threading

from lookupstore.errors import LookupStoreError, StaleStoreError
from lookupstore.storage.location import Location
from lookupstore.store.refreshing import Refresh
from lookupstore.store.standing_in import can_stand_in, fetch_all, is_here, parent_here
from lookupstore.store.store import LookupStore

#: Maximum number of open stores of a worker, which serves many queries; further stores are closed.
STORES_KEPT = 16

_log = logging.getLogger(__name__)


class Following:
    """The versions of one store that answer in this process, one after the other."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._answering: LookupStore | None = None
        self._coming: Refresh[LookupStore] | None = None

    def answering(self, chosen: LookupStore) -> LookupStore:
        """Return the store that answers instead of a chosen version, with the same rows."""
        with self._lock:
            older = self._answering
            if older is None:
                older = _before(chosen)
            if older is not None and older is not chosen and self._goes_on(older, chosen):
                self._answering = older
                return older
            self._answering, self._coming = chosen, None
            return chosen

    def _goes_on(self, older: LookupStore, chosen: LookupStore) -> bool:
        """Return whether the previous version still answers; begin to fetch the chosen one."""
        coming = self._coming
        if coming is not None and coming.newer is chosen:
            # Copies of the older version may have been evicted in favor of the new ones.
            return not coming.ended and is_here(older)
        try:
            if not can_stand_in(older, chosen):
                return False
        except (OSError, LookupStoreError) as error:
            _log.warning("%s: version %d answers at once: %s", chosen.path, chosen.version, error)
            return False
        # A fetch of another version continues: its files may be needed for this version, too.
        self._coming = fetch_all(chosen)
        return True


def _before(chosen: LookupStore) -> LookupStore | None:
    """Return the parent of a version, if another worker has fetched it to this host."""
    try:
        name = parent_here(chosen)
        if name is None:
            return None
        return opened_version(chosen.location, name.number, name.id)
    except (OSError, LookupStoreError) as error:
        _log.warning("%s: version %d answers at once: %s", chosen.path, chosen.version, error)
        return None


@functools.lru_cache(maxsize=STORES_KEPT)
def opened_version(location: Location, version: int, store_id: str) -> LookupStore:
    """Open a version of a store, once per process."""
    try:
        store = LookupStore(location, version=version)
    except FileNotFoundError as error:
        raise StaleStoreError(
            f"{error}; the join was planned on it: call lookup_join again, or retain versions for "
            "longer"
        ) from None
    if store.id != store_id:
        store.close()
        raise StaleStoreError(
            f"{location.uri}: replaced since the join was planned (it was {store_id}, now it is "
            f"{store.id}); call lookup_join again"
        )
    return store


@functools.lru_cache(maxsize=STORES_KEPT)
def warmed_version(location: Location, version: int, store_id: str) -> None:
    """Prepare the lookups of a version of a store, once per process.

    The processes of a host share the work: the first one does it.
    """
    opened_version(location, version, store_id).warm(progress=False)


@functools.lru_cache(maxsize=64)
def following(location: Location) -> Following:
    """Return the follower of the versions of a store in this process."""
    return Following()
