from libc.stddef cimport size_t
from libc.stdint cimport uint8_t, uint32_t, uint64_t

from lookupstore.arrow._binary cimport ls_status
from lookupstore.sst._block cimport Block, Handles
from lookupstore.sst._frames cimport MappedBlocks, MappedFrames
from lookupstore.sst._map cimport FileMap
from lookupstore.sst._table cimport BlockTable, FileTable, Memory, ReadyBlock, ls_ready


# Maximum number of blocks that are decoded at a time for one call.
cdef enum:
    GROUP = 256


cdef class DataBlocks:
    cdef Block index
    cdef readonly FileTable file
    cdef object load
    cdef readonly FileMap map
    cdef object check
    cdef object fill
    cdef object is_here
    cdef object drop_scattered
    cdef object is_cached
    cdef Handles handles      # of the data blocks; None: only `load` knows where they are
    cdef readonly size_t records  # of the file; 0: not known
    cdef MappedFrames frames  # None, as is the next: `load` reads all blocks
    cdef MappedBlocks plain
    cdef readonly size_t blocks_read       # number of blocks that were read and checked
    cdef readonly size_t bytes_read        # size of these blocks in the file, without trailers

    cdef bint stays(self)
    cdef void ahead(self, const uint32_t *numbers, size_t count) noexcept
    cdef bint may_read(self, size_t keys) noexcept
    cdef int read_whole(self, size_t keys) except -1
    cdef bint may_settle(self) except -1
    cdef void count_read(self, size_t number) noexcept
    cdef bint makes_slots(self, BlockTable table) except -1
    cdef bint check_block(
        self, BlockTable table, size_t number, uint8_t call, ls_ready *ready) except -1
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
    cdef int check_table(self, BlockTable table) except -1
    cdef int fail_at(self, BlockTable table, uint64_t offset, ls_status status) except -1
