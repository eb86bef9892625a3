"""What all buckets of a version answer: keys go to theirs, and answers come back in one.

Keys are encoded and rows packed here; `store` knows what people call them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from itertools import chain
from typing import NoReturn, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import xxhash

from lookupstore.errors import CorruptionError, FormatError
from lookupstore.keys._codec import bucket_of, by_bucket
from lookupstore.sorting.runs import BATCH_BYTES, RepeatedKeyError, merge
from lookupstore.sst import Reader
from lookupstore.sst._answers import Found
from lookupstore.sst._spread import Spread
from lookupstore.sst.reader import hashed_keys
from lookupstore.storage.location import Location
from lookupstore.store.files import BucketFiles
from lookupstore.store.manifest import DATA_FOLDER, Manifest

#: Where some keys are in a call, ascending.
Positions: TypeAlias = "npt.NDArray[np.uint32]"

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

    def row(self, key: bytes, names: Sequence[str]) -> pa.RecordBatch | None:
        """Return columns of the row at an encoded key, or None.

        Raises:
            CorruptionError: the stored bytes are wrong.
        """
        buckets = self._manifest.buckets
        bucket = xxhash.xxh64_intdigest(key) % buckets if buckets > 1 else 0
        if bucket not in self._files:
            return None
        row = self._files.ask(bucket, lambda reader: reader.get(key))
        if row is None:
            return None
        try:
            return self._manifest.row_schema.unpack(pa.array([row], pa.large_binary()), names)
        except FormatError as error:
            self._corrupt(bucket, _ROWS, error)

    def contains(self, keys: pa.Array) -> pa.BooleanArray:
        """Return for each of some encoded keys whether it is stored.

        Raises:
            CorruptionError: the stored bytes are wrong.
        """
        if self._manifest.buckets == 1:
            for bucket in self._files:
                return self._files.ask(bucket, lambda reader: reader.contains_many(keys))
        found = Found(len(keys))
        self._spread(keys, values=False)[1].answer(found)
        return found.array()

    def look_up(
        self, keys: pa.Array, names: Sequence[str]
    ) -> tuple[pa.BooleanArray, pa.RecordBatch]:
        """Return which of some encoded keys there are, and columns of the row at each.

        Raises:
            CorruptionError: the stored bytes are wrong.
        """
        if self._manifest.buckets == 1:
            for bucket in self._files:
                return self._read(bucket, keys, names)
        places, rows = self._spread(keys, values=True)
        try:
            return self._manifest.row_schema.read(len(keys), names, rows.answer)
        except FormatError as error:
            for bucket, positions in places.items():
                self._read(bucket, keys.take(pa.array(positions)), names)
            self._corrupt(min(places), _ROWS, error)

    def scan(
        self,
        schema: pa.Schema,
        names: Sequence[str],
        start: bytes | None,
        stop: bytes | None,
        reverse: bool,
    ) -> Iterator[pa.RecordBatch]:
        """Yield rows of all buckets in key order.

        Args:
            schema: the key columns, then those of `names`.
            names: value columns to read.
            start: first encoded key wanted; None is the beginning.
            stop: stop before this encoded key; None is the end.
            reverse: from the greatest key to the least.

        Raises:
            CorruptionError: the stored bytes are wrong, or a key is in two buckets.
        """

        part = partial(_records, start, stop, reverse)
        runs = [self._files.pieces(bucket, part) for bucket in self._files]
        batches = runs[0] if len(runs) == 1 else merge(runs, "error", reverse=reverse)
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

    def scan_bucket(
        self,
        bucket: int,
        ranges: Sequence[tuple[bytes | None, bytes | None]],
        schema: pa.Schema,
        names: Sequence[str],
    ) -> Iterator[pa.RecordBatch]:
        """Yield rows of one bucket, range by range of encoded keys; see `scan`."""
        if bucket not in self._files:
            return

        held: list[pa.RecordBatch] = []
        size = 0
        parts = (
            self._files.pieces(bucket, partial(_records, start, stop, False))
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

    def _spread(self, keys: pa.Array, *, values: bool) -> tuple[dict[int, Positions], Spread]:
        """Return which keys fall into each bucket that has a file, and what these answer."""
        hashed = hashed_keys(keys)
        # A null key falls into some bucket, where no reader finds it.
        positions, starts = by_bucket(hashed, self._manifest.buckets)
        places = {
            bucket: positions[starts[bucket] : starts[bucket + 1]]
            for bucket in self._files
            if starts[bucket] < starts[bucket + 1]
        }
        rows = Spread(len(keys), values)

        def ask(own: Positions, reader: Reader) -> None:
            reader.answer(hashed, rows.part(own))

        self._files.ask_each({bucket: partial(ask, own) for bucket, own in places.items()})
        return places, rows

    def _read(
        self, bucket: int, keys: pa.Array, names: Sequence[str]
    ) -> tuple[pa.BooleanArray, pa.RecordBatch]:
        """Return which keys a bucket has, and columns of the row at each."""

        def ask(reader: Reader) -> tuple[pa.BooleanArray, pa.RecordBatch]:
            return self._manifest.row_schema.read(len(keys), names, partial(reader.answer, keys))

        try:
            return self._files.ask(bucket, ask)
        except FormatError as error:
            self._corrupt(bucket, _ROWS, error)

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
        file = next(file for file in self._manifest.files if file.bucket == bucket)
        raise CorruptionError(self._location.show(file.name), 0, expected, found)


def _records(
    start: bytes | None, stop: bytes | None, reverse: bool, reader: Reader, last: bytes | None
) -> Iterator[pa.RecordBatch]:
    """Return the records of a range of keys, or those of it that come after a key."""
    if last is None:
        return reader.scan(start=start, stop=stop, reverse=reverse)
    if reverse:
        return reader.scan(start=start, stop=last, reverse=True)
    return reader.scan(start=last + b"\0", stop=stop)


def _one_batch(batches: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
    columns = [pa.concat_arrays(parts) for parts in zip(*(b.columns for b in batches), strict=True)]
    return pa.RecordBatch.from_arrays(columns, schema=batches[0].schema)
