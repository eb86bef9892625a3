"""The places of a table's lock: the files that writers in Java have theirs in.

On a local disk these are two, since Hudi's provider for file systems has its lock in `.hoodie`, and
with its ready-made configuration in `.hoodie/.aux`. That provider refuses S3; Hudi's provider for
object stores refuses all else, and has one object, of a protocol of its own: what it says stays
there when nobody has the lock.

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

#: How long the lock lasts when it is not renewed.
LEASE = 30.0

_TABLE = f"{META_FOLDER}/lock"
_AUXILIARY = f"{AUXILIARY}/lock"
_STORAGE = f"{META_FOLDER}/.locks/table_lock.json"

# Of Java's object, in milliseconds: how long it lasts, and by how much clocks may differ.
_VALID, _DRIFT = 300_000, 500
# Java renews its object each 30 seconds: one that lives shows it in this time, whatever clocks say.
_STILL = 35.0
# In Java's object, what we know each other by: Java passes over names that it does not know.
_OURS = "lookupstore"


class Place:
    """The first place of a local table's lock, where of ours only a dead owner's is taken over.

    Args:
        location: of the table.
        name: of the file in it.
        owner: who wants the lock.
        record: returns what a lock of ours says, another text each time.

    Attributes:
        name: of the file.
        shown: its path, for errors.
        file: that it is.
        began: when the lock was taken, before the file was there.
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
        """Take the lock here, unless another has it."""
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
        """Show that the owner lives; return False if the lock here is another's."""
        return self.file.renew(self.content())

    def give_back(self) -> None:
        """Give the lock back here, unless it is another's by now."""
        self.file.give_back(b"")

    def content(self) -> bytes:
        """Return what the file is to hold."""
        return self._record()

    @property
    def holder(self) -> str:
        """Return who had the lock here when it was seen last, for messages."""
        return "another program" if self._seen is None else shown_owner(self._seen)

    def _is_free(self, seen: SeenLock, unchanged: float) -> bool:
        """Return whether a lock that was seen, and is unchanged for so long, is of nobody."""
        return is_dead(seen, unchanged)


class _SecondPlace(Place):
    """A place that is taken after the first: one of ours in it is of an owner that lost that."""

    def _is_free(self, seen: SeenLock, unchanged: float) -> bool:
        return parse_owner(seen.content) is not None


class _StoragePlace(Place):
    """The object of Java's provider for object stores.

    It says whose it is, until when by the clock of its owner, and whether that gave it back. Java
    takes it when its time is over by the taker's clock; so it is taken from Java here, if it has
    not been renewed meanwhile either. Among ours no clock counts.
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


def _parse_storage(seen: SeenLock) -> dict[str, Any]:
    """Return what Java's object says; nothing if Java cannot read it either."""
    with suppress(CorruptionError):
        lock = parse_json(seen.content, "", "a lock", most_bytes=MOST_BYTES)
        kinds = {"expired": bool, "validUntil": int, "owner": str}
        if isinstance(lock, dict) and all(type(lock.get(name)) is kinds[name] for name in kinds):
            return lock
    return {}


def _ours(seen: SeenLock, lock: dict[str, Any]) -> SeenLock | None:
    """Return what an owner of ours says in Java's object, as if it said it alone."""
    record = json.dumps(lock.get(_OURS)).encode()
    return None if parse_owner(record) is None else SeenLock(record, seen.mark)
