#include "ls_row_order.h"

/* Nanoseconds of a millisecond. */
#define LS_MILLI 1000000

/* One field: an integer with its order, or its bytes. */
typedef struct {
    uint64_t number; /* has the order of the field; for a decimal its high 64 bits */
    uint64_t low;    /* the next part: low bits of a decimal, nanoseconds of a timestamp */
    ls_slice bytes;
} field;

/* Converts signed numbers to unsigned ones of the same order. */
static inline uint64_t lifted(int64_t number) {
    return (uint64_t)number ^ (UINT64_C(1) << 63);
}

/* Orders IEEE bits like Java's compare: -0.0 before 0.0, every NaN after all numbers. */
static inline uint64_t lifted_double(uint64_t bits) {
    if ((bits & INT64_MAX) > UINT64_C(0x7ff0000000000000))
        return UINT64_MAX;
    return bits >> 63 ? ~bits : bits | UINT64_C(1) << 63;
}

static inline uint64_t lifted_float(uint32_t bits) {
    if ((bits & INT32_MAX) > 0x7f800000)
        return UINT64_MAX;
    bits = bits >> 31 ? ~bits : bits | UINT32_C(1) << 31;
    return (uint64_t)bits << 32;
}

/* Reads a field that is not null, and moves to its end. Each value has only one form, so that equal
 * keys have equal bytes and equal hashes, except NaNs, which keep their bits. */
static inline ls_status read_field(ls_field_kind kind, const uint8_t **cursor, const uint8_t *end,
                                   field *found) {
    static const uint8_t sizes[] = {1, 1, 2, 4, 8, 4, 8, 0, 0, 8};
    uint32_t length = 0;
    ls_status status;
    found->low = 0;
    if (sizes[kind] > (size_t)(end - *cursor))
        return LS_TRUNCATED;
    const uint8_t *p = *cursor;
    *cursor += sizes[kind];
    switch (kind) {
    case LS_FIELD_BOOL:
        found->number = (uint64_t)p[0] << 56;
        return p[0] > 1 ? LS_BAD_KEY : LS_OK;
    case LS_FIELD_INT8:
        found->number = lifted((int64_t)((uint64_t)p[0] << 56));
        return LS_OK;
    case LS_FIELD_INT16:
        found->number = lifted((int64_t)((uint64_t)p[0] << 48 | (uint64_t)p[1] << 56));
        return LS_OK;
    case LS_FIELD_INT32:
        found->number = lifted((int64_t)((uint64_t)ls_load32(p) << 32));
        return LS_OK;
    case LS_FIELD_INT64:
        found->number = lifted((int64_t)ls_load64(p));
        return LS_OK;
    case LS_FIELD_FLOAT:
        found->number = lifted_float(ls_load32(p));
        return LS_OK;
    case LS_FIELD_DOUBLE:
        found->number = lifted_double(ls_load64(p));
        return LS_OK;
    case LS_FIELD_TIMESTAMP:
        found->number = lifted((int64_t)ls_load64(p));
        p = *cursor;
        status = ls_get_varint32(cursor, end, &length);
        found->low = length;
        if (status == LS_OK &&
            (length >= LS_MILLI || (size_t)(*cursor - p) != ls_varint_size(length)))
            status = LS_BAD_KEY;
        return status;
    case LS_FIELD_BYTES:
    case LS_FIELD_DECIMAL:
        break;
    }
    p = *cursor;
    status = ls_get_varint32(cursor, end, &length);
    if (status != LS_OK)
        return status;
    if ((size_t)(*cursor - p) != ls_varint_size(length))
        return LS_BAD_KEY;
    if (length > (size_t)(end - *cursor))
        return LS_TRUNCATED;
    found->bytes.data = p = *cursor;
    found->bytes.size = length;
    *cursor += length;
    if (kind == LS_FIELD_DECIMAL) {
        if (length < 1 || length > 16 ||
            (length > 1 && (p[0] == 0 || p[0] == 0xff) && p[0] >> 7 == p[1] >> 7))
            return LS_BAD_KEY;
        uint64_t high = p[0] >> 7 ? UINT64_MAX : 0, low = high;
        for (uint32_t i = 0; i < length; i++) {
            high = high << 8 | low >> 56;
            low = low << 8 | p[i];
        }
        found->number = lifted((int64_t)high);
        found->low = low;
    } else {
        found->number = ls_bytes_prefix(p, length);
    }
    return LS_OK;
}

/* LS_BAD_KEY: the header of a key is not that of such a row. */
static inline ls_status check_header(const ls_row_order *order, ls_slice key, size_t header) {
    if (key.size < header || key.data[0] != 0)
        return LS_BAD_KEY;
    unsigned used = (8 + order->count) & 7; /* bits of the last byte of the header; 0: all */
    return used != 0 && key.data[header - 1] >> used != 0 ? LS_BAD_KEY : LS_OK;
}

ls_status ls_row_check(const ls_row_order *order, ls_slice key) {
    size_t header = ls_row_header(order->count);
    if (check_header(order, key, header) != LS_OK)
        return LS_BAD_KEY;
    if (order->count == 1 && order->kinds[0] == LS_FIELD_INT64 && key.size == 10)
        return key.data[1] == 0 ? LS_OK : LS_BAD_KEY; /* most keys have this form */
    const uint8_t *p = key.data + header, *end = key.data + key.size;
    for (uint32_t i = 0; i < order->count; i++) {
        field found;
        if (!ls_row_is_null(key.data, i) &&
            read_field((ls_field_kind)order->kinds[i], &p, end, &found) != LS_OK)
            return LS_BAD_KEY;
    }
    return p == end ? LS_OK : LS_BAD_KEY;
}

uint64_t ls_row_prefix(const ls_row_order *order, ls_slice key) {
    size_t header = ls_row_header(order->count);
    field found;
    if (order->count == 0 || key.size < header || ls_row_is_null(key.data, 0))
        return 0;
    const uint8_t *p = key.data + header;
    if (order->kinds[0] == LS_FIELD_INT64 && key.size - header >= 8)
        return lifted((int64_t)ls_load64(p));
    if (read_field((ls_field_kind)order->kinds[0], &p, key.data + key.size, &found) != LS_OK)
        return 0;
    /* Most decimals are in the low bits: these decide if the high ones are only a sign. */
    if (order->kinds[0] == LS_FIELD_DECIMAL) {
        uint64_t sign = UINT64_C(1) << 63;
        if (found.number == sign)
            found.number = sign | found.low >> 1;
        else if (found.number == sign - 1)
            found.number = found.low >> 1;
        else
            found.number = found.number > sign ? UINT64_MAX : 0;
    }
    return found.number;
}

int ls_row_compare(const ls_row_order *order, ls_slice a, ls_slice b) {
    size_t header = ls_row_header(order->count);
    if (a.size < header || b.size < header)
        return ls_compare_bytes(a, b);
    const uint8_t *p = a.data + header, *q = b.data + header;
    for (uint32_t i = 0; i < order->count; i++) {
        int x_null = ls_row_is_null(a.data, i), y_null = ls_row_is_null(b.data, i);
        ls_field_kind kind = (ls_field_kind)order->kinds[i];
        field x, y;
        if ((!x_null && read_field(kind, &p, a.data + a.size, &x) != LS_OK) ||
            (!y_null && read_field(kind, &q, b.data + b.size, &y) != LS_OK))
            return ls_compare_bytes(a, b);
        if (x_null != y_null)
            return x_null ? -1 : 1;
        if (x_null)
            continue;
        if (x.number != y.number)
            return x.number < y.number ? -1 : 1;
        if (kind == LS_FIELD_BYTES) {
            int compared = ls_compare_bytes(x.bytes, y.bytes);
            if (compared != 0)
                return compared;
        } else if (x.low != y.low) {
            return x.low < y.low ? -1 : 1;
        }
    }
    return 0;
}

int ls_row_is_number(const ls_row_order *order) {
    return order->count == 1 && order->kinds[0] < LS_FIELD_BYTES;
}

/* Bytes that are counted, and written as far as there is room. */
typedef struct {
    uint8_t *out;
    size_t room;
    size_t size;
} sink;

static inline void put(sink *to, const uint8_t *bytes, size_t size) {
    if (size > 0 && to->size <= to->room && size <= to->room - to->size)
        memcpy(to->out + to->size, bytes, size);
    to->size += size;
}

/* Writes the first `width` bytes of a number, big-endian. */
static inline void put_number(sink *to, uint64_t number, size_t width) {
    uint8_t bytes[8];
    for (size_t i = 0; i < 8; i++)
        bytes[i] = (uint8_t)(number >> (56 - 8 * i));
    put(to, bytes, width);
}

static void put_escaped(sink *to, ls_slice value) {
    static const uint8_t zero[] = {0x00, 0xff}, last[] = {0x00, 0x00};
    const uint8_t *p = value.data, *end = value.data + value.size;
    while (p < end) {
        const uint8_t *found = memchr(p, 0, (size_t)(end - p));
        size_t run = (size_t)((found == NULL ? end : found) - p);
        put(to, p, run);
        p += run;
        if (found != NULL) {
            put(to, zero, 2);
            p++;
        }
    }
    put(to, last, 2);
}

ls_status ls_row_sortable(const ls_row_order *order, ls_slice key, uint8_t *out, size_t room,
                          size_t *size) {
    static const uint8_t widths[] = {1, 1, 2, 4, 8, 4, 8, 0, 8, 8}; /* of `number` */
    static const uint8_t is_null[] = {0}, is_there[] = {1};
    size_t header = ls_row_header(order->count);
    sink to = {out, room, 0};
    if (check_header(order, key, header) != LS_OK)
        return LS_BAD_KEY;
    const uint8_t *p = key.data + header, *end = key.data + key.size;
    for (uint32_t i = 0; i < order->count; i++) {
        ls_field_kind kind = (ls_field_kind)order->kinds[i];
        field found;
        if (ls_row_is_null(key.data, i)) {
            put(&to, is_null, 1);
            continue;
        }
        if (read_field(kind, &p, end, &found) != LS_OK)
            return LS_BAD_KEY;
        put(&to, is_there, 1);
        if (kind != LS_FIELD_BYTES)
            put_number(&to, found.number, widths[kind]);
        else if (i + 1 == order->count)
            put(&to, found.bytes.data, found.bytes.size);
        else
            put_escaped(&to, found.bytes);
        if (kind == LS_FIELD_DECIMAL)
            put_number(&to, found.low, 8);
        else if (kind == LS_FIELD_TIMESTAMP)
            put_number(&to, found.low << 32, 4);
    }
    *size = to.size;
    return p == end ? LS_OK : LS_BAD_KEY;
}

ls_status ls_row_sortable_sizes(const ls_row_order *order, const ls_column *keys, int64_t *ends,
                                size_t *bad) {
    ends[0] = 0;
    for (size_t i = 0; i < keys->length; i++) {
        ls_slice key;
        size_t size = 0;
        *bad = i;
        if (!ls_column_is_valid(keys, i))
            return LS_NULL;
        ls_status status = ls_column_get(keys, i, &key);
        if (status == LS_OK)
            status = ls_row_sortable(order, key, NULL, 0, &size);
        if (status != LS_OK)
            return status;
        ends[i + 1] = ends[i] + (int64_t)size;
    }
    return LS_OK;
}

ls_status ls_row_sortable_write(const ls_row_order *order, const ls_column *keys,
                                const int64_t *ends, uint8_t *out, size_t *bad) {
    for (size_t i = 0; i < keys->length; i++) {
        ls_slice key = {NULL, 0};
        size_t room = (size_t)(ends[i + 1] - ends[i]), size;
        *bad = i;
        (void)ls_column_get(keys, i, &key);
        if (ls_row_sortable(order, key, out + ends[i], room, &size) != LS_OK || size != room)
            return LS_BAD_KEY;
    }
    return LS_OK;
}
