"""Blocks: build one from records, read one."""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from cpython.object cimport PyObject
from cpython.ref cimport Py_CLEAR, Py_INCREF
from libc.stdint cimport uint64_t
from libc.stdlib cimport free, malloc, realloc
from libc.string cimport memcpy

import pyarrow as pa

from lookupstore.arrow._binary cimport (
    LS_BAD_COLUMN,
    LS_BAD_HEADER,
    LS_BAD_KEY,
    LS_BAD_ORDER,
    LS_BAD_POSITION,
    LS_BAD_RECORD,
    LS_BAD_VARINT,
    LS_BLOCK_FULL,
    LS_NO_SPACE,
    LS_NULL,
    LS_OK,
    LS_OUT_OF_ORDER,
    LS_TOO_LARGE,
    LS_TRUNCATED,
    BinaryColumn,
    allocate,
    buffer_data,
    bytes_of,
    ls_column_get,
    ls_column_is_valid,
    ls_get_varint64,
)

from lookupstore.errors import CorruptionError


cdef extern from "Python.h":
    int _PyBytes_Resize(PyObject **value, Py_ssize_t size) except -1


cdef extern from "ls_block.h":
    void ls_block_reset(ls_block_builder *builder) noexcept nogil
    size_t ls_block_memory(const ls_block_builder *builder) noexcept nogil
    ls_status ls_block_add(ls_block_builder *builder, ls_slice key, ls_slice value) noexcept nogil
    ls_status ls_block_add_column(
        ls_block_builder *builder, ls_order order, int repeats, const ls_column *keys,
        const ls_column *values, size_t *row, size_t end, ls_slice *previous,
        size_t block_size) noexcept nogil
    void ls_block_finish(ls_block_builder *builder) noexcept nogil


cdef extern from "ls_row_order.h":
    enum:
        LS_MOST_KEY_FIELDS
    ctypedef struct ls_row_order:
        uint32_t count
        uint8_t kinds[120]
    int ls_row_is_number(const ls_row_order *order) noexcept nogil
    ls_status ls_row_sortable_sizes(
        const ls_row_order *order, const ls_column *keys, int64_t *ends, size_t *bad) noexcept nogil
    ls_status ls_row_sortable_write(
        const ls_row_order *order, const ls_column *keys, const int64_t *ends, uint8_t *out,
        size_t *bad) noexcept nogil


cdef enum:
    MOST_OF_BLOCK = 0x7FFFFFFF

# The kinds of fields, in the order of ls_field_kind.
cdef tuple FIELD_KINDS = (
    "bool", "int8", "int16", "int32", "int64", "float", "double", "bytes", "decimal", "timestamp")
cdef dict ORDERS = {
    "bytes": LS_ORDER_BYTES,
    "int8": LS_ORDER_INT8,
    "int16": LS_ORDER_INT16,
    "int32": LS_ORDER_INT32,
    "int64": LS_ORDER_INT64,
}


cdef ls_order order_of(str name) except? LS_ORDER_BYTES:
    """Return the C name of a key order; format.check_order has the list of all names."""
    found = ORDERS.get(name)
    if found is None:
        found = ORDERS[name] = row_order(name)
    return <ls_order>found


cdef size_t row_order(str name) except 0:
    """Describe the fields of keys that are rows, for the lifetime of the process."""
    cdef ls_row_order *order
    if not name.startswith("row(") or not name.endswith(")"):
        raise ValueError(
            f"order must be 'bytes', 'int8', 'int16', 'int32', 'int64' or 'row(...)', not {name!r}")
    kinds = name[4:len(name) - 1].split(",")
    for kind in kinds:
        if kind not in FIELD_KINDS:
            raise ValueError(
                f"order={name!r}: a field is one of {', '.join(FIELD_KINDS)}, not {kind!r}")
    if len(kinds) > LS_MOST_KEY_FIELDS:
        raise ValueError(f"order: a key of {len(kinds)} fields; {LS_MOST_KEY_FIELDS} are the most")
    order = <ls_row_order *>malloc(sizeof(ls_row_order))
    if order == NULL:
        raise MemoryError()
    order.count = <uint32_t>len(kinds)
    for i, kind in enumerate(kinds):
        order.kinds[<size_t>i] = <uint8_t>FIELD_KINDS.index(kind)
    return <size_t>order


def check_order(name):
    """Raise ValueError unless a text is the name of a key order."""
    if not isinstance(name, str):
        raise TypeError(f"order is {type(name).__name__}; give a text")
    if name not in ORDERS and not name.startswith("row("):
        raise ValueError(
            f"order must be one of 'bytes', 'int8', 'int16', 'int32', 'int64', 'row(...)', not "
            f"{name!r}")
    order_of(name)


cdef str status_text(ls_status status):
    if status == LS_TRUNCATED:
        return "a length that points past the end"
    if status == LS_BAD_VARINT:
        return "a varint that is too long"
    if status == LS_BAD_HEADER:
        return "an impossible record size, count or flag"
    if status == LS_BAD_POSITION:
        return "a position that does not ascend"
    if status == LS_BAD_RECORD:
        return "a record that does not end where the next one starts"
    if status == LS_BAD_ORDER:
        return "a key that does not come after the one before it"
    if status == LS_BAD_KEY:
        return "a key whose size does not fit the key order"
    return f"status {<int>status}"


cdef int check_key(ls_order order, ls_slice key, str name) except -1:
    if ls_check_key(order, key) != LS_OK:
        if order > LS_ORDER_INT64:
            raise ValueError(f"{name} is not a row of the fields that the key order names")
        raise ValueError(
            f"{name} has {key.size} bytes; the key order of this file takes keys of "
            f"{<int>order} bytes"
        )
    return 0


def sortable_keys(str name not None, BinaryColumn keys not None):
    """Return bytes, as large_binary, that sort like keys that are rows in the order of this name.

    They are equal if the order treats the keys as equal. Raises ValueError for a null, and for a
    key that is not such a row.
    """
    cdef ls_order order = order_of(name)
    if order <= LS_ORDER_INT64:
        raise ValueError(f"order is {name!r}; give one of rows")
    return sortable_rows(order, keys)


cdef object sortable_rows(ls_order order, BinaryColumn keys):
    cdef const ls_row_order *rows = <const ls_row_order *>order
    cdef size_t length = keys.column.length, bad = 0
    cdef ls_status status
    offsets = allocate(8 * (length + 1))
    cdef int64_t *ends = <int64_t *>buffer_data(offsets)
    cdef uint8_t *out
    with nogil:
        status = ls_row_sortable_sizes(rows, &keys.column, ends, &bad)
    if status == LS_OK:
        data = allocate(ends[length])
        out = <uint8_t *>buffer_data(data)
        with nogil:
            status = ls_row_sortable_write(rows, &keys.column, ends, out, &bad)
    if status == LS_NULL:
        raise ValueError(f"keys[{bad}] is null; a file has no null keys")
    if status == LS_BAD_COLUMN:
        raise ValueError(f"keys[{bad}]: the Arrow offsets point outside their data buffer")
    if status != LS_OK:
        raise ValueError(f"keys[{bad}] is not a row of the fields that the key order names")
    return pa.Array.from_buffers(pa.large_binary(), length, [None, offsets, data])


cdef ls_slice slice_of(bytes value) noexcept:
    cdef ls_slice out
    out.data = <const uint8_t *>value
    out.size = len(value)
    return out


cdef class RecordBuilder:
    """What builders of one block and of many share: records are added in key order."""

    def __cinit__(self, str order, bint repeats, size_t block_size, *_):
        self.order = order_of(order)
        self.repeats = repeats
        self.block_size = block_size
        self.last_key = None
        ls_block_reset(&self.builder)

    def __dealloc__(self):
        free(self.builder.positions)

    @property
    def count(self):
        return self.builder.count

    @property
    def full(self):
        """Whether the block has reached its size and must be finished."""
        return self.is_full()

    cdef bint is_full(self) noexcept:
        return self.builder.count > 0 and ls_block_memory(&self.builder) > self.block_size

    cdef int grow(self, size_t more) except -1:
        cdef size_t positions, capacity
        cdef void *new
        if self.builder.count >= self.builder.positions_capacity:
            positions = max(<size_t>64, 2 * self.builder.positions_capacity)
            new = realloc(self.builder.positions, positions * sizeof(uint32_t))
            if new == NULL:
                raise MemoryError()
            self.builder.positions = <uint32_t *>new
            self.builder.positions_capacity = positions
        capacity = self.builder.size + more + 4 * (self.builder.count + 1) + 5
        if capacity > self.builder.capacity:
            self.move(max(capacity, 2 * self.builder.capacity))
        return 0

    cdef int move(self, size_t capacity) except -1:
        """Give the block memory of that capacity, and move its records there."""
        raise NotImplementedError

    def add(self, bytes key not None, bytes value not None):
        """Add one record; check `full` afterwards."""
        cdef ls_slice k = slice_of(key), v = slice_of(value), previous
        cdef int compared
        cdef ls_status status
        check_key(self.order, k, "key")
        if self.last_key is not None:
            previous = slice_of(self.last_key)
            compared = ls_compare(self.order, previous, k)
            if compared > 0 or (compared == 0 and not self.repeats):
                raise ValueError(order_text(self.last_key, key, compared))
        status = ls_block_add(&self.builder, k, v)
        if status == LS_NO_SPACE:
            self.grow(ls_block_room(k, v))
            status = ls_block_add(&self.builder, k, v)
        if status != LS_OK:
            raise ValueError(
                f"the record of key {key[:32]!r} has {k.size} + {v.size} bytes; a block holds at "
                "most 2147483647"
            )
        self.last_key = key

    cdef int refuse(
            self, ls_status status, BinaryColumn keys, BinaryColumn values, size_t row) except -1:
        """Raise the error of a row that cannot be added."""
        cdef ls_slice key
        if status == LS_NULL:
            which = "keys" if not ls_column_is_valid(&keys.column, row) else "values"
            raise ValueError(f"{which}[{row}] is null; a file has no null keys or values")
        if status == LS_BAD_COLUMN:
            raise ValueError(f"row {row}: the Arrow offsets point outside their data buffer")
        ls_column_get(&keys.column, row, &key)
        if status == LS_BAD_KEY:
            check_key(self.order, key, f"keys[{row}]")
        if status == LS_TOO_LARGE:
            raise ValueError(f"row {row}: a record or block of more than 2147483647 bytes")
        raise ValueError(
            order_text(self.last_key, (<char *>key.data)[:key.size], status == LS_OUT_OF_ORDER)
            + f" (row {row} of this call)"
        )


cdef class BlockBuilder(RecordBuilder):
    """A builder of blocks, one at a time."""

    def __cinit__(self, *_):
        self.expected = 4096

    def __dealloc__(self):
        Py_CLEAR(self.buffer)

    cdef int move(self, size_t capacity) except -1:
        cdef bytes made
        capacity = max(capacity, self.expected)
        made = PyBytes_FromStringAndSize(NULL, capacity)
        cdef uint8_t *data = <uint8_t *>PyBytes_AS_STRING(made)
        if self.builder.size > 0:
            memcpy(data, self.builder.data, self.builder.size)
        Py_CLEAR(self.buffer)
        Py_INCREF(made)
        self.buffer = <PyObject *>made
        self.builder.data = data
        self.builder.capacity = capacity
        return 0

    def add_many(self, BinaryColumn keys not None, BinaryColumn values not None, size_t row):
        """Add records from `row` on until the block is full or they end; return the next row.

        `next_row` is the same, also after an error.

        Raises:
            ValueError: If keys are out of order or repeated, a value is null, or a key has a wrong
                size; the message names the row. The rows before it have been added.
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
                status = ls_block_add_column(
                    &self.builder, self.order, self.repeats, &keys.column, &values.column, &row,
                    end, &previous, self.block_size)
            if status != LS_NO_SPACE:
                break
            ls_column_get(&keys.column, row, &key)
            ls_column_get(&values.column, row, &value)
            self.grow(ls_block_room(key, value))
        self.next_row = row
        if row > start:
            self.last_key = (<char *>self.builder.data)[
                self.builder.last_key:self.builder.last_key + self.builder.last_key_size]
        if status != LS_OK and status != LS_BLOCK_FULL:
            self.refuse(status, keys, values, row)
        return row

    def finish(self):
        """Return the encoded block and start the next one.

        The records were written into the returned bytes, so nothing is copied.
        """
        if self.builder.data == NULL:
            self.grow(0)
        ls_block_finish(&self.builder)
        cdef size_t size = self.builder.size
        self.builder.data = NULL
        self.builder.capacity = 0
        ls_block_reset(&self.builder)
        _PyBytes_Resize(&self.buffer, size)
        block = <bytes>self.buffer
        Py_CLEAR(self.buffer)
        self.expected = size + size // 8 + 256  # the next block probably has a similar size
        return block


def order_text(previous, key, compared):
    """Return a text that names two keys that are out of order."""
    if compared:
        return (f"key {key[:64]!r} comes after {previous[:64]!r} but is smaller; "
                "give keys in key order")
    return f"key {key[:64]!r} is repeated; a file holds each key once"


cdef class Handles:
    """The handles of `count` blocks that are contiguous from offset 0, each with its trailer.

    It is a sequence of (offset, size without the trailer).
    """

    def __cinit__(self, size_t count, size_t trailer):
        self.count = count
        self.trailer = trailer
        self.starts = <uint64_t *>malloc((count + 1) * sizeof(uint64_t))
        if self.starts == NULL:
            raise MemoryError()
        self.starts[0] = 0

    def __dealloc__(self):
        free(self.starts)

    def __len__(self):
        return self.count

    def __getitem__(self, which):
        cdef size_t i
        if isinstance(which, slice):
            return [self[one] for one in range(*which.indices(self.count))]
        if which < 0:
            which += self.count
        if not 0 <= which < self.count:
            raise IndexError(f"block {which} of {self.count}")
        i = which
        return self.starts[i], self.starts[i + 1] - self.starts[i] - self.trailer


cdef class Block:
    """The records of one decoded block.

    It holds its `source`, bytes or a view of a mapped file; `path` and `offset` locate it for
    errors.
    """

    def __init__(self, data not None, str path not None, offset, str order="bytes"):
        self.open(data, bytes_of(data), path, offset, order_of(order))

    cdef int open(
            self, object source, ls_slice data, str path, offset, ls_order order) except -1:
        """Take the bytes of a block that are in `source`, and check its tail."""
        self.path = path
        self.offset = offset
        self.order = order
        self.source = source
        self.size = data.size
        return self.fail(ls_block_open(&self.block, data.data, data.size), "a block")

    def __len__(self):
        return self.block.count

    @property
    def aligned(self):
        return self.block.positions == NULL

    @property
    def data(self):
        """A copy of the bytes of the block."""
        return (<const char *>self.block.data)[:self.size]

    @property
    def nbytes(self):
        return self.size

    cdef int fail(self, ls_status status, str what) except -1:
        if status == LS_BAD_KEY and self.order > LS_ORDER_INT64:
            raise CorruptionError(
                self.path, self.offset, what, "a key that is not a row of the fields of its order")
        if status != LS_OK:
            raise CorruptionError(self.path, self.offset, what, status_text(status))
        return 0

    def record(self, uint32_t i):
        """Return key and value of record `i`."""
        cdef ls_slice key, value
        if i >= self.block.count:
            raise IndexError(f"record {i} of {self.block.count}")
        self.fail(ls_block_record(&self.block, i, &key, &value), f"record {i} of the block")
        return (<char *>key.data)[:key.size], (<char *>value.data)[:value.size]

    def handles(self, size_t end, size_t trailer):
        """Return the handles of the blocks that an index names, contiguous and before `end`."""
        cdef ls_slice key, value
        cdef const uint8_t *at
        cdef uint64_t offset, size
        cdef size_t expected = 0
        cdef uint32_t i
        cdef Handles found = Handles(self.block.count, trailer)
        for i in range(self.block.count):
            self.fail(ls_block_record(&self.block, i, &key, &value), f"record {i} of the block")
            at = value.data
            if (ls_get_varint64(&at, value.data + value.size, &offset) != LS_OK
                    or ls_get_varint64(&at, value.data + value.size, &size) != LS_OK
                    or at != value.data + value.size):
                raise CorruptionError(
                    self.path, self.offset, f"handle of block {i}",
                    (<char *>value.data)[:value.size].hex() or "no bytes")
            if offset != expected or trailer > end - expected or size > end - expected - trailer:
                raise CorruptionError(
                    self.path, self.offset, f"block {i} at offset {expected}, before the index",
                    f"offset {offset} and size {size}")
            expected += size + trailer
            found.starts[i + 1] = expected
        return found

    def lower_bound(self, bytes key not None):
        """Return the position of the first record whose key is not smaller."""
        cdef uint32_t position
        cdef int found
        check_key(self.order, slice_of(key), "key")
        self.fail(
            ls_block_lower_bound(&self.block, self.order, slice_of(key), 0, &position, &found),
            "records of the block")
        return position

    def validate(self, bint repeats):
        """Check that the records fill the block and that their keys are in order."""
        cdef uint32_t bad = 0
        cdef ls_status status
        with nogil:
            status = ls_block_validate(&self.block, self.order, repeats, &bad)
        self.fail(status, f"record {bad} of the block")

    cdef Block sortable(self):
        """Return a block with a record for each record, with keys whose bytes sort like its keys.

        Its order is that of bytes. None: the keys are bytes or numbers and need no conversion.
        """
        if self.order <= LS_ORDER_INT64 or ls_row_is_number(<const ls_row_order *>self.order):
            return None
        cdef uint32_t count = self.block.count
        builder = BlockBuilder("bytes", True, MOST_OF_BLOCK)
        keys, _ = self.to_arrow(0, count)
        try:
            made = BinaryColumn(sortable_rows(self.order, BinaryColumn(keys)))
            values = BinaryColumn(pa.repeat(pa.scalar(b"", pa.large_binary()), count))
            if builder.add_many(made, values, 0) < count:
                raise ValueError("more than a block holds")
        except ValueError as error:
            raise CorruptionError(self.path, self.offset, "keys of the block", error) from None
        return Block(builder.finish(), self.path, self.offset)

    def to_arrow(self, uint32_t start, uint32_t end, bint reverse=False):
        """Return keys and values of records [start, end) as two large_binary arrays."""
        return records_of([(self, start, end)], reverse)


def records_of(list parts, bint reverse=False):
    """Return keys and values of records of several blocks as two large_binary arrays.

    Args:
        parts: A block, start and end for each: records [start, end) of the block.
        reverse: Whether each part begins with its last record.

    Raises:
        CorruptionError: If a block is damaged.
        IndexError: If a block does not have these records.
    """
    cdef Block block
    cdef uint32_t start, end
    cdef size_t keys_size = 0, values_size = 0, count = 0, done = 0, part_keys, part_values
    cdef ls_status status
    for block, start, end in parts:
        if start > end or end > block.block.count:
            raise IndexError(f"records {start} to {end} of {block.block.count}")
        with nogil:
            status = ls_block_sizes(&block.block, start, end, &part_keys, &part_values)
        block.fail(status, "records of the block")
        keys_size += part_keys
        values_size += part_values
        count += end - start
    key_offsets = pa.allocate_buffer(8 * (count + 1))
    value_offsets = pa.allocate_buffer(8 * (count + 1))
    keys = pa.allocate_buffer(keys_size)
    values = pa.allocate_buffer(values_size)
    cdef int64_t *key_ends = <int64_t *>buffer_data(key_offsets)
    cdef int64_t *value_ends = <int64_t *>buffer_data(value_offsets)
    cdef uint8_t *key_bytes = <uint8_t *>buffer_data(keys)
    cdef uint8_t *value_bytes = <uint8_t *>buffer_data(values)
    key_ends[0] = value_ends[0] = 0
    for block, start, end in parts:
        with nogil:
            status = ls_block_copy(&block.block, start, end, reverse, key_ends + done, key_bytes,
                                   keys_size, value_ends + done, value_bytes, values_size)
        block.fail(status, "records of the block")
        done += end - start
    return (
        pa.Array.from_buffers(pa.large_binary(), count, [None, key_offsets, keys]),
        pa.Array.from_buffers(pa.large_binary(), count, [None, value_offsets, values]),
    )
