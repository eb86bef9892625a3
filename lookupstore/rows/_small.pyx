"""Columns of a few rows, in memory that is passed to Arrow in one call.

For a batch of many rows, pyarrow makes a buffer for each column, and an array of each. For a few
rows this takes longer than all other work. Here all columns are in one piece of memory, and are
passed to Arrow in one call, with its C data interface.
"""

cimport cython
from libc.stddef cimport size_t
from libc.stdint cimport INT32_MAX, SIZE_MAX, int32_t, int64_t, uint8_t, uintptr_t
from libc.stdlib cimport calloc, free, malloc
from libc.string cimport memcpy, memset

import pyarrow as pa

from lookupstore.rows._codec import BadRowError

from lookupstore.arrow._binary cimport LS_NO_SPACE, LS_OK, ls_slice, ls_status
from lookupstore.sst._answers cimport Answers


cdef extern from "ls_rows.h":
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
    ls_status ls_rows_read(
        const ls_row_source *source, size_t start, uint8_t *present, size_t *missing,
        ls_row_column *columns, size_t count, ls_row_fault *fault) noexcept nogil
    int ls_is_ascii(const uint8_t *data, size_t size) noexcept nogil
    void ls_narrow_offsets(const int64_t *offsets, size_t count, int32_t *out) noexcept nogil


cdef extern from * nogil:
    """
    /* Arrow's C data interface, as in its specification. */
    struct ls_arrow_array {
        int64_t length, null_count, offset, n_buffers, n_children;
        const void **buffers;
        struct ls_arrow_array **children;
        struct ls_arrow_array *dictionary;
        void (*release)(struct ls_arrow_array *);
        void *private_data;
    };

    /* Memory shared by all arrays of a batch until the last of them is released. */
    struct ls_batch_memory {
        int64_t users;
        size_t count;
        void **pieces;
    };

    static int ls_batch_memory_drop(struct ls_batch_memory *memory) {
        return __atomic_sub_fetch(&memory->users, 1, __ATOMIC_ACQ_REL) == 0;
    }
    """
    struct ls_arrow_array:
        int64_t length
        int64_t null_count
        int64_t offset
        int64_t n_buffers
        int64_t n_children
        const void **buffers
        ls_arrow_array **children
        ls_arrow_array *dictionary
        void (*release)(ls_arrow_array *) noexcept nogil
        void *private_data
    struct ls_batch_memory:
        int64_t users
        size_t count
        void **pieces
    int ls_batch_memory_drop(ls_batch_memory *memory) noexcept


cdef enum Kind:
    FIXED
    BOOL
    NARROW   # 32-bit offsets
    WIDE     # 64-bit offsets


cdef void free_memory(ls_batch_memory *memory) noexcept nogil:
    cdef size_t i
    if memory == NULL:
        return
    for i in range(memory.count):
        free(memory.pieces[i])
    free(memory.pieces)
    free(memory)


cdef void release(ls_arrow_array *array) noexcept nogil:
    """Release an array, and its children unless they were moved elsewhere."""
    cdef int64_t i
    cdef ls_batch_memory *memory = <ls_batch_memory *>array.private_data
    for i in range(array.n_children):
        if array.children[i].release != NULL:
            array.children[i].release(array.children[i])
    array.release = NULL
    if ls_batch_memory_drop(memory):
        free_memory(memory)


@cython.final
@cython.auto_pickle(False)
cdef class SmallPlan:
    """A plan of the columns of a row that Arrow can use in the form in which they are read.

    `places`, `fixed_size`, `bitmap_size` and `last` are those of `rows._codec.Columns`. `schema` is
    the schema of the columns; `is_plain` must be true for each of their types.
    """

    cdef readonly object schema
    cdef ls_row_column *columns
    cdef Kind *kinds
    cdef list text          # numbers of the columns that must be UTF-8
    cdef size_t width, fixed_size, bitmap_size, last
    cdef bytes zeros

    def __cinit__(self, list places not None, size_t fixed_size, size_t bitmap_size, last, schema):
        cdef ls_row_column *column
        cdef size_t i
        self.schema = schema
        self.width = len(places)
        self.fixed_size, self.bitmap_size = fixed_size, bitmap_size
        self.last = SIZE_MAX if last is None else last
        self.zeros = bytes(fixed_size)
        self.columns = <ls_row_column *>calloc(self.width + 1, sizeof(ls_row_column))
        self.kinds = <Kind *>calloc(self.width + 1, sizeof(Kind))
        if self.columns == NULL or self.kinds == NULL:
            raise MemoryError()
        self.text = []
        for i, (offset, width, before, bit, narrow) in enumerate(places):
            column = &self.columns[i]
            column.offset = offset
            column.variable = width is None
            column.width = 0 if width is None else width
            column.before = SIZE_MAX if before is None else before
            column.bit = SIZE_MAX if bit is None else bit
            kind = schema.field(<int>i).type
            if width is None:
                self.kinds[i] = NARROW if narrow else WIDE
                if pa.types.is_string(kind) or pa.types.is_large_string(kind):
                    self.text.append(i)
            else:
                self.kinds[i] = BOOL if pa.types.is_boolean(kind) else FIXED

    def __dealloc__(self):
        free(self.columns)
        free(self.kinds)


def is_plain(kind):
    """Return whether rows store values of a type in the form of Arrow, or nearly so."""
    types = pa.types
    if isinstance(kind, pa.BaseExtensionType) or types.is_dictionary(kind):
        return False
    return bool(
        types.is_string(kind) or types.is_large_string(kind) or types.is_binary(kind)
        or types.is_large_binary(kind) or types.is_fixed_size_binary(kind)
        or types.is_primitive(kind) or types.is_decimal(kind) or types.is_interval(kind)
    )


@cython.final
@cython.auto_pickle(False)
cdef class SmallRows(Answers):
    """Columns of `length` rows that a lookup finds."""

    cdef SmallPlan plan
    cdef ls_row_source source
    cdef ls_row_column *columns
    cdef ls_row_fault fault
    cdef ls_status status
    cdef ls_batch_memory *memory   # NULL: it was passed to Arrow
    cdef uint8_t *free_room        # free part of the first piece

    def __cinit__(self, size_t length, SmallPlan plan not None):
        cdef ls_row_column *column
        cdef size_t i, bits = (length + 7) // 8, size
        self.plan = plan
        self.source.zeros = <const uint8_t *>plan.zeros
        self.source.fixed_size = plan.fixed_size
        self.source.bitmap_size = plan.bitmap_size
        self.source.last = plan.last
        # Pieces that need not be cleared are adjacent, each at a multiple of 64 bytes.
        size = 64 + rounded(bits) + rounded(plan.width * sizeof(ls_row_column))
        size += rounded((plan.width + 1) * (sizeof(ls_arrow_array) + 5 * sizeof(void *)))
        for i in range(plan.width):
            column = &plan.columns[i]
            if column.bit != SIZE_MAX:
                size += rounded(bits)
            if column.variable:
                size += rounded(8 * (length + 1)) + rounded(4 * (length + 1))
            else:
                size += rounded(length * column.width)
                if plan.kinds[i] == BOOL:
                    size += rounded(bits)
        self.memory = <ls_batch_memory *>calloc(1, sizeof(ls_batch_memory))
        if self.memory == NULL:
            raise MemoryError()
        self.memory.pieces = <void **>calloc(plan.width + 1, sizeof(void *))
        if self.memory.pieces == NULL:
            raise MemoryError()
        self.memory.count = plan.width + 1
        self.memory.pieces[0] = malloc(size)
        if self.memory.pieces[0] == NULL:
            raise MemoryError()
        self.free_room = <uint8_t *>rounded(<size_t><uintptr_t>self.memory.pieces[0])
        self.present = self.room(bits)
        self.columns = <ls_row_column *>self.room(plan.width * sizeof(ls_row_column))
        memcpy(self.columns, plan.columns, plan.width * sizeof(ls_row_column))
        for i in range(plan.width):
            column = &self.columns[i]
            if column.bit != SIZE_MAX:
                column.validity = self.room(bits)
            if column.variable:
                column.ends = <int64_t *>self.room(8 * (length + 1))
                column.ends[0] = 0
            else:
                column.data = self.room(length * column.width)

    def __dealloc__(self):
        free_memory(self.memory)

    cdef uint8_t *room(self, size_t size) noexcept:
        cdef uint8_t *start = self.free_room
        self.free_room += rounded(size)
        return start

    cdef bint take(self, const ls_slice *answers, size_t start, size_t count) noexcept nogil:
        self.source.rows = answers
        self.source.length = count
        self.status = ls_rows_read(
            &self.source, start, self.present, &self.missing, self.columns, self.plan.width,
            &self.fault)
        return self.status == LS_OK

    cdef int prepare(self, const ls_slice *answers, size_t start, size_t count) except -1:
        """Allocate memory for values of variable columns, or raise BadRowError."""
        cdef ls_row_column *column
        cdef size_t i, needed
        cdef uint8_t *larger
        if self.status != LS_NO_SPACE:
            raise BadRowError(self.fault.row)
        for i in range(self.plan.width):
            column = &self.columns[i]
            if not column.variable:
                continue
            needed = column.ends[start + count]
            if needed > column.capacity:
                needed = self.ahead(needed, start + count)
                larger = <uint8_t *>malloc(needed)
                if larger == NULL:
                    raise MemoryError()
                if start > 0 and column.ends[start] > 0:
                    memcpy(larger, column.data, column.ends[start])
                free(self.memory.pieces[i + 1])
                self.memory.pieces[i + 1] = column.data = larger
                column.capacity = needed
        return 0

    def batch(self):
        """Return the columns as a record batch, once. None: `RowSchema.read` has to read the rows.

        That is the case if a value is invalid for its type, or text exceeds 32-bit offsets.
        """
        cdef ls_arrow_array root
        cdef ls_arrow_array *arrays
        cdef ls_arrow_array *array
        cdef ls_row_column *column
        cdef const void **pointers
        cdef ls_arrow_array **children
        cdef size_t i, width = self.plan.width, length = self.length, nulls
        cdef int32_t *short_ends
        cdef bint mixed = False
        if self.memory == NULL:
            raise ValueError("the batch was given away")
        arrays = <ls_arrow_array *>self.room(
            (width + 1) * (sizeof(ls_arrow_array) + 5 * sizeof(void *)))
        children = <ls_arrow_array **>(arrays + width + 1)
        pointers = <const void **>(children + width + 1)
        for i in range(width):
            column = &self.columns[i]
            array = &arrays[i]
            children[i] = array
            nulls = self.missing + column.nulls
            fill(array, length, nulls, 3 if column.variable else 2, pointers + 3 * i)
            if nulls > 0:
                array.buffers[0] = column.validity if column.nulls > 0 else self.present
            if not column.variable:
                array.buffers[1] = column.data
                if self.plan.kinds[i] == BOOL:
                    array.buffers[1] = self.bits_of(column.data)
                    if array.buffers[1] == NULL:
                        return None
                continue
            array.buffers[1] = column.ends
            if self.plan.kinds[i] == NARROW:
                if column.ends[length] > INT32_MAX:
                    return None
                short_ends = <int32_t *>self.room(4 * (length + 1))
                ls_narrow_offsets(column.ends, length + 1, short_ends)
                array.buffers[1] = short_ends
            array.buffers[2] = self.present if column.data == NULL else column.data
        for i in self.plan.text:
            if not ls_is_ascii(self.columns[i].data, self.columns[i].ends[length]):
                mixed = True
        fill(&root, length, 0, 1, pointers + 3 * width)
        root.n_children = width
        root.children = children
        root.private_data = self.memory
        for i in range(width):
            arrays[i].private_data = self.memory
        self.memory.users = width + 1
        self.memory = NULL
        try:
            found = pa.RecordBatch._import_from_c(<uintptr_t>&root, self.plan.schema)
        finally:
            if root.release != NULL:
                root.release(&root)
        if mixed:
            for number in self.plan.text:
                try:
                    found.column(number).validate(full=True)
                except pa.ArrowInvalid:
                    return None
        return found

    cdef uint8_t *bits_of(self, const uint8_t *bools) noexcept:
        """Pack bools of one byte each as bits; NULL: one is neither 0 nor 1."""
        cdef size_t i, count = (self.length + 7) // 8
        cdef uint8_t *bits = self.room(count)
        cdef uint8_t seen = 0
        memset(bits, 0, count)
        for i in range(self.length):
            seen |= bools[i]
            bits[i >> 3] |= (bools[i] & 1) << (i & 7)
        return bits if seen <= 1 else NULL


cdef inline size_t rounded(size_t size) noexcept nogil:
    return (size + 63) & ~<size_t>63


cdef void fill(ls_arrow_array *array, size_t length, size_t nulls, size_t buffers,
               const void **pointers) noexcept nogil:
    memset(array, 0, sizeof(ls_arrow_array))
    array.length = length
    array.null_count = nulls
    array.n_buffers = buffers
    array.buffers = pointers
    pointers[0] = NULL
    array.release = release
