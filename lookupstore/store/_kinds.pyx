"""Values of runs as bytes: a kind, followed by the row. `kinds` describes them."""

cimport cython
from libc.stdint cimport int64_t, uint8_t
from libc.string cimport memcpy

import numpy as np


@cython.boundscheck(False)
@cython.wraparound(False)
def join_kinds(
        const int64_t[::1] offsets not None, const uint8_t[::1] rows not None,
        const uint8_t[::1] kinds not None, uint8_t without_row):
    """Put kinds before rows.

    Args:
        offsets: int64 array of n + 1 ascending offsets into `rows`, the first of which is 0.
        rows: uint8 array with the bytes of the rows.
        kinds: uint8 array with n kinds.
        without_row: Kind of the values without a row.

    Returns:
        int64 array of n + 1 offsets, and the uint8 array with the bytes of the values.

    Raises:
        ValueError: If an offset is outside of the rows, or less than the previous one.
    """
    cdef Py_ssize_t count = kinds.shape[0], i
    cdef int64_t at = 0, size
    if offsets.shape[0] != count + 1:
        raise ValueError(f"{offsets.shape[0]} offsets of {count} rows")
    check_offsets(offsets, rows.shape[0])
    ends = np.empty(count + 1, np.int64)
    values = np.empty(count + offsets[count], np.uint8)
    cdef int64_t[::1] to = ends
    cdef uint8_t[::1] into = values
    with nogil:
        for i in range(count):
            to[i] = at
            into[at] = kinds[i]
            at += 1
            size = offsets[i + 1] - offsets[i]
            if kinds[i] != without_row and size > 0:
                memcpy(&into[at], &rows[offsets[i]], size)
                at += size
        to[count] = at
    return ends, values[:at]


@cython.boundscheck(False)
@cython.wraparound(False)
def cut_kinds(const int64_t[::1] offsets not None, const uint8_t[::1] values not None):
    """Remove the kinds from values, each of which has one.

    Args:
        offsets: int64 array of n + 1 ascending offsets into `values`, the first of which is 0.
        values: uint8 array with the bytes of the values.

    Returns:
        uint8 array of n kinds, int64 array of n + 1 offsets of the rows, and the uint8 array with
        the bytes of the rows.

    Raises:
        ValueError: If an offset is outside of the values, or a value has no bytes.
    """
    cdef Py_ssize_t count = offsets.shape[0] - 1, i
    cdef int64_t size
    check_offsets(offsets, values.shape[0])
    kinds = np.empty(count, np.uint8)
    ends = np.empty(count + 1, np.int64)
    rows = np.empty(max(0, offsets[count] - count), np.uint8)
    cdef uint8_t[::1] of = kinds, into = rows
    cdef int64_t[::1] to = ends
    cdef Py_ssize_t bad = -1
    with nogil:
        to[0] = 0
        for i in range(count):
            size = offsets[i + 1] - offsets[i] - 1
            if size < 0:
                bad = i
                break
            of[i] = values[offsets[i]]
            to[i + 1] = to[i] + size
            if size > 0:
                memcpy(&into[to[i]], &values[offsets[i] + 1], size)
    if bad >= 0:
        raise ValueError(f"value {bad} of a run has no kind")
    return kinds, ends, rows


@cython.boundscheck(False)
@cython.wraparound(False)
cdef int check_offsets(const int64_t[::1] offsets, Py_ssize_t size) except -1:
    """Raise if offsets do not ascend from 0 to at most a size."""
    cdef Py_ssize_t i
    cdef bint ascend = offsets.shape[0] > 0 and offsets[0] == 0
    if ascend:
        for i in range(offsets.shape[0] - 1):
            ascend = ascend and offsets[i] <= offsets[i + 1]
        ascend = ascend and offsets[offsets.shape[0] - 1] <= size
    if not ascend:
        raise ValueError("offsets of binary values that do not ascend within their bytes")
    return 0
