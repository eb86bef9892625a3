"""Bring a store to the newest snapshot of a table: by what differs, or by all rows.

Every step is taken again if another writer publishes first. The snapshot that a version has is in
its manifest, so each snapshot is applied once, whoever applies it, and whatever is killed.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from lookupstore.builder.in_process import publish_build, spill_folder
from lookupstore.builder.plan import BuildPlan
from lookupstore.errors import (
    CommitConflictError,
    DuplicateKeyError,
    FormatError,
    StaleStoreError,
)
from lookupstore.filters import Filter
from lookupstore.following.changes import SnapshotChanges
from lookupstore.following.records import FollowingRecords, UnfollowableError, keys_at_once
from lookupstore.following.targets import Target, check_other, newest_target
from lookupstore.progress import Advance, not_shown, progress_bars
from lookupstore.quantities import Duration
from lookupstore.sorting.ahead import mixed_ahead
from lookupstore.sorting.runs import RepeatedKeyError, joined
from lookupstore.storage.catalog_names import is_catalog_name
from lookupstore.storage.location import Location
from lookupstore.store.changed_bucket import BucketChanger, ChangedBucket, CompactionRule
from lookupstore.store.changing import publish_changes, retried
from lookupstore.store.column_differences import column_difference
from lookupstore.store.data_files import FileOptions
from lookupstore.store.manifest import FollowedSnapshot, Manifest
from lookupstore.store.new_version import NewVersion
from lookupstore.store.publish_step import changed_meanwhile_error
from lookupstore.store.version_files import VersionName, list_names, name_of, read_newest
from lookupstore.tables.history import RowDifference, TableMoment
from lookupstore.tables.kept_columns import HostColumns
from lookupstore.tables.rows import OPEN_AGAIN

# The defaults of an upsert.
_COMPACTION = CompactionRule(max_runs=8, max_share=0.25)

#: Remedy for a key of several rows.
ONE_ROW = (
    "a store that follows a table needs keys of one row each: name more key columns, or delete the "
    "other rows from the table"
)

#: Reason of a build for which the caller asked.
ASKED = "overwrite is set"

_KEEP_SNAPSHOTS = (
    "to read only what changed, follow the table more often, or keep its snapshots longer"
)
_KEEP_COLUMNS = "to read only what changed, keep the columns, or name those to store in columns="

# Number of files of an object store that are read at a time.
_REMOTE = 16

# Least size of rows in bytes that are encoded and sorted at a time, except the last ones.
_JOINED = 64 << 10

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Follower:
    """A table and a store that follows it.

    Attributes:
        table: The table, as `lookupstore.follow` takes it.
        location: Location of the store.
        key: Names of the key columns.
        columns: Names of the value columns. None: all that are not in the key.
        where: Condition that rows must meet to be stored. None: all rows count.
        nullable_keys: Key columns whose nulls are keys of their own.
        buckets: Number of buckets of a build. None: that of the store, otherwise by size.
        allow_new_key: Whether a build may replace a store with another key.
        retain: Time for which replaced versions are kept.
        progress: Whether to show progress bars. None: after one second, on a terminal or in a
            notebook.
        options: Options of the data files of a build.
        memory: Memory for rows in bytes.
        threads: Number of threads, including the caller's.
        temp_dir: Folder for spilled rows. None: the default of the location.
    """

    table: Any
    location: Location
    key: str | Sequence[str]
    columns: Sequence[str] | None
    where: Filter | None
    nullable_keys: str | Sequence[str]
    buckets: int | None
    allow_new_key: bool
    retain: Duration
    progress: bool | None
    options: FileOptions
    memory: int
    threads: int
    temp_dir: str | None

    def sync(self, *, overwrite: bool = False) -> VersionName | None:
        """Bring the store to the newest snapshot of the table.

        Args:
            overwrite: Whether to build it of all rows, whatever it has.

        Returns:
            Name of the version that was published. None: the store has this snapshot.

        Raises: what `lookupstore.follow` raises.
        """
        return retried(partial(self._step, overwrite=overwrite))

    def _step(self, *, overwrite: bool) -> VersionName | None:
        # The store is looked at first: the table is then at least as new as the store's snapshot.
        current = None
        is_there = bool(list_names(self.location))
        if is_there and not overwrite:
            current = read_newest(self.location)
            if current.follows is None:
                raise FileExistsError(
                    f"{self.location.uri}: there is already a store, which follows no table; pass "
                    "overwrite=True to replace it"
                )
        check_other(self.table, self.location)
        target = newest_target(
            self.table,
            key=self.key,
            columns=self.columns,
            where=self.where,
            nullable_keys=self.nullable_keys,
        )
        if current is None:
            return self._build(target, None, ASKED if is_there else None)
        try:
            former = _former(self.location, current, target)
            if former is None:
                _log.info(
                    "%s: version %d has the rows of the %s",
                    self.location.uri, current.version, target.newest.description,
                )  # fmt: skip
                return None
            return self._apply(current, former, target)
        except UnfollowableError as reason:
            return self._build(target, current, str(reason))

    def _build(self, target: Target, current: Manifest | None, reason: str | None) -> VersionName:
        """Build the store of all rows.

        Args:
            target: What the store is to become.
            current: The only version that may be replaced. None: any if there is a reason,
                otherwise none.
            reason: Reason for which the rows are read again. None: it is the first time.
        """
        location = self.location
        if reason is not None:
            _log.info(
                "%s: reading all rows of the %s: %s",
                location.uri, target.newest.description, reason,
            )  # fmt: skip
        new = NewVersion(
            location,
            overwrite=reason is not None,
            allow_empty=True,  # the table says that it has no rows
            allow_new_key=self.allow_new_key,
            retain=self.retain,
            temp_dir=self.temp_dir,
            change=current is not None,
        )
        replaces = None if current is None else name_of(current)
        try:
            built = self._publish(new, target, replaces, replace(target.follows, rebuilt=reason))
        except RepeatedKeyError as error:
            raise _repeated_error(target, error.key) from None
        except FileExistsError as error:
            if reason is None and list_names(location):  # another follower was faster
                raise CommitConflictError(str(error)) from error
            raise
        if reason not in (None, ASKED):
            _log.warning(
                "%s: version %d was built of all rows of the %s: %s",
                location.uri, built.number, target.newest.description, reason,
            )  # fmt: skip
        return built

    def _publish(
        self,
        new: NewVersion,
        target: Target,
        replaces: VersionName | None,
        follows: FollowedSnapshot,
    ) -> VersionName:
        """Publish a version with all rows.

        Args:
            new: The version, not begun.
            target: What the store is to become.
            replaces: Name of the only version that it may replace. None: any version, or none.
            follows: The snapshot, as the manifest records it.
        """
        with HostColumns(target.plan.key_schema.names) as kept:
            return publish_build(
                new,
                target.newest.keeping(kept).source(),
                plan=replace(target.plan, in_order=False),
                options=self.options,
                buckets=self.buckets,
                memory=self.memory,
                threads=self.threads,
                progress=self.progress,
                temp_dir=self.temp_dir,
                replaces=replaces,
                follows=follows,
            )

    def _apply(self, current: Manifest, former: TableMoment, target: Target) -> VersionName | None:
        """Publish the differences between two moments of the table.

        Raises:
            UnfollowableError: If the store does not have the rows of the former moment, or a file
                of that is gone.
        """
        location, newest = self.location, target.newest
        kept = HostColumns(target.plan.key_schema.names)
        gone = former.keeping(kept).lacking(newest)
        new = newest.keeping(kept).lacking(former)
        changes = SnapshotChanges(
            target.plan,
            buckets=current.buckets,
            memory=self.memory,
            folder=spill_folder(location, self.temp_dir),
            threads=self.threads,
        )

        def change(manifest: Manifest, changer: BucketChanger) -> Iterator[tuple[int, Any]]:
            # A compaction keeps the rows, and may have been faster.
            if (manifest.follows, manifest.buckets) != (current.follows, current.buckets):
                raise changed_meanwhile_error(location, name_of(current))
            at_once = keys_at_once(manifest)
            for bucket in range(manifest.buckets):
                rows = FollowingRecords(manifest, changer.reads, changes, bucket, at_once=at_once)
                changed: ChangedBucket | None = changer.change(bucket, rows, _COMPACTION)
                if changed is not None:
                    yield bucket, changed

        with closing(changes), kept, progress_bars(self.progress, late=True) as bars:
            total = [one.num_rows for one in (*gone, *new)]
            known = None if None in total else sum(count or 0 for count in total)
            advance = bars("Reading", known) if bars else not_shown
            try:
                _read(changes, gone, new, target.plan, advance, self.threads)
                published = publish_changes(
                    location,
                    newest.description,
                    change,
                    None,
                    threads=self.threads,
                    retain=self.retain,
                    temp_dir=self.temp_dir,
                    follows=target.follows,
                )
            except RepeatedKeyError as error:
                raise _repeated_error(target, error.key) from None
        _log.info(
            "%s: %d rows of %d files of the %s are new, %d rows of %d files are gone",
            location.uri,
            changes.new_rows,
            len(new),
            newest.description,
            changes.gone_rows,
            len(gone),
        )
        return published


def _read(
    changes: SnapshotChanges,
    gone: Sequence[RowDifference],
    new: Sequence[RowDifference],
    plan: BuildPlan,
    advance: Advance,
    threads: int,
) -> None:
    """Read the rows that differ between two moments of a table.

    Args:
        changes: Object to which the rows are added.
        gone: Rows that are gone.
        new: Rows that are new.
        plan: Plan of the rows in the store.
        advance: Function that is called with the number of rows after each batch.
        threads: Number of threads, including the caller's.

    Raises:
        UnfollowableError: If a file is gone.
    """
    works = (gone, plan.key_schema.names, changes.remove), (new, plan.columns, changes.add)
    try:
        for differences, columns, add in works:
            # Files of an object store are read several at a time, whatever the processors are.
            at_once = max(threads, _REMOTE if any(one.is_remote for one in differences) else 1)
            read = mixed_ahead((one.rows(columns) for one in differences), at_once)
            # Most files have a few rows that differ.
            for rows in joined(read, _JOINED):
                add(rows)
                advance(rows.num_rows)
    except (StaleStoreError, FileNotFoundError) as error:
        found = str(error).removesuffix(OPEN_AGAIN)
        raise UnfollowableError(f"{found}; {_KEEP_SNAPSHOTS}") from None


def _former(location: Location, current: Manifest, target: Target) -> TableMoment | None:
    """Return the moment whose rows a version has. None: it is the newest one, as recorded.

    Raises:
        FileExistsError: If the store has the rows of a table at another place.
        UnfollowableError: If the differences to the newest snapshot cannot be known.
    """
    has, wanted = current.follows, target.follows
    assert has is not None
    # A table that was created again is at its old place.
    is_elsewhere = has.place is not None and wanted.place not in (None, has.place)
    is_copy = has.table == wanted.table and all(map(_is_folder, (has.place, wanted.place)))
    if is_elsewhere and (is_copy or has.table != wanted.table):
        which = "the table at" if is_copy else "another table,"
        moved = ", for example if the table was moved" if is_copy else ""
        raise FileExistsError(
            f"{location.uri}: there is already a store, which follows {which} {has.place}; give "
            f"each table its own store, or pass overwrite=True to replace it{moved}"
        )
    if has.table != wanted.table:
        remedy = "give each table its own store"
        if has.place is not None and has.place == wanted.place:
            remedy = "overwrite the rows of a table instead of creating it again"
        raise UnfollowableError(f"the store has the rows of another table, {has.table}; {remedy}")
    if has.snapshot is None:
        raise UnfollowableError(
            f"version {current.version} has changes that follow did not make; change the table "
            "instead of the store"
        )
    difference = column_difference(current, target.plan)
    if difference is not None:
        # Its bytes change in every row, so that reading fewer would write as much.
        raise UnfollowableError(
            f"{difference}, and each stored row has all columns; {_KEEP_COLUMNS}"
        )
    if has.columns != wanted.columns:
        reason = (
            "a column was replaced by another one of its name, or Iceberg's name mapping changed"
        )
        if None in (has.place, wanted.place):  # then their filters are not recorded
            reason = f"{reason}, or the filter has changed"
        elif has.where != wanted.where:
            reason = "the filter has changed; to read only what changed, keep the filter"
        raise UnfollowableError(reason)
    replaced = (
        f"snapshot {has.snapshot}, which the store has, has other files in the table now: it was "
        "restored, or written again"
    )
    if has.snapshot == wanted.snapshot:
        if has.files != wanted.files:
            raise UnfollowableError(replaced)
        # An open store is synced with what is recorded.
        is_recorded = wanted.place is None or replace(has, rebuilt=None) == wanted
        return None if is_recorded else target.newest
    try:
        former = target.former(has.snapshot)
    except FormatError as error:  # for example of a column whose type has changed since
        raise UnfollowableError(
            f"snapshot {has.snapshot}, which the store has, is no longer readable: {error}"
        ) from None
    if former is None:
        raise UnfollowableError(
            f"snapshot {has.snapshot}, which the store has, is no longer in the table; "
            f"{_KEEP_SNAPSHOTS}"
        )
    if former.files_hash != has.files:
        raise UnfollowableError(replaced)
    return former


def _is_folder(place: str | None) -> bool:
    """Return whether a place is the folder of a table.

    A copy of a folder has the id of its original. The branches of a table in a catalog of Iceberg,
    and its metadata files, are places of one table.
    """
    return place is not None and not is_catalog_name(place) and ".metadata.json" not in place


def _repeated_error(target: Target, key: bytes) -> DuplicateKeyError:
    return target.plan.repeated_error(key, ONE_ROW)
