#include "ls_order.h"

uint64_t ls_key_prefix(ls_order order, ls_slice key) {
    if (order == LS_ORDER_BYTES)
        return ls_bytes_prefix(key.data, key.size);
    if (ls_order_rows(order) != NULL)
        return ls_row_prefix(ls_order_rows(order), key);
    uint64_t value = 0;
    for (size_t i = 0; i < key.size; i++)
        value |= (uint64_t)key.data[i] << (8 * i);
    /* Shift the sign to the top bit and flip it: negative numbers come first. */
    return (value << (64 - 8 * (unsigned)order)) ^ (UINT64_C(1) << 63);
}

int ls_compare(ls_order order, ls_slice a, ls_slice b) {
    if (order == LS_ORDER_BYTES)
        return ls_compare_bytes(a, b);
    if (ls_order_rows(order) != NULL)
        return ls_row_compare(ls_order_rows(order), a, b);
    uint64_t x = ls_key_prefix(order, a), y = ls_key_prefix(order, b);
    return (x > y) - (x < y);
}
