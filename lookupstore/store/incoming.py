"""The changes of an upsert, sorted by bucket and key within a memory budget.

Rows of one key are in sequence, the oldest first, including deletes. To achieve this, changes are
sorted by a key of four fields: the key, whether it is to be deleted, the sequence, and the number
of the row in order of arrival. The events of a changelog are sorted by key and arrival.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lookupstore.arrow.fitting import UnfitValueError, fit, shown_value
from lookupstore.arrow.types import has_part, unwrap
from lookupstore.arrow.uuids import is_uuid
from lookupstore.errors import listed
from lookupstore.keys._codec import bucket_of
from lookupstore.keys.arguments import encode_keys
from lookupstore.keys.schema import KeySchema
from lookupstore.progress import Advance
from lookupstore.rows.schema import RowSchema
from lookupstore.sorting._sort import sort_keys
from lookupstore.sorting.runs import RepeatedKeyError, RunSorter, one_batch
from lookupstore.source.source import Source
from lookupstore.store.change_kinds import DELETE, ROW, Numbers
from lookupstore.store.change_shapes import ChangeReader, Events
from lookupstore.store.manifest import Manifest
from lookupstore.store.rules import MergeRules

# Number of the low bits of the arrival of an event that are of its place in a partition of Spark:
# `monotonically_increasing_id` has 33, and arrivals of events one more.
_PARTITION_BITS = 34


@dataclass(frozen=True)
class ChangedKeys:
    """Some keys with all changes to them, in key order.

    Attributes:
        keys: Encoded keys, n of them.
        starts: Index of the first change of each key, ascending from 0.
        deleted: Whether each of the n keys is to be deleted.
        sequence: Sequence of each change, null where a key is deleted. None: there is no sequence.
        rows: Row of each change as bytes, empty where a key is deleted.
        restarted: Whether each of the n keys was deleted before its first change here, so that a
            stored row does not count. None: no key was.
    """

    keys: pa.Array
    starts: npt.NDArray[np.int64]
    deleted: npt.NDArray[np.bool_]
    sequence: pa.Array | None
    rows: pa.Array
    restarted: npt.NDArray[np.bool_] | None = None


class ChangeEncoding:
    """An encoding of changes whose order decides which row of a key is newer.

    Args:
        manifest: Manifest of the store, with its keys, rows and buckets.
        rules: Merge rules of the upsert.
        in_order: Whether deletes count in the order of the rows, as in a changelog; otherwise a key
            that is deleted must not have rows.
        numbered: Whether arrivals are the numbers of rows, from 0, for errors; in a changelog they
            are twice these numbers, or one more.
        order: Column that orders the events of a changelog. None: only arrivals do.
        in_partitions: Whether arrivals of events are numbers of rows of Spark, which order rows of
            different partitions by chance.
    """

    def __init__(
        self,
        manifest: Manifest,
        rules: MergeRules,
        *,
        in_order: bool = False,
        numbered: bool = False,
        order: pa.Field | None = None,
        in_partitions: bool = False,
    ) -> None:
        self.keys: KeySchema = manifest.key_schema
        self._schema = manifest.row_schema.schema
        self._buckets = manifest.buckets
        #: Whether deletes count in the order of the rows.
        self.in_order: bool = in_order
        self._numbered = numbered
        #: Name of the column that orders events. None: they are ordered by arrival.
        self.order: str | None = None if order is None else order.name
        #: Whether only arrivals in the same partition of Spark are an order.
        self.in_partitions: bool = in_partitions
        #: Schema that packs the rows of changes: with rules by column, any value may be null.
        self.row_schema: RowSchema = manifest.row_schema
        if rules.whole is None:
            fields = [field.with_nullable(True) for field in self._schema]
            self.row_schema = RowSchema(pa.schema(fields))
        #: Name of the column that orders rows. None: they are ordered by arrival.
        self.sequence: str | None = rules.sequence
        #: Whether the arrival of rows with one key, and one sequence, decides a value.
        self.needs_order: bool = in_order or rules.needs_order
        width = self.keys.width
        fields = [
            pa.field("key", pa.large_binary() if width is None else pa.binary(width)),
            pa.field("kind", pa.uint8()),
            pa.field("arrival", pa.uint64()),
        ]
        if in_order:
            fields[1], fields[2] = fields[2], fields[1]
        if self.sequence is not None:
            kind = self._schema.field(self.sequence).type
            fields.insert(2, pa.field("sequence", kind))
        elif order is not None:
            fields.insert(1, order.with_name("sequence"))
        self._order = KeySchema(
            pa.schema(fields), nullable=[] if self.sequence is None else ["sequence"]
        )

    def rows(
        self, batch: pa.RecordBatch, arrivals: Numbers, orders: pa.Array | None = None
    ) -> pa.RecordBatch:
        """Return rows to upsert as `key`, which orders them, and `value`, large_binary.

        Args:
            batch: Batch of n rows with key and value columns of the store.
            arrivals: Array of uint64 with n numbers; the greater number is that of the newer row.
            orders: Values that order events. None: arrivals do.

        Raises:
            TypeError: If the type of a column means something else in the store.
            ValueError: If a key is null, or a column of the store cannot hold a value.
        """
        keys = self._keys(batch, arrivals)
        columns = [self._fitted(batch, field, arrivals) for field in self._schema]
        # Arrow knows the length of a batch without columns only where they were deselected.
        values = batch.select([])
        if columns:
            values = pa.RecordBatch.from_arrays(columns, schema=self.row_schema.schema)
        sequence = orders if self.sequence is None else values.column(self.sequence)
        kinds = np.zeros(len(keys), np.uint8)
        return self._ordered(keys, kinds, sequence, arrivals, _large(self.row_schema.pack(values)))

    def deletes(self, keys: pa.Array, arrivals: Numbers) -> pa.RecordBatch:
        """Return keys to delete, n encoded ones without nulls, in the form of `rows`."""
        sequence = None
        if self.sequence is not None:
            sequence = pa.nulls(len(keys), self._schema.field(self.sequence).type)
        kinds = np.full(len(keys), DELETE, np.uint8)
        return self._ordered(keys, kinds, sequence, arrivals, _no_rows(len(keys)))

    def events(
        self, events: Events, arrivals: Numbers, orders: pa.Array | None = None
    ) -> Iterator[pa.RecordBatch]:
        """Yield events of a changelog in the form of `rows`.

        Args:
            events: Events of n rows.
            arrivals: Array of uint64 with n numbers; the greater number is that of the newer row.
            orders: Values of the column that orders events. None: there is none.

        Raises: what `rows` raises, and ValueError if an event has no value that orders it.
        """

        def orders_at(places: npt.NDArray[np.int64]) -> pa.Array | None:
            if orders is None:
                return None
            found = orders.take(pa.array(places >> 1))
            if found.null_count:
                raise ValueError(
                    f"order_by: the column {self.order!r} is null in an event; name a column that "
                    "has a value in each"
                )
            return found.cast(self._order.schema.field("sequence").type)

        if len(events.row_places):
            of_rows = _of_events(arrivals, events.row_places)
            yield self.rows(events.rows, of_rows, orders_at(events.row_places))
        if len(events.key_places):
            of_keys = _of_events(arrivals, events.key_places)
            keys = self._keys(events.keys, of_keys)
            order = orders_at(events.key_places)
            yield self._ordered(keys, events.key_kinds, order, of_keys, _no_rows(len(keys)))

    def _ordered(
        self,
        keys: pa.Array,
        kinds: npt.NDArray[np.uint8],
        sequence: pa.Array | None,
        arrivals: Numbers,
        rows: pa.Array,
    ) -> pa.RecordBatch:
        columns = [keys, pa.array(kinds), pa.array(arrivals)]
        columns[0] = keys.cast(self._order.schema.field("key").type)
        if self.in_order:
            columns[1], columns[2] = columns[2], columns[1]
        if sequence is not None:
            columns.insert(1 if self.in_order else 2, sequence)
        order = self._order.encode(columns)
        return pa.RecordBatch.from_pydict({"key": order, "value": rows})

    def decode(self, changes: pa.RecordBatch) -> pa.RecordBatch:
        """Return the key, kind, sequence and row of changes that `rows` and `deletes` encoded."""
        order = self._order.decode(changes.column("key"))
        return order.append_column("row", changes.column("value"))

    def buckets_of(self, changes: pa.Array) -> npt.NDArray[Any]:
        """Return the bucket of each change from its `key`."""
        return bucket_of(self._order.decode(changes).column("key"), self._buckets)

    def _keys(self, batch: pa.RecordBatch, arrivals: Numbers) -> pa.Array:
        """Return the encoded keys of rows; each row must have one."""
        columns = [batch.column(name) for name in self.keys.names]
        try:
            return self.keys.encode(columns)
        except ValueError:
            bad = self.keys.encode_masked(columns)[1]
            if bad is None:
                raise
            row = int(np.argmin(bad))
            what = self._unfit_key(batch.slice(row, 1))
            raise ValueError(f"changes: {self._where(batch, row, arrivals)}{what}") from None

    def _unfit_key(self, row: pa.RecordBatch) -> str:
        """Return which key column of one row the store cannot hold, and what to do."""
        for field in self.keys.schema:
            values = row.column(field.name)
            if not values[0].is_valid:
                if field.name not in self.keys.nullable:
                    return f"the key column {field.name!r} is null; leave the row out"
            elif KeySchema(pa.schema([field])).encode_masked([values])[1] is not None:
                break
        return (
            f"the key column {field.name!r} is {shown_value(row.column(field.name)[0])}, which its "
            f"type in the store, {field.type}, cannot hold; change the value, or build the store "
            "with another type"
        )

    def _fitted(self, batch: pa.RecordBatch, field: pa.Field, arrivals: Numbers) -> pa.Array:
        """Return a value column in the type of the store, or nulls if the changes lack it."""
        if field.name not in batch.schema.names:
            return pa.nulls(batch.num_rows, field.type)
        column = batch.column(field.name)
        try:
            return fit(column, field.type)
        except TypeError:
            raise TypeError(
                f"changes: the column {field.name!r} is {column.type}, but in the store it is "
                f"{field.type}; {_remedy(column.type, field.type)}"
            ) from None
        except UnfitValueError as error:
            wider = "another type"
            if pa.types.is_decimal(column.type) and pa.types.is_decimal(field.type):
                # Frames of pandas have decimals as wide as the first values.
                wider = f"decimal128(38, {max(column.type.scale, field.type.scale)}) for it"
            part, what = error.part, "field" if error.part.path else "column"
            change = "change the value"
            if pa.types.is_timestamp(part.kind) or pa.types.is_time(part.kind):
                change = f"round the value to {part.kind.unit!r}"
            if is_uuid(part.kind):
                change = "give uuid.UUID objects or their 16 bytes"
            raise ValueError(
                f"changes: {self._where(batch, error.row, arrivals)}the {what} "
                f"{field.name + part.path!r} is {part.given} with the value {part.shown}, which "
                f"{part.kind} of the store cannot hold; {change}, or build the store with {wider}"
            ) from None

    def _where(self, batch: pa.RecordBatch, row: int, arrivals: Numbers) -> str:
        """Return the position of a row for errors: its number, or else its key."""
        if self._numbered:
            return f"row {(int(arrivals[row]) >> int(self.in_order)) + 1}: "
        return f"the row with {self._shown(batch, row)}: "

    def _shown(self, batch: pa.RecordBatch, row: int) -> str:
        """Return the key of a row as text for errors."""
        keys = ((name, shown_value(batch.column(name)[row])) for name in self.keys.names)
        return ", ".join(f"{name}={shown}" for name, shown in keys)


def _remedy(given: pa.DataType, wanted: pa.DataType) -> str:
    """Return what to do if values of one type do not mean what those of the store do.

    >>> _remedy(pa.timestamp("us"), pa.timestamp("us", "UTC"))
    'give its times a zone: tzinfo= of datetimes, dt.tz_localize() of pandas'
    """
    types = pa.types
    if has_part(wanted, types.is_null):
        return "all its values were null; build the store again with another type for it"
    if has_part(wanted, types.is_map) and types.is_nested(given):
        return (
            "pass pa.Table.from_pandas(frame, schema=store.schema) or "
            "pa.Table.from_pylist(rows, schema=store.schema)"
        )
    if types.is_floating(given) and types.is_decimal(wanted):
        return "give decimal.Decimal values, or cast it to that type"
    if types.is_timestamp(given) and types.is_date(wanted):
        return "give dates, such as dt.date of pandas, or cast it to that type"
    if types.is_timestamp(given) and types.is_timestamp(wanted):
        if wanted.tz is None:
            return (
                "remove the zone of its times: replace(tzinfo=None) of datetimes, "
                "dt.tz_localize(None) of pandas"
            )
        return "give its times a zone: tzinfo= of datetimes, dt.tz_localize() of pandas"
    if types.is_struct(given) and types.is_struct(wanted):
        names, known = [one.name for one in given], [one.name for one in wanted]
        lacking = [name for name in known if name not in names]
        others = [name for name in names if name not in known]
        if lacking:
            return f"add the fields [{listed(lacking)}] to each value"
        if others:
            return f"leave out the fields [{listed(others)}]"
    return "cast it to that type"


class IncomingChanges:
    """Rows to upsert and keys to delete, by bucket and in key order.

    Args:
        encoding: Encoding of the changes.
        memory: Memory for changes, in bytes.
        folder: Folder for changes that do not fit into memory.
        buckets: Number of buckets of the store.
        unordered: Description of the source if its rows have no order. Default: their order counts.
    """

    def __init__(
        self,
        encoding: ChangeEncoding,
        *,
        memory: int,
        folder: str,
        buckets: int,
        unordered: str | None = None,
    ) -> None:
        self._encoding = encoding
        self._unordered = unordered if encoding.needs_order else None
        #: Schema that packs the rows.
        self.row_schema: RowSchema = encoding.row_schema
        #: Number of changes, including deletes.
        self.num_rows: int = 0
        self._sorter = RunSorter(
            "error",
            memory=memory,
            folder=folder,
            partitions=buckets,
            partition=encoding.buckets_of,
        )

    def add(self, source: Source, reader: ChangeReader, advance: Advance | None = None) -> None:
        """Add the changes of a source, in their order.

        Args:
            source: Source of the changes.
            reader: Plan for reading the rows of the source.
            advance: Function that is called with the number of rows after each batch.

        Raises:
            TypeError, ValueError: If `ChangeReader.events` or `ChangeEncoding.rows` raises it.
        """
        first = 0
        for batch in source.batches(reader.source_names):
            count = batch.num_rows
            arrivals = np.arange(first, first + count, dtype=np.uint64)
            if count and reader.is_changelog:
                arrivals = reader.arrivals(batch, arrivals)
                events, orders = reader.events(batch, first), reader.orders(batch)
                for changes in self._encoding.events(events, arrivals, orders):
                    self.put(changes)
            elif count:
                self.put(self._encoding.rows(batch, arrivals))
            first += count
            if advance is not None:
                advance(count)

    def delete(self, keys: Any) -> None:
        """Add keys to delete, in any form of `lookupstore.keys.arguments`.

        Raises: what `encode_keys` raises.
        """
        encoded = encode_keys(keys, self._encoding.keys).drop_null()
        if len(encoded):
            self.put(self._encoding.deletes(encoded, self._arrivals(len(encoded))))

    def put(self, changes: pa.RecordBatch) -> None:
        """Add encoded changes."""
        self.num_rows += changes.num_rows
        with self._once_per_version():
            self._sorter.add(changes)

    def _arrivals(self, count: int) -> Numbers:
        return np.arange(self.num_rows, self.num_rows + count, dtype=np.uint64)

    def of_bucket(self, bucket: int) -> Iterator[ChangedKeys]:
        """Yield the changes of a bucket in key order; may be called again.

        Raises:
            ValueError: If a key is to be upserted and deleted, or has several rows that differ, and
                nothing decides which of them is newer.
        """
        changed = self._in_order if self._encoding.in_order else self._changed
        held: list[pa.RecordBatch] = []
        for batch in self._sorted(bucket):
            held.append(self._encoding.decode(batch))
            together = one_batch(held)
            starts = _starts(together.column("key"))
            # The next batch may contain more changes of the last key.
            last = int(starts[-1])
            if last:
                yield changed(together.slice(0, last), starts[:-1])
            held = [together.slice(last)]
        if held:
            together = one_batch(held)
            yield changed(together, _starts(together.column("key")))

    def _sorted(self, bucket: int) -> Iterator[pa.RecordBatch]:
        with self._once_per_version():
            yield from self._sorter.sorted_batches(bucket)

    @contextmanager
    def _once_per_version(self) -> Iterator[None]:
        """Name the key of two rows with one number: in a feed, that of a version of the table.

        Raises:
            ValueError: If a version has two such rows. Their order is not known.
        """
        try:
            yield
        except RepeatedKeyError as error:
            order = pa.record_batch([pa.array([error.key], pa.large_binary())], ["key"])
            order = order.append_column("value", _no_rows(1))
            shown = self._shown(self._encoding.decode(order).column("key"), 0)
            raise ValueError(
                f"changes: the key {shown} has several rows in one version of the feed; build the "
                "store with a key whose values are unique in the table"
            ) from None

    def _changed(self, changes: pa.RecordBatch, starts: npt.NDArray[np.int64]) -> ChangedKeys:
        deleted = np.asarray(changes.column("kind")) == DELETE
        keys = changes.column("key").take(pa.array(starts))
        ends = np.append(starts[1:], changes.num_rows) - 1
        both = deleted[ends] & ~deleted[starts]
        if both.any():
            shown = self._shown(keys, int(np.argmax(both)))
            raise ValueError(
                f"the key {shown} is in changes and in deletes; leave it in one of them"
            )
        self._check_order(changes, keys, starts)
        sequence = None if self._encoding.sequence is None else changes.column("sequence")
        return ChangedKeys(keys, starts, deleted[starts], sequence, changes.column("row"))

    def _in_order(self, changes: pa.RecordBatch, starts: npt.NDArray[np.int64]) -> ChangedKeys:
        """Return the changes that result from the events of a changelog."""
        kinds = np.asarray(changes.column("kind"))
        keys = changes.column("key").take(pa.array(starts))
        self._check_order(changes, keys, starts)
        if self._encoding.in_partitions and len(starts) < len(kinds):
            self._check_partitions(changes, keys, starts)
        places = np.arange(len(kinds))
        ends = np.append(starts[1:], len(kinds)) - 1
        groups = np.repeat(np.arange(len(starts)), ends - starts + 1)
        # Rows before the last delete do not count.
        last = np.maximum.reduceat(np.where(kinds == DELETE, places, -1), starts)
        deleted = kinds[ends] != ROW
        kept = (kinds == ROW) & (places > last[groups])
        kept = np.where(deleted[groups], places == ends[groups], kept)
        counts = np.add.reduceat(kept.astype(np.int64), starts)
        rows = changes.column("row").filter(pa.array(kept))
        return ChangedKeys(keys, np.cumsum(counts) - counts, deleted, None, rows, last >= 0)

    def _check_order(
        self, changes: pa.RecordBatch, keys: pa.Array, starts: npt.NDArray[np.int64]
    ) -> None:
        """Check that no two changes of a key differ in what arrival alone would decide.

        Raises:
            ValueError: If two changes differ so, and the source has no order.
        """
        if self._unordered is None or len(starts) == changes.num_rows:
            return
        repeated = np.ones(changes.num_rows, bool)
        repeated[starts] = False
        if self._encoding.sequence is not None:
            numbers = unwrap(changes.column("sequence")).dictionary_encode("encode").indices
            repeated[1:] &= np.diff(np.asarray(numbers)) == 0
        later = pa.array(np.flatnonzero(repeated))
        earlier = pa.array(np.flatnonzero(repeated) - 1)
        for name in ("kind", "row"):
            column = changes.column(name)
            differ = np.asarray(pc.not_equal(column.take(later), column.take(earlier)))
            if differ.any():
                at = np.searchsorted(starts, later[int(np.argmax(differ))].as_py(), "right") - 1
                raise self._order_error(self._shown(keys, int(at)))

    def _check_partitions(
        self, changes: pa.RecordBatch, keys: pa.Array, starts: npt.NDArray[np.int64]
    ) -> None:
        """Check that the order of events does not depend on that of partitions of Spark.

        Raises:
            ValueError: If events of a key with the same place in the order are in several
                partitions, and differ.
        """
        together = np.ones(changes.num_rows, bool)
        together[starts] = False
        order = self._encoding.order
        if order is not None:
            numbers = changes.column("sequence").dictionary_encode().indices
            together[1:] &= np.diff(np.asarray(numbers)) == 0
        groups = np.cumsum(~together)
        partitions = np.asarray(changes.column("arrival")) >> np.uint64(_PARTITION_BITS)
        moves = together.copy()
        moves[1:] &= partitions[1:] != partitions[:-1]
        differ = np.zeros(changes.num_rows, bool)
        for name in ("kind", "row"):
            column = changes.column(name)
            differ[1:] |= np.asarray(
                pc.not_equal(column.slice(1), column.slice(0, len(column) - 1))
            )
        bad = np.intersect1d(groups[moves], groups[differ & together])
        if len(bad):
            first = int(np.argmax(groups == bad[0]))
            shown = self._shown(keys, int(np.searchsorted(starts, first, "right")) - 1)
            if order is None:
                raise ValueError(
                    f"changes: the key {shown} has events in several partitions of the DataFrame, "
                    "in an unknown order; pass order_by= with the column that orders events, such "
                    "as a position in the log"
                )
            raise ValueError(
                f"changes: the key {shown} has several events with the same {order!r} in several "
                "partitions of the DataFrame; pass another column as order_by="
            )

    def _order_error(self, shown: str) -> ValueError:
        """Return the error of a key with several changes in a source without order."""
        sequence = self._encoding.sequence
        if self._encoding.in_order:
            what, remedy = "changes", "sort the changelog and pass its rows"
        elif sequence is None:
            what, remedy = "rows", "pass sequence= with the column that says which row is newer"
        else:
            what = f"rows with the same {sequence!r}"
            remedy = "pass another column as sequence="
        return ValueError(
            f"changes: the key {shown} has {what} that differ, and the rows of {self._unordered} "
            f"have no order; {remedy}, or give each key once"
        )

    def _shown(self, keys: pa.Array, at: int) -> str:
        """Return an encoded key as text for errors."""
        key = self._encoding.keys.decode(keys.slice(at, 1)).to_pylist()[0]
        return ", ".join(f"{name}={value!r}" for name, value in key.items())

    def close(self) -> None:
        """Free memory and temporary files."""
        self._sorter.close()


def _starts(keys: pa.Array) -> npt.NDArray[np.int64]:
    """Return the index of the first of each group of equal keys in sorted keys."""
    _, same = sort_keys(keys)
    count = len(keys)
    return np.arange(count) if same is None else np.flatnonzero(~same)


def _no_rows(count: int) -> pa.Array:
    return pa.array([b""] * count, pa.large_binary())


def _of_events(arrivals: Numbers, places: npt.NDArray[np.int64]) -> Numbers:
    """Return the arrivals of events, whose places are twice those of rows."""
    numbers: Numbers = np.take(arrivals, places >> 1) * np.uint64(2)
    return np.add(numbers, (places & 1).astype(np.uint64))


def _large(rows: pa.Array) -> pa.Array:
    return rows if pa.types.is_large_binary(rows.type) else rows.cast(pa.large_binary())
