from libc.stddef cimport size_t
from libc.stdint cimport uint8_t, uint32_t, uint64_t

from lookupstore.sst._block cimport Block, Handles
from lookupstore.sst._map cimport FileMap


cdef class MappedBlocks:
    cdef FileMap map
    cdef object view     # memoryview of the map, which its blocks hold
    cdef Handles handles
    cdef size_t most     # size of all data blocks in bytes

    cdef bint find(self, size_t number, const uint8_t **data, size_t *size) except -1
    cdef Block block(self, size_t number, Block index)


cdef class MappedFrames:
    cdef FileMap map
    cdef Handles handles
    cdef object frames   # lookupstore.sst.zstd.Frames
    cdef list idle       # idle decompressors of `frames`
    cdef size_t most     # size of all data blocks before compression in bytes

    cdef bint find(
        self, size_t number, const uint8_t **frame, size_t *size, size_t *plain) except -1
    cdef bytes one(self, size_t number)
    cdef Block block(self, size_t number, bytes data, Block index)
    cdef size_t many(
        self, const uint32_t *numbers, size_t count, size_t limit, const uint8_t **blocks,
        size_t *sizes, list owners) except 0
