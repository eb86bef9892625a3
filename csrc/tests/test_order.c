/* Tests of ls_order.h. */
#include "ls_order.h"
#include "made.h"
#include "tests.h"

static int sign(int64_t number) {
    return (number > 0) - (number < 0);
}

void test_orders(void) {
    static const char *const ascending[] = {"",  "a",    "a\1",  "aa",  "ab",
                                            "b", "\x7f", "\x80", "\xff"};
    size_t count = sizeof ascending / sizeof *ascending;
    for (size_t i = 0; i < count; i++)
        for (size_t j = 0; j < count; j++) {
            ls_slice a = slice(ascending[i]), b = slice(ascending[j]);
            int expected = (i > j) - (i < j);
            CHECK(sign(ls_compare(LS_ORDER_BYTES, a, b)) == expected);
            CHECK(sign(ls_compare_bytes(a, b)) == expected);
            CHECK(expected > 0 ||
                  ls_key_prefix(LS_ORDER_BYTES, a) <= ls_key_prefix(LS_ORDER_BYTES, b));
        }
    ls_slice none = {NULL, 0};
    CHECK(ls_compare_bytes(none, none) == 0 && ls_compare_bytes(none, slice("a")) < 0);
    CHECK(ls_key_prefix(LS_ORDER_BYTES, none) == 0);

    static const ls_order orders[] = {LS_ORDER_INT8, LS_ORDER_INT16, LS_ORDER_INT32,
                                      LS_ORDER_INT64};
    for (size_t n = 0; n < 4; n++) {
        unsigned width = (unsigned)orders[n], shift = 64 - 8 * width;
        for (size_t i = 0; i < 2000; i++) {
            int64_t numbers[2];
            uint8_t *keys[2];
            ls_slice slices[2];
            for (size_t k = 0; k < 2; k++) {
                uint64_t bits = any() >> below(64);
                bits = below(2) ? bits : ~bits;
                uint8_t bytes[8];
                ls_store64(bytes, bits);
                keys[k] = copy(bytes, width);
                slices[k] = (ls_slice){keys[k], width};
                /* Widen the low bytes by their sign. */
                int64_t low = (int64_t)(bits << shift);
                numbers[k] = low / ((int64_t)1 << (shift % 63)) / (shift == 63 ? 2 : 1);
            }
            int expected = (numbers[0] > numbers[1]) - (numbers[0] < numbers[1]);
            CHECK(sign(ls_compare(orders[n], slices[0], slices[1])) == expected);
            free(keys[0]);
            free(keys[1]);
        }
        for (size_t size = 0; size < 10; size++) {
            ls_slice key = {(const uint8_t *)"0123456789", size};
            CHECK(ls_check_key(orders[n], key) == (size == width ? LS_OK : LS_BAD_KEY));
            CHECK(ls_check_key(LS_ORDER_BYTES, key) == LS_OK);
        }
    }
}
