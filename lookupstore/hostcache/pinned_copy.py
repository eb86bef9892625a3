"""``PinnedCopy``: a local copy that is not evicted while it is in use."""

from __future__ import annotations

import os
import time
from types import TracebackType

from lookupstore.errors import ClosedError, CorruptionError
from lookupstore.hostcache.copy import LocalCopy
from lookupstore.hostcache.counts import Counts
from lookupstore.hostcache.folder import plain_of


class PinnedCopy:
    """A pinned local copy: it is not evicted before `close`.

    Its bytes may still be coming: who reads it gives `fill` to its reader. A child of fork may use
    it. The copy stays pinned while any reader of it is open.

    Attributes:
        path: of the local file.
        uri: of the object, without credentials.
        nbytes: size of both.
        xxh64: hash of both.
    """

    def __init__(self, held: LocalCopy) -> None:
        self.path: str = held.path
        self.uri: str = held.name
        self.nbytes: int = held.remote.nbytes
        self.xxh64: str = held.xxh64
        self._copy: LocalCopy | None = held
        self._before = _fetched_with(held)
        held.users.add(id(self))

    def _pinned(self) -> LocalCopy:
        if self._copy is None:
            raise ClosedError(f"{self.uri}: the local copy was released")
        return self._copy

    @property
    def fill(self) -> LocalCopy:
        """Return what brings bytes before they are read, and again where they are wrong."""
        return self._pinned()

    @property
    def complete(self) -> bool:
        """Return whether all of it is here, and its hash is the right one."""
        try:
            return self._pinned().latest().complete
        except CorruptionError:
            return False

    @property
    def recoded(self) -> bool:
        """Return whether it has the records of the file, but not its bytes."""
        return self._pinned().recoded

    @property
    def outdated(self) -> bool:
        """Return whether the next `pin` gives a recoded copy in place of this one."""
        copy = self._pinned()
        return not copy.recoded and os.path.exists(plain_of(copy.path))

    @property
    def descriptors(self) -> int:
        """Return how many descriptors it takes: of the file, its map, and the object."""
        return 1 if self._pinned().chunks is None else 3

    @property
    def error(self) -> Exception | None:
        """Return what ended the last download of this process, if it failed."""
        try:
            return self._pinned().latest().error
        except CorruptionError as error:
            return error

    @property
    def counts(self) -> Counts:
        """Return what this process has fetched for it since it was pinned."""
        return _fetched_with(self._pinned()) - self._before

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until all of it is here; return whether it is.

        Args:
            timeout: most seconds to wait; None: until it is here or has failed.

        Raises:
            CorruptionError: the object is not what the manifest says.
            OSError: the object store does not give it, or the disk is full.
        """
        until = None if timeout is None else time.monotonic() + timeout
        while not (copy := self._pinned().latest()).complete:
            copy.download()
            if copy.error is not None:
                raise copy.error
            if until is not None and time.monotonic() >= until:
                return False
            time.sleep(0.01)
        return True

    def discard(self) -> None:
        """Remove a recoded copy that is damaged, so that the next `pin` begins with the object."""
        self._pinned().discard()

    def close(self) -> None:
        """Release the copy; closing it again does nothing."""
        copy, self._copy = self._copy, None
        if copy is not None:
            copy.users.discard(id(self))

    def __del__(self) -> None:
        if hasattr(self, "_copy"):
            self.close()

    def __enter__(self) -> PinnedCopy:
        self._pinned()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<PinnedCopy of {self.uri} in {self.path}>"


def _fetched_with(copy: LocalCopy) -> Counts:
    remote = copy.remote
    return Counts(
        bytes_fetched=remote.nbytes_read, range_requests=remote.requests, retries=remote.retries
    )
