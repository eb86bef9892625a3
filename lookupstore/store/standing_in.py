"""Decide whether an open version can answer instead of a newer one that is being fetched.

A compaction changes files, but no rows. A host that has all files of the older version can answer
from them until it has those of the newer one.
"""

from __future__ import annotations

import threading

from lookupstore.store.refreshing import Refresh
from lookupstore.store.steps import has_same_rows
from lookupstore.store.store import LookupStore, version_of
from lookupstore.store.version_files import VersionName, list_names, read_version


def fetch_all(store: LookupStore) -> Refresh[LookupStore]:
    """Begin to fetch all files of a store in a thread; release its copies if room is short."""
    files = version_of(store).files

    def fetch(stop: threading.Event) -> None:
        files.fetch(set(files), stop)
        files.share_room()

    return Refresh(store, f"{store.path}: version {store.version}", fetch)


def is_here(store: LookupStore) -> bool:
    """Return whether this host has all bytes of a store."""
    return version_of(store).files.are_here


def can_stand_in(store: LookupStore, newer: LookupStore) -> bool:
    """Return whether an open store can answer instead of a newer version.

    It can if only compactions came in between and their versions can be listed, all files of the
    store are on this host, but not those of the newer version, and there is room for both.

    Raises:
        CorruptionError: A version in between is damaged.
        OSError: The object store does not answer.
    """
    if store.path != newer.path or is_here(newer) or not is_here(store):
        return False
    older = version_of(store)
    if older.files.is_room_short:
        return False
    return has_same_rows(newer.location, older.manifest, version_of(newer).manifest)


def parent_here(store: LookupStore) -> VersionName | None:
    """Return the name of the parent of a store's version if this host has its files.

    The object store is not asked if the host has no local copies, or already has all files of the
    store.

    Raises:
        CorruptionError: The manifest of the parent is damaged.
        OSError: The object store does not answer, or the version has expired.
    """
    location, manifest, files, _ = version_of(store)
    parent = manifest.parent
    if parent is None or files.are_here or not files.has_any_copy:
        return None
    name = next((one for one in list_names(location) if one.id == parent), None)
    if name is None or not files.has_copies(read_version(location, name).data_files):
        return None
    return name
