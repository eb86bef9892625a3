"""Sorted batches of byte keys: order them, compare neighbours, cut at a key."""

from libc.stddef cimport size_t
from libc.stdint cimport uint8_t, uint32_t, uint64_t
from libc.stdlib cimport free, malloc

import numpy as np

from lookupstore._arrow cimport (
    LS_OK,
    BinaryColumn,
    ls_column,
    ls_column_get,
    ls_column_is_valid,
    ls_slice,
    ls_status,
)


cdef extern from "ls_order.h":
    ctypedef enum ls_order:
        LS_ORDER_BYTES
    int ls_compare_bytes(ls_slice a, ls_slice b) noexcept nogil


cdef extern from "ls_sort.h":
    ctypedef struct ls_sort_item:
        uint64_t prefix
        uint32_t index
    ls_status ls_sort_prefixes(
        ls_order order, const ls_column *keys, ls_sort_item *items, size_t count,
        size_t *bad) noexcept nogil
    void ls_sort_keys(
        ls_order order, const ls_column *keys, ls_sort_item *items, size_t count,
        ls_sort_item *scratch) noexcept nogil


cdef BinaryColumn checked(values):
    """A column whose offsets have been walked once and that holds no null."""
    cdef BinaryColumn column = BinaryColumn(values, "values")
    cdef ls_slice value
    cdef size_t i
    cdef int valid = 1
    cdef ls_status status = LS_OK
    with nogil:
        for i in range(column.column.length):
            valid = ls_column_is_valid(&column.column, i)
            status = ls_column_get(&column.column, i, &value)
            if not valid or status != LS_OK:
                break
    if not valid:
        raise ValueError(f"values[{i}] is null; only byte strings have an order here")
    if status != LS_OK:
        raise ValueError(f"values[{i}]: the Arrow offsets leave their data buffer")
    return column


def argsort(values):
    """Return the uint32 rows of an Arrow binary array in unsigned byte order, stable."""
    cdef BinaryColumn column = checked(values)
    cdef size_t count = column.column.length, i, bad
    cdef ls_sort_item *items
    cdef uint32_t[::1] rows
    if count > 0xFFFFFFFF:
        raise ValueError(f"{count} values; sort at most 4294967295 at once")
    order = np.empty(count, np.uint32)
    if count == 0:
        return order
    rows = order
    items = <ls_sort_item *>malloc(2 * count * sizeof(ls_sort_item))
    if items == NULL:
        raise MemoryError()
    with nogil:
        for i in range(count):
            items[i].index = i
        ls_sort_prefixes(LS_ORDER_BYTES, &column.column, items, count, &bad)
        ls_sort_keys(LS_ORDER_BYTES, &column.column, items, count, items + count)
        for i in range(count):
            rows[i] = items[i].index
        free(items)
    return order


def equal_to_previous(values):
    """Return a boolean array: element i is True if values[i] equals values[i - 1]."""
    cdef BinaryColumn column = checked(values)
    cdef size_t count = column.column.length, i
    cdef ls_slice previous = ls_slice(NULL, 0), value = ls_slice(NULL, 0)
    equal = np.zeros(count, np.bool_)
    cdef uint8_t[::1] flags = equal.view(np.uint8)
    if count == 0:
        return equal
    with nogil:
        ls_column_get(&column.column, 0, &previous)
        for i in range(1, count):
            ls_column_get(&column.column, i, &value)
            flags[i] = ls_compare_bytes(previous, value) == 0
            previous = value
    return equal


def is_ascending(values):
    """Return whether each value is strictly greater than the one before it."""
    cdef BinaryColumn column = checked(values)
    cdef size_t count = column.column.length, i
    cdef ls_slice previous = ls_slice(NULL, 0), value = ls_slice(NULL, 0)
    cdef bint ascending = True
    if count == 0:
        return True
    with nogil:
        ls_column_get(&column.column, 0, &previous)
        for i in range(1, count):
            ls_column_get(&column.column, i, &value)
            if ls_compare_bytes(previous, value) >= 0:
                ascending = False
                break
            previous = value
    return ascending


def upper_bound(values, bytes key not None):
    """Return how many of the sorted values are not greater than `key`."""
    cdef BinaryColumn column = BinaryColumn(values, "values")
    cdef ls_slice wanted, value
    cdef size_t low = 0, high = column.column.length, middle
    wanted.data = <const uint8_t *>key
    wanted.size = len(key)
    while low < high:
        middle = low + (high - low) // 2
        if ls_column_get(&column.column, middle, &value) != LS_OK:
            raise ValueError(f"values[{middle}]: the Arrow offsets leave their data buffer")
        if ls_compare_bytes(value, wanted) <= 0:
            low = middle + 1
        else:
            high = middle
    return low
