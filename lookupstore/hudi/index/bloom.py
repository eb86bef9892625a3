"""The bloom index: key ranges, then filters, then lookups in the remaining files.

Files are processed one by one. Memory holds the given keys and, for each file in progress, the keys
that it may contain, but never all pairs of keys and files.

Source: org.apache.hudi.index.bloom (HoodieBloomIndex, HoodieGlobalBloomIndex).
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lookupstore.arrow._binary import BinaryColumn
from lookupstore.columnar.open_lookups import OpenLookups
from lookupstore.columnar.rent import BUILDS, Build
from lookupstore.hostcache.cache import Residency
from lookupstore.hudi.file_group.bloom import BloomFilter
from lookupstore.hudi.file_group.groups import FileSlice
from lookupstore.hudi.file_group.key_files import KeyFile, KnownFiles
from lookupstore.hudi.file_group.key_ranges import PRUNE_RULES, Candidates, KeyRanges, Prune
from lookupstore.hudi.index.funnel import Tally
from lookupstore.hudi.index.interface import Hits
from lookupstore.hudi.index.key_check import KeyCheck
from lookupstore.hudi.index.wanted_keys import WantedKeys
from lookupstore.hudi.view import TableView
from lookupstore.processors import processors
from lookupstore.sst.reader import hashed_keys
from lookupstore.storage.location import Location

# Maximum number of files that are searched at a time.
_MOST_THREADS = 4
# Maximum number of files for which the amount of bytes read is remembered.
_MOST_CHECKS = 100_000
# Number of keys in a sample that shows whether ranges exclude any keys.
_SAMPLE = 1024
# Number of keys from which a sample is tested with a filter before all keys are: a file that has
# many of them is read anyway.
_MANY_KEYS = 1 << 16
# Share of the keys above which a file is searched for all keys, which are then not copied.
_MOST_SHARE = 0.75

Rows = npt.NDArray[np.int64]
T = TypeVar("T")
R = TypeVar("R")


class BloomIndex:
    """An index that finds candidate files by their footers, and then checks the keys.

    The index keeps footers and open lookup files for the next batch of keys.

    Args:
        is_global: Whether to look for a key in all partitions (global bloom), instead of only in
            its own.
        prune: How to use key ranges: `tree` or `list`, with the same result, or `off`. Key ranges
            are skipped if a sample of many keys shows that they rule out little.
        build: When to make the lookup file of a base file. `auto`: once reads of the file have cost
            as much as making it; `always`: at the first key; `never`.
        residency: Cache of lookup files on this host. None: the default cache of the host.
        threads: Number of files to search at the same time. None: the number of processors, at most
            4.

    Raises:
        ValueError: If an argument is out of range.

    >>> BloomIndex(is_global=True)
    BloomIndex(is_global=True, prune='tree', build='auto')
    """

    def __init__(
        self,
        *,
        is_global: bool = False,
        prune: Prune = "tree",
        build: Build = "auto",
        residency: Residency | None = None,
        threads: int | None = None,
    ) -> None:
        for argument, value, known in (
            ("prune", prune, PRUNE_RULES),
            ("build", build, BUILDS),
        ):
            if value not in known:
                raise ValueError(f"{argument} is {value!r}; give {', '.join(map(repr, known))}")
        if threads is not None and threads < 1:
            raise ValueError(f"threads is {threads}; give at least 1")
        self.is_global = is_global
        self.prune: Prune = prune
        self.build: Build = build
        self._residency = Residency() if residency is None else residency
        self._threads = threads or min(_MOST_THREADS, processors())
        self._known = KnownFiles()
        self._lock = threading.Lock()
        self._checks: OrderedDict[tuple[Location, FileSlice], KeyCheck] = OrderedDict()
        self._open = OpenLookups()

    def __repr__(self) -> str:
        return f"BloomIndex(is_global={self.is_global}, prune={self.prune!r}, build={self.build!r})"

    def prepare(self, view: TableView, files: Sequence[FileSlice], tally: Tally) -> None:
        """Read the footers of files that will be needed, several at the same time."""
        with tally.step("footers"):
            self._footers(view.location, files)

    def locate(
        self, view: TableView, files: Sequence[FileSlice], keys: pa.Array, tally: Tally
    ) -> Iterator[Hits]:
        """Find which keys are in which files; see `KeyIndex`."""
        location = view.location
        with tally.step("footers"):
            known = self._footers(location, files)
        with tally.step("ranges"):
            candidates = self._candidates(known, keys)
        counts = candidates.counts.tolist()
        tally.add(pairs_in_range=sum(counts), files_in_range=sum(count > 0 for count in counts))
        wanted = _Candidates(keys, candidates)
        asked = [
            number for number, file in enumerate(known) if counts[number] and file.source.num_rows
        ]

        def hits(number: int) -> Hits:
            return self._hits(location, files[number], number, wanted, tally)

        try:
            yield from _mapped(hits, asked, self._threads)
        finally:
            self._open.share_room(self._residency)

    def _footers(self, location: Location, files: Sequence[FileSlice]) -> list[KeyFile]:
        threads = location.readers(self._threads)
        return list(_mapped(lambda file: self._known.file(location, file), files, threads))

    def _candidates(self, known: Sequence[KeyFile], keys: pa.Array) -> Candidates:
        """Return the keys in the key range of each file."""
        ranges = KeyRanges(
            pa.array([file.least for file in known], pa.large_binary()),
            pa.array([file.greatest for file in known], pa.large_binary()),
            prune=self.prune,
        )
        if self.prune != "off" and len(keys) <= _SAMPLE:
            return ranges.candidates(keys)
        if self.prune != "off":
            rows = np.linspace(0, len(keys) - 1, _SAMPLE).astype(np.int64)
            sample = ranges.candidates(keys.take(pa.array(rows)))
            if sample.counts.sum() <= _MOST_SHARE * _SAMPLE * len(known):
                return ranges.candidates(keys)
        order = np.arange(len(keys), dtype=np.uint32)
        spans = np.full((len(known), 2), (0, len(keys)), np.int64)
        return Candidates(keys, order, spans, len(keys))

    def _hits(
        self,
        location: Location,
        file: FileSlice,
        number: int,
        candidates: _Candidates,
        tally: Tally,
    ) -> Hits:
        """Return the keys that a file has, among those in its key range."""
        check = self._check(location, file)
        rows, keys = candidates.of(number)
        tested = positives = 0
        if not check.is_ready():  # the filter of a lookup file is faster
            bloom = self._known.filter(location, file)
            if bloom is not None and not (rows is None and _has_many(bloom, keys)):
                with tally.step("filters"):
                    maybe = np.flatnonzero(bloom.test(keys))
                tested, positives = len(keys), len(maybe)
                rows = maybe if rows is None else rows[maybe]
                keys = keys.take(pa.array(maybe))
        found = positions = np.zeros(0, np.int64)
        if len(keys) and self._prepared(check, tally):
            with tally.step("look up"):
                hashed = candidates.hashed() if rows is None else None
                found, positions, ruled_out = check.lookup(keys, hashed)
            if not tested:
                tested, positives = len(keys), len(keys) - ruled_out
            tally.add(files_looked_up=1)
        elif len(keys):
            with tally.step("read"):
                found, positions = check.read(
                    candidates.everything() if rows is None else WantedKeys(keys)
                )
            tally.add(files_read=1)
        if tested:
            tally.add(
                filter_tests=tested,
                filter_positives=positives,
                false_positives=positives - _different(found),
            )
        return Hits(number, found if rows is None else rows[found], positions)

    def _prepared(self, check: KeyCheck, tally: Tally) -> bool:
        if check.is_ready():
            return True
        with tally.step("make"):
            return check.prepare()

    def _check(self, location: Location, file: FileSlice) -> KeyCheck:
        known = self._known.file(location, file)
        with self._lock:
            check = self._checks.get((location, file))
            if check is None:
                check = KeyCheck(known, self._residency, self.build)
                self._checks[location, file] = check
            self._checks.move_to_end((location, file))
            most = len(self._checks) > _MOST_CHECKS
            oldest = self._checks.popitem(last=False)[1] if most else None
        self._open.used(check)
        if oldest is not None:
            oldest.release()
        return check


class _Candidates:
    """The keys that each file may have."""

    def __init__(self, keys: pa.Array, found: Candidates) -> None:
        self._keys = keys
        self._found = found
        self._counts = found.counts
        self._lock = threading.Lock()
        self._hashed: BinaryColumn | None = None
        self._everything: WantedKeys | None = None

    def of(self, number: int) -> tuple[Rows | None, pa.Array]:
        """Return the rows of the keys that a file may have, None for all; and these keys."""
        if self._counts[number] > _MOST_SHARE * len(self._keys):
            return None, self._keys
        rows = self._found.rows(number).astype(np.int64)
        return rows, self._found.keys.take(pa.array(self._found.places(number)))

    def hashed(self) -> BinaryColumn:
        """Return all keys, in the form for lookup files."""
        with self._lock:
            if self._hashed is None:
                self._hashed = hashed_keys(self._keys)
            return self._hashed

    def everything(self) -> WantedKeys:
        """Return all keys, in the form for reading files."""
        with self._lock:
            if self._everything is None:
                self._everything = WantedKeys(self._keys)
            return self._everything


def _has_many(bloom: BloomFilter, keys: pa.Array) -> bool:
    """Return whether a file has so many of the keys that its filter is useless."""
    if len(keys) < _MANY_KEYS:
        return False
    rows = np.linspace(0, len(keys) - 1, _SAMPLE).astype(np.int64)
    found = bloom.test(keys.take(pa.array(rows)))
    return int(np.count_nonzero(found)) > _SAMPLE // 100


def _different(rows: Rows) -> int:
    """Return the number of different rows; equal rows are adjacent."""
    return int(np.count_nonzero(np.diff(rows))) + (len(rows) > 0)


def _mapped(step: Callable[[T], R], items: Sequence[T], threads: int) -> Iterator[R]:
    """Yield the result of a function for each item, in order, several at a time."""
    if len(items) < 2 or threads < 2:
        yield from map(step, items)
        return
    pool = ThreadPoolExecutor(min(threads, len(items)), "lookupstore-tag")
    try:
        yield from pool.map(step, items)
    finally:
        pool.shutdown(cancel_futures=True)
