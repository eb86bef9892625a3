from libc.stddef cimport size_t
from libc.stdint cimport uint8_t

from lookupstore.sst._block cimport RecordBuilder


cdef extern from "ls_load.h":
    enum:
        LS_TRAILER
    ctypedef struct ls_load_block:
        size_t start
        size_t size
        size_t last_key
        size_t last_key_size
    ctypedef struct ls_load:
        uint8_t *data
        size_t capacity
        size_t size
        ls_load_block *blocks
        size_t count
        size_t room


cdef class BlockLoad:
    cdef ls_load load
    cdef int reserve(self, size_t capacity) except -1
    cdef int reserve_block(self) except -1


cdef class LoadBuilder(RecordBuilder):
    cdef BlockLoad load
    cdef size_t most      # number of bytes with which a load ends
    cdef size_t expected  # number of bytes that the load is expected to need
