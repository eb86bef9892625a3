"""The lock of a table, which its owner renews, and loses without renewals.

The lock consists of all places where Java writers have their locks (`places`). While a lookupstore
writer holds it, Java writers wait, and the other way round. The places are taken one after the
other, always in the same order. A writer that finds one taken releases the earlier ones, and waits
without holding any.

A dead owner loses the lock at once. On the same machine, an owner is dead if its process is gone.
On another machine, it is dead if it did not renew the lock for the time that it announced, by the
clock of the waiting writer; clocks are not compared. A lock of another program is never taken over,
unless its own protocol allows it.
"""

from __future__ import annotations

import json
import os
import re
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress

from lookupstore.errors import FormatError, LockedError, LockLostError
from lookupstore.hudi.locking.owner import Owner
from lookupstore.hudi.locking.places import LEASE, Place, places_of
from lookupstore.hudi.locking.renewal import renewed
from lookupstore.hudi.options import META_FOLDER
from lookupstore.storage.location import Location

#: Default number of seconds to wait for a lock that another writer holds.
WAIT = 120.0
#: Longest pause in seconds between two attempts to take the lock.
LAST_PAUSE = 0.5

_FIRST_PAUSE = 0.01
# Files of the timeline that are made under the lock.
_COMPLETED = re.compile(r"\d+(_\d+)?\.(?!inflight)[a-z]+")


class TableLock:
    """The lock of a table; made by `table_lock`.

    Attributes:
        owner: Owner of the lock.
    """

    def __init__(self, location: Location, owner: Owner, lease: float) -> None:
        self.owner = owner
        self._location = location
        self._lease = lease
        self._places = places_of(location, owner, self._record)
        self._held: list[Place] = []
        self._renewals = 0
        self._renewed = 0.0
        # A renewal changes the identity of the lock.
        self._mutex = threading.Lock()

    def check(self) -> None:
        """Check that the lock is still held; act on it at once.

        Raises:
            LockLostError: If the lock was not renewed in time, or another writer has it.
        """
        shown = self._places[0].shown
        if os.getpid() != self.owner.pid:
            raise LockLostError(f"{shown}: held by process {self.owner.pid}, not by this one")
        with self._mutex:
            for place in self._held:
                if not place.file.is_ours():
                    raise LockLostError(f"{place.shown}: another writer has it now, or deleted it")
            # The following steps take time, and on an object store another writer may take the lock
            # meanwhile.
            late = time.monotonic() - self._renewed
            if late > self._lease / 2:
                raise LockLostError(f"{shown}: not renewed for {late:.1f} s")

    def now(self) -> float | None:
        """Return the time on the file system of the table, in seconds since 1970, or None.

        It is the time of a renewal of the lock, from which ages of other files there can be
        computed. None: the time is unknown.
        """
        with self._mutex:
            self._renew()
        name = self._places[0].name
        folder = name.rpartition("/")[0]
        names = {file.name: file.modified for file in self._location.files(folder)}
        return names.get(name)

    def acquire(self, wait: float) -> None:
        """Take the lock, after waiting if another writer has it.

        Raises:
            LockedError: If the lock was not free within that time, and its owner was not known to
                be dead.
        """
        end = time.monotonic() + wait
        pause = _FIRST_PAUSE
        try:
            while (taken := self._take()) is not None:
                if time.monotonic() > end:
                    raise LockedError(
                        f"{taken.shown}: still locked by {taken.holder} after {wait:g} s; if that "
                        "writer is gone, delete the file"
                    )
                time.sleep(pause)
                pause = min(2 * pause, LAST_PAUSE)
            # Former owners that lost the lock while they paused cannot complete anything from here
            # on. On S3 no step is left half done, and a put ends before the lease does.
            for name, final in self._location.unfinished().items():
                if _COMPLETED.fullmatch(final):
                    self._location.delete(name)
        except BaseException:
            with suppress(Exception):
                self.release()
            raise

    def _take(self) -> Place | None:
        """Take all places, or none, and return the first place that another writer has."""
        for place in self._places:
            if not place.take():
                self.release()
                return place
            self._held.append(place)
        self._renewed = self._held[0].began
        return None

    def renew(self) -> bool:
        """Renew the lock; return False if another writer has it."""
        with self._mutex:
            return self._renew()

    def release(self) -> None:
        """Release the places of the lock that are still held, in reverse order."""
        with self._mutex, ExitStack() as stack:
            for place in self._held:
                stack.callback(place.give_back)
            self._held = []

    def _renew(self) -> bool:
        now = time.monotonic()
        self._renewals += 1
        is_ours = all([place.renew() for place in self._held])
        if is_ours:
            self._renewed = now
        return is_ours

    def _record(self) -> bytes:
        owner = json.loads(self.owner.to_json())
        return json.dumps({**owner, "lease": self._lease, "renewals": self._renewals}).encode()


@contextmanager
def table_lock(
    location: Location, *, wait: float = WAIT, lease: float = LEASE, owner: Owner | None = None
) -> Iterator[TableLock]:
    """Hold the lock of a table while the block runs; it is not reentrant.

    Args:
        location: Location of the table.
        wait: Seconds to wait while another writer holds the lock. The lock of a dead owner on
            another machine is taken over after the lease of that owner.
        lease: Seconds for which the lock lasts without a renewal. A thread renews it.
        owner: Owner of the lock. None: a new owner for this process.

    Raises:
        LockedError: If another writer held the lock all the time.
        FormatError: If the file system cannot create a file only if it does not exist.
        ValueError: If `wait` is below 0, or `lease` is not above 0.

    >>> import tempfile
    >>> with table_lock(Location(tempfile.mkdtemp())) as lock:
    ...     lock.check()
    """
    if wait < 0 or lease <= 0:
        raise ValueError(f"wait is {wait!r}, lease {lease!r}; give seconds, more than 0 for lease")
    check_place(location)
    owner = owner or Owner.here()
    with owner.at_work():
        lock = TableLock(location, owner, lease)
        lock.acquire(wait)
        try:
            with renewed(lock.renew, lease / 4):
                try:
                    yield lock
                except FileExistsError:
                    # A former owner that paused finds that the new owner has done the same.
                    lock.check()
                    raise
        except BaseException:
            # The error of the block is raised, not the errors that follow from it.
            with suppress(Exception):
                lock.release()
            raise
        # The work under the lock is done; a remaining lock is that of a dead owner.
        with suppress(Exception):
            lock.release()


def check_place(location: Location) -> None:
    """Check that the writers of a table at a location can exclude each other.

    Raises:
        FormatError: If the file system cannot create a file only if it does not exist.
        ImportError: If the location is on an object store, and obstore is not installed.
    """
    if not location.creates_once:
        raise FormatError(
            f"{location.uri}: tables cannot be locked here: pyarrow cannot create a file only "
            "if it does not exist on this file system; write to tables on local disks, S3, Azure "
            "or Google Cloud Storage"
        )
    location.check_creates_once(META_FOLDER)
