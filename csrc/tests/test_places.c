/* Tests of ls_places.h: a whole file in one table against a walk over all of its keys. */
#define _DEFAULT_SOURCE /* mmap */
#include <sys/mman.h>

#include "blocks.h"
#include "ls_batch.h"
#include "ls_places.h"
#include "made.h"
#include "tests.h"

typedef struct {
    ls_order order;
    key_set set;
    ls_slice *values;
    size_t blocks;
    size_t *starts; /* the first record of each block, and the number of records */
    uint8_t *data;  /* all blocks, with something between them */
    size_t size;
    uint8_t *index_data;
    ls_block index;
    ls_fences fences;
    ls_ready *ready;
    uint32_t **slots;
} stored_file;

static stored_file store(ls_order order, key_kind kind, size_t wanted, int repeats) {
    static const uint8_t filler[60] = "values of any size";
    stored_file file = {.order = order, .set = make_keys(order, kind, wanted, repeats)};
    size_t count = file.set.count, most = 1 + below(30), size;
    size_t *offsets = room((count + 1) * sizeof *offsets), *sizes = room(count * sizeof *sizes);
    uint8_t **parts = room(count * sizeof *parts);
    file.values = room(count * sizeof *file.values);
    file.starts = room((count + 1) * sizeof *file.starts);
    for (size_t i = 0; i < count; i++)
        file.values[i] = (ls_slice){filler + below(20), below(2) ? 32 : below(40)};
    for (size_t start = 0, end; start < count; start = end) {
        end = start + 1 + below(most) < count ? start + 1 + below(most) : count;
        end = end < count ? end : count;
        file.starts[file.blocks] = start;
        offsets[file.blocks] = file.size;
        parts[file.blocks] = make_block(file.set.keys + start, file.values + start, end - start,
                                        &sizes[file.blocks]);
        file.size += sizes[file.blocks++] + 5;
    }
    file.starts[file.blocks] = count;
    file.data = room(file.size);
    ls_slice *lasts = room(file.blocks * sizeof *lasts);
    ls_slice *handles = room(file.blocks * sizeof *handles);
    uint8_t (*bytes)[20] = room(file.blocks * sizeof *bytes);
    file.ready = calloc(file.blocks + 1, sizeof *file.ready);
    file.slots = calloc(file.blocks + 1, sizeof *file.slots);
    for (size_t i = 0; i < file.blocks; i++) {
        ls_block block;
        uint32_t bad;
        memcpy(file.data + offsets[i], parts[i], sizes[i]);
        memset(file.data + offsets[i] + sizes[i], 0xee, 5);
        free(parts[i]);
        lasts[i] = file.set.keys[file.starts[i + 1] - 1];
        uint8_t *end = ls_put_varint(ls_put_varint(bytes[i], offsets[i]), sizes[i]);
        handles[i] = (ls_slice){bytes[i], (size_t)(end - bytes[i])};
        CHECK(ls_block_open(&block, file.data + offsets[i], sizes[i]) == LS_OK);
        file.slots[i] = slots_room(&block);
        CHECK(ls_slots_build(&block, sizes[i], order, file.slots[i], &file.ready[i], &bad) ==
              LS_OK);
    }
    file.index_data = make_block(lasts, handles, file.blocks, &size);
    CHECK(ls_block_open(&file.index, file.index_data, size) == LS_OK);
    free(lasts);
    free(handles);
    free(bytes);
    free(offsets);
    free(sizes);
    free(parts);
    return file;
}

static void free_stored(stored_file *file) {
    for (size_t i = 0; i < file->blocks; i++)
        free(file->slots[i]);
    free(file->values);
    free(file->starts);
    free(file->data);
    free(file->index_data);
    free_fences(&file->fences);
    free(file->ready);
    free(file->slots);
    free_keys(&file->set);
}

static ls_places places_for(const uint8_t *data, uint64_t size, size_t records) {
    ls_places places = {.data = data, .size = size, .record = (uint32_t)below(300)};
    places.count = ls_places_buckets(records);
    CHECK(places.count * 8 > records && (places.count - 1) * 8 <= records);
    places.buckets = aligned_alloc(64, places.count * sizeof *places.buckets);
    if (places.buckets == NULL)
        abort();
    memset(places.buckets, 0, places.count * sizeof *places.buckets);
    return places;
}

/* Adds blocks of a file from one on, and returns what came of the first that failed. */
static ls_status add_blocks(const stored_file *file, ls_places *places, size_t from, size_t to,
                            uint64_t *records) {
    ls_status status = LS_OK;
    for (size_t i = from; i < to && status == LS_OK; i++) {
        ls_slice last, handle, before = {NULL, 0}, other;
        uint64_t offset = 0, size = 0;
        CHECK(ls_block_record(&file->index, (uint32_t)i, &last, &handle) == LS_OK);
        CHECK(i == 0 || ls_block_record(&file->index, (uint32_t)i - 1, &before, &other) == LS_OK);
        const uint8_t *p = handle.data;
        CHECK(ls_get_varint64(&p, handle.data + handle.size, &offset) == LS_OK);
        CHECK(ls_get_varint64(&p, handle.data + handle.size, &size) == LS_OK);
        status = ls_places_add(places, before, offset, size, records);
    }
    return status;
}

/* Asks for keys one by one and in a batch: they are found by their places, and those of a file that
 * has no places in its blocks. */
static void check_places(const stored_file *file, const ls_places *places) {
    uint64_t bad;
    uint32_t run;
    size_t count = 1 + below(400), bad_item, left = 0, kept = count, expected = 0;
    ls_slice *keys = room(count * sizeof *keys), *answers = calloc(count, sizeof *answers);
    size_t *at = room(count * sizeof *at);
    ls_batch_item *items = room(count * sizeof *items);
    for (size_t i = 0; i < count; i++) {
        int found;
        keys[i] = file->set.count > 0 && below(3)
                      ? neighbour(file->order, file->set.keys[below(file->set.count)],
                                  below(2) ? 0 : below(NEIGHBOURS))
                      : any_key(file->order);
        at[i] = walk(file->order, file->set.keys, file->set.count, keys[i], &found);
        if (!found)
            at[i] = file->set.count;
        items[i] = (ls_batch_item){ls_hash(keys[i]), (uint32_t)i, 0, 0};
        ls_slice value = {NULL, 7};
        CHECK(ls_places_get(places, keys[i], items[i].hash, &value, &bad) == LS_OK);
        expected += (size_t)found;
        CHECK((value.data != NULL) == found);
        CHECK(found ? same(value, file->values[at[i]]) : value.size == 7);
    }
    made_column made = make_column(keys, count, 8);
    /* Some keys are of a file like this one that has no places. */
    const ls_batch_file both[2] = {
        {.fences = &file->fences, .places = places, .blocks = (uint32_t)file->blocks},
        {.fences = &file->fences, .ready = file->ready, .blocks = (uint32_t)file->blocks}};
    const ls_batch_files files = {both, 2, file->order};
    ls_batch_counts counts[2] = {{0}};
    size_t others = 0;
    for (size_t i = 0; i < count && below(2); i += 2) {
        items[i].file = 1;
        expected -= at[i] < file->set.count;
        others++;
    }
    CHECK(ls_batch_find(&files, &made.column, items, &kept, counts, 0, NULL, answers, &bad_item,
                        &run, &bad) == LS_OK);
    CHECK(kept == others);
    CHECK(counts[0].routed == expected && counts[1].routed == 0);
    CHECK(ls_batch_route(&files, &made.column, items, &kept, counts, &bad_item) == LS_OK);
    CHECK(ls_batch_search(&files, &made.column, items, kept, 0, NULL, answers, &left, &bad_item) ==
          LS_OK);
    CHECK(left == 0);
    for (size_t i = 0; i < count; i++) {
        CHECK((answers[i].data != NULL) == (at[i] < file->set.count));
        CHECK(answers[i].data == NULL || same(answers[i], file->values[at[i]]));
        free((void *)keys[i].data);
    }
    free(keys);
    free(answers);
    free(at);
    free(items);
    free_column(&made);
}

void test_places(void) {
    static const ls_order orders[] = {LS_ORDER_BYTES, LS_ORDER_BYTES, LS_ORDER_BYTES,
                                      LS_ORDER_INT16, LS_ORDER_INT64};
    for (size_t round = 0; round < 60; round++) {
        stored_file file =
            store(orders[round % 5], (key_kind)below(KEY_KINDS), below(round < 30 ? 60 : 2000), 0);
        make_fences(&file.fences, &file.index, file.order);
        ls_places places = places_for(file.data, file.size, file.set.count);
        uint64_t bad, records = 0;
        for (size_t next = 0, end; next < file.blocks; next = end) { /* a part at a time */
            end = next + 1 + below(20) < file.blocks ? next + 1 + below(20) : file.blocks;
            end = end < file.blocks ? end : file.blocks;
            CHECK(add_blocks(&file, &places, next, end, &records) == LS_OK);
            CHECK(records == file.starts[end]);
        }
        for (size_t n = 0; n < 4; n++)
            check_places(&file, &places);
        /* The bytes of a mapped file may change at any time, also while records are added. */
        for (size_t n = 0; n < 30 && file.size > 0; n++) {
            damage_in_place(file.data, file.size);
            for (size_t i = 0; i < 20 && file.set.count > 0; i++) {
                ls_slice key = file.set.keys[below(file.set.count)], value = {NULL, 0};
                if (ls_places_get(&places, key, ls_hash(key), &value, &bad) == LS_OK &&
                    value.data != NULL)
                    CHECK((size_t)(value.data - file.data) + value.size <= file.size);
            }
            ls_places other = places_for(file.data, file.size, file.set.count);
            (void)add_blocks(&file, &other, 0, file.blocks, &records);
            free(other.buckets);
        }
        free(places.buckets);
        free_stored(&file);
    }
}

/* A key that is repeated, in a block or across two, is no matter of a table: the index decides. */
void test_places_of_repeated_keys(void) {
    size_t refused = 0;
    for (size_t round = 0; round < 100; round++) {
        stored_file file =
            store(LS_ORDER_BYTES, round % 2 ? SHORT_KEYS : ANY_KEYS, 2 + below(300), 1);
        ls_places places = places_for(file.data, file.size, file.set.count);
        uint64_t records = 0;
        int repeats = 0;
        for (size_t i = 1; i < file.set.count; i++)
            repeats |= same(file.set.keys[i], file.set.keys[i - 1]);
        ls_status status = add_blocks(&file, &places, 0, file.blocks, &records);
        CHECK(status == (repeats ? LS_REPEATED : LS_OK));
        refused += (size_t)repeats;
        free(places.buckets);
        free_stored(&file);
    }
    CHECK(refused > 0);
}

/* Keys whose hashes pick one bucket fill it and those behind it, and behind the last one the first;
 * some of them have the same mark as well. Their records lie up to the last byte that a place can
 * tell, in memory most of which is never touched. */
void test_crowded_places(void) {
    enum { MOST = 100 };
    uint64_t end = LS_PLACES_END;
    uint8_t *data =
        mmap(NULL, end, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    CHECK(data != MAP_FAILED);
    for (size_t round = 0; round < 40; round++) {
        size_t count = 1 + below(MOST), size, bad_item, kept = count;
        uint32_t run;
        uint64_t bad, records = 0;
        uint32_t buckets = ls_places_buckets(count);
        uint32_t wanted = round % 2 ? buckets - 1 : (uint32_t)below(buckets);
        uint8_t bytes[MOST][8];
        ls_slice keys[MOST], value = {(const uint8_t *)"value", 5}, answers[MOST] = {{NULL, 0}};
        ls_batch_item items[MOST];
        ls_places places = places_for(data, end, count);
        uint64_t number = any();
        for (size_t i = 0; i < count; i++) {
            uint64_t hash;
            do {
                ls_store64(bytes[i], number++);
                keys[i] = (ls_slice){bytes[i], 8};
                hash = ls_hash(keys[i]);
            } while (((hash >> 32) * buckets) >> 32 != wanted ||
                     (i < 20 && i % 2 == 0 && (uint8_t)(hash >> 16) > 1));
            uint8_t *block = make_block(&keys[i], &value, 1, &size);
            uint64_t offset = i == 0 ? end - size : any() % (end / 4096) * 4096 + 64 * (i % 60);
            offset = offset < end - size ? offset : end - size - 4096 * i;
            memcpy(data + offset, block, size);
            free(block);
            CHECK(ls_places_add(&places, (ls_slice){NULL, 0}, offset, size, &records) == LS_OK);
            items[i] = (ls_batch_item){hash, (uint32_t)i, 0, 0};
            value.data = (const uint8_t *)"value";
        }
        made_column made = make_column(keys, count, 0);
        for (size_t i = 0; i < count; i++) {
            ls_slice found = {NULL, 0};
            CHECK(ls_places_get(&places, keys[i], items[i].hash, &found, &bad) == LS_OK);
            CHECK(same(found, value));
        }
        const ls_batch_file one = {.places = &places};
        const ls_batch_files files = {&one, 1, LS_ORDER_BYTES};
        ls_batch_counts counted = {0};
        CHECK(ls_batch_find(&files, &made.column, items, &kept, &counted, 0, NULL, answers,
                            &bad_item, &run, &bad) == LS_OK);
        CHECK(kept == 0 && counted.routed == count);
        for (size_t i = 0; i < count; i++)
            CHECK(same(answers[i], value));
        for (size_t n = 0; n < 300; n++) { /* keys that are not there, of this bucket, too */
            uint8_t other[8];
            ls_slice key = {other, 8}, found = {NULL, 0};
            ls_store64(other, number++);
            CHECK(ls_places_get(&places, key, ls_hash(keys[n % count]), &found, &bad) == LS_OK);
            CHECK(ls_places_get(&places, key, ls_hash(key), &found, &bad) == LS_OK);
            CHECK(found.data == NULL);
        }
        /* One more than there is room for is refused, and the search for it ends. */
        if (round < 5) {
            ls_status status = LS_OK;
            for (size_t i = 0; i < 13 * (size_t)buckets && status == LS_OK; i++)
                status = ls_places_add(&places, (ls_slice){NULL, 0}, end - size, size, &records);
            CHECK(status == LS_NO_SPACE);
            CHECK(ls_places_get(&places, slice("nobody"), any(), &answers[0], &bad) == LS_OK);
        }
        uint8_t none[1];
        CHECK(ls_places_add(&places, (ls_slice){none, 0}, end - 3, 4, &records) == LS_TRUNCATED);
        CHECK(ls_places_add(&places, (ls_slice){none, 0}, end + 1, 0, &records) == LS_TRUNCATED);
        places.size = end + 1;
        CHECK(ls_places_add(&places, (ls_slice){none, 0}, end - 3, 4, &records) == LS_TRUNCATED);
        free_column(&made);
        free(places.buckets);
        CHECK(madvise(data, end, MADV_DONTNEED) == 0);
    }
    CHECK(munmap(data, end) == 0);
}

/* The files of many buckets have keys whose hashes end alike: their marks do not. */
void test_marks_of_a_bucket(void) {
    for (uint64_t buckets = 1; buckets <= 4096; buckets *= 8) {
        int seen[256] = {0}, distinct = 0;
        for (uint64_t i = 0; i < 5000; i++) {
            uint8_t mark = ls_places_mark(any() / buckets * buckets);
            CHECK(mark != 0);
            distinct += seen[mark]++ == 0;
        }
        CHECK(distinct > 250);
    }
}
