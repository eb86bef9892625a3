"""Sorted runs in memory, with a merge of the rows in a range of keys."""

from libc.stddef cimport size_t
from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport free, malloc

import numpy as np
import pyarrow as pa

from lookupstore.arrow._binary cimport (
    LS_OK,
    BinaryColumn,
    buffer_data,
    ls_column,
    ls_slice,
    ls_status,
)
from lookupstore.sorting._sort cimport ls_gather_copy, sorted_rows


cdef extern from "ls_merge.h":
    ls_status ls_merge_cut(
        const ls_column *runs, const int64_t *starts, const int64_t *ends, size_t count,
        ls_slice bound, int64_t *stops) noexcept nogil
    ls_status ls_merge_slices(
        const ls_column *runs, const int64_t *starts, const int64_t *stops, size_t count,
        ls_slice *slices, uint64_t *bytes) noexcept nogil


cdef class SortedRuns:
    """Runs of rows, sorted by key in each part of a run that is merged.

    A range of keys contains the rows of each run from one of `starts` to one of `stops` (int64, one
    number for each run). Its rows are numbered run after run.
    """

    cdef list columns      # owners of the memory of `parts`
    cdef list kinds
    cdef ls_column *parts  # first columns of all runs, then their second columns, and so on
    cdef readonly size_t count

    def __cinit__(self, list runs not None):
        """Take as many binary arrays without nulls for each run, the first of them its keys."""
        cdef BinaryColumn column
        cdef size_t r, c, fields
        if not runs:
            raise ValueError("runs is empty; give at least one")
        self.count = len(runs)
        self.kinds = [array.type for array in runs[0]]
        fields = len(self.kinds)
        self.columns = []
        self.parts = <ls_column *>malloc(self.count * fields * sizeof(ls_column))
        if self.parts == NULL:
            raise MemoryError()
        for r in range(self.count):
            if [array.type for array in runs[r]] != self.kinds:
                raise TypeError(f"runs[{r}] does not have the types of the first one, {self.kinds}")
            for c in range(fields):
                column = BinaryColumn(runs[r][c], "rows")
                if column.array.null_count:
                    raise ValueError(f"runs[{r}] contains a null; only byte strings are merged")
                if column.column.length != <size_t>len(runs[r][0]):
                    raise ValueError(f"runs[{r}] has columns of different lengths")
                self.columns.append(column)
                self.parts[c * self.count + r] = column.column

    def __dealloc__(self):
        free(self.parts)

    cdef size_t check(
            self, const int64_t[::1] starts, const int64_t[::1] stops) except? 0:
        """Return the number of rows in a range."""
        cdef size_t r, rows = 0
        if <size_t>starts.shape[0] != self.count or <size_t>stops.shape[0] != self.count:
            raise ValueError(f"give a number for each of the {self.count} runs")
        for r in range(self.count):
            if not 0 <= starts[r] <= stops[r] <= <int64_t>self.parts[r].length:
                raise IndexError(f"rows {starts[r]} to {stops[r]} of {self.parts[r].length}")
            rows += <size_t>(stops[r] - starts[r])
        if rows > 0xFFFFFFFF:
            raise ValueError(f"{rows} rows; merge at most 4294967295 at once")
        return rows

    def cut(
            self, const int64_t[::1] starts not None, const int64_t[::1] ends not None,
            bytes bound not None):
        """Return the ends of the rows with keys not greater than `bound` (int64)."""
        cdef ls_slice key
        cdef ls_status status
        cdef int64_t[::1] stops
        self.check(starts, ends)
        key.data = <const uint8_t *>bound
        key.size = len(bound)
        found = np.empty(self.count, np.int64)
        stops = found
        with nogil:
            status = ls_merge_cut(self.parts, &starts[0], &ends[0], self.count, key, &stops[0])
        check(status)
        return found

    def sort(self, const int64_t[::1] starts not None, const int64_t[::1] stops not None):
        """Return the rows of a range in the order of their keys, stable, as `sort_keys` does."""
        cdef size_t count = self.check(starts, stops)
        cdef uint64_t size = 0
        cdef ls_column keys = self.parts[0]
        cdef int64_t *ends = <int64_t *>malloc((count + 1) * sizeof(int64_t))
        cdef ls_slice *slices = <ls_slice *>malloc((count + 1) * sizeof(ls_slice))
        cdef uint8_t *data = NULL
        cdef ls_status status
        try:
            if slices == NULL or ends == NULL:
                raise MemoryError()
            with nogil:
                status = ls_merge_slices(
                    self.parts, &starts[0], &stops[0], self.count, slices, &size)
            check(status)
            data = <uint8_t *>malloc(size + 1)
            if data == NULL:
                raise MemoryError()
            # Keys in one piece of memory are sorted as one column.
            keys.data = data
            keys.data_size = size
            keys.length = count
            keys.validity = NULL
            if keys.offset_width != 0:
                keys.offset_width = 8
                keys.offsets = ends
            with nogil:
                ls_gather_copy(slices, count, keys.offset_width, ends, data)
            return sorted_rows(&keys)
        finally:
            free(slices)
            free(ends)
            free(data)

    def take(
            self, const int64_t[::1] starts not None, const int64_t[::1] stops not None,
            const uint32_t[::1] order not None, size_t column):
        """Return some rows of a range, in an order, of one column."""
        cdef size_t count = self.check(starts, stops), taken = order.shape[0], i
        cdef uint64_t size = 0
        cdef ls_slice *slices
        cdef ls_column *parts
        cdef ls_status status
        cdef int width
        cdef bint inside = True
        cdef uint8_t *data
        cdef uint8_t *ends = NULL
        if column >= <size_t>len(self.kinds):
            raise IndexError(f"column {column} of {len(self.kinds)}")
        if taken == 0:
            return pa.array([], self.kinds[column])
        parts = self.parts + column * self.count
        width = parts[0].offset_width
        slices = <ls_slice *>malloc((count + taken) * sizeof(ls_slice))
        if slices == NULL:
            raise MemoryError()
        try:
            with nogil:
                status = ls_merge_slices(
                    parts, &starts[0], &stops[0], self.count, slices, &size)
                size = 0
                if status == LS_OK:
                    for i in range(taken):
                        if order[i] >= count:
                            inside = False
                            break
                        slices[count + i] = slices[order[i]]
                        size += slices[count + i].size
            check(status)
            if not inside:
                raise IndexError(f"row {order[i]} of {count}")
            if width == 4 and size > 0x7FFFFFFF:
                raise ValueError(f"{taken} values of {size} bytes; give large_binary arrays")
            buffer = pa.allocate_buffer(size)
            data = <uint8_t *>buffer_data(buffer)
            buffers = [None, buffer]
            if width:
                offsets = pa.allocate_buffer(width * (taken + 1))
                ends = <uint8_t *>buffer_data(offsets)
                buffers = [None, offsets, buffer]
            with nogil:
                ls_gather_copy(slices + count, taken, width, ends, data)
        finally:
            free(slices)
        return pa.Array.from_buffers(self.kinds[column], taken, buffers, 0)


cdef int check(ls_status status) except -1:
    if status != LS_OK:
        raise ValueError("runs: Arrow offsets point outside their data buffer")
    return 0
