"""Changes on their way into a store: sorted by bucket and key within a memory budget.

Rows of one key come one after the other, the oldest first, and keys to delete among them. For that
they are sorted by a key of four fields, which differ in each: the key, whether it is to be deleted,
the sequence, and the number of the row in order of arrival.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lookupstore.keys._codec import bucket_of
from lookupstore.keys.arguments import encode_keys
from lookupstore.keys.schema import KeySchema
from lookupstore.rows.schema import RowSchema
from lookupstore.sorting._sort import sort_keys
from lookupstore.sorting.runs import RunSorter, one_batch
from lookupstore.source.source import Source
from lookupstore.store.manifest import Manifest
from lookupstore.store.rules import MergeRules


@dataclass(frozen=True)
class ChangedKeys:
    """Some keys with all changes to them, in key order.

    Attributes:
        keys: the n keys, encoded.
        starts: where the changes of each begin, ascending from 0.
        deleted: which of the n keys are to be deleted.
        sequence: the sequence of each change, null where a key is deleted; None: there is none.
        rows: the row of each change as bytes, without any where a key is deleted.
    """

    keys: pa.Array
    starts: npt.NDArray[np.int64]
    deleted: npt.NDArray[np.bool_]
    sequence: pa.Array | None
    rows: pa.Array


class IncomingChanges:
    """Rows to upsert and keys to delete, by bucket and in key order.

    Args:
        manifest: of the store: its keys, rows and buckets.
        rules: of the upsert.
        memory: budget in bytes.
        folder: where to spill.
    """

    def __init__(self, manifest: Manifest, rules: MergeRules, *, memory: int, folder: str) -> None:
        self._keys = manifest.key_schema
        self._schema = manifest.row_schema.schema
        #: What the rows of changes are packed by: under rules by column any value may be null.
        self.row_schema: RowSchema = manifest.row_schema
        if rules.whole is None:
            fields = [field.with_nullable(True) for field in self._schema]
            self.row_schema = RowSchema(pa.schema(fields))
        self._sequence = rules.sequence
        width = self._keys.width
        fields = [
            pa.field("key", pa.large_binary() if width is None else pa.binary(width)),
            pa.field("deleted", pa.uint8()),
            pa.field("arrival", pa.uint64()),
        ]
        if self._sequence is not None:
            kind = self._schema.field(self._sequence).type
            fields.insert(2, pa.field("sequence", kind))
        self._order = KeySchema(
            pa.schema(fields), nullable=[] if self._sequence is None else ["sequence"]
        )
        self._arrivals = 0
        self._sorter = RunSorter(
            "error",
            memory=memory,
            folder=folder,
            partitions=manifest.buckets,
            partition=lambda keys: bucket_of(
                self._order.decode(keys).column("key"), manifest.buckets
            ),
        )

    @property
    def num_rows(self) -> int:
        """Return how many changes there are, deletes among them."""
        return self._arrivals

    def add(self, source: Source) -> None:
        """Add rows to upsert.

        Raises:
            KeyError: a key column that the source does not have.
            TypeError: a column that is no such column of the store.
            ValueError: a null, or a value that the column of the store cannot hold.
        """
        names = [*self._keys.names, *self._schema.names]
        for name in self._keys.names:
            if name not in source.schema.names:
                raise KeyError(f"changes: no key column {name!r}; they have {source.schema.names}")
        given = [name for name in names if name in source.schema.names]
        for batch in source.batches(given):
            if not batch.num_rows:
                continue
            keys = self._keys.encode([batch.column(name) for name in self._keys.names])
            columns = [self._fitted(batch, field) for field in self._schema]
            # Arrow knows the length of a batch without columns only where they were deselected.
            values = batch.select([])
            if columns:
                values = pa.RecordBatch.from_arrays(columns, schema=self.row_schema.schema)
            sequence = None if self._sequence is None else values.column(self._sequence)
            self._put(keys, 0, sequence, _large(self.row_schema.pack(values)))

    def delete(self, keys: Any) -> None:
        """Add keys to delete, in any form of `lookupstore.keys.arguments`.

        Raises: what `encode_keys` raises.
        """
        encoded = encode_keys(keys, self._keys).drop_null()
        if not len(encoded):
            return
        sequence = None
        if self._sequence is not None:
            sequence = pa.nulls(len(encoded), self._schema.field(self._sequence).type)
        self._put(encoded, 1, sequence, pa.array([b""] * len(encoded), pa.large_binary()))

    def _put(self, keys: pa.Array, deleted: int, sequence: pa.Array | None, rows: pa.Array) -> None:
        count = len(keys)
        arrivals = np.arange(self._arrivals, self._arrivals + count, dtype=np.uint64)
        columns = [keys, pa.array(np.full(count, deleted, np.uint8)), pa.array(arrivals)]
        columns[0] = keys.cast(self._order.schema.field("key").type)
        if sequence is not None:
            columns.insert(2, sequence)
        order = self._order.encode(columns)
        self._arrivals += count
        self._sorter.add(pa.RecordBatch.from_pydict({"key": order, "value": rows}))

    def _fitted(self, batch: pa.RecordBatch, field: pa.Field) -> pa.Array:
        """Return a value column in the type of the store, or nulls if it is not given."""
        if field.name not in batch.schema.names:
            return pa.nulls(batch.num_rows, field.type)
        column = batch.column(field.name)
        if column.type == field.type:
            return column
        try:
            return column.cast(field.type)
        except (pa.ArrowNotImplementedError, pa.ArrowTypeError) as error:
            raise TypeError(
                f"changes: the column {field.name!r} is {column.type}; in the store it is "
                f"{field.type}: cast it"
            ) from error
        except pa.ArrowInvalid as error:
            raise ValueError(
                f"changes: the column {field.name!r} is {column.type}, and has values that "
                f"{field.type} of the store cannot hold: {error}"
            ) from error

    def of_bucket(self, bucket: int) -> Iterator[ChangedKeys]:
        """Yield the changes of a bucket in key order; may be called again.

        Raises:
            ValueError: a key is to be upserted and deleted.
        """
        held: list[pa.RecordBatch] = []
        for batch in self._sorter.sorted_batches(bucket):
            held.append(self._decoded(batch))
            together = one_batch(held)
            starts = _starts(together.column("key"))
            # The last key may go on in the next batch.
            last = int(starts[-1])
            if last:
                yield self._changed(together.slice(0, last), starts[:-1])
            held = [together.slice(last)]
        if held:
            together = one_batch(held)
            yield self._changed(together, _starts(together.column("key")))

    def _decoded(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        order = self._order.decode(batch.column("key"))
        return order.append_column("row", batch.column("value"))

    def _changed(self, changes: pa.RecordBatch, starts: npt.NDArray[np.int64]) -> ChangedKeys:
        deleted = np.asarray(changes.column("deleted")) == 1
        keys = changes.column("key").take(pa.array(starts))
        ends = np.append(starts[1:], changes.num_rows) - 1
        both = deleted[ends] & ~deleted[starts]
        if both.any():
            at = int(np.argmax(both))
            key = self._keys.decode(keys.slice(at, 1)).to_pylist()[0]
            shown = ", ".join(f"{name}={value!r}" for name, value in key.items())
            raise ValueError(
                f"the key {shown} is in changes and in deletes; leave it in one of them"
            )
        sequence = None if self._sequence is None else changes.column("sequence")
        return ChangedKeys(keys, starts, deleted[starts], sequence, changes.column("row"))

    def close(self) -> None:
        """Free memory and temporary files."""
        self._sorter.close()


def _starts(keys: pa.Array) -> npt.NDArray[np.int64]:
    """Return where equal keys begin among sorted ones."""
    _, same = sort_keys(keys)
    count = len(keys)
    return np.arange(count) if same is None else np.flatnonzero(~same)


def _large(rows: pa.Array) -> pa.Array:
    return rows if pa.types.is_large_binary(rows.type) else rows.cast(pa.large_binary())
