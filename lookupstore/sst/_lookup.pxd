from libc.stddef cimport size_t
from libc.stdint cimport uint8_t, uint32_t, uint64_t

from lookupstore.arrow._binary cimport ls_slice, ls_status
from lookupstore.sst._block cimport Block, Handles, ls_block, ls_order
from lookupstore.sst._filter cimport Filter
from lookupstore.sst._frames cimport MappedBlocks, MappedFrames
from lookupstore.sst._map cimport FileMap
from lookupstore.sst._table cimport BlockTable, FileTable, Memory, ReadyBlock, ls_ready


cdef extern from "ls_fences.h":
    ctypedef struct ls_fence_node:
        pass
    ctypedef struct ls_fence:
        pass
    ctypedef struct ls_fences:
        const ls_block *index
        ls_order order
        ls_fence_node *nodes
        ls_fence *fences
        uint32_t *starts
        size_t node_count
        size_t fence_count
        size_t start_count
        int repeats
        const ls_block *rows
        ls_order row_order


# Maximum number of blocks that are decoded at a time for one call.
cdef enum:
    GROUP = 256


cdef class Lookup:
    cdef readonly Block index
    cdef Block sortable  # None: `index` itself is searched
    cdef readonly Filter filter
    cdef FileTable file
    cdef object load
    cdef readonly FileMap map
    cdef object check
    cdef object fill
    cdef object is_here
    cdef object drop_scattered
    cdef object is_cached
    cdef Handles handles      # of the data blocks; None: only `load` knows where they are
    cdef size_t records       # of the file; 0: not known
    cdef MappedFrames frames  # None, as is the next: `load` reads all blocks
    cdef MappedBlocks plain
    cdef ls_fences fences
    cdef readonly size_t filter_negatives  # number of keys of batches that the filter ruled out
    cdef readonly size_t blocks_read       # number of blocks that were read and checked
    cdef readonly size_t bytes_read        # size of these blocks in the file, without trailers
    cdef readonly size_t block_uses        # number of keys that were looked up in a block

    cdef object find_one(self, ls_slice slice, object default, bint copied, ls_slice *value)
    cdef object find_now(self, ls_slice slice, object default, bint copied, ls_slice *value)
    cdef bint stays(self)
    cdef bint may_read(self, size_t keys) noexcept
    cdef int read_whole(self, size_t keys) except -1
    cdef void ahead(self, const uint32_t *numbers, size_t count) noexcept
    cdef int check_index(self, ls_status status) except -1
    cdef void count_read(self, size_t number) noexcept
    cdef bint makes_slots(self, BlockTable table) except -1
    cdef ReadyBlock ready_block(self, BlockTable table, size_t number)
    cdef ReadyBlock made_ready(self, BlockTable table, size_t number)
    cdef object visit(self, BlockTable table, size_t number, ls_ready *ready)
    cdef object visit_loaded(self, BlockTable table, size_t number, Block block, ls_ready *ready)
    cdef size_t check_some(
        self, BlockTable table, const uint32_t *numbers, const uint32_t *uses, size_t count,
        uint8_t call, ls_ready *ready, list owners) except 0
    cdef size_t visit_some(
        self, BlockTable table, const uint32_t *numbers, const uint32_t *uses, size_t count,
        uint8_t call, ls_ready *ready, list owners) except 0
    cdef Memory with_slots(self, const uint32_t *uses, size_t count, ls_ready *ready)
    cdef int check_file(self) except -1
    cdef bint check_block(
        self, BlockTable table, size_t number, uint8_t call, ls_ready *ready) except -1
    cdef bint may_settle(self) except -1
    cdef int after(
        self, size_t keys, size_t call, size_t files, bint fits, bint loaded) except -1
    cdef int begin(self, size_t records) except -1
    cdef int add(self, size_t records) except -1
    cdef ls_status add_group(self, size_t records, size_t *added) except *
    cdef int check_table(self, BlockTable table) except -1
    cdef int fail_at(self, BlockTable table, uint64_t offset, ls_status status) except -1
