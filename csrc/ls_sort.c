#include "ls_sort.h"

/* Number of items below which insertion sort is faster than counting bytes. */
#define SMALL_SORT 24

/* Depth in bytes from which items are merged by whole comparisons: it bounds the recursion. */
#define DEEPEST_RADIX 256

static ls_slice key_of(const ls_column *keys, const ls_sort_item *item) {
    ls_slice key = {NULL, 0};
    (void)ls_column_get(keys, item->index, &key); /* checked by ls_sort_prefixes */
    return key;
}

static size_t rest_of(const ls_column *keys, const ls_sort_item *item, size_t depth) {
    size_t size = key_of(keys, item).size;
    return size > depth ? size - depth : 0;
}

static int compare_items(const ls_column *keys, const ls_sort_item *a, const ls_sort_item *b) {
    if (a->prefix != b->prefix)
        return a->prefix < b->prefix ? -1 : 1;
    return ls_compare_bytes(key_of(keys, a), key_of(keys, b));
}

static void insertion_sort(const ls_column *keys, ls_sort_item *items, size_t count) {
    for (size_t i = 1; i < count; i++) {
        ls_sort_item item = items[i];
        size_t j = i;
        while (j > 0 && compare_items(keys, &items[j - 1], &item) > 0) {
            items[j] = items[j - 1];
            j--;
        }
        items[j] = item;
    }
}

static void merge_sort(const ls_column *keys, ls_sort_item *items, size_t count,
                       ls_sort_item *scratch) {
    for (size_t run = 1; run < count; run *= 2) {
        for (size_t start = 0; start < count; start += 2 * run) {
            size_t middle = start + run < count ? start + run : count;
            size_t end = middle + run < count ? middle + run : count;
            size_t left = start, right = middle;
            for (size_t out = start; out < end; out++) {
                int take_left =
                    right == end ||
                    (left < middle && compare_items(keys, &items[left], &items[right]) <= 0);
                scratch[out] = take_left ? items[left++] : items[right++];
            }
        }
        memcpy(items, scratch, count * sizeof *items);
    }
}

/* Sorts from the least significant byte on, without bytes that are equal in all items. Its counters
 * are not in the frames of the recursion below. */
__attribute__((noinline)) static void radix_sort(ls_sort_item *items, size_t count,
                                                 ls_sort_item *scratch) {
    size_t ascending = 1;
    while (ascending < count && items[ascending - 1].prefix <= items[ascending].prefix)
        ascending++;
    if (ascending == count)
        return;
    uint32_t counts[8][256];
    memset(counts, 0, sizeof counts);
    for (size_t i = 0; i < count; i++)
        for (unsigned byte = 0; byte < 8; byte++)
            counts[byte][items[i].prefix >> (8 * byte) & 0xff]++;
    ls_sort_item *from = items, *to = scratch;
    for (unsigned byte = 0; byte < 8; byte++) {
        uint32_t *starts = counts[byte];
        if (starts[from[0].prefix >> (8 * byte) & 0xff] == count)
            continue;
        uint32_t sum = 0;
        for (size_t value = 0; value < 256; value++) {
            uint32_t here = starts[value];
            starts[value] = sum;
            sum += here;
        }
        for (size_t i = 0; i < count; i++)
            to[starts[from[i].prefix >> (8 * byte) & 0xff]++] = from[i];
        ls_sort_item *swap = from;
        from = to;
        to = swap;
    }
    if (from != items)
        memcpy(items, from, count * sizeof *items);
}

/* Orders items whose keys agree in every byte before `depth`, and, after zero padding, in the 8 bytes
 * from it: shorter keys first. Returns how many of them end before depth + 8. */
static size_t shorter_first(const ls_column *keys, ls_sort_item *items, size_t count, size_t depth,
                            ls_sort_item *scratch) {
    size_t counts[9] = {0};
    for (size_t i = 0; i < count; i++) {
        size_t rest = rest_of(keys, &items[i], depth);
        counts[rest < 8 ? rest : 8]++;
    }
    if (counts[8] == count)
        return 0;
    size_t starts[9], sum = 0;
    for (size_t rest = 0; rest < 9; rest++) {
        starts[rest] = sum;
        sum += counts[rest];
    }
    size_t ended = count - counts[8];
    for (size_t i = 0; i < count; i++) {
        size_t rest = rest_of(keys, &items[i], depth);
        scratch[starts[rest < 8 ? rest : 8]++] = items[i];
    }
    memcpy(items, scratch, count * sizeof *items);
    return ended;
}

/* Sorts items whose keys agree in every byte before `depth`; prefixes are of the bytes from it. */
static void sort_from(const ls_column *keys, ls_sort_item *items, size_t count, size_t depth,
                      ls_sort_item *scratch) {
    if (count <= SMALL_SORT) {
        insertion_sort(keys, items, count);
        return;
    }
    if (depth > DEEPEST_RADIX) {
        merge_sort(keys, items, count, scratch);
        return;
    }
    radix_sort(items, count, scratch);
    for (size_t start = 0; start < count;) {
        size_t end = start + 1;
        while (end < count && items[end].prefix == items[start].prefix)
            end++;
        if (end - start > 1) {
            size_t ended = shorter_first(keys, items + start, end - start, depth, scratch);
            ls_sort_item *longer = items + start + ended;
            size_t left = end - start - ended;
            for (size_t i = 0; i < left; i++) {
                ls_slice key = key_of(keys, &longer[i]);
                longer[i].prefix = ls_bytes_prefix(key.data + depth + 8, key.size - depth - 8);
            }
            sort_from(keys, longer, left, depth + 8, scratch);
        }
        start = end;
    }
}

ls_status ls_sort_prefixes(ls_order order, const ls_column *keys, ls_sort_item *items, size_t count,
                           size_t *bad) {
    for (size_t i = 0; i < count; i++) {
        ls_slice key;
        ls_status status = ls_column_get(keys, items[i].index, &key);
        if (status == LS_OK)
            status = ls_check_key(order, key);
        if (status != LS_OK) {
            *bad = i;
            return status;
        }
        items[i].prefix = ls_key_prefix(order, key);
    }
    return LS_OK;
}

void ls_sort_keys(ls_order order, const ls_column *keys, ls_sort_item *items, size_t count,
                  ls_sort_item *scratch) {
    if (count < 2)
        return;
    if (order != LS_ORDER_BYTES) { /* the prefix is the whole key */
        radix_sort(items, count, scratch);
        return;
    }
    sort_from(keys, items, count, 0, scratch);
}
