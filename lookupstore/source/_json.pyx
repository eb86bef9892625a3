"""The depth of JSON and the length of its texts, without the GIL."""

cimport cython
from libc.stdint cimport uint8_t, uint64_t

from lookupstore.arrow._binary cimport (
    LS_BAD_ROW, LS_OK, LS_TOO_LARGE, ls_slice, ls_status, bytes_of
)


cdef extern from "ls_json.h":
    ctypedef struct ls_json:
        size_t most_depth
        size_t most_text
        size_t depth
        size_t text
        uint64_t in_text
        uint8_t escaped
    ls_status ls_json_move(
        ls_json *json, const uint8_t *data, size_t size, size_t *bad
    ) noexcept nogil
    size_t ls_json_open_value(const uint8_t *data, size_t size) noexcept nogil


@cython.final
@cython.auto_pickle(False)
cdef class JsonShape:
    """The depth and the texts of JSON that is passed in blocks.

    Args:
        most_depth: Maximum number of open brackets, at least 1.
        most_text: Maximum size of a text in bytes, at least 64.
    """

    cdef ls_json json
    cdef ls_status status

    def __init__(self, size_t most_depth, size_t most_text):
        self.json.most_depth = most_depth
        self.json.most_text = most_text
        self.json.depth = self.json.text = 0
        self.json.in_text = self.json.escaped = 0
        self.status = LS_OK

    def move(self, bytes block not None):
        """Process a block; return the offset at which a limit is exceeded, -1 if there is none.

        The limits are those of the depth and of the size of a text. Do not call it after an excess.
        """
        cdef ls_slice text = bytes_of(block)
        cdef size_t bad = 0
        with nogil:
            self.status = ls_json_move(&self.json, text.data, text.size, &bad)
        if self.status == LS_OK:
            return -1
        return bad

    @property
    def is_too_deep(self):
        """Return whether too many brackets are open."""
        return self.status == LS_BAD_ROW

    @property
    def is_too_long(self):
        """Return whether a text has too many bytes."""
        return self.status == LS_TOO_LARGE


def open_value(bytes text not None):
    """Return the offset of the outermost value that is open at the end of a text.

    The text must begin outside of values. If no value is open, the result is the size of the text.
    """
    cdef ls_slice given = bytes_of(text)
    cdef size_t start
    with nogil:
        start = ls_json_open_value(given.data, given.size)
    return start
