from libc.stddef cimport size_t

from lookupstore.sst._data_blocks cimport DataBlocks


cdef int after(
    DataBlocks data, size_t keys, size_t call, size_t files, bint fits, bint loaded) except -1
