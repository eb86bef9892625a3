"""What all buckets of a version answer: keys go to theirs, and answers come back in one.

Keys are encoded and rows packed here; `store` knows what people call them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import NoReturn, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import xxhash

from lookupstore._keys import bucket_of
from lookupstore.bucket_files import BucketFiles
from lookupstore.errors import CorruptionError, FormatError
from lookupstore.location import Location
from lookupstore.manifest import DATA_FOLDER, Manifest
from lookupstore.runs import BATCH_BYTES, RepeatedKeyError, merge
from lookupstore.sst import Reader

Positions: TypeAlias = "npt.NDArray[np.int64]"


class BucketReads:
    """Reads keys and rows of all buckets of one version.

    Args:
        location: of the store.
        manifest: of the version.
        files: of its buckets, open.
    """

    def __init__(self, location: Location, manifest: Manifest, files: BucketFiles) -> None:
        self._location = location
        self._manifest = manifest
        self._files = files

    def row(self, key: bytes) -> pa.RecordBatch | None:
        """Return all columns of the row at an encoded key, or None.

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
        rows = pa.array([row], pa.large_binary())
        return self._unpack(rows, None, [(bucket, rows)])

    def contains(self, keys: pa.Array) -> pa.BooleanArray:
        """Say of each of some encoded keys whether it is stored.

        Raises:
            CorruptionError: the stored bytes are wrong.
        """
        if self._manifest.buckets == 1:
            for bucket in self._files:
                return self._files.ask(bucket, lambda reader: reader.contains_many(keys))
        answer = np.zeros(len(keys), dtype=bool)
        for _, positions, present in self._ask_each(keys, Reader.contains_many):
            answer[positions] = present.to_numpy(zero_copy_only=False)
        return pa.array(answer)

    def found(self, keys: pa.Array, names: Sequence[str]) -> tuple[pa.BooleanArray, pa.RecordBatch]:
        """Return which of some encoded keys there are, and columns of the row at each.

        Raises:
            CorruptionError: the stored bytes are wrong.
        """
        if self._manifest.buckets == 1:
            for bucket in self._files:
                return self._read(bucket, keys, names)
        parts: list[tuple[int, pa.Array]] = []
        # Where the answer to each key is in the concatenation of all parts; -1: nowhere.
        places = np.full(len(keys), -1, dtype=np.int64)
        count = 0
        for bucket, positions, rows in self._ask_each(keys, Reader.get_many):
            parts.append((bucket, rows))
            places[positions] = np.arange(count, count + len(rows))
            count += len(rows)
        joined = pa.concat_arrays([rows for _, rows in parts] or [pa.array([], pa.large_binary())])
        found = joined.take(pa.array(places, mask=places < 0))
        return found.is_valid(), self._unpack(found, names, parts)

    def scan(
        self,
        schema: pa.Schema,
        names: Sequence[str],
        bounds: dict[str, bytes | None],
        reverse: bool,
    ) -> Iterator[pa.RecordBatch]:
        """Yield rows of all buckets in key order.

        Args:
            schema: the key columns, then those of `names`.
            names: value columns to read.
            bounds: of encoded keys, as `Reader.scan` takes them.
            reverse: from the greatest key to the least.

        Raises:
            CorruptionError: the stored bytes are wrong, or a key is in two buckets.
        """

        def part(reader: Reader) -> Iterator[pa.RecordBatch]:
            return reader.scan(**bounds, reverse=reverse)

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

        def scan(reader: Reader) -> Iterator[pa.RecordBatch]:
            for start, stop in ranges:
                yield from reader.scan(start, stop)

        held: list[pa.RecordBatch] = []
        size = 0
        for batch in self._files.pieces(bucket, scan):
            held.append(batch)
            size += batch.nbytes
            if size >= BATCH_BYTES:
                yield self._decoded(_one_batch(held), schema, names)
                held, size = [], 0
        if held:
            yield self._decoded(_one_batch(held), schema, names)

    def _ask_each(
        self, keys: pa.Array, question: Callable[[Reader, pa.Array], pa.Array]
    ) -> Iterator[tuple[int, Positions, pa.Array]]:
        """Yield bucket, positions of the keys that are in it, and its answer to these keys."""
        buckets = self._manifest.buckets
        # A null key falls into some bucket, where no reader finds it.
        held = bucket_of(keys, buckets)
        order = np.argsort(held, kind="stable")
        ends = np.searchsorted(held[order], np.arange(buckets + 1))
        places = {bucket: order[ends[bucket] : ends[bucket + 1]] for bucket in self._files}

        def ask(positions: Positions, reader: Reader) -> pa.Array:
            return question(reader, keys.take(pa.array(positions)))

        answers = self._files.ask_each(
            {bucket: partial(ask, places[bucket]) for bucket in places if len(places[bucket])}
        )
        for bucket, answer in answers.items():
            yield bucket, places[bucket], answer

    def _read(
        self, bucket: int, keys: pa.Array, names: Sequence[str]
    ) -> tuple[pa.BooleanArray, pa.RecordBatch]:
        """Return which keys a bucket has, and columns of the row at each."""

        def ask(reader: Reader) -> tuple[pa.BooleanArray, pa.RecordBatch]:
            return self._manifest.row_schema.read(len(keys), names, partial(reader.answer, keys))

        try:
            return self._files.ask(bucket, ask)
        except FormatError as error:
            self._corrupt(bucket, "rows of the store's value columns", error)

    def _unpack(
        self,
        rows: pa.Array,
        names: Sequence[str] | None,
        parts: Sequence[tuple[int, pa.Array]],
    ) -> pa.RecordBatch:
        """Decode rows; if they do not fit the schema, find the file that gave the bad one."""
        try:
            return self._manifest.row_schema.unpack(rows, names)
        except FormatError as error:
            for bucket, part in parts:
                try:
                    self._manifest.row_schema.unpack(part, names)
                except FormatError as own:
                    self._corrupt(bucket, "rows of the store's value columns", own)
            self._corrupt(parts[0][0], "rows of the store's value columns", error)

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


def _one_batch(batches: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
    columns = [pa.concat_arrays(parts) for parts in zip(*(b.columns for b in batches), strict=True)]
    return pa.RecordBatch.from_arrays(columns, schema=batches[0].schema)
