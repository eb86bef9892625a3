"""The common part of lookups in many files: they pin lookup files, and release them."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from lookupstore.columnar.file_lookup import FileLookup, LookupFileNames
from lookupstore.hostcache.cache import Residency
from lookupstore.hostcache.counts import Counts
from lookupstore.progress import progress_bars
from lookupstore.store._points import KeyCounts
from lookupstore.store.local_files import LocalFiles, LocalLookups


@dataclass(frozen=True)
class FilesInfo:
    """A description of files that are looked up in, for people and programs.

    Attributes:
        path: Path of the files, or their URI without credentials.
        id: Identifier of their rows and of the options of the lookups.
        key: Arrow type of each key column, by name, in the order of the key.
        values: Arrow type of each value column, by name.
        num_rows: Number of rows.
        files: Number of files.
        bytes: Size of all files in bytes.
        lookup_files: Number of files with a lookup file on this host, built or downloaded. One that
            is downloaded in part counts.
        options: Options of the lookups, by name.
    """

    path: str
    id: str
    key: Mapping[str, str]
    values: Mapping[str, str]
    num_rows: int
    files: int
    bytes: int
    lookup_files: int
    options: Mapping[str, Any]

    def to_json(self) -> dict[str, Any]:
        """Return the description as plain JSON values."""
        return asdict(self)


@dataclass(frozen=True)
class FilesCheck:
    """The files that `verify` has read and found valid.

    Attributes:
        files: Number of files.
        num_rows: Number of their rows.
        bytes: Size of all files in bytes.
        lookup_files: Number of checked lookup files, on this host or published.
    """

    files: int
    num_rows: int
    bytes: int
    lookup_files: int

    def to_json(self) -> dict[str, Any]:
        """Return the result as plain JSON values."""
        return asdict(self)


class AskedFiles(LocalFiles):
    """The lookup files of the files that lookups may have used.

    Args:
        asked: Function that returns the lookups of the files that lookups may have used.
        residency: Cache that holds the lookup files of this host.

    Attributes:
        keys: Counts of the keys of all lookups.
    """

    def __init__(self, asked: Callable[[], Iterable[FileLookup]], residency: Residency) -> None:
        self.asked: Callable[[], Iterable[FileLookup]] = asked
        self.keys: KeyCounts = KeyCounts()
        self._residency = residency

    def counts(self) -> Counts:
        """Return what lookups of this process have read of lookup files, and fetched."""
        return sum((lookup.counts() for lookup in self.asked()), Counts())

    def share_room(self) -> None:
        """Release lookup files if the cache of this host is getting full."""
        if self._residency.is_getting_full:
            self.release()

    def release(self) -> None:
        """Release all lookup files; a lookup pins them again."""
        for lookup in self.asked():
            lookup.release()

    def close(self) -> None:
        """Close all files; a lookup opens them again."""
        for lookup in self.asked():
            lookup.close()


class ManyLookups(LocalLookups):
    """The lookups of many files; equal lookups have the same `id`.

    Attributes:
        id: Identifier of the content of the files and of the options of the lookups.
    """

    id: str
    _files: AskedFiles
    _residency: Residency

    @property
    def _key_counts(self) -> KeyCounts:
        return self._files.keys

    @property
    @abstractmethod
    def num_files(self) -> int:
        """Return the number of files."""

    @property
    @abstractmethod
    def nbytes(self) -> int:
        """Return the size of all files."""

    @abstractmethod
    def _every(self) -> Iterable[FileLookup]:
        """Return the lookups of each file."""

    def lookup_files(self) -> list[tuple[str, LookupFileNames]]:
        """Return the path or URI of each file, with the names of its lookup file."""
        return [(one.plan.source.uri, one.names) for one in self._every()]

    @abstractmethod
    def _options(self) -> dict[str, Any]:
        """Return the options of the lookups as plain JSON values."""

    def info(self) -> FilesInfo:
        """Describe the files."""
        return FilesInfo(
            path=self.path,
            id=self.id,
            key={field.name: str(field.type) for field in self.key_schema.schema},
            values={field.name: str(field.type) for field in self.value_schema},
            num_rows=self.num_rows,
            files=self.num_files,
            bytes=self.nbytes,
            lookup_files=sum(lookup.is_on_host() for lookup in self._every()),
            options=self._options(),
        )

    def verify(self, *, progress: bool | None = None) -> FilesCheck:
        """Read all files, and check that their lookup files have the same rows.

        No lookup file is made.

        Args:
            progress: Whether to show a progress bar. Default: after a second, on a terminal or in a
                notebook.

        Raises:
            CorruptionError: If a file is damaged. The error describes the first damage.
            StaleStoreError: If a file is gone, or was replaced.
            OSError: If a remote file could not be read.
        """
        made = 0
        with progress_bars(progress, late=True) as bars:
            advance = bars("Checking", self.nbytes / 1e6, "MB") if bars else None
            for lookup in self._every():
                made += lookup.verify()
                if advance:
                    advance(lookup.plan.source.nbytes / 1e6)
        return FilesCheck(self.num_files, self.num_rows, self.nbytes, made)

    def close(self) -> None:
        """Close all files. Closing again does nothing; a lookup opens them again."""
        self._files.close()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, type(self)) and self.id == other.id

    def __hash__(self) -> int:
        return hash(self.id)
