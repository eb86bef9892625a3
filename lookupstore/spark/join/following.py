"""Which open version of a store answers in a worker, while a compacted one is on its way.

Of a compacted bucket all bytes are new, and no row is. So a worker that has the version before goes
on with that one, and fetches the new files in a thread: all tasks of a query answer the same,
whichever of the two they ask.
"""

from __future__ import annotations

import functools
import logging
import threading

from lookupstore.storage.location import Location
from lookupstore.store.refreshing import Refresh
from lookupstore.store.store import LookupStore, can_stand_in, fetch_newer

_log = logging.getLogger(__name__)


class Following:
    """The versions of one store that answer in this process, one after the other."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._answering: LookupStore | None = None
        self._coming: Refresh[LookupStore] | None = None

    def answering(self, chosen: LookupStore) -> LookupStore:
        """Return the store that answers in place of a chosen version, with the same rows."""
        with self._lock:
            if self._goes_on(chosen):
                assert self._answering is not None
                return self._answering
            self._answering, self._coming = chosen, None
            return chosen

    def _goes_on(self, chosen: LookupStore) -> bool:
        """Return whether the version that has answered goes on; begin to fetch the chosen one."""
        older, coming = self._answering, self._coming
        if older is None or older is chosen or chosen.location.in_place:
            return False
        if coming is None or coming.newer is not chosen:
            try:
                if not can_stand_in(older, chosen):
                    return False
            except OSError as error:
                _log.warning("%s: could not list its versions: %s", chosen.path, error)
                return False
            # One that brings an older version goes on: its files may be those of this one, too.
            self._coming = coming = fetch_newer(older, chosen)
        return not coming.ended


@functools.lru_cache(maxsize=64)
def following(location: Location) -> Following:
    """Return what follows the versions of a store in this process."""
    return Following()
