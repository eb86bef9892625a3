"""A hash table of record keys, in which many other keys are looked up."""

from libc.stddef cimport size_t
from libc.stdint cimport int64_t, uint32_t, uint64_t

import numpy as np

from lookupstore.arrow._binary cimport LS_OK, BinaryColumn, ls_column, ls_status


cdef extern from "ls_key_table.h":
    ctypedef struct ls_key_table:
        ls_column keys
        uint64_t *slots
        size_t mask
        uint64_t *seen
    size_t LS_KEY_TABLE_MOST_KEYS
    size_t ls_key_table_slots(size_t keys) noexcept nogil
    size_t ls_key_table_words(size_t slots) noexcept nogil
    ls_status ls_key_table_fill(
        const ls_key_table *table, uint32_t *first, size_t *different, size_t *bad) noexcept nogil
    ls_status ls_key_table_find(
        const ls_key_table *table, const ls_column *asked, int64_t *rows, size_t *bad
    ) noexcept nogil


cdef class KeyTable:
    """A hash table of the first row of each key of a column.

    Args:
        keys: Column of keys; nulls are not in the table.

    Raises:
        ValueError: If there are too many keys.
    """

    cdef BinaryColumn keys  # they own the memory to which `table` points
    cdef object slots, seen
    cdef ls_key_table table
    #: Row of the first occurrence of each key of the column, uint32; None: no key is repeated.
    cdef readonly object first

    def __cinit__(self, BinaryColumn keys not None):
        cdef size_t count = keys.column.length, different = 0, bad = 0
        cdef ls_status status
        cdef uint32_t[::1] first
        cdef uint64_t[::1] slots, seen
        if count > LS_KEY_TABLE_MOST_KEYS:
            raise ValueError(f"{count} keys; a table takes at most {LS_KEY_TABLE_MOST_KEYS}")
        self.keys = keys
        self.slots = np.zeros(ls_key_table_slots(count), np.uint64)
        slots = self.slots
        self.seen = np.zeros(ls_key_table_words(slots.shape[0]), np.uint64)
        seen = self.seen
        self.table.keys = keys.column
        self.table.slots = &slots[0]
        self.table.mask = slots.shape[0] - 1
        self.table.seen = &seen[0]
        if count == 0:
            return
        rows = np.empty(count, np.uint32)
        first = rows
        with nogil:
            status = ls_key_table_fill(&self.table, &first[0], &different, &bad)
        check(status, bad)
        if different + keys.array.null_count < count:
            self.first = rows

    def find(self, BinaryColumn asked not None):
        """Return the row of each key, int64; -1 for a missing key or a null."""
        cdef size_t count = asked.column.length, bad = 0
        cdef ls_status status
        cdef int64_t[::1] view
        rows = np.empty(count, np.int64)
        if count == 0:
            return rows
        view = rows
        with nogil:
            status = ls_key_table_find(&self.table, &asked.column, &view[0], &bad)
        check(status, bad)
        return rows


cdef int check(ls_status status, size_t bad) except -1:
    if status != LS_OK:
        raise ValueError(f"keys[{bad}]: the Arrow offsets point outside their data buffer")
    return 0
