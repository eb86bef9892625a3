#include "ls_compact.h"

static ls_status skip_bytes(const uint8_t **cursor, const uint8_t *end, uint64_t size) {
    if (size > (size_t)(end - *cursor))
        return LS_TRUNCATED;
    *cursor += size;
    return LS_OK;
}

static ls_status skip_struct(const uint8_t **cursor, const uint8_t *end, int depth) {
    int64_t id = 0;
    int type;
    for (;;) {
        ls_status status = ls_compact_field(cursor, end, &id, &type);
        if (status != LS_OK || type == LS_COMPACT_STOP)
            return status;
        /* The type of a boolean field is its value. */
        if (type != LS_COMPACT_TRUE && type != LS_COMPACT_FALSE)
            status = ls_compact_skip(cursor, end, type, depth);
        if (status != LS_OK)
            return status;
    }
}

static ls_status skip_list(const uint8_t **cursor, const uint8_t *end, int depth) {
    int type;
    uint64_t count;
    ls_status status = ls_compact_list(cursor, end, &type, &count);
    for (uint64_t i = 0; status == LS_OK && i < count; i++)
        status = ls_compact_skip(cursor, end, type, depth);
    return status;
}

/* A map has the number of its pairs, a byte with the types of both unless it is empty, and the
 * pairs. */
static ls_status skip_map(const uint8_t **cursor, const uint8_t *end, int depth) {
    uint64_t count;
    ls_status status = ls_compact_varint(cursor, end, &count);
    if (status != LS_OK || count == 0)
        return status;
    if (*cursor >= end)
        return LS_TRUNCATED;
    int key = *(*cursor) >> 4, value = *(*cursor) & 0x0f;
    (*cursor)++;
    /* Each pair has at least two bytes. */
    if (count > (size_t)(end - *cursor) / 2)
        return LS_TRUNCATED;
    for (uint64_t i = 0; status == LS_OK && i < count; i++) {
        status = ls_compact_skip(cursor, end, key, depth);
        if (status == LS_OK)
            status = ls_compact_skip(cursor, end, value, depth);
    }
    return status;
}

ls_status ls_compact_skip(const uint8_t **cursor, const uint8_t *end, int type, int depth) {
    uint64_t size;
    int64_t value;
    ls_status status;
    if (depth <= 0)
        return LS_BAD_HEADER;
    switch (type) {
    case LS_COMPACT_TRUE:
    case LS_COMPACT_FALSE:
    case LS_COMPACT_BYTE:
        return skip_bytes(cursor, end, 1);
    case LS_COMPACT_I16:
    case LS_COMPACT_I32:
    case LS_COMPACT_I64:
        return ls_compact_number(cursor, end, type, &value);
    case LS_COMPACT_DOUBLE:
        return skip_bytes(cursor, end, 8);
    case LS_COMPACT_UUID:
        return skip_bytes(cursor, end, 16);
    case LS_COMPACT_BINARY:
        status = ls_compact_varint(cursor, end, &size);
        return status == LS_OK ? skip_bytes(cursor, end, size) : status;
    case LS_COMPACT_LIST:
    case LS_COMPACT_SET:
        return skip_list(cursor, end, depth - 1);
    case LS_COMPACT_MAP:
        return skip_map(cursor, end, depth - 1);
    case LS_COMPACT_STRUCT:
        return skip_struct(cursor, end, depth - 1);
    default:
        return LS_BAD_HEADER;
    }
}
