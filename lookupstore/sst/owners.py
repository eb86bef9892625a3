"""Tables of owners: lookups in files whose ranges of keys overlap make, find and share them.

A table leads from the hash of a key to the files that may have the key (``csrc/ls_owners.h``).
Without it, a key is tested with the filter of each file. Calls make the table together, each a part
in proportion to its keys, and the processes of a host share it (``shared``).

A table stays in use when some of its files are replaced by others. These are tested by their
filters, until they are many: then they get a table of their own, with the files of tables that have
at most twice their records. A table of all files is thus made again only when its records double.

A process that has just begun cannot know for which files others have made tables. They list them in
a file of the host, whose name is that of the family of the files.
"""

from __future__ import annotations

import logging
import os
import threading
import weakref
from collections.abc import Callable, Iterable, Sequence

import xxhash

from lookupstore.errors import CorruptionError, LookupStoreError
from lookupstore.memory_limit import memory_limit
from lookupstore.sst._data_blocks import DataBlocks
from lookupstore.sst._layer import Layer
from lookupstore.sst._map import FileMap
from lookupstore.sst._owners import MOST_FILES, MadeOwners, OwnedFiles, Owners, owners_size
from lookupstore.sst._table import FileTable
from lookupstore.sst.shared import (
    LEAST_BYTES,
    HostTable,
    HostTables,
    Tail,
    write_parts,
)
from lookupstore.storage.boot import boot_id
from lookupstore.storage.small_files import read_small_file

#: Number of layers without a table from which on a table is made: fewer filters take less time.
LEAST_LAYERS = 4
#: Number of keys after which a shared table is searched for, and then again.
LOOKS_APART = 1000
#: Number of records that a call adds to a table per key: about the time of a lookup. More if the
#: table would otherwise take more than KEYS_UNTIL_MADE keys.
ADDED_PER_KEY = 16
MOST_PER_KEY = 100
KEYS_UNTIL_MADE = 3_000_000
#: Number of keys after which a table is given up that is made of files without lookups.
MOST_IDLE = 1_000_000
#: Bytes of a shared table that a call checks before it is used, at least and per key.
CHECKED_AT_ONCE = 1 << 20
CHECKED_PER_KEY = 64
#: A table may take one of so many parts of the memory of the process.
PART_OF_MEMORY = 4
#: Most tables of one process, and most bytes of the list of those of the host.
MOST_TABLES = 16
_MOST_LISTED = MOST_TABLES * MOST_FILES * 40

_log = logging.getLogger(__name__)

#: Names of the files of a table, in the order of their numbers.
Names = tuple[str, ...]


class SharedOwners(HostTable[Owners]):
    """The shared table of owners of some files."""

    content = "owners"
    magic = b"LSOWNER1"

    def __init__(self, tables: HostTables, names: Names) -> None:
        super().__init__(tables, lambda: ("owners", names))
        self._files = len(names)

    def find(self) -> Owners | None:
        """Return the table of the files on this host, not checked yet. None: there is none."""

        def use(tail: Tail, map: FileMap, is_cached: bool | None) -> Owners:
            if tail.unit != self._files:
                raise ValueError(f"{tail.unit} files; expected {self._files}")
            return Owners(tail.records, map)

        return self._found(0, use)

    def publish(self, owners: Owners) -> Owners | None:
        """Publish a table with all keys, and return the shared table, not checked yet.

        None: it could not be published.
        """
        return (
            self.find() if self._published(owners, Tail(self._files, owners.records, 0)) else None
        )


class _Known:
    """A table that is used, checked or made.

    Attributes:
        names: Names of its files, by number.
        owners: The table, complete and checked. None: it is not yet.
    """

    def __init__(self, names: Names, shared: SharedOwners | None) -> None:
        self.names = names
        self.owners: Owners | None = None
        self._shared = shared
        self._found: Owners | None = None
        self._made: MadeOwners | None = None

    @property
    def records(self) -> int:
        """Return the number of records of a table in use."""
        return 0 if self.owners is None else self.owners.records

    def find(self) -> bool:
        """Return whether the host has the table; `go_on` then checks it."""
        self._found = None if self._shared is None else self._shared.find()
        return self._found is not None

    def begin(self, records: int) -> bool:
        """Begin to make the table, unless another process makes it; return whether it is begun."""
        if self._shared is not None and not self._shared.may_make():
            return False
        self._made = MadeOwners(records)
        return True

    @property
    def is_made(self) -> bool:
        """Return whether the table is being made, of blocks of its files."""
        return self._made is not None

    def go_on(self, files: list[DataBlocks], keys: int) -> bool:
        """Check or make a part of the table after a lookup of a number of keys.

        Args:
            files: Its files, if it is made.
            keys: Number of the keys.

        Returns:
            Whether this may be continued; False: the shared table is damaged.

        Raises:
            CorruptionError: If a block is damaged.
        """
        nbytes = max(CHECKED_AT_ONCE, CHECKED_PER_KEY * keys)
        if self._made is not None:
            if self._shared is not None:
                self._shared.renew()
            made = self._made.owners
            per_key = max(ADDED_PER_KEY, min(made.records // KEYS_UNTIL_MADE, MOST_PER_KEY))
            if not self._made.add(files, per_key * keys):
                return True
            self._made = None
            self._found = None if self._shared is None else self._shared.publish(made)
            if self._found is None:
                self.owners = made
                return True
            nbytes = owners_size(made.records)  # to check it takes much less time
        assert self._shared is not None
        try:
            if self._shared.check(nbytes):
                self.owners = self._found
        except CorruptionError as error:
            _log.warning("%s; removed", error)
            self._shared.discard()
            return False
        return True

    def discard(self) -> None:
        """Remove the table from this host."""
        if self._shared is not None:
            self._shared.discard()


class FileOwners:
    """The files of a layer with ranges, and the tables of owners that lookups in them use.

    Args:
        tables: Tables of these files, and of those that they have replaced.
        layer: The files.
        identities: For each file, function that returns an identity, or None if it has none yet.
    """

    def __init__(
        self,
        tables: OwnerTables,
        layer: Layer,
        identities: Sequence[Callable[[], object | None]],
    ) -> None:
        assert layer.ranges is not None
        self._tables = tables
        self._layer = layer
        self._files: list[DataBlocks] = [
            lookup.data for lookup in layer.lookups if lookup is not None
        ]
        self._identities = identities
        self._numbers: dict[str, int] = {}  # by name, of the files that have one
        self._seen: tuple[_Known, ...] | None = None
        self._left = set(range(len(self._files)))  # numbers of the files without a table
        self._owned: OwnedFiles | None = None
        self.layers_left: int = layer.ranges.count

    def owned(self) -> OwnedFiles | None:
        """Return the files that have a table now. None: there are none."""
        if self._seen is not self._tables.in_use:
            self._choose()
        return self._owned

    def after(self, keys: int) -> None:
        """Make or check a part of a table after a lookup of a number of keys."""
        self._tables.after(self, keys)

    def lose(self) -> None:
        """Drop the tables whose files were truncated."""
        self._tables.lose()

    def _choose(self) -> None:
        """Use the tables with most of the files."""
        in_use = self._tables.in_use
        if in_use:
            self.name()
        left = set(range(len(self._files)))
        chosen: list[tuple[Owners, list[int]]] = []
        for known in sorted(in_use, key=lambda one: len(self.present(one.names)), reverse=True):
            numbers = [self._numbers.get(name, -1) for name in known.names]
            own = [number if number in left else -1 for number in numbers]
            if known.owners is not None and sum(number >= 0 for number in own) > 1:
                chosen.append((known.owners, own))
                left.difference_update(own)
        owned = OwnedFiles(self._layer, chosen) if chosen else None
        assert self._layer.ranges is not None
        self.layers_left = self._layer.ranges.count if owned is None else owned.layers_left
        self._left, self._owned, self._seen = left, owned, in_use

    def name(self) -> None:
        """Name the files that have no name yet: those written a moment ago may get one later."""
        named = set(self._numbers.values())
        found: dict[str, int] = {}
        for number, file in enumerate(self._files):
            if number not in named:
                name = self._tables.name_of(file.file, self._identities[number])
                if name is not None and name not in self._numbers:
                    found[name] = number
        if found:
            self._numbers = {**self._numbers, **found}  # other threads may read it now
            self._seen = None  # a table may have them

    def names_left(self) -> set[str]:
        """Return the names of files without a table."""
        self.owned()
        return {name for name, number in self._numbers.items() if number in self._left}

    def present(self, names: Iterable[str]) -> set[str]:
        """Return the names that are those of files."""
        return {name for name in names if name in self._numbers}

    def records(self, names: Iterable[str]) -> int:
        """Return the number of records of files."""
        return sum(self._files[self._numbers[name]].records for name in names)

    def files(self, names: Names) -> list[DataBlocks] | None:
        """Return the files with some names. None: not all of them are there."""
        if len(self.present(names)) < len(names):
            return None
        return [self._files[self._numbers[name]] for name in names]


class OwnerTables:
    """The tables of owners of files that are replaced by others. Threads may share it.

    Args:
        tables: Files of this host, in which processes share tables. None: they do not.
        family: Text that identifies the files, also when they are replaced.

    Attributes:
        in_use: The tables that lookups use; another tuple when they change.
    """

    def __init__(self, tables: HostTables | None, family: str) -> None:
        self._tables = tables
        self._list = xxhash.xxh3_128_hexdigest(repr(("owners of", family, boot_id())).encode())
        self.in_use: tuple[_Known, ...] = ()
        self._next: _Known | None = None  # the table that is checked or made
        self._refused: set[Names] = set()
        self._asked = 0  # number of keys of all calls,
        self._tested = 0  # and of layers that they were tested in since a table was made
        self._next_look = LOOKS_APART
        self._idle = 0  # number of keys that were looked up in other files than those of `_next`
        self._names: weakref.WeakKeyDictionary[FileTable, str] = weakref.WeakKeyDictionary()
        self._lock = threading.Lock()
        _all.add(self)

    def name_of(self, table: FileTable, identity: Callable[[], object | None]) -> str | None:
        """Return the name of a file. None: it has none yet.

        Args:
            table: Table of the file.
            identity: Function that returns an identity of the file.
        """
        name = self._names.get(table)
        if name is None:
            try:
                found = identity()
            except (LookupStoreError, OSError):  # its path names another file, or no file
                return None
            if found is not None:
                name = self._names[table] = xxhash.xxh3_128_hexdigest(repr(found).encode())
        return name

    def after(self, files: FileOwners, keys: int) -> None:
        """Make or check a part of a table after a lookup, unless another thread does it.

        Args:
            files: Files in which keys were looked up.
            keys: Number of the keys.
        """
        if not self._lock.acquire(blocking=False):
            return
        try:
            self._go_on(files, keys)
        except (LookupStoreError, OSError, MemoryError, ValueError) as error:
            _log.info("no table of owners: %s", error)
            if self._next is not None:
                self._refused.add(self._next.names)  # lookups in a damaged block raise the error
                self._next = None
        finally:
            self._lock.release()

    def lose(self) -> None:
        """Drop the tables whose files were truncated; they are made again."""
        with self._lock:
            lost = [one for one in self.in_use if one.owners is None or not one.owners.is_whole]
            self.in_use = tuple(one for one in self.in_use if one not in lost)
        for one in lost:
            one.discard()

    def _go_on(self, files: FileOwners, keys: int) -> None:
        self._asked += keys
        self._tested += keys * files.layers_left
        if self._next is None and files.layers_left >= LEAST_LAYERS:
            if self._asked < self._next_look:
                return
            self._next_look = self._asked + LOOKS_APART
            files.name()
            self._next = self._listed(files) or self._begun(files)
        known = self._next
        if known is None:
            return
        if known.is_made:
            files.name()
        given = files.files(known.names)
        if known.is_made and given is None:
            self._idle += keys
            # Its files were replaced, or closed, meanwhile; or files of other keys are looked up.
            if files.present(known.names) or self._idle > MOST_IDLE:
                self._next = None
            return
        self._idle = 0
        if not known.go_on(given or [], keys):
            self._next = None
        elif known.owners is not None:
            self._next = None
            self._use(known, files)

    def _listed(self, files: FileOwners) -> _Known | None:
        """Return a table of the host that has many of the files. None: there is none."""
        if self._tables is None:
            return None
        left = files.names_left()
        used = {known.names for known in self.in_use}
        by_records = {
            names: files.records(left.intersection(names))
            for names in self._read_list()
            if names not in used and len(left.intersection(names)) >= LEAST_LAYERS
        }
        for names in sorted(by_records, key=lambda one: by_records[one], reverse=True):
            known = _Known(names, SharedOwners(self._tables, names))
            if known.find():
                return known
        return None

    def _begun(self, files: FileOwners) -> _Known | None:
        """Return a table that is to be checked or made next. None: it is too early."""
        names = self._wanted(files)
        if len(names) < LEAST_LAYERS or names in self._refused:
            return None
        records = files.records(names)
        known = self._known(names, records)
        if known.find():
            return known
        if self._tested < records:
            return None
        if PART_OF_MEMORY * owners_size(records) > memory_limit():
            self._refused.add(names)
            return None
        return known if known.begin(records) else None

    def _wanted(self, files: FileOwners) -> Names:
        """Return the files for which a table is to be made: those without one, and maybe others.

        Tables that have at most twice its records are merged with it, and those most of whose files
        were replaced.
        """
        names = files.names_left()
        records = files.records(names)
        for known in sorted(self.in_use, key=lambda one: one.records):
            present = files.present(known.names) - names
            count = files.records(present)
            is_small = count <= 2 * records or 2 * count < known.records
            if is_small and len(names) + len(present) <= MOST_FILES:
                names |= present
                records += count
        return tuple(sorted(names)[:MOST_FILES])

    def _known(self, names: Names, records: int) -> _Known:
        is_small = owners_size(records) < LEAST_BYTES
        return _Known(
            names, None if self._tables is None or is_small else SharedOwners(self._tables, names)
        )

    def _use(self, known: _Known, files: FileOwners) -> None:
        """Use a table from now on, and not those whose files it has, or which were all removed."""
        self._tested = 0
        names = set(known.names)
        kept = [one for one in self.in_use if not names.issuperset(files.present(one.names))]
        self.in_use = (known, *kept)[:MOST_TABLES]
        if known.owners is not None and known.owners.is_shared:
            self._write_list(names)

    def _read_list(self) -> list[Names]:
        """Return the files of each table that processes have made for this family."""
        if self._tables is None:
            return []
        try:
            pinned = self._tables.pin(self._list)
            if pinned is None:
                return []
            try:
                content = read_small_file(pinned.path, _MOST_LISTED)
            finally:
                pinned.close()
        except (LookupStoreError, OSError) as error:
            _log.info("no list of tables of owners: %s", error)
            return []
        digest, _, lines = content.partition(b"\n")
        if digest != _digest(lines):
            _log.warning("%s: a damaged list of tables of owners; removed", pinned.path)
            self._tables.discard(self._list)
            return []
        return [tuple(line.decode().split()) for line in lines.splitlines()]

    def _write_list(self, names: set[str]) -> None:
        """Tell other processes of the tables in use, which replace those of some files."""
        assert self._tables is not None
        own = [one.names for one in self.in_use if one.owners is not None and one.owners.is_shared]
        others = [one for one in self._read_list() if one not in own and not names.issuperset(one)]
        lines = "".join(f"{' '.join(one)}\n" for one in (own + others)[:MOST_TABLES]).encode()
        content = b"%s\n%s" % (_digest(lines), lines)
        try:
            self._tables.discard(self._list)
            self._tables.make(self._list, len(content), lambda path: write_parts(path, [content]))
        except (LookupStoreError, OSError) as error:
            _log.info("tables of owners are not listed: %s", error)

    def forget_thread(self) -> None:
        """Forget what another thread was doing, in a child of fork."""
        self._lock = threading.Lock()
        self._next = None


def _digest(lines: bytes) -> bytes:
    return xxhash.xxh3_64_hexdigest(lines).encode()


_all: weakref.WeakSet[OwnerTables] = weakref.WeakSet()


def _after_fork() -> None:
    for tables in list(_all):
        tables.forget_thread()


os.register_at_fork(after_in_child=_after_fork)
