"""Fetch the files of a newer version in the background, while the open one answers.

Of a compacted bucket all bytes are new, and the first lookups in it would wait for them. So a
thread fetches what the host does not have, and the newer version is handed over when all is here.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import Generic, TypeVar

from lookupstore.errors import LookupStoreError

S = TypeVar("S")

_log = logging.getLogger(__name__)


class Refresh(Generic[S]):
    """One newer version on its way to this host.

    Args:
        newer: the version, open.
        name: of it, for logs.
        fetch: brings its files; it returns soon after its argument says that it is to stop.
    """

    def __init__(self, newer: S, name: str, fetch: Callable[[threading.Event], None]) -> None:
        self._newer = newer
        self._name = name
        self._fetch = fetch
        self._stop = threading.Event()
        self._is_here = False
        self._thread = threading.Thread(target=self._run, name="lookupstore-refresh", daemon=True)
        self._thread.start()

    @property
    def ended(self) -> bool:
        """Return whether nothing is fetched any more; also in a child of fork."""
        return not self._thread.is_alive()

    @property
    def newer(self) -> S:
        """Return the newer version, open."""
        return self._newer

    @property
    def is_here(self) -> bool:
        """Return whether all that was to be fetched is on this host."""
        return self._is_here

    def cancel(self) -> None:
        """Stop fetching, and wait until the request that runs has ended."""
        self._stop.set()
        if self._thread is not threading.current_thread():
            self._thread.join()

    def _run(self) -> None:
        try:
            self._fetch(self._stop)
            self._is_here = not self._stop.is_set()
        except (LookupStoreError, OSError) as error:
            _log.warning("%s: not fetched: %s", self._name, error)
