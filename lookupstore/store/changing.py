"""Change a store at the cost of the changes: publish a version with a run for each changed bucket.

A version that is changed stays as it is, and so do its files: the next version names them and its
own runs. Compaction writes the rows of a bucket with runs as one base, with the bytes that a build
of the same rows writes. Runs that others publish meanwhile are kept above that base.
"""

from __future__ import annotations

import logging
import math
import os
import random
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import replace
from datetime import datetime, timezone
from functools import partial
from typing import Any, TypeAlias, TypeVar

import pyarrow as pa

from lookupstore.errors import CommitConflictError
from lookupstore.hostcache.cache import Residency
from lookupstore.progress import Advance, Bars, progress_bars
from lookupstore.quantities import Duration, Size, bytes_of, seconds_of
from lookupstore.sorting.ahead import threads_of
from lookupstore.sorting.runs import MIN_MEMORY
from lookupstore.source.argument_names import as_argument
from lookupstore.source.opening import in_types, open_source, with_every_column
from lookupstore.source.source import Source
from lookupstore.storage.location import Location
from lookupstore.store.background import compact_in_background
from lookupstore.store.buckets import BucketReads
from lookupstore.store.change_shapes import ChangesBy, plan_changes
from lookupstore.store.changed_bucket import (
    BASES,
    RUNS,
    BucketChanger,
    ChangedBucket,
    CompactionRule,
    changed_manifest,
)
from lookupstore.store.column_differences import column_difference
from lookupstore.store.debezium_values import with_schema_texts
from lookupstore.store.files import BucketFiles
from lookupstore.store.incoming import ChangeEncoding, IncomingChanges
from lookupstore.store.manifest import MAX_RUNS, FollowedSnapshot, Manifest
from lookupstore.store.new_version import NewVersion
from lookupstore.store.rules import Rule, merge_rules
from lookupstore.store.version_files import VersionName, name_of, read_newest

#: Numbers of the buckets that change, and their new files.
Changed: TypeAlias = "Iterator[tuple[int, ChangedBucket]]"

#: Number of times that changes are made to a version that another writer published meanwhile.
ATTEMPTS = 8
_PAUSE = 0.05
_TITLES = {RUNS: "Writing changes", BASES: "Compacting"}

_log = logging.getLogger(__name__)

A = TypeVar("A")


def upsert_version(
    location: Location,
    changes: Any,
    deletes: Any,
    *,
    columns: str | Sequence[str] | None,
    changes_by: ChangesBy | None,
    kinds: str | None,
    rule: Rule,
    sequence: str | None,
    max_runs: int,
    max_run_share: float,
    max_run_age: Duration | None,
    background: bool,
    memory: Size,
    threads: int | None,
    retain: Duration,
    temp_dir: str | os.PathLike[str] | None,
    progress: bool | None,
    max_text: Size,
) -> VersionName | None:
    """Publish the current version with changes, unless nothing changes.

    If another writer publishes first, the changes are made to the version that is current then. The
    arguments are those of `lookupstore.upsert`.

    Returns:
        Name of the version that was published. None: no version was published.

    Raises: what `lookupstore.upsert` raises.
    """
    age = None if max_run_age is None else seconds_of(max_run_age, "max_run_age")
    due = CompactionRule(max_runs, max_run_share, age)
    compaction = CompactionRule(MAX_RUNS, math.inf) if background else due
    memory = bytes_of(memory, "memory", least=MIN_MEMORY)
    if changes is None and deletes is None:
        raise ValueError("neither changes nor deletes are given; give rows, keys or both")
    if isinstance(changes, (list, tuple)) and not changes:
        changes = None
    current = read_newest(location)
    values = current.row_schema.schema
    reader = None
    given = pa.table({}) if changes is None else changes
    if changes_by == "debezium":
        given = with_schema_texts(given)
    known = pa.schema([*current.key_schema.schema, *values])
    every = columns is None
    with as_argument("source" if isinstance(given, Source) else "changes"):
        opening = with_every_column if every else open_source
        source = opening(given, max_text=max_text, known=known)
    if changes is not None:
        reader = plan_changes(
            source.schema,
            known,
            current.key_schema.names,
            changes_by=changes_by,
            kinds=kinds,
            columns=columns,
        )
        source = in_types(source, reader.types_in_text(source.schema))
        if reader.is_changelog and deletes is not None:
            raise ValueError(
                "the changes are a changelog, which has deletes of its own; pass deletes= in "
                "another call"
            )
    is_changelog = reader is not None and reader.is_changelog
    rules = merge_rules(
        rule,
        values,
        values.names if reader is None else reader.names,
        sequence,
        is_changelog=is_changelog,
    )
    folder = location.spill_folder() if temp_dir is None else os.fspath(temp_dir)
    in_versions = reader is not None and reader.ordered_by is not None
    encoding = ChangeEncoding(current, rules, in_order=is_changelog, numbered=not in_versions)
    incoming = IncomingChanges(
        encoding,
        memory=memory,
        folder=folder,
        buckets=current.buckets,
        unordered=None if source.in_order or in_versions else source.description,
    )
    with closing(incoming), progress_bars(progress, late=True) as bars:
        if reader is not None:
            read = bars("Reading", source.count_rows()) if bars else None
            with as_argument("source" if isinstance(given, Source) else "changes"):
                incoming.add(source, reader, read)
        if deletes is not None:
            incoming.delete(deletes)
        description = "deletes" if changes is None else source.description
        if changes is not None and deletes is not None:
            description = f"{description}, and deletes"

        def change(manifest: Manifest, changer: BucketChanger) -> Changed:
            check_same_store(location, current, manifest)
            for bucket in range(current.buckets):
                changed = changer.upsert(bucket, rules, incoming, compaction)
                if changed is not None:
                    yield bucket, changed

        def publish() -> VersionName | None:
            advance = _advance(bars, {RUNS: incoming.num_rows}) if bars else None
            return publish_changes(location, f"changes: {description}", change, advance,
                                   threads=threads, retain=retain, temp_dir=temp_dir)  # fmt: skip

        published = None
        if incoming.num_rows:
            published = retried(publish)
        else:
            _log.info("%s: no changes, so version %d stays", location.uri, current.version)
    if background:
        compact_in_background(
            location.uri,
            # There is only one thread: a process that ends while it runs cannot start more.
            partial(compact_version, location, threads=1, retain=retain, temp_dir=temp_dir,
                    progress=False, rule=due),
        )  # fmt: skip
    return published


def compact_version(
    location: Location,
    *,
    threads: int | None,
    retain: Duration,
    temp_dir: str | os.PathLike[str] | None,
    progress: bool | None,
    rule: CompactionRule | None = None,
) -> VersionName | None:
    """Publish the current version with compacted buckets, unless none is due.

    Upserts that publish meanwhile keep their runs, above the new bases. A bucket that others have
    compacted or built meanwhile keeps their files.

    Args:
        location: Location of the store.
        threads: Number of threads that read, compress and write, including the caller's. None: one
            for each processor, at most 64.
        retain: Time for which replaced versions are kept; see `lookupstore.expire`.
        temp_dir: Folder for the files of a remote store before they are uploaded. None: the
            system's temporary folder.
        progress: Whether to show a progress bar. None: after one second, on a terminal or in a
            notebook.
        rule: Rule that decides which buckets are due. Default: all buckets that have runs.

    Returns:
        Name of the version that was published. None: no version was published.

    Raises: what `LookupStore.compact` raises.
    """
    if not _due_buckets(read_newest(location), rule):
        _log.info("%s: nothing to compact", location.uri)
        return None
    with NewVersion(
        location, overwrite=True, allow_empty=True, retain=retain, temp_dir=temp_dir, change=True
    ) as new:
        with (
            progress_bars(progress, late=True) as bars,
            _changing(location, new, threads) as (merged, changer),
        ):
            due = _due_buckets(merged, rule)
            if bars:
                changer.advance = _advance(bars, {BASES: sum(map(changer.count, due))})
            done = {bucket: changer.compact(bucket) for bucket in due}
        tried: list[str] = []  # identities of versions that were withdrawn

        def publish() -> VersionName | None:
            current = read_newest(location)
            changed = _under_newer_runs(done, merged, current)
            if not changed:
                _log.info("%s: others have compacted meanwhile", location.uri)
                return None
            if new.version_id in tried:
                new.begin_again()
            tried.append(new.version_id)
            published = new.publish(
                changed_manifest(
                    current, changed, version_id=new.version_id, follows=current.follows
                ),
                replaces=name_of(current),
            )
            return name_of(published)

        return retried(publish)


def _due_buckets(manifest: Manifest, rule: CompactionRule | None) -> list[int]:
    """Return the buckets of a version that are to be compacted."""
    bases = {file.bucket: file for file in manifest.files}
    now = datetime.now(timezone.utc)
    return [
        bucket
        for bucket, runs in manifest.runs_by_bucket().items()
        if rule is None or rule.is_due(bases.get(bucket), runs, now)
    ]


def _under_newer_runs(
    compacted: Mapping[int, ChangedBucket], merged: Manifest, current: Manifest
) -> dict[int, ChangedBucket]:
    """Return the new files of buckets of the current version that were compacted in an older one.

    Buckets whose compacted files the current version no longer has are left out.
    """
    old, new = merged.layers(), current.layers()
    runs = current.runs_by_bucket()
    changed = {}
    for bucket, done in compacted.items():
        files = new.get(bucket, ())
        newer = len(files) - len(old[bucket])
        if newer >= 0 and files[newer:] == old[bucket]:
            changed[bucket] = replace(done, runs=runs.get(bucket, ())[:newer])
    return changed


def retried(publish: Callable[[], A]) -> A:
    """Publish a change of the current version, again if another writer was first.

    Returns: the result of `publish`.

    Raises:
        CommitConflictError: Another writer published first on every retry.
    """
    attempt = 0
    while True:
        try:
            return publish()
        except CommitConflictError as error:
            attempt += 1
            if attempt == ATTEMPTS:
                raise
            _log.info("another writer was faster: %s", error)
            # Two writers that collided once are unlikely to collide again.
            time.sleep(random.uniform(0, _PAUSE * 2 ** (attempt - 1)))


def publish_changes(
    location: Location,
    source: str,
    change: Callable[[Manifest, BucketChanger], Changed],
    advance: Callable[[str, int], None] | None,
    *,
    threads: int | None,
    retain: Duration,
    temp_dir: str | os.PathLike[str] | None,
    follows: FollowedSnapshot | None = None,
) -> VersionName | None:
    """Publish the current version with changed buckets, once.

    Args:
        location: Location of the store.
        source: Description of the source of the changes.
        change: Function that yields the buckets that change, with their new files, given the
            manifest of the current version and a writer of new files.
        advance: Function that is called with the kind of the files, and the number of rows that
            were written to them. None: none.
        threads: Number of threads that read, compress and write, including the caller's. None: one
            for each processor, at most 64.
        retain: Time for which replaced versions are kept; see `lookupstore.expire`.
        temp_dir: Folder for the files of a remote store before they are uploaded. None: the
            system's temporary folder.
        follows: Snapshot whose rows the new version has, which is published even if no bucket
            changes. None: The changes are others.

    Returns:
        Name of the version that was published. None: nothing changes.

    Raises:
        CommitConflictError: Another writer published first.
        CommitUnknownError: The version may or may not be published.
    """
    # A version without rows is intended if all rows are deleted.
    with NewVersion(
        location, overwrite=True, allow_empty=True, retain=retain, temp_dir=temp_dir, change=True
    ) as new:
        with _changing(location, new, threads) as (manifest, changer):
            changer.advance = advance
            changed = dict(change(manifest, changer))
        if not changed and follows is None:
            _log.info("%s: nothing to change in version %d", location.uri, manifest.version)
            return None
        published = new.publish(
            changed_manifest(
                manifest, changed, version_id=new.version_id, source=source, follows=follows
            ),
            replaces=name_of(manifest),
        )
    return name_of(published)


def _advance(bars: Bars, totals: Mapping[str, int]) -> Callable[[str, int], None]:
    """Return a function that advances bars by written rows; the first rows open their bar."""
    opened: dict[str, Advance] = {}

    def advance(kind: str, rows: int) -> None:
        if kind not in opened:
            opened[kind] = bars(_TITLES[kind], totals.get(kind))
        opened[kind](rows)

    return advance


@contextmanager
def _changing(
    location: Location, new: NewVersion, threads: int | None
) -> Iterator[tuple[Manifest, BucketChanger]]:
    """Open the current version and the changer of its buckets, for a new version."""
    # While the mark exists, the files of the current version are kept.
    manifest = read_newest(location)
    files = BucketFiles(location, manifest, None, Residency())
    with closing(files):
        reads = BucketReads(location, manifest, files)
        many = threads_of(threads)
        yield manifest, BucketChanger(manifest, reads, location, new.folder, new.id, threads=many)


def check_same_store(location: Location, planned: Manifest, current: Manifest) -> None:
    """Check that changes read for one version of a store fit another version.

    Raises:
        ValueError: If the key, the value columns or the number of buckets differ.
    """
    difference = column_difference(planned, current)
    if difference is None and planned.buckets != current.buckets:
        difference = f"the number of buckets was {planned.buckets} and is {current.buckets}"
    if difference is not None:
        raise ValueError(
            f"{location.uri}: the store changed while changes were read: {difference}; upsert again"
        )
