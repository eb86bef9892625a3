/* Tests of ls_key_ranges.h. */
#include "ls_key_ranges.h"
#include "ls_order.h"
#include "made.h"
#include "tests.h"

static int compare_items(const void *a, const void *b) {
    ls_slice one = *(const ls_slice *)a, other = *(const ls_slice *)b;
    return ls_compare(LS_ORDER_BYTES, one, other);
}

void test_key_ranges(void) {
    for (unsigned round = 0; round < 200; round++) {
        size_t count = below(40), asked = below(60);
        static const char *const texts[] = {"", "a", "ab", "abc", "b", "ba", "bb", "c", "ca", "d"};
        ls_slice keys[60], least[40], greatest[40];
        uint32_t order[60], places[40], *last = room(count * sizeof *last);
        ls_key_span *list = room(count * sizeof *list), *tree = room(count * sizeof *tree);
        for (size_t i = 0; i < asked; i++) {
            keys[i] = slice(texts[below(10)]);
            order[i] = (uint32_t)i;
        }
        qsort(keys, asked, sizeof *keys, compare_items);
        for (size_t i = 0; i < count; i++)
            least[i] = slice(texts[below(10)]);
        qsort(least, count, sizeof *least, compare_items);
        for (size_t i = 0; i < count; i++) {
            greatest[i] =
                slice(texts[below(10)]); /* also below the least one: nothing is in there */
            places[i] = (uint32_t)i;
        }
        made_column column = make_column(keys, asked, 8), low = make_column(least, count, 8),
                    high = make_column(greatest, count, 4);
        ls_key_ranges ranges = {low.column, high.column, places, last, count};
        ls_sorted_keys sorted = {&column.column, order, asked};
        ls_key_ranges_link(&ranges, last);
        ls_key_ranges_by_list(&ranges, sorted, list);
        ls_key_ranges_by_tree(&ranges, sorted, tree);
        for (size_t r = 0; r < count; r++) {
            CHECK(tree[r].start == list[r].start && tree[r].end == list[r].end);
            for (size_t i = 0; i < asked; i++) {
                int inside = compare_items(&keys[i], &least[r]) >= 0 &&
                             compare_items(&keys[i], &greatest[r]) <= 0;
                CHECK(inside == (i >= list[r].start && i < list[r].end));
            }
        }
        free(last);
        free(list);
        free(tree);
        free_column(&column);
        free_column(&low);
        free_column(&high);
    }
    CHECK(!ls_has_high_character(slice("a\xed\x9f\xbf")));
    CHECK(ls_has_high_character(slice("a\xee\x80\x80")));
    CHECK(!ls_has_high_character(slice("")));
}
