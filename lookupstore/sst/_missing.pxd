from libc.stddef cimport size_t
from libc.stdint cimport uint8_t, uint32_t

from lookupstore.arrow._binary cimport ls_column, ls_slice
from lookupstore.sst._layer cimport Layer, ls_batch_item


cdef inline size_t keys_like(size_t count, size_t piece, size_t length) noexcept nogil:
    """Return `count`, a number of keys of a piece, scaled to all `length` keys of the call."""
    return count if piece == 0 else <size_t>(<double>length * count / piece)


cdef class Part:
    cdef MissingBlocks missing
    cdef ls_batch_item *items
    cdef size_t count
    cdef object thread          # None: there is no thread
    cdef object error

    cdef int begin(self) except -1
    cdef int wait(self) except -1
    cdef int end(self) except -1


cdef class MissingBlocks:
    cdef Layer layer
    cdef list tables            # tables of the files
    cdef list arenas            # copies of values whose blocks have been freed
    cdef uint8_t call           # number of the call
    cdef size_t length, piece   # number of keys of the call, and of the piece
    cdef const ls_column *keys
    cdef size_t first           # number of the key of the first answer
    cdef const uint8_t *deleted  # for a run: target of the answer at a tombstone
    cdef ls_slice *answers
    cdef ls_batch_item *items   # file by file, in the order of the blocks
    cdef size_t count           # number of items

    cdef int take(self, ls_batch_item *items, size_t *count) except -1
    cdef int visit(self) except -1
    cdef int visit_file(self, ls_batch_item *items, size_t count) except -1
    cdef int visit_items(self, ls_batch_item *items, size_t count) except -1
    cdef int stage(self, ls_batch_item *items, size_t count) except -1
