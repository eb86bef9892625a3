"""Changes on their way into a store: sorted by bucket and key within a memory budget.

Rows of one key come one after the other, the oldest first, and keys to delete among them. For that
they are sorted by a key of four fields, which differ in each: the key, whether it is to be deleted,
the sequence, and the number of the row in order of arrival.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lookupstore.keys._codec import bucket_of
from lookupstore.keys.arguments import encode_keys
from lookupstore.keys.schema import KeySchema
from lookupstore.progress import Advance
from lookupstore.rows.schema import RowSchema
from lookupstore.sorting._sort import sort_keys
from lookupstore.sorting.runs import RunSorter, one_batch
from lookupstore.source.source import Source
from lookupstore.store.manifest import Manifest
from lookupstore.store.rules import MergeRules

Numbers: TypeAlias = "npt.NDArray[np.uint64]"


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


class ChangeEncoding:
    """Bytes of changes to a store, whose order says which row of a key is the newer.

    Args:
        manifest: of the store: its keys, rows and buckets.
        rules: of the upsert.
    """

    def __init__(self, manifest: Manifest, rules: MergeRules) -> None:
        self.keys: KeySchema = manifest.key_schema
        self._schema = manifest.row_schema.schema
        self._buckets = manifest.buckets
        #: What the rows of changes are packed by: under rules by column any value may be null.
        self.row_schema: RowSchema = manifest.row_schema
        if rules.whole is None:
            fields = [field.with_nullable(True) for field in self._schema]
            self.row_schema = RowSchema(pa.schema(fields))
        #: The column that orders rows; None: their arrival does.
        self.sequence: str | None = rules.sequence
        width = self.keys.width
        fields = [
            pa.field("key", pa.large_binary() if width is None else pa.binary(width)),
            pa.field("deleted", pa.uint8()),
            pa.field("arrival", pa.uint64()),
        ]
        if self.sequence is not None:
            kind = self._schema.field(self.sequence).type
            fields.insert(2, pa.field("sequence", kind))
        self._order = KeySchema(
            pa.schema(fields), nullable=[] if self.sequence is None else ["sequence"]
        )

    def names(self, given: Sequence[str]) -> list[str]:
        """Return the columns of changes that are read: of the key, then values.

        Raises:
            KeyError: a key column that is not given.
        """
        for name in self.keys.names:
            if name not in given:
                raise KeyError(f"changes: no key column {name!r}; they have {list(given)}")
        return [name for name in [*self.keys.names, *self._schema.names] if name in given]

    def rows(self, batch: pa.RecordBatch, arrivals: Numbers) -> pa.RecordBatch:
        """Return rows to upsert as `key`, which orders them, and `value`, large_binary.

        Args:
            batch: n rows of the columns that `names` returns.
            arrivals: uint64, n numbers of which the greater is that of the newer row.

        Raises:
            TypeError: a column that is no such column of the store.
            ValueError: a null, or a value that the column of the store cannot hold.
        """
        keys = self.keys.encode([batch.column(name) for name in self.keys.names])
        columns = [self._fitted(batch, field) for field in self._schema]
        # Arrow knows the length of a batch without columns only where they were deselected.
        values = batch.select([])
        if columns:
            values = pa.RecordBatch.from_arrays(columns, schema=self.row_schema.schema)
        sequence = None if self.sequence is None else values.column(self.sequence)
        return self._ordered(keys, 0, sequence, arrivals, _large(self.row_schema.pack(values)))

    def deletes(self, keys: pa.Array, arrivals: Numbers) -> pa.RecordBatch:
        """Return keys to delete, n encoded ones without nulls, in the form of `rows`."""
        sequence = None
        if self.sequence is not None:
            sequence = pa.nulls(len(keys), self._schema.field(self.sequence).type)
        rows = pa.array([b""] * len(keys), pa.large_binary())
        return self._ordered(keys, 1, sequence, arrivals, rows)

    def _ordered(
        self,
        keys: pa.Array,
        deleted: int,
        sequence: pa.Array | None,
        arrivals: Numbers,
        rows: pa.Array,
    ) -> pa.RecordBatch:
        columns = [keys, pa.array(np.full(len(keys), deleted, np.uint8)), pa.array(arrivals)]
        columns[0] = keys.cast(self._order.schema.field("key").type)
        if sequence is not None:
            columns.insert(2, sequence)
        order = self._order.encode(columns)
        return pa.RecordBatch.from_pydict({"key": order, "value": rows})

    def decode(self, changes: pa.RecordBatch) -> pa.RecordBatch:
        """Return what `rows` and `deletes` have put together: key, deleted, sequence, row."""
        order = self._order.decode(changes.column("key"))
        return order.append_column("row", changes.column("value"))

    def buckets_of(self, changes: pa.Array) -> npt.NDArray[Any]:
        """Return the bucket of each change, by its `key`."""
        return bucket_of(self._order.decode(changes).column("key"), self._buckets)

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


class IncomingChanges:
    """Rows to upsert and keys to delete, by bucket and in key order.

    Args:
        encoding: of the changes.
        memory: budget in bytes.
        folder: where to spill.
        buckets: of the store.
    """

    def __init__(self, encoding: ChangeEncoding, *, memory: int, folder: str, buckets: int) -> None:
        self._encoding = encoding
        #: What the rows are packed by.
        self.row_schema: RowSchema = encoding.row_schema
        #: How many changes there are, deletes among them.
        self.num_rows: int = 0
        self._sorter = RunSorter(
            "error",
            memory=memory,
            folder=folder,
            partitions=buckets,
            partition=encoding.buckets_of,
        )

    def add(self, source: Source, advance: Advance | None = None) -> None:
        """Add rows to upsert, in the order in which they come.

        Args:
            source: of the rows.
            advance: told the number of rows after each batch.

        Raises:
            KeyError: a key column that the source does not have.
            TypeError, ValueError: as `ChangeEncoding.rows`.
        """
        for batch in source.batches(self._encoding.names(source.schema.names)):
            if batch.num_rows:
                self.put(self._encoding.rows(batch, self._arrivals(batch.num_rows)))
            if advance is not None:
                advance(batch.num_rows)

    def delete(self, keys: Any) -> None:
        """Add keys to delete, in any form of `lookupstore.keys.arguments`.

        Raises: what `encode_keys` raises.
        """
        encoded = encode_keys(keys, self._encoding.keys).drop_null()
        if len(encoded):
            self.put(self._encoding.deletes(encoded, self._arrivals(len(encoded))))

    def put(self, changes: pa.RecordBatch) -> None:
        """Add changes that are encoded."""
        self.num_rows += changes.num_rows
        self._sorter.add(changes)

    def _arrivals(self, count: int) -> Numbers:
        return np.arange(self.num_rows, self.num_rows + count, dtype=np.uint64)

    def of_bucket(self, bucket: int) -> Iterator[ChangedKeys]:
        """Yield the changes of a bucket in key order; may be called again.

        Raises:
            ValueError: a key is to be upserted and deleted.
        """
        held: list[pa.RecordBatch] = []
        for batch in self._sorter.sorted_batches(bucket):
            held.append(self._encoding.decode(batch))
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

    def _changed(self, changes: pa.RecordBatch, starts: npt.NDArray[np.int64]) -> ChangedKeys:
        deleted = np.asarray(changes.column("deleted")) == 1
        keys = changes.column("key").take(pa.array(starts))
        ends = np.append(starts[1:], changes.num_rows) - 1
        both = deleted[ends] & ~deleted[starts]
        if both.any():
            at = int(np.argmax(both))
            key = self._encoding.keys.decode(keys.slice(at, 1)).to_pylist()[0]
            shown = ", ".join(f"{name}={value!r}" for name, value in key.items())
            raise ValueError(
                f"the key {shown} is in changes and in deletes; leave it in one of them"
            )
        sequence = None if self._encoding.sequence is None else changes.column("sequence")
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
