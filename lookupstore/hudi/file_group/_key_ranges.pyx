"""Ranges of keys: for each range, the span of its keys in a sorted batch."""

from libc.stddef cimport size_t
from libc.stdint cimport uint8_t, uint32_t

import numpy as np

from lookupstore.arrow._binary cimport (
    LS_OK,
    BinaryColumn,
    ls_column,
    ls_column_get,
    ls_column_is_valid,
    ls_slice,
    ls_status,
)

from lookupstore.sorting._sort import argsort


cdef extern from "ls_key_ranges.h":
    ctypedef struct ls_sorted_keys:
        const ls_column *keys
        const uint32_t *order
        size_t count
    ctypedef struct ls_key_span:
        size_t start
        size_t end
    ctypedef struct ls_key_ranges:
        ls_column least
        ls_column greatest
        const uint32_t *order
        const uint32_t *last
        size_t count
    void ls_key_ranges_link(const ls_key_ranges *ranges, uint32_t *last) noexcept nogil
    void ls_key_ranges_by_list(
        const ls_key_ranges *ranges, ls_sorted_keys keys, ls_key_span *spans) noexcept nogil
    void ls_key_ranges_by_tree(
        const ls_key_ranges *ranges, ls_sorted_keys keys, ls_key_span *spans) noexcept nogil
    int ls_has_high_character(ls_slice text) noexcept nogil


def high_characters(BinaryColumn keys not None):
    """Return a boolean array of whether each key has a character from U+E000 on.

    Raises ValueError for a null.
    """
    cdef size_t count = keys.column.length, i
    cdef ls_slice key
    cdef int valid = 1
    cdef ls_status status = LS_OK
    high = np.empty(count, np.bool_)
    cdef uint8_t[::1] flags = high.view(np.uint8)
    with nogil:
        for i in range(count):
            valid = ls_column_is_valid(&keys.column, i)
            status = ls_column_get(&keys.column, i, &key)
            if not valid or status != LS_OK:
                break
            flags[i] = ls_has_high_character(key)
    if not valid:
        raise ValueError(f"keys[{i}] is null; a record key is a string")
    if status != LS_OK:
        raise ValueError(f"keys[{i}]: the Arrow offsets point outside their data buffer")
    return high


cdef class Ranges:
    """The ends of ranges, and the tree over them.

    Args:
        least: Column of the least key of each range, without nulls.
        greatest: Column of the greatest key of each range, without nulls.
    """

    cdef BinaryColumn least     # they own the memory to which `ranges` points
    cdef BinaryColumn greatest
    cdef object order
    cdef object last
    cdef ls_key_ranges ranges

    def __cinit__(self, BinaryColumn least not None, BinaryColumn greatest not None):
        cdef uint32_t[::1] order, last
        if len(least) != len(greatest):
            raise ValueError(f"{len(least)} least keys, {len(greatest)} greatest ones")
        argsort(greatest.array)  # it checks all offsets, and refuses nulls
        self.order = argsort(least.array)
        self.last = np.empty(len(least), np.uint32)
        self.least = least
        self.greatest = greatest
        self.ranges.least = least.column
        self.ranges.greatest = greatest.column
        self.ranges.count = len(least)
        if self.ranges.count == 0:
            return
        order = self.order
        last = self.last
        self.ranges.order = &order[0]
        self.ranges.last = &last[0]
        with nogil:
            ls_key_ranges_link(&self.ranges, &last[0])

    def __len__(self):
        return self.ranges.count

    def spans(self, BinaryColumn keys not None, const uint32_t[::1] order not None, *, bint tree):
        """Return the start and end of the keys of each range in `order`: (ranges, 2), int64.

        `order` is the array of the rows of keys without nulls, in ascending order of the keys.
        """
        cdef ls_sorted_keys asked
        cdef size_t i, rows = keys.column.length
        cdef bint inside = True
        found = np.zeros((self.ranges.count, 2), np.int64)
        cdef size_t[:, ::1] view = found.view(np.uintp)
        asked.keys = &keys.column
        asked.count = order.shape[0]
        if asked.count == 0 or self.ranges.count == 0:
            return found
        asked.order = &order[0]
        with nogil:
            for i in range(asked.count):
                inside &= order[i] < rows
            if inside:
                if tree:
                    ls_key_ranges_by_tree(&self.ranges, asked, <ls_key_span *>&view[0, 0])
                else:
                    ls_key_ranges_by_list(&self.ranges, asked, <ls_key_span *>&view[0, 0])
        if not inside:
            raise IndexError(f"order has a row beyond the {rows} of keys")
        return found
