"""Coordinates of columns and positions on curves: one C call per column, without the GIL."""

from libc.stddef cimport size_t
from libc.stdint cimport uint8_t, uint32_t, uint64_t

import numpy as np
import pyarrow as pa

from lookupstore.arrow._binary cimport (
    LS_OK,
    BinaryColumn,
    allocate,
    buffer_data,
    bytes_of,
    ls_column,
    ls_column_get,
    ls_slice,
    ls_status,
)


cdef extern from "ls_curve.h":
    enum: LS_CURVE_COLUMNS
    enum: LS_CURVE_BITS
    enum: LS_CURVE_REST
    ctypedef struct ls_boundaries:
        const ls_column *values
        const uint64_t *words
        ls_slice shared
        int whole
    ctypedef struct ls_span:
        uint64_t low
        uint64_t high
        unsigned bits
    ls_status ls_curve_words(const ls_column *values, size_t start, size_t count,
                             ls_slice shared, uint64_t *words) noexcept nogil
    ls_status ls_curve_ranks(const ls_boundaries *boundaries, const ls_column *values,
                             const uint32_t *of_interval, uint32_t *coordinates) noexcept nogil
    ls_status ls_curve_stretch(const ls_span *span, ls_slice shared, const ls_column *values,
                               uint32_t *coordinates) noexcept nogil
    void ls_curve_stretch_doubles(double low, double high, unsigned bits, const ls_column *values,
                                  uint32_t *coordinates) noexcept nogil
    ls_status ls_curve_rest(
        const ls_boundaries *boundaries, const ls_column *values, uint8_t *out) noexcept nogil
    size_t ls_curve_width(size_t columns, unsigned bits) noexcept nogil
    void ls_curve_zorder(const uint32_t *coordinates, size_t columns, unsigned bits,
                         size_t length, uint8_t *positions) noexcept nogil
    void ls_curve_hilbert(const uint32_t *coordinates, size_t columns, unsigned bits,
                          size_t length, uint8_t *positions) noexcept nogil


MOST_COLUMNS = LS_CURVE_COLUMNS


cdef int check(ls_status status) except -1:
    if status != LS_OK:
        raise ValueError("values: an Arrow array has offsets outside its data buffer")
    return 0


cdef size_t shared_size(ls_slice first, ls_slice last) noexcept:
    cdef size_t most = min(first.size, last.size), size = 0
    while size < most and first.data[size] == last.data[size]:
        size += 1
    return size


cdef class Boundaries:
    """Ascending values that divide a column into intervals, as bytes in their order."""

    cdef BinaryColumn column
    cdef ls_boundaries boundaries
    cdef object words

    def __cinit__(self, values):
        cdef BinaryColumn column = BinaryColumn(values, "boundaries")
        cdef size_t count = column.column.length
        cdef ls_slice first = ls_slice(NULL, 0), last = ls_slice(NULL, 0)
        if column.column.validity != NULL:
            raise ValueError("boundaries: one is null")
        if count > 0xFFFFFFFE:
            raise ValueError(f"boundaries: {count} of them; give at most {0xFFFFFFFE}")
        self.column = column
        words = self.words = np.empty(count, np.uint64)
        cdef uint64_t[::1] view = words
        self.boundaries.values = &column.column
        self.boundaries.words = NULL
        self.boundaries.shared.data = column.column.data
        self.boundaries.shared.size = 0
        self.boundaries.whole = column.column.offset_width == 0 and column.column.width <= 8
        if count == 0:
            return
        if not self.boundaries.whole:  # they ascend: both ends decide for all
            check(ls_column_get(&column.column, 0, &first))
            check(ls_column_get(&column.column, count - 1, &last))
            first.size = shared_size(first, last)
            self.boundaries.shared = first
        check(ls_curve_words(&column.column, 0, count, self.boundaries.shared, &view[0]))
        self.boundaries.words = &view[0]

    def __len__(self):
        return self.column.column.length

    @property
    def values(self):
        """The boundaries as an Arrow array."""
        return self.column.array

    def intervals(self, values):
        """Return the number of boundaries up to each value (uint32); 0 for a null."""
        result = np.empty(len(values), np.uint32)
        self._rank(values, NULL, result)
        return result

    def ranks(self, values, const uint32_t[::1] of_interval not None, uint32_t[::1] out not None):
        """Set the entry of `of_interval` for the interval of each value, 0 for a null."""
        if <size_t>of_interval.shape[0] != self.column.column.length + 1:
            intervals = self.column.column.length + 1
            raise ValueError(f"of_interval: {of_interval.shape[0]} for {intervals} intervals")
        self._rank(values, &of_interval[0], out)

    cdef int _rank(self, values, const uint32_t *of_interval, uint32_t[::1] out) except -1:
        cdef BinaryColumn column = self._column(values)
        cdef ls_status status = LS_OK
        check_length(out.shape[0], column)
        if column.column.length:
            with nogil:
                status = ls_curve_ranks(&self.boundaries, &column.column, of_interval, &out[0])
        return check(status)

    def rest(self, values):
        """Return a few bytes of each value, which order values as far as they differ in these."""
        cdef BinaryColumn column = self._column(values)
        cdef ls_status status
        data = allocate(column.column.length * LS_CURVE_REST)
        cdef uint8_t *out = <uint8_t *>buffer_data(data)
        with nogil:
            status = ls_curve_rest(&self.boundaries, &column.column, out)
        check(status)
        return pa.Array.from_buffers(
            pa.binary(LS_CURVE_REST), column.column.length, [None, data])

    cdef BinaryColumn _column(self, values):
        cdef BinaryColumn column = BinaryColumn(values, "values")
        cdef const ls_column *mine = &self.column.column
        if self.boundaries.whole and (
                column.column.offset_width != 0 or column.column.width != mine.width):
            raise ValueError(
                f"values: {column.array.type}, where the boundaries are {self.values.type}")
        return column


cdef int check_length(size_t room, BinaryColumn column) except -1:
    if room != column.column.length:
        raise ValueError(f"out: {room} numbers for {column.column.length} values")
    return 0


cdef int check_bits(unsigned bits) except -1:
    if not 2 <= bits <= LS_CURVE_BITS:
        raise ValueError(f"bits is {bits}; give 2 to {LS_CURVE_BITS}")
    return 0


def stretch(values, bytes low not None, bytes high not None, unsigned bits,
            uint32_t[::1] out not None):
    """Set the coordinate of each value by its position from `low` to `high`, 0 for a null."""
    cdef BinaryColumn column = BinaryColumn(values, "values")
    cdef BinaryColumn ends = BinaryColumn([low, high], "ends")
    cdef ls_slice shared = bytes_of(low), other = bytes_of(high)
    cdef uint64_t[2] words
    cdef ls_span span
    cdef ls_status status
    check_bits(bits)
    check_length(out.shape[0], column)
    if low > high:
        raise ValueError("low is greater than high")
    # All bytes of numbers of 8 bytes or less are used.
    shared.size = 0 if len(low) == len(high) <= 8 else shared_size(shared, other)
    check(ls_curve_words(&ends.column, 0, 2, shared, words))
    span.low, span.high, span.bits = words[0], words[1], bits
    if column.column.length == 0:
        return
    with nogil:
        status = ls_curve_stretch(&span, shared, &column.column, &out[0])
    check(status)


def stretch_doubles(values, double low, double high, unsigned bits, uint32_t[::1] out not None):
    """Do the same for doubles as bytes, by their numeric values; NaN has the last coordinate."""
    cdef BinaryColumn column = BinaryColumn(values, "values")
    check_bits(bits)
    check_length(out.shape[0], column)
    if not -np.inf < low <= high < np.inf:
        raise ValueError(f"low is {low}, high is {high}; give finite ones, the lower one first")
    if column.column.offset_width != 0 or column.column.width != 8:
        raise ValueError(f"values: {column.array.type}; give the bytes of doubles")
    if column.column.length == 0:
        return
    with nogil:
        ls_curve_stretch_doubles(low, high, bits, &column.column, &out[0])


def positions(const uint32_t[:, ::1] coordinates not None, unsigned bits, *, bint hilbert):
    """Return the position of each row on the Hilbert or the Z-order curve.

    Args:
        coordinates: Array with a row of coordinates per column, each less than 2**bits.

    Returns:
        fixed_size_binary, of 8 bytes unless the bits of all coordinates are more.
    """
    cdef size_t columns = coordinates.shape[0], length = coordinates.shape[1]
    if not 1 <= columns <= LS_CURVE_COLUMNS:
        raise ValueError(f"coordinates: {columns} columns; give 1 to {LS_CURVE_COLUMNS}")
    check_bits(bits)
    cdef size_t width = ls_curve_width(columns, bits)
    data = allocate(length * width)
    cdef uint8_t *out = <uint8_t *>buffer_data(data)
    if length:
        with nogil:
            if hilbert:
                ls_curve_hilbert(&coordinates[0, 0], columns, bits, length, out)
            else:
                ls_curve_zorder(&coordinates[0, 0], columns, bits, length, out)
    return pa.Array.from_buffers(pa.binary(width), length, [None, data])
