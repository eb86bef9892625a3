from libc.stddef cimport size_t
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t, uintptr_t

cdef extern from "ls_status.h":
    ctypedef enum ls_status:
        LS_OK
        LS_TRUNCATED
        LS_BAD_VARINT
        LS_BAD_HEADER
        LS_BAD_POSITION
        LS_BAD_RECORD
        LS_BAD_ORDER
        LS_BAD_KEY
        LS_BAD_ROW
        LS_OUT_OF_ORDER
        LS_REPEATED
        LS_NULL
        LS_BAD_COLUMN
        LS_TOO_LARGE
        LS_NO_SPACE
        LS_BLOCK_FULL

cdef extern from "ls_bytes.h":
    ctypedef struct ls_slice:
        const uint8_t *data
        size_t size
    ls_status ls_get_varint64(
        const uint8_t **cursor, const uint8_t *end, uint64_t *value) noexcept nogil

cdef extern from "ls_column.h":
    ctypedef struct ls_column:
        const uint8_t *data
        size_t data_size
        const void *offsets
        int offset_width
        size_t width
        size_t length
        const uint8_t *validity
        size_t validity_offset
        const uint64_t *hashes
    int ls_column_is_valid(const ls_column *column, size_t i) noexcept nogil
    ls_status ls_column_get(const ls_column *column, size_t i, ls_slice *value) noexcept nogil


cdef ls_slice bytes_of(object data) except *
cdef object allocate(size_t size)
cdef int prefer_huge_pages(object buffer) except -1


cdef class BinaryColumn:
    cdef readonly object array  # the pyarrow array, which owns every buffer below
    cdef object hashes          # owner of `column.hashes`; None: there are no hashes
    cdef ls_column column

cdef inline const uint8_t *buffer_data(object buffer) except? NULL:
    """The first byte of a pyarrow Buffer; NULL for None (no buffer)."""
    if buffer is None:
        return NULL
    return <const uint8_t *><uintptr_t>buffer.address
