"""Values of runs of changes: each begins with its kind, that of a row or of a tombstone.

All rows of a batch are converted at once: the kinds are prepended or removed. csrc/ls_batch.h has
the same numbers for lookups.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lookupstore.errors import FormatError
from lookupstore.store._kinds import cut_kinds, join_kinds

ROW = 0
TOMBSTONE = 1

#: Schema of the records of layers during a merge. `kind` is the kind of a row if the values of the
#: layer have no kind of their own.
LAYER_SCHEMA = pa.schema(
    [("key", pa.large_binary()), ("kind", pa.binary(1)), ("value", pa.large_binary())]
)

_Offsets = npt.NDArray[np.int64]


def with_kinds(rows: pa.Array, is_tombstone: npt.NDArray[np.bool_]) -> pa.Array:
    """Return values of a run, each with its kind in front of the row.

    Args:
        rows: Array of n rows, fixed_size_binary or large_binary; the rows of tombstones are left
            out.
        is_tombstone: Whether each of the n values is a tombstone.

    Returns:
        Array of large_binary with n values.

    >>> with_kinds(pa.array([b"ab", b""], pa.large_binary()), np.array([False, True])).to_pylist()
    [b'\\x00ab', b'\\x01']
    """
    kinds = np.where(is_tombstone, TOMBSTONE, ROW).astype(np.uint8)
    return _large_binary(*join_kinds(*_plain(rows), kinds, TOMBSTONE))


def split_kinds(values: pa.Array) -> tuple[pa.Array, pa.Array]:
    """Return the kinds and rows of values of a run; rows of tombstones are empty.

    Args:
        values: Array of large_binary with n values.

    Returns:
        Arrays of fixed_size_binary(1) and large_binary with n values each.

    Raises:
        FormatError: If a value has no kind or an unknown one, or a tombstone has a row.

    >>> kinds, rows = split_kinds(pa.array([b"\\x00ab", b"\\x01"], pa.large_binary()))
    >>> kinds.to_pylist(), rows.to_pylist()
    ([b'\\x00', b'\\x01'], [b'ab', b''])
    """
    try:
        kinds, offsets, rows = cut_kinds(*_plain(values))
    except ValueError as error:
        raise FormatError(str(error)) from None
    sizes = np.diff(offsets)
    wrong = (kinds > TOMBSTONE) | ((kinds == TOMBSTONE) & (sizes > 0))
    if wrong.any():
        at = int(np.argmax(wrong))
        raise FormatError(f"value {at} of a run has the kind {kinds[at]} and {sizes[at] + 1} bytes")
    kind_array = pa.Array.from_buffers(pa.binary(1), len(kinds), [None, pa.py_buffer(kinds)])
    return kind_array, _large_binary(offsets, rows)


def rows_or_null(values: pa.Array) -> pa.Array:
    """Return the rows of values of a run, null for tombstones.

    Args:
        values: Array of large_binary with n values.

    Returns:
        Array of large_binary with n values.

    Raises:
        FormatError: If `split_kinds` raises it.

    >>> rows_or_null(pa.array([b"\\x00ab", b"\\x01"], pa.large_binary())).to_pylist()
    [b'ab', None]
    """
    kinds, rows = split_kinds(values)
    there = pa.array(np.frombuffer(kinds.buffers()[1], np.uint8) == ROW)
    buffers = [there.buffers()[1], *rows.buffers()[1:]]
    return pa.Array.from_buffers(rows.type, len(rows), buffers, there.false_count)


def rows_as_layer(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return records of a base, `key` and `value`, as those of a layer."""
    kinds = pa.py_buffer(bytes(batch.num_rows))
    kind = pa.Array.from_buffers(pa.binary(1), batch.num_rows, [None, kinds])
    return pa.RecordBatch.from_arrays(
        [batch.column("key"), kind, batch.column("value")], schema=LAYER_SCHEMA
    )


def run_as_layer(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return records of a run, `key` and `value`, as those of a layer.

    Raises:
        FormatError: If `split_kinds` raises it.
    """
    kind, rows = split_kinds(batch.column("value"))
    return pa.RecordBatch.from_arrays([batch.column("key"), kind, rows], schema=LAYER_SCHEMA)


def tombstones_of(layer: pa.RecordBatch) -> npt.NDArray[np.bool_]:
    """Return which records of a layer are tombstones."""
    kind = layer.column("kind")
    kinds = np.frombuffer(kind.buffers()[1], np.uint8)
    gone: npt.NDArray[np.bool_] = kinds[kind.offset : kind.offset + len(kind)] == TOMBSTONE
    return gone


def _plain(values: pa.Array) -> tuple[_Offsets, npt.NDArray[np.uint8]]:
    """Return the offsets of the values of a binary array, from 0, and their bytes."""
    count = len(values)
    if pa.types.is_fixed_size_binary(values.type):
        width = values.type.byte_width
        offsets = np.arange(count + 1, dtype=np.int64) * width
        first, last = values.offset * width, (values.offset + count) * width
    else:
        stored = values.buffers()[1]
        if stored is None or not count:
            return np.zeros(count + 1, np.int64), np.empty(0, np.uint8)
        kind = np.int64 if pa.types.is_large_binary(values.type) else np.int32
        found = np.frombuffer(stored, kind)[values.offset : values.offset + count + 1]
        first, last = int(found[0]), int(found[-1])
        offsets = found.astype(np.int64) - first
    data = values.buffers()[-1]
    if data is None:
        return offsets, np.empty(0, np.uint8)
    return offsets, np.frombuffer(data, np.uint8)[first:last]


def _large_binary(offsets: _Offsets, data: npt.NDArray[np.uint8]) -> pa.Array:
    buffers = [None, pa.py_buffer(offsets.astype(np.int64)), pa.py_buffer(data)]
    return pa.Array.from_buffers(pa.large_binary(), len(offsets) - 1, buffers, 0)
