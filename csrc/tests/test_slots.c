/* Tests of ls_slots.h. */
#include "blocks.h"
#include "ls_batch.h"
#include "ls_slots.h"
#include "made.h"
#include "tests.h"

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

void test_slots(void) {
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
void test_full_buckets(void) {
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
        sort_slices(LS_ORDER_BYTES, keys, count);
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
        size_t left, wrong;
        ls_batch_files files = {&(ls_batch_file){.ready = &ready, .blocks = 1}, 1, LS_ORDER_BYTES};
        for (size_t i = 0; i < count; i++)
            items[i] = (ls_batch_item){ls_hash(keys[i]), (uint32_t)i, 0, 0};
        CHECK(ls_batch_search(&files, &made.column, items, count, 0, NULL, answers, &left,
                              &wrong) == LS_OK);
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
void test_repeated_keys(void) {
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
void test_malformed_slots(void) {
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
