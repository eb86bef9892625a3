"""Record keys, hashed as Hudi does to spread inserts over files."""

from libc.stddef cimport size_t
from libc.stdint cimport int64_t

import numpy as np

from lookupstore.arrow._binary cimport LS_NULL, LS_OK, BinaryColumn, ls_column, ls_status


cdef extern from "ls_md5.h":
    ls_status ls_md5_numbers(
        const ls_column *keys, size_t start, size_t end, int64_t *numbers,
        size_t *bad) noexcept nogil


def md5_numbers(BinaryColumn keys not None):
    """Return the first 8 bytes of each key's MD5 as little-endian integers, int64."""
    cdef size_t count = keys.column.length, bad = 0
    cdef ls_status status
    numbers = np.empty(count, np.int64)
    cdef int64_t[::1] view = numbers
    if count == 0:
        return numbers
    with nogil:
        status = ls_md5_numbers(&keys.column, 0, count, &view[0], &bad)
    if status == LS_NULL:
        raise ValueError(f"keys[{bad}] is null; a record key is a string")
    if status != LS_OK:
        raise ValueError(f"keys[{bad}]: the Arrow offsets point outside their data buffer")
    return numbers
