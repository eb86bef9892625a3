from libc.stddef cimport size_t
from libc.stdint cimport uint8_t, uint32_t, uint64_t

from lookupstore.arrow._binary cimport ls_column, ls_slice, ls_status
from lookupstore.sst._block cimport ls_order
from lookupstore.sst._changes cimport Changes, ls_changes
from lookupstore.sst._filter cimport ls_filter
from lookupstore.sst._lookup cimport ls_fences
from lookupstore.sst._table cimport ls_places, ls_ready


cdef extern from "ls_batch.h":
    ctypedef struct ls_batch_file:
        const ls_fences *fences
        const ls_ready *ready
        const ls_places *places
        const ls_changes *changes
        uint32_t *pins
        uint8_t *used
        size_t first
        uint32_t blocks
        int is_run
    ctypedef struct ls_batch_files:
        const ls_batch_file *files
        uint32_t count
        ls_order order
    ctypedef struct ls_batch_counts:
        uint64_t ruled_out
        uint64_t routed
        uint64_t changed
        int asked
    ctypedef struct ls_batch_item:
        uint64_t hash
        uint32_t index
        uint32_t file
        uint32_t block
    ls_status ls_batch_filter(
        const ls_filter *const *filters, const ls_batch_files *files, const ls_column *keys,
        const uint32_t *places, size_t start, size_t end, const uint64_t *hashes,
        ls_batch_item *items, size_t *count, ls_batch_counts *counts, size_t *bad) noexcept nogil
    ls_status ls_batch_search(
        const ls_batch_files *files, const ls_column *keys, ls_batch_item *items, size_t count,
        size_t first, const uint8_t *deleted, ls_slice *answers, size_t *left,
        size_t *bad) noexcept nogil
    uint32_t LS_SEARCHED


cdef extern from "ls_file_ranges.h":
    ctypedef struct ls_file_ranges:
        const ls_slice *firsts
        const ls_slice *lasts
        uint64_t *starts
        uint64_t *ends
        uint32_t *cells
        uint32_t count
        size_t shared
    void ls_file_ranges_build(ls_file_ranges *ranges) noexcept nogil
    void ls_file_ranges_numbers(
        const ls_file_ranges *ranges, const ls_column *keys, const uint32_t *places, size_t start,
        size_t end, uint64_t *numbers) noexcept nogil
    void ls_file_ranges_route(
        const ls_file_ranges *ranges, const uint64_t *numbers, const ls_column *keys,
        const uint32_t *places, size_t start, size_t end, uint32_t *owners) noexcept nogil
    enum:
        LS_RANGES_KEYS
        LS_RANGES_CELLS


# When the system is asked what is in memory.
cdef struct Asks:
    int unasked  # number of keys until it is asked again
    int apart    # value of `unasked` after it was asked last


cdef class Filters:
    cdef list owners
    cdef const ls_filter **each
    cdef bint has_gaps          # some filter lets all keys pass


cdef class FileRanges:
    cdef list keys              # first and last keys of all files
    cdef ls_slice *bounds       # these keys: all first ones, then all last ones
    cdef uint64_t *numbers      # 8 bytes of each, in that order
    cdef uint32_t *cells        # cells of the layers with several files
    cdef ls_file_ranges *each   # the ranges of the files of each layer
    cdef readonly size_t count  # number of layers
    cdef readonly size_t files  # number of all files


cdef class Layer:
    cdef readonly tuple lookups
    cdef list tables            # tables when this layer was made
    cdef object runs
    cdef object changes         # changes by bucket, or None: there are none
    cdef readonly FileRanges ranges  # by which the file of a key is chosen; None: by its hash
    cdef Layer newest           # None, or the layer that has replaced this one
    cdef ls_batch_files files
    cdef ls_batch_file *each    # the entries of `files`
    cdef Filters filters
    cdef size_t blocks          # number of blocks of all files
    cdef bint has_runs
    cdef bint has_pins          # blocks may be evicted
    cdef bint has_places        # some file has places
    cdef list caches            # caches of the files with evictable blocks
    cdef bint places_fit        # the places of all its files fit into memory
    cdef Asks asks              # of calls of few keys

    cdef Layer current(self)
    cdef bint all_ready(self)
    cdef bint all_placed(self, bint checked)
    cdef bint stays(self)
    cdef Changes changes_of(self, size_t file)
    cdef bint begin(self, size_t keys) except -1
    cdef int read_whole(self, size_t keys) except -1
