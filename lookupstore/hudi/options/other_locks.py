"""Locks that a table says its writers go by, and that are not taken here."""

from __future__ import annotations

from lookupstore.errors import FormatError
from lookupstore.hudi.options.names import (
    AUXILIARY,
    EXTERNAL_LOCK,
    LOCK,
    LOCK_FOLDER,
    LOCK_PROVIDER,
    META_FOLDER,
    TABLE_LOCK,
)
from lookupstore.hudi.options.table_options import TableOptions
from lookupstore.storage.location import Location

# Hudi's providers whose locks are held here: on local disks, and on object stores. Each refuses the
# other.
_FILE_LOCKS, _OBJECT_LOCKS = "FileSystemBasedLockProvider", "StorageBasedLockProvider"
# What begins so is for one provider of other locks, and says which if no property does.
_OTHER_LOCKS = tuple(f"{LOCK}{kind}." for kind in ("zookeeper", "dynamodb", "hivemetastore"))


def check_lock(options: TableOptions, location: Location, lock: str) -> None:
    """Raise an error if writers go by a lock that is not held here, nor by the caller.

    Args:
        options: of the table.
        location: of the table.
        lock: `EXTERNAL_LOCK` if the caller holds it, else `TABLE_LOCK`.

    Raises:
        FormatError: they do; the error names the property that says so.
        ValueError: `lock` is neither.
    """
    check_lock_choice(lock)
    named = _other_lock(options, location)
    if named is None or lock == EXTERNAL_LOCK:
        return
    raise FormatError(
        f"{location.uri}: {named} is {options.others[named]!r}: that lock is not taken here, and "
        "writers that go by it would not wait; hold it yourself meanwhile, and pass "
        f"lock={EXTERNAL_LOCK!r}, to a write in options=WriteOptions(lock={EXTERNAL_LOCK!r})"
    )


def check_lock_choice(lock: str) -> None:
    """Check that a choice of the lock is one.

    Raises:
        ValueError: it is not.

    >>> check_lock_choice("table")
    """
    if lock not in (TABLE_LOCK, EXTERNAL_LOCK):
        raise ValueError(f"lock is {lock!r}; give {TABLE_LOCK!r} or {EXTERNAL_LOCK!r}")


def _other_lock(options: TableOptions, location: Location) -> str | None:
    """Return the property that names a lock other than those that are held here."""
    provider = options.others.get(LOCK_PROVIDER, "").strip()
    if not provider:
        # Then writers may be set elsewhere; but whom such a property is for is said.
        found = [one for one in options.others if one.startswith(_OTHER_LOCKS)]
        return min(found) if found else _other_folder(options, location)
    name = provider.rpartition(".")[2]
    if name != (_FILE_LOCKS if location.in_place else _OBJECT_LOCKS):
        return LOCK_PROVIDER
    return _other_folder(options, location)


def _other_folder(options: TableOptions, location: Location) -> str | None:
    """Return the property that lets the lock be in another folder than those that have it."""
    if not location.in_place:
        return None
    folder = options.others.get(LOCK_FOLDER, "").strip()
    known = {location.show(one) for one in (META_FOLDER, AUXILIARY)}
    path = folder.removeprefix("file:").rstrip("/")
    if not folder or (f"/{path.lstrip('/')}" if path.startswith("/") else path) in known:
        return None
    return LOCK_FOLDER
