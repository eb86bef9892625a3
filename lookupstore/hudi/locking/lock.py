"""The lock of a table: one holds it, shows that it lives, and loses it when it does not.

It is held in each place where a writer in Java has its own (`places`): while one of ours holds it,
that writer waits, and the other way round. The places are taken one after the other, always in the
same order. Whoever finds one taken gives back those before it, and waits with none.

An owner that is known to be dead loses the lock at once: on the same machine, its process is gone.
From another machine it is known to be dead when it did not renew the lock for as long as it said
that it would, by the clock of the one who waits: nobody's clock is compared with another's. A lock
that another program made is never taken over, but where its own protocol says when that is right.
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

#: How long one waits for the lock of another, in seconds.
WAIT = 120.0
#: How long one waits between two looks at the lock of another, in the end.
LAST_PAUSE = 0.5

_FIRST_PAUSE = 0.01
# Of the timeline, and made under the lock.
_COMPLETED = re.compile(r"\d+(_\d+)?\.(?!inflight)[a-z]+")


class TableLock:
    """The lock of a table; made by `table_lock`.

    Attributes:
        owner: who holds it.
    """

    def __init__(self, location: Location, owner: Owner, lease: float) -> None:
        self.owner = owner
        self._location = location
        self._lease = lease
        self._places = places_of(location, owner, self._record)
        self._held: list[Place] = []
        self._renewals = 0
        self._renewed = 0.0
        # A renewal changes what the lock is known by.
        self._mutex = threading.Lock()

    def check(self) -> None:
        """Make sure that the lock is still held; what follows at once is done under it.

        Raises:
            LockLostError: it was not renewed in time, or is another's.
        """
        shown = self._places[0].shown
        if os.getpid() != self.owner.pid:
            raise LockLostError(f"{shown}: held by process {self.owner.pid}, not by this one")
        with self._mutex:
            for place in self._held:
                if not place.file.is_ours():
                    raise LockLostError(f"{place.shown}: another writer has it now, or deleted it")
            # What follows takes time, and on an object store nobody can be kept from taking the
            # lock meanwhile.
            late = time.monotonic() - self._renewed
            if late > self._lease / 2:
                raise LockLostError(f"{shown}: not renewed for {late:.1f} s")

    def now(self) -> float | None:
        """Return the time where the table is, in seconds since 1970; None: unknown.

        It is when the lock was renewed: ages of other files there are told from it.
        """
        with self._mutex:
            self._renew()
        name = self._places[0].name
        folder = name.rpartition("/")[0]
        names = {file.name: file.modified for file in self._location.files(folder)}
        return names.get(name)

    def acquire(self, wait: float) -> None:
        """Take the lock, and wait for it if another writer has it.

        Raises:
            LockedError: it was not free, nor its owner known to be dead, in that time.
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
            # Of owners that lost the lock while they stood still: from here on they complete
            # nothing. On S3 nothing is half done, and a put is over before the lease is.
            for name, final in self._location.unfinished().items():
                if _COMPLETED.fullmatch(final):
                    self._location.delete(name)
        except BaseException:
            with suppress(Exception):
                self.release()
            raise

    def _take(self) -> Place | None:
        """Take all places, or none and return the first that another has."""
        for place in self._places:
            if not place.take():
                self.release()
                return place
            self._held.append(place)
        self._renewed = self._held[0].began
        return None

    def renew(self) -> bool:
        """Show that the owner lives; return False if the lock is another's."""
        with self._mutex:
            return self._renew()

    def release(self) -> None:
        """Release the lock, last what was taken first, where it is not another writer's now."""
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
        location: of the table.
        wait: how long to wait for another that has it, in seconds. To take over the lock of a dead
            owner on another machine takes the lease that this one gave itself.
        lease: how long the lock lasts without a renewal, which a thread sees to.
        owner: who wants it; None: this process.

    Raises:
        LockedError: another had it all the time.
        FormatError: the file system has no way to make a file only if it is not there.
        ValueError: `wait` is below 0, or `lease` not above it.

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
                    # Who stood still finds that whoever took the lock over has done the same.
                    lock.check()
                    raise
        except BaseException:
            # What went wrong in the block is the error, not what follows from it.
            with suppress(Exception):
                lock.release()
            raise
        # What was done under it is done; a lock that stays is that of a dead owner.
        with suppress(Exception):
            lock.release()


def check_place(location: Location) -> None:
    """Check that writers of a table at a location can be kept apart.

    Raises:
        FormatError: they cannot: files there are not made on the condition that there is none.
        ImportError: on an object store, obstore is not installed.
    """
    if not location.creates_once:
        raise FormatError(
            f"{location.uri}: tables cannot be locked here: pyarrow cannot create a file only "
            "if it does not exist on this file system; write to tables on local disks, S3, Azure "
            "or Google Cloud Storage"
        )
    location.check_creates_once(META_FOLDER)
