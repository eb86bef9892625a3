/* Tests of csrc: built alone with sanitizers, run in seconds. Every buffer handed out is a malloc of
 * exactly its size, so that AddressSanitizer sees one byte too many. `test_csrc SEED` repeats a run. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "ls_batch.h"
#include "ls_block.h"
#include "ls_bytes.h"
#include "ls_column.h"
#include "ls_fences.h"
#include "ls_filter.h"
#include "ls_gather.h"
#include "ls_hadoop_bloom.h"
#include "ls_hash.h"
#include "ls_key_ranges.h"
#include "ls_key_table.h"
#include "ls_keys.h"
#include "ls_md5.h"
#include "ls_order.h"
#include "ls_rows.h"
#include "ls_slots.h"
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

/* ---- ls_hash.h */

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

static void test_hashes(void) {
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

/* Slots of exactly what a block needs, where they have to be. */
static uint32_t *slots_room(const ls_block *block) {
    uint32_t *slots = aligned_alloc(64, 64 * (size_t)ls_slots_buckets(block->count));
    if (slots == NULL)
        abort();
    return slots;
}

/* Asks a ready block whose bytes may be anything for keys of every size. */
static void get_anything(const ls_ready *ready, ls_order order) {
    static const uint8_t bytes[64] = {'a', 1, 'm', 'm'};
    for (size_t size = 0; size <= sizeof bytes; size++) {
        ls_slice key = {bytes, size}, value = {NULL, 0};
        if (ls_check_key(order, key) != LS_OK ||
            ls_ready_get(ready, order, key, ls_hash(key), &value) != LS_OK || value.data == NULL)
            continue;
        CHECK(value.data >= ready->data && value.size <= ready->size &&
              value.data + value.size <= ready->data + ready->size);
    }
}

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
        uint32_t *slots = slots_room(&block);
        ls_ready ready;
        if (ls_slots_build(&block, size, orders[n], slots, &ready, &bad) == LS_OK)
            get_anything(&ready, orders[n]);
        else
            CHECK(bad < block.count);
        free(slots);
    }
    if (ls_block_sizes(&block, 0, block.count, &keys, &values) == LS_OK) {
        CHECK(keys + values <= size);
        int64_t *key_offsets = room(8 * ((size_t)block.count + 1));
        int64_t *value_offsets = room(8 * ((size_t)block.count + 1));
        uint8_t *key_bytes = room(keys), *value_bytes = room(values);
        CHECK(ls_block_copy(&block, 0, block.count, 1, key_offsets, key_bytes, keys, value_offsets,
                            value_bytes, values) == LS_OK);
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
    /* More bytes than Java's int counts, of which only those at the end are touched. */
    size_t most = (size_t)INT32_MAX + LS_BLOCK_TAIL;
    uint8_t *large = calloc(most + 1, 1), *tail = large + most + 1 - LS_BLOCK_TAIL;
    for (uint32_t flag = 0; flag < 2; flag++)
        for (size_t more = 0; more < 2; more++) {
            ls_block block;
            ls_store32(tail, flag ? 1 : (uint32_t)(INT32_MAX + more)); /* one record */
            tail[4] = (uint8_t)flag;
            CHECK(ls_block_open(&block, large + 1 - more, most + more) ==
                  (more ? LS_BAD_HEADER : LS_OK));
        }
    free(large);
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
            CHECK(ls_block_copy(&block, from, to, reverse, key_offsets, key_bytes, key_size,
                                value_offsets, value_bytes, value_size) == LS_OK);
            if (key_size > 0)
                CHECK(ls_block_copy(&block, from, to, reverse, key_offsets, key_bytes, key_size - 1,
                                    value_offsets, value_bytes, value_size) == LS_TRUNCATED);
            CHECK(ls_block_copy(&block, from, to, reverse, key_offsets, key_bytes, key_size,
                                value_offsets, value_bytes, value_size) == LS_OK);
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
        ls_filter_test_many(&there, column, from, from + count, hashes, maybe);
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
            else
                CHECK(maybe[i] == 1);
        }
        free(moved);
        free(maybe);
        free(hashes);
    }
}

static void test_filters(void) {
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
                    CHECK(hashes[i] == ls_hash(keys[i]));
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
            check_filter(&filter, &made.column, keys, KEYS / 2);
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
        CHECK(few[i] == ls_hash(eights[2 + i]));
    free_column(&fixed);
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

/* ---- Sets of sorted keys, for what follows */

typedef enum {
    SHORT_KEYS, /* of few letters: many are prefixes of others */
    ANY_KEYS, /* of any bytes */
    SHARED_KEYS, /* behind long prefixes that many share */
    COUNTED_KEYS, /* ascending numbers of 8 bytes, most significant first */
    NESTED_KEYS, /* one long text, cut anywhere: each is a prefix of the next */
    KEY_KINDS
} key_kind;

#define LONGEST_KEY 240

typedef struct {
    uint8_t (*bytes)[LONGEST_KEY];
    ls_slice *keys;
    size_t count;
} key_set;

static ls_order sorted_order;

static int compare_slices(const void *left, const void *right) {
    return ls_compare(sorted_order, *(const ls_slice *)left, *(const ls_slice *)right);
}

static size_t random_key(key_kind kind, size_t number, uint8_t *key) {
    size_t size = kind == SHORT_KEYS ? below(9) : below(41), shared = below(4);
    switch (kind) {
    case COUNTED_KEYS:
        for (size_t k = 0; k < 8; k++)
            key[k] = (uint8_t)(number * 1001 >> (56 - 8 * k));
        return 8;
    case NESTED_KEYS:
        size = below(LONGEST_KEY + 1);
        for (size_t k = 0; k < size; k++)
            key[k] = k % 50 < 20 ? 0 : 'n';
        if (size > 0 && below(4) == 0)
            key[size - 1]++;
        return size;
    case SHARED_KEYS:
        size = shared * 66 + below(12);
        memset(key, 'p', shared * 66);
        for (size_t k = shared * 66; k < size; k++)
            key[k] = (uint8_t)("\0ab"[below(3)]);
        if (shared > 0 && below(2)) /* some share the first half only */
            key[33 * shared] = 'q';
        return size;
    default:
        for (size_t k = 0; k < size; k++)
            key[k] = (uint8_t)(kind == SHORT_KEYS ? "\0\1am\xff"[below(5)] : (int)any());
        return size;
    }
}

/* Distinct keys, or with `repeats` some of them more than once. */
static key_set make_keys(ls_order order, key_kind kind, size_t wanted, int repeats) {
    key_set set = {room(wanted * LONGEST_KEY), room(wanted * sizeof(ls_slice)), 0};
    for (size_t i = 0; i < wanted; i++) {
        uint8_t *key = set.bytes[i];
        size_t size = (size_t)order;
        if (order == LS_ORDER_BYTES) {
            size = random_key(kind, i, key);
        } else {
            uint8_t number[8];
            ls_store64(number, kind == COUNTED_KEYS ? i : any() >> below(64));
            memcpy(key, number, size);
        }
        set.keys[i] = (ls_slice){key, size};
        if (repeats && i > 0 && below(3) == 0)
            set.keys[i] = set.keys[below(i)];
    }
    sorted_order = order;
    if (wanted > 0)
        qsort(set.keys, wanted, sizeof *set.keys, compare_slices);
    for (size_t i = 0; i < wanted; i++)
        if (i == 0 || repeats || ls_compare(order, set.keys[set.count - 1], set.keys[i]) != 0)
            set.keys[set.count++] = set.keys[i];
    return set;
}

static void free_keys(key_set *set) {
    free(set->bytes);
    free(set->keys);
}

/* The key itself, and what lies close to it, in a buffer of its exact size that the caller frees.
 * Keys of an integer order keep their size. */
#define NEIGHBOURS 10

static ls_slice neighbour(ls_order order, ls_slice key, size_t which) {
    uint8_t bytes[LONGEST_KEY + 8];
    size_t size = key.size;
    if (size > 0)
        memcpy(bytes, key.data, size);
    if (order == LS_ORDER_BYTES) {
        size_t more = which == 1 || which == 2 ? 1 : which == 3 ? 8 : 0;
        memset(bytes + size, which == 2 ? 0xff : 0, more);
        size += more;
        size -= which == 4 && size > 0 ? 1
                : which == 5           ? size % 8
                : which == 6           ? below(size + 1)
                                       : 0;
    }
    if (size > 0 && which == 7)
        bytes[order == LS_ORDER_BYTES ? size - 1 : 0]++;
    if (size > 0 && which == 8)
        bytes[order == LS_ORDER_BYTES ? size - 1 : 0]--;
    if (size > 0 && which == 9)
        bytes[below(size)] ^= (uint8_t)(1U << below(8));
    return (ls_slice){copy(bytes, size), size};
}

/* Any key, with those at the ends of all orders; of its exact size, as above. */
static ls_slice any_key(ls_order order) {
    uint8_t bytes[LONGEST_KEY];
    size_t size = order == LS_ORDER_BYTES
                      ? random_key((key_kind)below(KEY_KINDS), below(5000), bytes)
                      : (size_t)order;
    if (order != LS_ORDER_BYTES)
        for (size_t k = 0; k < size; k++)
            bytes[k] = (uint8_t)any();
    if (below(8) == 0)
        memset(bytes, below(2) ? 0xff : 0, size);
    return (ls_slice){copy(bytes, size), size};
}

/* The first key that is not smaller, and whether it is equal. */
static size_t walk(ls_order order, const ls_slice *keys, size_t count, ls_slice key, int *found) {
    size_t at = 0;
    while (at < count && ls_compare(order, keys[at], key) < 0)
        at++;
    *found = at < count && ls_compare(order, keys[at], key) == 0;
    return at;
}

/* The same among keys that may be repeated, where Java's halving ends. */
static size_t halve(ls_order order, const ls_slice *keys, size_t count, ls_slice key, int *found) {
    int64_t left = 0, right = (int64_t)count - 1;
    *found = 0;
    while (left <= right) {
        int64_t middle = left + (right - left) / 2;
        int compared = ls_compare(order, keys[middle], key);
        if (compared == 0) {
            *found = 1;
            return (size_t)middle;
        }
        if (compared < 0)
            left = middle + 1;
        else
            right = middle - 1;
    }
    return (size_t)left;
}

/* A block of records, in a buffer of its exact size. */
static uint8_t *make_block(const ls_slice *keys, const ls_slice *values, size_t count,
                           size_t *size) {
    ls_block_builder builder;
    new_builder(&builder);
    builder.capacity = LS_BLOCK_TAIL + 4 * count;
    for (size_t i = 0; i < count; i++)
        builder.capacity += ls_block_room(keys[i], values[i]);
    builder.data = room(builder.capacity);
    builder.positions = room(4 * count);
    builder.positions_capacity = count;
    for (size_t i = 0; i < count; i++)
        CHECK(ls_block_add(&builder, keys[i], values[i]) == LS_OK);
    return finish(&builder, size);
}

/* Random bytes at random places, more of them at the end, where a block says what it is. */
static void damage_in_place(uint8_t *data, size_t size) {
    for (size_t n = 1 + below(4); n > 0; n--)
        data[below(2) ? below(size) : size - 1 - below(size < 16 ? size : 16)] =
            (uint8_t)(below(2) ? any() : below(4));
}

/* ---- ls_slots.h */

static ls_slice get(const ls_ready *ready, ls_order order, ls_slice key) {
    ls_slice value = {NULL, 7};
    CHECK(ls_ready_get(ready, order, key, ls_hash(key), &value) == LS_OK);
    CHECK(value.data != NULL || value.size == 7);
    return value;
}

static void check_slots(const ls_block *block, const ls_ready *ready, ls_order order,
                        const ls_slice *keys, size_t count) {
    for (uint32_t i = 0; i < count; i++) {
        ls_slice key = {copy(keys[i].data, keys[i].size), keys[i].size};
        ls_slice stored, value, answer = get(ready, order, key);
        CHECK(ls_block_record(block, i, &stored, &value) == LS_OK);
        CHECK(answer.data == value.data && answer.size == value.size);
        free((void *)key.data);
    }
    for (size_t n = 0; n < 200; n++) {
        int found;
        ls_slice stored, value = {NULL, 7};
        ls_slice key = count && below(3) ? neighbour(order, keys[below(count)], below(NEIGHBOURS))
                                         : any_key(order);
        uint32_t at = (uint32_t)walk(order, keys, count, key, &found);
        ls_slice answer = get(ready, order, key);
        CHECK((answer.data != NULL) == found);
        if (found) {
            CHECK(ls_block_record(block, at, &stored, &value) == LS_OK);
            CHECK(answer.data == value.data && answer.size == value.size);
        }
        free((void *)key.data);
    }
}

/* A key that is not there, with the hash of one that is. */
static void check_collisions(const ls_ready *ready, ls_order order, const ls_slice *keys,
                             size_t count) {
    for (size_t n = 0; n < 50 && count > 0; n++) {
        int found;
        ls_slice there = keys[below(count)], value = {NULL, 7};
        ls_slice key = neighbour(order, there, 7 + below(3));
        (void)walk(order, keys, count, key, &found);
        if (!found) {
            CHECK(ls_ready_get(ready, order, key, ls_hash(there), &value) == LS_OK);
            CHECK(value.data == NULL && value.size == 7);
        }
        free((void *)key.data);
    }
}

/* What lies at any offset of a block whose bytes may be anything is no record, or one inside it. */
static void read_anywhere(const ls_ready *ready) {
    static const uint8_t zeros[300];
    for (size_t n = 0; n < 20; n++) {
        uint32_t offset = (uint32_t)below(below(2) ? ready->size + 3 : 40);
        ls_slice key = {offset < ready->size ? zeros : NULL, offset < ready->size ? below(40) : 0};
        ls_slice value = {NULL, 0};
        int found;
        if (offset < ready->size && ready->data[offset] < 0x80)
            key.size = ready->data[offset]; /* as what lies there says */
        if (ls_ready_record(ready, offset, key, &found, &value) == LS_OK && found)
            CHECK((size_t)(value.data - ready->data) + value.size <= ready->size);
    }
}

static void test_slots(void) {
    static const ls_order orders[] = {LS_ORDER_BYTES, LS_ORDER_BYTES, LS_ORDER_BYTES, LS_ORDER_INT8,
                                      LS_ORDER_INT16, LS_ORDER_INT32, LS_ORDER_INT64};
    static uint8_t filler[300];
    for (size_t i = 0; i < sizeof filler; i++)
        filler[i] = (uint8_t)any();
    for (size_t round = 0; round < 70; round++) {
        ls_order order = orders[round % 7];
        size_t most = round < 35 ? 40 : 3001, size;
        key_set set = make_keys(order, (key_kind)below(KEY_KINDS), below(most), 0);
        ls_slice *values = room(set.count * sizeof *values);
        int one_size = (int)below(2);
        for (size_t i = 0; i < set.count; i++)
            values[i] =
                (ls_slice){filler + below(100),
                           one_size && set.keys[i].size <= 40 ? 40 - set.keys[i].size : below(200)};
        uint8_t *data = make_block(set.keys, values, set.count, &size);
        ls_block block;
        ls_ready ready;
        uint32_t bad = 99999;
        CHECK(ls_block_open(&block, data, size) == LS_OK);
        uint32_t *slots = slots_room(&block);
        CHECK(ls_slots_build(&block, size, order, slots, &ready, &bad) == LS_OK);
        CHECK(ready.data == data && ready.size == size && ready.slots == slots);
        CHECK(ready.buckets * 11 > set.count && (ready.buckets - 1) * 11 <= set.count);
        check_slots(&block, &ready, order, set.keys, set.count);
        check_collisions(&ready, order, set.keys, set.count);
        /* The bytes of a mapped file may change at any time: here after each answer. */
        for (size_t n = 0; n < 50; n++) {
            damage_in_place(data, size);
            get_anything(&ready, order);
            read_anywhere(&ready);
            for (size_t i = 0; i < 20 && i < set.count; i++) {
                ls_slice key = set.keys[below(set.count)], value = {NULL, 0};
                if (ls_ready_get(&ready, order, key, ls_hash(key), &value) == LS_OK)
                    CHECK(value.data == NULL || (size_t)(value.data - data) + value.size <= size);
            }
        }
        free(values);
        free(slots);
        free(data);
        free_keys(&set);
    }
}

/* Keys whose hashes pick one bucket: they fill it, and those behind it, and behind the last one those
 * at the beginning. Values are long, so that few bits of the hash are left in a slot. */
static void test_full_buckets(void) {
    enum { MOST = 120, VALUE = 40000 };
    static uint8_t filler[VALUE + 10];
    static const size_t sizes[] = {1, 2, 15, 16, 17, 32, 33, 48, 100};
    for (size_t round = 0; round < 2 * sizeof sizes / sizeof *sizes; round++) {
        size_t crowded = sizes[round / 2], count = crowded + below(20), size;
        int long_values = crowded <= 33; /* these also agree in the bits that a slot has */
        uint32_t buckets = ls_slots_buckets((uint32_t)count);
        uint32_t wanted = round % 2 ? buckets - 1 : (uint32_t)below(buckets), mask = 1;
        uint8_t bytes[MOST][8];
        ls_slice keys[MOST], values[MOST];
        size_t value_size = long_values ? VALUE : 10, records = count * (value_size + 22);
        while (mask < records)
            mask = 2 * mask + 1;
        uint64_t number = any();
        for (size_t i = 0; i < count; i++) {
            uint64_t hash;
            uint32_t mark = i % 2 ? ~mask : 0; /* all ones: what an empty slot has there */
            do {
                ls_store64(bytes[i], number++);
                keys[i] = (ls_slice){bytes[i], 8};
                hash = ls_hash(keys[i]);
            } while (i < crowded && (((hash >> 32) * buckets) >> 32 != wanted ||
                                     (long_values && ((uint32_t)hash & ~mask) != mark)));
            values[i] = (ls_slice){filler, below(2) ? value_size : value_size + below(10)};
        }
        sorted_order = LS_ORDER_BYTES;
        qsort(keys, count, sizeof *keys, compare_slices);
        uint8_t *data = make_block(keys, values, count, &size);
        ls_block block;
        ls_ready ready;
        uint32_t bad;
        CHECK(ls_block_open(&block, data, size) == LS_OK);
        uint32_t *slots = slots_room(&block);
        CHECK(ls_slots_build(&block, size, LS_ORDER_BYTES, slots, &ready, &bad) == LS_OK);
        CHECK(ready.slots == slots && ready.buckets == buckets);
        if (crowded >= LS_BUCKET)
            CHECK(ls_slots_full(slots + LS_BUCKET * (size_t)wanted));
        check_slots(&block, &ready, LS_ORDER_BYTES, keys, count);
        /* Keys that are not there, of every bucket, and of the full one. */
        for (size_t n = 0; n < 2000; n++) {
            uint8_t other[8];
            ls_store64(other, number++);
            CHECK(get(&ready, LS_ORDER_BYTES, (ls_slice){other, 8}).data == NULL);
        }
        /* The same in a batch, which looks at the first slot of a bucket by itself. */
        made_column made = make_column(keys, count, 0);
        ls_batch_item items[MOST];
        ls_slice answers[MOST] = {{NULL, 0}};
        size_t left;
        for (size_t i = 0; i < count; i++)
            items[i] = (ls_batch_item){ls_hash(keys[i]), (uint32_t)i, 0};
        CHECK(ls_batch_search(&ready, LS_ORDER_BYTES, &made.column, items, count, 0, answers, &left,
                              &bad) == LS_OK);
        for (size_t i = 0; i < count; i++) {
            ls_slice answer = get(&ready, LS_ORDER_BYTES, keys[i]);
            CHECK(answers[i].data == answer.data && answers[i].size == answer.size);
            CHECK(items[i].block == LS_SEARCHED);
        }
        CHECK(left == 0);
        free_column(&made);
        free(slots);
        free(data);
    }
}

/* The answer among repeats is where Java's halving ends: no slots, but a search. */
static void test_repeated_keys(void) {
    for (size_t round = 0; round < 150; round++) {
        ls_order order = round % 5 == 4 ? LS_ORDER_INT16 : LS_ORDER_BYTES;
        size_t wanted = round < 40 ? round : below(round < 140 ? 60 : 2000), size;
        key_set set =
            make_keys(order, round < 40 ? SHORT_KEYS : (key_kind)below(KEY_KINDS), wanted, 1);
        if (round < 40) /* a run in the middle */
            for (size_t i = 0, first = below(wanted + 1), last = below(wanted + 1); i < wanted; i++)
                set.keys[i] = slice(order ? "ab" : i < first ? "a" : i <= last ? "b" : "c");
        ls_slice *values = room(set.count * sizeof *values);
        int repeats = 0;
        for (size_t i = 0; i < set.count; i++) {
            values[i] = (ls_slice){(const uint8_t *)&values[i], sizeof values[i]}; /* all differ */
            repeats |= i > 0 && same(set.keys[i], set.keys[i - 1]);
        }
        uint8_t *data = make_block(set.keys, values, set.count, &size);
        ls_block block;
        ls_ready ready;
        uint32_t position, bad;
        int found, expected_found;
        CHECK(ls_block_open(&block, data, size) == LS_OK);
        CHECK(ls_block_validate(&block, order, 1, &bad) == LS_OK);
        uint32_t *slots = slots_room(&block);
        CHECK(ls_slots_build(&block, size, order, slots, &ready, &bad) == LS_OK);
        CHECK(ready.slots == (repeats ? NULL : slots));
        for (size_t n = 0; n < 2 * set.count + 20; n++) {
            ls_slice key, stored, value;
            key = n < 2 * set.count ? neighbour(order, set.keys[n / 2], n % 2 * below(NEIGHBOURS))
                                    : any_key(order);
            size_t expected = halve(order, set.keys, set.count, key, &expected_found);
            CHECK(ls_block_seek(&block, order, key, &position, &found) == LS_OK);
            CHECK(position == expected && found == expected_found);
            ls_slice answer = get(&ready, order, key);
            CHECK((answer.data != NULL) == found);
            if (found) {
                CHECK(ls_block_record(&block, position, &stored, &value) == LS_OK);
                CHECK(answer.data == value.data && answer.size == value.size);
            }
            if (n < 200) { /* the first among repeats */
                expected = walk(order, set.keys, set.count, key, &expected_found);
                CHECK(ls_block_lower_bound(&block, order, key, 0, &position, &found) == LS_OK);
                CHECK(position == expected && found == expected_found);
            }
            free((void *)key.data);
        }
        for (size_t n = 0; n < 20; n++) { /* a mapped file changes */
            damage_in_place(data, size);
            get_anything(&ready, order);
        }
        free(values);
        free(slots);
        free(data);
        free_keys(&set);
    }
}

/* A fault in one record is found whatever came before it, and told of. */
static void test_malformed_slots(void) {
    static const struct {
        const char *bytes;
        size_t size;
        ls_order order;
        ls_status status;
        uint32_t bad;
    } cases[] = {
        {"\1a\0\1b\0\1c\0\3\0\0\0\0", 14, LS_ORDER_BYTES, LS_OK, 2},
        {"\1a\0\1b\0\1c\1\3\0\0\0\0", 14, LS_ORDER_BYTES, LS_BAD_RECORD, 2},
        {"\1a\0\1a\0\1c\1\3\0\0\0\0", 14, LS_ORDER_BYTES, LS_BAD_RECORD, 2}, /* behind a repeat */
        {"\1a\0\3b\0\1c\0\3\0\0\0\0", 14, LS_ORDER_BYTES, LS_TRUNCATED, 1},
        {"\1a\0\1b\0\1c\0\3\0\0\0\0", 14, LS_ORDER_INT8, LS_OK, 2},
        {"\1a\0\1b\0\0\1c\3\0\0\0\0", 14, LS_ORDER_INT8, LS_BAD_KEY, 2},
        {"\1a\0\1b\0\1c\0\3\0\0\0\0", 14, LS_ORDER_INT32, LS_BAD_KEY, 0},
        {"\0\0\1a\0\0\0\0\0\2\0\0\0\2\0\0\0\1", 18, LS_ORDER_BYTES, LS_OK, 1},
        {"\0\0\1a\0\0\0\0\0\6\0\0\0\2\0\0\0\1", 18, LS_ORDER_BYTES, LS_BAD_POSITION, 0},
    };
    for (size_t n = 0; n < sizeof cases / sizeof *cases; n++) {
        size_t size = cases[n].size;
        uint8_t *data = copy(cases[n].bytes, size);
        ls_block block;
        ls_ready ready;
        uint32_t bad = 99;
        CHECK(ls_block_open(&block, data, size) == LS_OK);
        uint32_t *slots = slots_room(&block);
        ls_status status = ls_slots_build(&block, size, cases[n].order, slots, &ready, &bad);
        if (status != cases[n].status || bad != cases[n].bad)
            fprintf(stderr, "case %zu: status %d of record %u\n", n, (int)status, (unsigned)bad);
        CHECK(status == cases[n].status && bad == cases[n].bad);
        damage(data, size);
        free(slots);
        free(data);
    }
}

/* ---- ls_fences.h */

/* The second of two passes, into arrays of exactly the sizes that the first one counted. */
static ls_status fill_fences(ls_fences *fences) {
    size_t nodes = fences->node_count, count = fences->fence_count, starts = fences->start_count;
    fences->nodes = room(nodes * sizeof *fences->nodes);
    fences->fences = room(count * sizeof *fences->fences);
    fences->starts = room(starts * sizeof *fences->starts);
    memset(fences->fences, 0xff, count * sizeof *fences->fences);
    ls_status status = ls_fences_build(fences);
    if (status != LS_OK)
        return status;
    CHECK(fences->node_count <= nodes && fences->fence_count <= count);
    CHECK(fences->start_count <= starts);
    return LS_OK;
}

static void make_fences(ls_fences *fences, const ls_block *index, ls_order order) {
    *fences = (ls_fences){.index = index, .order = order};
    CHECK(ls_fences_build(fences) == LS_OK);
    size_t nodes = fences->node_count, count = fences->fence_count, starts = fences->start_count;
    CHECK(fill_fences(fences) == LS_OK);
    CHECK(fences->node_count == nodes && fences->fence_count == count);
    CHECK(fences->start_count == starts);
    for (size_t i = 0; i < count; i++) /* each has been filled */
        CHECK(fences->fences[i].key <= index->count);
}

static void free_fences(ls_fences *fences) {
    free(fences->nodes);
    free(fences->fences);
    free(fences->starts);
}

static void check_route(const ls_fences *fences, const ls_slice *keys, size_t count, ls_slice key) {
    uint32_t block = 99999;
    int found;
    CHECK(ls_fences_route(fences, key, &block) == LS_OK);
    CHECK(block <= count);
    /* The first that is not smaller, and among repeats the one that Java's halving meets. */
    CHECK(block == count || ls_compare(fences->order, keys[block], key) >= 0);
    CHECK(block == 0 || fences->repeats || ls_compare(fences->order, keys[block - 1], key) < 0);
    if (fences->repeats)
        CHECK(block == halve(fences->order, keys, count, key, &found));
    else if (count < 60)
        CHECK(block == walk(fences->order, keys, count, key, &found));
}

static void check_routes(const ls_fences *fences, const ls_slice *keys, size_t count) {
    for (size_t i = 0; i < count; i++)
        for (size_t which = 0; which < NEIGHBOURS; which++) {
            ls_slice key = neighbour(fences->order, keys[i], which);
            check_route(fences, keys, count, key);
            free((void *)key.data);
        }
    for (size_t n = 0; n < 300; n++) {
        ls_slice key = any_key(fences->order);
        check_route(fences, keys, count, key);
        free((void *)key.data);
    }
    uint8_t ends[32];
    memset(ends, 0xff, sizeof ends);
    for (size_t size = 0; size <= sizeof ends; size++) {
        ls_slice key = {copy(ends, size), size};
        if (ls_check_key(fences->order, key) == LS_OK)
            check_route(fences, keys, count, key);
        free((void *)key.data);
    }
}

/* Values of an index are handles: short, and of no interest here. */
static uint8_t *make_index(const ls_slice *keys, size_t count, ls_block *index, size_t *size) {
    ls_slice *values = room(count * sizeof *values);
    for (size_t i = 0; i < count; i++)
        values[i] = (ls_slice){(const uint8_t *)"handle", below(7)};
    uint8_t *data = make_block(keys, values, count, size);
    free(values);
    CHECK(ls_block_open(index, data, *size) == LS_OK && index->count == count);
    return data;
}

static void test_fences(void) {
    static const ls_order orders[] = {LS_ORDER_INT8, LS_ORDER_INT16, LS_ORDER_INT32,
                                      LS_ORDER_INT64};
    for (size_t round = 0; round < 108; round++) {
        /* Every kind of keys and every order: few, some and many, repeated and not. */
        size_t kind = round % 9, most = round < 54 ? 12 : round < 90 ? 300 : 5001, size;
        ls_order order = kind < KEY_KINDS ? LS_ORDER_BYTES : orders[kind - KEY_KINDS];
        int repeats = round / 9 % 3 == 2;
        key_set set =
            make_keys(order, kind < KEY_KINDS ? (key_kind)kind : (key_kind)below(KEY_KINDS),
                      round >= 90 ? most - below(2000) : below(most), repeats);
        ls_block index;
        ls_fences fences;
        uint8_t *data = make_index(set.keys, set.count, &index, &size);
        make_fences(&fences, &index, order);
        int repeated = 0;
        for (size_t i = 1; i < set.count; i++)
            repeated |= same(set.keys[i], set.keys[i - 1]);
        CHECK((fences.repeats != 0) == repeated);
        check_routes(&fences, set.keys, set.count);
        free_fences(&fences);
        free(data);
        free_keys(&set);
    }
}

/* Pairs that part from all others one word later each, deeper than there are nodes. */
static void test_deep_fences(void) {
    enum { PAIRS = 90 };
    static uint8_t bytes[2 * PAIRS][8 * PAIRS + 2];
    static ls_slice keys[2 * PAIRS];
    for (size_t gap = 1; gap <= 8; gap += 7) /* words end where the pairs part, and do not */
        for (size_t i = 0; i < 2 * PAIRS; i++) {
            size_t words = PAIRS - 1 - i / 2, size = 8 * words + gap + 1;
            memset(bytes[i], 'x', size);
            bytes[i][size - 2] = 'y';
            bytes[i][size - 1] = (uint8_t)(i % 2);
            keys[i] = (ls_slice){bytes[i], size};
            if (i + 1 < 2 * PAIRS)
                continue;
            ls_block index;
            ls_fences fences;
            size_t block_size;
            uint8_t *data = make_index(keys, 2 * PAIRS, &index, &block_size);
            make_fences(&fences, &index, LS_ORDER_BYTES);
            CHECK(fences.node_count > 64);
            for (size_t n = 0; n < 2 * PAIRS; n++)
                for (size_t cut = 0; cut <= keys[n].size; cut++)
                    for (int less = -1; less <= 1; less++) {
                        uint8_t *exact = copy(bytes[n], cut);
                        if (cut > 0)
                            exact[cut - 1] = (uint8_t)(exact[cut - 1] + less);
                        check_route(&fences, keys, 2 * PAIRS, (ls_slice){exact, cut});
                        free(exact);
                    }
            free_fences(&fences);
            free(data);
        }
}

/* A few keys behind as many bytes that all share: what parts from these, anywhere, and is cut. */
static void test_shared_fences(void) {
    static const char *const ends[] = {"", "a", "ab", "ab4567890", "ab4567891", "b"};
    enum { KEYS = sizeof ends / sizeof *ends, MOST = 40 };
    for (size_t shared = 0; shared <= MOST; shared++)
        for (size_t from = 0; from < KEYS; from++) {
            uint8_t bytes[KEYS][MOST + 10];
            ls_slice keys[KEYS];
            for (size_t i = from; i < KEYS; i++) {
                memset(bytes[i], 'm', shared);
                memcpy(bytes[i] + shared, ends[i], strlen(ends[i]));
                keys[i] = (ls_slice){bytes[i], shared + strlen(ends[i])};
            }
            ls_block index;
            ls_fences fences;
            size_t size;
            uint8_t *data = make_index(keys + from, KEYS - from, &index, &size);
            make_fences(&fences, &index, LS_ORDER_BYTES);
            for (size_t i = from; i < KEYS; i++)
                for (size_t at = 0; at < keys[i].size; at++)
                    for (int less = -1; less <= 1; less++)
                        for (size_t cut = at + 1; cut <= keys[i].size; cut += 7) {
                            uint8_t *exact = copy(bytes[i], cut);
                            exact[at] = (uint8_t)(exact[at] + less);
                            check_route(&fences, keys + from, KEYS - from, (ls_slice){exact, cut});
                            free(exact);
                        }
            free_fences(&fences);
            free(data);
        }
}

/* A mapped index may change: between the two passes, and after them. */
static void test_malformed_fences(void) {
    static const ls_order orders[] = {LS_ORDER_BYTES, LS_ORDER_BYTES, LS_ORDER_BYTES,
                                      LS_ORDER_BYTES, LS_ORDER_INT8,  LS_ORDER_INT64};
    for (size_t round = 0; round < 600; round++) {
        ls_order order = orders[below(6)];
        key_set set = make_keys(order, (key_kind)below(KEY_KINDS), 1 + below(40), below(4) == 0);
        ls_block index;
        size_t size;
        uint8_t *data = make_index(set.keys, set.count, &index, &size);
        ls_fences fences = {.index = &index, .order = order};
        CHECK(ls_fences_build(&fences) == LS_OK);
        if (round % 3 == 0) {
            damage_in_place(data, size);
        } else if (round % 3 == 1) { /* another index that is right, of any shape, in its place */
            key_set other = make_keys(order, (key_kind)below(KEY_KINDS), 4 * set.count, 0);
            size_t other_size;
            ls_block opened;
            uint8_t *bytes =
                make_index(other.keys, other.count < set.count ? other.count : set.count, &opened,
                           &other_size);
            memcpy(data, bytes, other_size < size ? other_size : size);
            free(bytes);
            free_keys(&other);
        }
        if (fill_fences(&fences) == LS_OK)
            for (size_t n = 0; n < 10; n++) {
                damage_in_place(data, size);
                for (size_t i = 0; i < 20; i++) {
                    uint32_t block = 99999;
                    ls_slice key =
                        below(4) ? neighbour(order, set.keys[below(set.count)], below(NEIGHBOURS))
                                 : any_key(order);
                    if (ls_fences_route(&fences, key, &block) == LS_OK)
                        CHECK(block <= set.count);
                    free((void *)key.data);
                }
            }
        free_fences(&fences);
        free(data);
        free_keys(&set);
    }
}

/* Changes that chance would not bring about. */
static void test_changed_fences(void) {
    enum { SHARED = 100, SIZE = 17 };
    /* The key that says what its node shares is now empty, at the end of the records. */
    uint8_t bytes[2][SHARED + 1];
    ls_slice keys[8], key, value;
    const ls_slice values[] = {slice("a"), slice("bc")};
    for (size_t i = 0; i < 2; i++) {
        memset(bytes[i], 'm', SHARED);
        bytes[i][SHARED] = (uint8_t)i;
        keys[i] = (ls_slice){bytes[i], SHARED + 1};
    }
    size_t size;
    uint8_t *data = make_block(keys, values, 2, &size);
    ls_block index;
    ls_fences fences;
    uint32_t block;
    CHECK(ls_block_open(&index, data, size) == LS_OK);
    make_fences(&fences, &index, LS_ORDER_BYTES);
    memset(data + index.records_size - 2, 0, 2);
    ls_store32(data + index.records_size, (uint32_t)index.records_size - 2);
    ls_store32(data + index.records_size + 4, (uint32_t)index.records_size);
    CHECK(ls_fences_route(&fences, keys[0], &block) == LS_BAD_ORDER);
    free_fences(&fences);
    free(data);

    /* The second pass meets another index than the first. */
    static const struct {
        const char *first, *second; /* 16 times the first letter of each pair, and the second */
        ls_status status;
    } changes[] = {
        {"axbxcxdx", "axbxcxdx", LS_OK},
        {"axbxcxdx", "bxbxcxcx", LS_BAD_ORDER}, /* more nodes */
        {"axbxcxdxexfxgxhx", "axaxaxaxaxaxaxhx", LS_BAD_ORDER}, /* these, but fewer fences */
        {"axbxcxdx", "axaybxby", LS_BAD_ORDER}, /* more fences */
        {"axbxcxdxdy", "axbxcxdxex", LS_BAD_ORDER}, /* more starts, but fewer of the others */
        {"axbxcxdx", "axcxbxdx", LS_BAD_ORDER}, /* not in order */
        {"axaybxby", "axbxcxdx", LS_OK}, /* less of all */
    };
    for (size_t n = 0; n < sizeof changes / sizeof *changes; n++) {
        size_t count = strlen(changes[n].first) / 2;
        uint8_t letters[8][SIZE];
        for (size_t i = 0; i < count; i++) {
            memset(letters[i], changes[n].first[2 * i], SIZE - 1);
            letters[i][SIZE - 1] = (uint8_t)changes[n].first[2 * i + 1];
            keys[i] = (ls_slice){letters[i], SIZE};
        }
        data = make_index(keys, count, &index, &size);
        fences = (ls_fences){.index = &index, .order = LS_ORDER_BYTES};
        CHECK(ls_fences_build(&fences) == LS_OK);
        for (uint32_t i = 0; i < count; i++) {
            CHECK(ls_block_record(&index, i, &key, &value) == LS_OK);
            memset((uint8_t *)key.data, changes[n].second[2 * i], SIZE - 1);
            ((uint8_t *)key.data)[SIZE - 1] = (uint8_t)changes[n].second[2 * i + 1];
        }
        ls_status status = fill_fences(&fences);
        if (status != changes[n].status)
            fprintf(stderr, "change %zu: status %d\n", n, (int)status);
        CHECK(status == changes[n].status);
        free_fences(&fences);
        free(data);
    }

    /* An integer of 14 bytes. */
    for (int late = 0; late < 2; late++) {
        const ls_slice number = slice("12345678"), handle = slice("handle");
        data = make_block(&number, &handle, 1, &size);
        CHECK(ls_block_open(&index, data, size) == LS_OK);
        fences = (ls_fences){.index = &index, .order = LS_ORDER_INT64};
        CHECK(ls_fences_build(&fences) == LS_OK);
        if (late)
            CHECK(fill_fences(&fences) == LS_OK);
        data[0] = 14;
        data[15] = 0;
        if (late)
            CHECK(ls_fences_route(&fences, number, &block) == LS_BAD_KEY);
        else
            CHECK(fill_fences(&fences) == LS_BAD_KEY);
        free_fences(&fences);
        free(data);
    }
}

/* ---- ls_batch.h: a file of small blocks against a walk over all records */

typedef struct {
    ls_order order;
    int repeats;
    key_set set;
    ls_slice *values;
    size_t blocks;
    size_t *starts; /* the first record of each block, and the number of records */
    ls_slice *lasts; /* the last key of each */
    uint8_t **stored; /* the bytes of each */
    size_t *sizes;
    uint8_t *index_data;
    ls_block index;
    ls_fences fences;
    ls_ready *ready; /* each block that is ready has a copy of its bytes, and slots */
    uint32_t **slots;
    uint32_t *pins;
    uint8_t *used;
} made_file;

static made_file make_file(ls_order order, key_kind kind, size_t wanted, int repeats) {
    made_file file = {.order = order, .repeats = repeats};
    file.set = make_keys(order, kind, wanted, repeats);
    size_t count = file.set.count, size, most = 1 + below(30);
    file.values = room(count * sizeof *file.values);
    file.starts = room((count + 1) * sizeof *file.starts);
    file.lasts = room(count * sizeof *file.lasts);
    file.stored = room(count * sizeof *file.stored);
    file.sizes = room(count * sizeof *file.sizes);
    for (size_t i = 0; i < count; i++) {
        static uint8_t text[200];
        text[below(sizeof text)] = (uint8_t)any();
        size_t value = below(8) == 0 ? below(150) : below(2) ? 32 : below(40);
        file.values[i] = (ls_slice){copy(text + below(50), value), value};
    }
    for (size_t start = 0, end; start < count; start = end) {
        end = start + 1 + below(most) < count ? start + 1 + below(most) : count;
        end = end < count ? end : count;
        file.starts[file.blocks] = start;
        file.lasts[file.blocks] = file.set.keys[end - 1];
        file.stored[file.blocks] = make_block(file.set.keys + start, file.values + start,
                                              end - start, &file.sizes[file.blocks]);
        file.blocks++;
    }
    file.starts[file.blocks] = count;
    file.index_data = make_index(file.lasts, file.blocks, &file.index, &size);
    file.ready = calloc(file.blocks + 1, sizeof *file.ready);
    file.slots = calloc(file.blocks + 1, sizeof *file.slots);
    file.pins = calloc(file.blocks + 1, sizeof *file.pins);
    file.used = calloc(file.blocks + 1, 1);
    return file;
}

static void make_ready(made_file *file, size_t number) {
    uint8_t *data = copy(file->stored[number], file->sizes[number]);
    ls_block block;
    ls_ready ready;
    uint32_t bad;
    CHECK(ls_ready_data(&file->ready[number]) == NULL);
    CHECK(ls_block_open(&block, data, file->sizes[number]) == LS_OK);
    file->slots[number] = slots_room(&block);
    CHECK(ls_slots_build(&block, file->sizes[number], file->order, file->slots[number], &ready,
                         &bad) == LS_OK);
    ready.data = NULL;
    file->ready[number] = ready;
    ls_ready_publish(&file->ready[number], data);
}

static void let_go(made_file *file, size_t number) {
    const uint8_t *data = ls_ready_data(&file->ready[number]);
    ls_ready_publish(&file->ready[number], NULL);
    free((void *)data);
    free(file->slots[number]);
    file->slots[number] = NULL;
}

static void free_file(made_file *file) {
    for (size_t i = 0; i < file->blocks; i++) {
        let_go(file, i);
        free(file->stored[i]);
    }
    for (size_t i = 0; i < file->set.count; i++)
        free((void *)file->values[i].data);
    free(file->values);
    free(file->starts);
    free(file->lasts);
    free(file->stored);
    free(file->sizes);
    free(file->index_data);
    free_fences(&file->fences);
    free(file->ready);
    free(file->slots);
    free(file->pins);
    free(file->used);
    free_keys(&file->set);
}

/* The record that answers a key; the number of records if there is none. */
static size_t answer_of(const made_file *file, ls_slice key) {
    const ls_slice *keys = file->set.keys;
    int found;
    if (!file->repeats) {
        size_t at = walk(file->order, keys, file->set.count, key, &found);
        return found ? at : file->set.count;
    }
    size_t block = halve(file->order, file->lasts, file->blocks, key, &found);
    if (block == file->blocks)
        return file->set.count;
    size_t from = file->starts[block], to = file->starts[block + 1];
    size_t at = from + halve(file->order, keys + from, to - from, key, &found);
    return found ? at : file->set.count;
}

/* Each item is one user of its block: nobody else is there. */
static void check_pins(const made_file *file, const ls_batch_item *items, size_t count) {
    uint32_t *pins = calloc(file->blocks + 1, sizeof *pins);
    for (size_t i = 0; i < count; i++)
        pins[items[i].block & ~LS_SEARCHED]++;
    for (size_t i = 0; i < file->blocks; i++)
        CHECK(file->pins[i] == pins[i]);
    free(pins);
}

static int bit(const uint8_t *bitmap, size_t i) {
    return bitmap[i >> 3] >> (i & 7) & 1;
}

/* Searches items, making blocks ready a few at a time. Where they are pinned, what has been found is
 * staged now and then, and blocks that nobody has pinned go. Returns the arenas. */
static size_t search_piece(made_file *file, const ls_column *keys, ls_batch_item *items,
                           size_t *count, size_t first, ls_slice *answers, int pinned,
                           uint8_t **arenas) {
    size_t arena_count = 0;
    for (;;) {
        size_t left = 99999, expected = 0;
        uint32_t bad = 99999;
        CHECK(ls_batch_search(file->ready, file->order, keys, items, *count, first, answers, &left,
                              &bad) == LS_OK);
        CHECK(bad == 99999);
        uint8_t *missing = calloc(file->blocks / 8 + 1, 1), *wanted = calloc(file->blocks + 1, 1);
        for (size_t i = 0; i < *count; i++) {
            if (items[i].block & LS_SEARCHED)
                continue;
            CHECK(file->ready[items[i].block].data == NULL);
            wanted[items[i].block] = 1;
            expected++;
        }
        CHECK(left == expected);
        size_t lucky = below(file->blocks + 1); /* another thread has made it ready since */
        if (wanted[lucky]) {
            make_ready(file, lucky);
            wanted[lucky] = 0;
        }
        ls_batch_missing(file->ready, items, *count, missing);
        for (size_t i = 0; i < file->blocks; i++)
            CHECK(bit(missing, i) == wanted[i]);
        if (left > 0 && pinned && below(2)) {
            size_t bytes = 0, searched = *count - left;
            for (size_t i = 0; i < *count; i++)
                if (items[i].block & LS_SEARCHED)
                    bytes += answers[items[i].index - first].size;
            CHECK(ls_batch_stage_size(items, *count, first, answers) == bytes);
            arenas[arena_count] = room(bytes);
            ls_batch_stage(items, *count, first, answers, arenas[arena_count]);
            arena_count++;
            *count = ls_batch_drop_searched(file->pins, items, *count);
            CHECK(*count == left && searched + left >= *count);
            check_pins(file, items, *count);
            for (size_t i = 0; i < file->blocks; i++)
                if (file->pins[i] == 0 && file->ready[i].data != NULL && below(4))
                    let_go(file, i);
        } else if (left > 0 && !pinned && below(2)) {
            *count = ls_batch_drop_searched(NULL, items, *count);
            CHECK(*count == left);
        }
        size_t some = 1 + below(4);
        for (size_t i = 0; i < file->blocks && some > 0; i++)
            if (wanted[i] && (below(2) || left <= 2)) {
                make_ready(file, i);
                some--;
            }
        free(missing);
        free(wanted);
        if (left == 0)
            return arena_count;
    }
}

/* Answers keys [start, end) of a column, with answers so far in `ends`, `validity` and *data. */
static size_t answer_piece(made_file *file, const ls_filter *filter, const ls_column *keys,
                           size_t start, size_t end, int64_t *ends, uint8_t *validity,
                           uint8_t *found, uint8_t **data) {
    ls_batch_item *items = room((end - start) * sizeof *items);
    ls_slice *answers = calloc(end - start + 1, sizeof *answers), key;
    size_t count = 99999, bad = 99999, expected = 0, arena_count;
    uint8_t *arenas[10000];
    int pinned = (int)below(2);
    CHECK(ls_batch_filter(filter, file->order, keys, start, end, items, &count, &bad) == LS_OK);
    CHECK(bad == 99999);
    for (size_t i = start; i < end; i++) {
        CHECK(ls_column_get(keys, i, &key) == LS_OK);
        if (!ls_column_is_valid(keys, i) || !ls_filter_test(filter, key))
            continue;
        CHECK(expected < count && items[expected].index == i);
        CHECK(items[expected].hash == ls_hash(key));
        expected++;
    }
    CHECK(expected == count);

    ls_batch_item *before = copy(items, count * sizeof *items);
    CHECK(ls_batch_route(&file->fences, file->ready, keys, items, &count) == LS_OK);
    size_t kept = 0;
    for (size_t i = 0; i < expected; i++) {
        uint32_t block;
        CHECK(ls_column_get(keys, before[i].index, &key) == LS_OK);
        CHECK(ls_fences_route(&file->fences, key, &block) == LS_OK);
        if (block == file->blocks)
            continue;
        CHECK(kept < count && items[kept].index == before[i].index);
        CHECK(items[kept].hash == before[i].hash && items[kept].block == block);
        kept++;
    }
    CHECK(kept == count);
    free(before);

    if (pinned) {
        memset(file->used, 0, file->blocks);
        ls_batch_pin(file->pins, file->used, items, count);
        check_pins(file, items, count);
        for (size_t i = 0; i < file->blocks; i++)
            CHECK(file->used[i] == (file->pins[i] > 0));
    }
    arena_count = search_piece(file, keys, items, &count, start, answers, pinned, arenas);

    size_t size = (size_t)ends[start] + ls_batch_size(answers, end - start);
    *data = realloc(*data, size + (size == 0));
    size_t missing =
        ls_batch_gather(answers, end - start, ends + start, validity + start / 8, *data);
    CHECK(ls_batch_found(answers, end - start, found + start / 8) == missing);
    CHECK((size_t)ends[end] == size);
    if (pinned) {
        check_pins(file, items, count);
        ls_batch_unpin(file->pins, items, count);
    }
    check_pins(file, items, 0);
    while (arena_count > 0)
        free(arenas[--arena_count]);
    free(items);
    free(answers);
    return missing;
}

static void check_batch(made_file *file, key_kind kind) {
    size_t asked_count = below(below(4) ? 100 : 700), records = file->set.count;
    int fixed = file->order != LS_ORDER_BYTES || kind == COUNTED_KEYS;
    int offset_width = fixed && below(2) ? 0 : below(2) ? 4 : 8;
    ls_slice *asked = room(asked_count * sizeof *asked);
    for (size_t i = 0; i < asked_count; i++) {
        /* Known ones, some of them twice, and others. */
        do {
            asked[i] = records > 0 && below(3)
                           ? neighbour(file->order, file->set.keys[below(records)],
                                       below(2) ? 0 : below(NEIGHBOURS))
                           : any_key(file->order);
            if (offset_width > 0 || file->order != LS_ORDER_BYTES || asked[i].size == 8)
                break;
            free((void *)asked[i].data);
        } while (1);
    }
    made_column made = make_column(asked, asked_count, offset_width);
    if (below(2)) {
        made.column.validity_offset = below(20);
        size_t bytes = (made.column.validity_offset + asked_count + 7) / 8;
        made.column.validity = made.validity = room(bytes);
        for (size_t i = 0; i < bytes; i++)
            ((uint8_t *)made.validity)[i] = (uint8_t)(any() | any());
    }

    /* A filter that lets all keys pass, or those of the file and some others. */
    uint8_t *bits = calloc(64, 1);
    ls_filter filter = {.kind = (ls_filter_kind)below(3), .bits = bits, .size = 64, .hashes = 3};
    for (size_t i = 0; i < records; i++) {
        if (filter.kind == LS_FILTER_SPLIT_BLOCK)
            ls_split_block_add(bits, 2, ls_hash(file->set.keys[i]));
        else if (filter.kind == LS_FILTER_PAIMON)
            ls_paimon_filter_add(bits, 64, 3, ls_paimon_hash(file->set.keys[i]));
    }

    size_t bitmap = (asked_count + 7) / 8, missing = 0, expected_missing = 0;
    int64_t *ends = room(8 * (asked_count + 1));
    uint8_t *validity = calloc(bitmap, 1), *found = calloc(bitmap, 1), *data = NULL;
    ends[0] = 0;
    for (size_t start = 0, end; start < asked_count; start = end) {
        end = start + 8 * (1 + below(below(2) ? 8 : 80)); /* of whole bytes of the bitmaps */
        end = end < asked_count ? end : asked_count;
        missing +=
            answer_piece(file, &filter, &made.column, start, end, ends, validity, found, &data);
        for (size_t i = 0; i < file->blocks; i++)
            if (file->ready[i].data != NULL && below(4) == 0)
                let_go(file, i);
    }
    for (size_t i = 0; i < asked_count; i++) {
        size_t at = ls_column_is_valid(&made.column, i) ? answer_of(file, asked[i]) : records;
        CHECK(bit(validity, i) == (at < records));
        CHECK(bit(found, i) == (at < records));
        ls_slice got = {data + ends[i], (size_t)(ends[i + 1] - ends[i])};
        CHECK(at < records ? same(got, file->values[at]) : got.size == 0);
        expected_missing += at == records;
        free((void *)asked[i].data);
    }
    CHECK(missing == expected_missing);
    free(asked);
    free(bits);
    free(ends);
    free(validity);
    free(found);
    free(data);
    free_column(&made);
}

static void test_batches(void) {
    static const ls_order orders[] = {LS_ORDER_BYTES, LS_ORDER_BYTES, LS_ORDER_BYTES,
                                      LS_ORDER_INT8,  LS_ORDER_INT32, LS_ORDER_INT64};
    for (size_t round = 0; round < 90; round++) {
        ls_order order = orders[round % 6];
        key_kind kind = (key_kind)below(KEY_KINDS);
        made_file file = make_file(order, kind, below(below(2) ? 60 : 500), below(4) == 0);
        make_fences(&file.fences, &file.index, order);
        for (size_t n = 0; n < 3; n++) /* the first one of which finds nothing ready */
            check_batch(&file, kind);
        free_file(&file);
    }
}

static void test_batch_failures(void) {
    /* Keys that the order does not know are refused, nulls are not looked at. */
    const ls_slice asked[] = {slice("abcd"), slice("abc"), slice("abcd")};
    ls_batch_item items[3];
    ls_filter filter = {.kind = LS_FILTER_NONE};
    size_t count, bad = 99;
    made_column made = make_column(asked, 3, 4);
    CHECK(ls_batch_filter(&filter, LS_ORDER_INT32, &made.column, 0, 3, items, &count, &bad) ==
          LS_BAD_KEY);
    CHECK(bad == 1);
    made.column.validity = made.validity = copy("\x05", 1);
    CHECK(ls_batch_filter(&filter, LS_ORDER_INT32, &made.column, 0, 3, items, &count, &bad) ==
          LS_OK);
    CHECK(count == 2 && items[0].index == 0 && items[1].index == 2);
    /* Offsets that leave the data are, under a null too: what is there is hashed. */
    ((int32_t *)made.offsets)[2] = -1;
    CHECK(ls_batch_filter(&filter, LS_ORDER_BYTES, &made.column, 0, 3, items, &count, &bad) ==
          LS_BAD_COLUMN);
    CHECK(bad == 1);
    free_column(&made);

    /* A block that has changed since it was ready: which one is told. */
    made_file file = make_file(LS_ORDER_BYTES, COUNTED_KEYS, 200, 0);
    make_fences(&file.fences, &file.index, LS_ORDER_BYTES);
    for (size_t i = 0; i < file.blocks; i++)
        make_ready(&file, i);
    made = make_column(file.set.keys, file.set.count, 0);
    ls_batch_item *all = room(file.set.count * sizeof *all);
    ls_slice *answers = calloc(file.set.count, sizeof *answers);
    size_t broken = below(file.blocks), left;
    uint32_t number = 99999;
    ls_block block;
    ls_slice key, value;
    const uint8_t *data = ls_ready_data(&file.ready[broken]);
    CHECK(ls_block_open(&block, data, file.sizes[broken]) == LS_OK);
    CHECK(ls_block_record(&block, block.count - 1, &key, &value) == LS_OK);
    memset((uint8_t *)key.data + key.size, 0x80,
           (size_t)(data + file.sizes[broken] - key.data) - 8);
    CHECK(ls_batch_filter(&filter, LS_ORDER_BYTES, &made.column, 0, file.set.count, all, &count,
                          &bad) == LS_OK);
    CHECK(ls_batch_route(&file.fences, file.ready, &made.column, all, &count) == LS_OK);
    CHECK(count == file.set.count);
    ls_status status = ls_batch_search(file.ready, LS_ORDER_BYTES, &made.column, all, count, 0,
                                       answers, &left, &number);
    CHECK((status == LS_BAD_VARINT || status == LS_TRUNCATED) && number == broken);
    free(all);
    free(answers);
    free_column(&made);
    free_file(&file);
}

/* A cache that looks whether a block is in use takes it away for a moment, and puts it back because
 * of the pins, again and again. */
typedef struct {
    made_file *file;
    int done;
} taker;

static void *take_away(void *argument) {
    taker *cache = argument;
    while (!__atomic_load_n(&cache->done, __ATOMIC_RELAXED))
        for (size_t i = 0; i < cache->file->blocks; i++) {
            const uint8_t *data = ls_ready_data(&cache->file->ready[i]);
            ls_ready_publish(&cache->file->ready[i], NULL);
            if (__atomic_load_n(&cache->file->pins[i], __ATOMIC_SEQ_CST) != 0)
                ls_ready_publish(&cache->file->ready[i], data);
        }
    return NULL;
}

/* A pinned block may seem not to be ready, but what has been seen of it stays. */
static void test_batches_beside_a_cache(void) {
    made_file file = make_file(LS_ORDER_BYTES, COUNTED_KEYS, 300, 0);
    make_fences(&file.fences, &file.index, LS_ORDER_BYTES);
    made_column made = make_column(file.set.keys, file.set.count, 0);
    size_t count = 0, bad;
    ls_batch_item *routed = room(file.set.count * sizeof *routed);
    ls_filter filter = {.kind = LS_FILTER_NONE};
    CHECK(ls_batch_filter(&filter, LS_ORDER_BYTES, &made.column, 0, file.set.count, routed, &count,
                          &bad) == LS_OK);
    CHECK(ls_batch_route(&file.fences, file.ready, &made.column, routed, &count) == LS_OK);
    CHECK(count == file.set.count);
    for (size_t i = 0; i < file.blocks; i++)
        make_ready(&file, i);
    ls_batch_pin(file.pins, file.used, routed, count);
    taker cache = {.file = &file};
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, take_away, &cache) == 0);
    for (size_t round = 0; round < 500; round++) {
        ls_batch_item *items = copy(routed, count * sizeof *items);
        ls_slice *answers = calloc(count, sizeof *answers);
        size_t left = count;
        uint32_t block;
        while (left > 0)
            CHECK(ls_batch_search(file.ready, LS_ORDER_BYTES, &made.column, items, count, 0,
                                  answers, &left, &block) == LS_OK);
        for (size_t i = 0; i < count; i++)
            CHECK(answers[i].data != NULL && same(answers[i], file.values[i]));
        free(items);
        free(answers);
    }
    __atomic_store_n(&cache.done, 1, __ATOMIC_RELAXED);
    CHECK(pthread_join(thread, NULL) == 0);
    ls_batch_unpin(file.pins, routed, count);
    check_pins(&file, NULL, 0);
    free(routed);
    free_column(&made);
    free_file(&file);
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
    source.bitmap_size = 1;
    source.last = 5;
    size_t bad = 9;
    uint64_t nulls = 9;
    int64_t offsets[2];
    if (ls_rows_check(&source, &nulls, &bad) == LS_OK) {
        uint8_t bitmap = 0, number[4];
        CHECK(nulls == data[0]);
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
        {{1, 0, 0}, 4, "\0\0\0"}, /* a count, then ends and elements */
        {{1, 0, 0}, 11, "\1\0\0\0\3\0\0\0abc"}, /* one element that varies */
        {{1, 0, 3}, 4, "\0\0\0"}, /* a count, then elements of 3 bytes */
        {{1, 0, 3}, 7, "\1\0\0\0abc"}, /* one of them */
        {{0, 1, 0}, 7, "\3\0\0\0abc"}, /* no count: always one that varies */
        {{0, 2, 3}, 6, "abcdef"}, /* always two of 3 bytes */
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

/* ---- ls_hadoop_bloom.h */

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

static void test_hadoop_blooms(void) {
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
        CHECK(ls_hadoop_bloom_test(&again, data, &made.column, 0, 150, maybe, &bad) == LS_OK);
        for (size_t i = 0; i < 150; i++) {
            uint8_t alone;
            CHECK(i >= 100 || maybe[i] == 1);
            CHECK(ls_hadoop_bloom_test(&again, data, &made.column, i, i + 1, &alone, &bad) ==
                      LS_OK &&
                  alone == maybe[i]);
        }
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
                (void)ls_hadoop_bloom_test(&again, data, &made.column, 0, 150, maybe, &bad);
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
    CHECK(ls_hadoop_bloom_test(&bloom, data, &made.column, 0, 3, maybe, &bad) == LS_BAD_KEY);
    made.column.validity = &validity;
    CHECK(ls_hadoop_bloom_test(&bloom, data, &made.column, 0, 3, maybe, &bad) == LS_NULL);
    ((int64_t *)made.offsets)[3] = 99;
    CHECK(ls_hadoop_bloom_test(&bloom, data, &made.column, 2, 3, maybe, &bad) == LS_BAD_COLUMN);
    CHECK(bad == 2);
    free_column(&made);

    /* Two rows of three keys: then row 0, and from there in turn. */
    static const uint32_t rows[] = {0, 0, 0, 1, 1, 1, 0, 0, 1, 0, 1};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        CHECK(ls_hadoop_bloom_row_of(i, 3, 2) == rows[i]);
}

/* ---- ls_key_ranges.h */

static int compare_items(const void *a, const void *b) {
    ls_slice one = *(const ls_slice *)a, other = *(const ls_slice *)b;
    return ls_compare(LS_ORDER_BYTES, one, other);
}

static void test_key_ranges(void) {
    for (unsigned round = 0; round < 200; round++) {
        size_t count = below(40), asked = below(60);
        static const char *const texts[] = {"", "a", "ab", "abc", "b", "ba", "bb", "c", "ca", "d"};
        ls_slice keys[60], least[40], greatest[40];
        uint32_t order[60], places[40], *last = room(count * sizeof *last);
        ls_key_run *list = room(count * sizeof *list), *tree = room(count * sizeof *tree);
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

/* ---- ls_md5.h */

static void test_md5(void) {
    uint8_t digest[16];
    /* RFC 1321, A.5 */
    ls_md5(slice(""), digest);
    CHECK(memcmp(digest, "\xd4\x1d\x8c\xd9\x8f\x00\xb2\x04\xe9\x80\x09\x98\xec\xf8\x42\x7e", 16) ==
          0);
    ls_md5(slice("message digest"), digest);
    CHECK(memcmp(digest, "\xf9\x6b\x69\x7d\x7c\xb7\x93\x8d\x52\x5a\x2f\x31\xaa\xf1\x61\xd0", 16) ==
          0);
    for (size_t size = 0; size <= 200; size++) {
        uint8_t *exact = room(size);
        memset(exact, 'x', size);
        ls_md5((ls_slice){exact, size}, digest);
        free(exact);
    }
    const ls_slice keys[] = {slice("k1"), slice("TXN-001")};
    made_column made = make_column(keys, 2, 8);
    int64_t numbers[2];
    size_t bad = 9;
    CHECK(ls_md5_numbers(&made.column, 0, 2, numbers, &bad) == LS_OK);
    CHECK(numbers[0] == -INT64_C(2824167150859503690));
    CHECK(numbers[1] == -INT64_C(2991173396776014573));
    uint8_t validity = 1;
    made.column.validity = &validity;
    CHECK(ls_md5_numbers(&made.column, 0, 2, numbers, &bad) == LS_NULL && bad == 1);
    free_column(&made);
}

/* ---- ls_key_table.h */

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

static void test_key_tables(void) {
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
        ls_key_table table = {made.column, table_slots, slots - 1};
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
        free(first);
    }
}

int main(int argc, char **argv) {
    seed = argc > 1 ? strtoull(argv[1], NULL, 10) : (uint64_t)time(NULL);
    state = seed;
    test_bytes();
    test_varints();
    test_columns();
    test_hashes();
    test_orders();
    test_block_bytes();
    test_malformed_blocks();
    test_blocks();
    test_adding_columns();
    test_adding_many();
    test_gather();
    test_filters();
    test_sort();
    test_slots();
    test_full_buckets();
    test_repeated_keys();
    test_malformed_slots();
    test_fences();
    test_deep_fences();
    test_shared_fences();
    test_malformed_fences();
    test_changed_fences();
    test_batches();
    test_batch_failures();
    test_batches_beside_a_cache();
    test_keys();
    test_rows();
    test_short_lists();
    test_short_keys();
    test_hadoop_blooms();
    test_key_ranges();
    test_md5();
    test_key_tables();
    printf("csrc: %zu checks hold, seed %llu\n", checks, (unsigned long long)seed);
    return 0;
}
