/* Tests of ls_merge.h, against a look at each row. */
#include "ls_merge.h"
#include "ls_order.h"
#include "made.h"
#include "tests.h"

enum { RUNS = 7, ROWS = 60, LONGEST = 12 };

static ls_slice random_key(uint8_t *bytes, size_t width) {
    size_t size = width > 0 ? width : below(LONGEST + 1);
    for (size_t i = 0; i < size; i++)
        bytes[i] = (uint8_t)(below(3) * 127);
    return (ls_slice){bytes, size};
}

static int compare_slices(const void *left, const void *right) {
    return ls_compare_bytes(*(const ls_slice *)left, *(const ls_slice *)right);
}

void test_merge(void) {
    static uint8_t bytes[RUNS + 1][ROWS][LONGEST];
    for (size_t round = 0; round < 300; round++) {
        ls_slice keys[RUNS][ROWS], found[RUNS * ROWS];
        made_column made[RUNS];
        ls_column runs[RUNS];
        int64_t starts[RUNS], ends[RUNS], stops[RUNS];
        size_t count = 1 + below(RUNS), width = round % 2 == 0 ? 0 : 5;
        for (size_t r = 0; r < count; r++) {
            size_t rows = below(ROWS + 1);
            for (size_t i = 0; i < rows; i++)
                keys[r][i] = random_key(bytes[r][i], width);
            if (rows > 0)
                qsort(keys[r], rows, sizeof keys[r][0], compare_slices);
            made[r] = make_column(keys[r], rows, width > 0 ? 0 : round % 4 == 0 ? 4 : 8);
            runs[r] = made[r].column;
            starts[r] = (int64_t)below(rows + 1);
            ends[r] = starts[r] + (int64_t)below(rows + 1 - (size_t)starts[r]);
        }
        ls_slice bound = random_key(bytes[RUNS][0], width);
        CHECK(ls_merge_cut(runs, starts, ends, count, bound, stops) == LS_OK);
        size_t expected = 0, size = 0;
        for (size_t r = 0; r < count; r++) {
            int64_t stop = starts[r];
            while (stop < ends[r] && ls_compare_bytes(keys[r][stop], bound) <= 0)
                size += keys[r][stop++].size;
            CHECK(stops[r] == stop);
            expected += (size_t)(stop - starts[r]);
        }
        uint64_t total = 1;
        CHECK(ls_merge_slices(runs, starts, stops, count, found, &total) == LS_OK);
        CHECK(total == size);
        size_t at = 0;
        for (size_t r = 0; r < count; r++)
            for (int64_t row = starts[r]; row < stops[r]; row++, at++)
                CHECK(ls_compare_bytes(found[at], keys[r][row]) == 0);
        CHECK(at == expected);
        for (size_t r = 0; r < count; r++)
            free_column(&made[r]);
    }
    int32_t offsets[2] = {0, 9}; /* beyond the data */
    ls_column wrong = {.data = bytes[0][0], .data_size = 4, .offsets = offsets, .offset_width = 4};
    wrong.length = 1;
    int64_t start = 0, end = 1, stop;
    ls_slice slice, bound = {bytes[0][0], 1};
    uint64_t total;
    CHECK(ls_merge_cut(&wrong, &start, &end, 1, bound, &stop) == LS_BAD_COLUMN);
    CHECK(ls_merge_slices(&wrong, &start, &end, 1, &slice, &total) == LS_BAD_COLUMN);
}
