/* Tests of ls_scatter.h, against a look at each cut. */
#include "ls_order.h"
#include "ls_scatter.h"
#include "made.h"
#include "tests.h"

enum { KEYS = 400, CUTS = 40, LONGEST = 24 };

/* Sets bytes of few letters, so that many begin alike; with a width, all are that long. */
static ls_slice random_key(uint8_t *bytes, size_t width) {
    size_t size = width > 0 ? width : below(LONGEST + 1);
    for (size_t i = 0; i < size; i++)
        bytes[i] = i < 7 ? (uint8_t)(below(20) == 0) : (uint8_t)(below(3) * 127);
    return (ls_slice){bytes, size};
}

static int compare_slices(const void *left, const void *right) {
    return ls_compare_bytes(*(const ls_slice *)left, *(const ls_slice *)right);
}

void test_scatter(void) {
    static uint8_t bytes[KEYS + CUTS][LONGEST];
    ls_slice keys[KEYS], cuts[CUTS];
    uint32_t ranges[KEYS], rows[KEYS];
    uint64_t prefixes[CUTS], ends[CUTS + 2];
    uint8_t mixed[CUTS + 1];
    for (size_t round = 0; round < 300; round++) {
        size_t width = round % 3 == 0 ? 0 : round % 3 == 1 ? 13 : 3;
        size_t count = below(KEYS + 1), cuts_count = below(CUTS + 1), bad = 0;
        for (size_t i = 0; i < count; i++)
            keys[i] = random_key(bytes[i], width);
        for (size_t i = 0; i < cuts_count; i++)
            cuts[i] = random_key(bytes[KEYS + i], width);
        if (cuts_count > 0)
            qsort(cuts, cuts_count, sizeof *cuts, compare_slices);
        for (size_t i = 0; i < cuts_count; i++)
            prefixes[i] = ls_bytes_prefix(cuts[i].data, cuts[i].size);
        made_column of_keys = make_column(keys, count, 4),
                    of_cuts = make_column(cuts, cuts_count, 8);
        CHECK(ls_scatter_find(&of_keys.column, &of_cuts.column, prefixes, ranges, &bad) == LS_OK);
        for (size_t i = 0; i < count; i++) {
            size_t range = 0;
            while (range < cuts_count && ls_compare_bytes(cuts[range], keys[i]) < 0)
                range++;
            CHECK(ranges[i] == range);
        }
        ls_scatter_rows(ranges, count, cuts_count + 1, rows, ends);
        ls_scatter_mixed(&of_keys.column, rows, ends, cuts_count + 1, mixed);
        CHECK(ends[0] == 0 && ends[cuts_count + 1] == count);
        for (size_t range = 0; range <= cuts_count; range++) {
            int differ = 0;
            CHECK(ends[range] <= ends[range + 1]);
            for (uint64_t at = ends[range]; at < ends[range + 1]; at++) {
                CHECK(ranges[rows[at]] == range);
                CHECK(at == ends[range] || rows[at - 1] < rows[at]);
                differ |= ls_compare_bytes(keys[rows[ends[range]]], keys[rows[at]]) != 0;
            }
            CHECK(mixed[range] == differ);
        }
        free_column(&of_keys);
        free_column(&of_cuts);
    }
}
