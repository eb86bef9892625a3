from libc.stddef cimport size_t
from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t

from cpython.object cimport PyObject

from lookupstore.arrow._binary cimport BinaryColumn, ls_column, ls_slice, ls_status


cdef extern from "ls_order.h":
    ctypedef size_t ls_order
    cdef enum:
        LS_ORDER_BYTES
        LS_ORDER_INT8
        LS_ORDER_INT16
        LS_ORDER_INT32
        LS_ORDER_INT64
    ls_status ls_check_key(ls_order order, ls_slice key) noexcept nogil
    int ls_compare(ls_order order, ls_slice a, ls_slice b) noexcept nogil


cdef extern from "ls_block.h":
    ctypedef struct ls_block_builder:
        uint8_t *data
        size_t capacity
        size_t size
        uint32_t *positions
        size_t positions_capacity
        uint32_t count
        size_t record_size
        int aligned
        size_t last_key
        size_t last_key_size
    size_t ls_block_room(ls_slice key, ls_slice value) noexcept nogil
    ctypedef struct ls_block:
        const uint8_t *data
        size_t records_size
        const uint8_t *positions
        uint32_t record_size
        uint32_t count
    ls_status ls_block_open(ls_block *block, const uint8_t *data, size_t size) noexcept nogil
    ls_status ls_block_record(
        const ls_block *block, uint32_t i, ls_slice *key, ls_slice *value) noexcept nogil
    ls_status ls_block_validate(
        const ls_block *block, ls_order order, int repeats, uint32_t *bad) noexcept nogil
    ls_status ls_block_lower_bound(
        const ls_block *block, ls_order order, ls_slice key, uint32_t start, uint32_t *position,
        int *found) noexcept nogil
    ls_status ls_block_sizes(
        const ls_block *block, uint32_t start, uint32_t end, size_t *keys,
        size_t *values) noexcept nogil
    ls_status ls_block_copy(
        const ls_block *block, uint32_t start, uint32_t end, int reverse, int64_t *key_offsets,
        uint8_t *keys, size_t keys_room, int64_t *value_offsets, uint8_t *values,
        size_t values_room) noexcept nogil


cdef class RecordBuilder:
    cdef ls_block_builder builder
    cdef ls_order order
    cdef int repeats
    cdef size_t block_size
    cdef readonly object last_key  # key of the last record added, None before the first
    cdef readonly size_t next_row  # row after the last one that a call has added
    cdef bint is_full(self) noexcept
    cdef int grow(self, size_t more) except -1
    cdef int move(self, size_t capacity) except -1
    cdef int refuse(
        self, ls_status status, BinaryColumn keys, BinaryColumn values, size_t row) except -1


cdef class BlockBuilder(RecordBuilder):
    cdef PyObject *buffer  # bytes that no other object has seen; builder.data points into it
    cdef size_t expected   # number of bytes that a block is expected to need


cdef class Handles:
    cdef size_t count
    cdef size_t trailer
    cdef uint64_t *starts  # offset of each block, and end of the last one


cdef class Block:
    cdef readonly object source
    cdef size_t size
    cdef readonly str path
    cdef readonly object offset
    cdef ls_order order
    cdef ls_block block
    cdef int open(
        self, object source, ls_slice data, str path, offset, ls_order order) except -1
    cdef int fail(self, ls_status status, str what) except -1
    cdef Block sortable(self)


cdef ls_order order_of(str name) except? LS_ORDER_BYTES
cdef str status_text(ls_status status)
cdef ls_slice slice_of(bytes value) noexcept
cdef int check_key(ls_order order, ls_slice key, str name) except -1
