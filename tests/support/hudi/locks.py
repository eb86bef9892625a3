"""The lock of a table as its files show it: put there, and looked at, without the code that does.

On S3 it is an object of Java's protocol, which stays when the lock is free.
"""

from __future__ import annotations

import json
import time
from typing import Any

from lookupstore.hudi.locking.owner import Owner, parse_owner
from lookupstore.storage.location import Location

LOCK, AUXILIARY, STORAGE = ".hoodie/lock", ".hoodie/.aux/lock", ".hoodie/.locks/table_lock.json"


def name_of(place: Location) -> str:
    """Return the name of the lock, or of the first place of it."""
    return LOCK if place.in_place else STORAGE


def put_lock(place: Location, owner: Owner, lease: float = 30) -> bytes:
    """Let the table have a lock that nobody renews."""
    record = {**json.loads(owner.to_json()), "lease": lease, "renewals": 0}
    content = json.dumps(record).encode()
    if not place.in_place:
        content = java_lock(owner="lookupstore", lookupstore=record)
    place.create(name_of(place), content)
    return content


def java_lock(
    *, expired: Any = False, seconds: float = 300, owner: Any = "a-uuid", **others: Any
) -> bytes:
    """Return an object as Java's provider for object stores puts it.

    Args:
        expired: whether it was given back.
        seconds: for how long from now it is its owner's.
        owner: whose it is.
        others: what else it says.
    """
    until = round((time.time() + seconds) * 1000)
    said = {"expired": expired, "validUntil": until, "owner": owner, **others}
    return json.dumps(said, separators=(",", ":")).encode()


def is_free(place: Location) -> bool:
    """Return whether nobody has the lock, in any place of it."""
    if place.in_place:
        return place.size(LOCK) is None and place.size(AUXILIARY) is None
    return place.size(STORAGE) is None or json.loads(place.read(STORAGE))["expired"] is True


def owner_in(place: Location) -> Owner | None:
    """Return whom of ours the lock names."""
    content = place.read(name_of(place))
    if not place.in_place:
        content = json.dumps(json.loads(content)["lookupstore"]).encode()
    return parse_owner(content)
