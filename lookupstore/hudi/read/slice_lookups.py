"""Lookups of record keys in the slices of a table.

Footers show which base files may have a key: first by key ranges, then by filters. The remaining
files are searched by lookup files with record keys and the wanted values, as for columnar files;
each host makes them once. Those that are open answer together, as `columnar.files_together` says.
Lookup files do not depend on log files: the changes of a slice are in memory, by record key, and
are merged with the rows that its lookup file has.

The memory for changes is bounded by the log files of the slices that were asked: each change takes
its key, its new row in the wanted columns, and about 40 bytes.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import cached_property, partial

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lookupstore.arrow._binary import BinaryColumn
from lookupstore.columnar import open_lookups
from lookupstore.columnar.file_lookup import FileLookup
from lookupstore.columnar.files_together import FilesTogether, KeyOwners, owners_in
from lookupstore.columnar.lookup_file import plan_lookup_file
from lookupstore.columnar.open_files import OpenFiles
from lookupstore.columnar.open_lookups import OpenLookups
from lookupstore.columnar.rent import Rent
from lookupstore.errors import DuplicateKeyError
from lookupstore.hostcache.cache import Residency
from lookupstore.hudi.file_group._key_table import KeyTable
from lookupstore.hudi.file_group.groups import FileSlice
from lookupstore.hudi.file_group.key_files import KeyFile, KnownFiles
from lookupstore.hudi.file_group.key_ranges import Candidates, KeyRanges
from lookupstore.hudi.keys.duplicate_key import duplicate_key_error
from lookupstore.hudi.log.changes import SliceChanges
from lookupstore.hudi.log.merged_rows import SliceReader
from lookupstore.hudi.log.slices import MergedSlice
from lookupstore.hudi.meta_columns import RECORD_KEY
from lookupstore.hudi.read.looked_up_rows import (
    LoggedRows,
    LookedUpRows,
    Mask,
    RowsTogether,
    StoredRows,
    as_promoted,
)
from lookupstore.hudi.read.lookup_plan import LookupPlan
from lookupstore.keys.schema import KeySchema

Rows = npt.NDArray[np.int64]

_MEMORY = 128 << 20
# Number of footers that are read at a time: most of the time is waiting for an object store.
_FOOTER_THREADS = 16

# Footers are kept for tables that are opened later, because base files never change.
_known = KnownFiles()
# Shared by all tables: a caller that joins with each commit of a table opens a new object each
# time.
_open = OpenLookups()


class SliceLookups:
    """Lookups in the slices of a plan.

    Args:
        plan: Plan with the slices and the wanted columns.
        residency: Cache of lookup files on this host.
        owners: Tables of owners of base files, by partition; "" if keys are looked up in all.
            Objects share them that look keys up in newer and newer commits.
    """

    def __init__(
        self, plan: LookupPlan, residency: Residency, owners: dict[str, KeyOwners]
    ) -> None:
        self._plan = plan
        self._residency = residency
        self.owners: dict[str, KeyOwners] = owners
        self._making = threading.Lock()
        self._lookups: dict[int, FileLookup] = {}
        self._numbers: dict[FileLookup, int] = {}  # of the slice of each lookup
        self._groups: dict[str, FilesTogether[OpenFiles]] = {}  # by partition, as `owners`
        self._whole: set[str] = set()  # partitions with lookups in all base files
        self._ranges: dict[int, KeyRanges] = {}
        self._changes: dict[int, _ChangesByKey] = {}
        self._reader = SliceReader(plan.location, plan.options, plan.schema)

    def asked_in(self, slices: range, keys: pa.Array) -> SliceKeys:
        """Return keys that are looked up in some slices.

        Args:
            slices: Numbers of the slices to search, those of one partition or of all.
            keys: Record keys, large_binary, without nulls.
        """
        return SliceKeys(self, slices, keys)

    def found(self, asked: SliceKeys) -> Iterator[tuple[int, Rows, LookedUpRows]]:
        """Yield the number of each slice with keys, the places of these keys, and their rows.

        A slice is yielded twice if it has rows of its base file, and of its log files.

        Args:
            asked: Keys and slices.

        Raises:
            CorruptionError: If a file is damaged.
            DuplicateKeyError: If several rows of a base file have the same key.
            FormatError: If a log file has something that is not supported.
            StaleStoreError: If a file is gone.
            DiskQuotaError: If lookup files need more disk than the quota of the host.
        """
        candidates = asked.candidates
        has_candidates = candidates.counts > 0
        for at, (number, file) in enumerate(zip(asked.slices, asked.files, strict=True)):
            one = self._plan.files[number]
            stored: tuple[Rows, StoredRows] | None = None
            if file is not None and has_candidates[at]:
                rows = candidates.rows(at).astype(np.int64)
                wanted = candidates.keys.take(pa.array(candidates.places(at)))
                stored = self._stored(number, file, rows, wanted)
            if isinstance(one, MergedSlice):
                yield from self._merged(number, one, asked.keys, stored)
            elif stored is not None:
                yield number, *stored

    def found_together(
        self, asked: SliceKeys, names: Sequence[str]
    ) -> Iterable[tuple[Rows, LookedUpRows]] | None:
        """Return places of keys and their rows, from open lookup files that answer together.

        None: Other files may have one of the keys, several have one, or a lookup file is damaged.

        Args:
            asked: Keys and slices.
            names: Names of the columns that are read of the rows.

        Raises:
            CorruptionError: If a log file is damaged.
            FormatError: If a log file has something that is not supported.
            StaleStoreError: If a log file is gone.
        """
        group = self._opened_group(asked)
        if group is None:
            return None
        merged = [at for at in asked.slices if isinstance(self._plan.files[at], MergedSlice)]
        needed = {*names, *(self._merged_by if merged else ())}
        fields = [field for field in self._plan.stored if field.name in needed]
        answer = group.answer(asked, lambda files: files.rows(asked, fields))
        if answer is None:
            return None
        places = np.flatnonzero(answer.present.to_numpy(zero_copy_only=False))
        columns = dict(zip([field.name for field in fields], answer.columns, strict=True))
        rows = RowsTogether(columns, places, len(places))
        if not merged:
            return [(places, rows)]
        slices = np.array([self._numbers[lookup] for lookup in group.lookups], np.int64)
        numbers = slices[answer.owners()[places]] if len(places) else places
        return self._merged_together(asked.keys, merged, numbers, rows)

    @property
    def _merged_by(self) -> list[str]:
        """Return the columns of base files by which changes are merged with their rows."""
        chosen, ordering = self._plan.filter, self._reader.rule.ordering
        names = [] if chosen is None else chosen.columns.names
        return names if ordering is None else [*names, ordering]

    def _merged_together(
        self, keys: pa.Array, merged: Sequence[int], numbers: Rows, rows: RowsTogether
    ) -> Iterator[tuple[Rows, LookedUpRows]]:
        """Yield the rows of slices, some of which have log files.

        Args:
            keys: All keys.
            merged: Numbers of the slices with log files, ascending.
            numbers: Number of the slice of each row of base files.
            rows: Rows of base files, in the places of their keys.
        """
        others = ~np.isin(numbers, merged)
        if others.any():
            kept = rows.kept(others)
            yield kept.places, kept
        order = np.argsort(numbers, kind="stable")
        starts = np.searchsorted(numbers[order], merged)
        ends = np.searchsorted(numbers[order], merged, "right")
        for number, start, end in zip(merged, starts, ends, strict=True):
            one = self._plan.files[number]
            assert isinstance(one, MergedSlice)
            places = rows.places[order[start:end]]
            stored = (places, replace(rows, places=places)) if len(places) else None
            for _, met, changed in self._merged(number, one, keys, stored):
                yield met, changed

    def _opened_group(self, asked: SliceKeys) -> FilesTogether[OpenFiles] | None:
        """Return the files of a partition, among them all base files that may have one of the keys.

        None: These are more than may be open.
        """
        partition = self._partition_of(asked.slices.start)
        group = self._group_of(partition)
        files = group.files
        if partition in self._whole and files is not None and not files.closed:
            for lookup in group.lookups:
                _open.used(lookup)
            return group
        if len(asked.near) > open_lookups.MOST_OPEN:
            return None
        for number, file in asked.near.items():
            self._lookup_of(number, file)
        if partition not in self._whole:
            numbers = zip(asked.slices, asked.files, strict=True)
            filled = [at for at, file in numbers if file is not None and file.source.num_rows]
            if self._lookups.keys() >= set(filled):
                self._whole.add(partition)
        return group

    def key_ranges(self, slices: range, files: Sequence[KeyFile | None]) -> KeyRanges:
        """Return the key ranges of the base files of some slices."""
        ranges = self._ranges.get(slices.start)
        if ranges is None:
            ranges = self._ranges[slices.start] = KeyRanges(
                pa.array([file and file.least for file in files], pa.large_binary()),
                pa.array([file and file.greatest for file in files], pa.large_binary()),
            )
        return ranges

    def number_of(self, lookup: FileLookup) -> int:
        """Return the number of the slice of lookups in a base file."""
        return self._numbers[lookup]

    def maybe(self, number: int, keys: pa.Array) -> Rows | None:
        """Return the places of the keys that the filter of a base file lets pass.

        None: The file has no filter.
        """
        bloom = _known.filter(self._plan.location, self._base(number))
        return None if bloom is None else np.flatnonzero(bloom.test(keys))

    def _stored(
        self, number: int, file: KeyFile, rows: Rows, wanted: pa.Array
    ) -> tuple[Rows, StoredRows] | None:
        """Return which of some keys are in a base file, and their rows. None: none of them."""
        if not file.source.num_rows:
            return None
        lookup = self._lookup_of(number, file)
        if not lookup.is_ready():  # the filter of a lookup file is faster
            maybe = self.maybe(number, wanted)
            if maybe is not None:
                rows, wanted = rows[maybe], wanted.take(pa.array(maybe))
        if not len(rows):
            return None
        try:
            hits, packed = lookup.lookup(wanted)
        except DuplicateKeyError as error:
            raise duplicate_key_error(error.key, f"several rows of {file.shown}") from None
        return (rows[hits], StoredRows(lookup, packed)) if len(hits) else None

    def _merged(
        self,
        number: int,
        given: MergedSlice,
        keys: pa.Array,
        stored: tuple[Rows, LookedUpRows] | None,
    ) -> Iterator[tuple[int, Rows, LookedUpRows]]:
        """Yield the rows of a slice with log files.

        Args:
            number: Number of the slice.
            given: The slice.
            keys: All keys.
            stored: Places of the keys in its base file, and their rows. None: there are none.
        """
        at, rows = (np.zeros(0, np.int64), None) if stored is None else stored
        ordering = self._reader.rule.ordering
        values = None
        if rows is not None and ordering is not None:
            values = rows.column(self._plan.schema.field(ordering))
        kept, new, changed = self._changes_of(number, given).merged(keys, at, values)
        if rows is not None:
            yield from self._met(number, at[kept], rows.kept(kept))
        yield from self._met(number, new, LoggedRows(changed))

    def _met(
        self, number: int, places: Rows, rows: LookedUpRows
    ) -> Iterator[tuple[int, Rows, LookedUpRows]]:
        """Yield the rows of a slice with log files that meet the condition of the plan."""
        chosen = self._plan.filter
        if chosen is not None and len(places):
            columns = [rows.column(field) for field in chosen.columns]
            batch = pa.RecordBatch.from_arrays(columns, schema=chosen.columns)
            met = chosen.condition.kept(batch).to_numpy(zero_copy_only=False)
            places, rows = places[met], rows.kept(met)
        if len(places):
            yield number, places, rows

    def _changes_of(self, number: int, given: MergedSlice) -> _ChangesByKey:
        changes = self._changes.get(number)
        if changes is None:
            read = self._reader.changes(given, self._plan.stored.names)
            changes = _ChangesByKey(read, self._reader, self._plan.location.show(given.path))
            self._changes[number] = changes
        return changes

    def _lookup_of(self, number: int, file: KeyFile) -> FileLookup:
        lookup = self._lookups.get(number)
        if lookup is None:
            with self._making:
                lookup = self._lookups.get(number)
                if lookup is None:
                    lookup = self._new_lookup(number, file)
        _open.used(lookup)
        return lookup

    def _new_lookup(self, number: int, file: KeyFile) -> FileLookup:
        plan = self._plan
        source = file.source
        # The filter applies to merged rows.
        if plan.filter is not None and not isinstance(plan.files[number], MergedSlice):
            source = replace(source, filter=plan.filter)
        stored = plan.stored.names
        content = plan_lookup_file(
            source, [RECORD_KEY], stored, "value" if stored else "presence", "error"
        )
        group = self._group_of(self._partition_of(number))
        lookup = FileLookup(
            content, None, self._residency, Rent(plan.build), _MEMORY, progress=None,
            together=group.place,
        )  # fmt: skip
        self._numbers[lookup] = number
        group.add(lookup)
        self._lookups[number] = lookup  # last, for other threads
        return lookup

    def _partition_of(self, number: int) -> str:
        """Return the partition of a slice; "" if keys are looked up in all."""
        return "" if self._plan.is_global else self._plan.files[number].group.partition

    def _group_of(self, partition: str) -> FilesTogether[OpenFiles]:
        group = self._groups.get(partition)
        if group is None:
            uri = self._plan.location.uri
            family = f"{uri} {partition} {self._plan.stored.names}"
            owners = self.owners.setdefault(partition, {})
            owners_of = owners_in(owners, self._residency, family)
            opened = partial(OpenFiles, rule="error", owners=owners_of, fit=as_promoted)
            group = self._groups.setdefault(partition, FilesTogether(uri, opened))
        return group

    def footers(self, slices: range) -> list[KeyFile | None]:
        """Return what footers record of the keys of slices. None: a slice has no base file."""
        bases = [_base_of(self._plan.files[number]) for number in slices]
        if len(bases) < 2:
            return [self._footer(base) for base in bases]
        with ThreadPoolExecutor(min(_FOOTER_THREADS, len(bases)), "lookupstore-footer") as pool:
            return list(pool.map(self._footer, bases))

    def _footer(self, base: FileSlice | None) -> KeyFile | None:
        return None if base is None else _known.file(self._plan.location, base)

    def _base(self, number: int) -> FileSlice:
        base = _base_of(self._plan.files[number])
        assert base is not None
        return base

    def num_rows(self) -> int:
        """Return the number of rows of all slices: from footers where there are no log files."""
        count = 0
        every = range(len(self._plan.files))
        for one, file in zip(self._plan.files, self.footers(every), strict=True):
            if isinstance(one, MergedSlice):
                batches = self._reader.batches(one, [RECORD_KEY], threads=False)
                count += sum(batch.num_rows for batch in batches)
            elif file is not None:
                count += file.source.num_rows
        return count

    def check_logs(self) -> None:
        """Read all log files.

        Raises:
            CorruptionError: If one is damaged.
            FormatError: If one has something that is not supported.
            StaleStoreError: If one is gone.
        """
        for one in self._plan.files:
            if isinstance(one, MergedSlice):
                self._reader.changes(one, self._plan.stored.names)

    def asked(self) -> Iterable[FileLookup]:
        """Return the lookups in the base files that were asked."""
        return [*self._lookups.values()]  # other threads may add some

    def every(self) -> Iterator[FileLookup]:
        """Yield the lookups in each base file."""
        for number, file in enumerate(self.footers(range(len(self._plan.files)))):
            if file is not None:
                yield self._lookup_of(number, file)

    def added_since(self, older: SliceLookups) -> Iterator[FileLookup]:
        """Yield the lookups in base files that an older plan lacks.

        They are those of partitions in which lookups of the older plan used lookup files.
        """
        files = older._plan.files
        used = [number for number, lookup in [*older._lookups.items()] if lookup.is_on_host()]
        partitions = {files[number].group.partition for number in used}
        known = {base.path for base in map(_base_of, files) if base is not None}
        for number, one in enumerate(self._plan.files):
            base = _base_of(one)
            if base is None or base.path in known or one.group.partition not in partitions:
                continue
            file = self._footer(base)
            if file is not None and file.source.num_rows:
                yield self._lookup_of(number, file)

    def forget_changes(self) -> None:
        """Free the memory of changes; the next lookup reads log files again."""
        self._changes.clear()


class SliceKeys:
    """Keys of records that are looked up in some slices.

    Args:
        lookups: Lookups in the slices of the table.
        slices: Numbers of the slices, those of one partition or of all.
        keys: Record keys, large_binary, without nulls.
    """

    def __init__(self, lookups: SliceLookups, slices: range, keys: pa.Array) -> None:
        self._lookups = lookups
        self.slices = slices
        self.keys: pa.Array = keys

    def __len__(self) -> int:
        return len(self.keys)

    def of(self, schema: KeySchema) -> pa.Array:
        """Return the keys as lookup files have them."""
        return self.keys

    @cached_property
    def files(self) -> list[KeyFile | None]:
        """Return what footers record of the keys of each slice. None: it has no base file."""
        return self._lookups.footers(self.slices)

    @cached_property
    def candidates(self) -> Candidates:
        """Return which keys may be in which slices, by the key ranges of base files."""
        return self._lookups.key_ranges(self.slices, self.files).candidates(self.keys)

    @cached_property
    def near(self) -> dict[int, KeyFile]:
        """Return the base files that may have one of the keys, by the numbers of their slices."""
        every = zip(self.slices, self.files, self.candidates.counts, strict=True)
        return {
            number: file
            for number, file, count in every
            if file is not None and count and file.source.num_rows
        }

    def is_apart(self, lookup: FileLookup) -> bool:
        """Return whether the key range of a base file has none of the keys."""
        return self._lookups.number_of(lookup) not in self.near

    def may_be_in(self, lookup: FileLookup) -> bool:
        """Return whether the key range of a base file has one of the keys."""
        return not self.is_apart(lookup)

    def is_ruled_out(self, lookup: FileLookup) -> bool:
        """Return whether the filter of a base file lets none of the keys pass."""
        number = self._lookups.number_of(lookup)
        places = self.candidates.places(number - self.slices.start)
        maybe = self._lookups.maybe(number, self.candidates.keys.take(pa.array(places)))
        return maybe is not None and not len(maybe)


class _ChangesByKey:
    """The changes of a slice, in a hash table of their keys.

    Args:
        changes: The changes.
        reader: Reader of slices, with the rule by which changes are merged.
        path: Path of the slice, for errors.
    """

    def __init__(self, changes: SliceChanges, reader: SliceReader, path: str) -> None:
        self._changes = changes
        self._rule = reader.rule
        self._path = path
        self._numbers = KeyTable(BinaryColumn(changes.keys))

    def merged(
        self, keys: pa.Array, stored: Rows, ordering: pa.Array | None
    ) -> tuple[Mask, Rows, pa.Table]:
        """Merge the changes of some keys with their stored rows.

        Args:
            keys: Record keys.
            stored: Places in `keys` of those with a stored row.
            ordering: Ordering value of each stored row. None: changes have no ordering values.

        Returns:
            Mask of the stored rows that are unchanged, places in `keys` of those with a new row,
            and the new row of each.

        Raises:
            FormatError: If versions of Hudi return different rows.
        """
        changes = self._changes
        numbers = self._numbers.find(BinaryColumn(keys))
        changed = np.flatnonzero(numbers[stored] >= 0)
        values = None if ordering is None else ordering.take(pa.array(changed))
        won = changes.won(numbers[stored[changed]], values, self._rule, self._path)
        kept = np.ones(len(stored), bool)
        kept[changed[won]] = False
        is_new = numbers >= 0
        is_new[stored[changed[~won]]] = False
        places = np.flatnonzero(is_new)
        places = places[~changes.deletes[numbers[places]]]
        return kept, places, changes.new_rows(numbers[places])


def _base_of(file: FileSlice) -> FileSlice | None:
    """Return the base file of a slice. None: it has only log files."""
    return file.base if isinstance(file, MergedSlice) else file
