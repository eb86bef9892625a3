"""The new files of a changed bucket: one more run, or one base with all rows.

The files of one bucket follow from the version that is changed and from the changes to that
bucket, so that buckets may be changed by different processes. `changed_manifest` puts together what
they have written.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from functools import partial
from typing import Protocol

import pyarrow as pa

from lookupstore.sorting.ahead import made_ahead
from lookupstore.sst import Reader
from lookupstore.storage.location import Location
from lookupstore.store.buckets import BucketReads
from lookupstore.store.data_files import options_of, write_bucket
from lookupstore.store.incoming import IncomingChanges
from lookupstore.store.manifest import (
    MAX_RUNS,
    WRITER,
    ChangeRun,
    DataFile,
    FollowedSnapshot,
    Manifest,
)
from lookupstore.store.new_version import settle
from lookupstore.store.resolving import ResolvedRun
from lookupstore.store.rules import MergeRules
from lookupstore.store.version_times import time_text

# False positive rate of the filters of runs. Each lookup of a key asks the filters of all runs, and
# a false positive costs a search.
RUN_FPP = 0.001

# Number of batches of merged rows, of some megabytes each, that wait for the writer, whose speed
# varies more than that of the merge.
_MADE_AHEAD = 4

#: Kinds of files to which rows are written.
RUNS, BASES = "runs", "bases"


@dataclass(frozen=True)
class CompactionRule:
    """A rule for merging the runs of a bucket into its base.

    Attributes:
        max_runs: Largest number of runs of a bucket.
        max_share: Largest size of the runs of a bucket, as a share of the size of its base.
        max_seconds: Age of the oldest run, in seconds, at which the runs are merged. None: no
            limit.
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


@dataclass(frozen=True)
class ChangedBucket:
    """The files of a bucket in a new version.

    Attributes:
        base: Base of the bucket. None: it has none.
        runs: Runs of the bucket, the newest first.
        written: Number of new files in `base` and `runs`.
        applied: Run that was merged into the base at once. None: there was none.
    """

    base: DataFile | None
    runs: tuple[ChangeRun, ...]
    written: int
    applied: ChangeRun | None = None


class RunRecords(Protocol):
    """The records of a run for one bucket, and what they change.

    Attributes:
        inserted: Number of keys of the records so far that were not stored.
        deleted: Number of keys of the records so far that were stored and are now deleted.
    """

    inserted: int
    deleted: int

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the records as `key`, ascending, and `value`, which begins with the kind."""


class BucketChanger:
    """A writer of the new files of buckets, each of which is changed once.

    Args:
        manifest: Manifest of the version that is changed; its files are used only for the buckets
            that are changed.
        reads: Lookups and scans of the version that is changed.
        location: Location of the store.
        folder: Local folder with the data folder in which the files are written.
        version_id: Identity of the new version, which begins the names of its files.
        attempt: Suffix of the file names, for when others write files of the same bucket and
            version.
        threads: Number of threads that read, compress and write, including the caller's.
    """

    def __init__(
        self,
        manifest: Manifest,
        reads: BucketReads,
        location: Location,
        folder: str,
        version_id: str,
        *,
        attempt: str = "",
        threads: int = 1,
    ) -> None:
        self._manifest = manifest
        #: Lookups and scans of the version that is changed.
        self.reads: BucketReads = reads
        self._location = location
        self._folder = folder
        self._name = f"{version_id}-{{:05d}}{attempt}"
        self._threads = threads
        #: Function that is called with `RUNS` and the number of resolved changes, or with `BASES`
        #: and the number of rows written.
        self.advance: Callable[[str, int], None] | None = None
        self._options = options_of(manifest)
        self._bases = {file.bucket: file for file in manifest.files}
        self._runs = manifest.runs_by_bucket()
        self._now = datetime.now(timezone.utc)

    def upsert(
        self, bucket: int, rules: MergeRules, incoming: IncomingChanges, compaction: CompactionRule
    ) -> ChangedBucket | None:
        """Write the changes to a bucket; see `change`.

        Raises: what `ResolvedRun.batches` raises.
        """
        resolved = ResolvedRun(
            self._manifest,
            self.reads,
            rules,
            incoming,
            bucket,
            self.advance and partial(self.advance, RUNS),
        )
        return self.change(bucket, resolved, compaction)

    def change(
        self, bucket: int, resolved: RunRecords, compaction: CompactionRule
    ) -> ChangedBucket | None:
        """Write the records of a run for a bucket, and compact the bucket if that is due.

        A run that is merged is kept next to the base, because it records what has changed.

        Returns:
            Files of the bucket in the new version. None: nothing changes.
        """
        file = write_bucket(
            self._folder,
            f"{self._name.format(bucket)}-run",
            bucket,
            resolved.batches(),
            schemas=self._manifest,
            options=replace(self._options, bloom_fpp=RUN_FPP),
            threads=self._threads,
        )
        if file is None:
            return None
        new_rows = resolved.inserted - resolved.deleted
        run = ChangeRun(file, resolved.deleted, new_rows, time_text(self._now))
        base = self._bases.get(bucket)
        runs = (run, *self._runs.get(bucket, ()))
        if compaction.is_due(base, runs, self._now):
            with Reader(os.path.join(self._folder, file.name)) as reader:
                changed = self.compact(bucket, newest=reader, new_rows=new_rows)
            changed = replace(changed, applied=run)
        else:
            changed = ChangedBucket(base, runs, 1)
        settle(self._location, self._folder, file, {})
        return changed

    def count(self, bucket: int) -> int:
        """Return how many rows a bucket has before it is changed."""
        base = self._bases.get(bucket)
        rows = 0 if base is None else base.num_records
        return rows + sum(run.new_rows for run in self._runs.get(bucket, ()))

    def compact(
        self, bucket: int, newest: Reader | None = None, new_rows: int = 0
    ) -> ChangedBucket:
        """Write the rows of a bucket as one base, including those of one more run if given.

        Raises:
            CorruptionError: The stored bytes are damaged.
        """
        count = self.count(bucket) + new_rows
        rows = self.reads.sorted_rows(bucket, newest)
        file = write_bucket(
            self._folder,
            self._name.format(bucket),
            bucket,
            made_ahead(rows, _MADE_AHEAD) if self._threads > 1 else rows,
            schemas=self._manifest,
            options=self._options,
            rows_at_most=count or None,
            advance=self.advance and partial(self.advance, BASES),
            threads=self._threads,
        )
        if file is not None:
            settle(self._location, self._folder, file, {})
        return ChangedBucket(file, (), 0 if file is None else 1)


def changed_manifest(
    manifest: Manifest,
    changed: Mapping[int, ChangedBucket],
    *,
    version_id: str,
    source: str | None = None,
    batches: Mapping[str, int] | None = None,
    follows: FollowedSnapshot | None = None,
) -> Manifest:
    """Return the manifest of a version in which some buckets are changed.

    Args:
        manifest: Manifest of the previous version.
        changed: New files of the buckets that changed; the other buckets keep theirs.
        version_id: Identity of the new version.
        source: Description of the source of the changes. Default: the source in `manifest`.
        batches: Number of the last batch of each stream, by the name of the stream. Default: those
            in `manifest`.
        follows: Snapshot whose rows the new version has. Default: If `manifest` follows a table,
            the new version does so no more, until it is built again.
    """
    if follows is None and manifest.follows is not None:
        follows = replace(manifest.follows, snapshot=None, rebuilt=None)
    bases = {file.bucket: file for file in manifest.files if file.bucket not in changed}
    runs = {b: own for b, own in manifest.runs_by_bucket().items() if b not in changed}
    for bucket, files in changed.items():
        if files.base is not None:
            bases[bucket] = files.base
        if files.runs:
            runs[bucket] = files.runs
    all_runs = tuple(run for bucket in sorted(runs) for run in runs[bucket])
    rows = sum(file.num_records for file in bases.values())
    return replace(
        manifest,
        version=0,
        id=version_id,
        created="",
        writer=WRITER,
        num_rows=rows + sum(run.new_rows for run in all_runs),
        source=manifest.source if source is None else source,
        source_fingerprint=None,
        rewritten_buckets=sum(files.written for files in changed.values()),
        files=tuple(bases[bucket] for bucket in sorted(bases)),
        runs=all_runs,
        parent=manifest.id,
        applied=tuple(
            run for bucket in sorted(changed) if (run := changed[bucket].applied) is not None
        ),
        batches=manifest.batches if batches is None else batches,
        follows=follows,
    )
