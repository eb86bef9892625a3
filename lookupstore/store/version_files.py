"""The versions of a store: which there are, and which is current.

A version is one file, `versions/<number>-<id>.json`, its manifest, which is never written again.
The current version is the one with the greatest number, and among rivals the greatest id. There is
no pointer to it, so publishing is one step: to write that file.

On S3 a copy of the newest manifest, `versions/newest.json`, is read while the versions are listed.
It counts only if the listing says so; without it nothing is missing.

A listing is not one moment: what comes or goes meanwhile is in it or not. So a listing that finds
nothing is not believed at once, and neither is one that shows a new version alone.

A change that came after another version of its number is void: its publisher withdraws it, if it
still lives.
"""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from datetime import datetime, timezone
from typing import Any, NamedTuple, Protocol, TypeAlias

from lookupstore.errors import (
    CorruptionError,
    FormatError,
    LookupStoreError,
    StaleStoreError,
)
from lookupstore.source.table_folders import TableSearch
from lookupstore.storage.location import Location, as_location
from lookupstore.store.manifest import MOST_MANIFEST_BYTES, Manifest, parse_manifest
from lookupstore.store.marks import marks

VERSIONS_FOLDER = "versions"

#: The copy of the newest manifest.
NEWEST_COPY = f"{VERSIONS_FOLDER}/newest.json"
_FILE = re.compile(r"(\d{10})-([0-9a-f]{32})\.json")
# Format version 1, which no release has written, had one manifest of this name.
_FORMER_MANIFEST = "manifest.json"
# A version may be expired or withdrawn between two looks; the next look finds the newest.
LOOKS = 5
# Seconds that an answer to the question for a copy of the newest manifest may be late.
_LONGEST_WAIT = 1.0
# So many listings that find nothing say that there is nothing.
EMPTY_LOOKS = 3
# Numbers of versions among which some may be void: nobody builds upon what was built upon one.
_RECENT = 3


class VersionName(NamedTuple):
    """The name of a version; the greatest is the current one."""

    number: int
    id: str

    @property
    def file(self) -> str:
        """Return the name of its file in the store."""
        return f"{VERSIONS_FOLDER}/{self.number:010d}-{self.id}.json"


@dataclass(frozen=True)
class VersionInfo:
    """A version of a store.

    Attributes:
        number: number of the version.
        id: identity of its content.
        created: when it was published, UTC.
        num_rows: number of keys.
        buckets: number of buckets.
        files: number of data files, runs of changes among them.
        bytes: size of all its data files, also those that other versions share.
        runs: number of runs of changes, which `LookupStore.compact` merges into their buckets.
        run_bytes: size of these.
        applied_bytes: size of the runs that it merged at once, and keeps for `LookupStore.changes`.
        source: what it was built from.
        current: whether it is the one that `lookupstore.open` opens.
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

    def to_json(self) -> dict[str, Any]:
        """Return the description as plain JSON values."""
        return {**asdict(self), "created": self.created.isoformat(timespec="milliseconds")}


class HasLocation(Protocol):
    """What is somewhere, such as a store that is open."""

    @property
    def location(self) -> Location:
        """Where it is."""


#: A version of a store: its number, or a time at which it was the current one.
Moment: TypeAlias = "int | str | datetime"
#: Where a store is: a path, a URI, a location, or a store that is open.
Place: TypeAlias = "str | os.PathLike[str] | Location | HasLocation"


def versions(path: Place, *, storage_options: Mapping[str, Any] | None = None) -> list[VersionInfo]:
    """List the versions of a store, the oldest first.

    Args:
        path: the store's folder, URI or location, or the store itself.
        storage_options: of a URI, as of `lookupstore.Location`.

    Raises:
        FileNotFoundError: there is no such folder.
        FormatError: the folder is not a store.
        CorruptionError: a manifest contradicts itself.

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
    return [
        VersionInfo(
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
            current=manifest is manifests[-1],
        )
        for manifest in manifests
    ]


def located(path: Place, storage_options: Mapping[str, Any] | None = None) -> Location:
    """Return the location of a path, URI, location or open store; options are of a URI."""
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
    """Return the name of the version that a manifest is of."""
    return VersionName(manifest.version, manifest.id)


def list_names(location: Location) -> list[VersionName]:
    """Return the names of the versions at a location, the current one last; none: no store."""
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
        FileNotFoundError: there is no such version.
        FormatError: it is of an unknown format version.
        CorruptionError: it contradicts itself or its name; `expected` names the field.
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
        FileNotFoundError: there is no such folder.
        FormatError: the folder is not a store, or of an unknown format version.
        CorruptionError: the manifest contradicts itself; `expected` names the field.
        StaleStoreError: each version that was found was gone before it was read.
    """
    for _ in range(LOOKS):
        copy = _CopyOfNewest(location)
        name = _names_of_store(location)[-1]
        with suppress(FileNotFoundError):
            return copy.manifest(name) or read_version(location, name)
    raise replaced_meanwhile_error(location)


def read_numbered(location: Location, number: int) -> Manifest:
    """Read and check the manifest of the version with a number.

    Raises:
        FileNotFoundError: there is no such version; the error names those that there are.
        StaleStoreError: it was gone before it was read.
        CorruptionError: the manifest contradicts itself; `expected` names the field.
    """
    copy = _CopyOfNewest(location)
    name = find_version(location, number)
    try:
        return copy.manifest(name) or read_version(location, name)
    except FileNotFoundError:
        raise gone_version_error(location, name.number, name.id) from None


class _CopyOfNewest:
    """The copy of the newest manifest, which is read while its maker does something else."""

    def __init__(self, location: Location) -> None:
        self._location = location
        self._content: bytes | None = None
        self._thread: threading.Thread | None = None
        read = location.one_request()
        if read is not None:
            self._thread = threading.Thread(
                target=self._read, args=(read,), name="lookupstore-newest", daemon=True
            )
            self._thread.start()

    def _read(self, read: Callable[[str, int], bytes]) -> None:
        with suppress(OSError, LookupStoreError):
            self._content = read(NEWEST_COPY, MOST_MANIFEST_BYTES)

    def manifest(self, name: VersionName) -> Manifest | None:
        """Return the manifest of a version if it is the one, and right."""
        if self._thread is not None:
            self._thread.join(_LONGEST_WAIT)
        if self._content is not None:
            with suppress(LookupStoreError):
                return _manifest_of(self._location, name, self._content)
        return None


def read_versions(location: Location) -> list[Manifest]:
    """Read and check the manifests of all versions, the current one last.

    Raises:
        FileNotFoundError: there is no such folder.
        FormatError: the folder is not a store, or of an unknown format version.
        CorruptionError: a manifest contradicts itself; `expected` names the field.
        StaleStoreError: each version that was found was gone before it was read.
    """
    for _ in range(LOOKS):
        manifests = []
        for name in _names_of_store(location):
            with suppress(FileNotFoundError):  # expired meanwhile
                manifests.append(read_version(location, name))
        if manifests:
            return manifests
    raise replaced_meanwhile_error(location)


def named_files(location: Location) -> set[str]:
    """Return the names of all files that belong to versions, their own among them."""
    return files_of(read_versions(location))


def files_of(manifests: Iterable[Manifest]) -> set[str]:
    """Return the names of all files that belong to some versions, their own among them."""
    names = set()
    for manifest in manifests:
        names.add(name_of(manifest).file)
        names.update(file.name for file in manifest.named_files)
    return names


def find_version(location: Location, number: int) -> VersionName:
    """Return the name of the version with a number.

    Raises:
        FileNotFoundError: there is no such version; the error names those that there are.
    """
    if not isinstance(number, int) or isinstance(number, bool):
        raise TypeError(f"version is {number!r}; give the number of a version, or None")
    names = _names_of_store(location)
    found = [name for name in names if name.number == number]
    if not found:
        shown = ", ".join(str(name.number) for name in names)
        raise FileNotFoundError(f"{location.uri}: no version {number}; the store has {shown}")
    return found[-1]


def version_at(location: Location, moment: Moment, argument: str) -> VersionName | None:
    """Return the name of the version with a number, or that was current at a time.

    Args:
        location: of the store.
        moment: number of a version; or a time, as a datetime with its zone, or as text in ISO 8601,
            in UTC if it has no zone.
        argument: what to call it in errors.

    Returns:
        The name; None if the store did not have a version yet.

    Raises:
        TypeError: `moment` is nothing of these.
        ValueError: a text that is no time, or a datetime without a zone.
        FileNotFoundError: there is no such version, or not any more.
    """
    if isinstance(moment, int) and not isinstance(moment, bool):
        return find_version(location, moment)
    time = _time_of(moment, argument)
    names = _names_of_store(location)
    for name in reversed(names):
        with suppress(FileNotFoundError):  # expired meanwhile
            if read_version(location, name).created_at <= time:
                return name
    if names[0].number == 1:
        return None
    raise FileNotFoundError(
        f"{location.uri}: {argument} is {time_text(time)}, and versions of that time have been "
        f"removed; the oldest that is left is {names[0].number}"
    )


def _time_of(moment: object, argument: str) -> datetime:
    if isinstance(moment, str):
        try:
            # Python 3.10 does not read a Z.
            time = datetime.fromisoformat(re.sub("[zZ]$", "+00:00", moment.strip()))
        except ValueError:
            raise ValueError(
                f"{argument} is {moment!r}; give the number of a version, or a time such as "
                "2026-11-22 or 2026-11-22T07:30:00Z"
            ) from None
        return time if time.tzinfo is not None else time.replace(tzinfo=timezone.utc)
    if not isinstance(moment, datetime):
        raise TypeError(
            f"{argument} is {moment!r}; give the number of a version, a datetime, or a time as text"
        )
    if moment.utcoffset() is None:
        raise ValueError(
            f"{argument} is {moment!r}, without a zone; give one with tzinfo=timezone.utc"
        )
    return moment


def time_text(moment: datetime) -> str:
    """Return a moment as manifests have it: ISO 8601 with milliseconds.

    >>> time_text(datetime(2026, 11, 22, 7, 30, tzinfo=timezone.utc))
    '2026-11-22T07:30:00.000+00:00'
    """
    return moment.isoformat(timespec="milliseconds")


def parent_of(location: Location, name: VersionName) -> str | None:
    """Return the identity of the version that a version is a change of; None: of none, or gone."""
    try:
        return read_version(location, name).parent
    except (FileNotFoundError, LookupStoreError):
        return None


def siblings(names: list[VersionName], one: VersionName) -> list[VersionName]:
    """Return the other versions of the same number."""
    return [name for name in names if name.number == one.number and name != one]


def void_names(location: Location, names: list[VersionName]) -> set[VersionName]:
    """Return the changes among the newest versions that lose to another version.

    They have a mark, and a smaller version of their number has none: that one was there first, or
    it would have given way. What is a change of one of them, and has a mark, is
    void as well. Publishers who live withdraw them; who was killed leaves them.

    Args:
        location: of the store.
        names: of all of its versions, the current one last.
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
    """Return the names of versions but for those that are void."""
    void = void_names(location, names)
    return [name for name in names if name not in void]


def remove_void(location: Location, names: list[VersionName]) -> list[VersionName]:
    """Remove versions that are void; return the other names.

    Raises:
        OSError: one could not be removed.
    """
    void = void_names(location, names)
    for name in sorted(void):
        location.delete(name.file)
    return [name for name in names if name not in void]


def _names_of_store(location: Location) -> list[VersionName]:
    """Return the names of the versions of a store, which has at least one.

    Raises:
        FileNotFoundError: there is no such folder.
        FormatError: the folder is not a store.
    """
    if names := list_names(location):
        return standing(location, names)
    if location.is_file():
        raise FormatError(
            f"{location.uri}: a file, but a store is a folder; lookupstore.sst.Reader opens "
            "sorted files, lookupstore.build builds a store from columnar ones"
        )
    if not location.is_there():
        raise FileNotFoundError(
            f"{location.uri}: no such store folder; lookupstore.build makes one"
        )
    if _FORMER_MANIFEST in location.names():
        raise FormatError(
            f"{location.uri}: has a {_FORMER_MANIFEST} but no versions: this is format version 1, "
            "which no release wrote; build the store again"
        )
    filesystem, root = location.resolve("")
    if (table := TableSearch(filesystem).at(root)) is not None:
        raise FormatError(
            f"{location.uri}: not a lookupstore store, but a table of {table.format.value}; "
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
