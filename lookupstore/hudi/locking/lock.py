"""The lock of a table: one holds it, shows that it lives, and loses it when it does not.

It is Hudi's own lock file, where its lock provider for file systems has it by default: while one
of ours holds it, a Java writer with that provider waits, and the other way round.

An owner that is known to be dead loses the lock at once: on the same machine, its process is gone.
From another machine it is known to be dead when it did not renew the lock for as long as it said
that it would, by the clock of the one who waits: nobody's clock is compared with another's. A lock
that another program made is never taken over.
"""

from __future__ import annotations

import json
import os
import re
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from lookupstore.errors import CorruptionError, FormatError, LockedError, LockLostError
from lookupstore.hudi.locking.owner import MOST_BYTES, Owner, parse_owner
from lookupstore.hudi.locking.renewal import renewed
from lookupstore.hudi.options import META_FOLDER
from lookupstore.storage.json_text import parse_json
from lookupstore.storage.location import Location
from lookupstore.storage.lock_file import SeenLock

#: How long one waits for the lock of another, in seconds.
WAIT = 120.0
#: How long the lock lasts when it is not renewed.
LEASE = 30.0
#: How long one waits between two looks at the lock of another, in the end.
LAST_PAUSE = 0.5

_NAME = f"{META_FOLDER}/lock"
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
        self._shown = location.show(_NAME)
        self._lease = lease
        self._file = location.lock_file(_NAME)
        self._renewals = 0
        self._renewed = 0.0
        # A renewal changes what the lock is known by.
        self._mutex = threading.Lock()

    def check(self) -> None:
        """Make sure that the lock is still held; what follows at once is done under it.

        Raises:
            LockLostError: it was not renewed in time, or is another's.
        """
        if os.getpid() != self.owner.pid:
            raise LockLostError(f"{self._shown}: held by process {self.owner.pid}, not by this one")
        with self._mutex:
            if not self._file.is_ours():
                raise LockLostError(f"{self._shown}: another writer has it now")
            # What follows takes time, and on S3 nobody can be kept from taking the lock meanwhile.
            late = time.monotonic() - self._renewed
            if late > self._lease / 2:
                raise LockLostError(f"{self._shown}: not renewed for {late:.1f} s")

    def now(self) -> float | None:
        """Return the time where the table is, in seconds since 1970; None: unknown.

        It is when the lock was renewed: ages of other files there are told from it.
        """
        with self._mutex:
            self._renew()
        names = {file.name: file.modified for file in self._location.files(META_FOLDER)}
        return names.get(_NAME)

    def acquire(self, wait: float) -> None:
        """Take the lock, and wait for it if another writer has it.

        Raises:
            LockedError: it was not free, nor its owner known to be dead, in that time.
        """
        self._acquire(wait)
        try:
            # Of owners that lost the lock while they stood still: from here on they complete
            # nothing. On S3 nothing is half done, and a put is over before the lease is.
            for name, final in self._location.unfinished().items():
                if _COMPLETED.fullmatch(final):
                    self._location.delete(name)
        except BaseException:
            with suppress(Exception):
                self.release()
            raise

    def _acquire(self, wait: float) -> None:
        end = time.monotonic() + wait
        seen: SeenLock | None = None
        since = 0.0
        pause = _FIRST_PAUSE
        while True:
            self._renewed = time.monotonic()
            if self._file.create(self._content()):
                return
            found = self._file.look()
            if found is None:
                continue
            if seen is None or found.mark != seen.mark:
                seen, since = found, time.monotonic()
            self._renewed = time.monotonic()
            if is_dead(seen, time.monotonic() - since) and self._file.take_over(
                seen, self._content()
            ):
                return
            if time.monotonic() > end:
                raise LockedError(
                    f"{self._shown}: still locked by {shown_owner(seen)} after {wait:g} s; if that "
                    "writer is gone, delete the file"
                )
            time.sleep(pause)
            pause = min(2 * pause, LAST_PAUSE)

    def renew(self) -> bool:
        """Show that the owner lives; return False if the lock is another's."""
        with self._mutex:
            return self._renew()

    def release(self) -> None:
        """Release the lock, unless it belongs to another writer now."""
        with self._mutex:
            # After its lease it may become another's in any moment, also in the one before delete.
            if self._file.removes_only_its_own or (
                time.monotonic() - self._renewed < self._lease / 2
            ):
                self._file.remove()

    def _renew(self) -> bool:
        now = time.monotonic()
        self._renewals += 1
        is_ours = self._file.renew(self._content())
        if is_ours:
            self._renewed = now
        return is_ours

    def _content(self) -> bytes:
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
    _check_place(location)
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
        with suppress(OSError):
            lock.release()


def _check_place(location: Location) -> None:
    if not location.creates_once:
        raise FormatError(
            f"{location.uri}: tables cannot be locked here: pyarrow cannot create a file only "
            "if it does not exist on this file system; write to tables on local disks or S3"
        )
    location.check_creates_once(META_FOLDER)


def is_dead(seen: SeenLock, unchanged: float) -> bool:
    """Return whether the owner of a lock that was seen, and is `unchanged` for so long, is dead."""
    owner = parse_owner(seen.content)
    if owner is None:
        return False
    return owner.is_gone or (not owner.is_here and unchanged > lease_of(seen))


def lease_of(seen: SeenLock) -> float:
    """Return how long a lock lasts, as it says itself."""
    with suppress(CorruptionError, TypeError, ValueError, OverflowError, LookupError):
        return float(parse_json(seen.content, "", "a lock", most_bytes=MOST_BYTES)["lease"])
    return LEASE


def shown_owner(seen: SeenLock) -> str:
    """Return the name of the owner of a lock for messages."""
    owner = parse_owner(seen.content)
    return "another program" if owner is None else f"{owner.name} ({owner.host}:{owner.pid})"
