from libc.stddef cimport size_t
from libc.stdint cimport uint32_t

from lookupstore.arrow._binary cimport ls_slice, ls_status
from lookupstore.sst._block cimport Block, ls_block, ls_order
from lookupstore.sst._data_blocks cimport DataBlocks
from lookupstore.sst._filter cimport Filter


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


cdef class Lookup:
    cdef readonly DataBlocks data
    cdef readonly Block index  # the index block of `data`
    cdef Block sortable  # None: `index` itself is searched
    cdef readonly Filter filter
    cdef ls_fences fences
    cdef readonly size_t filter_negatives  # number of keys of batches that the filter ruled out
    cdef readonly size_t block_uses        # number of keys that were looked up in a block

    cdef object find_one(self, ls_slice slice, object default, bint copied, ls_slice *value)
    cdef object find_now(self, ls_slice slice, object default, bint copied, ls_slice *value)
    cdef int check_index(self, ls_status status) except -1
