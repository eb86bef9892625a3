/* Tests of ls_sort.h, against qsort. */
#include "ls_sort.h"
#include "made.h"
#include "tests.h"

static const ls_slice *sorted_keys;

static int compare_rows(const void *left, const void *right) {
    uint32_t a = *(const uint32_t *)left, b = *(const uint32_t *)right;
    int order = ls_compare_bytes(sorted_keys[a], sorted_keys[b]);
    return order != 0 ? order : (a > b) - (a < b);
}

static void check_sort(const ls_slice *keys, size_t count) {
    made_column made = make_column(keys, count, below(2) ? 4 : 8);
    ls_sort_item *items = room(count * sizeof *items), *scratch = room(count * sizeof *items);
    uint32_t *rows = room(count * sizeof *rows);
    size_t bad = 0;
    for (size_t i = 0; i < count; i++) {
        items[i] = (ls_sort_item){.index = (uint32_t)i};
        rows[i] = (uint32_t)i;
    }
    CHECK(ls_sort_prefixes(LS_ORDER_BYTES, &made.column, items, count, &bad) == LS_OK);
    ls_sort_keys(LS_ORDER_BYTES, &made.column, items, count, scratch);
    sorted_keys = keys;
    if (count > 0)
        qsort(rows, count, sizeof *rows, compare_rows);
    for (size_t i = 0; i < count; i++)
        CHECK(items[i].index == rows[i]);
    free(items);
    free(scratch);
    free(rows);
    free_column(&made);
}

void test_sort(void) {
    enum { KEYS = 1500, LONGEST = 700 };
    static uint8_t bytes[KEYS][LONGEST];
    static ls_slice keys[KEYS];
    static const char *const alphabets[] = {"\0\0", "\0a", "ab", "\x7f\x80\xff", "abcdefgh"};
    for (size_t round = 0; round < 60; round++) {
        const char *alphabet = alphabets[round % 5];
        size_t letters = round % 5 < 3 ? 2 : round % 5 == 3 ? 3 : 8;
        /* Prefixes that all share: none, some words, and deeper than the radix goes. */
        static const size_t shared_sizes[] = {0, 3, 8, 21, 250, 600};
        size_t shared = shared_sizes[round / 5 % 6];
        size_t count = round < 30 ? below(60) : KEYS;
        for (size_t i = 0; i < count; i++) {
            size_t size = shared + below(round % 2 ? 12 : 90);
            memset(bytes[i], 'p', shared);
            for (size_t k = shared; k < size; k++)
                bytes[i][k] = (uint8_t)alphabet[below(letters)];
            keys[i] = (ls_slice){bytes[i], size};
        }
        check_sort(keys, count);
    }
    /* "", "\0", "\0\0", ...: equal when padded with zeros, at every depth. */
    for (size_t i = 0; i < LONGEST; i++) {
        memset(bytes[i], 0, LONGEST);
        keys[i] = (ls_slice){bytes[i], LONGEST - 1 - i};
    }
    check_sort(keys, LONGEST);
    /* Pairs that part from the others one word later each. */
    for (size_t i = 0; i < LONGEST; i++) {
        memset(bytes[i], 'x', LONGEST);
        bytes[i][i / 2 * 2] = 'y';
        keys[i] = (ls_slice){bytes[i], LONGEST - i % 2};
    }
    check_sort(keys, LONGEST);
    /* All equal: stable. */
    for (size_t i = 0; i < KEYS; i++)
        keys[i] = slice("the same key, longer than two words");
    check_sort(keys, KEYS);

    /* Integers sort by number. */
    for (size_t i = 0; i < KEYS; i++) {
        ls_store32(bytes[i], (uint32_t)any() >> below(32));
        keys[i] = (ls_slice){bytes[i], 4};
    }
    made_column made = make_column(keys, KEYS, 0);
    ls_sort_item *items = room(KEYS * sizeof *items), *scratch = room(KEYS * sizeof *items);
    size_t bad = 99;
    for (size_t i = 0; i < KEYS; i++)
        items[i].index = (uint32_t)i;
    CHECK(ls_sort_prefixes(LS_ORDER_INT32, &made.column, items, KEYS, &bad) == LS_OK);
    ls_sort_keys(LS_ORDER_INT32, &made.column, items, KEYS, scratch);
    for (size_t i = 1; i < KEYS; i++) {
        int32_t a = (int32_t)ls_load32(keys[items[i - 1].index].data);
        int32_t b = (int32_t)ls_load32(keys[items[i].index].data);
        CHECK(a < b || (a == b && items[i - 1].index < items[i].index));
    }
    CHECK(ls_sort_prefixes(LS_ORDER_INT64, &made.column, items, KEYS, &bad) == LS_BAD_KEY);
    CHECK(bad == 0);
    free(items);
    free(scratch);
    free_column(&made);
}
