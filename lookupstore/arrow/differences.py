"""Compare the rows of two columns of any type, with equal nulls and equal NaNs.

Arrow compares plain values only, and returns null for a null.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lookupstore.arrow.taking import take
from lookupstore.arrow.types import unwrap

#: A boolean for each row.
Answers = npt.NDArray[np.bool_]


def differing(one: pa.Array, other: pa.Array) -> Answers:
    """Return whether two columns of one type have different values in each row.

    Two nulls are one value, and so are two NaNs, and 0.0 and -0.0.

    Args:
        one: Array of any type.
        other: Array of the same type and length.

    >>> differing(pa.array([1, None, 3]), pa.array([1, None, 4])).tolist()
    [False, False, True]
    >>> differing(pa.array([[1], [2, None]]), pa.array([[1, 1], [2, None]])).tolist()
    [True, False]
    """
    one, other = unwrap(one), unwrap(other)
    kind = one.type
    there, also = (_is_there(column) for column in (one, other))
    found: Answers = there != also
    if pa.types.is_struct(kind):
        both = there & also
        for at in range(kind.num_fields):
            left, right = (pc.struct_field(column, at) for column in (one, other))
            found |= both & differing(left, right)
        return found
    if pa.types.is_map(kind) or pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return _differing_lists(one, other, there, also)
    if pa.types.is_fixed_size_list(kind):
        wide = pa.large_list(kind.value_field)
        return _differing_lists(one.cast(wide), other.cast(wide), there, also)
    if _is_list_view(kind):
        return _differing_lists(one, other, there, also)
    if pa.types.is_null(kind):
        return np.zeros(len(one), bool)
    if pa.types.is_interval(kind):
        return differing(_as_bytes(one), _as_bytes(other))
    if pa.types.is_float16(kind):
        return differing(one.cast(pa.float32()), other.cast(pa.float32()))
    unequal = pc.not_equal(one, other)
    if pa.types.is_floating(kind):
        unequal = pc.and_(unequal, pc.invert(pc.and_(pc.is_nan(one), pc.is_nan(other))))
    found |= _to_numpy(unequal.fill_null(False))
    return found


def _differing_lists(one: pa.Array, other: pa.Array, there: Answers, also: Answers) -> Answers:
    found: Answers = there != also
    starts, ends = _ends(one)
    other_starts, other_ends = _ends(other)
    sizes = ends - starts
    both = there & also
    found |= both & (sizes != other_ends - other_starts)
    rows = np.flatnonzero(both & ~found & (sizes > 0))
    if len(rows):
        sizes = sizes[rows]
        # Index of each element within its list.
        inner = np.arange(sizes.sum()) - np.repeat(np.cumsum(sizes) - sizes, sizes)
        left = take(_elements(one), pa.array(np.repeat(starts[rows], sizes) + inner))
        right = take(_elements(other), pa.array(np.repeat(other_starts[rows], sizes) + inner))
        found[np.repeat(rows, sizes)[differing(left, right)]] = True
    return found


def _ends(column: pa.Array) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Return the start and the end of each list of a column, as indices of elements."""
    offsets = column.offsets.to_numpy(zero_copy_only=False).astype(np.int64)
    if _is_list_view(column.type):
        return offsets, offsets + column.sizes.to_numpy(zero_copy_only=False)
    return offsets[:-1], offsets[1:]


def _elements(column: pa.Array) -> pa.Array:
    """Return the elements to which the offsets of a column refer."""
    if not pa.types.is_map(column.type):
        return column.values
    pairs = [column.keys, column.items]
    return pa.StructArray.from_arrays(pairs, ["key", "value"])


def _is_list_view(kind: pa.DataType) -> bool:
    return bool(pa.types.is_list_view(kind) or pa.types.is_large_list_view(kind))


def _as_bytes(intervals: pa.Array) -> pa.Array:
    """Return months, days and nanoseconds as the bytes in which Arrow stores them."""
    return pa.Array.from_buffers(
        pa.binary(16), len(intervals), intervals.buffers(), offset=intervals.offset
    )


def _is_there(column: pa.Array) -> Answers:
    return _to_numpy(column.is_valid())


def _to_numpy(answers: pa.Array) -> Answers:
    found: Answers = answers.to_numpy(zero_copy_only=False)
    return found
