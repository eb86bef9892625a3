/* Tests of ls_column.h. */
#include "ls_column.h"
#include "made.h"
#include "tests.h"

void test_columns(void) {
    const ls_slice values[] = {slice("a"), slice(""), slice("bcd"), slice("")};
    for (int width = 4; width <= 8; width += 4) {
        made_column made = make_column(values, 4, width);
        for (size_t i = 0; i < 4; i++) {
            ls_slice value;
            CHECK(ls_column_get(&made.column, i, &value) == LS_OK && same(value, values[i]));
            CHECK(ls_column_is_valid(&made.column, i));
        }
        free_column(&made);
    }
    const ls_slice fixed[] = {slice("abc"), slice("def")};
    made_column made = make_column(fixed, 2, 0);
    ls_slice value;
    CHECK(ls_column_get(&made.column, 1, &value) == LS_OK && same(value, fixed[1]));
    made.validity = copy("\x50", 1); /* bits 4 and 6 */
    made.column.validity = made.validity;
    made.column.validity_offset = 5;
    CHECK(!ls_column_is_valid(&made.column, 0) && ls_column_is_valid(&made.column, 1));
    free_column(&made);

    static const int64_t wild[][2] = {{0, 4},         {-1, 2},        {2, 1},
                                      {INT64_MIN, 0}, {4, 4},         {1, -1},
                                      {INT64_MAX, 3}, {0, INT64_MAX}, {-3, -1}};
    for (size_t i = 0; i < sizeof wild / sizeof *wild; i++) {
        uint8_t *data = copy("abc", 3);
        ls_column column = {.data = data, .data_size = 3, .offset_width = 8, .length = 1};
        column.offsets = wild[i];
        CHECK(ls_column_get(&column, 0, &value) == LS_BAD_COLUMN);
        if (wild[i][0] >= INT32_MIN && wild[i][0] <= 4 && wild[i][1] <= 4) {
            int32_t narrow[2] = {(int32_t)wild[i][0], (int32_t)wild[i][1]};
            column.offsets = narrow;
            column.offset_width = 4;
            CHECK(ls_column_get(&column, 0, &value) == LS_BAD_COLUMN);
        }
        free(data);
    }
}
