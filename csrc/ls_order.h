/* The key orders, and the comparison of keys in them. */
#ifndef LS_ORDER_H
#define LS_ORDER_H

#include "ls_row_order.h"

/* One of these, or the address of an ls_row_order, which must exist as long as it is used. */
typedef uintptr_t ls_order;

enum {
    LS_ORDER_BYTES = 0, /* unsigned bytes, a prefix first */
    LS_ORDER_INT8 = 1,  /* little-endian two's complement integers of that many bytes */
    LS_ORDER_INT16 = 2,
    LS_ORDER_INT32 = 4,
    LS_ORDER_INT64 = 8,
};

/* Returns the fields of keys that are rows; NULL: they are not rows. */
static inline const ls_row_order *ls_order_rows(ls_order order) {
    return order > LS_ORDER_INT64 ? (const ls_row_order *)order : NULL;
}

/* LS_BAD_KEY: integer orders accept keys of one size only, and rows must have their fields. */
static inline ls_status ls_check_key(ls_order order, ls_slice key) {
    if (order == LS_ORDER_BYTES || key.size == (size_t)order)
        return LS_OK;
    return order > LS_ORDER_INT64 ? ls_row_check((const ls_row_order *)order, key) : LS_BAD_KEY;
}

/* Returns a number with the order of the first 8 bytes of keys: if prefix(a) < prefix(b) then a <
 * b; if they are equal, integer keys are equal and others need ls_compare.
 * REQUIRES: ls_check_key is LS_OK for the key. */
uint64_t ls_key_prefix(ls_order order, ls_slice key);

/* REQUIRES: ls_check_key is LS_OK for both. Negative, zero or positive like memcmp. */
int ls_compare(ls_order order, ls_slice a, ls_slice b);

#endif
