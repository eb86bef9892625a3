/* Keys that are rows as Apache Paimon's RowCompactedSerializer writes them, in the order of its slice
 * comparator: field by field, a null first; the row kind is not compared.
 *
 * A key is a byte for the row kind, a bit for each field that is null (from bit 8 of the key on), then
 * the fields that are not, end to end. docs/format.md draws it. */
#ifndef LS_ROW_ORDER_H
#define LS_ROW_ORDER_H

#include "ls_column.h"

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

/* Whether ls_row_prefix tells any two keys apart, but a null from the least number. */
int ls_row_is_number(const ls_row_order *order);

/* Makes bytes that memcmp orders, a prefix first, as ls_row_compare orders the keys, and that are the
 * same where it says 0. Each field is 00 if it is null, or 01 and itself: numbers big-endian with
 * their sign turned, bytes as they are in the last field, else with 00 FF for each 00 and 00 00 at
 * their end. *size is how many there are; if that is more than `room`, not all have been written.
 * LS_BAD_KEY: the key is not such a row. */
ls_status ls_row_sortable(const ls_row_order *order, ls_slice key, uint8_t *out, size_t room,
                          size_t *size);

/* The same of a column: sets ends[0] to 0 and ends[1..] to where the bytes of each key end. LS_NULL,
 * LS_BAD_KEY, LS_BAD_COLUMN: of key *bad. */
ls_status ls_row_sortable_sizes(const ls_row_order *order, const ls_column *keys, int64_t *ends,
                                size_t *bad);
/* LS_BAD_KEY: the bytes of key *bad have changed since. REQUIRES: out has room for all. */
ls_status ls_row_sortable_write(const ls_row_order *order, const ls_column *keys,
                                const int64_t *ends, uint8_t *out, size_t *bad);

#endif
