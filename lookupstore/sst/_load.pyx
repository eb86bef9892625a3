"""Loads: many data blocks in one piece of memory, as the writer passes them on."""

from cpython.buffer cimport PyBuffer_FillInfo
from libc.stddef cimport size_t
from libc.stdint cimport uint8_t
from libc.stdlib cimport free, realloc
from libc.string cimport memcpy

from lookupstore.arrow._binary cimport (
    LS_BLOCK_FULL,
    LS_NO_SPACE,
    LS_OK,
    BinaryColumn,
    bytes_of,
    ls_column,
    ls_column_get,
    ls_slice,
    ls_status,
)
from lookupstore.sst._block cimport (
    RecordBuilder,
    ls_block_builder,
    ls_block_room,
    ls_order,
    slice_of,
)


cdef extern from "ls_load.h":
    size_t ls_load_bytes(const ls_load *load) noexcept nogil
    void ls_load_next(const ls_load *load, ls_block_builder *builder) noexcept nogil
    void ls_load_end(ls_load *load, ls_block_builder *builder) noexcept nogil
    ls_status ls_load_fill(
        ls_load *load, ls_block_builder *builder, ls_order order, int repeats,
        const ls_column *keys, const ls_column *values, size_t *row, size_t end,
        ls_slice *previous, size_t block_size, size_t most) noexcept nogil


cdef class BlockLoad:
    """Blocks in one piece of memory, each followed by room for its trailer.

    It supports the buffer protocol: all bytes, with the trailers.
    """

    def __init__(self, blocks=()):
        """Copy the `blocks`, bytes; their last keys stay unknown."""
        cdef ls_slice data
        cdef ls_load_block *made
        for block in blocks:
            data = bytes_of(block)
            self.reserve_block()
            self.reserve(self.load.size + data.size + LS_TRAILER)
            if data.size > 0:
                memcpy(self.load.data + self.load.size, data.data, data.size)
            made = &self.load.blocks[self.load.count]
            made.start, made.size = self.load.size, data.size
            made.last_key = made.last_key_size = 0
            self.load.count += 1
            self.load.size += data.size + LS_TRAILER

    def __dealloc__(self):
        free(self.load.data)
        free(self.load.blocks)

    def __len__(self):
        return self.load.count

    def __getbuffer__(self, Py_buffer *view, int flags):
        PyBuffer_FillInfo(view, self, self.load.data, <Py_ssize_t>self.load.size, 1, flags)

    @property
    def nbytes(self):
        """The size of the blocks, without trailers."""
        return ls_load_bytes(&self.load)

    def blocks(self):
        """Return the blocks, as views of this memory."""
        cdef size_t i
        cdef ls_load_block *block
        view, found = memoryview(self), []
        for i in range(self.load.count):
            block = &self.load.blocks[i]
            found.append(view[block.start:block.start + block.size])
        return found

    cdef int reserve(self, size_t capacity) except -1:
        """Make the memory at least that large."""
        cdef void *made
        if capacity > self.load.capacity:
            made = realloc(self.load.data, capacity)
            if made == NULL:
                raise MemoryError()
            self.load.data = <uint8_t *>made
            self.load.capacity = capacity
        return 0

    cdef int reserve_block(self) except -1:
        """Make room for the place of a further block."""
        cdef size_t room = max(<size_t>16, 2 * self.load.room)
        cdef void *made
        if self.load.count == self.load.room:
            made = realloc(self.load.blocks, room * sizeof(ls_load_block))
            if made == NULL:
                raise MemoryError()
            self.load.blocks = <ls_load_block *>made
            self.load.room = room
        return 0


cdef class LoadBuilder(RecordBuilder):
    """A builder of loads from records in key order.

    A load is complete with the block that gives its blocks `most` bytes or more.
    """

    def __cinit__(self, str order, bint repeats, size_t block_size, size_t most):
        self.most = most
        self.load = BlockLoad()

    @property
    def is_loaded(self):
        """Whether the load has reached its size and must be taken."""
        return ls_load_bytes(&self.load.load) >= self.most

    cdef int move(self, size_t capacity) except -1:
        cdef size_t needed = self.load.load.size + capacity + LS_TRAILER
        self.load.reserve(max(needed, 2 * self.load.load.capacity, self.expected))
        ls_load_next(&self.load.load, &self.builder)
        return 0

    def fill(self, BinaryColumn keys not None, BinaryColumn values not None, size_t row):
        """Add records from `row` on until the load has its size or they end; return the next row.

        `next_row` is the same, also after an error. Raises the errors of `add_many`.
        """
        cdef size_t start = row, end = keys.column.length
        cdef ls_slice previous, key, value
        cdef ls_status status
        previous.data = NULL
        previous.size = 0
        if self.last_key is not None:
            previous = slice_of(self.last_key)
        while True:
            with nogil:
                status = ls_load_fill(
                    &self.load.load, &self.builder, self.order, self.repeats, &keys.column,
                    &values.column, &row, end, &previous, self.block_size, self.most)
            if status != LS_NO_SPACE:
                break
            if self.load.load.count == self.load.load.room:
                self.load.reserve_block()
                continue
            ls_column_get(&keys.column, row, &key)
            ls_column_get(&values.column, row, &value)
            self.grow(ls_block_room(key, value))
        self.next_row = row
        if row > start:
            self.last_key = (<char *>previous.data)[:previous.size]
        if status != LS_OK and status != LS_BLOCK_FULL:
            self.refuse(status, keys, values, row)
        return row

    def end_block(self):
        """End the block that has records."""
        self.load.reserve_block()
        ls_load_end(&self.load.load, &self.builder)

    def take(self):
        """Return the blocks, the last of which ends, and start the next load."""
        cdef BlockLoad taken
        if self.builder.count > 0:
            self.end_block()
        taken, self.load = self.load, BlockLoad()
        self.expected = min(taken.load.size + taken.load.size // 8, 2 * self.most)
        self.builder.data = NULL
        self.builder.capacity = 0
        return taken
