"""Check whether a table names a lock that lookupstore does not take."""

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

# Hudi's lock providers that lookupstore supports: for local disks, and for object stores. Each
# refuses the other kind of storage.
_FILE_LOCKS, _OBJECT_LOCKS = "FileSystemBasedLockProvider", "StorageBasedLockProvider"
# Prefixes of properties for one provider of other locks; they identify it if no property does.
_OTHER_LOCKS = tuple(f"{LOCK}{kind}." for kind in ("zookeeper", "dynamodb", "hivemetastore"))


def check_lock(options: TableOptions, location: Location, lock: str) -> None:
    """Raise an error if a table names a lock that is not held for the write.

    Args:
        options: Options of the table.
        location: Location of the table.
        lock: Holder of that lock: `external` for the caller, otherwise `table`.

    Raises:
        FormatError: If the table names such a lock. The error names the property.
        ValueError: If `lock` has another value.
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
    """Check a caller's choice for the lock.

    Raises:
        ValueError: If the choice is not `table` or `external`.

    >>> check_lock_choice("table")
    """
    if lock not in (TABLE_LOCK, EXTERNAL_LOCK):
        raise ValueError(f"lock is {lock!r}; give {TABLE_LOCK!r} or {EXTERNAL_LOCK!r}")


def _other_lock(options: TableOptions, location: Location) -> str | None:
    """Return the property that names a lock that lookupstore does not take, if any."""
    provider = options.others.get(LOCK_PROVIDER, "").strip()
    if not provider:
        # Writers may be configured elsewhere, but the prefix of such a property identifies the
        # provider.
        found = [one for one in options.others if one.startswith(_OTHER_LOCKS)]
        return min(found) if found else _other_folder(options, location)
    name = provider.rpartition(".")[2]
    if name != (_FILE_LOCKS if location.in_place else _OBJECT_LOCKS):
        return LOCK_PROVIDER
    return _other_folder(options, location)


def _other_folder(options: TableOptions, location: Location) -> str | None:
    """Return the property that moves the file lock to another folder, if any."""
    if not location.in_place:
        return None
    folder = options.others.get(LOCK_FOLDER, "").strip()
    known = {location.show(one) for one in (META_FOLDER, AUXILIARY)}
    path = folder.removeprefix("file:").rstrip("/")
    if not folder or (f"/{path.lstrip('/')}" if path.startswith("/") else path) in known:
        return None
    return LOCK_FOLDER
