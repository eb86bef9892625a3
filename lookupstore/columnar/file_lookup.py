"""Answer keys from one columnar file: with its lookup file, or by reading row groups.

Row groups are read until these reads have cost as much as making the lookup file would (`Rent`). If
a batch would read a large part of the file at once, the lookup file is made.

A damaged lookup file is removed from this host, or not used any more if it is a published one. Then
keys are answered as if there had been none.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lookupstore.arrow._binary import BinaryColumn
from lookupstore.columnar.key_ranges import are_between, key_range
from lookupstore.columnar.lookup_file import (
    LookupFilePlan,
    check_lookup_file,
    needed_bytes,
    write_lookup_file,
)
from lookupstore.columnar.probe import ParquetProbe
from lookupstore.columnar.published import PublishedFile, data_name, location_of
from lookupstore.columnar.rent import Rent
from lookupstore.errors import ClosedError, CorruptionError, DuplicateKeyError, FormatError
from lookupstore.hostcache.cache import Residency
from lookupstore.hostcache.counts import Counts, read_with
from lookupstore.hostcache.folder import with_room
from lookupstore.hostcache.lookup_files import PinnedLookupFile, Room
from lookupstore.hostcache.pinned_copy import PinnedCopy
from lookupstore.progress import Advance, not_shown, progress_bars
from lookupstore.sst import Reader
from lookupstore.sst.reader import lookup_of
from lookupstore.sst.scans import scan_after
from lookupstore.storage import descriptors

if TYPE_CHECKING:
    from lookupstore.columnar.open_files import OpenFiles

#: Largest size of a file of which several are read at a time.
SMALL_FILE = 16 << 20
#: Largest share of the bytes of the columns that one lookup may read from row groups.
LARGE_LOOK = 0.25

_log = logging.getLogger(__name__)

_REMOVED = "%s; removed: the lookup file is built again when needed"
_NOT_USED = (
    "%s; the published lookup file is not used: rows are read from %s; delete it and its .json, "
    "then publish it again"
)
# Errors of a lookup file that is damaged, or was deleted after it was listed.
_UNUSABLE = (CorruptionError, FileNotFoundError)
# Number of lookup files of one columnar file that are given up in a call: a published one, and the
# one that was made instead.
_REPAIRS = 2

A = TypeVar("A")


@dataclass(frozen=True)
class LookupFileNames:
    """The names that a lookup file may have on a host. Its pickle finds the file on another host.

    Attributes:
        made: Names of the file if a host has made it.
        published: Size and XXH64 of the published file. None: the file is not published.
    """

    made: tuple[str, ...]
    published: tuple[int, str] | None

    def nbytes_in(self, residency: Residency) -> int:
        """Return the number of bytes of the file that a cache has. 0: it does not have it.

        Args:
            residency: Cache of lookup files of this host.
        """
        sizes = [residency.lookup_files.size(name) or 0 for name in self.made]
        if any(sizes) or self.published is None:
            return max(sizes)
        nbytes, xxh64 = self.published
        return residency.coverage(nbytes=nbytes, xxh64=xxh64)[1]


class OpenTogether:
    """A place for the open lookup files of several `FileLookup`, which empty it.

    Attributes:
        files: The open files, as of the last time that one was opened or released. None: unknown.
    """

    files: OpenFiles | None = None


class FileLookup(descriptors.Holder):
    """Lookups in one columnar file; threads may share it.

    Its files are released if this process has too many open, or the quota has no room for others.

    Args:
        plan: Plan of the lookup file.
        published: Published lookup file next to the source. None: there is none.
        residency: Cache that holds the lookup files of this host.
        rent: Cost of the reads without a lookup file, which decides when one is made.
        memory: Budget for sorting rows, in bytes.
        progress: Whether to show a bar while a lookup file is made. None: after a second, on a
            terminal or in a notebook.
        together: Place for the open files, which is emptied when this one is opened or released.
            None: the file is looked up alone.
    """

    def __init__(
        self,
        plan: LookupFilePlan,
        published: PublishedFile | None,
        residency: Residency,
        rent: Rent,
        memory: int,
        *,
        progress: bool | None = False,
        together: OpenTogether | None = None,
    ) -> None:
        self.plan = plan
        self._together = together
        # Plan of the lookup file: another one if rows that do not count have keys of others.
        self._made = plan
        self._name = plan.name
        key, source = plan.build.key_schema, plan.source
        kind = source.schema.field(key.names[0]).type
        self._range = key_range(source.ranges, kind, key)
        self._published = published
        self._residency = residency
        self.rent = rent
        self._memory = memory
        self._progress = progress
        self._lock = threading.Lock()
        self._reader: Reader | None = None
        self._pinned: PinnedCopy | PinnedLookupFile | None = None
        self._probe: ParquetProbe | None = None
        self._counting = threading.Lock()
        self._past = Counts()  # of readers that were forgotten

    def lookup(
        self, encoded: pa.Array, hashed: BinaryColumn | None = None, is_likely: bool = False
    ) -> tuple[npt.NDArray[np.int64], pa.Array]:
        """Return which keys the file has, and their packed rows.

        Args:
            encoded: Keys as bytes, as the plan encodes them. A null is never found.
            hashed: The same keys with their hashes, which a caller that asks several files passes.
                Default: they are hashed here.
            is_likely: Whether the file probably has one of the keys.

        Returns:
            Positions of the found keys, ascending, and the packed row of each.

        Raises:
            CorruptionError: If the columnar file is damaged.
            StaleStoreError: If the file was written again, or is gone.
            DiskQuotaError: If the lookup file does not fit into the quota.
            ValueError: If a key is repeated under the rule `error`.
        """
        if encoded.null_count == len(encoded):
            return np.zeros(0, dtype=np.int64), pa.array([], pa.large_binary())
        if self._reader is None and not self.may_have(encoded):
            return np.zeros(0, dtype=np.int64), pa.array([], pa.large_binary())
        descriptors.used(self)
        wanted = encoded if hashed is None else hashed
        reader = self._ready()
        if reader is not None:
            try:
                return self._kept(encoded, reader.lookup(wanted))
            except ClosedError:  # closed by another thread at this moment, and opened again below
                pass
            except _UNUSABLE as error:
                self._give_up(reader, error)
        found = self._probed(encoded, is_likely)
        if found is not None:
            return found
        return self._kept(encoded, self._repaired(lambda reader: reader.lookup(wanted)))

    def scan(
        self, start: bytes | None, stop: bytes | None, reverse: bool
    ) -> Iterator[pa.RecordBatch]:
        """Yield `key` and `value` of a range of encoded keys, by the lookup file.

        Args:
            start: First key to yield. None: the least key.
            stop: Key to stop before. None: the end.
            reverse: Whether to yield from the greatest key to the least.

        Raises the errors of `lookup`.
        """
        last: bytes | None = None

        def following(reader: Reader) -> pa.RecordBatch | None:
            return next(scan_after(reader, last, start=start, stop=stop, reverse=reverse), None)

        # The file may be released while other files are read: no reader is kept between two
        # batches.
        while (batch := self._repaired(following)) is not None:
            descriptors.used(self)
            last = batch.column(0)[-1].as_py()
            rows = batch.column("value").cast(pa.large_binary())
            kept = self.plan.kept(partial(batch.column, "key"), rows)
            yield batch if kept is None else batch.filter(kept)

    @property
    def open_reader(self) -> Reader | None:
        """Return the reader of the lookup file. None: it is not open, or not all of it is here."""
        reader, pinned = self._reader, self._pinned
        try:
            # A file without records has no blocks, and none that is used in place.
            if reader is None or not (lookup_of(reader).data.in_place or len(reader) == 0):
                return None
            return None if isinstance(pinned, PinnedCopy) and not pinned.complete else reader
        except ClosedError:  # released by another thread at this moment
            return None

    def is_apart(self, least: bytes, greatest: bytes) -> bool:
        """Return whether all keys of the file are less or greater than the keys of a range."""
        start, stop = self._range
        return (start is not None and greatest < start) or (stop is not None and stop <= least)

    def may_have(self, encoded: pa.Array) -> bool:
        """Return whether one of some keys is in the range of the keys of the file."""
        if self._range == (None, None):
            return True
        inside = are_between(encoded.cast(pa.large_binary()), *self._range)
        return bool(pc.any(inside).as_py())

    def _kept(self, encoded: pa.Array, rows: pa.Array) -> tuple[npt.NDArray[np.int64], pa.Array]:
        """Return the positions of the keys whose rows count, and these rows.

        Args:
            encoded: Keys that the lookup file was asked for.
            rows: Packed row of each key, null if the lookup file lacks it.
        """
        positions, found = _present(rows)
        kept = self.plan.kept(lambda: encoded.take(pa.array(positions)), found)
        if kept is None:
            return positions, found
        return positions[kept.to_numpy(zero_copy_only=False)], found.filter(kept)

    def verify(self) -> bool:
        """Read the columnar file, and compare it with a local or published lookup file.

        Returns:
            Whether there is a lookup file.

        Raises:
            CorruptionError: If one of the files is damaged, or they differ.
            StaleStoreError: If the columnar file was written again, or is gone.
            OSError: If a remote file could not be read.
        """
        reader = self._opened()
        if reader is not None:
            reader.verify()
        check_lookup_file(self._made, reader, self._memory)
        return reader is not None

    def _repaired(self, use: Callable[[Reader], A]) -> A:
        """Return the result of `use` for the lookup file.

        A damaged file is made again, and one that another thread closed is opened again.
        """
        repairs = _REPAIRS
        while True:
            reader = self.reader()
            try:
                return use(reader)
            except ClosedError:
                if self._reader is reader:
                    raise
            except _UNUSABLE as error:
                if not repairs:
                    raise
                repairs -= 1
                self._give_up(reader, error)

    @property
    def waits_for_answers(self) -> bool:
        """Return whether reading the file takes little but the answers of an object store."""
        source = self.plan.source
        return source.address.is_remote and self._reader is None and source.nbytes <= SMALL_FILE

    def is_ready(self) -> bool:
        """Return whether the lookup file is on this host, or published."""
        return self._ready() is not None

    def is_on_host(self) -> bool:
        """Return whether the lookup file, or a part of the published one, is on this host."""
        return self.names.nbytes_in(self._residency) > 0

    @property
    def names(self) -> LookupFileNames:
        """Return the names that the lookup file may have on a host."""
        others, file = self._made.without_others(), self._published
        made = (self._name,) if others is None else (self._name, others.name)
        return LookupFileNames(made, None if file is None else (file.bytes, file.xxh64))

    def made(self, advance: Advance | None = None) -> Reader:
        """Return a reader of the lookup file of this host, and make the file if it is missing.

        A published file is not used any more.

        Args:
            advance: As for `reader`.
        """
        with self._lock:
            self._published = None
            if isinstance(self._pinned, PinnedCopy):
                self._forget()
        return self.reader(advance)

    def reader(self, advance: Advance | None = None) -> Reader:
        """Return a reader of the lookup file, and fetch or make the file if it is missing.

        Args:
            advance: Function that is told of the rows of which the file is made. None: they are
                shown in a bar.
        """
        reader = self._ready()
        if reader is not None:
            return reader
        with self._lock:
            if self._reader is None:
                _log.info(
                    "%s: making a lookup file, which is kept in %s",
                    self.plan.source.uri, self._residency.folder,
                )  # fmt: skip
                try:
                    pinned = self._make(advance)
                except DuplicateKeyError:
                    if not self._leave_out_others():
                        raise
                    pinned = self._make(advance)
                self._use(pinned, Reader(pinned.path, tables=self._residency.shared_tables))
            assert self._reader is not None
            return self._reader

    def _make(self, advance: Advance | None) -> PinnedLookupFile:
        return with_room(
            lambda: self._residency.lookup_files.make(
                self._name,
                needed_bytes(self._made),
                lambda path, room: self._write(path, room, advance),
                source=self.plan.source.uri,
            )
        )

    def _leave_out_others(self) -> bool:
        """Leave rows that do not count out of the lookup file; return whether there may be some."""
        others = self._made.without_others()
        if others is not None:
            self._made, self._name = others, others.name
        return others is not None

    def _write(self, path: str, room: Room, advance: Advance | None) -> None:
        """Write the lookup file, and show a bar if nobody else is told of the rows."""
        progress = self._progress if advance is None else False
        with progress_bars(progress, late=True) as bars:
            if bars:
                advance = bars("Making a lookup file", self.plan.source.num_rows)
            write_lookup_file(self._made, path, room, self._memory, advance or not_shown)

    def counts(self) -> Counts:
        """Return what this process has read of the lookup file, and fetched for it."""
        with self._counting:
            return self._past + self._read()

    def _read(self) -> Counts:
        reader, pinned = self._reader, self._pinned
        read = Counts() if reader is None else read_with(reader)
        return read + pinned.counts if isinstance(pinned, PinnedCopy) else read

    def release(self) -> None:
        """Release the files; the next lookup pins them again."""
        if self._lock.acquire(blocking=False):  # otherwise a thread is opening it
            try:
                pinned = self._pinned
                # A call that uses the reader continues: eviction only removes the name of the file.
                self._forget()
                if pinned is not None:
                    pinned.close()
            finally:
                self._lock.release()

    def give_way(self) -> None:
        """Close all files unless a thread opens them or reads row groups."""
        if self._lock.acquire(blocking=False):
            try:
                if self._probe is not None:
                    self._probe.close()
                    self._probe = None
            finally:
                self._lock.release()
        self.release()

    def close(self) -> None:
        """Close files; the next lookup opens them again."""
        with self._lock:
            files = self._reader, self._pinned, self._probe
            self._probe = None
            self._forget()
            for one in files:
                if one is not None:
                    one.close()

    def _count(self) -> None:
        """Count the open descriptors."""
        pinned = self._pinned
        count = pinned.descriptors if isinstance(pinned, PinnedCopy) else int(pinned is not None)
        if self._probe is not None:
            count += 1
        if count:
            descriptors.took(self, count)
        else:
            descriptors.gave(self)

    def _ready(self) -> Reader | None:
        """Return a reader of the lookup file if one is on this host or published, and whole."""
        try:
            return self._opened()
        except _UNUSABLE as error:
            self._give_up(None, error)
            return None

    def _opened(self) -> Reader | None:
        """Return a reader of the lookup file if it is on this host or published.

        Raises:
            CorruptionError: If the published file is damaged.
            FileNotFoundError: If the published file was deleted after it was listed.
        """
        if self._reader is not None:
            return self._reader
        with self._lock:
            if self._reader is None:
                self._open_made()
            if self._reader is None and self._published is not None:
                self._open_published(self._published)
            return self._reader

    def _open_made(self) -> None:
        files = self._residency.lookup_files
        pinned = files.pin(self._name)
        if pinned is None:
            others = self._made.without_others()
            if others is not None and files.has(others.name):
                self._leave_out_others()
                pinned = files.pin(self._name)
        if pinned is not None:
            try:
                self._use(pinned, Reader(pinned.path, tables=self._residency.shared_tables))
            except (CorruptionError, FormatError) as error:
                _log.warning(_REMOVED, error)
                pinned.close()
                self._residency.lookup_files.discard(self._name)

    def _open_published(self, file: PublishedFile) -> None:
        location = location_of(self.plan.source)
        name = data_name(file.name)
        filesystem, path = location.resolve(name)
        uri = location.show(name)
        pinned = with_room(
            lambda: self._residency.pin(
                filesystem, path, nbytes=file.bytes, xxh64=file.xxh64, uri=uri
            )
        )
        try:
            tables = self._residency.shared_tables
            self._use(pinned, Reader(pinned.path, fill=pinned.fill, tables=tables))
        except BaseException as error:
            pinned.close()
            if isinstance(error, FormatError):
                raise CorruptionError(uri, 0, "a lookup file", error) from None
            raise

    def _use(self, pinned: PinnedCopy | PinnedLookupFile, reader: Reader) -> None:
        self._reader, self._pinned = reader, pinned
        if self._together is not None:
            self._together.files = None
        if self._probe is not None:  # it is no longer needed
            self._probe.close()
            self._probe = None
        self._count()

    def _give_up(self, reader: Reader | None, error: Exception) -> None:
        """Remove a damaged lookup file from this host, or use the published one no more.

        Args:
            reader: Reader of the file. None: the published file could not be opened.
            error: What is wrong.
        """
        with self._lock:
            if self._reader is not reader:  # another thread has closed it
                return
            if isinstance(self._pinned, PinnedLookupFile):
                _log.warning(_REMOVED, error)
                self._residency.lookup_files.discard(self._name)
            elif self._published is not None:
                _log.warning(_NOT_USED, error, self.plan.source.uri)
                self._published = None
            self._forget()

    def _forget(self) -> None:
        # Threads that use the reader keep the file until they are done.
        with self._counting:
            self._past += self._read()
            self._reader = self._pinned = None
        if self._together is not None:
            self._together.files = None
        self._count()

    def _probed(
        self, encoded: pa.Array, is_likely: bool
    ) -> tuple[npt.NDArray[np.int64], pa.Array] | None:
        """Return answers from row groups. None: the lookup file should be made."""
        if self.rent.build == "always" or not self._can_look:
            return None
        with self._lock:
            probe = self._probe
            if probe is None:
                is_first = self.waits_for_answers and not self.rent.is_paid
                probe = ParquetProbe(self.plan, is_likely and is_first)
            if not probe.is_whole:
                self._probe = probe
                self._count()
            groups = probe.candidates(encoded)
            cost, whole = probe.cost(groups), probe.cost(probe.groups)
            is_large = self.rent.build == "auto" and cost > LARGE_LOOK * whole
            # The first look at a small file of an object store waits for its bytes. To sort and
            # write them, too, would take much longer.
            is_large = is_large and (self.rent.is_paid or not self.waits_for_answers)
            if groups and (is_large or self.rent.is_due(whole, cost)):
                return None
            self.rent.pay(cost)
            return probe.lookup(encoded, groups, is_likely)

    @property
    def _can_look(self) -> bool:
        source = self.plan.source
        constants = dict(source.constants)
        names = self.plan.build.key_schema.names
        return source.file_format == "parquet" and not any(name in constants for name in names)


def _present(rows: pa.Array) -> tuple[npt.NDArray[np.int64], pa.Array]:
    if not rows.null_count:
        return np.arange(len(rows)), rows
    present = pc.indices_nonzero(rows.is_valid()).to_numpy().astype(np.int64)
    # Missing rows have no bytes, so the rows that are present are already contiguous.
    offsets = np.frombuffer(rows.buffers()[1], np.int64, len(rows) + 1)
    ends = pa.py_buffer(np.append(offsets[present], offsets[-1]))
    return present, pa.LargeBinaryArray.from_buffers(
        pa.large_binary(), len(present), [None, ends, rows.buffers()[2]]
    )
