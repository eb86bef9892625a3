/* The Thrift compact protocol: numbers, and headers of fields and lists.
 *
 * Source: thrift, doc/specs/thrift-compact-protocol.md. */
#ifndef LS_COMPACT_H
#define LS_COMPACT_H

#include "ls_bytes.h"

/* Types of fields, and of elements of lists. The type of a boolean field contains its value. */
enum {
    LS_COMPACT_STOP,
    LS_COMPACT_TRUE,
    LS_COMPACT_FALSE,
    LS_COMPACT_BYTE,
    LS_COMPACT_I16,
    LS_COMPACT_I32,
    LS_COMPACT_I64,
    LS_COMPACT_DOUBLE,
    LS_COMPACT_BINARY,
    LS_COMPACT_LIST,
    LS_COMPACT_SET,
    LS_COMPACT_MAP,
    LS_COMPACT_STRUCT,
    LS_COMPACT_UUID,
};

/* Reads a size or a count. */
static inline ls_status ls_compact_varint(const uint8_t **cursor, const uint8_t *end,
                                          uint64_t *value) {
    uint64_t result = 0;
    for (unsigned shift = 0; shift < 64; shift += 7) {
        if (*cursor >= end)
            return LS_TRUNCATED;
        uint8_t byte = *(*cursor)++;
        result |= (uint64_t)(byte & 0x7f) << shift;
        if (byte < 0x80) {
            *value = result;
            return LS_OK;
        }
    }
    return LS_BAD_VARINT;
}

/* Reads an integer; small ones, including negative ones, are short. */
static inline ls_status ls_compact_integer(const uint8_t **cursor, const uint8_t *end,
                                           int64_t *value) {
    uint64_t coded;
    ls_status status = ls_compact_varint(cursor, end, &coded);
    if (status == LS_OK)
        *value = (int64_t)(coded >> 1) ^ -(int64_t)(coded & 1);
    return status;
}

/* Writes an integer, at most 10 bytes. */
static inline uint8_t *ls_put_compact_integer(uint8_t *out, int64_t value) {
    return ls_put_varint(out, ((uint64_t)value << 1) ^ (uint64_t)(value >> 63));
}

/* Reads the type of the next field of a struct, STOP at its end, and its id, which is stored
 * relative to the id before. Ids have 16 bits and may be negative. */
static inline ls_status ls_compact_field(const uint8_t **cursor, const uint8_t *end, int64_t *id,
                                         int *type) {
    if (*cursor >= end)
        return LS_TRUNCATED;
    uint8_t byte = *(*cursor)++;
    *type = byte & 0x0f;
    if (*type == LS_COMPACT_STOP)
        return LS_OK;
    ls_status status = LS_OK;
    if (byte >> 4)
        *id += byte >> 4;
    else
        status = ls_compact_integer(cursor, end, id);
    return status == LS_OK && (*id < INT16_MIN || *id > INT16_MAX) ? LS_BAD_HEADER : status;
}

/* Reads the type and the number of the elements of a list; each element has at least one byte. */
static inline ls_status ls_compact_list(const uint8_t **cursor, const uint8_t *end, int *type,
                                        uint64_t *count) {
    if (*cursor >= end)
        return LS_TRUNCATED;
    uint8_t byte = *(*cursor)++;
    *type = byte & 0x0f;
    *count = byte >> 4;
    if (*count == 15) {
        ls_status status = ls_compact_varint(cursor, end, count);
        if (status != LS_OK)
            return status;
    }
    return *count > (size_t)(end - *cursor) ? LS_TRUNCATED : LS_OK;
}

/* Reads the number of a field of a type with 16, 32 or 64 bits. */
static inline ls_status ls_compact_number(const uint8_t **cursor, const uint8_t *end, int type,
                                          int64_t *value) {
    ls_status status = ls_compact_integer(cursor, end, value);
    if (status != LS_OK)
        return status;
    if (type == LS_COMPACT_I32 && (*value < INT32_MIN || *value > INT32_MAX))
        return LS_BAD_HEADER;
    if (type == LS_COMPACT_I16 && (*value < INT16_MIN || *value > INT16_MAX))
        return LS_BAD_HEADER;
    return LS_OK;
}

/* Skips a value of any Thrift type. `depth`: maximum depth of nested structs, lists and maps,
 * including the value. A boolean here is an element of a list, which has a byte. */
ls_status ls_compact_skip(const uint8_t **cursor, const uint8_t *end, int type, int depth);

#endif
