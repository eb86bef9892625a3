/* Tests of ls_filter.h. */
#include "ls_filter.h"
#include "ls_hash.h"
#include "made.h"
#include "tests.h"

/* Many keys at a time against one by one, the filter at every address: in a mapped file it lies
 * anywhere. Of the keys the first `added` are in it. */
static void check_filter(const ls_filter *filter, const ls_column *column, const ls_slice *keys,
                         size_t added) {
    for (size_t count = 0; count <= 300; count++) {
        size_t shift = count % 64, from = below(column->length - count + 1), bad = 99;
        uint8_t *moved = room(shift + filter->size), *maybe = room(count);
        uint64_t *hashes = room(8 * count);
        ls_filter there = *filter;
        memcpy(moved + shift, filter->bits, filter->size);
        there.bits = moved + shift;
        CHECK(ls_hash_column(column, from, from + count, hashes, &bad) == LS_OK);
        ls_filter_test_many(&there, column, NULL, from, from + count, hashes, maybe);
        for (size_t i = 0; i < count; i++) {
            ls_slice key = keys[from + i];
            CHECK(maybe[i] == ls_filter_test(filter, key));
            CHECK(maybe[i] == ls_filter_test_hashed(&there, key, hashes[i]));
            CHECK(maybe[i] || from + i >= added);
            if (filter->kind == LS_FILTER_SPLIT_BLOCK) /* what a processor without AVX2 does */
                CHECK(maybe[i] == ls_split_block_test(filter->bits, filter->size / 32, hashes[i]));
            else if (filter->kind == LS_FILTER_PAIMON)
                CHECK(maybe[i] == ls_paimon_filter_test(filter->bits, (uint32_t)filter->size,
                                                        filter->hashes, ls_paimon_hash(key)));
            else if (filter->kind == LS_FILTER_NONE)
                CHECK(maybe[i] == 1);
        }
        free(moved);
        free(maybe);
        free(hashes);
    }
}

void test_filters(void) {
    ls_slice none = {NULL, 0};
    /* xxHash's own test vectors, and Java's table (tests/golden/paimon/murmur.jsonl.gz). */
    CHECK(ls_hash(none) == UINT64_C(0xef46db3751d8e999));
    CHECK(ls_hash(slice("a")) == UINT64_C(0xd24ec4f1a98c6e5b));
    CHECK((int32_t)ls_paimon_hash(none) == 142593372);
    CHECK((int32_t)ls_paimon_hash((ls_slice){(const uint8_t *)"\0", 1}) == -783713497);
    CHECK((int32_t)ls_paimon_hash((ls_slice){(const uint8_t *)"\0\1", 2}) == 1432915825);
    CHECK((int32_t)ls_paimon_hash((ls_slice){(const uint8_t *)"\xff", 1}) == 1398487324);
    uint8_t small[8] = {0}, split[32] = {0};
    ls_paimon_filter_add(small, 8, 4, ls_paimon_hash(slice("a")));
    CHECK(memcmp(small, "\0\0\0\2\x81\x40\0\0", 8) == 0);
    ls_split_block_add(split, 1, ls_hash(slice("a")));
    CHECK(memcmp(split,
                 "\0\0\x04\0\0\0\x02\0\x02\0\0\0\0\x10\0\0\0\0\x02\0\0\0\0\x01\0\0\0\x08\0\0\0\x80",
                 32) == 0);
    CHECK(ls_paimon_filter_size(10, 0.05) == 8);
    CHECK(ls_paimon_filter_size(1000000, 0.05) == 779403);
    CHECK(ls_paimon_filter_hashes(779403, 1000000) == 4);
    CHECK(ls_paimon_filter_hashes(8, 10) == 4);
    CHECK(ls_paimon_filter_hashes(1, UINT64_MAX) == 1);
    CHECK(ls_paimon_filter_hashes(UINT32_MAX, 1) == INT32_MAX);
    CHECK(ls_paimon_filter_size(UINT64_C(1) << 40, 0.05) == 0);
    CHECK(ls_paimon_filter_size(UINT64_MAX, 1e-300) == 0);

    enum { KEYS = 500 };
    static uint8_t bytes[KEYS][12];
    ls_slice keys[KEYS];
    for (size_t i = 0; i < KEYS; i++) {
        for (size_t k = 0; k < 12; k++)
            bytes[i][k] = (uint8_t)any();
        keys[i] = (ls_slice){bytes[i], 4 + below(9)};
    }
    made_column made = make_column(keys, KEYS, 4);
    for (int kind = LS_FILTER_NONE; kind <= LS_FILTER_WORDS; kind++) {
        uint32_t sizes[] = {32, 96, 320};
        for (size_t n = 0; n < 3; n++) {
            uint32_t size = kind == LS_FILTER_PAIMON ? sizes[n] - 31 : sizes[n];
            uint8_t *bits = calloc(size, 1); /* at an address for words, too */
            uint64_t *hashes = room(8 * (KEYS / 2));
            ls_filter filter = {.kind = (ls_filter_kind)kind, .bits = bits, .size = size};
            filter.hashes = 3;
            ls_filter_hash(filter.kind, &made.column, 0, KEYS / 2, hashes);
            for (size_t i = 0; i < KEYS / 2; i++) {
                if (kind == LS_FILTER_PAIMON) {
                    CHECK(hashes[i] == ls_paimon_hash(keys[i]));
                    ls_paimon_filter_add(bits, size, 3, (uint32_t)hashes[i]);
                    CHECK(ls_paimon_filter_test(bits, size, 3, (uint32_t)hashes[i]));
                } else if (kind == LS_FILTER_SPLIT_BLOCK) {
                    CHECK(hashes[i] == ls_hash(keys[i]));
                    ls_split_block_add(bits, size / 32, hashes[i]);
                    CHECK(ls_split_block_test(bits, size / 32, hashes[i]));
                }
            }
            if (kind == LS_FILTER_WORDS) {
                size_t set = 0;
                ls_word_filter_add_many((uint64_t *)(void *)bits, size / 8, hashes, 1);
                for (size_t i = 0; i < size; i++)
                    set += (size_t)__builtin_popcount(bits[i]);
                CHECK(set >= 1 && set <= 4); /* of one key */
                ls_word_filter_add_many((uint64_t *)(void *)bits, size / 8, hashes, KEYS / 2);
            }
            if (kind == LS_FILTER_SPLIT_BLOCK) {
                for (size_t many = 0; many <= KEYS / 2; many += 1 + below(60)) {
                    uint8_t *one = room(size), *all = room(size);
                    memset(one, 0, size);
                    memset(all, 0, size);
                    for (size_t i = 0; i < many; i++)
                        ls_split_block_add(one, size / 32, hashes[i]);
                    ls_split_block_add_many(all, size / 32, hashes, many);
                    CHECK(memcmp(one, all, size) == 0);
                    free(one);
                    free(all);
                }
            }
            check_filter(&filter, &made.column, keys, KEYS / 2);
            free(bits);
            free(hashes);
        }
    }
    for (size_t round = 0; round < 20; round++) { /* remainders of large numbers, too */
        uint32_t size = (uint32_t)(1 + below((size_t)1 << (3 + below(25))));
        uint8_t *bits = calloc(size, 1), maybe[KEYS];
        uint64_t hashes[KEYS] = {0};
        ls_filter filter = {LS_FILTER_PAIMON, bits, size, (uint32_t)(1 + below(9))};
        for (size_t i = 0; i < KEYS / 2; i++)
            ls_paimon_filter_add(bits, size, filter.hashes, ls_paimon_hash(keys[i]));
        ls_filter_test_many(&filter, &made.column, NULL, 0, KEYS, hashes, maybe);
        for (size_t i = 0; i < KEYS; i++) {
            CHECK(maybe[i] == ls_filter_test(&filter, keys[i]));
            CHECK(maybe[i] || i >= KEYS / 2);
        }
        free(bits);
    }
    ls_slice eights[5]; /* the size that has a loop of its own */
    uint64_t few[3];
    for (size_t i = 0; i < 5; i++)
        eights[i] = (ls_slice){bytes[i], 8};
    made_column fixed = make_column(eights, 5, 0);
    ls_filter_hash(LS_FILTER_SPLIT_BLOCK, &fixed.column, 2, 5, few);
    for (size_t i = 0; i < 3; i++)
        CHECK(few[i] == ls_hash(eights[2 + i]));
    free_column(&fixed);
    free_column(&made);
}
