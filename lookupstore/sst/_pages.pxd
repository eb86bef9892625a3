from libc.stddef cimport size_t

from lookupstore.sst._layer cimport Asks, ls_batch_files, ls_batch_item


cdef bint read_ahead(
    const ls_batch_files *files, const ls_batch_item *items, size_t count,
    Asks *asks, int most_unasked) noexcept nogil
