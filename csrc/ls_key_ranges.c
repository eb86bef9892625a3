#include "ls_key_ranges.h"

#include "ls_order.h"

static inline ls_slice get(const ls_column *column, size_t i) {
    ls_slice value = {NULL, 0};
    (void)ls_column_get(column, i, &value);
    return value;
}

/* Returns the first index of a span whose key is not below (with `after`: is above) a bound, or its
 * end. */
static size_t find(ls_sorted_keys keys, ls_key_span span, ls_slice bound, int after) {
    size_t low = span.start, high = span.end;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        int order = ls_compare_bytes(get(keys.keys, keys.order[middle]), bound);
        if (order < 0 || (after && order == 0))
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* Returns the keys of a span that are in [least, greatest]. */
static ls_key_span within(ls_sorted_keys keys, ls_key_span span, ls_slice least,
                          ls_slice greatest) {
    span.start = find(keys, span, least, 0);
    span.end = find(keys, span, greatest, 1);
    return span.start < span.end ? span : (ls_key_span){0, 0};
}

void ls_key_ranges_by_list(const ls_key_ranges *ranges, ls_sorted_keys keys, ls_key_span *spans) {
    ls_key_span all = {0, keys.count};
    for (size_t i = 0; i < ranges->count; i++) {
        uint32_t range = ranges->order[i];
        spans[range] = within(keys, all, get(&ranges->least, range), get(&ranges->greatest, range));
    }
}

/* A subtree: indices [start, end) of `order`, and the keys that may be in it. */
typedef struct {
    size_t start, end;
    ls_key_span span;
} subtree;

/* Maximum number of waiting subtrees: halving leaves at most one per level. */
#define DEEPEST 64

static inline size_t root_of(size_t start, size_t end) {
    return start + (end - start) / 2;
}

static uint32_t later_end(const ls_key_ranges *ranges, uint32_t one, uint32_t other) {
    return ls_compare_bytes(get(&ranges->greatest, one), get(&ranges->greatest, other)) < 0 ? other
                                                                                            : one;
}

/* Indices [start, end), and whether the halves on both sides of the root are done. */
typedef struct {
    size_t start, end;
    int done;
} visit;

void ls_key_ranges_link(const ls_key_ranges *ranges, uint32_t *last) {
    visit waiting[3 * DEEPEST];
    size_t depth = 0;
    if (ranges->count > 0)
        waiting[depth++] = (visit){0, ranges->count, 0};
    while (depth > 0) {
        visit *top = &waiting[depth - 1];
        size_t start = top->start, end = top->end, root = root_of(start, end);
        if (top->done) {
            uint32_t found = ranges->order[root];
            if (start < root)
                found = later_end(ranges, found, last[root_of(start, root)]);
            if (root + 1 < end)
                found = later_end(ranges, found, last[root_of(root + 1, end)]);
            last[root] = found;
            depth--;
            continue;
        }
        top->done = 1;
        if (start < root)
            waiting[depth++] = (visit){start, root, 0};
        if (root + 1 < end)
            waiting[depth++] = (visit){root + 1, end, 0};
    }
}

void ls_key_ranges_by_tree(const ls_key_ranges *ranges, ls_sorted_keys keys, ls_key_span *spans) {
    subtree waiting[2 * DEEPEST];
    size_t depth = 0;
    for (size_t i = 0; i < ranges->count; i++)
        spans[ranges->order[i]] = (ls_key_span){0, 0};
    waiting[depth++] = (subtree){0, ranges->count, {0, keys.count}};
    while (depth > 0) {
        subtree top = waiting[--depth];
        if (top.start >= top.end)
            continue;
        size_t root = root_of(top.start, top.end);
        uint32_t range = ranges->order[root];
        /* All least keys below a root are at or after the first, all ends at or before the last. */
        top.span = within(keys, top.span, get(&ranges->least, ranges->order[top.start]),
                          get(&ranges->greatest, ranges->last[root]));
        if (top.span.start == top.span.end)
            continue;
        spans[range] =
            within(keys, top.span, get(&ranges->least, range), get(&ranges->greatest, range));
        waiting[depth++] = (subtree){top.start, root, top.span};
        waiting[depth++] = (subtree){root + 1, top.end, top.span};
    }
}

int ls_has_high_character(ls_slice text) {
    for (size_t i = 0; i < text.size; i++)
        if (text.data[i] >= 0xee) /* the first byte of U+E000; later bytes are below 0xc0 */
            return 1;
    return 0;
}
