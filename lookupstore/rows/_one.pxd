from libc.stddef cimport size_t
from libc.stdint cimport int64_t, uint8_t


# How the bytes of a column become a Python value.
cdef enum Cell:
    CELL_OTHER
    CELL_NULL
    CELL_BOOL
    CELL_INT8
    CELL_INT16
    CELL_INT32
    CELL_INT64
    CELL_UINT8
    CELL_UINT16
    CELL_UINT32
    CELL_UINT64
    CELL_FLOAT
    CELL_DOUBLE
    CELL_TEXT
    CELL_BINARY
    CELL_FIXED
    CELL_DATE32
    CELL_DATE64
    CELL_TIMESTAMP
    CELL_DECIMAL


cdef struct Place:
    Cell cell
    size_t offset
    size_t width      # 0 of a variable column
    bint variable
    bint follows      # another variable column is before this one
    size_t before     # its offset
    bint may_be_null
    size_t bit
    int64_t ticks     # in a second


cdef class RowDecoder:
    cdef Place *places
    cdef size_t count
    cdef tuple names
    cdef list helpers           # of each column: a time zone, or the scale of decimals as text
    cdef size_t fixed_size
    cdef bint varies
    cdef size_t last
    #: Columns whose values are None until `RowSchema.unpack` has decoded them.
    cdef readonly list others

    cdef dict decode_from(self, const uint8_t *row, size_t size)
    cdef object value(self, const Place *place, size_t i, const uint8_t *data, size_t size)
    cpdef dict decode(self, bytes row)
