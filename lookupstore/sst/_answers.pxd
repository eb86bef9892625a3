from libc.stddef cimport size_t
from libc.stdint cimport uint8_t, uint32_t

from lookupstore.arrow._binary cimport ls_slice


cdef class Answers:
    cdef size_t length
    cdef readonly size_t missing  # number of missing keys among those taken
    cdef uint8_t *present   # bitmap of the keys that are stored
    # For some files among others: the positions of their keys among all keys, and memory for the
    # answers to all keys, which is then passed to `take`. NULL: the files answer all keys, piece
    # after piece.
    cdef const uint32_t *places
    cdef ls_slice *whole
    # The file of each key in the layer, if the keys were chosen for these files by their filters.
    # NULL: the layer chooses the files.
    cdef const uint32_t *owners

    cdef int check_length(self, size_t length) except -1
    cdef int begin(self, batch) except -1
    cdef bint take(self, const ls_slice *answers, size_t start, size_t count) noexcept nogil
    cdef int prepare(self, const ls_slice *answers, size_t start, size_t count) except -1
    cdef size_t ahead(self, size_t needed, size_t end) noexcept
