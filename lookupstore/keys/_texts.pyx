"""Convert columns of Python strings to Arrow in one pass over the objects."""

from libc.stdint cimport int64_t, uint8_t, uintptr_t
from libc.string cimport memcpy, memset

import pyarrow as pa

cdef extern from "Python.h":
    bint PyUnicode_Check(object value)
    const char *PyUnicode_AsUTF8AndSize(object value, Py_ssize_t *size) except NULL

# Number of bytes initially allocated for each text.
cdef enum:
    GUESS = 16


def text_array(list values not None, is_missing):
    """Return texts as an Arrow array, null for missing ones. None: a value is not a text.

    `is_missing` is called with each value that is neither a text nor None, and returns True for
    missing ones. The result is also None if no value is a text, or one is not UTF-8: Arrow does not
    accept a lone surrogate.
    """
    cdef size_t length = len(values), i = 0, room, used = 0, missing = 0
    cdef Py_ssize_t size = 0
    cdef const char *text
    data = pa.allocate_buffer(length * GUESS, resizable=True)
    ends = pa.allocate_buffer(8 * (length + 1))
    bits = pa.allocate_buffer((length + 7) // 8)
    room = data.size
    cdef uint8_t *out = <uint8_t *><uintptr_t>data.address
    cdef int64_t *end = <int64_t *><uintptr_t>ends.address
    cdef uint8_t *valid = <uint8_t *><uintptr_t>bits.address
    memset(valid, 0xFF, (length + 7) // 8)
    end[0] = 0
    for value in values:
        if i == length:
            return None  # `is_missing` has extended the list
        if PyUnicode_Check(value):
            try:
                text = PyUnicode_AsUTF8AndSize(value, &size)
            except UnicodeEncodeError:
                return None
            if used + <size_t>size > room:
                room = 2 * room + <size_t>size
                data.resize(room, shrink_to_fit=False)
                out = <uint8_t *><uintptr_t>data.address
            memcpy(out + used, text, size)
            used += size
        elif value is None or is_missing(value) is True:
            valid[i >> 3] &= <uint8_t>~(1 << (i & 7))
            missing += 1
        else:
            return None
        i += 1
        end[i] = used
    if i != length or missing == length:
        return None
    data.resize(used)
    return pa.Array.from_buffers(
        pa.large_string(), length, [bits if missing else None, ends, data], missing)
