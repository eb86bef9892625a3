"""The step that publishes a version: writing its file, and then looking for rival versions.

docs/decisions/0020-publishing.md explains which of two rivals is withdrawn, and why that is enough.
"""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import replace
from datetime import datetime, timezone

from lookupstore.errors import (
    CommitConflictError,
    CommitUnknownError,
    CorruptionError,
    LookupStoreError,
)
from lookupstore.storage.location import Location
from lookupstore.store.manifest import (
    DATA_FOLDER,
    MOST_MANIFEST_BYTES,
    Manifest,
    manifest_bytes,
)
from lookupstore.store.marks import marks, running_marks
from lookupstore.store.version_files import (
    EMPTY_LOOKS,
    LOOKS,
    NEWEST_COPY,
    VERSIONS_FOLDER,
    VersionName,
    list_names,
    name_of,
    parent_of,
    read_version,
    remove_void,
    siblings,
)
from lookupstore.store.version_times import time_text

#: How often a publisher tries to withdraw a version if requests fail.
WITHDRAWALS = 3


def publish_version(
    location: Location,
    manifest: Manifest,
    *,
    overwrite: bool,
    replaces: VersionName | None = None,
) -> Manifest:
    """Make a new version the current one, durably and in one step.

    The data files must be complete and synced, and the mark of the build must exist: until it is
    removed, `expire` removes nothing because of this version, which may be withdrawn. The version
    gets the number after the newest, and the present time. If the call returns, the version was
    current at that moment. A version is not current if there is one with a greater number, or with
    the same number and a greater id.

    An error before or after the step leaves the location as it was.

    Args:
        location: Location of the store.
        manifest: Manifest of the version.
        overwrite: Whether the version may replace any version.
        replaces: Name of the only version that it may replace, because it is a change of that one.
            Default: `overwrite` alone decides.

    Returns:
        Manifest as it was published.

    Raises:
        FileExistsError: There is a version already and `overwrite` is False.
        CommitConflictError: Another publisher was faster, and its version is the current one.
        CommitUnknownError: The step failed, and so did undoing it: the version may be published.
        OSError: The manifest could not be written, or not be synced to disk.
    """
    location.sync(DATA_FOLDER)
    held = remove_void(location, list_names(location))
    if held and not overwrite:
        raise store_exists_error(location)
    if replaces is not None and (not held or held[-1] != replaces):
        raise changed_meanwhile_error(location, replaces)
    if not held:
        first = numbered(manifest, 1)
        try:
            if _write_first(location, first):
                return first
        except FileExistsError:
            held = list_names(location)
            if held and not overwrite:
                raise store_exists_error(location) from None
    new = numbered(manifest, held[-1].number + 1 if held else 1)
    _step(location, new, held, overwrite=overwrite, replaces=replaces)
    if location.one_request() is not None:
        with suppress(OSError):  # the version is published, and readers do not need the copy
            location.replace(NEWEST_COPY, manifest_bytes(new))
    return new


def store_exists_error(location: Location) -> FileExistsError:
    """Return the error for a location that already has a store."""
    return FileExistsError(
        f"{location.uri}: there is already a store; pass overwrite=True to replace it"
    )


def changed_meanwhile_error(location: Location, replaces: VersionName) -> CommitConflictError:
    """Return the error for a change of a version that other writers have replaced."""
    return CommitConflictError(
        f"{location.uri}: version {replaces.number} (id {replaces.id}) was replaced while changes "
        "to it were being written; nothing was published: retry, which takes the current version"
    )


def _unsettled_error(location: Location, replaces: VersionName) -> CommitConflictError:
    return CommitConflictError(
        f"{location.uri}: version {replaces.number} (id {replaces.id}) may still be withdrawn by "
        "its writer, so nothing was published: retry; if that writer was killed, changes are taken "
        "again after a day, or after a build with overwrite=True"
    )


def cleaned_up_error(location: Location, name: str) -> CommitConflictError:
    """Return the error for a folder that is removed while a file is written to it."""
    return CommitConflictError(
        f"{location.show(name)}: another process removed its folder or its temporary file {LOOKS} "
        "times while it was written; retry when no other process deletes files there"
    )


def numbered(manifest: Manifest, number: int) -> Manifest:
    """Return a manifest with the number of the version and the present time."""
    return replace(manifest, version=number, created=time_text(_now()))


def _now() -> datetime:
    return datetime.now(timezone.utc)


def _write_first(location: Location, manifest: Manifest) -> bool:
    """Make the folder of versions with the first one in it; see `Location.write_first`."""
    ours = name_of(manifest)
    try:
        return location.write_first(
            VERSIONS_FOLDER, os.path.basename(ours.file), manifest_bytes(manifest)
        )
    except FileExistsError:
        raise
    except BaseException:
        withdraw(location, manifest, [])
        raise


def _step(
    location: Location,
    manifest: Manifest,
    held: list[VersionName],
    *,
    overwrite: bool,
    replaces: VersionName | None,
) -> None:
    """Write the file of a version that follows other versions, and look for rivals."""
    ours = name_of(manifest)
    try:
        _write(location, ours.file, manifest_bytes(manifest))
    except FileExistsError:
        # This happens only if two publishers publish the same content at once.
        raise _conflict_error(location, ours, ours) from None
    except BaseException:
        withdraw(location, manifest, held)
        raise
    try:
        # A publisher that paused since `created` replaces others now, not at that time.
        location.date(ours.file, _now())
        if replaces is not None:
            rival = find_sibling(location, ours, replaces)
        else:
            rival = find_rival(location, ours, held, overwrite=overwrite)
    except BaseException:
        withdraw(location, manifest, held)
        raise
    if rival is not None:
        withdraw(location, manifest, held)
        raise _conflict_error(location, ours, rival)


def _write(location: Location, name: str, content: bytes) -> None:
    for _ in range(LOOKS):
        with suppress(FileNotFoundError):  # other publishers remove empty folders
            location.write(name, [content])
            return
    raise cleaned_up_error(location, name)


def find_rival(
    location: Location, ours: VersionName, held: list[VersionName], *, overwrite: bool
) -> VersionName | None:
    """Return the version that wins over the new one. None: the new version wins.

    The newest of the other versions must be the same in two listings. While it exists, no version
    between it and the new one has been removed: the oldest are removed first, and none is removed
    because of a version that its publisher may withdraw, as the new one is. A single listing can
    miss a greater version that was published meanwhile, because the version before that was
    withdrawn meanwhile; that two listings do so is unlikely, not impossible.

    Raises:
        CommitConflictError: Other versions appear and disappear too fast to tell, or others have
            removed the new one.
    """
    alone = 0
    newest = None
    for _ in range(LOOKS):
        names = list_names(location)
        others = [name for name in names if name != ours]
        if others and (others[-1] > ours or not overwrite):
            return None if _is_changed(location, ours, others) else others[-1]
        if ours not in names:
            newest = None
            continue
        if others:
            if others[-1] == newest:
                return None
            newest = others[-1]
        else:
            alone += 1
            if not held or alone == EMPTY_LOOKS:
                return None  # the other versions had been withdrawn
    raise CommitConflictError(
        f"{location.uri}: another version was published at the same time as version {ours.number} "
        f"(id {ours.id}), which was withdrawn: build or upsert again"
    )


def find_sibling(
    location: Location, ours: VersionName, replaces: VersionName
) -> VersionName | None:
    """Return another version that replaces the same parent. None: there is none.

    Two versions that see each other are both withdrawn, because neither publisher can know whether
    the other has looked already. The publisher of the parent may not have looked yet itself, and
    may have to withdraw the parent; then the new version is withdrawn at once. The parent is kept
    as long as the new version has its mark, unless its own publisher has withdrawn it, or there are
    newer versions. Two listings must agree, as in `find_rival`.

    Raises:
        CommitConflictError: The parent was withdrawn, or may be, and so is the new version.
        CommitUnknownError: Others have removed the new version; newer versions may contain it.
    """
    were_alone = False
    for _ in range(LOOKS):
        names = list_names(location)
        others = [name for name in names if name != ours and name > replaces]
        if others:
            return None if _is_changed(location, ours, others) else others[-1]
        are_alone = ours in names and replaces in names
        if are_alone and were_alone:
            if _may_give_way(location, names, replaces):
                raise _unsettled_error(location, replaces)
            return None
        were_alone = are_alone
    if location.size(ours.file) is None:
        raise CommitUnknownError(
            f"{location.show(ours.file)}: removed by others right after it was written; what it "
            "changed may be in newer versions: look before you repeat it"
        )
    raise changed_meanwhile_error(location, replaces)


def _is_changed(location: Location, ours: VersionName, others: list[VersionName]) -> bool:
    """Return whether one of some versions is a change of this publisher's version, and stays.

    In this case this publisher's version was current when the change was made.
    """
    made = {mark.version for mark in marks(location)}
    return any(
        name.id not in made and parent_of(location, name) == ours.id
        for name in others
        if name.number > ours.number
    )


def _may_give_way(location: Location, names: list[VersionName], one: VersionName) -> bool:
    """Return whether a version is a change with a mark, and may have to be withdrawn.

    That is the case if there is another version of its number, or if the version that it changes is
    gone or has a mark itself.
    """
    running = running_marks(location)
    made = {mark.version for mark in running}
    if all(mark.version != one.id or not mark.is_change for mark in running):
        return False
    try:
        parent = read_version(location, one).parent
    except FileNotFoundError:  # it has been withdrawn
        return True
    stays = parent is None or (parent not in made and any(name.id == parent for name in names))
    return not stays or bool(siblings(names, one))


def _conflict_error(
    location: Location, ours: VersionName, theirs: VersionName
) -> CommitConflictError:
    return CommitConflictError(
        f"{location.uri}: version {theirs.number} (id {theirs.id}) was published first; ours (id "
        f"{ours.id}) was withdrawn: build or upsert again"
    )


def withdraw(location: Location, manifest: Manifest, held: list[VersionName]) -> None:
    """Withdraw a version that was, or may have been, written.

    A publisher that changes the version meanwhile checks that it exists after writing its own
    version. Either that publisher finds that it is gone, or this call finds the version of that
    publisher.

    Raises:
        CommitUnknownError: It is unknown whether the version is there, or in a newer one; or there
            is no other version.
    """
    name = name_of(manifest)
    # A version that stays hides changes that others publish, so one failed request is not the end.
    for _ in range(WITHDRAWALS):
        with suppress(OSError):
            gone = _withdraw(location, manifest, held)
            break
    else:
        gone = False
    if not gone:
        raise CommitUnknownError(
            f"{location.show(name.file)}: could not be withdrawn, and may be published, or in "
            "newer versions; look with lookupstore.versions before you delete or repeat anything"
        )
    location.delete_empty(VERSIONS_FOLDER)  # unless it holds other versions


def _withdraw(location: Location, manifest: Manifest, held: list[VersionName]) -> bool:
    """Remove a version unless it is the last; return whether it is gone and in no newer one."""
    name = name_of(manifest)
    # The last version of a store is never withdrawn, even if others removed all other versions.
    is_last = bool(held) and all(other == name for other in list_names(location))
    if not is_last and _is_there(location, manifest):
        location.delete(name.file)
    return not _is_there(location, manifest) and not _may_be_changed(location, name)


def _may_be_changed(location: Location, ours: VersionName) -> bool:
    """Return whether a newer version is, or may be, a change of the version, which is gone."""
    for _ in range(LOOKS):
        names = list_names(location)
        # While the newest version exists, the listing has missed no newer version.
        if not names or location.size(names[-1].file) is not None:
            break
    else:
        return True
    known = {name.id for name in names if name.number <= ours.number}
    parents = {}
    for name in names:
        if name.number > ours.number:
            try:
                parents[name.id] = read_version(location, name).parent
            except FileNotFoundError:
                continue
            except LookupStoreError:  # its parent cannot be read
                return True
    known.update(parents)
    return any(parent is not None and parent not in known for parent in parents.values())


def _is_there(location: Location, manifest: Manifest) -> bool:
    """Return whether the file of a version has the content that this publisher wrote.

    Another process that publishes the same content may use the same name, and be published.
    """
    try:
        content = location.read(name_of(manifest).file, MOST_MANIFEST_BYTES)
        return content == manifest_bytes(manifest)
    except (FileNotFoundError, CorruptionError):  # too large is not ours, either
        return False
