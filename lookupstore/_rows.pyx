"""Columns of a batch to and from row bytes: one C call a column, without the GIL."""

cimport cython
from libc.stdint cimport (
    INT32_MAX, SIZE_MAX, int32_t, int64_t, uint8_t, uint32_t, uint64_t, uintptr_t,
)
from libc.string cimport memset

import pyarrow as pa

from lookupstore._arrow cimport (
    LS_BAD_ROW, LS_OK, LS_TOO_LARGE, BinaryColumn, allocate, ls_column, ls_status,
)


cdef extern from "ls_rows.h":
    ctypedef struct ls_row_target:
        uint8_t *data
        size_t stride
        const int64_t *offsets
        size_t length
    ctypedef struct ls_row_source:
        ls_column rows
        const uint8_t *zeros
        size_t fixed_size
        size_t bitmap_size
        size_t last
    ctypedef struct ls_list_shape:
        int counted
        size_t count
        size_t element_width
    ls_status ls_rows_add_sizes(const ls_column *values, int64_t *sizes) noexcept nogil
    ls_status ls_rows_offsets(
        int64_t *sizes, size_t length, size_t fixed_size, size_t *bad) noexcept nogil
    void ls_rows_clear(size_t fixed_size, ls_row_target *rows) noexcept nogil
    void ls_rows_write_nulls(
        const ls_column *values, size_t bit, ls_row_target *rows) noexcept nogil
    void ls_rows_write_fixed(
        const ls_column *values, size_t offset, ls_row_target *rows) noexcept nogil
    ls_status ls_rows_write_variable(
        const ls_column *values, size_t offset, size_t fixed_size, uint32_t *ends,
        ls_row_target *rows) noexcept nogil
    ls_status ls_rows_check(
        const ls_row_source *source, uint64_t *nulls, size_t *bad) noexcept nogil
    size_t ls_rows_read_validity(
        const ls_row_source *source, size_t bit, uint8_t *bitmap) noexcept nogil
    void ls_rows_read_fixed(
        const ls_row_source *source, size_t offset, size_t width, uint8_t *out) noexcept nogil
    ls_status ls_rows_measure(
        const ls_row_source *source, size_t before, size_t offset, int64_t *offsets,
        size_t *bad) noexcept nogil
    void ls_rows_read_variable(
        const ls_row_source *source, size_t before, const int64_t *offsets,
        uint8_t *out) noexcept nogil
    int ls_is_ascii(const uint8_t *data, size_t size) noexcept nogil
    void ls_narrow_offsets(const int64_t *offsets, size_t count, int32_t *out) noexcept nogil
    ls_status ls_lists_add_sizes(
        const ls_column *lists, const int64_t *offsets, const ls_column *elements,
        const ls_list_shape *shape, int64_t *sizes) noexcept nogil
    ls_status ls_lists_write(
        const ls_column *lists, const int64_t *offsets, const ls_column *elements,
        const ls_list_shape *shape, const int64_t *starts, uint8_t *out) noexcept nogil
    ls_status ls_lists_measure(
        const ls_column *lists, const ls_list_shape *shape, int64_t *offsets, size_t *bytes,
        size_t *bad) noexcept nogil
    void ls_lists_read(
        const ls_column *lists, const ls_list_shape *shape, const int64_t *offsets,
        uint8_t *elements, int64_t *element_offsets, uint8_t *validity) noexcept nogil


class BadRowError(Exception):
    """Say that the row or list numbered `args[0]` does not fit its layout."""


cdef inline void *writable(object buffer):
    return <void *><uintptr_t>buffer.address


cdef int check(ls_status status, size_t bad) except -1:
    if status == LS_OK:
        return 0
    if status == LS_BAD_ROW:
        raise BadRowError(bad)
    if status == LS_TOO_LARGE:
        raise ValueError("a row is too large: its values take more than 2**32 - 1 bytes")
    raise ValueError("an Arrow array has offsets that leave its data buffer")


cdef inline size_t or_no_column(object number):
    return SIZE_MAX if number is None else <size_t>number


def pack(list cells not None, list places not None, size_t length, size_t fixed_size):
    """Pack one row for each of `length` values of all `cells`.

    `cells` are fixed_size_binary arrays, or binary ones of any other kind for variable columns;
    `places` are (offset in the row, bit in the bitmap of nulls or None) for each. The result is
    fixed_size_binary if all cells are, otherwise large_binary.
    """
    cdef ls_status status = LS_OK
    cdef ls_row_target rows
    cdef BinaryColumn column
    cdef size_t offset
    cdef size_t bit
    cdef size_t i
    cdef size_t bad = 0
    cdef int64_t *sizes
    cdef uint32_t *ends = NULL
    columns = [BinaryColumn(values, "values") for values in cells]
    variable = []
    for column in columns:
        if column.column.length != length:
            raise ValueError(f"values: {column.column.length} values where {length} are needed")
        if column.column.offset_width != 0:
            variable.append(column)
    rows.length = length
    rows.stride = 0
    rows.offsets = NULL
    if variable:
        offsets = allocate((length + 1) * 8)
        sizes = <int64_t *>writable(offsets)
        with nogil:
            for i in range(length + 1):
                sizes[i] = fixed_size
        for column in variable:
            with nogil:
                status = ls_rows_add_sizes(&column.column, sizes + 1)
            check(status, 0)
        with nogil:
            status = ls_rows_offsets(sizes, length, fixed_size, &bad)
        check(status, bad)
        rows.offsets = sizes
        data = allocate(sizes[length])
        cursors = allocate(length * 4)
        ends = <uint32_t *>writable(cursors)
        memset(ends, 0, length * 4)
        result = pa.large_binary(), [None, offsets, data]
    else:
        rows.stride = fixed_size
        data = allocate(length * fixed_size)
        result = pa.binary(fixed_size), [None, data]
    rows.data = <uint8_t *>writable(data)
    with nogil:
        ls_rows_clear(fixed_size, &rows)
    for column, place in zip(columns, places, strict=True):
        offset = place[0]
        if place[1] is not None:
            bit = place[1]
            with nogil:
                ls_rows_write_nulls(&column.column, bit, &rows)
        if column.column.offset_width == 0:
            with nogil:
                ls_rows_write_fixed(&column.column, offset, &rows)
        else:
            with nogil:
                status = ls_rows_write_variable(&column.column, offset, fixed_size, ends, &rows)
            check(status, 0)
    return pa.Array.from_buffers(result[0], length, result[1])


@cython.final
@cython.auto_pickle(False)
cdef class Rows:
    """Hold rows that are known to have the size of their layout, and read columns from them.

    `fixed_size` is the size before the variable section, `bitmap_size` that of the bitmap of nulls
    in it, `last` the offset of the last variable column or None. Raises BadRowError.
    """

    cdef BinaryColumn column
    cdef ls_row_source source
    cdef bytes zeros
    cdef size_t length
    cdef uint64_t nulls  # which of the first 64 columns are null in some row
    cdef tuple missing   # bitmap of rows that are there, and how many are not; None: not asked yet

    def __init__(self, rows, size_t fixed_size, size_t bitmap_size, last):
        cdef ls_status status
        cdef size_t bad = 0
        self.column = BinaryColumn(rows, "rows")
        if self.column.column.offset_width == 4:
            self.column = BinaryColumn(self.column.array.cast(pa.large_binary()), "rows")
        self.length = self.column.column.length
        self.zeros = bytes(fixed_size)
        self.source.rows = self.column.column
        self.source.zeros = <const uint8_t *>self.zeros
        self.source.fixed_size = fixed_size
        self.source.bitmap_size = bitmap_size
        self.source.last = or_no_column(last)
        with nogil:
            status = ls_rows_check(&self.source, &self.nulls, &bad)
        check(status, bad)

    def __len__(self):
        return self.length

    cdef tuple validity(self, object bit):
        """Return the bitmap of values that are there (None: all are), and how many are not."""
        cdef size_t number = or_no_column(bit)
        if number < 64 and not self.nulls >> number & 1:
            bit, number = None, SIZE_MAX
        if bit is not None:
            return self.read_validity(number)
        if self.source.rows.validity == NULL:
            return None, 0
        if self.missing is None:  # the same for all columns that are null in no row
            self.missing = self.read_validity(SIZE_MAX)
        return self.missing

    cdef tuple read_validity(self, size_t bit):
        cdef uint8_t *bits
        cdef size_t nulls
        buffer = allocate((self.length + 7) // 8)
        bits = <uint8_t *>writable(buffer)
        with nogil:
            memset(bits, 0, (self.length + 7) // 8)
            nulls = ls_rows_read_validity(&self.source, bit, bits)
        return (buffer, nulls) if nulls else (None, 0)

    def read_fixed(self, size_t offset, size_t width, bit):
        """Return a column as fixed_size_binary(width), null where its bit or the row is."""
        cdef uint8_t *out
        validity, nulls = self.validity(bit)
        data = allocate(self.length * width)
        out = <uint8_t *>writable(data)
        with nogil:
            ls_rows_read_fixed(&self.source, offset, width, out)
        return pa.Array.from_buffers(pa.binary(width), self.length, [validity, data], nulls)

    def read_variable(self, size_t offset, before, bit, bint narrow):
        """Return a column as large_binary, or with `narrow` as binary if it fits that.

        `before` is the offset of the variable column before.
        """
        cdef ls_status status
        cdef size_t bad = 0
        cdef size_t previous = or_no_column(before)
        cdef int64_t *ends
        cdef int32_t *short_ends
        cdef uint8_t *out
        validity, nulls = self.validity(bit)
        offsets = allocate((self.length + 1) * 8)
        ends = <int64_t *>writable(offsets)
        with nogil:
            status = ls_rows_measure(&self.source, previous, offset, ends, &bad)
        check(status, bad)
        data = allocate(ends[self.length])
        out = <uint8_t *>writable(data)
        with nogil:
            ls_rows_read_variable(&self.source, previous, ends, out)
        if narrow and ends[self.length] <= INT32_MAX:
            narrowed = allocate((self.length + 1) * 4)
            short_ends = <int32_t *>writable(narrowed)
            with nogil:
                ls_narrow_offsets(ends, self.length + 1, short_ends)
            return pa.Array.from_buffers(
                pa.binary(), self.length, [validity, narrowed, data], nulls)
        return pa.Array.from_buffers(
            pa.large_binary(), self.length, [validity, offsets, data], nulls)


def is_ascii(data):
    """Return whether all bytes of a buffer are ASCII, and so UTF-8 wherever it is cut."""
    cdef const uint8_t *bytes = <const uint8_t *>writable(data)
    cdef size_t size = data.size
    cdef int answer
    with nogil:
        answer = ls_is_ascii(bytes, size)
    return bool(answer)


def pack_lists(lists, const int64_t[::1] offsets not None, elements, bint counted):
    """Pack lists of packed elements into large_binary, empty where `lists` is null.

    `lists` is a fixed_size_binary array that only says how many lists there are and which are
    null; list i is elements[offsets[i] - offsets[0] : offsets[i + 1] - offsets[0]].
    """
    cdef BinaryColumn column = BinaryColumn(lists, "lists")
    cdef BinaryColumn rows = BinaryColumn(elements, "elements")
    cdef ls_list_shape shape
    cdef ls_status status
    cdef size_t length = column.column.length
    cdef size_t bad = 0
    cdef int64_t *sizes
    cdef uint8_t *out
    if <size_t>offsets.shape[0] != length + 1:
        raise ValueError(f"{offsets.shape[0]} offsets for {length} lists")
    shape.counted = counted
    shape.count = 0
    shape.element_width = 0 if rows.column.offset_width else rows.column.width
    starts = allocate((length + 1) * 8)
    sizes = <int64_t *>writable(starts)
    with nogil:
        memset(sizes, 0, (length + 1) * 8)
        status = ls_lists_add_sizes(
            &column.column, &offsets[0], &rows.column, &shape, sizes + 1)
        if status == LS_OK:
            status = ls_rows_offsets(sizes, length, 0, &bad)
    check(status, bad)
    data = allocate(sizes[length])
    out = <uint8_t *>writable(data)
    with nogil:
        status = ls_lists_write(
            &column.column, &offsets[0], &rows.column, &shape, sizes, out)
    check(status, 0)
    return pa.Array.from_buffers(
        pa.large_binary(), length, [column.array.buffers()[0], starts, data],
        column.array.null_count, column.array.offset)


def split_lists(payloads, count, element_width):
    """Split packed lists into (offsets of the lists as int64, elements as packed rows).

    `count` is the number of elements of every list, or None if each says its own;
    `element_width` is the size of all elements, or None if they vary. A null list has no elements,
    or `count` null ones. Raises BadRowError.
    """
    cdef BinaryColumn column = BinaryColumn(payloads, "lists")
    cdef ls_list_shape shape
    cdef ls_status status
    cdef size_t length = column.column.length
    cdef size_t bad = 0
    cdef size_t total = 0
    cdef size_t elements
    cdef int64_t *numbers
    cdef int64_t *ends = NULL
    cdef uint8_t *out
    cdef uint8_t *bits = NULL
    shape.counted = count is None
    shape.count = 0 if count is None else count
    shape.element_width = 0 if element_width is None else element_width
    offsets = allocate((length + 1) * 8)
    numbers = <int64_t *>writable(offsets)
    with nogil:
        status = ls_lists_measure(&column.column, &shape, numbers, &total, &bad)
    check(status, bad)
    elements = numbers[length]
    data = allocate(total)
    out = <uint8_t *>writable(data)
    validity = None
    if count is not None and column.column.validity != NULL:
        validity = allocate((elements + 7) // 8)
        bits = <uint8_t *>writable(validity)
        memset(bits, 0, (elements + 7) // 8)
    if element_width is None:
        buffers = [validity, allocate((elements + 1) * 8), data]
        ends = <int64_t *>writable(buffers[1])
        kind = pa.large_binary()
    else:
        buffers = [validity, data]
        kind = pa.binary(element_width)
    with nogil:
        ls_lists_read(&column.column, &shape, numbers, out, ends, bits)
    rows = pa.Array.from_buffers(kind, elements, buffers)
    return pa.Array.from_buffers(pa.int64(), length + 1, [None, offsets]), rows
