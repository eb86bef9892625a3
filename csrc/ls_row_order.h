/* Keys that are rows as Apache Paimon's RowCompactedSerializer writes them, in the order of its slice
 * comparator: field by field, a null first; the row kind is not compared.
 *
 * A key is a byte for the row kind, a bit for each field that is null (from bit 8 of the key on), then
 * the fields that are not, end to end. docs/format.md draws it. */
#ifndef LS_ROW_ORDER_H
#define LS_ROW_ORDER_H

#include "ls_bytes.h"

#define LS_MOST_KEY_FIELDS 120

/* What a field is on disk. Integers are little-endian. */
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
    LS_FIELD_TIMESTAMP, /* int64 of milliseconds, varint of the nanoseconds in the last of them */
} ls_field_kind;

typedef struct {
    uint32_t count;
    uint8_t kinds[LS_MOST_KEY_FIELDS]; /* ls_field_kind */
} ls_row_order;

/* Bytes of the row kind and the null bits of a row with so many fields. */
static inline size_t ls_row_header(size_t fields) {
    return (fields + 15) / 8;
}

static inline int ls_row_is_null(const uint8_t *row, size_t field) {
    return row[(8 + field) >> 3] >> (field & 7) & 1;
}

/* LS_BAD_KEY: the bytes are not such a row, from the first to the last. */
ls_status ls_row_check(const ls_row_order *order, ls_slice key);

/* A number that orders as the first field does, as far as 8 bytes reach; 0 of a null. REQUIRES: the key was
 * checked; bytes that have changed since give some number. */
uint64_t ls_row_prefix(const ls_row_order *order, ls_slice key);

/* As memcmp. REQUIRES: both keys were checked; bytes that have changed since give some order. */
int ls_row_compare(const ls_row_order *order, ls_slice a, ls_slice b);

#endif
