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
    """A local copy that is not evicted before `close`.

    Some of its bytes may be missing, so pass `fill` to its reader. A child of fork may use

    Attributes:
        path: Path of the local file.
        uri: URI of the object, without credentials.
        nbytes: Size of the object; a plain copy of a compressed file has another.
        xxh64: XXH64 of the object, 16 hexadecimal digits; a plain copy has another.
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
        """Return the function that fetches bytes before they are read, and repairs wrong ones."""
        return self._pinned()

    @property
    def complete(self) -> bool:
        """Return whether the whole copy is on this host, with the right hash."""
        try:
            return self._pinned().latest().complete
        except CorruptionError:
            return False

    @property
    def recoded(self) -> bool:
        """Return whether the copy has the records of the file, but not its bytes."""
        return self._pinned().recoded

    @property
    def outdated(self) -> bool:
        """Return whether the next `pin` returns a recoded copy instead of this one."""
        copy = self._pinned()
        return not copy.recoded and os.path.exists(plain_of(copy.path))

    @property
    def descriptors(self) -> int:
        """Return the number of its descriptors: of the file, its map, and the object."""
        return 1 if self._pinned().chunks is None else 3

    @property
    def error(self) -> Exception | None:
        """Return the error that ended the last download of this process. None: there was none."""
        try:
            return self._pinned().latest().error
        except CorruptionError as error:
            return error

    @property
    def counts(self) -> Counts:
        """Return the counts of what this process has fetched for it since it was pinned."""
        return _fetched_with(self._pinned()) - self._before

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until all of the copy is on this host, and return whether it is.

        Args:
            timeout: Longest time to wait, in seconds. Default: until the copy is complete or has
                failed.

        Raises:
            CorruptionError: The object does not have the bytes that the manifest records.
            OSError: The object store does not return the bytes, or the disk is full.
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
