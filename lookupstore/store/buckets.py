"""Lookups and scans over all buckets of a version: keys are split by bucket, answers are combined.

A bucket with runs of changes answers like one file: the newest of its files that contains a key has
its row, or a tombstone.

Keys are encoded and rows packed here; `store` converts them from and to the values of users.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import chain
from typing import Any, NoReturn, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lookupstore.arrow._binary import BinaryColumn
from lookupstore.errors import CorruptionError, FormatError
from lookupstore.keys._codec import bucket_of, by_bucket
from lookupstore.rows._codec import BadRowError
from lookupstore.rows._small import SmallPlan, SmallRows
from lookupstore.sorting.runs import BATCH_BYTES, RepeatedKeyError, joined, merge
from lookupstore.sst import Reader
from lookupstore.sst._answers import Answers, Found, Values
from lookupstore.sst._lookup import Lookup
from lookupstore.sst._spread import Spread
from lookupstore.sst.layers import Layers
from lookupstore.sst.reader import hashed_keys, lookup_of
from lookupstore.sst.scans import scan_after
from lookupstore.sst.shared import PlacesLostError
from lookupstore.storage.location import Location
from lookupstore.store.files import BucketFiles
from lookupstore.store.kinds import (
    ROW,
    TOMBSTONE,
    rows_as_layer,
    rows_or_null,
    run_as_layer,
    split_kinds,
    tombstones_of,
)
from lookupstore.store.manifest import DATA_FOLDER, Manifest

#: Positions of keys in the keys of a call, ascending.
Positions: TypeAlias = "npt.NDArray[np.uint32]"
#: Function that passes the values of some keys to answers, without copying them first.
LookupInto: TypeAlias = "Callable[[Answers], None]"

#: Function that yields the records of a reader, after a key or from the first record.
Records: TypeAlias = "Callable[[Reader, bytes | None], Iterator[pa.RecordBatch]]"

_log = logging.getLogger(__name__)

A = TypeVar("A")

_ROW, _TOMBSTONE = bytes([ROW]), bytes([TOMBSTONE])
_ROWS = "rows of the store's value columns"


class BucketReads:
    """Lookups and scans in all buckets of one version.

    Args:
        location: Location of the store.
        manifest: Manifest of the version.
        files: Open files of the buckets of the version.
    """

    def __init__(self, location: Location, manifest: Manifest, files: BucketFiles) -> None:
        self._location = location
        self._manifest = manifest
        self._files = files

    def lookups_in_place(self, bucket: int) -> tuple[Lookup | None, ...] | None:
        """Return the lookups of the files of a bucket if these files cannot be replaced.

        The lookups of its runs are first, the newest run first, followed by the lookup of its base,
        which is None if the bucket has no base. A bucket without files has none. None: the files
        may be replaced, and callers have to use `row` each time.
        """
        if bucket not in self._files:
            return ()
        readers = self._files.readers_in_place(bucket)
        if readers is None:
            return None
        lookups: list[Lookup | None] = [lookup_of(reader) for reader in readers]
        if self._files.layers[bucket][-1] != bucket:
            lookups.append(None)
        return tuple(lookups)

    def refuse_row(self, key: bytes, error: FormatError) -> NoReturn:
        """Raise the error of the row at an encoded key if the row does not fit the schema."""
        names = self._manifest.row_schema.schema.names
        self._raise_for_bucket(pa.array([key], pa.large_binary()), names, error)

    def row(self, bucket: int, key: bytes) -> bytes | None:
        """Return the packed row at an encoded key of a bucket, or None.

        It is the row in the newest file of the bucket that has the key.

        Raises:
            CorruptionError: The stored bytes are damaged.
        """
        for number in self._files.layers[bucket]:
            value = self._files.with_reader(number, lambda reader: reader.get(key))
            if value is None:
                continue
            if number < self._manifest.buckets:
                return value
            kind = value[:1]
            if kind == _ROW:
                return value[1:]
            if value != _TOMBSTONE:
                self._corrupt_file(number, "values that begin with their kind", value[:20].hex())
            return None
        return None

    def contains(self, keys: pa.Array) -> pa.BooleanArray:
        """Return whether each of some encoded keys is stored.

        Raises:
            CorruptionError: The stored bytes are damaged.
        """

        def found(lookup: LookupInto) -> pa.BooleanArray:
            answers = Found(len(keys))
            lookup(answers)
            return answers.array()

        return self._answered(keys, found, values=False)

    def lookup(
        self, keys: pa.Array, names: Sequence[str]
    ) -> tuple[pa.BooleanArray, pa.RecordBatch]:
        """Return which of some encoded keys are stored, and columns of their rows.

        Raises:
            CorruptionError: The stored bytes are damaged.
        """
        rows = self._manifest.row_schema
        try:
            return self._answered(keys, lambda lookup: rows.read(len(keys), names, lookup))
        except FormatError as error:
            self._raise_for_bucket(keys, names, error)

    def lookup_few(self, keys: pa.Array, plan: SmallPlan) -> SmallRows | None:
        """Return answers that have columns of the row at each of a few encoded keys.

        None: the caller has to use `lookup`, which raises the error if a row is damaged.

        Raises:
            CorruptionError: The stored bytes are damaged.
        """

        def rows(lookup: LookupInto) -> SmallRows:
            answers = SmallRows(len(keys), plan)
            lookup(answers)
            return answers

        try:
            return self._answered(keys, rows)
        except BadRowError:
            return None

    def stored_rows(self, bucket: int, keys: pa.Array) -> pa.Array:
        """Return the stored rows at encoded keys of one bucket, null if a key is missing.

        Raises:
            CorruptionError: The stored bytes are damaged.
        """
        if bucket not in self._files:
            return pa.nulls(len(keys), pa.large_binary())

        def rows(layers: Layers) -> pa.Array:
            values = Values(len(keys))
            layers.lookup(keys, values)
            return values.array()

        return self._files.with_layers([bucket], rows)

    def unpacked(self, keys: pa.Array, rows: pa.Array, names: Sequence[str]) -> pa.RecordBatch:
        """Return columns of rows that `stored_rows` or `sorted_rows` returned.

        Args:
            keys: Encoded keys of the rows.
            rows: Stored rows without nulls, as many as keys.
            names: Names of the value columns to return.

        Raises:
            CorruptionError: The rows do not fit the schema.
        """
        try:
            return self._manifest.row_schema.unpack(rows, names)
        except FormatError as error:
            self._raise_for_bucket(keys, names, error)

    def run_records(self, bucket: int) -> Iterator[pa.RecordBatch]:
        """Yield the newest record of each key of the runs of a bucket, in key order.

        The columns are `key` and `value`, with values as the runs store them, which `run_rows`
        turns into rows.

        Raises:
            CorruptionError: The stored bytes are damaged.
        """
        return merge([self._files.scan(one, scan_after) for one in self._runs(bucket)], "first")

    def run_rows(self, bucket: int, values: pa.Array) -> pa.Array:
        """Return the rows in values of `run_records`, null for tombstones.

        Raises:
            CorruptionError: The stored bytes are damaged.
        """
        try:
            return rows_or_null(values)
        except FormatError as error:
            runs = self._runs(bucket)
            for number in runs:
                for _ in self._layer(number, scan_after):
                    continue
            self._corrupt_file(runs[0], "values that begin with their kind", error)

    def _runs(self, bucket: int) -> list[int]:
        """Return the numbers of the runs of a bucket, the newest first."""
        numbers = self._files.layers.get(bucket, ())
        return [number for number in numbers if number >= self._manifest.buckets]

    def scan(
        self,
        names: Sequence[str],
        start: bytes | None,
        stop: bytes | None,
        reverse: bool,
    ) -> Iterator[pa.RecordBatch]:
        """Yield rows of all buckets in key order, as key columns, then value columns.

        Args:
            names: Names of the value columns to read.
            start: First encoded key of the range. None: the first key.
            stop: Encoded key that ends the range, and is not part of it. None: no end.
            reverse: Whether to read from the greatest key to the least.

        Raises:
            CorruptionError: The stored bytes are damaged, or a key is in two buckets.
        """
        schema = self.schema(names)
        for batch in self._stored(start, stop, reverse):
            yield self._decoded(batch, schema, names)

    def python_rows(
        self, names: Sequence[str]
    ) -> Iterator[tuple[pa.RecordBatch, list[dict[str, Any]]]]:
        """Yield all rows in key order, as key columns and a dict of values for each row.

        Raises: what `scan` raises.
        """
        keys, decoder = self.schema([]), self._manifest.row_schema.decoder(names)
        for batch in self._stored(None, None, False):
            rows = decoder.decode_all(batch.column("value"))
            if rows is None:  # not all are decoded without Arrow, or one is damaged
                columns = self._decoded(batch, self.schema(names), names)
                yield columns.drop_columns(names), columns.select(names).to_pylist()
            else:
                yield self._decoded(batch, keys, []), rows

    def _stored(
        self, start: bytes | None, stop: bytes | None, reverse: bool
    ) -> Iterator[pa.RecordBatch]:
        """Yield a range of rows of all buckets in key order as they are stored.

        Raises:
            CorruptionError: The stored bytes are damaged, or a key is in two buckets.
        """
        records = partial(scan_after, start=start, stop=stop, reverse=reverse)
        buckets = [self._rows_of(bucket, records, reverse) for bucket in self._files]
        batches = buckets[0] if len(buckets) == 1 else merge(buckets, "error", reverse=reverse)
        while True:
            try:
                batch = next(batches, None)
            except RepeatedKeyError as error:
                path = self._location.show(DATA_FOLDER)
                raise CorruptionError(
                    path, 0, "each key in one bucket", f"{error.key.hex()} in two"
                ) from None
            if batch is None:
                return
            yield batch

    def sorted_rows(self, bucket: int, newest: Reader | None = None) -> Iterator[pa.RecordBatch]:
        """Yield the stored rows of one bucket in key order, as `key` and `value`.

        Args:
            bucket: Number of the bucket.
            newest: Reader of a run that is newer than all files of the bucket. Default: no such
                run.

        Raises:
            CorruptionError: The stored bytes are damaged.
        """
        numbers = self._files.layers.get(bucket, ())
        runs = [self._layer(number, scan_after) for number in numbers if number != bucket]
        if newest is not None:
            runs.insert(0, (run_as_layer(batch) for batch in newest.scan()))
        base = self._layer(bucket, scan_after) if bucket in numbers else iter(())
        return self._merged(runs, base)

    def bounds(self) -> dict[int, tuple[bytes, bytes]]:
        """Return keys between which all encoded keys of each bucket are that has files."""
        bounds: dict[int, tuple[bytes, bytes]] = {}
        for file in self._manifest.data_files:
            low, high = bytes.fromhex(file.min_key), bytes.fromhex(file.max_key)
            known = bounds.get(file.bucket, (low, high))
            bounds[file.bucket] = min(low, known[0]), max(high, known[1])
        return {bucket: bounds[bucket] for bucket in sorted(bounds)}

    def scan_bucket(
        self,
        bucket: int,
        ranges: Sequence[tuple[bytes | None, bytes | None]],
        names: Sequence[str],
    ) -> Iterator[pa.RecordBatch]:
        """Yield rows of one bucket, as key columns, then value columns.

        Args:
            bucket: Number of the bucket.
            ranges: Ranges of encoded keys: the first key, and the key that ends the range and is
                not part of it; None is no bound. Rows come range by range, in key order in each.
            names: Names of the value columns to read.

        Raises:
            CorruptionError: The stored bytes are damaged.
        """
        if bucket not in self._files:
            return
        schema = self.schema(names)
        parts = (
            self._rows_of(bucket, partial(scan_after, start=start, stop=stop), reverse=False)
            for start, stop in ranges
        )
        for batch in joined(chain.from_iterable(parts), BATCH_BYTES):
            yield self._decoded(batch, schema, names)

    def schema(self, names: Sequence[str]) -> pa.Schema:
        """Return the key columns, then some value columns."""
        values = self._manifest.row_schema.schema
        return pa.schema(
            [*self._manifest.key_schema.schema, *(values.field(name) for name in names)]
        )

    def _answered(
        self, keys: pa.Array, take: Callable[[LookupInto], A], *, values: bool = True
    ) -> A:
        """Return the result of `take` for the values at some keys, or for their presence.

        `take` is called with the function that passes the values to answers. It is called again if
        a local copy was damaged or a lookup table shared by processes was lost.
        """
        while True:
            try:
                return self._answered_once(keys, take, values=values)
            except PlacesLostError as error:
                _log.warning("%s", error)

    def _answered_once(self, keys: pa.Array, take: Callable[[LookupInto], A], *, values: bool) -> A:
        files = self._files
        together = files.layers_in_place()
        if together is not None:
            return take(partial(together.lookup, keys))
        if self._manifest.buckets == 1:
            return files.with_layers(files, lambda layers: take(partial(layers.lookup, keys)))
        hashed = hashed_keys(keys)
        places = self._places(hashed)
        cold = files.cold(places)
        if not cold:
            return files.with_layers(places, lambda layers: take(partial(layers.lookup, hashed)))
        # A local copy in use is not evicted. Files to be fetched are therefore looked up one by
        # one, after the files that are on this host.
        spread = Spread(len(keys), values)

        def ask(buckets: Sequence[int]) -> None:
            own = np.sort(np.concatenate([places[bucket] for bucket in buckets]))
            files.with_layers(buckets, lambda layers: layers.lookup(hashed, spread.part(own)))

        here = [bucket for bucket in places if bucket not in cold]
        if here:
            ask(here)
        files.wait_for(cold, lambda bucket: ask([bucket]))
        return take(spread.answer)

    def _rows_of(self, bucket: int, records: Records, reverse: bool) -> Iterator[pa.RecordBatch]:
        """Yield the merged records of the layers of a bucket from `records`, in key order."""
        numbers = self._files.layers[bucket]
        if numbers == (bucket,):
            return self._files.scan(bucket, records)
        runs = [self._layer(number, records) for number in numbers if number != bucket]
        base = self._layer(bucket, records) if bucket in numbers else iter(())
        return self._merged(runs, base, reverse=reverse)

    def _layer(self, number: int, records: Records) -> Iterator[pa.RecordBatch]:
        as_layer = rows_as_layer if number < self._manifest.buckets else run_as_layer
        for batch in self._files.scan(number, records):
            try:
                yield as_layer(batch)
            except FormatError as error:
                self._corrupt_file(number, "values that begin with their kind", error)

    def _merged(
        self,
        runs: Sequence[Iterator[pa.RecordBatch]],
        base: Iterator[pa.RecordBatch],
        *,
        reverse: bool = False,
    ) -> Iterator[pa.RecordBatch]:
        # Few records of runs lie between those of a block of the base: the runs are merged first,
        # and then large pieces of the result and of the base.
        newer = merge(runs, "first", reverse=reverse)
        layers = [joined(newer, BATCH_BYTES), joined(base, BATCH_BYTES)]
        return self._without_tombstones(merge(layers, "first", reverse=reverse))

    @staticmethod
    def _without_tombstones(layers: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for layer in layers:
            batch = layer.select(["key", "value"])
            gone = tombstones_of(layer)
            if gone.any():
                batch = batch.filter(pa.array(~gone))
            if batch.num_rows:
                yield batch

    def _places(self, keys: BinaryColumn | pa.Array) -> dict[int, Positions]:
        """Return the positions of the keys of each bucket that has a file."""
        # A null key is hashed to some bucket, in which no reader finds it.
        positions, starts = by_bucket(keys, self._manifest.buckets)
        return {
            bucket: positions[starts[bucket] : starts[bucket + 1]]
            for bucket in self._files
            if starts[bucket] < starts[bucket + 1]
        }

    def _raise_for_bucket(
        self, keys: pa.Array, names: Sequence[str], error: FormatError
    ) -> NoReturn:
        """Raise the error of rows that do not fit the schema, for the bucket that has them."""
        places = self._places(keys)
        for bucket, positions in places.items():
            own = keys.take(pa.array(positions))
            try:
                self._check_rows(bucket, own, names)
            except FormatError as found:
                self._corrupt(bucket, _ROWS, found)
        self._corrupt(min(places), _ROWS, error)

    def _check_rows(self, bucket: int, keys: pa.Array, names: Sequence[str]) -> None:
        """Unpack the rows at some keys of a bucket, file by file.

        Raises:
            CorruptionError: The rows of a run do not fit the schema.
            FormatError: If the rows of the base do not fit the schema.
        """
        rows = self._manifest.row_schema
        for number in self._files.layers[bucket]:
            found = self._files.with_reader(number, lambda reader: reader.lookup(keys))
            if number < self._manifest.buckets:
                rows.unpack(found, names)
                continue
            try:
                kinds, values = split_kinds(found.drop_null())
                stays = pa.array(np.frombuffer(kinds.buffers()[1], np.uint8) == ROW)
                rows.unpack(values.filter(stays), names)
            except FormatError as error:
                self._corrupt_file(number, _ROWS, error)

    def _decoded(
        self, batch: pa.RecordBatch, schema: pa.Schema, names: Sequence[str]
    ) -> pa.RecordBatch:
        try:
            return pa.RecordBatch.from_arrays(self._manifest.decode(batch, names), schema=schema)
        except FormatError as error:
            bad = error
        held = bucket_of(batch.column("key"), self._manifest.buckets)
        for bucket in np.unique(held).tolist():
            try:
                self._manifest.decode(batch.filter(pa.array(held == bucket)), names)
            except FormatError as error:
                self._corrupt(bucket, "keys and rows of the store's columns", error)
        self._corrupt(int(held[0]), "keys and rows of the store's columns", bad)

    def _corrupt(self, bucket: int, expected: str, found: object) -> NoReturn:
        """Raise the error for a bucket: for its base, or for its only file."""
        self._corrupt_file(self._files.layers[bucket][-1], expected, found)

    def _corrupt_file(self, number: int, expected: str, found: object) -> NoReturn:
        name = self._files.name(number)
        raise CorruptionError(self._location.show(name), 0, expected, found)
