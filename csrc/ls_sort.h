/* Stable sort of a batch of keys: radix on 8 bytes at a time. */
#ifndef LS_SORT_H
#define LS_SORT_H

#include "ls_column.h"
#include "ls_order.h"

typedef struct {
    uint64_t prefix; /* of the key, from the present depth of the sort */
    uint32_t index;  /* row of the key in its column */
} ls_sort_item;

/* Sets prefix of every item from its key. LS_BAD_KEY, with *bad the item: a key that is invalid in
 * the order; LS_BAD_COLUMN: offsets outside of the data. */
ls_status ls_sort_prefixes(ls_order order, const ls_column *keys, ls_sort_item *items, size_t count,
                           size_t *bad);

/* Sorts items by key; items with equal keys keep their order.
 * REQUIRES: ls_sort_prefixes was LS_OK; room for count items in scratch. */
void ls_sort_keys(ls_order order, const ls_column *keys, ls_sort_item *items, size_t count,
                  ls_sort_item *scratch);

#endif
