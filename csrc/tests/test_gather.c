/* Tests of ls_gather.h. */
#include "ls_gather.h"
#include "made.h"
#include "tests.h"

void test_gather(void) {
    for (int trial = 0; trial < 300; trial++) {
        enum { MOST = 200 };
        static uint8_t bytes[MOST];
        static const int widths[3] = {0, 4, 8};
        int width = widths[below(3)];
        size_t parts = 1 + below(9), total = 0, fixed = below(12), bad = 99;
        made_column made[9];
        ls_column columns[9];
        uint64_t starts[10] = {0}, size, expected = 0;
        ls_slice all[MOST], slices[MOST];
        for (size_t i = 0; i < MOST; i++)
            bytes[i] = (uint8_t)any();
        for (size_t c = 0; c < parts; c++) {
            size_t count = below(20);
            for (size_t i = 0; i < count; i++)
                all[total + i] = (ls_slice){bytes + below(100), width ? below(80) : fixed};
            made[c] = make_column(all + total, count, width);
            made[c].column.width = width ? 0 : fixed;
            columns[c] = made[c].column;
            total += count;
            starts[c + 1] = total;
        }
        if (total == 0)
            all[0] = (ls_slice){bytes, 0};
        size_t count = total == 0 ? 0 : below(MOST);
        int64_t rows[MOST];
        for (size_t i = 0; i < count; i++) {
            rows[i] = (int64_t)below(total);
            expected += all[rows[i]].size;
        }
        CHECK(ls_gather_find(columns, starts, parts, rows, count, slices, &size, &bad) == LS_OK);
        CHECK(size == expected);
        uint8_t *data = room(size);
        void *offsets = room((count + 1) * (size_t)width);
        ls_gather_copy(slices, count, width, offsets, data);
        for (size_t i = 0, at = 0; i < count; at += all[rows[i]].size, i++) {
            CHECK(same((ls_slice){data + at, all[rows[i]].size}, all[rows[i]]));
            CHECK(width == 0 ||
                  (width == 4 ? ((int32_t *)offsets)[i + 1] : ((int64_t *)offsets)[i + 1]) ==
                      (int64_t)(at + all[rows[i]].size));
        }
        for (int64_t wrong = -1; count > 0 && wrong < 2; wrong += 2) {
            size_t at = below(count);
            rows[at] = wrong < 0 ? -1 : (int64_t)total;
            CHECK(ls_gather_find(columns, starts, parts, rows, count, slices, &size, &bad) ==
                  LS_BAD_COLUMN);
            CHECK(bad == at);
            rows[at] = 0;
        }
        free(data);
        free(offsets);
        for (size_t c = 0; c < parts; c++)
            free_column(&made[c]);
    }
}
