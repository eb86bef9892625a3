from libc.stddef cimport size_t
from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t

from lookupstore.arrow._binary cimport ls_column, ls_slice, ls_status
from lookupstore.sst._layer cimport Filters, ls_batch_counts, ls_batch_files, ls_batch_item


cdef class Scratch:
    cdef size_t length          # number of keys
    cdef ls_batch_item *items
    cdef uint64_t *hashes


cdef class KeyStretch:
    cdef Filters filters
    cdef ls_batch_counts *ruled_out  # counts of these filters for the stretch
    cdef size_t most            # maximum number of keys if blocks stay
    cdef size_t room            # number of keys that fit into the memory
    cdef Scratch scratch        # owner of that memory
    cdef size_t start, end      # bounds of the stretch among all keys
    cdef uint64_t *hashes       # hashes of its keys; NULL: the column has them
    cdef ls_batch_item *items   # candidates
    cdef size_t count           # number of candidates
    cdef ls_column keys         # keys of the candidates
    cdef uint8_t *data
    cdef int64_t *offsets
    cdef uint32_t *origins      # position of each candidate among all keys
    cdef ls_slice *found        # answer of a run to each candidate
    cdef size_t next            # next candidate whose answer is to be put among those of a piece

    cdef int grow(self, size_t length, size_t files, bint hashed) except -1
    cdef ls_status begin(
        self, const ls_batch_files *files, const ls_column *keys, const uint32_t *places,
        size_t start, size_t length, size_t *bad) noexcept nogil
    cdef bint take_keys(self, const ls_column *keys) noexcept nogil
    cdef void drop_keys(self) noexcept nogil
    cdef bint put_answers(
        self, size_t limit, size_t first, const uint8_t *deleted, ls_slice *answers,
        int *gone) noexcept nogil
