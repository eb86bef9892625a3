"""Encode key fields of a batch as key bytes and decode them: one C call per field, no GIL."""

from libc.stdint cimport int64_t, uint8_t, uint32_t, uintptr_t
from libc.string cimport memset

import numpy as np
import pyarrow as pa

from lookupstore.errors import FormatError

from lookupstore.arrow._binary cimport (
    LS_BAD_ROW,
    LS_OK,
    BinaryColumn,
    allocate,
    buffer_data,
    ls_column,
    ls_status,
)


cdef extern from "ls_keys.h":
    ctypedef enum ls_key_kind:
        LS_KEY_BYTES
    const char *ls_key_kind_name(int kind) noexcept nogil
    ctypedef struct ls_key_field:
        ls_key_kind kind
        size_t width
        int nullable
        int last
    ctypedef struct ls_key_target:
        uint8_t *data
        size_t stride
        int64_t *cursors
        size_t length
    ls_status ls_keys_add_sizes(
        const ls_key_field *field, const ls_column *values, int64_t *sizes) noexcept nogil
    int64_t ls_keys_starts(int64_t *sizes, size_t length) noexcept nogil
    ls_status ls_keys_write(const ls_key_field *field, const ls_column *values, size_t offset,
                            ls_key_target *target) noexcept nogil
    ls_status ls_keys_check_width(
        const ls_column *keys, size_t width, size_t *bad) noexcept nogil
    void ls_keys_read_strided(const ls_key_field *field, const ls_column *keys, size_t offset,
                              uint8_t *out) noexcept nogil
    ls_status ls_keys_read_fixed(
        const ls_key_field *field, const ls_column *keys, int64_t *cursors, uint8_t *out,
        uint8_t *validity, size_t *nulls, size_t *bad) noexcept nogil
    ls_status ls_keys_measure_bytes(
        const ls_key_field *field, const ls_column *keys, const int64_t *cursors,
        int64_t *offsets, size_t *bad) noexcept nogil
    ls_status ls_keys_read_bytes(
        const ls_key_field *field, const ls_column *keys, int64_t *cursors, uint8_t *out,
        uint8_t *validity, size_t *nulls, size_t *bad) noexcept nogil
    ls_status ls_keys_check_ends(
        const ls_column *keys, const int64_t *cursors, size_t *bad) noexcept nogil
    ls_status ls_keys_buckets(
        const ls_column *keys, uint32_t buckets, uint32_t *out) noexcept nogil


cdef dict kinds():
    found = {}
    while ls_key_kind_name(len(found)) != NULL:
        found[ls_key_kind_name(len(found)).decode()] = len(found)
    return found


# Kinds of fields that C code can encode, by name.
KINDS = kinds()


cdef inline void *writable(object buffer):
    return <void *><uintptr_t>buffer.address


cdef ls_key_field as_field(object code, bint last):
    cdef ls_key_field field
    kind, width, nullable = code
    field.kind = <ls_key_kind><int>kind
    field.width = width
    field.nullable = nullable
    field.last = last
    return field


def encode(list codes not None, list columns not None, size_t length, width):
    """Encode one key per row.

    `codes` are (kind, width, nullable) of each field. `columns` are as many Arrow arrays of
    `length` values, fixed_size_binary(width) or, for BYTES, of any binary type. `width` is the size
    of all keys, or None if it varies.
    """
    cdef ls_status status = LS_OK
    cdef ls_key_field field
    cdef ls_key_target target
    cdef BinaryColumn column
    cdef size_t offset = 0
    cdef size_t i
    cdef int64_t base = 0
    cdef int64_t total
    cdef int64_t *sizes
    cdef size_t count = len(codes)
    fields = [(code, i + 1 == count, BinaryColumn(values, f"keys[{i}]"))
              for i, (code, values) in enumerate(zip(codes, columns, strict=True))]
    for _, _, column in fields:
        if column.column.length != length:
            raise ValueError(f"keys: {column.column.length} values where {length} are needed")
    target.length = length
    target.cursors = NULL
    if width is not None:
        target.stride = width
        data = allocate(length * target.stride)
        target.data = <uint8_t *>writable(data)
        for code, last, column in fields:
            field = as_field(code, last)
            with nogil:
                status = ls_keys_write(&field, &column.column, offset, &target)
            check(status)
            offset += field.width
        return pa.Array.from_buffers(pa.binary(width), length, [None, data])
    # offsets[i + 1] first holds the size of key i, then its start, and then advances with every
    # field that is written. After the last field it is the end of key i, as Arrow requires.
    offsets = allocate((length + 1) * 8)
    sizes = <int64_t *>writable(offsets)
    for code in codes:
        base += <int64_t>code[1] + bool(code[2])
    with nogil:
        sizes[0] = 0
        sizes += 1
        for i in range(length):
            sizes[i] = base
    for code, last, column in fields:
        field = as_field(code, last)
        with nogil:
            status = ls_keys_add_sizes(&field, &column.column, sizes)
        check(status)
    with nogil:
        total = ls_keys_starts(sizes, length)
    data = allocate(total)
    target.data = <uint8_t *>writable(data)
    target.stride = 0
    target.cursors = sizes
    for code, last, column in fields:
        field = as_field(code, last)
        with nogil:
            status = ls_keys_write(&field, &column.column, 0, &target)
        check(status)
    return pa.Array.from_buffers(pa.large_binary(), length, [None, offsets, data])


def encode_alone(code, array, kind):
    """Encode the values of an Arrow array without nulls, each of which is a whole key.

    `code` is (kind, width, nullable) of a field of fixed width without nulls, with values that C
    reads in place; `kind` is fixed_size_binary(width). The result is that of `encode`, but no view
    of the array as bytes is made: most calls for a few keys have a single number per key.
    """
    cdef ls_key_field field = as_field(code, True)
    cdef ls_column values
    cdef ls_key_target target
    cdef ls_status status
    cdef size_t length = len(array)
    cdef size_t start = array.offset
    data = array.buffers()[1]
    cdef size_t size = 0 if data is None else data.size
    if size // field.width < start + length:
        raise ValueError("keys: the Arrow array is longer than its data buffer")
    keys = allocate(length * field.width)
    memset(&values, 0, sizeof(values))
    memset(&target, 0, sizeof(target))
    if length:
        values.data = buffer_data(data) + start * field.width
        values.data_size = length * field.width
        values.width = field.width
        values.length = target.length = length
        target.stride = field.width
        target.data = <uint8_t *>writable(keys)
        with nogil:
            status = ls_keys_write(&field, &values, 0, &target)
        check(status)
    return pa.Array.from_buffers(kind, length, [None, keys], 0)


def decode(list codes not None, list names not None, keys, width):
    """Decode keys into one array per field: fixed_size_binary, or large_binary for BYTES.

    Raises FormatError, with the field and the row of the first key that does not fit.
    """
    cdef BinaryColumn column = BinaryColumn(keys, "keys")
    cdef ls_column strided
    cdef ls_status status
    cdef ls_key_field field
    cdef size_t offset = 0
    cdef size_t bad = 0
    cdef size_t nulls
    cdef size_t length = column.column.length
    cdef size_t size
    cdef int64_t *cursors
    cdef int64_t *ends
    cdef uint8_t *out
    cdef uint8_t *bits
    if column.column.validity != NULL:
        row = int(np.argmin(np.asarray(column.array.is_valid())))
        raise ValueError(f"keys[{row}] is null; give keys without nulls")
    result = []
    if width is not None:
        size = width
        with nogil:
            status = ls_keys_check_width(&column.column, size, &bad)
        if status == LS_BAD_ROW:
            raise FormatError(
                f"key {bad}: {column.array[bad].as_buffer().size} bytes, where the key schema "
                f"({', '.join(names)}) needs {width}"
            )
        check(status)
        strided = column.column
        if strided.offset_width == 8 and length:
            strided.data += (<const int64_t *>strided.offsets)[0]
        elif strided.offset_width == 4 and length:
            strided.data += (<const int *>strided.offsets)[0]
        strided.width = size
        strided.offset_width = 0
        for code in codes:
            field = as_field(code, False)
            data = allocate(length * field.width)
            out = <uint8_t *>writable(data)
            with nogil:
                ls_keys_read_strided(&field, &strided, offset, out)
            offset += field.width
            result.append(pa.Array.from_buffers(pa.binary(field.width), length, [None, data]))
        return result
    positions = allocate(length * 8)
    cursors = <int64_t *>writable(positions)
    memset(cursors, 0, length * 8)
    for i, code in enumerate(codes):
        field = as_field(code, i + 1 == len(codes))
        nulls = 0
        validity = None
        bits = NULL
        if field.nullable:
            validity = allocate((length + 7) // 8)
            bits = <uint8_t *>writable(validity)
            memset(bits, 0, (length + 7) // 8)
        if field.kind == LS_KEY_BYTES:
            offsets = allocate((length + 1) * 8)
            ends = <int64_t *>writable(offsets)
            with nogil:
                status = ls_keys_measure_bytes(&field, &column.column, cursors, ends, &bad)
            check_field(status, names[i], bad)
            data = allocate(ends[length])
            out = <uint8_t *>writable(data)
            with nogil:
                status = ls_keys_read_bytes(
                    &field, &column.column, cursors, out, bits, &nulls, &bad)
            buffers = [validity if nulls else None, offsets, data]
            kind = pa.large_binary()
        else:
            data = allocate(length * field.width)
            out = <uint8_t *>writable(data)
            with nogil:
                status = ls_keys_read_fixed(
                    &field, &column.column, cursors, out, bits, &nulls, &bad)
            buffers = [validity if nulls else None, data]
            kind = pa.binary(field.width)
        check_field(status, names[i], bad)
        result.append(pa.Array.from_buffers(kind, length, buffers, nulls))
    with nogil:
        status = ls_keys_check_ends(&column.column, cursors, &bad)
    if status == LS_BAD_ROW:
        raise FormatError(
            f"key {bad}: bytes are left over after its last field, {names[len(names) - 1]!r}")
    check(status)
    return result


cdef int check(ls_status status) except -1:
    if status != LS_OK:
        raise ValueError("keys: an Arrow array has offsets outside its data buffer")
    return 0


cdef int check_field(ls_status status, str name, size_t bad) except -1:
    if status == LS_BAD_ROW:
        raise FormatError(f"key {bad}: its bytes do not fit the key field {name!r}")
    return check(status)


cdef BinaryColumn as_column(values):
    return values if isinstance(values, BinaryColumn) else BinaryColumn(values, "keys")


def bucket_of(values, buckets):
    """Return the bucket of each key: XXH64 of its bytes, seed 0, modulo `buckets`."""
    cdef BinaryColumn column = as_column(values)
    cdef uint32_t count
    cdef ls_status status
    if not 1 <= buckets <= 0xFFFFFFFF:
        raise ValueError(f"buckets is {buckets}; give a number from 1 to {0xFFFFFFFF}")
    count = buckets
    result = np.empty(column.column.length, np.uint32)
    cdef uint32_t[::1] out = result
    if column.column.length:
        with nogil:
            status = ls_keys_buckets(&column.column, count, &out[0])
        check(status)
    return result


def by_bucket(values, buckets):
    """Return the positions of keys, bucket by bucket, and the start of each bucket in these.

    Positions are uint32, ascending in each bucket. For b buckets there are b + 1 int64 starts; the
    last one is the number of keys.
    """
    cdef uint32_t[::1] held = bucket_of(values, buckets)
    cdef size_t length = held.shape[0]
    cdef size_t i
    if length > 0xFFFFFFFF:
        raise ValueError(f"{length} keys in one call; give at most 4294967295")
    positions = np.empty(length, np.uint32)
    starts = np.zeros(buckets + 2, np.int64)
    cdef uint32_t[::1] out = positions
    cdef int64_t[::1] ends = starts
    with nogil:
        # A count is stored two places later, so that the start of each bucket can advance to its
        # end.
        for i in range(length):
            ends[held[i] + 2] += 1
        for i in range(2, <size_t>ends.shape[0]):
            ends[i] += ends[i - 1]
        for i in range(length):
            out[ends[held[i] + 1]] = <uint32_t>i
            ends[held[i] + 1] += 1
    return positions, starts[:-1]
