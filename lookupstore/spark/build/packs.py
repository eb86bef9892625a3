"""Packs: byte strings of many rows in one, so that a shuffle moves them as one row of Spark.

Spark spends a microsecond on each row, regardless of its content: it is serialized, moved, and
copied to and from Arrow. A pack contains some hundred rows as two byte strings per column: the
bytes of all its values in sequence, and their lengths. Arrow stores arrays of byte strings in the
same way, so packing divides offsets and copies no value, and the packs of a batch are unpacked
together.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lookupstore.sorting._sort import Gather
from lookupstore.spark.buckets import BUCKET

Positions = npt.NDArray[np.int64]

# Intended size of a pack in bytes: Spark puts 10,000 of its rows into one batch for Python.
PACK_BYTES = 1 << 13
#: Number of bytes that are packed at a time: with some hundred buckets, packs are still full.
PACKED_BYTES = 8 << 20

_LENGTH = np.dtype("<i4")


def pack_names(name: str) -> tuple[str, str]:
    """Return the names of the two columns that a column becomes in packs."""
    return name, f"{name} lengths"


def packs_schema(names: Sequence[str]) -> str:
    """Return Spark's schema of packs of columns, each pack with the number of its bucket."""
    columns = (one for name in names for one in pack_names(name))
    return ", ".join([f"{BUCKET} int", *(f"`{name}` binary" for name in columns)])


def in_packs(
    rows: Iterable[pa.RecordBatch], buckets_of: Callable[[pa.Array], npt.NDArray[Any]]
) -> Iterator[pa.RecordBatch]:
    """Put rows into packs of one bucket each.

    Args:
        rows: Batches of columns of large_binary without nulls, one of them named `key`.
        buckets_of: Function that returns the bucket of each key, less than 65,536.
    """
    held: list[pa.RecordBatch] = []
    size = 0
    for batch in rows:
        held.append(batch)
        size += batch.nbytes
        if size >= PACKED_BYTES:
            yield _packed(held, buckets_of)
            held, size = [], 0
    if held:
        yield _packed(held, buckets_of)


def _packed(
    held: Sequence[pa.RecordBatch], buckets_of: Callable[[pa.Array], npt.NDArray[Any]]
) -> pa.RecordBatch:
    """Return rows in packs, with the rows of a bucket in their order."""
    keys = pa.concat_arrays([batch.column("key") for batch in held])
    # Sixteen bits are enough for all buckets (MAX_BUCKETS), and NumPy sorts them with a radix sort.
    of_rows = buckets_of(keys).astype(np.uint16)
    by_bucket = np.argsort(of_rows, kind="stable")
    names = held[0].schema.names
    rows = pa.RecordBatch.from_arrays(
        [Gather([batch.column(name) for batch in held]).take(by_bucket) for name in names],
        names=names,
    )
    packs, buckets = pack(rows, np.bincount(of_rows))
    return pa.RecordBatch.from_arrays(
        [pa.array(buckets.astype(np.int32)), *packs.columns], names=[BUCKET, *packs.schema.names]
    )


def pack(rows: pa.RecordBatch, counts: npt.NDArray[np.int64]) -> tuple[pa.RecordBatch, Positions]:
    """Put rows into packs, each with rows of one group only.

    Args:
        rows: Columns of large_binary without nulls, with the rows of a group together.
        counts: Number of rows of each group, int64.

    Returns:
        The packs, with two columns of large_binary for each column, and the group of each pack,
        int64.

    >>> rows = pa.record_batch({"key": pa.array([b"a", b"bc", b"d"], pa.large_binary())})
    >>> packs, groups = pack(rows, np.array([2, 1]))
    >>> packs.column("key").to_pylist(), groups.tolist()
    ([b'abc', b'd'], [0, 1])
    >>> unpack(packs, ["key"]).column("key").to_pylist()
    [b'a', b'bc', b'd']
    """
    size = max(1, PACK_BYTES * rows.num_rows // max(1, rows.nbytes))
    packs_of = -(-counts // size)
    groups = np.repeat(np.arange(len(counts)), packs_of)
    # Each pack begins `size` rows after the one before, or at the beginning of its group.
    before = np.cumsum(packs_of) - packs_of
    number = np.arange(len(groups)) - np.repeat(before, packs_of)
    starts = np.repeat(np.cumsum(counts) - counts, packs_of) + size * number
    cuts = np.append(starts, rows.num_rows)
    columns: dict[str, pa.Array] = {}
    for name, column in zip(rows.schema.names, rows.columns, strict=True):
        offsets, values = _parts(column)
        lengths = np.diff(offsets).astype(_LENGTH)
        parts = (_cut(values, offsets[cuts]), _cut(pa.py_buffer(lengths), cuts * _LENGTH.itemsize))
        columns.update(zip(pack_names(name), parts, strict=True))
    return pa.RecordBatch.from_pydict(columns), groups


def unpack(packs: pa.RecordBatch, names: list[str]) -> pa.RecordBatch:
    """Return the rows of packs, in their order, as columns of large_binary.

    Args:
        packs: Packs with two columns, binary or large_binary, for each name. Other columns are
            ignored.
        names: Names of the columns to return.

    Raises:
        ValueError: If the lengths are not those of the values.
    """
    columns = []
    for name in names:
        bytes_name, lengths_name = pack_names(name)
        of_bytes, values = _parts(packs.column(bytes_name))
        of_lengths, raw = _parts(packs.column(lengths_name))
        held = memoryview(raw)[of_lengths[0] : of_lengths[-1]]
        if len(held) % _LENGTH.itemsize:
            raise ValueError(f"packs: {len(held)} bytes of lengths of {name!r}")
        lengths = np.frombuffer(held, _LENGTH)
        offsets = np.zeros(len(lengths) + 1, np.int64)
        np.cumsum(lengths, out=offsets[1:])
        offsets += of_bytes[0]
        if offsets[-1] != of_bytes[-1] or (len(lengths) and lengths.min() < 0):
            raise ValueError(f"packs: the lengths of {name!r} are not those of its values")
        columns.append(_array(values, offsets))
    return pa.RecordBatch.from_arrays(columns, names=names)


def _parts(column: pa.Array) -> tuple[Positions, pa.Buffer]:
    """Return the offsets of the values of a binary array, int64, and the buffer of their bytes."""
    width = np.int64 if pa.types.is_large_binary(column.type) else np.int32
    _, offsets, values = column.buffers()
    if not len(column):
        return np.zeros(1, np.int64), pa.py_buffer(b"")
    at = np.frombuffer(offsets, width, len(column) + 1, column.offset * np.dtype(width).itemsize)
    return at.astype(np.int64, copy=False), values if values is not None else pa.py_buffer(b"")


def _cut(values: pa.Buffer, offsets: Positions) -> pa.Array:
    return _array(values, np.ascontiguousarray(offsets, np.int64))


def _array(values: pa.Buffer, offsets: Positions) -> pa.Array:
    buffers = [None, pa.py_buffer(offsets), values]
    return pa.Array.from_buffers(pa.large_binary(), len(offsets) - 1, buffers)
