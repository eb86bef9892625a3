"""Where rows of CSV end, without the GIL."""

cimport cython
from libc.stdint cimport uint8_t

from lookupstore.arrow._binary cimport LS_OK, ls_slice, ls_status, bytes_of


cdef extern from "ls_csv.h":
    ctypedef enum ls_csv_state:
        LS_CSV_PLAIN
        LS_CSV_QUOTED
        LS_CSV_CLOSED
    ctypedef struct ls_csv:
        uint8_t separator
        uint8_t before
        ls_csv_state state
        size_t field
    ls_status ls_csv_move(ls_csv *csv, const uint8_t *data, size_t size, size_t *end) noexcept nogil


@cython.final
@cython.auto_pickle(False)
cdef class RowEnds:
    """The ends of rows in text that comes in blocks, by the dialect of Arrow's parser."""

    cdef ls_csv csv
    cdef bint wrong

    def __init__(self, str separator not None):
        self.csv.separator = ord(separator)
        self.csv.before = b"\n"
        self.csv.state = LS_CSV_PLAIN
        self.csv.field = 0

    def move(self, bytes block not None):
        """Move on over a block; return where its last complete row ends, 0 if none does."""
        cdef ls_slice text = bytes_of(block)
        cdef size_t end = 0
        cdef ls_status status
        with nogil:
            status = ls_csv_move(&self.csv, text.data, text.size, &end)
        self.wrong = status != LS_OK
        return end

    @property
    def is_wrong(self):
        """Return whether something follows a closing quote: no block may come after that."""
        return self.wrong

    @property
    def is_open(self):
        """Return whether what comes next is within quotes."""
        return self.csv.state == LS_CSV_QUOTED

    @property
    def field_bytes(self):
        """Return how many bytes of the field at hand there are by now, with its quotes."""
        return self.csv.field
