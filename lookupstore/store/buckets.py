"""What all buckets of a version answer: keys go to theirs, and answers come back in one.

A bucket with runs of changes answers as one file: the newest of its files that has a key has its
row, or says that it is gone.

Keys are encoded and rows packed here; `store` knows what people call them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import chain
from typing import NoReturn, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import xxhash

from lookupstore.arrow._binary import BinaryColumn
from lookupstore.errors import CorruptionError, FormatError
from lookupstore.keys._codec import bucket_of, by_bucket
from lookupstore.sorting.runs import BATCH_BYTES, RepeatedKeyError, merge
from lookupstore.sst import Reader
from lookupstore.sst._answers import Answers, Found, Values
from lookupstore.sst._spread import Spread
from lookupstore.sst.reader import hashed_keys, lookup_layers, scan_after
from lookupstore.storage.location import Location
from lookupstore.store.files import BucketFiles
from lookupstore.store.kinds import (
    ROW,
    TOMBSTONE,
    rows_as_layer,
    run_as_layer,
    split_kinds,
    tombstones_of,
)
from lookupstore.store.manifest import DATA_FOLDER, Manifest

#: Where some keys are in a call, ascending.
Positions: TypeAlias = "npt.NDArray[np.uint32]"
#: What passes the values of some keys to answers, each where it lies.
LookupInto: TypeAlias = "Callable[[Answers], None]"

#: Gives records of a reader, from behind a key or from the first one.
Records: TypeAlias = "Callable[[Reader, bytes | None], Iterator[pa.RecordBatch]]"

A = TypeVar("A")

_ROW, _TOMBSTONE = bytes([ROW]), bytes([TOMBSTONE])
_ROWS = "rows of the store's value columns"


class BucketReads:
    """Lookups and scans in all buckets of one version.

    Args:
        location: of the store.
        manifest: of the version.
        files: of its buckets, open.
    """

    def __init__(self, location: Location, manifest: Manifest, files: BucketFiles) -> None:
        self._location = location
        self._manifest = manifest
        self._files = files

    def get(self, key: bytes, names: Sequence[str]) -> pa.RecordBatch | None:
        """Return columns of the row at an encoded key, or None.

        Raises:
            CorruptionError: the stored bytes are wrong.
        """
        buckets = self._manifest.buckets
        bucket = xxhash.xxh64_intdigest(key) % buckets if buckets > 1 else 0
        if bucket not in self._files:
            return None
        row = self._row(bucket, key)
        if row is None:
            return None
        try:
            return self._manifest.row_schema.unpack(pa.array([row], pa.large_binary()), names)
        except FormatError as error:
            self._corrupt(bucket, _ROWS, error)

    def _row(self, bucket: int, key: bytes) -> bytes | None:
        """Return the row at a key of a bucket, from the newest of its files that has the key."""
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
        """Return for each of some encoded keys whether it is stored.

        Raises:
            CorruptionError: the stored bytes are wrong.
        """

        def found(lookup: LookupInto) -> pa.BooleanArray:
            answers = Found(len(keys))
            lookup(answers)
            return answers.array()

        return self._answered(keys, found, values=False)

    def lookup(
        self, keys: pa.Array, names: Sequence[str]
    ) -> tuple[pa.BooleanArray, pa.RecordBatch]:
        """Return which of some encoded keys there are, and columns of the row at each.

        Raises:
            CorruptionError: the stored bytes are wrong.
        """
        rows = self._manifest.row_schema
        try:
            return self._answered(keys, lambda lookup: rows.read(len(keys), names, lookup))
        except FormatError as error:
            self._raise_for_bucket(keys, names, error)

    def stored_rows(self, bucket: int, keys: pa.Array) -> pa.Array:
        """Return the rows at encoded keys of one bucket as they are stored, null where none is.

        Raises:
            CorruptionError: the stored bytes are wrong.
        """
        if bucket not in self._files:
            return pa.nulls(len(keys), pa.large_binary())

        def rows(readers: Sequence[Reader]) -> pa.Array:
            values = Values(len(keys))
            self._lookup_in(bucket, keys, values, readers)
            return values.array()

        return self._files.with_layers(bucket, rows)

    def unpacked(self, keys: pa.Array, rows: pa.Array, names: Sequence[str]) -> pa.RecordBatch:
        """Return columns of rows that `stored_rows` or `sorted_rows` gave.

        Args:
            keys: theirs.
            rows: as many, without nulls.
            names: value columns.

        Raises:
            CorruptionError: they do not fit the schema.
        """
        try:
            return self._manifest.row_schema.unpack(rows, names)
        except FormatError as error:
            self._raise_for_bucket(keys, names, error)

    def run_keys(self, bucket: int) -> Iterator[pa.Array]:
        """Yield the encoded keys of the runs of a bucket, also those that are gone, in key order.

        Raises:
            CorruptionError: the stored bytes are wrong.
        """
        numbers = self._files.layers.get(bucket, ())
        runs = [
            (batch.select(["key"]) for batch in self._files.scan(number, scan_after))
            for number in numbers
            if number >= self._manifest.buckets
        ]
        return (batch.column("key") for batch in merge(runs, "first"))

    def scan(
        self,
        names: Sequence[str],
        start: bytes | None,
        stop: bytes | None,
        reverse: bool,
    ) -> Iterator[pa.RecordBatch]:
        """Yield rows of all buckets in key order: the key columns, then value columns.

        Args:
            names: value columns to read.
            start: first encoded key wanted; None is the beginning.
            stop: stop before this encoded key; None is the end.
            reverse: from the greatest key to the least.

        Raises:
            CorruptionError: the stored bytes are wrong, or a key is in two buckets.
        """
        schema = self.schema(names)
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
            yield self._decoded(batch, schema, names)

    def sorted_rows(self, bucket: int, newest: Reader | None = None) -> Iterator[pa.RecordBatch]:
        """Yield the rows of one bucket in key order as they are stored: `key` and `value`.

        Args:
            bucket: its number.
            newest: of a run that is newer than all files of the bucket.

        Raises:
            CorruptionError: the stored bytes are wrong.
        """
        layers = [self._layer(number, scan_after) for number in self._files.layers.get(bucket, ())]
        if newest is not None:
            layers.insert(0, (run_as_layer(batch) for batch in newest.scan()))
        return self._without_tombstones(merge(layers, "first"))

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
        """Yield rows of one bucket: the key columns, then value columns.

        Args:
            bucket: its number.
            ranges: of encoded keys: the first one, and the one to stop before; None is no
                bound. Rows come range by range, in key order in each.
            names: value columns to read.

        Raises:
            CorruptionError: the stored bytes are wrong.
        """
        if bucket not in self._files:
            return
        schema = self.schema(names)
        held: list[pa.RecordBatch] = []
        size = 0
        parts = (
            self._rows_of(bucket, partial(scan_after, start=start, stop=stop), reverse=False)
            for start, stop in ranges
        )
        for batch in chain.from_iterable(parts):
            held.append(batch)
            size += batch.nbytes
            if size >= BATCH_BYTES:
                yield self._decoded(_one_batch(held), schema, names)
                held, size = [], 0
        if held:
            yield self._decoded(_one_batch(held), schema, names)

    def schema(self, names: Sequence[str]) -> pa.Schema:
        """Return the key columns, then some value columns."""
        values = self._manifest.row_schema.schema
        return pa.schema(
            [*self._manifest.key_schema.schema, *(values.field(name) for name in names)]
        )

    def _answered(
        self, keys: pa.Array, take: Callable[[LookupInto], A], *, values: bool = True
    ) -> A:
        """Return what `take` makes of the values at some keys, or of which there are.

        It is given what passes them to `sst` answers, and called again if a copy was damaged.
        """

        lookup = self._lookup_in
        if self._manifest.buckets == 1 and 0 in self._files:
            # The answers of one bucket are in the order of the keys: there is nothing to spread.
            return self._files.with_layers(
                0, lambda readers: take(lambda answers: lookup(0, keys, answers, readers))
            )
        hashed = hashed_keys(keys)
        spread = Spread(len(keys), values)

        def lookup_part(bucket: int, own: Positions, readers: Sequence[Reader]) -> None:
            lookup(bucket, hashed, spread.part(own), readers)

        places = self._places(hashed)
        self._files.with_buckets(
            {bucket: partial(lookup_part, bucket, own) for bucket, own in places.items()}
        )
        return take(spread.answer)

    def _lookup_in(
        self,
        bucket: int,
        keys: pa.Array | BinaryColumn,
        answers: Answers,
        readers: Sequence[Reader],
    ) -> None:
        has_base = self._files.layers[bucket][-1] == bucket
        lookup_layers(readers, keys, answers, has_base=has_base)

    def _rows_of(self, bucket: int, records: Records, reverse: bool) -> Iterator[pa.RecordBatch]:
        """Yield what `records` gives of the layers of a bucket, merged, in key order."""
        numbers = self._files.layers[bucket]
        if numbers == (bucket,):
            return self._files.scan(bucket, records)
        layers = [self._layer(number, records) for number in numbers]
        return self._without_tombstones(merge(layers, "first", reverse=reverse))

    def _layer(self, number: int, records: Records) -> Iterator[pa.RecordBatch]:
        as_layer = rows_as_layer if number < self._manifest.buckets else run_as_layer
        for batch in self._files.scan(number, records):
            try:
                yield as_layer(batch)
            except FormatError as error:
                self._corrupt_file(number, "values that begin with their kind", error)

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
        """Return where the keys of each bucket are that has a file."""
        # A null key falls into some bucket, where no reader finds it.
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
            CorruptionError: those of a run do not fit the schema.
            FormatError: those of the base do not.
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
        """Raise the error for a bucket: of its base, or of its only file."""
        self._corrupt_file(self._files.layers[bucket][-1], expected, found)

    def _corrupt_file(self, number: int, expected: str, found: object) -> NoReturn:
        name = self._files.name(number)
        raise CorruptionError(self._location.show(name), 0, expected, found)


def _one_batch(batches: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
    columns = [pa.concat_arrays(parts) for parts in zip(*(b.columns for b in batches), strict=True)]
    return pa.RecordBatch.from_arrays(columns, schema=batches[0].schema)
