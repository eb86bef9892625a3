/* The keys in each of many [least, greatest] ranges. Keys are sorted, so the keys of a range are
 * one span: the result is two numbers per range, regardless of the number of keys and hits.
 * docs/decisions/0011-key-ranges-are-runs.md. */
#ifndef LS_KEY_RANGES_H
#define LS_KEY_RANGES_H

#include "ls_column.h"

/* The keys order[0 .. count) of a column, which ascend in unsigned byte order. */
typedef struct {
    const ls_column *keys;
    const uint32_t *order;
    size_t count;
} ls_sorted_keys;

/* Keys [start, end) in sorted order. */
typedef struct {
    size_t start, end;
} ls_key_span;

/* The ranges, and an interval tree over them in arrays: `order` sorts them by least key, the root
 * is the one in the middle, and its subtrees are the halves on both sides. `last` has for each
 * index the range with the greatest end in the subtree with that root. */
typedef struct {
    ls_column least, greatest;
    const uint32_t *order;
    const uint32_t *last;
    size_t count; /* number of ranges in the tree */
} ls_key_ranges;

/* Fills `last`, of `count` places, from the other members. REQUIRES: `order` ascends by least key. */
void ls_key_ranges_link(const ls_key_ranges *ranges, uint32_t *last);

/* Sets spans[r] to the keys in range r, for all ranges in `order`: one by one, or by descending the
 * tree with all keys at once. A span without keys is [0, 0).
 * REQUIRES: ls_column_get is LS_OK for all keys and ends; count <= 2^32 - 1. */
void ls_key_ranges_by_list(const ls_key_ranges *ranges, ls_sorted_keys keys, ls_key_span *spans);
void ls_key_ranges_by_tree(const ls_key_ranges *ranges, ls_sorted_keys keys, ls_key_span *spans);

/* Returns whether text in UTF-8 has a character from U+E000 on. Java orders these by UTF-16 units,
 * which puts those above U+FFFF before the others; two texts are ordered by bytes if one of them
 * has no such character. */
int ls_has_high_character(ls_slice text);

#endif
