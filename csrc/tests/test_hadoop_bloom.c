/* Tests of ls_hadoop_bloom.h. */
#include "ls_hadoop_bloom.h"
#include "made.h"
#include "tests.h"

/* Keys of every length modulo 4, in a buffer of exactly their bytes; some have been added before. */
static size_t make_bloom_keys(ls_slice *keys, uint8_t *bytes, size_t count) {
    size_t at = 0;
    for (size_t i = 0; i < count; i++) {
        size_t size = i == 40 ? 80 : 1 + i % 19;
        for (size_t n = 0; n < size; n++)
            bytes[at + n] = (uint8_t)any();
        keys[i] = (ls_slice){bytes + at, size};
        at += size;
    }
    return at;
}

void test_hadoop_blooms(void) {
    CHECK(ls_hadoop_murmur(slice("ab"), 7) != ls_hadoop_murmur(slice("ba"), 7));
    for (unsigned round = 0; round < 60; round++) {
        ls_slice keys[150];
        uint8_t *bytes = room(150 * 20 + 80), *maybe = room(150);
        (void)make_bloom_keys(keys, bytes, 150);
        made_column made = make_column(keys, 150, round % 2 ? 4 : 8);
        uint32_t limit = 1 + (uint32_t)below(4);
        ls_hadoop_bloom bloom = {.bits = 1 + (uint32_t)below(900),
                                 .hashes = 1 + (uint32_t)below(5),
                                 .hash = round % 3 == 0 ? LS_HADOOP_JENKINS : LS_HADOOP_MURMUR,
                                 .old = round % 6 == 0,
                                 .dynamic = round % 4 != 0,
                                 .rows = 1};
        if (bloom.dynamic) {
            bloom.row_keys = 1 + (uint32_t)below(40);
            bloom.rows = limit;
            bloom.last_keys = 3;
        }
        size_t size = ls_hadoop_bloom_size(&bloom), bad = 9;
        uint8_t *data = room(size);
        memset(data, 0, size);
        ls_hadoop_bloom_put_headers(&bloom, data);
        CHECK(ls_hadoop_bloom_add(&bloom, limit, data, &made.column, 0, 70, 0, &bad) == LS_OK);
        CHECK(ls_hadoop_bloom_add(&bloom, limit, data, &made.column, 70, 100, 70, &bad) == LS_OK);

        uint8_t *singly = room(size);
        memset(singly, 0, size);
        ls_hadoop_bloom_put_headers(&bloom, singly);
        for (size_t i = 0; i < 100; i++)
            CHECK(ls_hadoop_bloom_add(&bloom, limit, singly, &made.column, i, i + 1, i, &bad) ==
                  LS_OK);
        CHECK(memcmp(singly, data, size) == 0);
        free(singly);

        ls_hadoop_bloom again;
        const char *expected = NULL;
        CHECK(ls_hadoop_bloom_parse(data, data + size, bloom.dynamic, &again, &bad, &expected) ==
              LS_OK);
        CHECK(again.bits == bloom.bits && again.hashes == bloom.hashes && again.old == bloom.old &&
              again.hash == bloom.hash && again.rows == bloom.rows &&
              again.row_keys == bloom.row_keys && again.last_keys == bloom.last_keys);
        CHECK(ls_hadoop_bloom_test(&again, data, &made.column, NULL, 0, 150, maybe, &bad) == LS_OK);
        for (size_t i = 0; i < 150; i++) {
            uint8_t alone;
            CHECK(i >= 100 || maybe[i] == 1);
            CHECK(ls_hadoop_bloom_test(&again, data, &made.column, NULL, i, i + 1, &alone, &bad) ==
                      LS_OK &&
                  alone == maybe[i]);
        }
        uint32_t chosen[90];
        uint8_t picked[90];
        for (size_t i = 0; i < 90; i++)
            chosen[i] = (uint32_t)below(150);
        CHECK(ls_hadoop_bloom_test(&again, data, &made.column, chosen, 3, 90, picked, &bad) ==
              LS_OK);
        for (size_t i = 3; i < 90; i++)
            CHECK(picked[i - 3] == maybe[chosen[i]]);
        for (unsigned cut = 0; cut < 40; cut++) {
            size_t left = cut < 30 && cut < size ? cut : below(size);
            uint8_t *exact = copy(data, left);
            CHECK(ls_hadoop_bloom_parse(exact, exact + left, bloom.dynamic, &again, &bad,
                                        &expected) != LS_OK);
            CHECK(bad <= left && expected != NULL);
            free(exact);
        }
        for (unsigned change = 0; change < 200; change++) { /* it may pass, but not read beyond */
            size_t at = below(size < 60 ? size : 60);
            uint8_t was = data[at];
            data[at] = (uint8_t)any();
            if (ls_hadoop_bloom_parse(data, data + size, bloom.dynamic, &again, &bad, &expected) ==
                LS_OK)
                (void)ls_hadoop_bloom_test(&again, data, &made.column, NULL, 0, 150, maybe, &bad);
            data[at] = was;
        }
        free(data);
        free(bytes);
        free(maybe);
        free_column(&made);
    }

    const ls_slice keys[] = {slice("a"), slice(""), slice("c")};
    made_column made = make_column(keys, 3, 8);
    ls_hadoop_bloom bloom = {.bits = 8, .hashes = 1, .hash = LS_HADOOP_MURMUR, .rows = 1};
    uint8_t data[14] = {0}, maybe[3], validity = 5;
    size_t bad = 9;
    CHECK(ls_hadoop_bloom_add(&bloom, 1, data, &made.column, 0, 3, 0, &bad) == LS_BAD_KEY);
    CHECK(bad == 1 && data[13] == 0);
    CHECK(ls_hadoop_bloom_test(&bloom, data, &made.column, NULL, 0, 3, maybe, &bad) == LS_BAD_KEY);
    made.column.validity = &validity;
    CHECK(ls_hadoop_bloom_test(&bloom, data, &made.column, NULL, 0, 3, maybe, &bad) == LS_NULL);
    ((int64_t *)made.offsets)[3] = 99;
    CHECK(ls_hadoop_bloom_test(&bloom, data, &made.column, NULL, 2, 3, maybe, &bad) ==
          LS_BAD_COLUMN);
    CHECK(bad == 2);
    free_column(&made);

    /* Two rows of three keys: then row 0, and from there in turn. */
    static const uint32_t rows[] = {0, 0, 0, 1, 1, 1, 0, 0, 1, 0, 1};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        CHECK(ls_hadoop_bloom_row_of(i, 3, 2) == rows[i]);
}
