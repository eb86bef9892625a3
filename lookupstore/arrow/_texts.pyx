"""Whether texts are UTF-8, without the GIL."""

from lookupstore.arrow._binary cimport LS_BAD_COLUMN, LS_OK, BinaryColumn, ls_column, ls_status


cdef extern from "ls_text.h":
    ls_status ls_texts_check(const ls_column *texts, size_t *bad) noexcept nogil


def first_not_utf8(values):
    """Return the index of the first value of a string array that is not UTF-8; -1: all are."""
    cdef BinaryColumn column = BinaryColumn(values, "texts")
    cdef size_t bad = 0
    cdef ls_status status
    with nogil:
        status = ls_texts_check(&column.column, &bad)
    if status == LS_BAD_COLUMN:
        raise ValueError(f"texts[{bad}]: the Arrow offsets point outside their data buffer")
    return -1 if status == LS_OK else bad
