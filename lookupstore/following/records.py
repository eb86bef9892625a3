"""Differences between two snapshots beside the rows of a store, as the records of a run.

The store has the rows of the former snapshot. This is checked: a row that is gone must be in the
store, and a new row of a stored key must replace one that is gone. A row that only moved to another
file has the bytes that are stored, and is left out.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lookupstore.following.changes import SnapshotChanges
from lookupstore.sorting._sort import sort_keys
from lookupstore.sorting.runs import RepeatedKeyError, aligned
from lookupstore.store.buckets import BucketReads
from lookupstore.store.kinds import with_kinds
from lookupstore.store.manifest import Manifest

# Number of keys that are looked up at a time, and approximate size of their rows in bytes.
_KEYS = 1 << 15
_BYTES = 8 << 20

_Places = npt.NDArray[np.int64]


class UnfollowableError(Exception):
    """Differences cannot be applied to a store; the message is the reason."""


def keys_at_once(manifest: Manifest) -> int:
    """Return the number of keys whose rows, in any bucket of a version, have a few megabytes."""
    sizes = (file.bytes // file.num_records for file in manifest.data_files)
    return min(_KEYS, max(1, _BYTES // max([1, *sizes])))


class FollowingRecords:
    """The records of a run for one bucket that result from the differences of two snapshots.

    Args:
        manifest: Manifest of the version that is changed.
        reads: Lookups of that version.
        changes: The differences.
        bucket: Number of the bucket.
        at_once: Number of keys to look up at a time; see `keys_at_once`.
    """

    def __init__(
        self,
        manifest: Manifest,
        reads: BucketReads,
        changes: SnapshotChanges,
        bucket: int,
        *,
        at_once: int,
    ) -> None:
        self._manifest = manifest
        self._reads = reads
        self._changes = changes
        self._bucket = bucket
        self._at_once = at_once
        #: Number of keys of the records so far that were not stored.
        self.inserted: int = 0
        #: Number of keys of the records so far that were stored and are now deleted.
        self.deleted: int = 0

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the records as `key`, ascending, and `value`, which begins with the kind.

        Raises:
            RepeatedKeyError: If a key has several rows in the new snapshot.
            UnfollowableError: If the store does not have the rows of the former snapshot.
            CorruptionError: The stored bytes are damaged.
        """
        changes, bucket = self._changes, self._bucket
        for gone, new in aligned(changes.gone(bucket), changes.new(bucket)):
            keys = pa.concat_arrays([gone.column("key"), new.column("key")])
            order, same = sort_keys(keys)
            first = np.ones(len(keys), np.bool_) if same is None else ~same
            groups = np.cumsum(first) - 1
            is_gone = np.zeros(int(first.sum()), np.bool_)
            is_gone[groups[order < gone.num_rows]] = True
            places = np.full(len(is_gone), -1, np.int64)
            is_new = order >= gone.num_rows
            places[groups[is_new]] = order[is_new].astype(np.int64) - gone.num_rows
            together = keys.take(pa.array(order[first]))
            values = pa.nulls(0, pa.large_binary())
            if new.num_rows:
                values = new.column("value").cast(values.type)
            for start in range(0, len(together), self._at_once):
                part = slice(start, start + self._at_once)
                own = together.slice(start, self._at_once)
                yield from self._records(own, is_gone[part], values, places[part])

    def _records(
        self,
        keys: pa.Array,
        is_gone: npt.NDArray[np.bool_],
        values: pa.Array,
        places: _Places,
    ) -> Iterator[pa.RecordBatch]:
        """Yield the records of some keys, in one batch.

        Args:
            keys: Encoded keys, n of them.
            is_gone: Whether the row of each key in the former snapshot is gone.
            values: Rows that are new, as they are stored.
            places: Place of the row of each key among these, -1 if there is none.
        """
        is_new = places >= 0
        stored = self._reads.stored_rows(self._bucket, keys)
        found = np.asarray(stored.is_valid())
        missing = is_gone & ~found
        if missing.any():
            shown = self._shown(keys, missing)
            raise UnfollowableError(f"the store lacks {shown}, which its snapshot has")
        repeated = is_new & found & ~is_gone
        if repeated.any():
            raise RepeatedKeyError(keys[int(np.argmax(repeated))].as_py())
        rows = values.take(pa.array(places, mask=~is_new))
        equal = pc.fill_null(pc.equal(stored, rows), False)
        changed = ~np.asarray(equal)
        deleted = is_gone & ~is_new
        self.inserted += int((is_new & ~found).sum())
        self.deleted += int(deleted.sum())
        if changed.any():
            kept = pa.array(changed)
            records = with_kinds(rows.filter(kept).fill_null(b""), deleted[changed])
            yield pa.RecordBatch.from_pydict({"key": keys.filter(kept), "value": records})

    def _shown(self, keys: pa.Array, chosen: npt.NDArray[np.bool_]) -> str:
        """Return the first of the chosen keys as text."""
        at = int(np.argmax(chosen))
        row = self._manifest.key_schema.decode(keys.slice(at, 1)).to_pylist()[0]
        return ", ".join(f"{name}={value!r}" for name, value in row.items())
