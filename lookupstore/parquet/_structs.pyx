"""Structs of the Thrift compact protocol, as dictionaries; see `structs`."""

from cpython.bytearray cimport PyByteArray_AS_STRING, PyByteArray_Resize
from cpython.bytes cimport PyBytes_FromStringAndSize
from libc.stddef cimport size_t
from libc.stdint cimport INT16_MAX, INT16_MIN, INT32_MAX, INT32_MIN, int64_t, uint8_t, uint64_t
from libc.string cimport memcpy

from lookupstore.arrow._binary cimport LS_OK, bytes_of, ls_slice, ls_status


cdef extern from "ls_compact.h":
    enum:
        LS_COMPACT_STOP
        LS_COMPACT_TRUE
        LS_COMPACT_FALSE
        LS_COMPACT_BYTE
        LS_COMPACT_I16
        LS_COMPACT_I32
        LS_COMPACT_I64
        LS_COMPACT_DOUBLE
        LS_COMPACT_BINARY
        LS_COMPACT_LIST
        LS_COMPACT_SET
        LS_COMPACT_MAP
        LS_COMPACT_STRUCT
        LS_COMPACT_UUID
    ls_status ls_compact_varint(
        const uint8_t **cursor, const uint8_t *end, uint64_t *value) noexcept nogil
    ls_status ls_compact_integer(
        const uint8_t **cursor, const uint8_t *end, int64_t *value) noexcept nogil
    ls_status ls_compact_field(
        const uint8_t **cursor, const uint8_t *end, int64_t *id, int *type) noexcept nogil
    ls_status ls_compact_list(
        const uint8_t **cursor, const uint8_t *end, int *type, uint64_t *count) noexcept nogil
    ls_status ls_compact_skip(
        const uint8_t **cursor, const uint8_t *end, int type, int depth) noexcept nogil
    uint8_t *ls_put_compact_integer(uint8_t *out, int64_t value) noexcept nogil
    uint8_t *ls_put_varint(uint8_t *out, uint64_t value) noexcept nogil

cdef enum:
    # Deepest nesting that is decoded: footers are less deep, and deeper structs are no footers.
    MOST_DEPTH = 16
    # Most bytes of a field without its value, and most bytes of a number.
    HEAD_BYTES = 11
    NUMBER_BYTES = 10
    # Id of extensions of any writer, by parquet-format's BinaryProtocolExtensions.md: 32767, in
    # bytes that the compact protocol reads as -16384.
    EXTENSION = 32767


cdef inline bint is_of_no_footer(int kind):
    """Return whether a type of Thrift is in no field of any struct of Parquet."""
    return kind == LS_COMPACT_SET or kind == LS_COMPACT_MAP or kind == LS_COMPACT_UUID


cdef class _Reader:
    cdef const uint8_t *start
    cdef const uint8_t *cursor
    cdef const uint8_t *end
    # Id of a field of the outermost struct whose value is not decoded; -1: none.
    cdef int64_t passed_over

    def __cinit__(self, bytes data not None, Py_ssize_t start=0, int64_t passed_over=-1):
        cdef ls_slice memory = bytes_of(data)
        if start < 0 or <size_t>start > memory.size:
            raise ValueError(f"a struct at {start} of {memory.size} bytes")
        self.start = memory.data
        self.cursor = memory.data + start
        self.end = memory.data + memory.size
        self.passed_over = passed_over

    cdef int check(self, ls_status status) except -1:
        if status != LS_OK:
            raise ValueError(f"other bytes at {self.cursor - self.start}")
        return 0

    cdef const uint8_t *take(self, uint64_t size) except NULL:
        cdef const uint8_t *found = self.cursor
        if size > <uint64_t>(self.end - found):
            raise ValueError(f"{size} bytes at {found - self.start}: {self.end - found} are left")
        self.cursor += size
        return found

    cdef object integer(self, int64_t least, int64_t greatest):
        cdef int64_t value = 0
        self.check(ls_compact_integer(&self.cursor, self.end, &value))
        if value < least or value > greatest:
            raise ValueError(f"{value} in a narrower integer")
        return value

    cdef dict struct(self, int depth):
        cdef int64_t field = 0
        cdef int kind = 0
        cdef dict found = {}
        while True:
            self.check(ls_compact_field(&self.cursor, self.end, &field, &kind))
            if kind == LS_COMPACT_STOP:
                return found
            # Fields that no version of Parquet has are skipped. An extension may repeat contents of
            # the rest, and would be wrong in another file.
            if field <= 0 or field == EXTENSION or is_of_no_footer(kind):
                if kind != LS_COMPACT_TRUE and kind != LS_COMPACT_FALSE:
                    self.check(
                        ls_compact_skip(&self.cursor, self.end, kind, MOST_DEPTH - depth - 1))
                continue
            # The type of such a field is its value; here all booleans have one type.
            if kind == LS_COMPACT_TRUE or kind == LS_COMPACT_FALSE:
                found[field] = LS_COMPACT_TRUE, kind == LS_COMPACT_TRUE
            elif depth == 0 and field == self.passed_over:
                found[field] = kind, self.place(kind, depth + 1)
            else:
                found[field] = kind, self.value(kind, depth + 1)

    cdef object place(self, int kind, int depth):
        """Return the offset of a value, and move behind it."""
        cdef const uint8_t *begin = self.cursor
        cdef ls_status status
        with nogil:
            status = ls_compact_skip(&self.cursor, self.end, kind, MOST_DEPTH - depth)
        self.check(status)
        return begin - self.start

    cdef object value(self, int kind, int depth):
        cdef uint64_t count = 0, _item
        cdef int items = 0
        cdef double number
        if depth == MOST_DEPTH:
            raise ValueError(f"structs and lists nested more than {MOST_DEPTH} deep")
        if is_of_no_footer(kind):  # an element of a list of such a type
            self.check(ls_compact_skip(&self.cursor, self.end, kind, MOST_DEPTH - depth))
            return None
        if kind == LS_COMPACT_STRUCT:
            return self.struct(depth)
        if kind == LS_COMPACT_BINARY:
            self.check(ls_compact_varint(&self.cursor, self.end, &count))
            return PyBytes_FromStringAndSize(<const char *>self.take(count), <Py_ssize_t>count)
        if kind == LS_COMPACT_I64:
            return self.integer(-1 << 63, (1 << 63) - 1)
        if kind == LS_COMPACT_I32:
            return self.integer(INT32_MIN, INT32_MAX)
        if kind == LS_COMPACT_I16:
            return self.integer(INT16_MIN, INT16_MAX)
        if kind == LS_COMPACT_LIST:
            self.check(ls_compact_list(&self.cursor, self.end, &items, &count))
            if items == LS_COMPACT_FALSE:
                items = LS_COMPACT_TRUE
            values = []
            for _item in range(count):
                values.append(self.value(items, depth + 1))
            return items, values
        if kind == LS_COMPACT_TRUE:  # an element of a list
            return self.take(1)[0] == LS_COMPACT_TRUE
        if kind == LS_COMPACT_BYTE:
            return (<const signed char *>self.take(1))[0]
        if kind == LS_COMPACT_DOUBLE:
            memcpy(&number, self.take(8), 8)
            return number
        raise ValueError(f"a field or an element of type {kind}")


cdef class _Writer:
    cdef bytearray out
    cdef size_t used

    def __cinit__(self):
        self.out = bytearray(1024)

    cdef uint8_t *room(self, size_t size) except NULL:
        """Return the place for the next bytes; the caller adds their number to `used`."""
        if size > <size_t>len(self.out) - self.used:
            PyByteArray_Resize(self.out, self.used + size + (self.used + size) // 2)
        return <uint8_t *>PyByteArray_AS_STRING(self.out) + self.used

    cdef int went(self, const uint8_t *end) except -1:
        self.used = end - <uint8_t *>PyByteArray_AS_STRING(self.out)
        return 0

    cdef int struct(self, dict struct) except -1:
        cdef int64_t before = 0, field
        cdef int kind
        cdef uint8_t *out
        for number in sorted(struct):
            kind, held = struct[number]
            field = number
            if kind == LS_COMPACT_TRUE and not held:
                kind = LS_COMPACT_FALSE
            out = self.room(HEAD_BYTES)
            if 0 < field - before < 16:
                out[0] = <uint8_t>((field - before) << 4 | kind)
                self.went(out + 1)
            else:
                out[0] = <uint8_t>kind
                self.went(ls_put_compact_integer(out + 1, field))
            before = field
            if kind != LS_COMPACT_TRUE and kind != LS_COMPACT_FALSE:
                self.value(kind, held)
        out = self.room(1)
        out[0] = LS_COMPACT_STOP
        self.went(out + 1)
        return 0

    cdef int value(self, int kind, object value) except -1:
        cdef uint8_t *out
        cdef ls_slice memory
        cdef double number
        cdef int items
        if kind == LS_COMPACT_STRUCT:
            self.struct(value)
        elif kind == LS_COMPACT_BINARY:
            memory = bytes_of(value)
            out = ls_put_varint(self.room(NUMBER_BYTES + memory.size), memory.size)
            memcpy(out, memory.data, memory.size)
            self.went(out + memory.size)
        elif kind == LS_COMPACT_I16 or kind == LS_COMPACT_I32 or kind == LS_COMPACT_I64:
            self.went(ls_put_compact_integer(self.room(NUMBER_BYTES), value))
        elif kind == LS_COMPACT_LIST:
            items, values = value
            out = self.room(HEAD_BYTES)
            if len(values) < 15:
                out[0] = <uint8_t>(len(values) << 4 | items)
                self.went(out + 1)
            else:
                out[0] = <uint8_t>(15 << 4 | items)
                self.went(ls_put_varint(out + 1, len(values)))
            for one in values:
                self.value(items, one)
        elif kind == LS_COMPACT_TRUE or kind == LS_COMPACT_BYTE:
            out = self.room(1)
            out[0] = <uint8_t>(
                (LS_COMPACT_TRUE if value else LS_COMPACT_FALSE)
                if kind == LS_COMPACT_TRUE else <signed char>value)
            self.went(out + 1)
        elif kind == LS_COMPACT_DOUBLE:
            number = value
            out = self.room(8)
            memcpy(out, &number, 8)
            self.went(out + 8)
        else:
            raise ValueError(f"a field or an element of type {kind}")
        return 0


def decode(bytes data not None, Py_ssize_t start=0):
    """Return the struct that begins at an offset of some bytes.

    Raises:
        ValueError: No struct begins there.
    """
    cdef _Reader reader = _Reader(data, start)
    return reader.struct(0)


def decode_around(bytes data not None, int64_t field):
    """Return the struct at the beginning of some bytes, with the offset of one field's value.

    This offset is the field's value in the struct. The value itself is checked, but not decoded.

    Args:
        data: Bytes of the struct.
        field: Id of the field.

    Raises:
        ValueError: The bytes do not begin with a struct.
    """
    cdef _Reader reader = _Reader(data, 0, field)
    return reader.struct(0)


def encode(dict struct not None):
    """Return a struct as bytes."""
    cdef _Writer writer = _Writer()
    writer.struct(struct)
    PyByteArray_Resize(writer.out, writer.used)
    return writer.out
