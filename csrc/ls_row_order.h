/* Keys that are rows in the format of Apache Paimon's RowCompactedSerializer, in the order of its
 * slice comparator: field by field, nulls first; the row kind is not compared.
 *
 * A key is a byte for the row kind, a bit for each field that is null (from bit 8 of the key on), then
 * the fields that are not, end to end. docs/reference/format.md draws it. */
#ifndef LS_ROW_ORDER_H
#define LS_ROW_ORDER_H

#include "ls_column.h"

#define LS_MOST_KEY_FIELDS 120

/* Stored forms of a field. Integers are little-endian. */
typedef enum {
    LS_FIELD_BOOL,
    LS_FIELD_INT8,
    LS_FIELD_INT16,
    LS_FIELD_INT32,
    LS_FIELD_INT64,
    LS_FIELD_FLOAT,
    LS_FIELD_DOUBLE,
    LS_FIELD_BYTES, /* varint length, the bytes */
    LS_FIELD_DECIMAL, /* varint length, big-endian two's complement of 1 to 16 bytes */
    LS_FIELD_TIMESTAMP, /* int64 of milliseconds, varint of further nanoseconds */
} ls_field_kind;

typedef struct {
    uint32_t count;
    uint8_t kinds[LS_MOST_KEY_FIELDS]; /* ls_field_kind */
} ls_row_order;

/* Returns the number of bytes of the row kind and the null bits of a row with `fields` fields. */
static inline size_t ls_row_header(size_t fields) {
    return (fields + 15) / 8;
}

static inline int ls_row_is_null(const uint8_t *row, size_t field) {
    return row[(8 + field) >> 3] >> (field & 7) & 1;
}

/* LS_BAD_KEY: the bytes are not exactly one such row. */
ls_status ls_row_check(const ls_row_order *order, ls_slice key);

/* Returns a number with the order of the first 8 bytes of the first field; 0 for a null. REQUIRES:
 * the key was checked; if its bytes have changed since, the result is any number. */
uint64_t ls_row_prefix(const ls_row_order *order, ls_slice key);

/* Compares like memcmp. REQUIRES: both keys were checked; if bytes have changed since, the result
 * is any order. */
int ls_row_compare(const ls_row_order *order, ls_slice a, ls_slice b);

/* Returns whether ls_row_prefix distinguishes any two keys, except a null and the least number. */
int ls_row_is_number(const ls_row_order *order);

/* Makes bytes that memcmp orders, a prefix first, in the same way as ls_row_compare orders the
 * keys, and that are equal if its result is 0. Each field is 00 if it is null, or 01 and its value:
 * numbers big-endian with the sign bit inverted, bytes unchanged in the last field, otherwise with
 * 00 FF for each 00 and 00 00 at the end. *size is their number; if that is more than `room`, not
 * all have been written.
 * LS_BAD_KEY: the key is not such a row. */
ls_status ls_row_sortable(const ls_row_order *order, ls_slice key, uint8_t *out, size_t room,
                          size_t *size);

/* Does the same for a column: sets ends[0] to 0 and ends[1..] to the ends of the bytes of each key.
 * LS_NULL, LS_BAD_KEY, LS_BAD_COLUMN: of key *bad. */
ls_status ls_row_sortable_sizes(const ls_row_order *order, const ls_column *keys, int64_t *ends,
                                size_t *bad);
/* LS_BAD_KEY: the bytes of key *bad have changed since. REQUIRES: out has room for all. */
ls_status ls_row_sortable_write(const ls_row_order *order, const ls_column *keys,
                                const int64_t *ends, uint8_t *out, size_t *bad);

#endif
