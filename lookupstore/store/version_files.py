"""The files of the versions of a store: the list of versions, and the current one.

A version is one file, `versions/<number>-<id>.json`, its manifest, which is never written again.
The current version is the one with the greatest number, and among rivals the greatest id. There is
no pointer to it, so publishing is one step: to write that file.

On S3 a copy of the newest manifest, `versions/newest.json`, is read while the versions are listed.
It is used only if the listing contains its version; readers do not need it.

A listing is not atomic: it may or may not contain a version that is added or removed meanwhile.
Therefore a listing without versions is repeated, and so is a listing that contains only a new
version.

A change that was made after another version with the same number is void: its publisher withdraws
it, unless that publisher was killed.
"""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from typing import Any, NamedTuple, Protocol, TypeAlias

from lookupstore.errors import (
    CorruptionError,
    FormatError,
    LookupStoreError,
    StaleStoreError,
)
from lookupstore.hostcache.background import start_thread
from lookupstore.source.table_folders import TableSearch
from lookupstore.storage.location import Location, as_location
from lookupstore.storage.object_answers import missing_at
from lookupstore.store.manifest import MOST_MANIFEST_BYTES, Manifest, parse_manifest
from lookupstore.store.marks import marks

VERSIONS_FOLDER = "versions"

#: Name of the copy of the newest manifest.
NEWEST_COPY = f"{VERSIONS_FOLDER}/newest.json"
_FILE = re.compile(r"(\d{10})-([0-9a-f]{32})\.json")
# Name of the only manifest in format version 1, which no release has written.
_FORMER_MANIFEST = "manifest.json"
# Number of attempts to find a version: it may be expired or withdrawn between two listings.
LOOKS = 5
# Seconds to wait for the copy of the newest manifest.
_LONGEST_WAIT = 1.0
# Number of empty listings after which a store has no versions.
EMPTY_LOOKS = 3
# Number of the newest version numbers that may be void: no writer builds on a change of a void
# version.
_RECENT = 3


class VersionName(NamedTuple):
    """The name of a version; the greatest is the current one."""

    number: int
    id: str

    @property
    def file(self) -> str:
        """Return the name of the version's file in the store."""
        return f"{VERSIONS_FOLDER}/{self.number:010d}-{self.id}.json"


@dataclass(frozen=True)
class VersionInfo:
    """A version of a store.

    Attributes:
        number: Number of the version.
        id: Identity of its content.
        created: Time at which it was published, in UTC.
        num_rows: Number of keys.
        buckets: Number of buckets.
        files: Number of data files, runs of changes among them.
        bytes: Size of all its data files, including those that other versions share.
        runs: Number of runs of changes, which `LookupStore.compact` merges into their buckets.
        run_bytes: Size of the runs of changes.
        applied_bytes: Size of the runs that the upsert merged at once, which are kept for
            `LookupStore.changes`.
        source: Description of the source of the rows; after an upsert, of the changes.
        current: Whether it is the version that `lookupstore.open` opens.
        same_as: Number of the oldest version with the same content, if this one was published to go
            back to it. None: no older version that is kept has this content.
    """

    number: int
    id: str
    created: datetime
    num_rows: int
    buckets: int
    files: int
    bytes: int
    runs: int
    run_bytes: int
    applied_bytes: int
    source: str
    current: bool
    same_as: int | None

    def to_json(self) -> dict[str, Any]:
        """Return the description as plain JSON values."""
        return {**asdict(self), "created": self.created.isoformat(timespec="milliseconds")}


class HasLocation(Protocol):
    """An object with a location, such as an open store."""

    @property
    def location(self) -> Location:
        """The location of the object."""


#: A location of a store: a path, a URI, a location, or an open store.
Place: TypeAlias = "str | os.PathLike[str] | Location | HasLocation"


def versions(path: Place, *, storage_options: Mapping[str, Any] | None = None) -> list[VersionInfo]:
    """List the versions of a store, the oldest first.

    Args:
        path: Folder, URI or location of the store, or an open store.
        storage_options: Credentials, region, endpoint and similar options of a URI, by the names
            that pandas or deltalake have for them; see `lookupstore.Location`.

    Raises:
        FileNotFoundError: There is no such folder.
        FormatError: The folder is not a store.
        CorruptionError: A manifest contradicts itself.

    >>> import tempfile, lookupstore, pyarrow as pa
    >>> folder = tempfile.mkdtemp()
    >>> for rows in (1, 2):
    ...     table = pa.table({"id": range(rows)})
    ...     lookupstore.build(table, folder, key="id", overwrite=True).close()
    >>> [(one.number, one.num_rows, one.current) for one in lookupstore.versions(folder)]
    [(1, 1, False), (2, 2, True)]
    """
    location = located(path, storage_options)
    manifests = read_versions(location)
    newest = manifests[-1]
    return _with_origins(_info_of(one, current=one is newest) for one in manifests)


def readable_versions(path: Place) -> tuple[list[VersionInfo], list[LookupStoreError]]:
    """List the versions of a store that can be read, and the errors of the others.

    Args:
        path: As for `versions`, whose errors for a place without a store this raises.
    """
    location = located(path)
    found: list[VersionInfo] = []
    errors: list[LookupStoreError] = []
    names = names_of_store(location)
    for name in names:
        try:
            found.append(_info_of(read_version(location, name), current=name == names[-1]))
        except FileNotFoundError:
            continue  # expired meanwhile
        except (CorruptionError, FormatError) as error:
            errors.append(error)
    return _with_origins(found), errors


def _with_origins(found: Iterable[VersionInfo]) -> list[VersionInfo]:
    """Return versions, oldest first, with the first of those that have the same content."""
    first: dict[str, int] = {}
    return [
        one if first.setdefault(one.id, one.number) == one.number
        else replace(one, same_as=first[one.id])
        for one in found
    ]  # fmt: skip


def _info_of(manifest: Manifest, *, current: bool) -> VersionInfo:
    return VersionInfo(
        number=manifest.version,
        id=manifest.id,
        created=manifest.created_at,
        num_rows=manifest.num_rows,
        buckets=manifest.buckets,
        files=len(manifest.data_files),
        bytes=manifest.bytes,
        runs=len(manifest.runs),
        run_bytes=manifest.run_bytes,
        applied_bytes=manifest.applied_bytes,
        source=manifest.source,
        current=current,
        same_as=None,
    )


def located(path: Place, storage_options: Mapping[str, Any] | None = None) -> Location:
    """Return the location of a path, URI, location or open store; options apply to a URI."""
    if isinstance(path, (str, os.PathLike, Location)):
        return as_location(path, storage_options)
    own = getattr(path, "location", None)
    if not isinstance(own, Location):
        raise TypeError(
            f"path is {type(path).__name__}; give the folder or URI of a store, a Location, or an "
            "open store"
        )
    return as_location(own, storage_options)


def name_of(manifest: Manifest) -> VersionName:
    """Return the name of the version of a manifest."""
    return VersionName(manifest.version, manifest.id)


def list_names(location: Location) -> list[VersionName]:
    """Return the names of the versions at a location, the current one last; [] without a store."""
    for _ in range(EMPTY_LOOKS):
        if names := _listed(location):
            return names
    return []


def _listed(location: Location) -> list[VersionName]:
    found = (
        _FILE.fullmatch(file.name.rpartition("/")[2]) for file in location.files(VERSIONS_FOLDER)
    )
    return sorted(VersionName(int(match[1]), match[2]) for match in found if match)


def read_version(location: Location, name: VersionName) -> Manifest:
    """Read and check the manifest of one version.

    Raises:
        FileNotFoundError: There is no such version.
        FormatError: The format version of the manifest is unknown.
        CorruptionError: The manifest contradicts itself or its name; `expected` names the field.
    """
    return _manifest_of(location, name, location.read(name.file, MOST_MANIFEST_BYTES))


def _manifest_of(location: Location, name: VersionName, content: bytes) -> Manifest:
    path = location.show(name.file)
    manifest = parse_manifest(path, content)
    for field, expected, found in [
        ("version", name.number, manifest.version),
        ("id", name.id, manifest.id),
    ]:
        if found != expected:
            raise CorruptionError(path, 0, f"field {field}: {expected}, as its file name", found)
    return manifest


def read_newest(location: Location) -> Manifest:
    """Read and check the manifest of the current version.

    Raises:
        FileNotFoundError: There is no such folder.
        FormatError: The folder is not a store, or the format version of the manifest is unknown.
        CorruptionError: The manifest contradicts itself; `expected` names the field.
        StaleStoreError: Each version that was found was removed before it was read.
    """
    for _ in range(LOOKS):
        copy = _CopyOfNewest(location)
        name = names_of_store(location)[-1]
        with suppress(FileNotFoundError):
            return copy.manifest(name) or read_version(location, name)
    raise replaced_meanwhile_error(location)


def read_numbered(location: Location, number: int) -> Manifest:
    """Read and check the manifest of the version with a number.

    Raises:
        FileNotFoundError: There is no such version; the error names those that there are.
        StaleStoreError: The version was removed before it was read.
        CorruptionError: The manifest contradicts itself; `expected` names the field.
    """
    copy = _CopyOfNewest(location)
    name = find_version(location, number)
    try:
        return copy.manifest(name) or read_version(location, name)
    except FileNotFoundError:
        raise gone_version_error(location, name.number, name.id) from None


class _CopyOfNewest:
    """The copy of the newest manifest, which is read by a thread while the caller continues."""

    def __init__(self, location: Location) -> None:
        self._location = location
        self._content: bytes | None = None
        self._thread: threading.Thread | None = None
        read = location.one_request()
        if read is not None:
            # If the listing fails, nobody joins the thread, and the process may end.
            self._thread = start_thread(self._read, read, name="lookupstore-newest")

    def _read(self, read: Callable[[str, int], bytes]) -> None:
        with suppress(OSError, LookupStoreError):
            self._content = read(NEWEST_COPY, MOST_MANIFEST_BYTES)

    def manifest(self, name: VersionName) -> Manifest | None:
        """Return the manifest of a version if the copy is of that version and valid."""
        if self._thread is not None:
            self._thread.join(_LONGEST_WAIT)
        if self._content is not None:
            with suppress(LookupStoreError):
                return _manifest_of(self._location, name, self._content)
        return None


def read_versions(location: Location) -> list[Manifest]:
    """Read and check the manifests of all versions, the current one last.

    Raises:
        FileNotFoundError: There is no such folder.
        FormatError: The folder is not a store, or the format version of a manifest is unknown.
        CorruptionError: A manifest contradicts itself; `expected` names the field.
        StaleStoreError: Each version that was found was removed before it was read.
    """
    for _ in range(LOOKS):
        manifests = []
        for name in names_of_store(location):
            with suppress(FileNotFoundError):  # expired meanwhile
                manifests.append(read_version(location, name))
        if manifests:
            return manifests
    raise replaced_meanwhile_error(location)


def named_files(location: Location) -> set[str]:
    """Return the names of all files that belong to versions, including their own files."""
    return files_of(read_versions(location))


def files_of(manifests: Iterable[Manifest]) -> set[str]:
    """Return the names of all files that belong to some versions, including their own files."""
    names = set()
    for manifest in manifests:
        names.add(name_of(manifest).file)
        names.update(file.name for file in manifest.named_files)
    return names


def find_version(location: Location, number: int) -> VersionName:
    """Return the name of the version with a number.

    Raises:
        FileNotFoundError: There is no such version; the error names those that there are.
    """
    if not isinstance(number, int) or isinstance(number, bool):
        raise TypeError(f"version is {number!r}; give the number of a version, or None")
    names = names_of_store(location)
    found = [name for name in names if name.number == number]
    if not found:
        shown = ", ".join(str(name.number) for name in names)
        raise FileNotFoundError(f"{location.uri}: no version {number}; the store has {shown}")
    return found[-1]


def parent_of(location: Location, name: VersionName) -> str | None:
    """Return the identity of the parent of a version. None: it has no parent, or is gone."""
    try:
        return read_version(location, name).parent
    except (FileNotFoundError, LookupStoreError):
        return None


def siblings(names: list[VersionName], one: VersionName) -> list[VersionName]:
    """Return the other versions of the same number."""
    return [name for name in names if name.number == one.number and name != one]


def void_names(location: Location, names: list[VersionName]) -> set[VersionName]:
    """Return the changes among the newest versions that lose to another version.

    Such a version has a mark, and a smaller version of its number has none: the smaller version was
    published first, otherwise its publisher would have withdrawn it. A change of such a version
    that has a mark is void as well. A running publisher withdraws its void version; a publisher
    that was killed leaves it.

    Args:
        location: Location of the store.
        names: Names of all versions of the store, the current one last.
    """
    if not names:
        return set()
    recent = [name for name in names if name.number > names[-1].number - _RECENT]
    if len({name.number for name in recent}) == len(recent):
        return set()
    made = list(marks(location))
    settled = [name for name in recent if all(name.id != mark.version for mark in made)]
    changes = {mark.version for mark in made if mark.is_change}
    void: set[VersionName] = set()
    for name in recent:
        if name.id in changes and (
            any(
                other < name and location.size(other.file) is not None
                for other in siblings([*settled, name], name)
            )
            or (void and parent_of(location, name) in {other.id for other in void})
        ):
            void.add(name)
    return void


def standing(location: Location, names: list[VersionName]) -> list[VersionName]:
    """Return the names of the versions that are not void."""
    void = void_names(location, names)
    return [name for name in names if name not in void]


def remove_void(location: Location, names: list[VersionName]) -> list[VersionName]:
    """Remove versions that are void; return the other names.

    Raises:
        OSError: One of them could not be removed.
    """
    void = void_names(location, names)
    for name in sorted(void):
        location.delete(name.file)
    return [name for name in names if name not in void]


def names_of_store(location: Location) -> list[VersionName]:
    """Return the names of the versions of a store, which has at least one.

    Raises:
        FileNotFoundError: There is no such folder.
        FormatError: The folder is not a store.
    """
    if names := list_names(location):
        return standing(location, names)
    if location.is_file():
        raise FormatError(
            f"{location.uri}: a file, but a store is a folder; lookupstore.sst.Reader opens "
            "sorted files, lookupstore.build builds a store of Parquet, ORC, CSV or JSON lines"
        )
    if not location.is_there():
        kind = "store folder; lookupstore.build makes one"
        missing = missing_at(*location.resolve(""), kind)
        raise FileNotFoundError(f"{location.uri}: {missing}")
    if _FORMER_MANIFEST in location.names():
        raise FormatError(
            f"{location.uri}: has a {_FORMER_MANIFEST} but no versions: this is format version 1, "
            "which no release wrote; build the store again"
        )
    filesystem, root = location.resolve("")
    if (table := TableSearch(filesystem).at(root)) is not None:
        raise FormatError(
            f"{location.uri}: not a lookupstore store, but a {table.format.value}; "
            "lookupstore.build makes a store of its rows"
        )
    raise FormatError(
        f"{location.uri}: not a lookupstore store: no version found (was a build interrupted?); "
        "lookupstore.build makes one"
    )


def gone_version_error(location: Location, number: int, version_id: str) -> StaleStoreError:
    """Return the error for an open version that is gone."""
    names = list_names(location)
    now = f"the newest is {names[-1].number}" if names else "no version is left"
    return StaleStoreError(
        f"{location.uri}: version {number} (id {version_id}) was replaced after it was opened, and "
        f"removed; {now}: open it again"
    )


def replaced_meanwhile_error(location: Location) -> StaleStoreError:
    """Return the error for versions that were each gone before they were open."""
    return StaleStoreError(
        f"{location.uri}: replaced {LOOKS} times while it was being opened; open it again"
    )
