"""What all buckets of a version answer: keys go to theirs, and answers come back in one.

A bucket with runs of changes answers as one file: the newest of its files that has a key has its
row, or says that it is gone.

Keys are encoded and rows packed here; `store` knows what people call them.
"""

from __future__ import annotations

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
from lookupstore.sst.reader import hashed_keys, lookup_of, scan_after
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

    def lookups_in_place(self, bucket: int) -> tuple[Lookup | None, ...] | None:
        """Return what looks keys up in the files of a bucket, if they stay where they are.

        Those of its runs come first, the newest one first, and then that of its base, None if it
        has none. Without files there is nothing; None: lookups have to ask for the files each time.
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
        """Raise the error of the row at an encoded key, which does not fit the schema."""
        names = self._manifest.row_schema.schema.names
        self._raise_for_bucket(pa.array([key], pa.large_binary()), names, error)

    def row(self, bucket: int, key: bytes) -> bytes | None:
        """Return the packed row at an encoded key of a bucket, or None.

        It is of the newest of its files that has the key.

        Raises:
            CorruptionError: the stored bytes are wrong.
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

    def lookup_few(self, keys: pa.Array, plan: SmallPlan) -> pa.RecordBatch | None:
        """Return columns of the row at each of a few encoded keys.

        None: `lookup` has to look, and say what is wrong.

        Raises:
            CorruptionError: the stored bytes are wrong.
        """

        def rows(lookup: LookupInto) -> pa.RecordBatch | None:
            answers = SmallRows(len(keys), plan)
            lookup(answers)
            return answers.batch()

        try:
            return self._answered(keys, rows)
        except BadRowError:
            return None

    def stored_rows(self, bucket: int, keys: pa.Array) -> pa.Array:
        """Return the rows at encoded keys of one bucket as they are stored, null where none is.

        Raises:
            CorruptionError: the stored bytes are wrong.
        """
        if bucket not in self._files:
            return pa.nulls(len(keys), pa.large_binary())

        def rows(layers: Layers) -> pa.Array:
            values = Values(len(keys))
            layers.lookup(keys, values)
            return values.array()

        return self._files.with_layers([bucket], rows)

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

    def run_records(self, bucket: int) -> Iterator[pa.RecordBatch]:
        """Yield the newest record of each key of the runs of a bucket, in key order.

        They have `key` and `value`, as the runs have them: `run_rows` makes rows of the values.

        Raises:
            CorruptionError: the stored bytes are wrong.
        """
        return merge([self._files.scan(one, scan_after) for one in self._runs(bucket)], "first")

    def run_rows(self, bucket: int, values: pa.Array) -> pa.Array:
        """Return the rows in values of `run_records`, null where one is a tombstone.

        Raises:
            CorruptionError: the stored bytes are wrong.
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
        for batch in self._stored(start, stop, reverse):
            yield self._decoded(batch, schema, names)

    def python_rows(
        self, names: Sequence[str]
    ) -> Iterator[tuple[pa.RecordBatch, list[dict[str, Any]]]]:
        """Yield key columns and, as dicts, value columns of all rows in key order, as `scan` does.

        Raises: what `scan` does.
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
            CorruptionError: the stored bytes are wrong, or a key is in two buckets.
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
        """Yield the rows of one bucket in key order as they are stored: `key` and `value`.

        Args:
            bucket: its number.
            newest: of a run that is newer than all files of the bucket.

        Raises:
            CorruptionError: the stored bytes are wrong.
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
        """Return what `take` makes of the values at some keys, or of which there are.

        It is given what passes them to `sst` answers, and called again if a copy was damaged.
        """
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
        # Local copies keep their room from others while they are used: those that have to come are
        # asked one by one, those that are here before them.
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
        """Yield what `records` gives of the layers of a bucket, merged, in key order."""
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
        # Runs have few records between those of a block of the base: they are merged first, and
        # then large pieces of both.
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
