/* The closed set of key orders, and comparing keys in them. */
#ifndef LS_ORDER_H
#define LS_ORDER_H

#include "ls_bytes.h"

typedef enum {
    LS_ORDER_BYTES = 0, /* unsigned bytes, a prefix first */
    LS_ORDER_INT8 = 1,  /* little-endian two's complement integers of that many bytes */
    LS_ORDER_INT16 = 2,
    LS_ORDER_INT32 = 4,
    LS_ORDER_INT64 = 8,
} ls_order;

/* A number that orders as the key does, as far as 8 bytes reach: if prefix(a) < prefix(b) then
 * a < b; if they are equal, integer keys are equal and byte keys need ls_compare. */
static inline uint64_t ls_bytes_prefix(const uint8_t *p, size_t size) {
    if (size >= 8)
        return ls_load64_big(p);
    uint64_t value = 0;
    for (size_t i = 0; i < size; i++)
        value |= (uint64_t)p[i] << (56 - 8 * i);
    return value;
}

static inline int ls_compare_bytes(ls_slice a, ls_slice b) {
    size_t shared = a.size < b.size ? a.size : b.size;
    if (shared >= 8) { /* most keys differ here, without a call */
        uint64_t x = ls_load64_big(a.data), y = ls_load64_big(b.data);
        if (x != y)
            return x < y ? -1 : 1;
    }
    int order = shared == 0 ? 0 : memcmp(a.data, b.data, shared);
    if (order != 0)
        return order;
    return (a.size > b.size) - (a.size < b.size);
}

/* LS_BAD_KEY: integer orders know keys of one size only. */
static inline ls_status ls_check_key(ls_order order, ls_slice key) {
    return order == LS_ORDER_BYTES || key.size == (size_t)order ? LS_OK : LS_BAD_KEY;
}

/* REQUIRES: ls_check_key is LS_OK for the key. */
uint64_t ls_key_prefix(ls_order order, ls_slice key);

/* REQUIRES: ls_check_key is LS_OK for both. Negative, zero or positive as memcmp. */
int ls_compare(ls_order order, ls_slice a, ls_slice b);

#endif
