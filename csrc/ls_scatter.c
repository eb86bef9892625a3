#include "ls_scatter.h"

#include "ls_order.h"

/* Returns the number of ascending numbers that are less than one; with `also_equal`, or equal to
 * it. */
static inline size_t rank_of(const uint64_t *numbers, size_t count, uint64_t number,
                             int also_equal) {
    size_t low = 0;
    while (count > 0) {
        size_t half = count / 2;
        uint64_t middle = numbers[low + half];
        int is_less = also_equal ? middle <= number : middle < number;
        low = is_less ? low + half + 1 : low;
        count = is_less ? count - half - 1 : half;
    }
    return low;
}

/* Returns the number of cuts from `low` to `high` that are less than a key, plus all before
 * `low`. */
static size_t compared(const ls_column *cuts, size_t low, size_t high, ls_slice key) {
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        ls_slice cut = {NULL, 0};
        (void)ls_column_get(cuts, middle, &cut);
        if (ls_compare_bytes(cut, key) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

ls_status ls_scatter_find(const ls_column *keys, const ls_column *cuts, const uint64_t *prefixes,
                          uint32_t *ranges, size_t *bad) {
    for (size_t i = 0; i < keys->length; i++) {
        ls_slice key;
        ls_status status = ls_column_get(keys, i, &key);
        if (status == LS_OK && !ls_column_is_valid(keys, i))
            status = LS_NULL;
        if (status != LS_OK) {
            *bad = i;
            return status;
        }
        uint64_t prefix = ls_bytes_prefix(key.data, key.size);
        size_t range = rank_of(prefixes, cuts->length, prefix, 0);
        /* Cuts with the same prefix as the key must be compared completely. */
        if (range < cuts->length && prefixes[range] == prefix)
            range = compared(cuts, range, rank_of(prefixes, cuts->length, prefix, 1), key);
        ranges[i] = (uint32_t)range;
    }
    return LS_OK;
}

void ls_scatter_rows(const uint32_t *ranges, size_t count, size_t ranges_count, uint32_t *rows,
                     uint64_t *ends) {
    memset(ends, 0, (ranges_count + 1) * sizeof *ends);
    for (size_t i = 0; i < count; i++)
        ends[ranges[i] + 1]++;
    for (size_t range = 0; range < ranges_count; range++)
        ends[range + 1] += ends[range];
    /* The start of a range advances to its end, which is the start of the next one. */
    for (size_t i = 0; i < count; i++)
        rows[ends[ranges[i]]++] = (uint32_t)i;
    memmove(ends + 1, ends, ranges_count * sizeof *ends);
    ends[0] = 0;
}

void ls_scatter_mixed(const ls_column *keys, const uint32_t *rows, const uint64_t *ends,
                      size_t ranges_count, uint8_t *mixed) {
    for (size_t range = 0; range < ranges_count; range++) {
        mixed[range] = 0;
        ls_slice first = {NULL, 0}, key = {NULL, 0};
        for (uint64_t at = ends[range]; at < ends[range + 1] && !mixed[range]; at++) {
            (void)ls_column_get(keys, rows[at], &key);
            if (at == ends[range])
                first = key;
            else
                mixed[range] = ls_compare_bytes(first, key) != 0;
        }
    }
}
