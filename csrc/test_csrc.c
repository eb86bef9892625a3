/* Tests of csrc: built alone with sanitizers, run in a second. Every buffer handed out is a malloc
 * of exactly its size, so that AddressSanitizer sees one byte too many. `test_csrc SEED` repeats a
 * run.
 */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "ls_batch.h"
#include "ls_block.h"
#include "ls_bytes.h"
#include "ls_column.h"
#include "ls_filter.h"
#include "ls_gather.h"
#include "ls_keys.h"
#include "ls_order.h"
#include "ls_rows.h"
#include "ls_sort.h"

static uint64_t seed, state;
static size_t checks;

#define CHECK(condition)                                                                           \
    do {                                                                                           \
        checks++;                                                                                  \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "%s:%d: seed %llu: not %s\n", __FILE__, __LINE__,                      \
                    (unsigned long long)seed, #condition);                                         \
            abort();                                                                               \
        }                                                                                          \
    } while (0)

/* splitmix64 */
static uint64_t any(void) {
    uint64_t z = state += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return z ^ z >> 31;
}

static size_t below(size_t limit) {
    return (size_t)(any() % limit);
}

static void *room(size_t size) {
    void *data = malloc(size);
    if (data == NULL && size != 0)
        abort();
    return data;
}

static void *copy(const void *data, size_t size) {
    void *out = room(size);
    if (size != 0)
        memcpy(out, data, size);
    return out;
}

static ls_slice slice(const char *text) {
    return (ls_slice){(const uint8_t *)text, strlen(text)};
}

static int same(ls_slice a, ls_slice b) {
    return a.size == b.size && (a.size == 0 || memcmp(a.data, b.data, a.size) == 0);
}

/* ---- Columns made of slices: large_binary, binary, or fixed. */

typedef struct {
    ls_column column;
    void *data, *offsets, *validity;
} made_column;

static made_column make_column(const ls_slice *values, size_t count, int offset_width) {
    made_column made = {{0}, NULL, NULL, NULL};
    size_t size = 0, at = 0;
    for (size_t i = 0; i < count; i++)
        size += values[i].size;
    made.data = room(size);
    made.offsets = room((count + 1) * (size_t)offset_width);
    for (size_t i = 0; i <= count; i++) {
        if (offset_width == 4)
            ((int32_t *)made.offsets)[i] = (int32_t)at;
        else if (offset_width == 8)
            ((int64_t *)made.offsets)[i] = (int64_t)at;
        if (i < count && values[i].size > 0) {
            memcpy((uint8_t *)made.data + at, values[i].data, values[i].size);
            at += values[i].size;
        }
    }
    made.column.data = made.data;
    made.column.data_size = size;
    made.column.offsets = offset_width ? made.offsets : NULL;
    made.column.offset_width = offset_width;
    made.column.width = offset_width || count == 0 ? 0 : values[0].size;
    made.column.length = count;
    return made;
}

static void free_column(made_column *made) {
    free(made->data);
    free(made->offsets);
    free(made->validity);
}

/* ---- ls_bytes.h */

static void test_bytes(void) {
    const uint8_t bytes[8] = {1, 2, 3, 4, 5, 6, 7, 0x88};
    uint8_t *exact = copy(bytes, 8);
    CHECK(ls_load32(exact) == 0x04030201);
    CHECK(ls_load32(exact + 4) == 0x88070605);
    CHECK(ls_load64(exact) == UINT64_C(0x8807060504030201));
    CHECK(ls_load64_big(exact) == UINT64_C(0x0102030405060788));
    ls_store64(exact, UINT64_C(0x1122334455667788));
    CHECK(memcmp(exact, "\x88\x77\x66\x55\x44\x33\x22\x11", 8) == 0);
    ls_store32(exact + 4, 0xa1b2c3d4);
    CHECK(memcmp(exact + 4, "\xd4\xc3\xb2\xa1", 4) == 0);
    free(exact);
}

static void check_varint(uint64_t number) {
    size_t size = ls_varint_size(number);
    uint8_t *bytes = room(size);
    CHECK(ls_put_varint(bytes, number) == bytes + size);
    for (size_t cut = 0; cut <= size; cut++) {
        uint8_t *exact = copy(bytes, cut);
        const uint8_t *cursor = exact;
        uint64_t wide = 7;
        uint32_t narrow = 7;
        ls_status status = ls_get_varint64(&cursor, exact + cut, &wide);
        if (cut < size) {
            CHECK(status == LS_TRUNCATED);
            CHECK(cursor == exact);
        } else if (number > INT64_MAX) {
            CHECK(status == LS_BAD_VARINT);
        } else {
            CHECK(status == LS_OK && wide == number && cursor == exact + size);
        }
        cursor = exact;
        status = ls_get_varint32(&cursor, exact + cut, &narrow);
        if (cut == size && number <= INT32_MAX)
            CHECK(status == LS_OK && narrow == number && cursor == exact + size);
        else
            CHECK(status == (cut < size && cut < 5 ? LS_TRUNCATED : LS_BAD_VARINT));
        free(exact);
    }
    free(bytes);
}

static void test_varints(void) {
    static const struct {
        uint64_t number;
        const char *bytes;
        size_t size;
    } known[] = {
        {0, "\0", 1},
        {127, "\x7f", 1},
        {128, "\x80\x01", 2},
        {300, "\xac\x02", 2},
        {16384, "\x80\x80\x01", 3},
        {INT32_MAX, "\xff\xff\xff\xff\x07", 5},
        {INT64_MAX, "\xff\xff\xff\xff\xff\xff\xff\xff\x7f", 9},
    };
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        uint8_t *bytes = room(known[i].size);
        CHECK(ls_varint_size(known[i].number) == known[i].size);
        ls_put_varint(bytes, known[i].number);
        CHECK(memcmp(bytes, known[i].bytes, known[i].size) == 0);
        check_varint(known[i].number);
        free(bytes);
    }
    for (unsigned bit = 0; bit < 64; bit++)
        for (unsigned less = 0; less < 2; less++)
            check_varint((UINT64_C(1) << bit) - less);
    check_varint(UINT64_MAX);
    for (size_t i = 0; i < 2000; i++)
        check_varint(any() >> below(64));
    /* Java takes longer forms than needed, up to 5 and 10 bytes. */
    const uint8_t *cursor;
    uint32_t narrow;
    uint64_t wide;
    const uint8_t zeros[10] = {0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0};
    CHECK((cursor = zeros + 5, ls_get_varint32(&cursor, zeros + 10, &narrow)) == LS_OK);
    CHECK(narrow == 0 && cursor == zeros + 10);
    CHECK((cursor = zeros + 4, ls_get_varint32(&cursor, zeros + 10, &narrow)) == LS_BAD_VARINT);
    CHECK((cursor = zeros, ls_get_varint64(&cursor, zeros + 10, &wide)) == LS_OK && wide == 0);
    uint8_t full[11];
    memset(full, 0x80, sizeof full);
    full[10] = 0;
    CHECK((cursor = full, ls_get_varint64(&cursor, full + 11, &wide)) == LS_BAD_VARINT);
    full[9] = 2; /* bit 64 */
    CHECK((cursor = full, ls_get_varint64(&cursor, full + 11, &wide)) == LS_BAD_VARINT);
}

/* ---- ls_column.h */

static void test_columns(void) {
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

/* ---- ls_order.h */

static int sign(int64_t number) {
    return (number > 0) - (number < 0);
}

static void test_orders(void) {
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

/* ---- ls_block.h */

/* Adds what there is room for, growing by what is asked for and not a byte more. */
static ls_status add(ls_block_builder *builder, ls_slice key, ls_slice value) {
    ls_status status = ls_block_add(builder, key, value);
    if (status != LS_NO_SPACE)
        return status;
    builder->capacity = builder->size + ls_block_room(key, value) +
                        4 * ((size_t)builder->count + 1) + LS_BLOCK_TAIL;
    builder->data = realloc(builder->data, builder->capacity);
    builder->positions_capacity = builder->count + 1;
    builder->positions = realloc(builder->positions, 4 * builder->positions_capacity);
    return ls_block_add(builder, key, value);
}

/* The finished block in a buffer of its exact size. */
static uint8_t *finish(ls_block_builder *builder, size_t *size) {
    if (builder->data == NULL) {
        builder->capacity = LS_BLOCK_TAIL;
        builder->data = room(LS_BLOCK_TAIL);
    }
    size_t memory = ls_block_memory(builder);
    ls_block_finish(builder);
    CHECK(builder->size == memory);
    *size = memory;
    uint8_t *block = copy(builder->data, memory);
    free(builder->data);
    free(builder->positions);
    memset(builder, 0, sizeof *builder);
    ls_block_reset(builder);
    return block;
}

static void new_builder(ls_block_builder *builder) {
    memset(builder, 0, sizeof *builder);
    ls_block_reset(builder);
}

/* Reads all that can be read; the bytes may be anything. */
static void read_everything(const uint8_t *data, size_t size) {
    static const ls_order orders[] = {LS_ORDER_BYTES, LS_ORDER_INT8, LS_ORDER_INT32};
    ls_block block;
    ls_slice key, value;
    uint32_t bad, position;
    int found;
    size_t keys, values;
    if (ls_block_open(&block, data, size) != LS_OK)
        return;
    CHECK(block.count <= size);
    for (uint32_t i = 0; i < block.count; i++)
        if (ls_block_record(&block, i, &key, &value) == LS_OK)
            CHECK(key.data >= data && value.data + value.size <= data + size);
    /* Longer than what follows any key: a size that is not checked makes it read too far. */
    static const uint8_t wanted_bytes[64] = {'a', 1, 'm', 'm'};
    for (size_t n = 0; n < 3; n++) {
        ls_slice wanted = {wanted_bytes, orders[n] ? (size_t)orders[n] : sizeof wanted_bytes};
        (void)ls_block_validate(&block, orders[n], n == 1, &bad);
        (void)ls_block_seek(&block, orders[n], wanted, &position, &found);
        (void)ls_block_lower_bound(&block, orders[n], wanted, 0, &position, &found);
    }
    if (ls_block_sizes(&block, 0, block.count, &keys, &values) == LS_OK) {
        CHECK(keys + values <= size);
        int64_t *key_offsets = room(8 * ((size_t)block.count + 1));
        int64_t *value_offsets = room(8 * ((size_t)block.count + 1));
        uint8_t *key_bytes = room(keys), *value_bytes = room(values);
        CHECK(ls_block_copy(&block, 0, block.count, 1, key_offsets, key_bytes, value_offsets,
                            value_bytes) == LS_OK);
        CHECK(key_offsets[block.count] == (int64_t)keys);
        CHECK(value_offsets[block.count] == (int64_t)values);
        free(key_offsets);
        free(value_offsets);
        free(key_bytes);
        free(value_bytes);
    }
}

/* Every truncation, every bit, and random bytes at random places. */
static void damage(const uint8_t *data, size_t size) {
    for (size_t cut = 0; cut < size; cut++) {
        uint8_t *exact = copy(data, cut);
        read_everything(exact, cut);
        free(exact);
        exact = copy(data + cut, size - cut);
        read_everything(exact, size - cut);
        free(exact);
    }
    uint8_t *exact = copy(data, size);
    for (size_t i = 0; i < 8 * size; i++) {
        exact[i / 8] ^= (uint8_t)(1U << (i % 8));
        read_everything(exact, size);
        exact[i / 8] ^= (uint8_t)(1U << (i % 8));
    }
    for (size_t i = 0; i < 300; i++) {
        memcpy(exact, data, size);
        for (size_t n = 1 + below(4); n > 0; n--)
            exact[below(2) ? below(size) : size - 1 - below(size < 16 ? size : 16)] =
                (uint8_t)any();
        read_everything(exact, size);
    }
    free(exact);
}

static void test_block_bytes(void) {
    ls_block_builder builder;
    size_t size;
    new_builder(&builder);
    CHECK(ls_block_memory(&builder) == 5);
    uint8_t *block = finish(&builder, &size);
    CHECK(size == 5 && memcmp(block, "\0\0\0\0\1", 5) == 0);
    free(block);

    CHECK(add(&builder, slice("a"), slice("22")) == LS_OK);
    CHECK(add(&builder, slice("bb"), slice("3")) == LS_OK);
    CHECK(ls_block_memory(&builder) == 15);
    block = finish(&builder, &size);
    CHECK(size == 15 && memcmp(block, "\1a\00222\2bb\0013\5\0\0\0\0", 15) == 0);
    damage(block, size);
    free(block);

    CHECK(add(&builder, slice(""), slice("")) == LS_OK);
    CHECK(add(&builder, slice("a"), slice("")) == LS_OK);
    CHECK(builder.last_key == 3 && builder.last_key_size == 1);
    CHECK(ls_block_memory(&builder) == 18);
    block = finish(&builder, &size);
    CHECK(size == 18);
    CHECK(memcmp(block, "\0\0\1a\0\0\0\0\0\2\0\0\0\2\0\0\0\1", 18) == 0);
    damage(block, size);
    free(block);

    /* What can not be a block of Java's is refused before a byte is read. */
    new_builder(&builder);
    ls_slice huge = {(const uint8_t *)"", (size_t)INT32_MAX + 1};
    CHECK(ls_block_add(&builder, huge, slice("")) == LS_TOO_LARGE);
    CHECK(ls_block_add(&builder, slice(""), huge) == LS_TOO_LARGE);
    huge.size = INT32_MAX - 5;
    CHECK(ls_block_add(&builder, slice(""), huge) == LS_TOO_LARGE);
    huge.size = INT32_MAX / 2;
    CHECK(ls_block_add(&builder, huge, huge) == LS_TOO_LARGE);
    CHECK(ls_block_add(&builder, slice(""), huge) == LS_NO_SPACE);
}

/* One fault each. `at`: the record that shows it, -1 where opening does. */
static void test_malformed_blocks(void) {
    static const struct {
        const char *bytes;
        size_t size;
        int at;
        ls_status status;
    } cases[] = {
        {"", 0, -1, LS_TRUNCATED},
        {"\0\0\0\1", 4, -1, LS_TRUNCATED},
        {"\0\0\2\0\0\0\0", 7, 0, LS_OK},
        {"\0\0\0\0\0\0\0", 7, -1, LS_BAD_HEADER}, /* records of no byte */
        {"\0\0\1\0\0\0\0", 7, -1, LS_BAD_HEADER}, /* of one */
        {"\0\0\0\2\0\0\0\0", 8, -1, LS_BAD_HEADER}, /* of two, in three bytes */
        {"\0\0\2\0\0\0\2", 7, -1, LS_BAD_HEADER}, /* a flag that is none */
        {"\2\0\0\0\0", 5, -1, LS_BAD_HEADER}, /* aligned, without a record */
        {"\0\0\0\0\0\0\1", 7, -1, LS_BAD_POSITION}, /* records without positions */
        {"\0\0\0\0\1\0\0\0\1", 9, 0, LS_BAD_POSITION}, /* positions without records */
        {"\0\0\0\0\2\0\0\0\1", 9, -1, LS_TRUNCATED}, /* positions without bytes */
        {"\0\0\1\0\0\0\1\0\0\0\1", 11, -1, LS_BAD_POSITION}, /* the first is not at 0 */
        {"\0\0\0\0\0\0\1\0\0\0\1", 11, 0, LS_OK},
        {"\0\0\0\0\0\0\3\0\0\0\2\0\0\0\1", 15, 0, LS_BAD_POSITION}, /* beyond */
        {"\0\0\0\0\0\0\0\0\0\0\2\0\0\0\1", 15, 0, LS_BAD_POSITION}, /* twice */
        {"\2a\2\0\0\0\0", 7, 0, LS_TRUNCATED}, /* key longer than the record */
        {"\1a\2\0\0\0\0", 7, 0, LS_TRUNCATED}, /* no value */
        {"\0\1\2\0\0\0\0", 7, 0, LS_BAD_RECORD}, /* value longer */
        {"\0\0x\3\0\0\0\0", 8, 0, LS_BAD_RECORD}, /* value shorter */
        {"\x80\x80\x80\x80\x80\1\6\0\0\0\0", 11, 0, LS_BAD_VARINT},
        {"\x80\x80\x80\x80\x08\0\6\0\0\0\0", 11, 0, LS_BAD_VARINT}, /* 2^31 */
        {"\x80\x80\2\0\0\0\0", 7, 0, LS_TRUNCATED},
    };
    for (size_t n = 0; n < sizeof cases / sizeof *cases; n++) {
        uint8_t *data = copy(cases[n].bytes, cases[n].size);
        ls_block block;
        ls_slice key, value;
        ls_status status = ls_block_open(&block, data, cases[n].size);
        if (cases[n].at >= 0) {
            CHECK(status == LS_OK);
            status = ls_block_record(&block, (uint32_t)cases[n].at, &key, &value);
        }
        if (status != cases[n].status)
            fprintf(stderr, "case %zu: status %d\n", n, (int)status);
        CHECK(status == cases[n].status);
        read_everything(data, cases[n].size);
        free(data);
    }
    static const struct {
        const char *keys;
        int repeats;
        ls_status status;
        uint32_t bad;
    } orders[] = {
        {"abc", 0, LS_OK, 2},        {"abb", 0, LS_BAD_ORDER, 2}, {"abb", 1, LS_OK, 2},
        {"bac", 1, LS_BAD_ORDER, 1}, {"aac", 0, LS_BAD_ORDER, 1},
    };
    for (size_t n = 0; n < sizeof orders / sizeof *orders; n++) {
        ls_block_builder builder;
        size_t size;
        uint32_t bad = 99;
        ls_block block;
        new_builder(&builder);
        for (size_t i = 0; i < 3; i++) {
            ls_slice key = {(const uint8_t *)orders[n].keys + i, 1};
            CHECK(add(&builder, key, slice("")) == LS_OK);
        }
        uint8_t *data = finish(&builder, &size);
        CHECK(ls_block_open(&block, data, size) == LS_OK);
        CHECK(ls_block_validate(&block, LS_ORDER_BYTES, orders[n].repeats, &bad) ==
              orders[n].status);
        CHECK(bad == orders[n].bad);
        CHECK(ls_block_validate(&block, LS_ORDER_INT16, 1, &bad) == LS_BAD_KEY && bad == 0);
        free(data);
    }
}

#define MANY 200

/* Sorted, distinct random keys: few different bytes, so that they share prefixes. */
static size_t random_keys(ls_slice *keys, size_t wanted, int order) {
    static uint8_t bytes[MANY][8];
    size_t count = 0;
    for (size_t i = 0; i < wanted; i++) {
        ls_slice key = {bytes[i], order ? (size_t)order : below(8)};
        for (size_t k = 0; k < 8; k++)
            bytes[i][k] = (uint8_t)("\0\1am\xff"[below(5)]);
        size_t at = 0;
        while (at < count && ls_compare((ls_order)order, keys[at], key) < 0)
            at++;
        if (at < count && ls_compare((ls_order)order, keys[at], key) == 0)
            continue;
        memmove(keys + at + 1, keys + at, (count - at) * sizeof *keys);
        keys[at] = key;
        count++;
    }
    return count;
}

static void check_searches(const ls_block *block, ls_order order, const ls_slice *keys,
                           size_t count) {
    for (size_t n = 0; n < 100; n++) {
        uint8_t bytes[8];
        for (size_t k = 0; k < 8; k++)
            bytes[k] = (uint8_t)("\0\1am\xff"[below(5)]);
        ls_slice other = {bytes, order ? (size_t)order : below(8)};
        ls_slice key = count && below(2) ? keys[below(count)] : other;
        size_t expected = 0;
        while (expected < count && ls_compare(order, keys[expected], key) < 0)
            expected++;
        int there = expected < count && ls_compare(order, keys[expected], key) == 0;
        uint32_t position = 99999;
        int found = -1;
        CHECK(ls_block_seek(block, order, key, &position, &found) == LS_OK);
        CHECK(position == expected && found == there);
        uint32_t from = (uint32_t)below(expected + 1);
        CHECK(ls_block_lower_bound(block, order, key, from, &position, &found) == LS_OK);
        CHECK(position == expected && found == there);
    }
}

static void test_blocks(void) {
    static const ls_order orders[] = {LS_ORDER_BYTES, LS_ORDER_BYTES, LS_ORDER_INT8,
                                      LS_ORDER_INT32};
    static const uint8_t filler[300] = {42};
    for (size_t round = 0; round < 200; round++) {
        ls_order order = orders[below(4)];
        ls_slice keys[MANY], values[MANY], key, value;
        size_t count = random_keys(keys, below(MANY), (int)order), size;
        int one_size = (int)below(2);
        ls_block_builder builder;
        new_builder(&builder);
        for (size_t i = 0; i < count; i++) {
            values[i] = (ls_slice){filler, one_size ? 8 - keys[i].size : below(300)};
            CHECK(add(&builder, keys[i], values[i]) == LS_OK);
        }
        uint8_t *data = finish(&builder, &size);
        ls_block block;
        uint32_t bad;
        CHECK(ls_block_open(&block, data, size) == LS_OK && block.count == count);
        CHECK((block.positions == NULL) == (count > 0 && (one_size || count == 1)) ||
              !one_size); /* values of one size by chance */
        for (uint32_t i = 0; i < count; i++) {
            CHECK(ls_block_record(&block, i, &key, &value) == LS_OK);
            CHECK(same(key, keys[i]) && same(value, values[i]));
        }
        CHECK(ls_block_validate(&block, order, 0, &bad) == LS_OK);
        check_searches(&block, order, keys, count);
        uint32_t from = (uint32_t)below(count + 1), to = from + (uint32_t)below(count + 1 - from);
        size_t key_size, value_size, key_sum = 0, value_sum = 0;
        CHECK(ls_block_sizes(&block, from, to, &key_size, &value_size) == LS_OK);
        for (uint32_t i = from; i < to; i++) {
            key_sum += keys[i].size;
            value_sum += values[i].size;
        }
        CHECK(key_size == key_sum && value_size == value_sum);
        for (int reverse = 0; reverse < 2; reverse++) {
            size_t rows = to - from;
            int64_t *key_offsets = room(8 * (rows + 1)), *value_offsets = room(8 * (rows + 1));
            uint8_t *key_bytes = room(key_size), *value_bytes = room(value_size);
            CHECK(ls_block_copy(&block, from, to, reverse, key_offsets, key_bytes, value_offsets,
                                value_bytes) == LS_OK);
            for (size_t n = 0; n < rows; n++) {
                size_t i = reverse ? to - 1 - n : from + n;
                ls_slice k = {key_bytes + key_offsets[n],
                              (size_t)(key_offsets[n + 1] - key_offsets[n])};
                ls_slice v = {value_bytes + value_offsets[n],
                              (size_t)(value_offsets[n + 1] - value_offsets[n])};
                CHECK(same(k, keys[i]) && same(v, values[i]));
            }
            free(key_offsets);
            free(value_offsets);
            free(key_bytes);
            free(value_bytes);
        }
        if (count > 0 && size < 400)
            damage(data, size);
        free(data);
    }
}

static void test_adding_columns(void) {
    static const struct {
        const char *keys[3];
        int repeats;
        ls_status status;
        size_t row;
    } cases[] = {
        {{"a", "b", "c"}, 0, LS_OK, 3},       {{"a", "c", "b"}, 0, LS_OUT_OF_ORDER, 2},
        {{"a", "b", "b"}, 0, LS_REPEATED, 2}, {{"a", "b", "b"}, 1, LS_OK, 3},
        {{"", "", "b"}, 0, LS_REPEATED, 1},   {{"b", "", "c"}, 1, LS_OUT_OF_ORDER, 1},
    };
    ls_slice none = {NULL, 0};
    for (size_t n = 0; n < sizeof cases / sizeof *cases; n++) {
        ls_slice keys[3];
        for (size_t i = 0; i < 3; i++)
            keys[i] = slice(cases[n].keys[i]);
        made_column made = make_column(keys, 3, 4);
        for (size_t block_size = 1; block_size < 60; block_size += 7) {
            /* Blocks of growing size, with room asked for record by record. */
            ls_block_builder builder;
            new_builder(&builder);
            ls_slice previous = none;
            size_t row = 0;
            ls_status status;
            while ((status = ls_block_add_column(&builder, LS_ORDER_BYTES, cases[n].repeats,
                                                 &made.column, &made.column, &row, 3, &previous,
                                                 block_size)) == LS_NO_SPACE ||
                   status == LS_BLOCK_FULL) {
                if (status == LS_BLOCK_FULL) {
                    CHECK(ls_block_memory(&builder) > block_size);
                    ls_block_reset(&builder);
                    continue;
                }
                size_t more = ls_block_room(keys[row], keys[row]);
                builder.capacity = builder.size + more + 4 * ((size_t)builder.count + 1) + 5;
                builder.data = realloc(builder.data, builder.capacity);
                builder.positions_capacity = builder.count + 1;
                builder.positions = realloc(builder.positions, 4 * builder.positions_capacity);
            }
            CHECK(status == cases[n].status && row == cases[n].row);
            free(builder.data);
            free(builder.positions);
        }
        free_column(&made);
    }

    /* A block of exactly the wanted size is not full; a byte more is. */
    static const uint8_t abc[3] = "abc";
    for (size_t wanted = 1; wanted < 20; wanted++) {
        ls_slice single[3] = {{abc, 1}, {abc + 1, 1}, {abc + 2, 1}};
        made_column made = make_column(single, 3, 4);
        ls_block_builder builder = {.capacity = 1000, .positions_capacity = 10};
        ls_block_reset(&builder);
        builder.data = room(1000);
        builder.positions = room(40);
        size_t row = 0, expected = wanted < 9 ? 1 : wanted < 13 ? 2 : 3;
        ls_slice previous = none;
        ls_status status = ls_block_add_column(&builder, LS_ORDER_BYTES, 0, &made.column,
                                               &made.column, &row, 3, &previous, wanted);
        CHECK(row == expected && status == (wanted < 17 ? LS_BLOCK_FULL : LS_OK));
        free(builder.data);
        free(builder.positions);
        free_column(&made);
    }

    const ls_slice two[] = {slice("a"), slice("b")};
    made_column keys = make_column(two, 2, 8), values = make_column(two, 2, 4);
    ls_block_builder builder = {.capacity = 1000, .positions_capacity = 10};
    ls_block_reset(&builder);
    builder.data = room(1000);
    builder.positions = room(40);
    size_t row = 0;
    ls_slice previous = none;
    values.column.validity = values.validity = copy("\x01", 1);
    CHECK(ls_block_add_column(&builder, LS_ORDER_BYTES, 0, &keys.column, &values.column, &row, 2,
                              &previous, 1000) == LS_NULL);
    CHECK(row == 1 && builder.count == 1);
    values.column.validity = NULL;
    ((int64_t *)keys.offsets)[2] = 99;
    CHECK(ls_block_add_column(&builder, LS_ORDER_BYTES, 0, &keys.column, &values.column, &row, 2,
                              &previous, 1000) == LS_BAD_COLUMN);
    ((int64_t *)keys.offsets)[2] = 2;
    CHECK(ls_block_add_column(&builder, LS_ORDER_INT16, 0, &keys.column, &values.column, &row, 2,
                              &previous, 1000) == LS_BAD_KEY);
    CHECK(ls_block_add_column(&builder, LS_ORDER_BYTES, 0, &keys.column, &values.column, &row, 2,
                              &previous, 1000) == LS_OK);
    CHECK(row == 2 && builder.count == 2);
    free(builder.data);
    free(builder.positions);
    free_column(&keys);
    free_column(&values);
}

/* Adds rows record by record, as the header says it: the oracle of the test below. */
static ls_status add_slowly(ls_block_builder *builder, int repeats, const ls_slice *keys,
                            const ls_slice *values, size_t *row, size_t end, size_t block_size) {
    for (; *row < end; (*row)++) {
        if (*row > 0) {
            int compared = ls_compare_bytes(keys[*row - 1], keys[*row]);
            if (compared > 0 || (compared == 0 && !repeats))
                return compared > 0 ? LS_OUT_OF_ORDER : LS_REPEATED;
        }
        CHECK(ls_block_add(builder, keys[*row], values[*row]) == LS_OK);
        if (ls_block_memory(builder) > block_size) {
            (*row)++;
            return LS_BLOCK_FULL;
        }
    }
    return LS_OK;
}

static void test_adding_many(void) {
    enum { ROWS = 120, KEY = 60, VALUE = 200 };
    static uint8_t key_bytes[ROWS][KEY], value_bytes[ROWS][VALUE];
    for (int trial = 0; trial < 1500; trial++) {
        static const int widths[3] = {0, 4, 8};
        int key_width = widths[below(3)], value_width = widths[below(3)], repeats = below(2) == 0;
        size_t shared = below(40), key_size = shared + 1 + below(18), value_size = below(VALUE + 1);
        size_t block_size = 1 + below(below(2) ? 300 : 20000);
        ls_slice keys[ROWS], values[ROWS];
        memset(key_bytes, 'k', sizeof key_bytes);
        for (size_t i = 0; i < ROWS; i++) {
            keys[i] = (ls_slice){key_bytes[i], key_size};
            values[i] = (ls_slice){value_bytes[i], value_size};
            if (key_width)
                keys[i].size = shared + 1 + below(18);
            if (value_width && below(3))
                values[i].size = below(VALUE + 1);
            for (size_t k = 0; k < values[i].size; k++)
                value_bytes[i][k] = (uint8_t)any();
            for (size_t k = shared + 1; k < keys[i].size; k++)
                key_bytes[i][k] = (uint8_t)any();
            key_bytes[i][shared] = (uint8_t)(i * 2);
        }
        size_t wrong = below(3 * ROWS); /* mostly beyond the rows: all in order */
        if (wrong > 0 && wrong < ROWS) {
            if (below(2) == 0) {
                key_bytes[wrong][shared] = key_bytes[wrong - 1][shared];
            } else {
                memcpy(key_bytes[wrong], key_bytes[wrong - 1], KEY);
                keys[wrong].size = keys[wrong - 1].size;
            }
        }
        made_column made_keys = make_column(keys, ROWS, key_width);
        made_column made_values = make_column(values, ROWS, value_width);
        made_values.column.width = value_width ? 0 : value_size;
        ls_block_builder fast = {.capacity = below(30000), .positions_capacity = below(ROWS + 9)};
        ls_block_builder slow = {.capacity = 100000, .positions_capacity = ROWS};
        fast.data = room(fast.capacity);
        fast.positions = room(4 * fast.positions_capacity);
        slow.data = room(slow.capacity);
        slow.positions = room(4 * ROWS);
        ls_block_reset(&fast);
        ls_block_reset(&slow);
        ls_slice previous = {NULL, 0};
        size_t row = 0, slow_row = 0;
        for (;;) {
            ls_status status;
            while ((status = ls_block_add_column(&fast, LS_ORDER_BYTES, repeats, &made_keys.column,
                                                 &made_values.column, &row, ROWS, &previous,
                                                 block_size)) == LS_NO_SPACE) {
                fast.capacity = fast.size + ls_block_room(keys[row], values[row]) +
                                4 * ((size_t)fast.count + 1) + LS_BLOCK_TAIL + below(500);
                fast.data = realloc(fast.data, fast.capacity);
                fast.positions_capacity = fast.count + 1 + below(9);
                fast.positions = realloc(fast.positions, 4 * fast.positions_capacity);
            }
            CHECK(status == add_slowly(&slow, repeats, keys, values, &slow_row, ROWS, block_size));
            CHECK(row == slow_row && fast.count == slow.count);
            CHECK(row == 0 || same(previous, keys[row - 1]));
            CHECK(fast.count == 0 ||
                  (fast.last_key == slow.last_key && fast.last_key_size == slow.last_key_size));
            if (status != LS_BLOCK_FULL && status != LS_OK)
                break;
            ls_block_finish(&fast);
            ls_block_finish(&slow);
            CHECK(same((ls_slice){fast.data, fast.size}, (ls_slice){slow.data, slow.size}));
            ls_block_reset(&fast);
            ls_block_reset(&slow);
            if (status == LS_OK)
                break;
        }
        free(fast.data);
        free(fast.positions);
        free(slow.data);
        free(slow.positions);
        free_column(&made_keys);
        free_column(&made_values);
    }
}

/* ---- ls_gather.h */

static void test_gather(void) {
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

/* ---- ls_filter.h */

static void test_filters(void) {
    ls_slice none = {NULL, 0};
    /* xxHash's own test vectors, and Java's table (tests/golden/paimon/murmur.jsonl.gz). */
    CHECK(ls_split_block_hash(none) == UINT64_C(0xef46db3751d8e999));
    CHECK(ls_split_block_hash(slice("a")) == UINT64_C(0xd24ec4f1a98c6e5b));
    CHECK((int32_t)ls_paimon_hash(none) == 142593372);
    CHECK((int32_t)ls_paimon_hash((ls_slice){(const uint8_t *)"\0", 1}) == -783713497);
    CHECK((int32_t)ls_paimon_hash((ls_slice){(const uint8_t *)"\0\1", 2}) == 1432915825);
    CHECK((int32_t)ls_paimon_hash((ls_slice){(const uint8_t *)"\xff", 1}) == 1398487324);
    uint8_t small[8] = {0}, split[32] = {0};
    ls_paimon_filter_add(small, 8, 4, ls_paimon_hash(slice("a")));
    CHECK(memcmp(small, "\0\0\0\2\x81\x40\0\0", 8) == 0);
    ls_split_block_add(split, 1, ls_split_block_hash(slice("a")));
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
    for (int kind = LS_FILTER_NONE; kind <= LS_FILTER_PAIMON; kind++) {
        uint32_t sizes[] = {32, 96, 320};
        for (size_t n = 0; n < 3; n++) {
            uint32_t size = kind == LS_FILTER_PAIMON ? sizes[n] - 31 : sizes[n];
            uint8_t *bits = room(size);
            memset(bits, 0, size);
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
                    CHECK(hashes[i] == ls_split_block_hash(keys[i]));
                    ls_split_block_add(bits, size / 32, hashes[i]);
                    CHECK(ls_split_block_test(bits, size / 32, hashes[i]));
                }
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
            size_t count = KEYS, bad = 0, expected = 0;
            ls_sort_item *items = room(KEYS * sizeof *items);
            for (size_t i = 0; i < KEYS; i++)
                items[i] = (ls_sort_item){.index = (uint32_t)(KEYS - 1 - i), .prefix = i};
            CHECK(ls_filter_test_items(&filter, &made.column, items, &count, &bad) == LS_OK);
            for (size_t i = 0; i < KEYS; i++) {
                if (!ls_filter_test(&filter, keys[KEYS - 1 - i]))
                    CHECK(i < KEYS / 2); /* none that was added */
                else
                    CHECK(items[expected++].index == KEYS - 1 - i);
            }
            CHECK(expected == count);
            free(items);
            free(bits);
            free(hashes);
        }
    }
    ls_slice eights[5]; /* the size that has a loop of its own */
    uint64_t few[3];
    for (size_t i = 0; i < 5; i++)
        eights[i] = (ls_slice){bytes[i], 8};
    made_column fixed = make_column(eights, 5, 0);
    ls_filter_hash(LS_FILTER_SPLIT_BLOCK, &fixed.column, 2, 5, few);
    for (size_t i = 0; i < 3; i++)
        CHECK(few[i] == ls_split_block_hash(eights[2 + i]));
    free_column(&fixed);
    ((int32_t *)made.offsets)[8] = -1;
    ls_sort_item items[2] = {{.index = 3}, {.index = 7}};
    size_t count = 2, bad = 99;
    ls_filter filter = {.kind = LS_FILTER_NONE};
    CHECK(ls_filter_test_items(&filter, &made.column, items, &count, &bad) == LS_BAD_COLUMN);
    CHECK(bad == 1);
    free_column(&made);
}

/* ---- ls_sort.h, against qsort */

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
        items[i] = (ls_sort_item){.index = (uint32_t)i, .block = (uint32_t)i + 1};
        rows[i] = (uint32_t)i;
    }
    CHECK(ls_sort_prefixes(LS_ORDER_BYTES, &made.column, items, count, &bad) == LS_OK);
    ls_sort_keys(LS_ORDER_BYTES, &made.column, items, count, scratch);
    sorted_keys = keys;
    if (count > 0)
        qsort(rows, count, sizeof *rows, compare_rows);
    for (size_t i = 0; i < count; i++)
        CHECK(items[i].index == rows[i] && items[i].block == rows[i] + 1);
    free(items);
    free(scratch);
    free(rows);
    free_column(&made);
}

static void test_sort(void) {
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

/* ---- ls_batch.h: a file of small blocks against a walk over all records */

static void test_batches(void) {
    for (size_t round = 0; round < 60; round++) {
        ls_slice keys[MANY], values[MANY];
        size_t count = random_keys(keys, below(MANY), 0), blocks = 0, size;
        uint8_t *data[MANY], *index;
        size_t sizes[MANY];
        ls_block_builder builder, index_builder;
        new_builder(&builder);
        new_builder(&index_builder);
        for (size_t i = 0; i < count; i++) {
            values[i] = (ls_slice){(const uint8_t *)"0123456789abcdef" + below(4), below(13)};
            CHECK(add(&builder, keys[i], values[i]) == LS_OK);
            if (i + 1 == count || below(5) == 0) {
                data[blocks] = finish(&builder, &sizes[blocks]);
                CHECK(add(&index_builder, keys[i], slice("")) == LS_OK);
                blocks++;
            }
        }
        index = finish(&index_builder, &size);
        ls_block index_block;
        CHECK(ls_block_open(&index_block, index, size) == LS_OK && index_block.count == blocks);

        /* Ask for known keys, twice some, and for others. */
        ls_slice asked[MANY];
        static uint8_t others[MANY][4];
        size_t asked_count = below(MANY), bad;
        for (size_t i = 0; i < asked_count; i++) {
            for (size_t k = 0; k < 4; k++)
                others[i][k] = (uint8_t)("\0\1am\xff"[below(5)]);
            asked[i] = count && below(3) ? keys[below(count)] : (ls_slice){others[i], below(5)};
        }
        made_column made = make_column(asked, asked_count, 8);
        ls_sort_item *items = room(asked_count * sizeof *items);
        ls_sort_item *scratch = room(asked_count * sizeof *items);
        ls_slice *answers = calloc(asked_count + 1, sizeof *answers);
        for (size_t i = 0; i < asked_count; i++)
            items[i] = (ls_sort_item){.index = (uint32_t)i};
        CHECK(ls_sort_prefixes(LS_ORDER_BYTES, &made.column, items, asked_count, &bad) == LS_OK);
        ls_sort_keys(LS_ORDER_BYTES, &made.column, items, asked_count, scratch);
        int repeats = (int)below(2); /* without repeats both ways agree */
        CHECK(ls_batch_route(&index_block, LS_ORDER_BYTES, repeats, &made.column, items,
                             asked_count) == LS_OK);
        uint8_t *arenas[MANY];
        size_t arena_count = 0;
        for (size_t start = 0, end; start < asked_count; start = end) {
            for (end = start; end < asked_count && items[end].block == items[start].block;)
                end++;
            uint32_t number = items[start].block;
            if (number >= blocks)
                break;
            ls_block block;
            CHECK(ls_block_open(&block, data[number], sizes[number]) == LS_OK);
            CHECK(ls_batch_search(&block, LS_ORDER_BYTES, repeats, &made.column, items + start,
                                  end - start, answers) == LS_OK);
            size_t staged = ls_batch_stage_size(items + start, end - start, answers);
            arenas[arena_count] = room(staged);
            CHECK(ls_batch_stage(items + start, end - start, answers, arenas[arena_count]) ==
                  staged);
            arena_count++;
        }
        for (size_t i = 0; i < blocks; i++)
            free(data[i]); /* the answers have been copied out */

        size_t bytes = ls_batch_size(answers, asked_count), missing = 0,
               bitmap = (asked_count + 7) / 8;
        int64_t *offsets = room(8 * (asked_count + 1));
        uint8_t *validity = calloc(bitmap, 1), *found = calloc(bitmap, 1), *out = room(bytes);
        size_t reported = ls_batch_gather(answers, asked_count, offsets, validity, out);
        ls_batch_found(answers, asked_count, found);
        CHECK(bitmap == 0 || memcmp(validity, found, bitmap) == 0);
        CHECK(offsets[asked_count] == (int64_t)bytes);
        for (size_t i = 0; i < asked_count; i++) {
            size_t at = 0;
            while (at < count && !same(keys[at], asked[i]))
                at++;
            CHECK((found[i >> 3] >> (i & 7) & 1) == (at < count));
            ls_slice got = {out + offsets[i], (size_t)(offsets[i + 1] - offsets[i])};
            CHECK(at < count ? same(got, values[at]) : got.size == 0);
            missing += at == count;
        }
        CHECK(reported == missing);
        while (arena_count > 0)
            free(arenas[--arena_count]);
        free(index);
        free(items);
        free(scratch);
        free(answers);
        free(offsets);
        free(validity);
        free(found);
        free(out);
        free_column(&made);
    }
}

/* The answer among repeats is where Java's halving ends. */
static void test_repeated_keys(void) {
    for (size_t count = 1; count < 40; count++) {
        ls_block_builder builder;
        new_builder(&builder);
        size_t first = below(count), last = first + below(count - first), size;
        for (size_t i = 0; i < count; i++) {
            uint8_t value = (uint8_t)i;
            ls_slice key = slice(i < first ? "a" : i <= last ? "b" : "c");
            CHECK(add(&builder, key, (ls_slice){&value, 1}) == LS_OK);
        }
        uint8_t *data = finish(&builder, &size);
        ls_block block;
        uint32_t position, bad;
        int found;
        CHECK(ls_block_open(&block, data, size) == LS_OK);
        CHECK(ls_block_validate(&block, LS_ORDER_BYTES, 1, &bad) == LS_OK);
        ls_slice key = slice("b"), answer = {NULL, 0};
        CHECK(ls_block_lower_bound(&block, LS_ORDER_BYTES, key, 0, &position, &found) == LS_OK);
        CHECK(found && position == first);
        int64_t left = 0, right = (int64_t)count - 1, middle;
        for (;;) {
            middle = left + (right - left) / 2;
            if (middle < (int64_t)first)
                left = middle + 1;
            else if (middle > (int64_t)last)
                right = middle - 1;
            else
                break;
        }
        CHECK(ls_block_seek(&block, LS_ORDER_BYTES, key, &position, &found) == LS_OK);
        CHECK(found && position == middle);
        made_column made = make_column(&key, 1, 8);
        ls_sort_item item = {.index = 0};
        CHECK(ls_batch_search(&block, LS_ORDER_BYTES, 1, &made.column, &item, 1, &answer) == LS_OK);
        CHECK(answer.size == 1 && *answer.data == middle);
        free_column(&made);
        free(data);
    }
}

/* ---- ls_keys.h: bytes and damage; meaning is tested from Python against typed order */

static void test_keys(void) {
    /* One field in the middle, nullable: 01, escaped value, 00 00. */
    const ls_slice values[] = {slice(""), {(const uint8_t *)"a\0b", 3}, slice("xyz")};
    ls_key_field field = {.kind = LS_KEY_BYTES, .nullable = 1};
    made_column made = make_column(values, 3, 4);
    made.column.validity = made.validity = copy("\x03", 1); /* the last one is null */
    int64_t *cursors = room(3 * 8);
    for (size_t i = 0; i < 3; i++)
        cursors[i] = 1;
    CHECK(ls_keys_add_sizes(&field, &made.column, cursors) == LS_OK);
    CHECK(cursors[0] == 3 && cursors[1] == 7 && cursors[2] == 1);
    int64_t size = ls_keys_starts(cursors, 3);
    CHECK(size == 11 && cursors[0] == 0 && cursors[1] == 3 && cursors[2] == 10);
    ls_key_target target = {.data = room((size_t)size), .cursors = cursors, .length = 3};
    CHECK(ls_keys_write(&field, &made.column, 0, &target) == LS_OK);
    CHECK(memcmp(target.data,
                 "\1\0\0\1a\0\xff"
                 "b\0\0\0",
                 11) == 0);

    /* Read back the middle key, whole and cut, and with every byte changed. */
    for (size_t cut = 0; cut <= 7; cut++)
        for (unsigned change = 0; change < 256; change++) {
            ls_slice key = {copy(target.data + 3, cut), cut};
            if (cut > 0)
                ((uint8_t *)key.data)[below(cut)] = (uint8_t)change;
            made_column keys = make_column(&key, 1, 8);
            int64_t cursor = 0, offsets[2];
            size_t bad = 9, nulls = 0;
            if (ls_keys_measure_bytes(&field, &keys.column, &cursor, offsets, &bad) == LS_OK) {
                uint8_t validity = 0, *out = room((size_t)offsets[1]);
                CHECK(offsets[1] <= 7);
                CHECK(ls_keys_read_bytes(&field, &keys.column, &cursor, out, &validity, &nulls,
                                         &bad) == LS_OK);
                CHECK((size_t)cursor <= cut);
                (void)ls_keys_check_ends(&keys.column, &cursor, &bad);
                free(out);
            } else {
                CHECK(bad == 0);
            }
            free((void *)key.data);
            free_column(&keys);
        }
    free(target.data);
    free(cursors);
    free_column(&made);

    /* Fixed fields: big-endian, the sign flipped. */
    static const struct {
        ls_key_kind kind;
        size_t width;
        const char *in, *out;
    } fixed[] = {
        {LS_KEY_UNSIGNED, 4, "\4\3\2\1", "\1\2\3\4"},
        {LS_KEY_SIGNED, 4, "\xff\xff\xff\xff", "\x7f\xff\xff\xff"},
        {LS_KEY_SIGNED, 2, "\1\0", "\x80\1"},
        {LS_KEY_FLOAT, 4, "\0\0\0\x80", "\x80\0\0\0"}, /* -0.0 as 0.0 */
        {LS_KEY_FLOAT, 4, "\0\0\x80\xbf", "\x40\x7f\xff\xff"}, /* -1.0 */
        {LS_KEY_RAW, 3, "abc", "abc"},
    };
    for (size_t n = 0; n < sizeof fixed / sizeof *fixed; n++) {
        ls_slice value = {(const uint8_t *)fixed[n].in, fixed[n].width};
        made_column column = make_column(&value, 1, 0);
        ls_key_field one = {.kind = fixed[n].kind, .width = fixed[n].width};
        ls_key_target keys = {.data = room(one.width), .stride = one.width, .length = 1};
        CHECK(ls_keys_write(&one, &column.column, 0, &keys) == LS_OK);
        CHECK(memcmp(keys.data, fixed[n].out, one.width) == 0);
        for (size_t cut = 0; cut <= one.width; cut++) {
            ls_slice key = {keys.data, cut};
            made_column stored = make_column(&key, 1, 8);
            int64_t cursor = 0;
            size_t nulls = 0, bad = 9;
            uint8_t *out = room(one.width);
            ls_status status =
                ls_keys_read_fixed(&one, &stored.column, &cursor, out, NULL, &nulls, &bad);
            CHECK(status == (cut < one.width ? LS_BAD_ROW : LS_OK));
            CHECK((ls_keys_check_width(&stored.column, one.width, &bad) == LS_OK) ==
                  (cut == one.width));
            free(out);
            free_column(&stored);
        }
        free(keys.data);
        free_column(&column);
    }
    uint32_t bucket = 9;
    ls_slice key = slice("a");
    made = make_column(&key, 1, 8);
    CHECK(ls_keys_buckets(&made.column, 1000, &bucket) == LS_OK);
    CHECK(bucket == UINT64_C(0xd24ec4f1a98c6e5b) % 1000);
    free_column(&made);
}

/* ---- ls_rows.h: one nullable fixed column of 4 bytes, then one of bytes, then a list of bytes */

static void read_rows(const uint8_t *data, size_t size) {
    enum { FIXED = 1 + 4 + 4 };
    ls_slice row = {data, size};
    made_column made = make_column(&row, 1, 8);
    ls_row_source source = {.rows = made.column, .zeros = room(FIXED), .fixed_size = FIXED};
    memset((void *)source.zeros, 0, FIXED);
    source.last = 5;
    size_t bad = 9;
    int64_t offsets[2];
    if (ls_rows_check(&source, &bad) == LS_OK) {
        uint8_t bitmap = 0, number[4];
        (void)ls_rows_read_validity(&source, 0, &bitmap);
        (void)ls_rows_read_validity(&source, LS_NO_COLUMN, &bitmap);
        ls_rows_read_fixed(&source, 1, 4, number);
        if (ls_rows_measure(&source, LS_NO_COLUMN, 5, offsets, &bad) == LS_OK) {
            CHECK((size_t)offsets[1] <= size);
            uint8_t *out = room((size_t)offsets[1]);
            ls_rows_read_variable(&source, LS_NO_COLUMN, offsets, out);
            free(out);
        }
    }
    free((void *)source.zeros);
    /* The same bytes as a list: of varying elements, of three-byte ones, of two of a fixed size. */
    static const ls_list_shape shapes[] = {{1, 0, 0}, {1, 0, 3}, {0, 2, 0}, {0, 2, 3}};
    for (size_t n = 0; n < 4; n++) {
        size_t bytes = 0;
        if (ls_lists_measure(&made.column, &shapes[n], offsets, &bytes, &bad) != LS_OK)
            continue;
        CHECK(bytes <= size && (size_t)offsets[1] <= size + 2);
        uint8_t *out = room(bytes), *validity = calloc((size_t)offsets[1] / 8 + 1, 1);
        int64_t *ends = room(8 * ((size_t)offsets[1] + 1));
        ls_lists_read(&made.column, &shapes[n], offsets, out, shapes[n].element_width ? NULL : ends,
                      shapes[n].counted ? NULL : validity);
        free(out);
        free(validity);
        free(ends);
    }
    free_column(&made);
}

static void test_rows(void) {
    const ls_slice numbers[] = {slice("1234"), slice("5678")};
    const ls_slice texts[] = {slice("hello"), slice("")};
    made_column number = make_column(numbers, 2, 0), text = make_column(texts, 2, 4);
    number.column.validity = number.validity = copy("\x01", 1); /* the second one is null */
    int64_t *sizes = room(3 * 8);
    size_t bad;
    sizes[0] = 99;
    sizes[1] = sizes[2] = 9;
    CHECK(ls_rows_add_sizes(&text.column, sizes + 1) == LS_OK);
    CHECK(sizes[1] == 14 && sizes[2] == 9);
    CHECK(ls_rows_offsets(sizes, 2, 9, &bad) == LS_OK);
    CHECK(sizes[0] == 0 && sizes[1] == 14 && sizes[2] == 23);
    ls_row_target rows = {.data = room(23), .offsets = sizes, .length = 2};
    uint32_t *ends = calloc(2, 4);
    ls_rows_clear(9, &rows);
    ls_rows_write_nulls(&number.column, 0, &rows);
    ls_rows_write_fixed(&number.column, 1, &rows);
    CHECK(ls_rows_write_variable(&text.column, 5, 9, ends, &rows) == LS_OK);
    CHECK(memcmp(rows.data,
                 "\0"
                 "1234\5\0\0\0hello\1\0\0\0\0\0\0\0\0",
                 23) == 0);
    for (size_t cut = 0; cut <= 14; cut++) {
        read_rows(rows.data, cut);
        for (size_t n = 0; n < 200 && cut > 0; n++) {
            uint8_t *exact = copy(rows.data, cut);
            exact[below(cut)] = (uint8_t)(below(2) ? any() : below(8));
            read_rows(exact, cut);
            free(exact);
        }
    }
    for (size_t n = 0; n < 20000; n++) {
        uint8_t bytes[24];
        size_t size = below(sizeof bytes);
        for (size_t i = 0; i < size; i++)
            bytes[i] = (uint8_t)(below(3) ? below(4) : any());
        read_rows(bytes, size);
    }
    free(rows.data);
    free(sizes);
    free(ends);
    free_column(&number);
    free_column(&text);
}

/* Lists too short for their count, or for the ends it tells of: what is missing is beyond the
 * buffer, so AddressSanitizer sees a length that is not checked before it is used. */
static void test_short_lists(void) {
    static const struct {
        ls_list_shape shape;
        size_t size; /* of the only list that is right */
        const char *bytes;
    } lists[] = {
        {{1, 0, 0}, 4, "\0\0\0"},               /* a count, then ends and elements */
        {{1, 0, 0}, 11, "\1\0\0\0\3\0\0\0abc"}, /* one element that varies */
        {{1, 0, 3}, 4, "\0\0\0"},               /* a count, then elements of 3 bytes */
        {{1, 0, 3}, 7, "\1\0\0\0abc"},          /* one of them */
        {{0, 1, 0}, 7, "\3\0\0\0abc"},          /* no count: always one that varies */
        {{0, 2, 3}, 6, "abcdef"},               /* always two of 3 bytes */
    };
    for (size_t n = 0; n < sizeof lists / sizeof *lists; n++)
        for (size_t cut = 0; cut <= lists[n].size; cut++) {
            ls_slice list = {(const uint8_t *)lists[n].bytes, cut};
            made_column made = make_column(&list, 1, 8);
            int64_t offsets[2];
            size_t bytes = 0, bad = 9;
            ls_status status =
                ls_lists_measure(&made.column, &lists[n].shape, offsets, &bytes, &bad);
            CHECK(status == (cut < lists[n].size ? LS_BAD_ROW : LS_OK));
            CHECK(status == LS_OK || bad == 0);
            free_column(&made);
        }
}

/* Keys of a nullable field that are nothing, or nothing but their marker. Each follows a null, since
 * an empty malloc is one byte to AddressSanitizer. */
static void test_short_keys(void) {
    static const ls_key_field fields[] = {
        {.kind = LS_KEY_SIGNED, .width = 4, .nullable = 1},
        {.kind = LS_KEY_RAW, .width = 3, .nullable = 1},
        {.kind = LS_KEY_BYTES, .nullable = 1},
    };
    for (size_t n = 0; n < sizeof fields / sizeof *fields; n++)
        for (size_t cut = 0; cut <= 1; cut++) {
            const ls_slice keys[] = {{(const uint8_t *)"\0", 1}, {(const uint8_t *)"\1", cut}};
            made_column made = make_column(keys, 2, 8);
            int64_t cursors[2] = {0, 0}, offsets[3];
            size_t nulls = 0, bad = 9;
            uint8_t out[8], validity = 0;
            ls_status status =
                fields[n].kind == LS_KEY_BYTES
                    ? ls_keys_measure_bytes(&fields[n], &made.column, cursors, offsets, &bad)
                    : ls_keys_read_fixed(&fields[n], &made.column, cursors, out, &validity, &nulls,
                                         &bad);
            CHECK(status == LS_BAD_ROW && bad == 1 && cursors[1] == 0);
            free_column(&made);
        }
}

int main(int argc, char **argv) {
    seed = argc > 1 ? strtoull(argv[1], NULL, 10) : (uint64_t)time(NULL);
    state = seed;
    test_bytes();
    test_varints();
    test_columns();
    test_orders();
    test_block_bytes();
    test_malformed_blocks();
    test_blocks();
    test_adding_columns();
    test_adding_many();
    test_gather();
    test_filters();
    test_sort();
    test_batches();
    test_repeated_keys();
    test_keys();
    test_rows();
    test_short_lists();
    test_short_keys();
    printf("csrc: %zu checks hold, seed %llu\n", checks, (unsigned long long)seed);
    return 0;
}
