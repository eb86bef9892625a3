from libc.stddef cimport size_t
from libc.stdint cimport uint64_t

from lookupstore.sst._data_blocks cimport DataBlocks


cdef int after(
    DataBlocks data, size_t keys, size_t call, size_t files, bint fits, bint loaded) except -1
cdef size_t next_blocks(
    DataBlocks data, size_t first, size_t records, size_t *populated, uint64_t *offsets,
    size_t *sizes) except? 0
