/* Tests of ls_block.h. */
#include "blocks.h"
#include "ls_block.h"
#include "made.h"
#include "tests.h"

void test_block_bytes(void) {
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
void test_malformed_blocks(void) {
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

void test_blocks(void) {
    static const ls_order orders[] = {LS_ORDER_BYTES, LS_ORDER_BYTES, LS_ORDER_INT8,
                                      LS_ORDER_INT32};
    static const uint8_t filler[300] = {42};
    for (size_t round = 0; round < 200; round++) {
        ls_order order = orders[below(4)];
        ls_slice keys[MANY], values[MANY], key, value;
        size_t count = random_keys(keys, below(MANY), (int)order), size;
        int one_size = (int)below(2);
        size_t both = below(2) ? 8 : 140; /* size of key and value, if records have one size */
        ls_block_builder builder;
        new_builder(&builder);
        for (size_t i = 0; i < count; i++) {
            values[i] = (ls_slice){filler, one_size ? both - keys[i].size : below(300)};
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
            key_offsets[0] = (int64_t)key_size + 1;
            value_offsets[0] = 0;
            CHECK(ls_block_copy(&block, from, to, reverse, key_offsets, key_bytes, key_size,
                                value_offsets, value_bytes, value_size) == LS_TRUNCATED);
            key_offsets[0] = 0;
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

/* Records of one size whose stored key sizes begin with the same two bytes, and whose values have
 * stored sizes of one byte and of two. */
void test_long_keys_of_one_size(void) {
    uint8_t *zeros = room(3 << 14);
    memset(zeros, 0, 3 << 14);
    ls_slice keys[2] = {{zeros, 2 << 14}, {zeros, 1 << 14}};
    ls_slice values[2] = {{zeros, 0}, {zeros, (1 << 14) - 1}};
    ls_block_builder builder;
    new_builder(&builder);
    for (size_t i = 0; i < 2; i++)
        CHECK(add(&builder, keys[i], values[i]) == LS_OK);
    size_t size, key_size, value_size;
    uint8_t *data = finish(&builder, &size);
    ls_block block;
    CHECK(ls_block_open(&block, data, size) == LS_OK && block.positions == NULL);
    CHECK(ls_block_sizes(&block, 0, 2, &key_size, &value_size) == LS_OK);
    CHECK(key_size == 3 << 14 && value_size == (1 << 14) - 1);
    free(data);

    /* A damaged second byte of the size of a value. */
    ls_slice short_keys[2] = {slice("a"), slice("b")}, value = {zeros, 200};
    for (size_t i = 0; i < 2; i++)
        CHECK(add(&builder, short_keys[i], value) == LS_OK);
    data = finish(&builder, &size);
    data[204 + 3] ^= 2;
    CHECK(ls_block_open(&block, data, size) == LS_OK && block.record_size == 204);
    CHECK(ls_block_sizes(&block, 0, 1, &key_size, &value_size) == LS_OK);
    CHECK(ls_block_sizes(&block, 0, 2, &key_size, &value_size) == LS_BAD_RECORD);
    free(data);
    free(zeros);
}

void test_adding_columns(void) {
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

void test_adding_many(void) {
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
