from libc.stddef cimport size_t
from libc.stdint cimport int64_t, uint8_t, uint64_t


# Results of the encoding of a key.
cdef enum Outcome:
    WRITTEN
    NO_KEY       # no key has these values
    OTHER        # values that only `KeySchema` can encode
    NO_ROOM      # the key may need more bytes than there is room for


# Encodings of a Python value as the bytes of a field.
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
    int64_t least    # least value of signed numbers
    uint64_t most
    int64_t ticks    # ticks in a second; for a date, in a day
    int scale        # scale of decimals


cdef class KeyEncoder:
    cdef Field *fields
    cdef size_t count
    cdef bint single_binary
    cdef readonly size_t width    # size of every key in bytes, 0 if sizes differ

    cpdef object encode(self, object key)
    cdef Outcome put(self, object key, uint8_t *out, size_t room, size_t *size) except? OTHER
