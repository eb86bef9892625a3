"""Trees of Arrow columns, seen by C as cells, to rows and back."""

from libc.stddef cimport size_t
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t, uintptr_t
from libc.stdlib cimport calloc, free
from libc.string cimport memcpy, memset

import pyarrow as pa

from lookupstore.arrow._binary cimport (
    LS_BAD_COLUMN,
    LS_NULL,
    LS_OK,
    LS_TOO_LARGE,
    BinaryColumn,
    allocate,
    buffer_data,
    ls_column,
    ls_status,
)


cdef extern from "ls_bytes.h":
    size_t ls_varint_size(uint64_t value) noexcept nogil
    uint8_t *ls_put_varint(uint8_t *p, uint64_t value) noexcept nogil


cdef extern from "ls_compacted.h":
    enum:
        LS_CELL_BOOL
        LS_CELL_NUMBER
        LS_CELL_FLOAT
        LS_CELL_TIME
        LS_CELL_BYTES
        LS_CELL_TEXT
        LS_CELL_DECIMAL
        LS_CELL_BIG_DECIMAL
        LS_CELL_TIMESTAMP
        LS_CELL_WIDE_TIMESTAMP
        LS_CELL_VARIANT
        LS_CELL_ROW
        LS_CELL_KIND
        LS_CELL_ARRAY
        LS_CELL_MAP
    ctypedef struct ls_cell:
        int type
        uint32_t width
        uint32_t size
        uint32_t children
        int required
        uint32_t fields
        int64_t unit
        uint64_t limit[2]
        uint8_t *validity
        int32_t *offsets
        uint8_t *data
        size_t data_size
        size_t offset
        size_t length
        size_t bytes
        size_t nulls
        size_t room
    ctypedef struct ls_tail:
        uint8_t *data
        size_t width
    ctypedef struct ls_compacted_fault:
        size_t row
        size_t column
    ls_status ls_compacted_read(
        ls_cell *cells, const ls_column *rows, const ls_tail *tails, size_t tail_count, int copy,
        ls_compacted_fault *fault) noexcept nogil
    ls_status ls_compacted_sizes(
        const ls_cell *cells, size_t count, size_t tails, int64_t *ends,
        ls_compacted_fault *fault) noexcept nogil
    void ls_compacted_write(
        const ls_cell *cells, size_t count, const ls_tail *tails, size_t tail_count,
        const int64_t *ends, uint8_t *out) noexcept nogil
    ls_status ls_positions_read(
        const ls_column *values, int64_t *out, size_t *bad) noexcept nogil


cdef dict CELL_TYPES = {
    "bool": LS_CELL_BOOL,
    "number": LS_CELL_NUMBER,
    "float": LS_CELL_FLOAT,
    "time": LS_CELL_TIME,
    "bytes": LS_CELL_BYTES,
    "text": LS_CELL_TEXT,
    "decimal": LS_CELL_DECIMAL,
    "big decimal": LS_CELL_BIG_DECIMAL,
    "timestamp": LS_CELL_TIMESTAMP,
    "wide timestamp": LS_CELL_WIDE_TIMESTAMP,
    "variant": LS_CELL_VARIANT,
    "row": LS_CELL_ROW,
    "kind": LS_CELL_KIND,
    "array": LS_CELL_ARRAY,
    "map": LS_CELL_MAP,
}

cdef enum:
    MOST_TAILS = 3


class CompactedRowError(Exception):
    """An error of the row numbered `args[0]`, in the column numbered `args[1]`, as bytes."""


class BadCellError(Exception):
    """An error of a value in row `args[0]` of column `args[1]`, which its type does not have.

    `args[2]` describes the error.
    """


cdef object zeroed(size_t size):
    buffer = allocate(size)
    memset(<void *><uintptr_t>buffer.address, 0, size)
    return buffer


cdef inline void *writable(object buffer):
    return <void *><uintptr_t>buffer.address


cdef class Tree:
    """The cells of a row: `cell` is the first one, as `schema.Cell` describes it."""

    cdef ls_cell *cells
    cdef size_t count
    cdef list described  # a Cell for each item of `cells`

    def __cinit__(self, cell):
        self.described = []
        self.describe(cell)
        self.count = len(self.described)
        self.cells = <ls_cell *>calloc(self.count, sizeof(ls_cell))
        if self.cells == NULL:
            raise MemoryError()
        for i, one in enumerate(self.described):
            self.fill(&self.cells[<size_t>i], one)

    def __dealloc__(self):
        free(self.cells)

    cdef int describe(self, cell) except -1:
        self.described.append(cell)
        for child in cell.children:
            self.describe(child)
        return 0

    cdef int fill(self, ls_cell *cell, described) except -1:
        cell.type = CELL_TYPES[described.kind]
        cell.width = described.width
        cell.size = described.size
        cell.children = len(described.children)
        cell.required = described.required
        cell.fields = sum(child.kind != "kind" for child in described.children)
        cell.unit = described.unit
        cell.limit[0] = described.limit & 0xFFFFFFFFFFFFFFFF
        cell.limit[1] = described.limit >> 64
        return 0

    cdef ls_cell *copied(self) except NULL:
        """Cells for one call; the caller frees them."""
        cdef ls_cell *cells = <ls_cell *>calloc(self.count, sizeof(ls_cell))
        if cells == NULL:
            raise MemoryError()
        memcpy(cells, self.cells, self.count * sizeof(ls_cell))
        return cells

    def read(self, values, list widths not None):
        """Read the rows of a binary array; a null row has nulls in all columns.

        Returns one array for each child of the first cell, and for each of `widths` a buffer with
        the bytes after every row. Raises CompactedRowError, or BadCellError if a timestamp does not
        fit its type, or a column is too large.
        """
        cdef BinaryColumn column = BinaryColumn(values, "rows")
        cdef ls_tail tails[MOST_TAILS]
        cdef size_t tail_count = len(widths)
        cdef ls_compacted_fault fault
        cdef ls_status status
        cdef ls_cell *cells
        cdef list buffers
        tail_buffers = []
        for i, width in enumerate(widths):
            tails[<size_t>i].width = width
            tail_buffers.append(zeroed(column.column.length * tails[<size_t>i].width))
            tails[<size_t>i].data = <uint8_t *>writable(tail_buffers[i])
        cells = self.copied()
        try:
            with nogil:
                status = ls_compacted_read(
                    cells, &column.column, tails, tail_count, False, &fault)
            if status == LS_OK:
                buffers = self.make_room(cells)
                with nogil:
                    status = ls_compacted_read(
                        cells, &column.column, tails, tail_count, True, &fault)
            if status == LS_TOO_LARGE:
                raise BadCellError(
                    fault.row, fault.column,
                    "does not fit its type, or the column is beyond 2**31 - 1 bytes or values")
            if status == LS_BAD_COLUMN:
                raise ValueError("an Arrow array has offsets outside its data buffer")
            if status != LS_OK:
                raise CompactedRowError(fault.row, fault.column)
            arrays, at = [], 1
            while at < <object>self.count:
                arrays.append(self.array(cells, buffers, at))
                at += cells[<size_t>at].size
            return arrays, tail_buffers
        finally:
            free(cells)

    cdef list make_room(self, ls_cell *cells):
        """Return the buffers of each cell, in the counted sizes: validity, offsets, data."""
        cdef ls_cell *cell
        cdef list buffers = []
        cdef size_t i, size
        for i in range(self.count):
            cell = &cells[i]
            validity, offsets, data = zeroed((cell.length + 7) // 8), None, None
            if cell.type in (LS_CELL_BYTES, LS_CELL_TEXT, LS_CELL_ARRAY, LS_CELL_MAP):
                offsets = zeroed(4 * (cell.length + 1))
                cell.offsets = <int32_t *>writable(offsets)
            size = (
                (cell.length + 7) // 8 if cell.type == LS_CELL_BOOL
                else cell.bytes if cell.type in (LS_CELL_BYTES, LS_CELL_TEXT)
                else cell.length * cell.width)
            if cell.type != LS_CELL_ROW:
                data = zeroed(size)
                cell.data = <uint8_t *>writable(data)
                cell.data_size = size
            cell.validity = <uint8_t *>writable(validity)
            cell.room = cell.length
            buffers.append((validity, offsets, data))
        return buffers

    cdef object array(self, ls_cell *cells, list buffers, size_t at):
        """Return the array of one cell, with the cells below it."""
        cdef ls_cell *cell = &cells[at]
        cdef size_t below = at + 1
        described = self.described[at]
        validity, offsets, data = buffers[at]
        if cell.nulls == 0:
            validity = None
        children = []
        for _ in range(cell.children):
            children.append(self.array(cells, buffers, below))
            below += cells[below].size
        if cell.type == LS_CELL_MAP:
            pairs = pa.struct([described.type.key_field, described.type.item_field])
            entries = pa.Array.from_buffers(pairs, len(children[0]), [None], children=children)
            return pa.Array.from_buffers(
                described.type, cell.length, [validity, offsets], cell.nulls, children=[entries])
        if cell.type == LS_CELL_ARRAY:
            return pa.Array.from_buffers(
                described.type, cell.length, [validity, offsets], cell.nulls, children=children)
        if children:
            return pa.Array.from_buffers(
                described.type, cell.length, [validity], cell.nulls, children=children)
        if cell.type == LS_CELL_ROW:
            return pa.Array.from_buffers(described.type, cell.length, [validity], cell.nulls)
        if offsets is not None:
            return pa.Array.from_buffers(
                described.type, cell.length, [validity, offsets, data], cell.nulls)
        return pa.Array.from_buffers(described.type, cell.length, [validity, data], cell.nulls)

    def write(self, list arrays not None, size_t length, list tails not None):
        """Write a row for each value of all `arrays`, in the types of the cells.

        `tails` are buffers of the bytes after every row, each with its width. Returns large_binary.
        Raises BadCellError.
        """
        cdef ls_tail behind[MOST_TAILS]
        cdef size_t tail_count = len(tails), tail_bytes = 0
        cdef ls_compacted_fault fault
        cdef ls_status status
        cdef int64_t *ends
        cdef uint8_t *out
        cdef size_t at = 1
        cdef ls_cell *cells = self.copied()
        kept = []
        try:
            for i, (buffer, width) in enumerate(tails):
                behind[<size_t>i].data = <uint8_t *>writable(buffer)
                behind[<size_t>i].width = width
                tail_bytes += behind[<size_t>i].width
            for array in arrays:
                self.see(cells, at, array, kept)
                at += cells[at].size
            offsets = allocate(8 * (length + 1))
            ends = <int64_t *>writable(offsets)
            with nogil:
                status = ls_compacted_sizes(cells, length, tail_bytes, ends, &fault)
            if status == LS_TOO_LARGE:
                raise BadCellError(fault.row, fault.column, "makes a row of more than 2 GiB")
            if status == LS_NULL:
                raise BadCellError(fault.row, fault.column, "is null, or has a null, and may not")
            if status != LS_OK:
                raise BadCellError(fault.row, fault.column, "is not a value of its type")
            data = allocate(ends[length])
            out = <uint8_t *>writable(data)
            with nogil:
                ls_compacted_write(cells, length, behind, tail_count, ends, out)
            return pa.Array.from_buffers(pa.large_binary(), length, [None, offsets, data])
        finally:
            free(cells)

    cdef int see(self, ls_cell *cells, size_t at, array, list kept) except -1:
        """Let a cell, and the cells below it, refer to the buffers of an array."""
        cdef ls_cell *cell = &cells[at]
        cdef size_t below = at + 1
        buffers = array.buffers()
        kept.append((array, buffers))
        cell.offset = array.offset
        cell.length = len(array)
        cell.validity = <uint8_t *>buffer_data(buffers[0]) if array.null_count else NULL
        if cell.type in (LS_CELL_ARRAY, LS_CELL_MAP):
            cell.offsets = <int32_t *>buffer_data(buffers[1])
            children = [array.keys, array.items] if cell.type == LS_CELL_MAP else [array.values]
        elif pa.types.is_struct(array.type):
            children = [array.field(k) for k in range(array.type.num_fields)]
        else:
            children = []
            if cell.type in (LS_CELL_BYTES, LS_CELL_TEXT):
                cell.offsets = <int32_t *>buffer_data(buffers[1])
            data = buffers[len(buffers) - 1]
            cell.data = <uint8_t *>buffer_data(data)
            cell.data_size = 0 if data is None else data.size
        for child in children:
            self.see(cells, below, child, kept)
            below += cells[below].size
        return 0


def read_positions(values):
    """Read varints, exactly one in each value, into a buffer of int64; 0 for a null.

    Raises CompactedRowError.
    """
    cdef BinaryColumn column = BinaryColumn(values, "positions")
    cdef size_t bad = 0
    cdef ls_status status
    out = allocate(8 * column.column.length)
    cdef int64_t *positions = <int64_t *>writable(out)
    with nogil:
        status = ls_positions_read(&column.column, positions, &bad)
    if status != LS_OK:
        raise CompactedRowError(bad, 0)
    return out


def write_positions(buffer, size_t count):
    """Write int64 numbers, none of them negative, as varints, and return large_binary."""
    cdef const int64_t *positions = <const int64_t *>writable(buffer)
    cdef size_t i
    cdef uint8_t *out
    offsets = allocate(8 * (count + 1))
    cdef int64_t *ends = <int64_t *>writable(offsets)
    ends[0] = 0
    for i in range(count):
        if positions[i] < 0:
            raise BadCellError(i, 0, "is below 0")
        ends[i + 1] = ends[i] + <int64_t>ls_varint_size(<uint64_t>positions[i])
    data = allocate(ends[count])
    out = <uint8_t *>writable(data)
    for i in range(count):
        out = ls_put_varint(out, <uint64_t>positions[i])
    return pa.Array.from_buffers(pa.large_binary(), count, [None, offsets, data])
