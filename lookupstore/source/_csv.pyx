"""The ends of rows in CSV text, found without the GIL."""

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
        uint8_t quote
        int has_quotes
        uint8_t before
        ls_csv_state state
        size_t field
    ls_status ls_csv_move(ls_csv *csv, const uint8_t *data, size_t size, size_t *end) noexcept nogil


@cython.final
@cython.auto_pickle(False)
cdef class RowEnds:
    """The ends of rows in text that is passed in blocks, in the dialect of Arrow's parser.

    Args:
        separator: Character between fields.
        quote: Character around fields. None: No character is special.
    """

    cdef ls_csv csv
    cdef bint wrong

    def __init__(self, str separator not None, str quote='"'):
        self.csv.separator = ord(separator)
        self.csv.has_quotes = quote is not None
        self.csv.quote = 0 if quote is None else ord(quote)
        self.csv.before = b"\n"
        self.csv.state = LS_CSV_PLAIN
        self.csv.field = 0

    def move(self, bytes block not None):
        """Process a block; return the end of its last complete row, 0 if there is none."""
        cdef ls_slice text = bytes_of(block)
        cdef size_t end = 0
        cdef ls_status status
        with nogil:
            status = ls_csv_move(&self.csv, text.data, text.size, &end)
        self.wrong = status != LS_OK
        return end

    @property
    def is_wrong(self):
        """Return whether text follows a closing quote: `move` must not be called after that."""
        return self.wrong

    @property
    def is_open(self):
        """Return whether the text continues inside quotes."""
        return self.csv.state == LS_CSV_QUOTED

    @property
    def field_bytes(self):
        """Return the number of bytes of the unfinished field so far, including its quotes."""
        return self.csv.field
