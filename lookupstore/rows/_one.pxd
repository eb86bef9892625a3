from libc.stddef cimport size_t
from libc.stdint cimport int64_t, uint8_t


# Decodings of the bytes of a column as a Python value.
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
    CELL_HALF
    CELL_TIME
    CELL_DURATION
    CELL_NANOS
    CELL_INTERVAL
    CELL_UUID
    CELL_BOOL8
    CELL_STRUCT
    CELL_LIST
    CELL_FIXED_LIST
    CELL_MAP


cdef struct Place:
    Cell cell
    size_t offset
    size_t width      # 0 for a variable column
    bint variable
    bint follows      # another variable column precedes this one
    size_t before     # offset of that column
    bint may_be_null
    size_t bit
    int64_t ticks     # ticks in a second
    size_t count      # number of elements of a list of fixed size


cdef class RowDecoder:
    cdef Place *places
    cdef size_t count
    cdef tuple names
    # For each column: a time zone, the type of nanoseconds, the scale of decimals as text, or the
    # decoder of inner values.
    cdef list helpers
    cdef size_t fixed_size
    cdef bint varies
    cdef size_t last
    #: Names of columns whose values are None until `RowSchema.unpack` has decoded them.
    cdef readonly list others
    # Whether a column has nanoseconds, which Arrow converts faster for many rows at once.
    cdef bint has_nanos

    cdef bint fits(self, const uint8_t *row, size_t size) noexcept nogil
    cdef dict decode_from(self, const uint8_t *row, size_t size)
    cdef object column(self, size_t i, const uint8_t *row, size_t size)
    cdef object value(self, const Place *place, size_t i, const uint8_t *data, size_t size)
    cdef object elements(self, const Place *place, const uint8_t *data, size_t size)
    cdef object element(self, const uint8_t *row, size_t size, bint pair)
    cpdef dict decode(self, bytes row)
