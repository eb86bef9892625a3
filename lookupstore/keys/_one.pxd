from libc.stddef cimport size_t
from libc.stdint cimport int64_t, uint8_t, uint64_t


# What became of a key.
cdef enum Outcome:
    WRITTEN
    NO_KEY       # no key holds these values
    OTHER        # values that only `KeySchema` knows
    NO_ROOM      # the key may need more bytes


# How a Python value becomes the bytes of a field.
cdef enum Form:
    FORM_OTHER
    FORM_SIGNED
    FORM_UNSIGNED
    FORM_BOOL
    FORM_FLOAT
    FORM_DECIMAL
    FORM_DATE
    FORM_TIME
    FORM_TIMESTAMP
    FORM_ZONED
    FORM_DURATION
    FORM_RAW
    FORM_TEXT
    FORM_BINARY


cdef struct Field:
    Form form
    size_t width
    bint nullable
    bint last
    int64_t least    # of signed numbers
    uint64_t most
    int64_t ticks    # in a second; of a date, in a day
    int scale        # of decimals


cdef class KeyEncoder:
    cdef Field *fields
    cdef size_t count
    cdef bint single_binary
    cdef readonly size_t width    # bytes of each key, 0 if they differ

    cpdef object encode(self, object key)
    cdef Outcome put(self, object key, uint8_t *out, size_t room, size_t *size) except? OTHER
