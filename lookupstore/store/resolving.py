"""The records of a run: the result of changes and stored rows.

Each key is looked up so that rows can be counted. The stored row is read only if a rule needs it;
if whole rows have a sequence, only the sequence column is read.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lookupstore.arrow.taking import keep_rows, take
from lookupstore.progress import Advance
from lookupstore.rows.schema import RowSchema
from lookupstore.sorting._sort import sort_keys
from lookupstore.store.buckets import BucketReads
from lookupstore.store.incoming import ChangedKeys, IncomingChanges
from lookupstore.store.kinds import with_kinds
from lookupstore.store.manifest import Manifest
from lookupstore.store.rules import MergeRules, sequence_key

_Flags = npt.NDArray[np.bool_]
_Places = npt.NDArray[np.int64]


class ResolvedRun:
    """The records of a run for one bucket, and what they change.

    Args:
        manifest: Manifest of the version that is changed.
        reads: Lookups and scans of the version that is changed.
        rules: Merge rules of the upsert.
        incoming: Changes to resolve.
        bucket: Number of the bucket.
        advance: Function that is called with the number of changes that are resolved, batch by
            batch.
    """

    def __init__(
        self,
        manifest: Manifest,
        reads: BucketReads,
        rules: MergeRules,
        incoming: IncomingChanges,
        bucket: int,
        advance: Advance | None = None,
    ) -> None:
        self._advance = advance
        self._manifest = manifest
        self._reads = reads
        self._rules = rules
        self._incoming = incoming
        self._bucket = bucket
        #: Number of keys of the records so far that were not stored.
        self.inserted: int = 0
        #: Number of keys of the records so far that were stored and are now deleted.
        self.deleted: int = 0

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the records as `key`, ascending, and `value`, which begins with the kind.

        Raises:
            ValueError: If a value is null where the store allows no null, a column cannot hold a
                sum, or a key is to be upserted and deleted.
            CorruptionError: The stored bytes are damaged.
        """
        for changed in self._incoming.of_bucket(self._bucket):
            if self._advance is not None:
                self._advance(len(changed.rows))
            if self._rules.whole is not None:
                found, stays, rows = self._whole_rows(changed)
            else:
                found, stays, rows = self._folded_rows(changed)
            deleted = changed.deleted
            self.inserted += int((stays & ~found & ~deleted).sum())
            self.deleted += int((stays & deleted).sum())
            batch = pa.RecordBatch.from_pydict({"key": changed.keys, "value": rows})
            if not stays.all():
                batch = batch.filter(pa.array(stays))
            if batch.num_rows:
                values = with_kinds(batch.column("value"), deleted[stays])
                yield pa.RecordBatch.from_pydict({"key": batch.column("key"), "value": values})

    def _whole_rows(self, changed: ChangedKeys) -> tuple[_Flags, _Flags, pa.Array]:
        """Return which keys are stored, which are changed, and a row for each."""
        ends = np.append(changed.starts[1:], len(changed.rows)) - 1
        takes_first = self._rules.whole == "first"
        winners = changed.starts if takes_first else ends
        rows = changed.rows.take(pa.array(winners))
        if changed.sequence is None:
            found = np.asarray(self._reads.contains(changed.keys))
            stays = ~found if takes_first else np.ones(len(found), np.bool_)
            if changed.restarted is not None:
                stays |= changed.restarted
        else:
            assert self._rules.sequence is not None
            present, stored = self._reads.lookup(changed.keys, [self._rules.sequence])
            found = np.asarray(present)
            old, new = self._ranks(stored.column(0), take(changed.sequence, pa.array(winners)))
            stays = ~found | (new < old if takes_first else new >= old)
        return found, np.where(changed.deleted, found, stays), rows

    def _folded_rows(self, changed: ChangedKeys) -> tuple[_Flags, _Flags, pa.Array]:
        """Return which keys are stored, which are changed, and a row for each."""
        schema = self._manifest.row_schema.schema
        changed_only = pa.array(~changed.deleted)
        present, stored = self._reads.lookup(changed.keys, schema.names)
        found = np.asarray(present)
        has_old = found & ~changed.deleted
        if changed.restarted is not None:
            has_old &= ~changed.restarted
        sizes = np.diff(np.append(changed.starts, len(changed.rows)))
        groups = np.repeat(np.arange(len(sizes)), sizes)
        is_row = ~changed.deleted[groups]
        old = keep_rows(stored, pa.array(has_old))
        new = self._incoming.row_schema.unpack(changed.rows.filter(pa.array(is_row)))
        old_groups, new_groups = np.flatnonzero(has_old), groups[is_row]
        arrivals = np.concatenate([np.full(len(old_groups), -1), np.flatnonzero(is_row)])
        all_groups = np.concatenate([old_groups, new_groups])
        ranks = np.zeros(len(all_groups), np.int64)
        if self._rules.sequence is not None:
            before, after = (rows.column(self._rules.sequence) for rows in (old, new))
            ranks = np.concatenate(self._ranks(before, after))
        order = pa.array(np.lexsort((arrivals, ranks, all_groups)))
        columns = [
            take(pa.concat_arrays([before, after]), order)
            for before, after in zip(old.columns, new.columns, strict=True)
        ]
        rows = pa.RecordBatch.from_arrays(columns, schema=self._incoming.row_schema.schema)
        counts = np.bincount(all_groups, minlength=len(sizes))[~changed.deleted]
        starts = (np.cumsum(counts) - counts).astype(np.int64)
        keys = changed.keys.filter(changed_only)
        folded = self._packed(self._rules.fold(rows, starts) if len(starts) else rows, keys)
        # Deleted keys have no row.
        places = np.cumsum(~changed.deleted) - 1
        spread = pa.array(places, mask=changed.deleted)
        return found, np.where(changed.deleted, found, True), folded.take(spread).fill_null(b"")

    def _packed(self, rows: pa.RecordBatch, keys: pa.Array) -> pa.Array:
        row_schema = self._manifest.row_schema
        for field, column in zip(row_schema.schema, rows.columns, strict=True):
            if column.null_count and not field.nullable:
                row = int(np.argmin(np.asarray(column.is_valid())))
                key = self._manifest.key_schema.decode(keys.slice(row, 1)).to_pylist()[0]
                shown = ", ".join(f"{name}={value!r}" for name, value in key.items())
                raise ValueError(
                    f"changes: the column {field.name!r} may not be null, and neither the changes "
                    f"nor the store have a value for the key {shown}; give a value, or build the "
                    "store again from rows in which the column is nullable"
                )
        packed = row_schema.pack(_with_schema(rows, row_schema))
        return packed.cast(pa.large_binary())

    def _ranks(self, old: pa.Array, new: pa.Array) -> tuple[_Places, _Places]:
        """Return numbers in the order of sequences; equal sequences have equal numbers."""
        assert self._rules.sequence is not None
        field = self._manifest.row_schema.schema.field(self._rules.sequence)
        encoded = sequence_key(field).encode([pa.chunked_array([old, new], field.type)])
        order, same = sort_keys(encoded)
        ranks = np.empty(len(encoded), np.int64)
        steps = np.ones(len(encoded), np.int64) if same is None else (~same).astype(np.int64)
        ranks[order] = np.cumsum(steps)
        return ranks[: len(old)], ranks[len(old) :]


def _with_schema(rows: pa.RecordBatch, row_schema: RowSchema) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays(rows.columns, schema=row_schema.schema)
