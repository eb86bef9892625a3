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
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any, TypeAlias

import pyarrow as pa

from lookupstore.errors import CommitConflictError
from lookupstore.hostcache.cache import Residency
from lookupstore.quantities import Duration
from lookupstore.source.source import open_source
from lookupstore.storage.location import Location
from lookupstore.store.buckets import BucketReads
from lookupstore.store.changed_bucket import (
    BucketChanger,
    ChangedBucket,
    CompactionRule,
    changed_manifest,
)
from lookupstore.store.files import BucketFiles
from lookupstore.store.incoming import ChangeEncoding, IncomingChanges
from lookupstore.store.manifest import Manifest
from lookupstore.store.new_version import NewVersion
from lookupstore.store.rules import Rule, merge_rules
from lookupstore.store.version_files import name_of, read_newest

#: Buckets that change, and what becomes of each.
Changed: TypeAlias = "Iterator[tuple[int, ChangedBucket]]"

#: How often changes are made to the version that another writer has published meanwhile.
ATTEMPTS = 8
_PAUSE = 0.05

_log = logging.getLogger(__name__)


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
    incoming = IncomingChanges(
        ChangeEncoding(current, rules), memory=memory, folder=folder, buckets=current.buckets
    )
    with closing(incoming):
        if changes is not None:
            incoming.add(source)
        if deletes is not None:
            incoming.delete(deletes)
        if not incoming.num_rows:
            _log.info("%s: no changes, so version %d stays", location.uri, current.version)
            return
        description = "deletes" if changes is None else source.description

        def change(manifest: Manifest, changer: BucketChanger) -> Changed:
            check_same_store(location, current, manifest)
            for bucket in range(current.buckets):
                changed = changer.upsert(bucket, rules, incoming, compaction)
                if changed is not None:
                    yield bucket, changed

        retried(lambda: _publish(location, f"changes: {description}", change,
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

    def change(manifest: Manifest, changer: BucketChanger) -> Changed:
        for bucket in manifest.runs_by_bucket():
            yield bucket, changer.compact(bucket)

    retried(lambda: _publish(location, None, change,
                              threads=threads, retain=retain, temp_dir=temp_dir))  # fmt: skip


def retried(publish: Callable[[], None]) -> None:
    """Call what publishes a change of the current version, again if another writer was faster.

    Raises:
        CommitConflictError: others were faster again and again.
    """
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
    change: Callable[[Manifest, BucketChanger], Changed],
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
            changer = BucketChanger(
                manifest,
                BucketReads(location, manifest, files),
                location,
                new.folder,
                new.id,
                threads=threads,
            )
            changed = dict(change(manifest, changer))
            if not changed:
                _log.info("%s: nothing to change in version %d", location.uri, manifest.version)
                return
            new.publish(
                changed_manifest(manifest, changed, version_id=new.id, source=source),
                replaces=name_of(manifest),
            )


def check_same_store(location: Location, planned: Manifest, current: Manifest) -> None:
    """Check that changes that were read for one version of a store can be made to another.

    Raises:
        ValueError: its key, value columns or buckets are not the same.
    """
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
