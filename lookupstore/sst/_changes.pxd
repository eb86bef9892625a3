from libc.stddef cimport size_t
from libc.stdint cimport uint8_t, uint32_t, uint64_t

from lookupstore.arrow._binary cimport ls_status
from lookupstore.sst._table cimport Memory, ls_places


cdef extern from "ls_changes.h":
    enum:
        LS_CHANGES_RUNS
    uint64_t LS_CHANGES_END
    ctypedef struct ls_changes:
        ls_places table
        uint32_t count
        const uint8_t **data
        uint64_t *sizes
    ls_status ls_changes_add(
        ls_changes *changes, uint32_t run, uint64_t offset, size_t size,
        ls_places *file) noexcept nogil


cdef class Changes:
    cdef ls_changes changes
    cdef Memory memory      # memory of the table
    cdef readonly list runs  # their data blocks, the newest first
    cdef list maps           # maps to which offsets refer
