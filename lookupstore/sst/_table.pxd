from libc.stddef cimport size_t
from libc.stdint cimport uint8_t, uint32_t, uint64_t

from lookupstore.arrow._binary cimport ls_slice, ls_status
from lookupstore.sst._block cimport Block, ls_block, ls_order


cdef extern from "ls_slots.h":
    ctypedef struct ls_ready:
        const uint8_t *data
        const uint32_t *slots
        uint32_t size
        uint32_t buckets
        uint32_t mask
        uint32_t record
    uint32_t ls_slots_buckets(uint32_t records) noexcept nogil
    ls_status ls_slots_build(
        const ls_block *block, size_t size, ls_order order, uint32_t *slots, ls_ready *ready,
        uint32_t *bad) noexcept nogil
    void ls_ready_publish(ls_ready *ready, const uint8_t *data) noexcept nogil
    const uint8_t *ls_ready_data(const ls_ready *ready) noexcept nogil
    void ls_ready_use(uint8_t *used) noexcept nogil
    ls_status ls_ready_get(
        const ls_ready *ready, ls_order order, ls_slice key, uint64_t hash,
        ls_slice *value) noexcept nogil


cdef class Memory:
    cdef char *start
    cdef size_t size


cdef class ReadyBlock:
    cdef readonly Block block
    cdef readonly bint evictable  # a cache may take it away
    cdef Memory memory
    cdef ls_ready ready


cdef class BlockTable:
    cdef ls_ready *ready    # one a block of the file
    cdef uint32_t *pins     # users of each block; NULL where all blocks stay
    cdef uint8_t *used      # whether a block has been used since the cache last looked
    cdef readonly size_t count
    cdef readonly bint evictable  # some block was or is
    cdef list blocks        # ReadyBlock or None
    cdef object cache
    cdef Memory chunk
    cdef size_t used_of_chunk
    cdef object __weakref__
    cdef ReadyBlock put(self, size_t number, Block block)
