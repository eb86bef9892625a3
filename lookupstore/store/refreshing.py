"""Fetch the files of a newer version in the background, while the open version answers.

All bytes of a compacted bucket are new, and the first lookups in it would wait for them. Therefore
a thread fetches the files that the host lacks, and the newer version is returned once all of them
are on the host.
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
    """A newer version whose files are being fetched to this host.

    Args:
        newer: Newer version, open.
        name: Name of the version, for logs.
        fetch: Function that fetches its files, and returns soon after the event that is passed to
            it is set.
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
        """Return whether all files to be fetched are on this host."""
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
