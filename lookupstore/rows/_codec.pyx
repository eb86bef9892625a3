"""Pack columns of a batch as row bytes and unpack them, without the GIL."""

cimport cython
from libc.stdint cimport (
    INT32_MAX, SIZE_MAX, int32_t, int64_t, uint8_t, uint32_t, uintptr_t,
)
from libc.stdlib cimport calloc, free
from libc.string cimport memset

import pyarrow as pa

from lookupstore.arrow._binary cimport (
    LS_BAD_ROW, LS_NO_SPACE, LS_OK, LS_TOO_LARGE, BinaryColumn, allocate, ls_column, ls_slice,
    ls_status, prefer_huge_pages,
)
from lookupstore.sst._answers cimport Answers


cdef extern from "ls_rows.h":
    ctypedef struct ls_row_target:
        uint8_t *data
        size_t stride
        const int64_t *offsets
        size_t length
    ctypedef struct ls_row_source:
        const ls_slice *rows
        size_t length
        const uint8_t *zeros
        size_t fixed_size
        size_t bitmap_size
        size_t last
    ctypedef struct ls_row_column:
        size_t offset
        size_t width
        int variable
        size_t before
        size_t bit
        uint8_t *data
        size_t capacity
        int64_t *ends
        uint8_t *validity
        size_t nulls
    ctypedef struct ls_row_fault:
        size_t row
        size_t column
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
    ls_status ls_rows_locate(
        const ls_column *column, ls_slice *rows, size_t *bad) noexcept nogil
    ls_status ls_rows_read(
        const ls_row_source *source, size_t start, uint8_t *present, size_t *missing,
        ls_row_column *columns, size_t count, ls_row_fault *fault) noexcept nogil
    size_t ls_elements_read(
        const uint8_t *elements, size_t count, size_t width, uint8_t *values,
        uint8_t *validity) noexcept nogil
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
    """An error of a row or list that does not fit its layout; its number is `args[0]`.

    For a row from which columns are read, `args[1]` is the number of the column, or None.
    """


cdef inline void *writable(object buffer):
    return <void *><uintptr_t>buffer.address


cdef int check(ls_status status, size_t bad) except -1:
    if status == LS_OK:
        return 0
    if status == LS_BAD_ROW:
        raise BadRowError(bad)
    if status == LS_TOO_LARGE:
        raise ValueError("a row is too large: its values take more than 2**32 - 1 bytes")
    raise ValueError("an Arrow array has offsets outside its data buffer")


cdef inline size_t or_no_column(object number):
    return SIZE_MAX if number is None else <size_t>number


def pack(list cells not None, list places not None, size_t length, size_t fixed_size):
    """Pack one row for each of `length` values of all `cells`.

    `cells` are fixed_size_binary arrays, or binary arrays of any kind for variable columns.
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
cdef class Columns(Answers):
    """Columns of `length` rows, which a lookup finds, or which are in an array.

    `places` has for each column: its offset in a row; the width of its values, or None; for a
    variable column, the offset of the variable column before it, or None; its bit in the bitmap of
    nulls, or None; and whether 32-bit offsets are wanted if they suffice. `fixed_size` is the size
    of a row before the variable section, `bitmap_size` that of the bitmap in it, and `last` the
    offset of the last variable column, or None.
    """

    cdef ls_row_source source
    cdef ls_row_column *columns
    cdef size_t width      # number of columns
    cdef ls_row_fault fault
    cdef ls_status status
    cdef bytes zeros
    cdef list places
    cdef list values       # a buffer for each column
    cdef list offsets      # a buffer for each variable column
    cdef list validities   # a buffer for each nullable column
    cdef object bits       # bitmap of the rows that exist

    def __cinit__(
            self, size_t length, list places not None, size_t fixed_size, size_t bitmap_size, last):
        cdef ls_row_column *column
        cdef size_t i
        self.columns = <ls_row_column *>calloc(len(places) + 1, sizeof(ls_row_column))
        if self.columns == NULL:
            raise MemoryError()
        self.places = places
        self.width = len(places)
        self.zeros = bytes(fixed_size)
        self.source.zeros = <const uint8_t *>self.zeros
        self.source.fixed_size = fixed_size
        self.source.bitmap_size = bitmap_size
        self.source.last = or_no_column(last)
        self.bits = allocate((length + 7) // 8)
        self.present = <uint8_t *>writable(self.bits)
        self.values, self.offsets, self.validities = [], [], []
        for i, (offset, width, before, bit, _) in enumerate(places):
            column = &self.columns[i]
            column.offset = offset
            column.variable = width is None
            column.before = or_no_column(before)
            column.bit = or_no_column(bit)
            validity = ends = None
            if bit is not None:
                validity = allocate((length + 7) // 8)
                column.validity = <uint8_t *>writable(validity)
            if width is None:
                values = pa.allocate_buffer(0, resizable=True)
                ends = allocate((length + 1) * 8)
                column.ends = <int64_t *>writable(ends)
                column.ends[0] = 0
            else:
                column.width = width
                values = allocate(length * column.width)
                column.data = <uint8_t *>writable(values)
            self.values.append(values)
            self.offsets.append(ends)
            self.validities.append(validity)

    def __dealloc__(self):
        free(self.columns)

    cdef bint take(self, const ls_slice *answers, size_t start, size_t count) noexcept nogil:
        self.source.rows = answers
        self.source.length = count
        self.status = ls_rows_read(
            &self.source, start, self.present, &self.missing, self.columns, self.width,
            &self.fault)
        return self.status == LS_OK

    cdef int prepare(self, const ls_slice *answers, size_t start, size_t count) except -1:
        """Allocate memory for values; raise BadRowError with row and column (None: all of it)."""
        cdef ls_row_column *column
        cdef size_t i, needed
        if self.status != LS_NO_SPACE:
            column_number = None if self.fault.column == SIZE_MAX else self.fault.column
            raise BadRowError(self.fault.row, column_number)
        for i, values in enumerate(self.values):
            column = &self.columns[i]
            if not column.variable:
                continue
            needed = column.ends[start + count]
            if needed > column.capacity:
                column.capacity = self.ahead(needed, start + count)
                values.resize(column.capacity, shrink_to_fit=False)
                prefer_huge_pages(values)
                column.data = <uint8_t *>writable(values)
        return 0

    def read(self, rows):
        """Read the rows of a binary array of any kind; for a null, every column is null."""
        cdef BinaryColumn column = BinaryColumn(rows, "rows")
        cdef ls_status status
        cdef size_t bad = 0
        cdef size_t length = column.column.length
        if length != self.length:
            raise ValueError(f"rows: {length} rows where {self.length} are needed")
        located = allocate(length * sizeof(ls_slice))
        cdef ls_slice *slices = <ls_slice *>writable(located)
        with nogil:
            status = ls_rows_locate(&column.column, slices, &bad)
        check(status, bad)
        while not self.take(slices, 0, length):
            self.prepare(slices, 0, length)

    def found(self):
        """Return which rows exist, as a boolean array."""
        return pa.Array.from_buffers(pa.bool_(), self.length, [None, self.bits])

    def cells(self):
        """Return each column as fixed_size_binary, large_binary, or binary if that is wanted."""
        cdef ls_row_column *column
        cdef size_t i, nulls
        cdef int32_t *short_ends
        cells = []
        for i, (_, width, _, _, narrow) in enumerate(self.places):
            column = &self.columns[i]
            nulls = self.missing + column.nulls
            validity = self.validities[i] if column.nulls else self.bits if nulls else None
            values = self.values[i]
            if width is not None:
                kind, buffers = pa.binary(width), [validity, values]
            else:
                values.resize(column.ends[self.length], shrink_to_fit=True)
                kind, buffers = pa.large_binary(), [validity, self.offsets[i], values]
                if narrow and column.ends[self.length] <= INT32_MAX:
                    narrowed = allocate((self.length + 1) * 4)
                    short_ends = <int32_t *>writable(narrowed)
                    with nogil:
                        ls_narrow_offsets(column.ends, self.length + 1, short_ends)
                    kind, buffers[1] = pa.binary(), narrowed
            cells.append(pa.Array.from_buffers(kind, self.length, buffers, nulls))
        return cells


def read_elements(rows):
    """Return the column of packed elements that have one nullable column of fixed width.

    `rows` is a fixed_size_binary array without nulls, whose first byte is the bitmap of nulls; so
    is the column, which has nulls.
    """
    cdef BinaryColumn column = BinaryColumn(rows, "elements")
    cdef size_t length = column.column.length
    cdef size_t nulls, width
    if column.column.offset_width != 0 or column.column.width == 0:
        raise ValueError(f"elements: {rows.type}; elements of fixed width are needed")
    width = column.column.width - 1
    values, validity = allocate(length * width), allocate((length + 7) // 8)
    cdef uint8_t *out = <uint8_t *>writable(values)
    cdef uint8_t *bits = <uint8_t *>writable(validity)
    with nogil:
        nulls = ls_elements_read(column.column.data, length, width, out, bits)
    return pa.Array.from_buffers(
        pa.binary(width), length, [validity if nulls else None, values], nulls)


def is_ascii(data):
    """Return whether all bytes of a buffer are ASCII, and therefore UTF-8 if split anywhere."""
    cdef const uint8_t *bytes = <const uint8_t *>writable(data)
    cdef size_t size = data.size
    cdef int answer
    with nogil:
        answer = ls_is_ascii(bytes, size)
    return bool(answer)


def pack_lists(lists, const int64_t[::1] offsets not None, elements, bint counted):
    """Pack lists of packed elements as large_binary, empty where `lists` is null.

    `lists` is a fixed_size_binary array of which only the length and the nulls are used; list i is
    elements[offsets[i] - offsets[0] : offsets[i + 1] - offsets[0]].
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

    `count` is the number of elements of every list, or None if each list records its own.
    `element_width` is the size of all elements, or None if sizes vary. A null list has no elements,
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
