/* Tests of ls_fences.h. */
#include "blocks.h"
#include "ls_fences.h"
#include "made.h"
#include "tests.h"

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

void test_fences(void) {
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
void test_deep_fences(void) {
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
void test_shared_fences(void) {
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
void test_malformed_fences(void) {
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
void test_changed_fences(void) {
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
