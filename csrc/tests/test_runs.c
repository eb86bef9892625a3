/* Tests of ls_runs.h. */
#include "ls_runs.h"
#include "made.h"
#include "tests.h"

typedef struct {
    ls_runs_version version;
    size_t size;
    uint8_t bytes[32];
    ls_lengths expected;
} example;

/* Those of the specification, and what comes of them. */
static const example EXAMPLES[] = {
    {LS_RUNS_1, 3, {0x61, 0x00, 0x07}, {100, 700, 7}},
    {LS_RUNS_1, 3, {0x61, 0xff, 0x64}, {100, 5050, 100}},
    {LS_RUNS_1, 6, {0xfb, 0x02, 0x03, 0x06, 0x07, 0x0b}, {5, 29, 11}},
    {LS_RUNS_2, 3, {0x0a, 0x27, 0x10}, {5, 50000, 10000}},
    {LS_RUNS_2,
     10,
     {0x5e, 0x03, 0x5c, 0xa1, 0xab, 0x1e, 0xde, 0xad, 0xbe, 0xef},
     {4, 23713 + 43806 + 57005 + 48879, 57005}},
    {LS_RUNS_2,
     28,
     {0x8e, 0x13, 0x2b, 0x21, 0x07, 0xd0, 0x1e, 0x00, 0x14, 0x70, 0x28, 0x32, 0x3c, 0x46,
      0x50, 0x5a, 0x64, 0x6e, 0x78, 0x82, 0x8c, 0x96, 0xa0, 0xaa, 0xb4, 0xbe, 0xfc, 0xe8},
     {20, 2030 + 2000 + 2020 + 1000000 + 16 * 2115, 1000000}},
    {LS_RUNS_2, 8, {0xc6, 0x09, 0x02, 0x02, 0x22, 0x42, 0x42, 0x46}, {10, 129, 29}},
};

static void check_any(const uint8_t *bytes, size_t size) {
    uint8_t *exact = copy(bytes, size), greatest;
    ls_slice runs = {exact, size};
    ls_lengths lengths;
    uint64_t plain;
    for (int version = 1; version <= 2; version++)
        if (ls_lengths_read(runs, (ls_runs_version)version, below(2), &lengths) == LS_OK)
            CHECK(lengths.count <= size * 512 && lengths.longest <= lengths.sum &&
                  lengths.longest <= INT32_MAX);
    (void)ls_byte_runs_greatest(runs, &greatest);
    if (ls_lz4_size(runs, &plain) == LS_OK)
        CHECK(plain <= size * 255);
    free(exact);
}

void test_runs(void) {
    ls_lengths found;
    for (size_t i = 0; i < sizeof EXAMPLES / sizeof *EXAMPLES; i++) {
        const example *one = &EXAMPLES[i];
        CHECK(ls_lengths_read((ls_slice){one->bytes, one->size}, one->version, false, &found) ==
              LS_OK);
        CHECK(found.count == one->expected.count && found.sum == one->expected.sum &&
              found.longest == one->expected.longest);
        /* No run ends before its end, and bytes that are none are refused or read in bounds. */
        for (size_t less = 1; less < one->size; less++) {
            uint8_t *exact = copy(one->bytes, less);
            CHECK(ls_lengths_read((ls_slice){exact, less}, one->version, false, &found) != LS_OK);
            free(exact);
        }
        for (int round = 0; round < 2000; round++) {
            uint8_t changed[32];
            memcpy(changed, one->bytes, sizeof changed);
            for (size_t n = 1 + below(3); n > 0; n--)
                changed[below(one->size)] = (uint8_t)any();
            check_any(changed, one->size);
        }
    }
    for (int round = 0; round < 20000; round++) {
        uint8_t bytes[64];
        size_t size = below(sizeof bytes + 1);
        for (size_t i = 0; i < size; i++)
            bytes[i] = (uint8_t)any();
        check_any(bytes, size);
    }
}

void test_lengths_that_are_none(void) {
    static const example wrong[] = {
        {LS_RUNS_1, 7, {0x00, 0x00, 0x80, 0x80, 0x80, 0x80, 0x08}, {0}}, /* 2^31 */
        {LS_RUNS_1, 3, {0x7f, 0xff, 0x05}, {0}},                         /* falls below 0 */
        {LS_RUNS_2, 5, {0x18, 0x80, 0x00, 0x00, 0x00}, {0}},             /* 2^31 */
        {LS_RUNS_2, 4, {0xc0, 0x05, 0x02, 0x03}, {0}},                   /* falls below 0 */
        {LS_RUNS_2, 4, {0xc2, 0x00, 0x02, 0x02}, {0}},                   /* a value of two */
        /* Patches: none; one behind the last value; the last of which only widens the gap. */
        {LS_RUNS_2, 6, {0x8e, 0x00, 0x01, 0x00, 0x01, 0x01}, {0}},
        {LS_RUNS_2, 7, {0x8e, 0x00, 0x00, 0x21, 0x01, 0x01, 0xc0}, {0}},
        {LS_RUNS_2, 8, {0x8e, 0x00, 0x00, 0xe1, 0x01, 0x01, 0xff, 0x00}, {0}},
    };
    ls_lengths found;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        CHECK(ls_lengths_read((ls_slice){wrong[i].bytes, wrong[i].size}, wrong[i].version, false,
                              &found) != LS_OK);
}

void test_signed_numbers(void) {
    /* 3 and -1 are stored as 6 and 1. */
    static const example right[] = {
        {LS_RUNS_1, 3, {0x00, 0x01, 0x06}, {3, 3 + 4 + 5, 5}},
        {LS_RUNS_1, 3, {0xfe, 0x06, 0x08}, {2, 7, 4}},
        {LS_RUNS_2, 2, {0x00, 0x06}, {3, 9, 3}},
        {LS_RUNS_2, 3, {0x46, 0x01, 0x68}, {2, 3 + 4, 4}},
        {LS_RUNS_2, 4, {0xc0, 0x02, 0x06, 0x02}, {3, 3 + 4 + 5, 5}},
    };
    static const example wrong[] = {
        {LS_RUNS_1, 3, {0x00, 0x00, 0x01}, {0}},
        {LS_RUNS_1, 2, {0xff, 0x01}, {0}},
        {LS_RUNS_2, 2, {0x00, 0x01}, {0}},
        {LS_RUNS_2, 3, {0x46, 0x01, 0x61}, {0}},
        {LS_RUNS_2, 4, {0xc0, 0x02, 0x01, 0x02}, {0}},
    };
    ls_lengths found;
    for (size_t i = 0; i < sizeof right / sizeof *right; i++) {
        ls_slice runs = {right[i].bytes, right[i].size};
        CHECK(ls_lengths_read(runs, right[i].version, true, &found) == LS_OK);
        CHECK(found.count == right[i].expected.count && found.sum == right[i].expected.sum &&
              found.longest == right[i].expected.longest);
        runs = (ls_slice){wrong[i].bytes, wrong[i].size};
        CHECK(ls_lengths_read(runs, wrong[i].version, true, &found) != LS_OK);
    }
}

void test_runs_of_bytes(void) {
    static const uint8_t runs[] = {0x61, 0x07, 0xfe, 0x44, 0x45};
    uint8_t greatest;
    CHECK(ls_byte_runs_greatest((ls_slice){runs, sizeof runs}, &greatest) == LS_OK);
    CHECK(greatest == 0x45);
    CHECK(ls_byte_runs_greatest((ls_slice){runs, sizeof runs - 1}, &greatest) != LS_OK);
}

void test_sizes_of_lz4(void) {
    /* 5 literals and a match of 4 + 15 + 10; 3 literals. */
    static const uint8_t block[] = {0x5f, 'a', 'b', 'c', 'd', 'e', 1, 0, 10, 0x30, 'x', 'y', 'z'};
    uint64_t size;
    CHECK(ls_lz4_size((ls_slice){block, sizeof block}, &size) == LS_OK && size == 5 + 29 + 3);
    CHECK(ls_lz4_size((ls_slice){block, sizeof block - 1}, &size) != LS_OK);
    CHECK(ls_lz4_size((ls_slice){block, 8}, &size) != LS_OK);
}
