"""The changelog of a store: the change of each row between two versions.

Buckets are compared one after the other. A bucket with the same files in both versions has no
change. Otherwise, the keys that may have changed are those of the runs that were written in
between, both the runs that are still over the base and those that the upsert that wrote them merged
into it. The runs contain the rows after the change, and the first version is asked for the rows
before. If versions in between are gone, or one of them was built, all rows of the bucket are
compared.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing
from functools import cached_property
from itertools import chain
from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lookupstore.arrow.changelog import (
    AFTER,
    BEFORE,
    CHANGE,
    DELETE,
    INSERT,
    KINDS,
    changelog_schema,
    said_changes,
)
from lookupstore.arrow.differences import differing
from lookupstore.arrow.taking import take
from lookupstore.errors import CorruptionError
from lookupstore.hostcache.cache import Residency
from lookupstore.sorting._sort import sort_keys
from lookupstore.sorting.ahead import done_ahead
from lookupstore.sorting.rows import one_batch
from lookupstore.sorting.runs import aligned, merge
from lookupstore.storage.location import Location
from lookupstore.store.buckets import BucketReads
from lookupstore.store.column_differences import column_difference
from lookupstore.store.manifest import ChangeRun, DataFile, Manifest
from lookupstore.store.open_version import OpenVersion, open_version
from lookupstore.store.steps import BucketLayers, steps_between
from lookupstore.store.version_files import (
    VersionName,
    gone_version_error,
    list_names,
    name_of,
)
from lookupstore.store.version_times import Moment, too_early_error, version_at

# Number of keys that a thread looks up at a time, and approximate size of their rows in bytes.
_KEYS = 1 << 15
_BYTES = 8 << 20

_Flags: TypeAlias = "npt.NDArray[np.bool_]"
_Places: TypeAlias = "npt.NDArray[np.int64]"

_INSERT, _BEFORE, _AFTER, _DELETE = (KINDS.index(kind) for kind in (INSERT, BEFORE, AFTER, DELETE))


class _Rows(NamedTuple):
    """The stored rows at some keys in both versions; null if a version lacks the key."""

    keys: pa.Array
    before: pa.Array
    after: pa.Array


class _Between:
    """The open runs between two versions with the same number of buckets.

    Args:
        location: Location of the store.
        before: Version at the beginning, open.
        after: Version at the end, open.

    Raises:
        StaleStoreError: A version was removed meanwhile.
        CorruptionError: The files of a version differ from its manifest.
    """

    def __init__(self, location: Location, before: OpenVersion, after: OpenVersion) -> None:
        self._location = location
        self._ends = before.manifest, after.manifest
        self._layers = BucketLayers(before.manifest), BucketLayers(after.manifest)
        #: By bucket, the runs with all keys that may have changed. None: these keys are unknown.
        self.runs: dict[int, tuple[ChangeRun, ...] | None] = {
            bucket: self._runs_of(bucket) for bucket in sorted({*before.files, *after.files})
        }
        runs = chain.from_iterable(runs for runs in self.runs.values() if runs)
        try:
            self._files = after.files.of_runs(tuple(runs))
        except CorruptionError:
            self._check_steps()
            raise
        #: Files of these runs.
        self.reads = BucketReads(location, after.manifest, self._files)

    def close(self) -> None:
        """Close the files."""
        self._files.close()

    def records(self, bucket: int) -> Iterator[pa.RecordBatch]:
        """Yield the newest record of each key of a bucket's runs, in key order.

        The records are yielded in batches of limited size.

        Raises: what the class raises.
        """
        runs = [run.file for run in self.runs[bucket] or ()]
        at_once = _keys_at_once(runs, *(layers.files(bucket) for layers in self._layers))
        try:
            yield from _gathered(self.reads.run_records(bucket), at_once)
        except CorruptionError:
            self._check_steps()
            raise

    def _runs_of(self, bucket: int) -> tuple[ChangeRun, ...] | None:
        before, after = self._layers
        newer = after.newer_runs(before, bucket)
        if newer is not None or self._steps is None:
            return newer
        layers = [after, *(layers for _, layers in self._steps)]
        return tuple(
            chain.from_iterable(
                one.step_runs(older, bucket) for older, one in zip(layers[1:], layers, strict=False)
            )
        )

    @cached_property
    def _steps(self) -> list[tuple[VersionName, BucketLayers]] | None:
        return steps_between(self._location, *self._ends)

    def _check_steps(self) -> None:
        """Check that the versions in between still exist, without which their files are deleted."""
        names = list_names(self._location)
        for name, _ in self._steps or ():
            if name not in names:
                raise gone_version_error(self._location, name.number, name.id)


class Changelog:
    """The changes of each row between two versions of a store.

    Args:
        location: Location of the store.
        before: Version at the beginning, open. None: there was none, so that all rows are inserts.
        after: Version at the end, open, with the same columns.
        columns: Names of the value columns to return.
        ignored: Names of the value columns in which a change does not count.

    Raises:
        ValueError: If the versions have different columns, or a returned column is called `change`.
        StaleStoreError: A version in between was removed meanwhile.
        CorruptionError: A file of a version differs from its manifest.
    """

    def __init__(
        self,
        location: Location,
        before: OpenVersion | None,
        after: OpenVersion,
        columns: Sequence[str],
        ignored: Sequence[str],
    ) -> None:
        self._location = location
        self._before = before
        self._after = after
        self._columns = list(columns)
        manifest = after.manifest
        if before is not None:
            _check_same_columns(location, before.manifest, manifest)
        names = manifest.row_schema.schema.names
        self._compared = [name for name in names if name not in ignored]
        #: Schema of the column of kinds of changes, the key columns, and the wanted value columns.
        self.schema: pa.Schema = changelog_schema(after.reads.schema(columns))
        if self.schema.names.count(CHANGE) > 1:
            raise ValueError(
                f"the store has a column {CHANGE!r}, as the result has; name other columns, or "
                "build it with another name"
            )
        self._between: _Between | None = None
        if before is not None and before.manifest.buckets == manifest.buckets:
            self._between = _Between(location, before, after)

    def close(self) -> None:
        """Close the files of the runs in between."""
        if self._between is not None:
            self._between.close()

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the changes, by ascending key in each bucket.

        If the versions have different numbers of buckets, the changes are ordered by key over all
        buckets. Memory holds some rows for each thread, and a block of each file of a bucket.

        Raises:
            CorruptionError: The stored bytes are damaged.
            StaleStoreError: A file of a remote version was removed, and so was the version.
        """
        before, after = self._before, self._after
        if before is None:
            for bucket in after.files:
                for batch in after.reads.sorted_rows(bucket):
                    nothing = pa.nulls(batch.num_rows, pa.large_binary())
                    rows = _Rows(batch.column("key"), nothing, batch.column("value"))
                    yield from self._told(rows, after.reads)
            return
        if self._between is None:
            yield from self._compared_rows(*map(_all_rows, (before, after)))
            return
        yield from self._looked_up_rows(self._between)
        for bucket, runs in self._between.runs.items():
            if runs is None:
                sides = (one.reads.sorted_rows(bucket) for one in (before, after))
                yield from self._compared_rows(*sides)

    def _looked_up_rows(self, between: _Between) -> Iterator[pa.RecordBatch]:
        """Yield the changes of the buckets whose runs are known; each thread looks up some keys."""
        changed = (
            (bucket, records)
            for bucket, runs in between.runs.items()
            for records in (between.records(bucket) if runs else ())
        )
        for batches in done_ahead(lambda one: self._changed(between.reads, *one), changed):
            yield from batches

    def _changed(
        self, runs: BucketReads, bucket: int, records: pa.RecordBatch
    ) -> list[pa.RecordBatch]:
        """Return the changes of a bucket that result from some records of its runs."""
        assert self._before is not None
        keys, values = records.columns
        before = self._before.reads.stored_rows(bucket, keys)
        return list(self._told(_Rows(keys, before, runs.run_rows(bucket, values)), runs))

    def _compared_rows(
        self, before: Iterator[pa.RecordBatch], after: Iterator[pa.RecordBatch]
    ) -> Iterator[pa.RecordBatch]:
        """Yield the changes between rows in key order."""
        for old, new in aligned(before, after):
            if not old.equals(new):
                yield from self._told(_side_by_side(old, new), self._after.reads)

    def _told(self, rows: _Rows, newer: BucketReads) -> Iterator[pa.RecordBatch]:
        """Yield the changes of rows, without rows that have equal values.

        Args:
            rows: Keys with the stored rows in both versions, of one bucket or of several.
            newer: Lookups of the files that have the rows after the change.
        """
        # Equal bytes are equal values. Different bytes may be equal values, too: 0.0 and -0.0, and
        # NaNs.
        unequal = pc.fill_null(pc.not_equal(rows.before, rows.after), True)
        unequal = pc.and_(unequal, pc.or_(rows.before.is_valid(), rows.after.is_valid()))
        rows = _Rows(*(column.filter(unequal) for column in rows))
        if not len(rows.keys):
            return
        was, is_there = (_flags(rows.before.is_valid()), _flags(rows.after.is_valid()))
        names = list(dict.fromkeys([*self._columns, *self._compared]))
        older = newer if self._before is None else self._before.reads
        old_keys, new_keys = (rows.keys.filter(pa.array(one)) for one in (was, is_there))
        old = older.unpacked(old_keys, rows.before.drop_null(), names)
        new = newer.unpacked(new_keys, rows.after.drop_null(), names)
        # Index of each row among the old rows, and among the new rows.
        old_places, new_places = np.cumsum(was) - 1, np.cumsum(is_there) - 1
        both = was & is_there
        changed = ~both
        changed[both] = self._differing(old, old_places[both], new, new_places[both])
        kept = np.flatnonzero(changed)
        if not len(kept):
            return
        # A changed row is emitted as its old row, its new row, or both.
        turns = np.repeat(kept, both[kept] + 1)
        is_old = was[turns]
        is_old[1:] &= turns[1:] != turns[:-1]
        places = np.where(is_old, old_places[turns], old.num_rows + new_places[turns])
        kinds = np.where(
            both[turns],
            np.where(is_old, _BEFORE, _AFTER),
            np.where(is_old, _DELETE, _INSERT),
        ).astype(np.int8)
        keys = self._after.manifest.key_schema.decode(rows.keys.take(pa.array(turns)))
        values = [
            take(pa.concat_arrays([old.column(name), new.column(name)]), pa.array(places))
            for name in self._columns
        ]
        columns = [said_changes(kinds), *keys.columns, *values]
        yield pa.RecordBatch.from_arrays(columns, schema=self.schema)

    def _differing(
        self, old: pa.RecordBatch, old_places: _Places, new: pa.RecordBatch, new_places: _Places
    ) -> _Flags:
        """Return which pairs of rows differ in a column whose changes count."""
        found: _Flags = np.zeros(len(old_places), np.bool_)
        for name in self._compared:
            one = take(old.column(name), pa.array(old_places))
            other = take(new.column(name), pa.array(new_places))
            found |= differing(one, other)
        return found


def open_changelog(
    own: OpenVersion,
    since: Moment | None,
    until: Moment | None,
    columns: Sequence[str],
    ignored: Sequence[str],
    residency: Residency | None,
) -> tuple[Changelog, ExitStack]:
    """Open the changelog between two versions of a store.

    Args:
        own: Version that the caller has open.
        since: Number of the version at the beginning, or a time. None: no version.
        until: Number of the version at the end, or a time. None: the open version.
        columns: Names of the value columns to return.
        ignored: Names of the value columns in which a change does not count.
        residency: Manager of the local copies of files. None: the one of the host.

    Returns:
        The changelog, and a stack that closes the files which were opened for it.

    Raises: what `LookupStore.changes` raises.
    """
    location, ours = own.location, name_of(own.manifest)
    last = ours if until is None else version_at(location, until, "until")
    first = None if since is None else version_at(location, since, "since")
    if first is None and since is not None:  # or every row would be an insert
        raise too_early_error(location, since, "since")
    if last is None:
        raise FileNotFoundError(f"{location.uri}: until is {until!r}; no version is as old")
    if first is not None and last.number < first.number:
        shown = f"the open version, {ours.number}" if until is None else repr(until)
        raise ValueError(
            f"until is {shown}, before since, {since!r}; give them the other way round"
        )
    with ExitStack() as stack:

        def opened(name: VersionName) -> OpenVersion:
            if name == ours:
                return own
            version = open_version(location, name.number, None, residency)
            stack.enter_context(closing(version.files))
            return version

        after = opened(last)
        before = None if first is None else opened(first)
        changelog = Changelog(location, before, after, columns, ignored)
        stack.enter_context(closing(changelog))
        return changelog, stack.pop_all()


def _check_same_columns(location: Location, before: Manifest, after: Manifest) -> None:
    difference = column_difference(before, after)
    if difference is not None:
        raise ValueError(
            f"{location.uri}: versions {before.version} and {after.version} differ: {difference}; "
            "ask for changes since a version with the same columns"
        )


def _keys_at_once(*files: Sequence[DataFile]) -> int:
    """Return the number of keys with rows of about `_BYTES` in each of some files."""
    largest = max(file.bytes // file.num_records for file in chain.from_iterable(files))
    return min(_KEYS, max(1, _BYTES // max(1, largest)))


def _gathered(records: Iterator[pa.RecordBatch], count: int) -> Iterator[pa.RecordBatch]:
    """Yield records in batches of about a number of records."""
    held: list[pa.RecordBatch] = []
    for some in records:
        for start in range(0, some.num_rows, count):
            held.append(some.slice(start, count))
            if sum(one.num_rows for one in held) >= count:
                yield one_batch(held)
                held = []
    if held:
        yield one_batch(held)


def _all_rows(version: OpenVersion) -> Iterator[pa.RecordBatch]:
    """Yield the rows of all buckets of a version in key order, as they are stored."""
    return merge([version.reads.sorted_rows(bucket) for bucket in version.files], "error")


def _side_by_side(old: pa.RecordBatch, new: pa.RecordBatch) -> _Rows:
    """Return all keys of two batches with ascending keys, with the rows of both."""
    keys = pa.concat_arrays([old.column("key"), new.column("key")])
    order, same = sort_keys(keys)
    first = np.ones(len(keys), np.bool_) if same is None else ~same
    groups = np.cumsum(first) - 1
    is_old = order < old.num_rows
    sides = []
    for batch, own, start in ((old, is_old, 0), (new, ~is_old, old.num_rows)):
        places = np.full(int(first.sum()), -1, np.int64)
        places[groups[own]] = order[own].astype(np.int64) - start
        sides.append(batch.column("value").take(pa.array(places, mask=places < 0)))
    return _Rows(keys.take(pa.array(order[first])), *sides)


def _flags(answers: pa.Array) -> _Flags:
    found: _Flags = answers.to_numpy(zero_copy_only=False)
    return found
