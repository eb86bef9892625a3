from libc.stddef cimport size_t
from libc.stdint cimport uint8_t, uint32_t

cdef extern from *:
    """
    /* Bytes of a file that are read from the disk at a time if all of it is read. */
    #define LOOKUPSTORE_POPULATED ((size_t)4 << 20)
    """
    const size_t POPULATED "LOOKUPSTORE_POPULATED"


cdef class FileMap:
    cdef void *map
    cdef size_t size
    cdef uint32_t end  # last bytes of the file
    cdef const uint8_t *bytes(self) noexcept
    cdef void populate_some(self, size_t offset, size_t size) noexcept
    cdef bint map_all(self, here) noexcept
    cdef void ahead_of(self, size_t offset, size_t size) noexcept
    cdef bint whole(self) noexcept
