"""Files that answer a call together if all lookup files that may have a key are open.

Otherwise, or after an error, the caller asks the files one by one, which repairs a file and raises
the right error.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Generic, Protocol, TypeAlias, TypeVar, cast

from lookupstore.columnar.file_lookup import FileLookup, OpenTogether
from lookupstore.columnar.lookup_file import LookupFilePlan
from lookupstore.columnar.open_files import CallKeys, OpenFiles
from lookupstore.errors import LookupStoreError
from lookupstore.hostcache.cache import Residency
from lookupstore.keys.schema import KeySchema
from lookupstore.sst import Reader
from lookupstore.sst.owners import OwnerTables
from lookupstore.storage import descriptors

A = TypeVar("A")
F = TypeVar("F", bound=OpenFiles)

#: Tables of owners of files, by the schema that encodes the keys of the files.
KeyOwners: TypeAlias = "dict[KeySchema, OwnerTables]"

_log = logging.getLogger(__name__)


class RoutedKeys(CallKeys, Protocol):
    """The keys of a call, which know the files that may have them."""

    def is_apart(self, lookup: FileLookup) -> bool:
        """Return whether a file has none of the keys, as far as a short test shows it."""

    def may_be_in(self, lookup: FileLookup) -> bool:
        """Return whether a file may have one of the keys."""

    def is_ruled_out(self, lookup: FileLookup) -> bool:
        """Return whether a slow test shows that a file without a lookup file has no key."""


class FilesTogether(Generic[F]):
    """Lookups in several files, which are asked together.

    Args:
        shown: Path of the files, for the log.
        opened: Function that returns the open files, from the plans of all files, and from the
            readers of open lookup files by the numbers of their plans.

    Attributes:
        lookups: Lookups in the files.
        place: Place for the open files, with which the lookups are made.
    """

    def __init__(
        self,
        shown: str,
        opened: Callable[[Sequence[LookupFilePlan], Mapping[int, Reader]], F],
    ) -> None:
        self.lookups: list[FileLookup] = []
        self.place: OpenTogether = OpenTogether()
        self._shown = shown
        self._opened = opened

    def add(self, lookup: FileLookup) -> None:
        """Add lookups in another file, which were made with `place`."""
        self.lookups.append(lookup)

    @property
    def files(self) -> F | None:
        """Return the open files as they were listed last. None: one was opened or released."""
        return cast("F | None", self.place.files)

    def answer(self, keys: RoutedKeys, ask: Callable[[F], A | None], first: int = 0) -> A | None:
        """Return the answer of all open files, or None if the files have to be asked one by one.

        Args:
            keys: Keys that the files are asked for.
            ask: Function that returns the answer of the files.
            first: Number of the first file that may answer.
        """
        try:
            files = self._open(keys, first)
            return None if files is None else ask(files)
        except (LookupStoreError, OSError, ValueError) as error:
            _log.info("%s: the files are asked one by one: %s", self._shown, error)
            return None

    def listed(self) -> F:
        """Return the open lookup files, which are listed again if one was opened or released."""
        files = self.files
        if files is None or files.count < len(self.lookups):  # lookups were added
            lookups = [*self.lookups]
            found = {at: one.open_reader for at, one in enumerate(lookups)}
            readers = {at: reader for at, reader in found.items() if reader is not None}
            files = self._opened([lookup.plan for lookup in lookups], readers)
            self.place.files = files
            if any(lookups[at].open_reader is not reader for at, reader in readers.items()):
                self.place.files = None  # released meanwhile, and it must not be kept
        return files

    def _open(self, keys: RoutedKeys, first: int) -> F | None:
        """Return the open lookup files. None: another file may have one of the keys.

        Lookup files of this host that may have a key are opened, if all of them may be open.
        """
        files = self.listed()
        if wanted := self._closed_with(keys, files, first):
            near = [self.lookups[number] for number in files.opened if number >= first]
            near = [lookup for lookup in near if not keys.is_apart(lookup)]
            if len(near) + len(wanted) > descriptors.most():  # to open some would close others
                return None
            for lookup in near:  # so that those used before are closed, if some have to be
                descriptors.used(lookup)
            ruled_out = set()
            for lookup in wanted:
                if not lookup.is_ready() and keys.is_ruled_out(lookup):
                    ruled_out.add(lookup)
                elif lookup.open_reader is None:
                    return None
            if len(ruled_out) < len(wanted):
                self.place.files = None  # also if one was open, and all of it is here only now
                files = self.listed()
                if not ruled_out.issuperset(self._closed_with(keys, files, first)):
                    return None  # released meanwhile
        for number in files.opened:
            descriptors.used(self.lookups[number])
        return files

    def _closed_with(self, keys: RoutedKeys, files: F, first: int) -> list[FileLookup]:
        """Return the lookups of closed files that may have one of the keys."""
        closed = [self.lookups[number] for number in files.closed if number >= first]
        return [lookup for lookup in closed if keys.may_be_in(lookup)]


def owners_in(
    owners: KeyOwners, residency: Residency, family: str
) -> Callable[[KeySchema], OwnerTables]:
    """Return a function that returns the tables of owners of files that encode keys in one way.

    Args:
        owners: Tables of owners that are known, to which others are added.
        residency: Cache of this host, in which processes share tables.
        family: Text that identifies the files, also when they are replaced.
    """
    return partial(_tables_of, owners, residency, family)


def _tables_of(owners: KeyOwners, residency: Residency, family: str, key: KeySchema) -> OwnerTables:
    if key not in owners:
        owners.setdefault(key, OwnerTables(residency.shared_tables, f"{family} {key}"))
    return owners[key]
