from libc.stddef cimport size_t
from libc.stdint cimport uint8_t, uint32_t, uint64_t

from lookupstore.arrow._binary cimport ls_column, ls_slice, ls_status


cdef extern from "ls_filter.h":
    ctypedef enum ls_filter_kind:
        LS_FILTER_NONE
        LS_FILTER_SPLIT_BLOCK
        LS_FILTER_PAIMON
        LS_FILTER_WORDS
    ctypedef struct ls_filter:
        ls_filter_kind kind
        const uint8_t *bits
        uint64_t size
        uint32_t hashes
    int ls_filter_test(const ls_filter *filter, ls_slice key) noexcept nogil
    int ls_filter_test_hashed(
        const ls_filter *filter, ls_slice key, uint64_t hash) noexcept nogil


cdef class Filter:
    cdef readonly object source
    cdef readonly str kind
    cdef ls_filter filter
