"""Places of a table's lock: the files in which Java writers have their locks.

A local disk has two places, because Hudi's provider for file systems has its lock in `.hoodie`, or,
with its ready-made configuration, in `.hoodie/.aux`. That provider refuses S3. Hudi's provider for
object stores refuses all else, and uses one object with its own protocol: the object stays after
the lock is released.

Source: FileSystemBasedLockProvider, StorageBasedLockProvider and StorageLockFile of Apache Hudi.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from lookupstore.errors import CorruptionError
from lookupstore.hudi.locking.owner import MOST_BYTES, Owner, parse_owner
from lookupstore.hudi.options import AUXILIARY, META_FOLDER
from lookupstore.storage.json_text import parse_json
from lookupstore.storage.location import Location
from lookupstore.storage.lock_file import LockFile, SeenLock

#: Seconds after which a lock that is not renewed expires.
LEASE = 30.0

_TABLE = f"{META_FOLDER}/lock"
_AUXILIARY = f"{AUXILIARY}/lock"
_STORAGE = f"{META_FOLDER}/.locks/table_lock.json"

# Times of Java's object in milliseconds: validity of the lock, and possible difference of clocks.
_VALID, _DRIFT = 300_000, 500
# Seconds without a renewal after which an owner in Java is dead by any clock: it renews every 30.
_STILL = 35.0
# Name of the field in Java's object that identifies lookupstore; Java ignores unknown names.
_OURS = "lookupstore"


class Place:
    """The first place of the lock of a local table.

    Args:
        location: Location of the table.
        name: Name of the lock file, relative to the table.
        owner: Owner that takes the lock.
        record: Function that returns the content of a lock of lookupstore, a different text each
            time.

    Attributes:
        name: Name of the lock file, relative to the table.
        shown: Path of the file, for errors.
        file: File that is the lock.
        began: Monotonic time in seconds at which the lock was taken, before the file was made.
    """

    def __init__(
        self, location: Location, name: str, owner: Owner, record: Callable[[], bytes]
    ) -> None:
        self.name = name
        self.shown: str = location.show(name)
        self.file: LockFile = location.lock_file(name)
        self.began: float = 0.0
        self._owner = owner
        self._record = record
        self._seen: SeenLock | None = None
        self._since = 0.0

    def take(self) -> bool:
        """Take the lock here, unless another writer has it; return whether it is taken."""
        found = self.file.look() if self.file.stays else None
        while found is None:
            self.began = time.monotonic()
            if self.file.create(self.content()):
                return True
            found = self.file.look()
        if self._seen is None or found.mark != self._seen.mark:
            self._seen, self._since = found, time.monotonic()
        self.began = time.monotonic()
        if not self._is_free(found, self.began - self._since):
            return False
        return self.file.take_over(found, self.content())

    def renew(self) -> bool:
        """Renew the lock here; return False if another writer has it."""
        return self.file.renew(self.content())

    def give_back(self) -> None:
        """Release the lock here, unless another writer has it."""
        self.file.give_back(b"")

    def content(self) -> bytes:
        """Return the content for the file."""
        return self._record()

    @property
    def holder(self) -> str:
        """Return the last known holder of the lock here, for messages."""
        return "another program" if self._seen is None else shown_owner(self._seen)

    def _is_free(self, seen: SeenLock, unchanged: float) -> bool:
        """Return whether a lock is free that was unchanged for some seconds."""
        return is_dead(seen, unchanged)


class _SecondPlace(Place):
    """A place that is taken after the first one.

    If lookupstore wrote the lock in it, the owner of that lock has lost the first place.
    """

    def _is_free(self, seen: SeenLock, unchanged: float) -> bool:
        return parse_owner(seen.content) is not None


class _StoragePlace(Place):
    """The object of Java's provider for object stores.

    It names its owner, the end of the lock by the clock of the owner, and whether the owner
    released it. Java takes over a lock that ended by the clock of the taker. Therefore lookupstore
    takes over a lock of Java if it ended and was not renewed meanwhile. Between lookupstore
    writers, no clock counts.
    """

    def content(self) -> bytes:
        return self._text(is_expired=False)

    def give_back(self) -> None:
        self.file.give_back(self._text(is_expired=True))

    @property
    def holder(self) -> str:
        lock = {} if self._seen is None else _parse_storage(self._seen)
        if self._seen is None or not lock:
            return "another program"
        ours = _ours(self._seen, lock)
        return f"{lock['owner'][:80]!r}, of another program" if ours is None else shown_owner(ours)

    def _text(self, *, is_expired: bool) -> bytes:
        until = round(time.time() * 1000) + _VALID
        known = f"{_OURS} {self._owner.name} {self._owner.id}"
        lock = {"expired": is_expired, "validUntil": until, "owner": known}
        return json.dumps({**lock, _OURS: json.loads(self._record())}).encode()

    def _is_free(self, seen: SeenLock, unchanged: float) -> bool:
        lock = _parse_storage(seen)
        if not lock:
            return False
        if lock["expired"]:
            return True
        ours = _ours(seen, lock)
        if ours is not None:
            return is_dead(ours, unchanged)
        return time.time() * 1000 > lock["validUntil"] + _DRIFT and unchanged > _STILL


def places_of(location: Location, owner: Owner, record: Callable[[], bytes]) -> list[Place]:
    """Return the places of a table's lock, in the order in which they are taken."""
    if not location.in_place:
        return [_StoragePlace(location, _STORAGE, owner, record)]
    return [
        Place(location, _TABLE, owner, record),
        _SecondPlace(location, _AUXILIARY, owner, record),
    ]


def is_dead(seen: SeenLock, unchanged: float) -> bool:
    """Return whether the owner of a lock that is `unchanged` for so long is dead."""
    owner = parse_owner(seen.content)
    if owner is None:
        return False
    return owner.is_gone or (not owner.is_here and unchanged > lease_of(seen))


def lease_of(seen: SeenLock) -> float:
    """Return the lease of a lock in seconds, from its content."""
    with suppress(CorruptionError, TypeError, ValueError, OverflowError, LookupError):
        return float(parse_json(seen.content, "", "a lock", most_bytes=MOST_BYTES)["lease"])
    return LEASE


def shown_owner(seen: SeenLock) -> str:
    """Return the name of the owner of a lock for messages."""
    owner = parse_owner(seen.content)
    return "another program" if owner is None else f"{owner.name} ({owner.host}:{owner.pid})"


def _parse_storage(seen: SeenLock) -> dict[str, Any]:
    """Return the content of Java's object; empty if Java cannot read it either."""
    with suppress(CorruptionError):
        lock = parse_json(seen.content, "", "a lock", most_bytes=MOST_BYTES)
        kinds = {"expired": bool, "validUntil": int, "owner": str}
        if isinstance(lock, dict) and all(type(lock.get(name)) is kinds[name] for name in kinds):
            return lock
    return {}


def _ours(seen: SeenLock, lock: dict[str, Any]) -> SeenLock | None:
    """Return the lookupstore part of Java's object, as a lock of its own."""
    record = json.dumps(lock.get(_OURS)).encode()
    return None if parse_owner(record) is None else SeenLock(record, seen.mark)
