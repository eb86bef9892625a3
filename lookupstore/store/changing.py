"""Change a store by what changed: publish a version with a run of changes to each touched bucket.

A version that is changed stays as it is, and so do its files: the next one names them and its own
runs. Compaction writes the rows of a bucket with runs as one base, with the bytes that a build of
the same rows writes.
"""

from __future__ import annotations

import logging
import os
import random
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from typing import Any

import pyarrow as pa

from lookupstore.errors import CommitConflictError
from lookupstore.hostcache.cache import Residency
from lookupstore.quantities import Duration
from lookupstore.source.source import open_source
from lookupstore.sst import Reader
from lookupstore.storage.location import Location
from lookupstore.store.buckets import BucketReads
from lookupstore.store.data_files import options_of, write_bucket
from lookupstore.store.files import BucketFiles
from lookupstore.store.incoming import IncomingChanges
from lookupstore.store.manifest import MAX_RUNS, WRITER, ChangeRun, DataFile, Manifest
from lookupstore.store.new_version import NewVersion, settle
from lookupstore.store.resolving import ResolvedRun
from lookupstore.store.rules import MergeRules, Rule, merge_rules
from lookupstore.store.version_files import name_of, read_newest, time_text

#: How often changes are made to the version that another writer has published meanwhile.
ATTEMPTS = 8
# Each key that is looked up passes the filters of all runs: a wrong answer costs a search.
RUN_FPP = 0.001
_PAUSE = 0.05

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class CompactionRule:
    """When an upsert merges the runs of a bucket into its base.

    Attributes:
        max_runs: most runs that a bucket has.
        max_share: most bytes that its runs have, as a share of those of its base.
        max_seconds: age at which its oldest run is merged; None: at no age.
    """

    max_runs: int
    max_share: float
    max_seconds: float | None = None

    def __post_init__(self) -> None:
        runs, share = self.max_runs, self.max_share
        if not isinstance(runs, int) or isinstance(runs, bool) or not 0 <= runs <= MAX_RUNS:
            raise ValueError(f"max_runs is {runs!r}; give a number from 0 to {MAX_RUNS}")
        if not isinstance(share, (int, float)) or isinstance(share, bool) or not share >= 0:
            raise ValueError(f"max_run_share is {share!r}; give a number that is not negative")

    def is_due(self, base: DataFile | None, runs: tuple[ChangeRun, ...], now: datetime) -> bool:
        """Return whether a bucket with these files, the newest run first, is to be compacted."""
        run_bytes = sum(run.file.bytes for run in runs)
        base_bytes = 0 if base is None else base.bytes
        if len(runs) > self.max_runs or run_bytes > self.max_share * base_bytes:
            return True
        if self.max_seconds is None or not runs:
            return False
        age = now - datetime.fromisoformat(runs[-1].created)
        return age.total_seconds() >= self.max_seconds


def upsert_version(
    location: Location,
    changes: Any,
    deletes: Any,
    *,
    rule: Rule,
    sequence: str | None,
    compaction: CompactionRule,
    memory: int,
    threads: int,
    retain: Duration,
    temp_dir: str | os.PathLike[str] | None,
) -> None:
    """Publish the current version with changes, as the next one; without changes nothing.

    If another writer was faster, the same is done to the version that is current then.

    Raises: what `lookupstore.upsert` raises.
    """
    if changes is None and deletes is None:
        raise ValueError("neither changes nor deletes are given; give rows, keys or both")
    source = open_source(pa.table({}) if changes is None else changes)
    current = read_newest(location)
    values = current.row_schema.schema
    given = values.names if changes is None else source.schema.names
    rules = merge_rules(rule, values, given, sequence)
    folder = location.spill_folder() if temp_dir is None else os.fspath(temp_dir)
    incoming = IncomingChanges(current, rules, memory=memory, folder=folder)
    with closing(incoming):
        if changes is not None:
            incoming.add(source)
        if deletes is not None:
            incoming.delete(deletes)
        if not incoming.num_rows:
            _log.info("%s: no changes, so version %d stays", location.uri, current.version)
            return
        description = "deletes" if changes is None else source.description

        def change(version: _ChangedVersion) -> None:
            _check_same_store(location, current, version.manifest)
            for bucket in range(current.buckets):
                version.add_run(bucket, rules, incoming, compaction)

        _retried(lambda: _publish(location, f"changes: {description}", change,
                                  threads=threads, retain=retain, temp_dir=temp_dir))  # fmt: skip


def compact_version(
    location: Location,
    *,
    threads: int,
    retain: Duration,
    temp_dir: str | os.PathLike[str] | None,
) -> None:
    """Publish the current version without runs, as the next one; if it has none, nothing.

    Raises: what `LookupStore.compact` raises.
    """

    def change(version: _ChangedVersion) -> None:
        for bucket in version.manifest.runs_by_bucket():
            version.compact(bucket)

    _retried(lambda: _publish(location, None, change,
                              threads=threads, retain=retain, temp_dir=temp_dir))  # fmt: skip


def _retried(publish: Callable[[], None]) -> None:
    for attempt in range(ATTEMPTS):
        try:
            publish()
            return
        except CommitConflictError as error:
            if attempt == ATTEMPTS - 1:
                raise
            _log.info("another writer was faster: %s", error)
            # Two that met once are not to meet again.
            time.sleep(random.uniform(0, _PAUSE * 2**attempt))


def _publish(
    location: Location,
    source: str | None,
    change: Callable[[_ChangedVersion], None],
    *,
    threads: int,
    retain: Duration,
    temp_dir: str | os.PathLike[str] | None,
) -> None:
    # A version without rows is what was asked for, where all of them are deleted.
    with NewVersion(
        location, overwrite=True, allow_empty=True, retain=retain, temp_dir=temp_dir
    ) as new:
        # With the mark there, its files stay.
        manifest = read_newest(location)
        files = BucketFiles(location, manifest, None, Residency())
        with closing(files):
            version = _ChangedVersion(
                new, manifest, BucketReads(location, manifest, files), threads
            )
            change(version)
            changed = version.changed(source)
            if changed is None:
                _log.info("%s: nothing to change in version %d", location.uri, manifest.version)
                return
            new.publish(changed, replaces=name_of(manifest))


def _check_same_store(location: Location, planned: Manifest, current: Manifest) -> None:
    for what, before, now in (
        ("key", planned.key_schema, current.key_schema),
        ("value columns", planned.row_schema, current.row_schema),
        ("number of buckets", planned.buckets, current.buckets),
    ):
        if before != now:
            raise ValueError(
                f"{location.uri}: the {what} of the store changed while changes were read: it was "
                f"{before} and is {now}; upsert again"
            )


class _ChangedVersion:
    """A version in the making: the files of the one before, and new ones for changed buckets."""

    def __init__(
        self, new: NewVersion, manifest: Manifest, reads: BucketReads, threads: int
    ) -> None:
        self.manifest = manifest
        self._new = new
        self._reads = reads
        self._threads = threads
        self._options = options_of(manifest)
        self._bases = {file.bucket: file for file in manifest.files}
        self._runs = manifest.runs_by_bucket()
        self._applied: list[ChangeRun] = []
        self._written = 0
        self._now = datetime.now(timezone.utc)

    def add_run(
        self,
        bucket: int,
        rules: MergeRules,
        incoming: IncomingChanges,
        compaction: CompactionRule,
    ) -> None:
        """Write the changes to a bucket as a run, and if that is due merge it into the base.

        A run that is merged stays beside the base: it says what has changed.
        """
        resolved = ResolvedRun(self.manifest, self._reads, rules, incoming, bucket)
        file = write_bucket(
            self._new.folder,
            f"{self._new.id}-{bucket:05d}-run",
            bucket,
            resolved.batches(),
            schemas=self.manifest,
            options=replace(self._options, bloom_fpp=RUN_FPP),
            threads=self._threads,
        )
        if file is None:
            return
        new_rows = resolved.inserted - resolved.deleted
        run = ChangeRun(file, resolved.deleted, new_rows, time_text(self._now))
        runs = (run, *self._runs.get(bucket, ()))
        if compaction.is_due(self._bases.get(bucket), runs, self._now):
            with Reader(os.path.join(self._new.folder, file.name)) as reader:
                self.compact(bucket, newest=reader, new_rows=new_rows)
            self._applied.append(run)
        else:
            self._runs[bucket] = runs
            self._written += 1
        settle(self._new.location, self._new.folder, file, {})

    def compact(self, bucket: int, newest: Reader | None = None, new_rows: int = 0) -> None:
        """Write the rows of a bucket as one base, those of one more run among them."""
        base = self._bases.pop(bucket, None)
        runs = self._runs.pop(bucket, ())
        count = new_rows + sum(run.new_rows for run in runs)
        if base is not None:
            count += base.num_records
        file = write_bucket(
            self._new.folder,
            f"{self._new.id}-{bucket:05d}",
            bucket,
            self._reads.sorted_rows(bucket, newest),
            schemas=self.manifest,
            options=self._options,
            rows_at_most=count or None,
            threads=self._threads,
        )
        if file is not None:
            settle(self._new.location, self._new.folder, file, {})
            self._bases[bucket] = file
            self._written += 1

    def changed(self, source: str | None) -> Manifest | None:
        """Return the manifest of the version; None if nothing has changed."""
        bases = tuple(self._bases[bucket] for bucket in sorted(self._bases))
        runs = tuple(run for bucket in sorted(self._runs) for run in self._runs[bucket])
        if (bases, runs) == (self.manifest.files, self.manifest.runs):
            return None
        rows = sum(file.num_records for file in bases) + sum(run.new_rows for run in runs)
        return replace(
            self.manifest,
            version=0,
            id=self._new.id,
            created="",
            writer=WRITER,
            num_rows=rows,
            source=self.manifest.source if source is None else source,
            source_fingerprint=None,
            rewritten_buckets=self._written,
            files=bases,
            runs=runs,
            parent=self.manifest.id,
            applied=tuple(self._applied),
        )
