"""The data files of one version of a store, by bucket, and their readers.

A bucket has layers: its runs of changes, the newest first, and its base. Each file has a number.
The number of a base is that of its bucket; runs have the numbers that follow.

Readers need a local file. The files of a local store are local already; for a file of a remote
store, the host's `Residency` pins a local copy, which answers while it is still being fetched. The
files of a local store are all opened at once, so that the store keeps answering when it is
replaced. A file of a remote store is opened at the first lookup in its bucket, several at once if a
batch needs several.

Lookups in compressed files are slow. For a remote file, a plain copy is made as soon as the file is
fetched completely; for a local file, it is made once lookups have done as much work as making it
costs (`recode.BreakEven`). From then on, lookups read the plain copy, or the file itself again if
the copy is damaged.

An open copy is in use and cannot be evicted. Copies are therefore released if there is no room for
a copy that is needed, or if this process has too many files open. A call that uses a copy keeps it
until the call returns.
"""

from __future__ import annotations

import logging
import os
import threading
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TypeVar

import pyarrow as pa

from lookupstore.errors import ClosedError, CorruptionError, FormatError, LookupStoreError
from lookupstore.hostcache.cache import Residency, warn_slow
from lookupstore.hostcache.counts import Counts, read_with
from lookupstore.hostcache.folder import with_room
from lookupstore.hostcache.pinned_copy import PinnedCopy
from lookupstore.hostcache.recode import BreakEven, plain_size
from lookupstore.sst import Reader
from lookupstore.sst.cache import BlockCache
from lookupstore.sst.layers import Layers
from lookupstore.sst.reader import reads_of
from lookupstore.storage import descriptors
from lookupstore.storage.location import Location
from lookupstore.storage.regular_file import check_regular
from lookupstore.store.data_files import tail_of
from lookupstore.store.file_checks import (
    check_copy,
    check_records,
    missing_file_error,
    wrong_size_error,
)
from lookupstore.store.local_files import LocalFiles
from lookupstore.store.manifest import ChangeRun, DataFile, Manifest

#: Maximum number of buckets that are read at a time if the files are in an object store.
AT_ONCE = 8
# Seconds between two checks of a background fetch whether it is to stop.
_LOOK_SECONDS = 0.1

_log = logging.getLogger(__name__)

A = TypeVar("A")


@dataclass(eq=False)
class _Open(descriptors.Holder):
    """The reader of a file, its local copy, and the counts of what it had read before that."""

    reader: Reader
    copy: PinnedCopy | None
    recoded: bool
    number: int
    files: weakref.ref[BucketFiles]
    before: Counts = field(default_factory=Counts)

    def give_way(self) -> None:
        """Release the copy, which the next lookup pins again."""
        files = self.files()
        if files is not None:
            files.release_file(self.number, self)

    def counts(self) -> Counts:
        """Return what was read with the reader, and fetched since the copy was pinned."""
        read = read_with(self.reader) - self.before
        return read if self.copy is None else read + self.copy.counts


class BucketFiles(LocalFiles):
    """The data files of a version, which are opened on demand.

    Args:
        location: Location of the store.
        manifest: Manifest of the version.
        cache: Cache of decoded blocks. None: the cache that all stores of the process share.
        residency: Manager of the local copies of remote files, and of the plain copies of
            compressed ones.

    Raises:
        StaleStoreError: A file was removed, and so was the version.
        CorruptionError: A file is missing, or contradicts the manifest.
    """

    def __init__(
        self,
        location: Location,
        manifest: Manifest,
        cache: BlockCache | None,
        residency: Residency,
    ) -> None:
        self._location = location
        self._manifest = manifest
        self._cache = cache
        self._residency = residency
        self._tables = residency.shared_tables
        self._entries = {file.bucket: file for file in manifest.files}
        layers: dict[int, list[int]] = {}
        for number, run in enumerate(manifest.runs, manifest.buckets):
            self._entries[number] = run.file
            layers.setdefault(run.file.bucket, []).append(number)
        for file in manifest.files:
            layers.setdefault(file.bucket, []).append(file.bucket)
        #: Numbers of the files of each bucket that has files: runs, the newest first, then the
        #: base, the only one that is less than the number of buckets.
        self.layers: dict[int, tuple[int, ...]] = {
            bucket: tuple(layers[bucket]) for bucket in sorted(layers)
        }
        self._locks = {number: threading.Lock() for number in self._entries}
        self._counting = threading.Lock()  # guards both of these
        #: Open reader and local copy of each file, by its number.
        self.opened: dict[int, _Open] = {}
        self._past = Counts()  # counts of the copies that were released
        self._copied: set[int] = set()  # files whose local copies were needed
        self._closed = False
        #: Readers of the files of a local store, by number.
        self.in_place: dict[int, Reader] = {}
        self._all_in_place: Layers | None = None  # set at the first call
        # Work of lookups in the compressed ones of these files.
        self._break_evens: dict[int, BreakEven] = {}
        if location.in_place:
            try:
                for number, file in self._entries.items():
                    self._open_in_place(number, file)
            except BaseException:
                self.close()
                raise

    def __iter__(self) -> Iterator[int]:
        """Yield the buckets that have files."""
        return iter(self.layers)

    def __contains__(self, bucket: int) -> bool:
        return bucket in self.layers

    def of_runs(self, runs: Sequence[ChangeRun]) -> BucketFiles:
        """Return the files of some runs alone, by ascending bucket, opened like these files."""
        alone = replace(self._manifest, files=(), runs=tuple(runs))
        return BucketFiles(self._location, alone, self._cache, self._residency)

    def name(self, number: int) -> str:
        """Return the name of the file with a number."""
        return self._entries[number].name

    def with_reader(self, number: int, use: Callable[[Reader], A]) -> A:
        """Call `use` with the reader of the file of a number, and return its result.

        `use` is called again, with another reader, if a local copy turns out to be damaged.

        Raises:
            StaleStoreError: The file was removed, and so was the version.
            CorruptionError: The file is missing, or differs from the manifest.
            DiskQuotaError: There is no room for the local copy of the file.
            OSError: The object store does not return the file.
        """
        try:
            opened = self.ready(number)
            try:
                return use(opened.reader)
            except CorruptionError as error:
                self._leave_damaged(number, opened, error)
            return use(self.ready(number).reader)
        except FileNotFoundError:
            raise self._missing_error(number) from None

    def readers_in_place(self, bucket: int) -> list[Reader] | None:
        """Return the readers of a bucket's files, or None if they may be replaced.

        Raises:
            ClosedError: The store is closed.
        """
        numbers = self.layers[bucket]
        if any(number not in self.in_place or number in self._break_evens for number in numbers):
            return None
        return [self.ready(number).reader for number in numbers]

    def with_layers(self, buckets: Iterable[int], use: Callable[[Layers], A]) -> A:
        """Call `use` with the open files of some buckets, and return its result.

        `use` is called again, with other readers, if local copies turn out to be damaged.

        Raises: what `with_reader` raises.
        """
        layers = {bucket: self.layers[bucket] for bucket in buckets}
        numbers = [number for some in layers.values() for number in some]
        given_up: set[int] = set()  # damaged copies
        while True:
            opened = {number: self._ready_or_missing(number) for number in numbers}
            readers = {
                bucket: [opened[number].reader for number in some]
                for bucket, some in layers.items()
            }
            try:
                return use(self._layers(readers))
            except CorruptionError as error:
                found = _number_of(opened, error.path)
                if found is None or found in given_up:
                    raise
                self._leave_damaged(found, opened[found], error)
                given_up.add(found)
            except FileNotFoundError as error:
                found = _number_of(opened, error.filename)
                raise self._missing_error(numbers[-1] if found is None else found) from None

    def layers_in_place(self) -> Layers | None:
        """Return all files, open together, or None if some may be replaced.

        Raises:
            ClosedError: The store is closed.
        """
        self._check_not_closed()
        if self._all_in_place is None:
            readers = {}
            for bucket in self.layers:
                some = self.readers_in_place(bucket)
                if some is None:
                    return None
                readers[bucket] = some
            self._all_in_place = self._layers(readers)
        return self._all_in_place

    def _layers(self, readers: Mapping[int, Sequence[Reader]]) -> Layers:
        without_base = {bucket for bucket in readers if self.layers[bucket][-1] != bucket}
        return Layers(self._manifest.buckets, readers, without_base)

    def cold(self, buckets: Iterable[int]) -> list[int]:
        """Return the buckets with a file that may have to wait for an object store."""
        is_here = self._is_here
        return [
            bucket
            for bucket in buckets
            if not all(is_here(number) for number in self.layers[bucket])
        ]

    def wait_for(self, buckets: Sequence[int], ask: Callable[[int], None]) -> None:
        """Call `ask` for each of some buckets, several at once; each call waits for its files."""
        if len(buckets) <= 1:
            for bucket in buckets:
                ask(bucket)
            return
        pool = ThreadPoolExecutor(min(AT_ONCE, len(buckets)), "lookupstore-buckets")
        try:
            for _ in pool.map(ask, buckets):
                continue
        finally:
            pool.shutdown(cancel_futures=True)

    def scan(
        self, number: int, records: Callable[[Reader, bytes | None], Iterator[pa.RecordBatch]]
    ) -> Iterator[pa.RecordBatch]:
        """Yield records of a file batch by batch; raises what `with_reader` raises.

        Args:
            number: Number of the file.
            records: Function that yields the records of a reader, with keys in the first column,
                after a given key, or from the first record if that is None. It is called again when
                another reader continues.
        """
        last: bytes | None = None
        try:
            while True:
                opened: _Open | None = self.ready(number)
                assert opened is not None
                try:
                    for piece in records(opened.reader, last):
                        last = piece.column(0)[-1].as_py()
                        if self._are_many:
                            break
                        yield piece
                    else:
                        return
                except CorruptionError as error:
                    # The other copy has the same records in the same order.
                    self._leave_damaged(number, opened, error)
                    continue
                opened = None  # it may be released while the caller continues
                yield piece
        except FileNotFoundError:
            raise self._missing_error(number) from None

    @property
    def _are_many(self) -> bool:
        """Return whether this process cannot have the local copies of all files open at once."""
        return not self.in_place and 3 * len(self._entries) > descriptors.most()

    @contextmanager
    def original(self, number: int, *, whole: bool) -> Iterator[Reader]:
        """Return a reader of a data file as stored; lookups may read a decompressed copy.

        Args:
            number: Number of the file.
            whole: Whether to wait until all of a remote file is on this host.

        Raises:
            CorruptionError: The file is missing, or differs from the manifest.
            DiskQuotaError: There is no room for the local copy of the file.
            OSError: The object store does not return the file.
        """
        if number in self.in_place:
            self._check_not_closed()
            yield self.in_place[number]
            return
        file = self._entries[number]
        with self._pin(file, recode=False) as copy:
            try:
                if whole:
                    copy.wait()
                reader = Reader(copy.path, cache=self._cache, fill=copy.fill)
                check_records(reader, file)
            except FileNotFoundError:
                raise self._missing_error(number) from None
            with reader:
                yield reader

    @property
    def asked(self) -> set[int]:
        """Return the buckets with an open file."""
        opened = [*self.in_place, *self.opened]
        return {self._entries[number].bucket for number in opened}

    def fetch(self, buckets: set[int], stop: threading.Event) -> None:
        """Fetch all files of some buckets to this host, unless told to stop.

        Raises: what `with_reader` raises.
        """
        for bucket in sorted(buckets & set(self.layers)):
            for number in self.layers[bucket]:
                try:
                    while not stop.is_set():
                        copy = self.ready(number).copy
                        if copy is None or copy.wait(_LOOK_SECONDS):
                            break
                except FileNotFoundError:
                    raise self._missing_error(number) from None

    @property
    def are_here(self) -> bool:
        """Return whether this host has all bytes of all files."""
        return bool(self.in_place) or self.has_copies(self._entries.values())

    def has_copies(self, files: Iterable[DataFile]) -> bool:
        """Return whether this host has local copies of all of some data files, of any version."""
        residency = self._residency
        return all(residency.coverage(nbytes=one.bytes, xxh64=one.xxh64)[0] for one in files)

    @property
    def has_any_copy(self) -> bool:
        """Return whether this host has any local copy."""
        return self._residency.used > 0

    @property
    def is_room_short(self) -> bool:
        """Return whether the local copies of this host fill more than half of the quota."""
        return self._residency.is_getting_full

    @property
    def bytes_here(self) -> int:
        """Return the number of bytes of the files that this host has."""
        if self.in_place:
            return sum(file.bytes for file in self._entries.values())
        return sum(
            self._residency.coverage(nbytes=file.bytes, xxh64=file.xxh64)[1]
            for file in self._entries.values()
        )

    def counts(self) -> Counts:
        """Return the counts of what this process has read of the files, and fetched for them."""
        with self._counting:
            return sum((opened.counts() for opened in self.opened.values()), self._past)

    def share_room(self) -> None:
        """Release local copies if all copies of the host take more than half of the quota."""
        may_have_copies = self.opened and (not self.in_place or self._break_evens)
        if may_have_copies and self.is_room_short:
            self.release()

    def release(self) -> None:
        """Release the local copies; the next lookup pins them again."""
        for number in self._locks:
            opened = self.opened.get(number)
            if opened is not None and opened.copy is not None:
                self.release_file(number, opened)

    def release_file(self, number: int, opened: _Open) -> None:
        """Release one local copy, unless a thread is opening that file."""
        lock = self._locks[number]
        if lock.acquire(blocking=False):
            try:
                if self.opened.get(number) is opened:
                    self._drop(number)
            finally:
                lock.release()

    def close(self) -> None:
        """Close all files, and release their local copies."""
        self._closed = True
        self._all_in_place = None
        for number, lock in self._locks.items():
            with lock:
                opened = self._drop(number)
                if opened is not None:
                    opened.reader.close()
                if number in self.in_place:
                    self.in_place[number].close()

    def _check_not_closed(self) -> None:
        if self._closed:
            raise ClosedError(f"{self._location.uri}: the store is closed; open it again")

    def _is_here(self, number: int) -> bool:
        """Return whether a file can be read without an object store."""
        opened = self.opened.get(number)
        if opened is None or opened.copy is None:
            return number in self.in_place
        try:
            return opened.copy.complete
        except ClosedError:  # released by another thread at this moment
            return False

    def ready(self, number: int) -> _Open:
        """Return the open reader of a file, and open it if needed."""
        opened = self.opened.get(number)
        if opened is None:
            return self._open(number)
        copy = opened.copy
        if copy is None:
            better = self._break_evens and self._has_better(number, opened)
            return self._open(number) if better else opened
        try:
            error, outdated = copy.error, copy.outdated
        except ClosedError:  # released by another thread at this moment
            return self._open(number)
        if isinstance(error, CorruptionError):
            # Earlier answers may have been read from another file: the call must not continue.
            raise CorruptionError(*error.args)
        descriptors.used(opened)
        return self._open(number) if outdated else opened

    def _ready_or_missing(self, number: int) -> _Open:
        try:
            return self.ready(number)
        except FileNotFoundError:
            raise self._missing_error(number) from None

    def _open(self, number: int) -> _Open:
        with self._locks[number]:
            opened = self.opened.get(number)
            if opened is not None and self._has_better(number, opened):
                self._drop(number)
                opened = None
            if opened is None:
                self._check_not_closed()
                opened = self._open_file(number, self._entries[number])
                with self._counting:
                    self.opened[number] = opened
                if opened.copy is not None:
                    descriptors.took(opened, opened.copy.descriptors)
        return opened

    def _open_in_place(self, number: int, file: DataFile) -> None:
        """Open a file of a local store."""
        _, path = self._location.resolve(file.name)
        try:
            check_regular(path)
            size = os.stat(path).st_size
            if size != file.bytes:
                raise wrong_size_error(path, file, size)
            reader = Reader(path, cache=self._cache, tables=self._tables)
            check_records(reader, file)
        except FileNotFoundError:
            raise self._missing_error(number) from None
        self.in_place[number] = reader
        if plain_size(reader.info()) is not None:
            self._break_evens[number] = BreakEven(reader.info().data_blocks)

    def _has_better(self, number: int, opened: _Open) -> bool:
        """Return whether a plain copy can replace an open file; begin to make one that pays off."""
        if opened.copy is not None:
            return opened.copy.outdated
        point = self._break_evens.get(number)
        if point is None or not point.is_paid(paid := reads_of(opened.reader).blocks_read):
            return False
        file = self._entries[number]
        try:
            if self._residency.has_plain(nbytes=file.bytes, xxh64=file.xxh64):
                return True
            if point.try_now(paid):
                self._residency.recode(
                    self._location.show(file.name),
                    nbytes=file.bytes,
                    xxh64=file.xxh64,
                    store=self._location.uri,
                )
        except OSError as error:
            # An error of the folder of copies is not an error of the store.
            _log.warning("%s: no plain copies are made: %s", self._location.uri, error)
            self._break_evens.clear()
        return False

    def _open_file(self, number: int, file: DataFile) -> _Open:
        if number in self.in_place:
            opened = self._open_plain(number, file) if number in self._break_evens else None
            if opened is None:
                reader = self.in_place[number]
                before = read_with(reader)
                opened = _Open(reader, None, False, number, weakref.ref(self), before)
            return opened
        recode = self._manifest.options.get("compression") != "none"
        copy = self._pin(file, recode=recode)
        self._check_room(number)
        recoded = copy.recoded
        try:
            return self._open_copy(number, file, copy)
        except (CorruptionError, FormatError):
            if not recoded:
                raise
        return self._open_copy(number, file, self._pin(file, recode=recode))

    def _check_room(self, number: int) -> None:
        """Log, once, that the local copies that lookups need exceed the quota."""
        with self._counting:
            self._copied.add(number)
            needed = sum(self._entries[each].bytes for each in self._copied)
        quota = self._residency.quota
        if needed > quota:
            warn_slow(
                self._location.uri,
                f"local copies on this host may take {quota:,} bytes, and those of the store take "
                f"{needed:,} or more; set LOOKUPSTORE_CACHE_BYTES to more",
            )

    def _open_plain(self, number: int, file: DataFile) -> _Open | None:
        """Open the plain copy of a compressed file of a local store if it exists and is valid."""
        filesystem, path = self._location.resolve(file.name)
        shown = self._location.show(file.name)
        try:
            copy = self._residency.pin_plain(
                filesystem, path, nbytes=file.bytes, xxh64=file.xxh64, uri=shown
            )
            return None if copy is None else self._open_copy(number, file, copy)
        except (CorruptionError, FormatError) as error:  # `_open_copy` has removed it
            _log.warning("%s: its plain copy is damaged: %s", shown, error)
        except OSError as error:
            # An error of the folder of copies is not an error of the store.
            _log.warning("%s: its plain copy cannot be used: %s", shown, error)
            del self._break_evens[number]
        return None

    def _open_copy(self, number: int, file: DataFile, copy: PinnedCopy) -> _Open:
        try:
            reader = Reader(copy.path, cache=self._cache, fill=copy.fill, tables=self._tables)
            check_copy(reader, file)
        except BaseException as error:
            if copy.recoded and isinstance(error, (CorruptionError, FormatError)):
                copy.discard()
            copy.close()
            raise
        return _Open(reader, copy, copy.recoded, number, weakref.ref(self))

    def _pin(self, file: DataFile, *, recode: bool) -> PinnedCopy:
        """Pin the local copy of a file, and release other copies if there is no room for it."""
        filesystem, path = self._location.resolve(file.name)
        return with_room(
            lambda: self._residency.pin(
                filesystem,
                path,
                nbytes=file.bytes,
                xxh64=file.xxh64,
                uri=self._location.show(file.name),
                recode=recode,
                store=self._location.uri,
                tail=tail_of(file, self._manifest),
            )
        )

    def _leave_damaged(self, number: int, opened: _Open, error: CorruptionError) -> None:
        """Give up a recoded copy, which cannot be repaired; raise the error of any other file."""
        if not opened.recoded:
            raise error
        with self._locks[number]:
            if self.opened.get(number) is opened:
                assert opened.copy is not None
                opened.copy.discard()
                self._drop(number)

    def _drop(self, number: int) -> _Open | None:
        """Forget a file if it is open, and return it; the caller holds its lock."""
        with self._counting:
            opened = self.opened.pop(number, None)
            if opened is not None:
                self._past += opened.counts()
                if opened.copy is not None:
                    opened.copy.close()
                    descriptors.gave(opened)
        return opened

    def _missing_error(self, number: int) -> LookupStoreError:
        return missing_file_error(self._location, self._manifest, self._entries[number])


def _number_of(opened: Mapping[int, _Open], path: str | None) -> int | None:
    """Return the number of the file with a path, as named in errors."""
    for number, one in opened.items():
        if one.reader.path == path:
            return number
    return None
