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
    CACHE_LINE = 64  # size of a bucket of slots or places in bytes
    # Places, and a file that is read at once, may use this part of the memory of the process: one
    # of PART_OF_MEMORY parts.
    PART_OF_MEMORY = 4


cdef class Account:
    cdef public size_t capacity
    cdef public size_t nbytes
    cdef public size_t misses
    cdef size_t passed  # bytes not admitted since this turn began
    cdef uint8_t turn   # number of the turn, from 1

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
        uint32_t unchecked
    uint32_t ls_places_buckets(uint64_t records) noexcept nogil
    ls_status ls_places_add(
        ls_places *places, ls_slice before, uint64_t offset, size_t size,
        uint64_t *records) noexcept nogil
    bint ls_places_unchecked(const ls_places *places) noexcept nogil
    void ls_places_trust(ls_places *places) noexcept nogil
    ls_status ls_places_get(
        const ls_places *places, ls_slice key, uint64_t hash, ls_slice *value,
        uint64_t *bad) noexcept nogil


cdef size_t places_size(size_t records) noexcept


cdef class Memory:
    cdef char *start
    cdef size_t size


cdef class Zeros:
    cdef char *map
    cdef char *start
    cdef size_t mapped
    cdef size_t size    # size from `start` on


cdef class Places:
    cdef ls_places places
    cdef Zeros memory   # memory that contains its buckets; None: they are in `table`
    cdef FileMap table  # shared file with its buckets; None: they are in memory
    cdef object is_cached  # whether that file was in memory when it was opened; None: unknown
    cdef size_t size    # size of the buckets
    cdef readonly size_t records  # number of records that fit
    cdef readonly FileMap map    # map to which offsets refer
    cdef int take_part(self) except -1
    cdef void map_all(self) noexcept
    cdef bint whole(self) noexcept


cdef class ReadyBlock:
    cdef readonly Block block
    cdef Memory memory
    cdef ls_ready ready


cdef class BlockTable:
    cdef ls_ready *ready    # one for each block of the file
    cdef uint32_t *pins     # number of users of each block; NULL if all blocks stay
    cdef uint8_t *used      # whether a block has been used since the last check of the cache
    cdef readonly size_t count
    cdef uint8_t *passed    # turn of the cache when each block was last not admitted
    cdef bint evictable     # some block is or was evictable
    cdef readonly Places places  # places of all records of the file; None: blocks are searched
    cdef list blocks        # ReadyBlock or None
    cdef object cache
    cdef Account account  # account of the cache
    cdef Memory chunk
    cdef size_t used_of_chunk
    cdef uint8_t *seen      # the call that last looked into each block, and checked it; 0: none
    cdef size_t usual_count     # records of a block, about; 0: not known yet
    cdef size_t ready_blocks    # that are there now
    cdef size_t ready_records, ready_bytes  # of all that have been put
    cdef bint has_many(self) noexcept
    cdef bint keeps(self, size_t number, size_t size) except -1
    cdef bint stays(self, size_t number, uint8_t call) noexcept
    cdef ReadyBlock put(self, size_t number, Block block)


cdef class FileTable:
    cdef readonly BlockTable blocks
    cdef object cache
    cdef object shared      # shared.SharedPlaces; None: places are not shared
    cdef bint settled       # there are places, or there will be none
    cdef bint busy          # a thread adds records, or checks places
    cdef bint is_read       # all of it was read from the disk at once
    cdef bint checking      # the places are of another process, and not all are checked
    cdef size_t owed        # bytes of them that are to be checked
    cdef size_t asked       # keys that were looked for
    cdef size_t called      # keys of the calls that looked for them, here and in other files
    cdef size_t next_look   # number of such keys when shared places are looked for again
    cdef Places made        # what is being filled; None: nothing is
    cdef uint32_t next      # the block whose records are added next
    cdef size_t populated   # where the bytes end that were read for it and those behind it
    cdef object __weakref__
    cdef int seek(self, size_t keys, FileMap map) except -1
    cdef int check(self, size_t keys) except -1
    cdef bint check_some(self, size_t nbytes) except -1
    cdef int compare(self, size_t nbytes) except -1
    cdef int look_again(self) except -1
    cdef int begin(self, FileMap map, size_t records) except -1
    cdef int finish(self) except -1
    cdef int use(self, Places places, bint checked) except -1
    cdef int give_up(self) except -1
