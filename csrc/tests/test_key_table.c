/* Tests of ls_key_table.h. */
#include "ls_key_table.h"
#include "made.h"
#include "tests.h"

/* Short keys of two letters: many repeat. */
static made_column make_table_keys(ls_slice *keys, uint8_t *bytes, size_t count, int offset_width) {
    for (size_t i = 0, at = 0; i < count; i++) {
        size_t size = below(6);
        for (size_t n = 0; n < size; n++)
            bytes[at + n] = (uint8_t)('a' + below(2));
        keys[i] = (ls_slice){bytes + at, size};
        at += size;
    }
    return make_column(keys, count, offset_width);
}

static int64_t first_of(const ls_slice *keys, const uint8_t *validity, size_t count, ls_slice key) {
    for (size_t i = 0; i < count; i++)
        if (ls_bitmap_get(validity, i) && keys[i].size == key.size &&
            memcmp(keys[i].data, key.data, key.size) == 0)
            return (int64_t)i;
    return -1;
}

void test_key_tables(void) {
    CHECK(ls_key_table_slots(0) == 8 && ls_key_table_slots(4) == 8 && ls_key_table_slots(5) == 16);
    for (unsigned round = 0; round < 60; round++) {
        ls_slice keys[150], asked[150];
        uint8_t *bytes = room(150 * 6), *others = room(150 * 6), validity[19];
        size_t count = below(151), different = 9, bad = 9, expected = 0;
        made_column made = make_table_keys(keys, bytes, count, round % 2 ? 4 : 8);
        made_column wanted = make_table_keys(asked, others, 150, round % 3 ? 4 : 8);
        for (size_t i = 0; i < sizeof validity; i++)
            validity[i] = (uint8_t)any();
        made.column.validity = wanted.column.validity = round % 4 ? NULL : validity;
        size_t slots = ls_key_table_slots(count);
        uint64_t *table_slots = (uint64_t *)room(slots * sizeof(uint64_t));
        memset(table_slots, 0, slots * sizeof(uint64_t));
        uint32_t *first = (uint32_t *)room(count * sizeof(uint32_t));
        size_t words = ls_key_table_words(slots);
        uint64_t *seen = (uint64_t *)room(words * sizeof(uint64_t));
        memset(seen, 0, words * sizeof(uint64_t));
        ls_key_table table = {made.column, table_slots, slots - 1, seen};
        CHECK(ls_key_table_fill(&table, first, &different, &bad) == LS_OK);
        for (size_t i = 0; i < count; i++) {
            int64_t at = first_of(keys, made.column.validity, count, keys[i]);
            int valid = ls_column_is_valid(&made.column, i);
            expected += valid && at == (int64_t)i;
            CHECK(first[i] == (valid ? (size_t)at : i));
        }
        CHECK(different == expected);
        int64_t rows[150];
        CHECK(ls_key_table_find(&table, &wanted.column, rows, &bad) == LS_OK);
        for (size_t i = 0; i < 150; i++)
            CHECK(rows[i] == (ls_column_is_valid(&wanted.column, i)
                                  ? first_of(keys, made.column.validity, count, asked[i])
                                  : -1));
        wanted.column.data_size = 0;
        if (wanted.column.validity == NULL && round % 5 == 0) {
            CHECK(ls_key_table_find(&table, &wanted.column, rows, &bad) == LS_BAD_COLUMN);
            CHECK(asked[bad].size > 0);
        }
        free_column(&made);
        free_column(&wanted);
        free(bytes);
        free(others);
        free(table_slots);
        free(seen);
        free(first);
    }
}
