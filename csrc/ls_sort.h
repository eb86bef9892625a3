/* Stable sort of a batch of keys: radix on 8 bytes at a time. */
#ifndef LS_SORT_H
#define LS_SORT_H

#include "ls_column.h"
#include "ls_order.h"

typedef struct {
    uint64_t prefix; /* of the key, from the depth that is being sorted */
    uint32_t index;  /* row of the key in its column */
} ls_sort_item;

/* Sets prefix of every item from its key. LS_BAD_KEY, with *bad the item: a key that the order does
 * not know; LS_BAD_COLUMN: offsets that leave the data. */
ls_status ls_sort_prefixes(ls_order order, const ls_column *keys, ls_sort_item *items, size_t count,
                           size_t *bad);

/* Sorts items by key, items with equal keys staying as they were.
 * REQUIRES: ls_sort_prefixes said LS_OK; room for count items in scratch. */
void ls_sort_keys(ls_order order, const ls_column *keys, ls_sort_item *items, size_t count,
                  ls_sort_item *scratch);

#endif
