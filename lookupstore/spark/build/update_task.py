"""The part of an update that runs in the Python workers of executors: from changes to new files.

Changes are encoded where they are read. The bytes include their order, so a shuffle may deliver
them in any order. The task of a bucket sorts them within a memory budget and does the same as
`lookupstore.upsert` with a bucket.
"""

from __future__ import annotations

import itertools
import pickle
import uuid
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

from lookupstore.arrow.texts import check_texts
from lookupstore.builder.in_process import spill_folder
from lookupstore.hostcache.cache import Residency
from lookupstore.keys.arguments import encode_keys
from lookupstore.spark.buckets import BUCKET, by_bucket
from lookupstore.spark.build.packs import in_packs, packs_schema, unpack
from lookupstore.spark.build.task import TASK_MEMORY
from lookupstore.storage.location import Location
from lookupstore.store.buckets import BucketReads
from lookupstore.store.change_shapes import ChangeReader
from lookupstore.store.changed_bucket import BucketChanger, ChangedBucket, CompactionRule
from lookupstore.store.files import BucketFiles
from lookupstore.store.incoming import ChangeEncoding, IncomingChanges
from lookupstore.store.manifest import DATA_FOLDER, Manifest
from lookupstore.store.rules import MergeRules

Batches: TypeAlias = Iterator[pa.RecordBatch]

PACKED = ["key", "value"]
#: Spark's schema of encoded changes.
PACKS = packs_schema(PACKED)
#: Spark's schema of the reports of tasks to the driver.
CHANGED = f"{BUCKET} int, changed binary"
_CHANGED_TYPES = pa.schema([(BUCKET, pa.int32()), ("changed", pa.binary())])


@dataclass(frozen=True)
class UpdateTask:
    """The description of an update for executors.

    Attributes:
        manifest: Manifest of the version to change.
        rules: Rules that combine the values of a key.
        reader: Reader of the changes. Its columns precede the number of the row.
        has_deletes: Whether the last column marks the rows that are deletes.
        compaction: Limits beyond which a bucket is compacted.
        location: Location of the store.
        version_id: Identifier of the new version.
        rows: Accumulator of the number of written changes. None: they are not counted.
    """

    manifest: Manifest
    rules: MergeRules
    reader: ChangeReader
    has_deletes: bool
    compaction: CompactionRule
    location: Location
    version_id: str
    rows: Any = None

    @property
    def has_values(self) -> bool:
        """Return whether rows may be upserted: they have more than a key, or need no more."""
        keys = self.manifest.key_schema.names
        return len(self.reader.names) > len(keys) or not self.manifest.row_schema.schema.names

    @property
    def encoding(self) -> ChangeEncoding:
        """Return the encoding of the changes."""
        reader = self.reader
        return ChangeEncoding(
            self.manifest,
            self.rules,
            in_order=reader.is_changelog,
            order=reader.order,
            # Versions of a feed are numbers of their own.
            in_partitions=reader.is_changelog and reader.ordered_by is None,
        )

    def encoded(self, encoding: ChangeEncoding, batch: pa.RecordBatch) -> Batches:
        """Encode columns of Spark as changes of `ChangeEncoding`, in large_binary.

        Raises:
            TypeError: If the type of a column has another meaning than that of the store.
            ValueError: If a key is null, the store cannot hold a value, a row that is not a delete
                has no values, or a row is not an event of its changelog.
        """
        names = self.reader.source_names
        count = len(names)
        given = pa.RecordBatch.from_arrays(batch.columns[:count], names=list(names))
        check_texts(given, "df", None)
        arrivals = batch.column(count)
        if self.reader.is_changelog:
            events = self.reader.events(given)
            numbers = self.reader.arrivals(given, _numbers(arrivals))
            yield from map(_large, encoding.events(events, numbers, self.reader.orders(given)))
            return
        if not self.has_deletes:
            yield _large(encoding.rows(given, _numbers(arrivals)))
            return
        gone = batch.column(count + 1)
        stays = pa.array(~np.asarray(gone.fill_null(False)))
        if stays.true_count:
            if not self.has_values:
                raise ValueError(
                    "df has the key columns alone, and rows that are not deletes; add the value "
                    "columns, or pass deletes='true' if all of its rows are"
                )
            yield _large(encoding.rows(given.filter(stays), _numbers(arrivals.filter(stays))))
        if stays.false_count:
            goes = pa.array(~np.asarray(stays))
            columns = tuple(given.column(name).filter(goes) for name in encoding.keys.names)
            keys = encode_keys(columns, encoding.keys)
            known = keys.is_valid()  # keys that no store can have are missing
            if known.true_count:
                of_keys = _numbers(arrivals.filter(goes).filter(known))
                yield _large(encoding.deletes(keys.drop_null(), of_keys))


def encode_changes(task: UpdateTask, batches: Batches) -> Batches:
    """Turn record batches of changes into packs of changes to one bucket each."""
    encoding = task.encoding
    encoded = itertools.chain.from_iterable(task.encoded(encoding, batch) for batch in batches)
    yield from in_packs(encoded, encoding.buckets_of)


def change_buckets(task: UpdateTask, batches: Batches) -> Batches:
    """Make the changes to some buckets; the changes of each bucket are adjacent.

    Yields what became of each bucket that changes, once its new files are complete and on disk.
    """
    encoding = task.encoding
    for bucket, parts in itertools.groupby(by_bucket(batches), key=lambda part: part[0]):
        incoming = IncomingChanges(
            encoding,
            memory=TASK_MEMORY,
            folder=spill_folder(task.location),
            buckets=task.manifest.buckets,
        )
        with closing(incoming):
            for _, packs in parts:
                incoming.put(unpack(packs, PACKED))
            changed = _changed(task, bucket, incoming)
        if changed is None:
            continue
        if task.rows is not None:
            task.rows.add(incoming.num_rows)
        yield pa.RecordBatch.from_pylist(
            [{BUCKET: bucket, "changed": pickle.dumps(changed)}], schema=_CHANGED_TYPES
        )


def _changed(task: UpdateTask, bucket: int, incoming: IncomingChanges) -> ChangedBucket | None:
    # Files of other buckets need not be opened.
    own = replace(
        task.manifest,
        files=tuple(file for file in task.manifest.files if file.bucket == bucket),
        runs=task.manifest.runs_by_bucket().get(bucket, ()),
    )
    files = BucketFiles(task.location, own, None, Residency())
    with closing(files), task.location.work_folder(DATA_FOLDER) as folder:
        changer = BucketChanger(
            own,
            BucketReads(task.location, own, files),
            task.location,
            folder,
            task.version_id,
            # Two attempts never write the same file, regardless of which of them Spark counts.
            attempt=f"-{uuid.uuid4().hex[:12]}",
        )
        return changer.upsert(bucket, task.rules, incoming, task.compaction)


def _numbers(arrivals: pa.Array) -> Any:
    return arrivals.to_numpy(zero_copy_only=False).astype(np.uint64)


def _large(changes: pa.RecordBatch) -> pa.RecordBatch:
    columns = [column.cast(pa.large_binary()) for column in changes.columns]
    return pa.RecordBatch.from_arrays(columns, names=changes.schema.names)
