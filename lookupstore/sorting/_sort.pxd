from libc.stddef cimport size_t
from libc.stdint cimport uint8_t, uint32_t, uint64_t

from lookupstore.arrow._binary cimport ls_column, ls_slice


cdef extern from "ls_sort.h":
    ctypedef struct ls_sort_item:
        uint64_t prefix
        uint32_t index


cdef extern from "ls_gather.h":
    void ls_gather_copy(
        const ls_slice *slices, size_t count, int offset_width, void *offsets,
        uint8_t *data) noexcept nogil


cdef object sorted_rows(const ls_column *keys)
