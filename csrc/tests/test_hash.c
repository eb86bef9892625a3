/* Tests of ls_hash.h. */
#include "ls_hash.h"
#include "made.h"
#include "tests.h"

static void check_hashes(const ls_column *column, const ls_slice *keys) {
    for (size_t n = 0; n < 20; n++) {
        size_t from = n ? below(column->length + 1) : 0;
        size_t to = n ? from + below(column->length + 1 - from) : column->length, bad = 99;
        uint64_t *hashes = room(8 * (to - from));
        CHECK(ls_hash_column(column, from, to, hashes, &bad) == LS_OK && bad == 99);
        for (size_t i = from; i < to; i++)
            CHECK(hashes[i - from] == ls_hash(keys[i]));
        if (n == 0) { /* those that are kept are believed */
            ls_column kept = *column;
            uint64_t *again = room(8 * (to - from));
            kept.hashes = hashes;
            kept.data = kept.offsets = NULL;
            CHECK(ls_hash_column(&kept, to / 2, to, again, &bad) == LS_OK);
            CHECK(to == 0 || memcmp(again, hashes + to / 2, 8 * (to - to / 2)) == 0);
            free(again);
        }
        free(hashes);
    }
}

void test_hashes(void) {
    enum { KEYS = 100, WIDEST = 40 };
    static uint8_t bytes[KEYS][WIDEST];
    static const size_t widths[] = {0, 1, 4, 7, 8, 9, 16, 33};
    ls_slice keys[KEYS];
    /* xxHash's own test vectors. */
    CHECK(ls_hash((ls_slice){NULL, 0}) == UINT64_C(0xef46db3751d8e999));
    CHECK(ls_hash(slice("a")) == UINT64_C(0xd24ec4f1a98c6e5b));
    for (size_t i = 0; i < KEYS; i++)
        for (size_t k = 0; k < WIDEST; k++)
            bytes[i][k] = (uint8_t)any();
    for (size_t n = 0; n < sizeof widths / sizeof *widths; n++) {
        for (size_t i = 0; i < KEYS; i++)
            keys[i] = (ls_slice){bytes[i], widths[n]};
        made_column made = make_column(keys, KEYS, 0);
        check_hashes(&made.column, keys);
        made.column.data += 30 * widths[n]; /* sliced */
        made.column.length -= 30;
        check_hashes(&made.column, keys + 30);
        free_column(&made);
    }
    for (int width = 4; width <= 8; width += 4) {
        for (size_t i = 0; i < KEYS; i++)
            keys[i] = (ls_slice){bytes[i], below(WIDEST)};
        made_column made = make_column(keys, KEYS, width);
        check_hashes(&made.column, keys);
        made.column.offsets = (const uint8_t *)made.offsets + 30 * (size_t)width; /* sliced */
        made.column.length -= 30;
        check_hashes(&made.column, keys + 30);
        made.column.offsets = made.offsets;
        made.column.length += 30;
        size_t wrong = 1 + below(KEYS - 2), bad = 99;
        memset((uint8_t *)made.offsets + wrong * (size_t)width, 0xff, (size_t)width); /* -1 */
        uint64_t hashes[KEYS];
        CHECK(ls_hash_column(&made.column, 0, KEYS, hashes, &bad) == LS_BAD_COLUMN);
        CHECK(bad == wrong - 1);
        CHECK(ls_hash_column(&made.column, wrong, KEYS, hashes, &bad) == LS_BAD_COLUMN);
        CHECK(bad == wrong);
        CHECK(ls_hash_column(&made.column, wrong + 1, KEYS, hashes, &bad) == LS_OK);
        CHECK(ls_hash_column(&made.column, 0, wrong - 1, hashes, &bad) == LS_OK);
        free_column(&made);
    }
}
