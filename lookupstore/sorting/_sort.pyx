"""Batches of byte keys: order them, compare neighbours, cut at keys, gather and scatter rows."""

from libc.stddef cimport size_t
from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport free, malloc

import numpy as np
import pyarrow as pa

from lookupstore.arrow._binary cimport (
    LS_NULL,
    LS_OK,
    BinaryColumn,
    buffer_data,
    ls_column,
    ls_column_get,
    ls_column_is_valid,
    ls_slice,
    ls_status,
)


cdef extern from "ls_order.h":
    ctypedef size_t ls_order
    cdef enum:
        LS_ORDER_BYTES
    int ls_compare_bytes(ls_slice a, ls_slice b) noexcept nogil
    uint64_t ls_bytes_prefix(const uint8_t *p, size_t size) noexcept nogil


cdef extern from "ls_sort.h":
    ls_status ls_sort_prefixes(
        ls_order order, const ls_column *keys, ls_sort_item *items, size_t count,
        size_t *bad) noexcept nogil
    void ls_sort_keys(
        ls_order order, const ls_column *keys, ls_sort_item *items, size_t count,
        ls_sort_item *scratch) noexcept nogil


cdef extern from "ls_gather.h":
    ls_status ls_gather_find(
        const ls_column *columns, const uint64_t *starts, size_t columns_count,
        const int64_t *rows, size_t count, ls_slice *slices, uint64_t *bytes,
        size_t *bad) noexcept nogil


cdef extern from "ls_scatter.h":
    ls_status ls_scatter_find(
        const ls_column *keys, const ls_column *cuts, const uint64_t *prefixes, uint32_t *ranges,
        size_t *bad) noexcept nogil
    void ls_scatter_rows(
        const uint32_t *ranges, size_t count, size_t ranges_count, uint32_t *rows,
        uint64_t *ends) noexcept nogil
    void ls_scatter_mixed(
        const ls_column *keys, const uint32_t *rows, const uint64_t *ends, size_t ranges_count,
        uint8_t *mixed) noexcept nogil


cdef BinaryColumn checked(values):
    """Return a column without nulls after a check of its offsets."""
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
        raise ValueError(f"values[{i}] is null; only byte strings can be sorted")
    if status != LS_OK:
        raise ValueError(f"values[{i}]: the Arrow offsets point outside their data buffer")
    return column


def argsort(values):
    """Return the uint32 rows of an Arrow binary array in unsigned byte order, stable."""
    return sort_keys(values)[0]


def sort_keys(values):
    """Return the rows as `argsort` does, and a boolean array of them.

    The array tells for each row whether its value equals that of the row before it in this order;
    it is None if all values differ.
    """
    cdef BinaryColumn column = checked(values)
    return sorted_rows(&column.column)


cdef object sorted_rows(const ls_column *keys):
    """`sort_keys` of a column without nulls whose offsets have been walked."""
    cdef size_t count = keys.length, i, bad, repeats = 0
    cdef ls_sort_item *items
    cdef uint32_t[::1] rows
    cdef uint8_t[::1] flags
    cdef ls_slice one, other
    if count > 0xFFFFFFFF:
        raise ValueError(f"{count} values; sort at most 4294967295 at once")
    order = np.empty(count, np.uint32)
    if count == 0:
        return order, None
    rows = order
    same = np.zeros(count, np.bool_)
    flags = same.view(np.uint8)
    items = <ls_sort_item *>malloc(2 * count * sizeof(ls_sort_item))
    if items == NULL:
        raise MemoryError()
    with nogil:
        for i in range(count):
            items[i].index = i
        ls_sort_prefixes(LS_ORDER_BYTES, keys, items, count, &bad)
        ls_sort_keys(LS_ORDER_BYTES, keys, items, count, items + count)
        rows[0] = items[0].index
        for i in range(1, count):
            rows[i] = items[i].index
            # After the sort, the prefixes of equal keys are of the same bytes.
            if items[i].prefix == items[i - 1].prefix:
                ls_column_get(keys, items[i - 1].index, &one)
                ls_column_get(keys, items[i].index, &other)
                if ls_compare_bytes(one, other) == 0:
                    flags[i] = 1
                    repeats += 1
        free(items)
    return order, same if repeats else None


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


cdef size_t bound(values, bytes key, int most) except? 0:
    """Return how many of the sorted values compare with `key` as at most `most`: -1 less, 0 not
    greater."""
    cdef BinaryColumn column = BinaryColumn(values, "values")
    cdef ls_slice wanted, value
    cdef size_t low = 0, high = column.column.length, middle
    wanted.data = <const uint8_t *>key
    wanted.size = len(key)
    while low < high:
        middle = low + (high - low) // 2
        if ls_column_get(&column.column, middle, &value) != LS_OK:
            raise ValueError(f"values[{middle}]: the Arrow offsets point outside their data buffer")
        if ls_compare_bytes(value, wanted) <= most:
            low = middle + 1
        else:
            high = middle
    return low


def lower_bound(values, bytes key not None):
    """Return the number of the sorted values that are less than `key`."""
    return bound(values, key, -1)


def upper_bound(values, bytes key not None):
    """Return the number of the sorted values that are not greater than `key`."""
    return bound(values, key, 0)


cdef class Scatter:
    """Ranges of byte strings, for putting rows together by range.

    A range ends with its cut, and cuts ascend; one more range comes after the last cut.
    """

    cdef BinaryColumn cuts
    cdef uint64_t *prefixes

    def __cinit__(self, cuts):
        cdef BinaryColumn column = checked(cuts)
        cdef size_t i, count = column.column.length
        cdef ls_slice cut
        if count >= 0xFFFFFFFF:
            raise ValueError(f"{count} cuts; give at most {0xFFFFFFFE}")
        self.cuts = column
        self.prefixes = <uint64_t *>malloc((count + 1) * sizeof(uint64_t))
        if self.prefixes == NULL:
            raise MemoryError()
        for i in range(count):
            ls_column_get(&column.column, i, &cut)
            self.prefixes[i] = ls_bytes_prefix(cut.data, cut.size)

    def __dealloc__(self):
        free(self.prefixes)

    def rows(self, values):
        """Return the rows of the values (uint32) range by range, the ends, and which ranges mix.

        Rows of a range keep their order. Ends (uint64) start with 0. A range mixes if two of its
        values differ (bool).
        """
        cdef BinaryColumn column = BinaryColumn(values, "values")
        cdef size_t count = column.column.length, ranges_count = self.cuts.column.length + 1
        cdef size_t bad = 0
        cdef ls_status status = LS_OK
        cdef uint32_t[::1] found, ranges
        cdef uint64_t[::1] ends
        cdef uint8_t[::1] mixed
        if count > 0xFFFFFFFF:
            raise ValueError(f"{count} values; scatter at most 4294967295 at once")
        order = np.empty(count, np.uint32)
        limits = np.zeros(ranges_count + 1, np.uint64)
        mixes = np.zeros(ranges_count, np.bool_)
        if count == 0:
            return order, limits, mixes
        found, ends, mixed = order, limits, mixes.view(np.uint8)
        ranges = np.empty(count, np.uint32)
        with nogil:
            status = ls_scatter_find(
                &column.column, &self.cuts.column, self.prefixes, &ranges[0], &bad)
            if status == LS_OK:
                ls_scatter_rows(&ranges[0], count, ranges_count, &found[0], &ends[0])
                ls_scatter_mixed(&column.column, &found[0], &ends[0], ranges_count, &mixed[0])
        if status == LS_NULL:
            raise ValueError(f"values[{bad}] is null; only byte strings have a range")
        if status != LS_OK:
            raise ValueError(f"values[{bad}]: the Arrow offsets point outside their data buffer")
        return order, limits, mixes


cdef class Gather:
    """Arrow binary arrays of one type, as one array from which rows are taken."""

    cdef list columns  # owners of the memory of `parts`
    cdef ls_column *parts
    cdef uint64_t *starts
    cdef size_t count
    cdef object kind

    def __cinit__(self, list arrays not None):
        cdef BinaryColumn column
        cdef size_t i
        if not arrays:
            raise ValueError("arrays is empty; give at least one")
        self.kind = arrays[0].type
        self.count = len(arrays)
        self.columns = []
        self.parts = <ls_column *>malloc(self.count * sizeof(ls_column))
        self.starts = <uint64_t *>malloc((self.count + 1) * sizeof(uint64_t))
        if self.parts == NULL or self.starts == NULL:
            raise MemoryError()
        self.starts[0] = 0
        for i in range(self.count):
            if arrays[i].type != self.kind:
                raise TypeError(f"arrays[{i}] is {arrays[i].type}, the first one {self.kind}")
            if arrays[i].null_count:
                raise ValueError(f"arrays[{i}] contains a null; only byte strings are gathered")
            column = BinaryColumn(arrays[i], f"arrays[{i}]")
            self.columns.append(column)
            self.parts[i] = column.column
            self.starts[i + 1] = self.starts[i] + column.column.length

    def __dealloc__(self):
        free(self.parts)
        free(self.starts)

    def take(self, const int64_t[::1] rows not None, pool=None):
        """Return the rows, in that order, as an array of the type of the arrays.

        The memory is from `pool`, or from Arrow's default pool if it is None.
        """
        cdef size_t count = rows.shape[0], bad = 0
        cdef uint64_t size = 0
        cdef int width = self.parts[0].offset_width
        cdef ls_status status
        cdef ls_slice *slices
        cdef uint8_t *data
        cdef uint8_t *ends = NULL
        if count == 0:
            return pa.array([], self.kind)
        slices = <ls_slice *>malloc(count * sizeof(ls_slice))
        if slices == NULL:
            raise MemoryError()
        try:
            with nogil:
                status = ls_gather_find(
                    self.parts, self.starts, self.count, &rows[0], count, slices, &size, &bad)
            if status != LS_OK:
                raise IndexError(
                    f"row {rows[bad]} of {self.starts[self.count]}, or offsets outside the data")
            if width == 4 and size > 0x7FFFFFFF:
                raise ValueError(f"{count} values of {size} bytes; give large_binary arrays")
            buffer = pa.allocate_buffer(size, pool)
            data = <uint8_t *>buffer_data(buffer)
            buffers = [None, buffer]
            if width:
                offsets = pa.allocate_buffer(width * (count + 1), pool)
                ends = <uint8_t *>buffer_data(offsets)
                buffers = [None, offsets, buffer]
            with nogil:
                ls_gather_copy(slices, count, width, ends, data)
        finally:
            free(slices)
        return pa.Array.from_buffers(self.kind, count, buffers, 0)
