from libc.stddef cimport size_t
from libc.stdint cimport uint8_t, uint32_t, uint64_t

from lookupstore.arrow._binary cimport ls_slice, ls_status
from lookupstore.sst._block cimport Block, ls_block, ls_order
from lookupstore.sst._map cimport FileMap


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


cdef enum:
    CACHE_LINE = 64  # bytes of a bucket of slots or places


cdef class Account:
    cdef public size_t capacity
    cdef public size_t nbytes
    cdef public size_t misses
    cdef size_t passed  # bytes, since this turn began
    cdef uint8_t turn   # from 1 on

    cdef uint8_t pass_by(self, size_t nbytes, uint8_t last) noexcept


cdef extern from "ls_places.h":
    uint64_t LS_PLACES_END
    ctypedef struct ls_places_bucket:
        pass
    ctypedef struct ls_places:
        const uint8_t *data
        uint64_t size
        ls_places_bucket *buckets
        uint32_t count
        uint32_t record
        int complete
    uint32_t ls_places_buckets(uint64_t records) noexcept nogil
    ls_status ls_places_move(
        ls_places *places, const ls_block *index, const ls_ready *ready, ls_ready *moved,
        uint32_t *next, uint64_t records) noexcept nogil
    ls_status ls_places_get(
        const ls_places *places, ls_slice key, uint64_t hash, ls_slice *value,
        uint64_t *bad) noexcept nogil


cdef class Memory:
    cdef char *start
    cdef size_t size


cdef class Zeros:
    cdef char *map
    cdef char *start
    cdef size_t mapped
    cdef size_t size    # from `start` on


cdef class Places:
    cdef ls_places places
    cdef Zeros memory   # that its buckets are a part of, or all
    cdef size_t size    # of these
    cdef FileMap map    # that offsets count from
    cdef int take_part(self) except -1


cdef class ReadyBlock:
    cdef readonly Block block
    cdef Memory memory
    cdef ls_ready ready


cdef class BlockTable:
    cdef ls_ready *ready    # one a block of the file
    cdef uint32_t *pins     # users of each block; NULL where all blocks stay
    cdef uint8_t *used      # whether a block has been used since the cache last looked
    cdef readonly size_t count
    cdef uint8_t *passed    # the turn of the cache when each block last passed it by
    cdef bint evictable     # some block was or is
    cdef readonly Places places  # of records that are in no slots; None: there are none
    cdef list blocks        # ReadyBlock or None
    cdef object cache
    cdef Account account  # of the cache
    cdef Memory chunk
    cdef size_t used_of_chunk
    cdef uint8_t *seen      # the call that last looked into each block that is not ready; or NULL
    cdef size_t usual_count     # records of a block, about; 0: not known yet
    cdef size_t ready_blocks    # that are there now
    cdef size_t ready_records, ready_bytes  # of all that have been put
    cdef bint keeps(self, size_t number, size_t size) except -1
    cdef bint stays(self, size_t number, uint8_t call) noexcept
    cdef ReadyBlock put(self, size_t number, Block block)
    cdef Block block_at(self, uint64_t offset)


cdef class FileTable:
    cdef readonly BlockTable blocks
    cdef object cache
    cdef bint settled       # there is nothing left to move, or it cannot be
    cdef bint moving        # a thread is at it
    cdef size_t asked       # keys that were looked for in blocks
    cdef BlockTable next_blocks  # what is being made; None: nothing is
    cdef uint32_t next      # the block that is moved next
    cdef object __weakref__
    cdef int after(self, size_t keys, bint loaded, FileMap map, Block index) except -1
    cdef bint may_move(self)
    cdef bint due(self, bint loaded)
    cdef int begin(self, FileMap map) except -1
    cdef int move(self, size_t records, Block index) except -1
    cdef int finish(self) except -1
