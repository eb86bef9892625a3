"""Lookup tables that all processes of a host share, such as the places of a file.

Making the table of places of a large file takes seconds, and 8 bytes of memory per record.
Therefore the first process that has made it publishes it as a file, which other processes map. The
table is derived from sorted files: if anything is wrong with it, a process makes its own table
instead.

Making a table checks each block of the sorted files; a process that finds the table checks none. So
that damage of the disk does not stay unnoticed for ever, a table is used until the host restarts.
Only Linux reports restarts; elsewhere a table is used as long as the cache of the host keeps it.

The file contains the buckets of the table of places (``csrc/ls_places.h``), or the lines of a table
of owners (``csrc/ls_owners.h``), then 64 bytes, all integers little-endian:

| offset | type | content |
|---|---|---|
| 0 | u32 | bytes of a record, on average; of owners: number of sorted files |
| 4 | u32 | zero |
| 8 | u64 | records that the table has room for |
| 16 | u64 | size of the sorted files |
| 24 | 16 bytes | name of the table: XXH3-128 of what identifies the sorted files and this boot |
| 40 | u64 | XXH3-64 of the buckets or lines |
| 48 | u64 | XXH3-64 of the 48 bytes before |
| 56 | 8 bytes | ``LSPLACE1``, or ``LSOWNER1`` |
"""

from __future__ import annotations

import logging
import os
import struct
import time
from collections.abc import Callable, Iterable
from typing import Generic, NamedTuple, Protocol, TypeVar

import xxhash

from lookupstore.errors import CorruptionError, LookupStoreError
from lookupstore.sst._map import FileMap
from lookupstore.sst._table import Places
from lookupstore.storage import descriptors
from lookupstore.storage.boot import boot_id

#: Size in bytes below which tables are not shared: a process makes one in a few milliseconds.
LEAST_BYTES = 1 << 20

_TAIL = struct.Struct("<IIQQ16sQQ8s")
# Size in bytes of the parts in which a table is read from the disk and hashed.
_PART = 4 << 20
# Seconds between two checks whether another process makes the table, or between two claims.
_CLAIM_SECONDS = 0.5

_log = logging.getLogger(__name__)


class PlacesLostError(LookupStoreError):
    """The file of a shared table was truncated during a lookup; the next lookup is correct."""


class PinnedTable(Protocol):
    """A file of the host that is not evicted before it is closed."""

    path: str

    def close(self) -> None:
        """Release the file."""


class HostTables(Protocol):
    """Files shared by the processes of a host, each named after the data it was derived from."""

    def pin(self, name: str) -> PinnedTable | None:
        """Return a file. None: the host does not have it."""

    def claim(self, name: str) -> bool:
        """Return whether this process is to make a file, while other processes do not make it.

        A claim expires if it is not renewed for a few seconds, and half a minute after it began.
        """

    def make(self, name: str, nbytes: int, write: Callable[[str], None]) -> None:
        """Make a file of a given size with `write`, which gets a path, unless the host has it."""

    def discard(self, name: str) -> None:
        """Remove a damaged file."""


class TableBytes(Protocol):
    """A lookup table in memory, or in the map of a shared file."""

    def __buffer__(self, flags: int, /) -> memoryview:
        """Return all of its bytes."""


T = TypeVar("T", bound=TableBytes)


class Tail(NamedTuple):
    """The numbers with which a table is used, from the end of its file.

    Attributes:
        unit: Bytes of a record on average, or number of files.
        records: Number of records that the table has room for.
        nbytes: Size of all sorted files in bytes.
    """

    unit: int
    records: int
    nbytes: int


class HostTable(descriptors.Holder, Generic[T]):
    """The shared lookup table of one file or more, found on the host or published to it.

    The file of a table in use is pinned, so that it is not evicted. It is released if the process
    has too many files open, or if others need the room; a process that has mapped the file keeps
    its bytes.

    Args:
        tables: Tables of the host.
        identity: Function that returns an identity of the sorted files, or None if they have none
            yet.
    """

    #: Content of the table, for messages, and the bytes that mark its file.
    content: str
    magic: bytes

    def __init__(self, tables: HostTables, identity: Callable[[], object | None]) -> None:
        self._tables = tables
        self._identity = identity
        self._known: str | None = None
        self._pinned: PinnedTable | None = None
        self._claimed = -_CLAIM_SECONDS
        self._is_ours = False
        self._check: _Check | None = None

    @property
    def _name(self) -> str | None:
        if self._known is None:
            try:
                identity = self._identity()
            except OSError:  # its path names another file, or no file
                return None
            if identity is not None:
                self._known = xxhash.xxh3_128_hexdigest(repr((identity, boot_id())).encode())
        return self._known

    def _found(self, nbytes: int, use: Callable[[Tail, FileMap, bool | None], T]) -> T | None:
        """Return the table of this host, whose content is not checked yet. None: there is none.

        Args:
            nbytes: Size of all sorted files in bytes.
            use: Function that returns the table in the map of a file, and is told whether the file
                is in memory. It raises `ValueError` if the numbers do not fit the file.
        """
        name = self._name
        if name is None:
            return None
        try:
            pinned = self._tables.pin(name)
            if pinned is None:
                return None
            try:
                table, self._check = self._opened(pinned.path, name, nbytes, use)
            except BaseException:
                pinned.close()
                raise
        except CorruptionError as error:
            _log.warning("%s; removed", error)
            self.discard()
            return None
        except (LookupStoreError, OSError) as error:
            _log.info("no shared table of %s: %s", self.content, error)
            return None
        self._pinned = pinned
        descriptors.took(self, 1)
        return table

    def _opened(
        self, path: str, name: str, nbytes: int, use: Callable[[Tail, FileMap, bool | None], T]
    ) -> tuple[T, _Check]:
        """Return the table in a file, and the check of its content.

        Raises:
            CorruptionError: The end of the file is damaged, or it is the table of another file.
            OSError: The file cannot be opened or mapped.
        """
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
        try:
            size = os.fstat(descriptor).st_size
            if size < _TAIL.size:
                raise CorruptionError(path, 0, f"{_TAIL.size} bytes or more", size)
            map, checked = FileMap(descriptor, size, True), FileMap(descriptor, size)
            is_cached = FileMap.is_cached(descriptor, size)
        finally:
            os.close(descriptor)
        end = size - _TAIL.size
        last = bytes(memoryview(map)[end:])
        unit, _, records, of_bytes, of, digest, tail_digest, magic = _TAIL.unpack(last)
        if magic != self.magic or tail_digest != xxhash.xxh3_64_intdigest(last[:48]):
            raise CorruptionError(path, end, f"the end of a table of {self.content}", last.hex())
        if (of.hex(), of_bytes) != (name, nbytes):
            raise CorruptionError(path, end + 16, f"the table {name} of a file of {nbytes} bytes",
                                  f"{of.hex()} of {of_bytes} bytes")  # fmt: skip
        try:
            table = use(Tail(unit, records, of_bytes), map, is_cached)
        except ValueError as error:
            raise CorruptionError(path, 0, f"a table of {self.content}", error) from None
        if len(memoryview(table)) != end:
            raise CorruptionError(path, end + 8, f"records of a table of {end} bytes", records)
        return table, _Check(path, checked, end, digest, is_cached)

    def read_ahead(self) -> None:
        """Read the unchecked part of the table that was found last from the disk."""
        if self._check is not None:
            self._check.read_ahead()

    def check(self, nbytes: int) -> bool:
        """Check more of the table found last, and return whether all of it is checked and correct.

        Args:
            nbytes: Bytes to check.

        Raises:
            CorruptionError: The table is damaged.
        """
        assert self._check is not None
        if not self._check.go_on(nbytes):
            return False
        self._check = None
        return True

    def may_make(self) -> bool:
        """Return whether this process is to make the table; False: another process is making it."""
        name, now = self._name, time.monotonic()
        if name is None:
            return True
        if now - self._claimed >= _CLAIM_SECONDS:
            self._claimed = now
            try:
                self._is_ours = self._tables.claim(name)
            except (LookupStoreError, OSError) as error:
                _log.info("no shared table of %s: %s", self.content, error)
                self._is_ours = True
        return self._is_ours

    def renew(self) -> None:
        """Tell other processes that this one still makes the table."""
        self.may_make()

    def _published(self, table: T, tail: Tail) -> bool:
        """Publish a table with all records, and return whether it can be found.

        Args:
            table: The table.
            tail: Its numbers.
        """
        name = self._name
        if name is None:
            return False
        content = memoryview(table)
        try:
            self._tables.make(
                name,
                len(content) + _TAIL.size,
                lambda path: _write(path, name, content, tail, self.magic),
            )
        except (LookupStoreError, OSError) as error:
            _log.info("the table of %s is not shared: %s", self.content, error)
            return False
        return True

    def give_way(self) -> None:
        """Release the file of the table."""
        pinned, self._pinned = self._pinned, None
        if pinned is not None:
            pinned.close()
        descriptors.gave(self)

    def discard(self) -> None:
        """Remove the table from this host."""
        self.give_way()
        try:
            if self._known is not None:
                self._tables.discard(self._known)
        except (LookupStoreError, OSError) as error:
            _log.info("a damaged table of %s stays: %s", self.content, error)


class SharedPlaces(HostTable[Places]):
    """The shared table of the places of the records of one file."""

    content = "places"
    magic = b"LSPLACE1"

    def find(self, file: FileMap) -> Places | None:
        """Return the table of a file on this host. None: there is none.

        Its buckets are not checked yet; see `check`.

        Args:
            file: Map of the sorted file.
        """

        def use(tail: Tail, map: FileMap, is_cached: bool | None) -> Places:
            return Places(file, tail.records, tail.unit, map, is_cached)

        return self._found(len(file), use)

    def publish(self, places: Places) -> Places:
        """Publish a table, and return the shared table, or the given one if publishing failed.

        Args:
            places: Table with all records of the file.
        """
        tail = Tail(places.record, places.records, len(places.map))
        if not self._published(places, tail):
            return places
        return self.find(places.map) or places


def _write(path: str, name: str, content: memoryview, tail: Tail, magic: bytes) -> None:
    head = struct.pack(
        "<IIQQ16sQ",
        tail.unit,
        0,
        tail.records,
        tail.nbytes,
        bytes.fromhex(name),
        xxhash.xxh3_64_intdigest(content),
    )
    write_parts(path, [content, head + xxhash.xxh3_64_digest(head)[::-1] + magic])


def write_parts(path: str, parts: Iterable[bytes | memoryview]) -> None:
    """Write a file that only its owner can read.

    Args:
        path: Path of the file.
        parts: Content of the file.
    """
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    with open(descriptor, "wb", buffering=0) as file:
        for part in parts:
            rest = memoryview(part)
            while rest:
                rest = rest[file.write(rest) :]


class _Check:
    """The comparison of the content of a table with its hash, step by step.

    Args:
        path: Path of the file.
        table: Map of the file, which no process writes to.
        size: Size of the buckets in bytes.
        digest: Expected hash of the buckets.
        is_cached: Whether the file is in memory. None: The system does not tell.
    """

    def __init__(
        self, path: str, table: FileMap, size: int, digest: int, is_cached: bool | None
    ) -> None:
        self._path, self._table, self._size, self._expected = path, table, size, digest
        self._is_cached = is_cached
        self._done = 0
        self._hash = xxhash.xxh3_64()

    def read_ahead(self) -> None:
        """Read what is not checked yet from the disk."""
        if not self._is_cached:
            self._table.populate(self._done, self._size - self._done)

    def go_on(self, nbytes: int) -> bool:
        """Check more bytes, and return whether all bytes are checked and correct.

        Raises:
            CorruptionError: The bytes have another hash.
        """
        end = min(self._done + nbytes, self._size)
        content = memoryview(self._table)
        while self._done < end:
            size = min(_PART, end - self._done)
            self._table.populate(self._done, size)
            self._hash.update(content[self._done : self._done + size])
            self._done += size
        if self._done < self._size:
            return False
        found = self._hash.intdigest()
        if found != self._expected or self._table.broken:
            shown = f"content of XXH3-64 {self._expected:016x}"
            raise CorruptionError(self._path, 0, shown, f"{found:016x}")
        return True
