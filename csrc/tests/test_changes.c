/* Tests of ls_changes.h: runs of changes above a file, against a walk over all of them. */
#include "blocks.h"
#include "ls_batch.h"
#include "ls_changes.h"
#include "made.h"
#include "tests.h"

enum { RUNS = LS_CHANGES_RUNS, MOST = 200 };

/* A file of one block: a key of MOST numbers, or none at all, and a value behind a kind. */
typedef struct {
    uint8_t keys[MOST][8];
    uint8_t values[MOST][3];
    uint32_t numbers[MOST];
    size_t count;
    uint8_t *data;
    size_t size;
} made_file;

static made_file make_file(size_t wanted, uint32_t from, int is_run) {
    made_file file = {.count = 0};
    ls_slice keys[MOST], values[MOST];
    for (uint32_t i = 0; i < MOST; i++) {
        if (below(MOST) >= wanted)
            continue;
        size_t n = file.count++;
        uint8_t kind = is_run && below(3) == 0 ? LS_KIND_TOMBSTONE : LS_KIND_ROW;
        file.numbers[n] = from + i;
        for (int byte = 0; byte < 8; byte++)
            file.keys[n][byte] = (uint8_t)((uint64_t)(from + i) >> (56 - 8 * byte));
        file.values[n][0] = kind;
        file.values[n][1] = (uint8_t)below(256);
        file.values[n][2] = (uint8_t)below(256);
        keys[n] = (ls_slice){file.keys[n], 8};
        values[n] = (ls_slice){file.values[n], kind == LS_KIND_TOMBSTONE ? 1 : 3};
    }
    file.data = make_block(keys, values, file.count, &file.size);
    return file;
}

static const uint8_t *value_in(const made_file *file, uint32_t number) {
    for (size_t i = 0; i < file->count; i++)
        if (file->numbers[i] == number)
            return file->values[i];
    return NULL;
}

static ls_places table_for(const uint8_t *data, size_t size, size_t records) {
    ls_places table = {.data = data, .size = size, .record = 20};
    table.count = ls_places_buckets(records);
    table.buckets = aligned_alloc(64, table.count * sizeof *table.buckets);
    if (table.buckets == NULL)
        abort();
    memset(table.buckets, 0, table.count * sizeof *table.buckets);
    return table;
}

/* Whether a run has a key whose mark and bucket are those of a number. */
static int is_like_changed(const ls_places *places, const made_file *runs, uint32_t count,
                           uint64_t hash) {
    for (uint32_t n = 0; n < count; n++)
        for (size_t i = 0; i < runs[n].count; i++) {
            uint64_t other = ls_hash((ls_slice){runs[n].keys[i], 8});
            if (ls_places_bucket_of(places, other) == ls_places_bucket_of(places, hash) &&
                ls_places_mark(other) == ls_places_mark(hash))
                return 1;
        }
    return 0;
}

/* One lookup of many keys of a file and its changes, and each key alone. */
static void check_all(const made_file *base, const ls_places *places, const made_file *runs,
                      const ls_changes *changes, uint32_t from) {
    enum { ASKED = 3 * MOST };
    uint8_t bytes[ASKED][8];
    ls_slice keys[ASKED], answers[ASKED] = {{NULL, 0}};
    ls_batch_item items[ASKED];
    size_t kept = ASKED, bad_item, changed = 0, there = 0, spared = 0;
    uint32_t run, numbers[ASKED];
    uint64_t bad;
    for (size_t i = 0; i < ASKED; i++) {
        numbers[i] = from + (uint32_t)below(MOST + MOST / 2);
        for (int byte = 0; byte < 8; byte++)
            bytes[i][byte] = (uint8_t)((uint64_t)numbers[i] >> (56 - 8 * byte));
        keys[i] = (ls_slice){bytes[i], 8};
        items[i] = (ls_batch_item){ls_hash(keys[i]), (uint32_t)i, 0, 0};
    }
    made_column made = make_column(keys, ASKED, 0);
    const ls_batch_file one = {.places = places, .changes = changes};
    const ls_batch_files files = {&one, 1, LS_ORDER_BYTES};
    ls_batch_counts counted = {0};
    CHECK(ls_batch_find(&files, &made.column, items, &kept, &counted, 0, NULL, answers, &bad_item,
                        &run, &bad) == LS_OK);
    for (size_t i = 0; i < ASKED; i++) {
        const uint8_t *newest = NULL, *own = value_in(base, numbers[i]);
        uint32_t of = 0;
        for (uint32_t n = 0; n < changes->count && newest == NULL; n++) {
            newest = value_in(&runs[n], numbers[i]);
            of = n;
        }
        ls_slice found = {NULL, 0};
        CHECK(ls_changes_get(changes, keys[i], ls_hash(keys[i]), &found, &run, &bad) == LS_OK);
        CHECK((found.data != NULL) == (newest != NULL));
        if (newest != NULL) {
            CHECK(run == of && found.data[0] == newest[0]);
            changed++;
            CHECK((answers[i].data == NULL) == (newest[0] == LS_KIND_TOMBSTONE));
            if (newest[0] == LS_KIND_ROW)
                CHECK(answers[i].size == 2 && memcmp(answers[i].data, newest + 1, 2) == 0);
        } else if (own != NULL) { /* a file of rows has no kinds */
            CHECK(answers[i].size == 3 && memcmp(answers[i].data, own, 3) == 0);
            there++;
            uint64_t hash = ls_hash(keys[i]);
            spared += ls_places_match(ls_places_bucket_of(places, hash), ls_places_mark(hash)) &&
                      !is_like_changed(places, runs, changes->count, hash);
        } else {
            CHECK(answers[i].data == NULL);
        }
    }
    CHECK(kept == 0);
    CHECK(counted.changed >= changed && counted.changed <= ASKED - spared);
    CHECK(counted.routed == there);
    free_column(&made);
}

/* A record of the changes that is wrong: which run has it, and where. */
static void check_wrong_kind(const ls_places *places, const ls_changes *changes, made_file *runs,
                             uint32_t run) {
    size_t at = below(runs[run].count), bad_item = 9, kept = 1;
    uint32_t bad_run = RUNS + 1;
    uint64_t bad = 0;
    ls_slice key = {runs[run].keys[at], 8}, answer = {NULL, 0}, found = {NULL, 0};
    ls_batch_item item = {ls_hash(key), 0, 0, 0};
    CHECK(ls_changes_get(changes, key, item.hash, &found, &bad_run, &bad) == LS_OK);
    if (bad_run != run) /* a newer one has it */
        return;
    uint8_t *kind = runs[run].data + (found.data - runs[run].data), before = *kind;
    made_column made = make_column(&key, 1, 0);
    const ls_batch_file one = {.places = places, .changes = changes};
    const ls_batch_files files = {&one, 1, LS_ORDER_BYTES};
    ls_batch_counts counted = {0};
    *kind = 2;
    CHECK(ls_batch_find(&files, &made.column, &item, &kept, &counted, 0, NULL, &answer, &bad_item,
                        &bad_run, &bad) == LS_BAD_RECORD);
    CHECK(bad_item == 0 && bad_run == run && bad < runs[run].size);
    *kind = before;
    free_column(&made);
}

void test_changes(void) {
    for (size_t round = 0; round < 150; round++) {
        uint32_t from = (uint32_t)below(1 << 20), count = 1 + (uint32_t)below(RUNS);
        made_file base = make_file(1 + below(MOST), from, 0), runs[RUNS];
        ls_places places = table_for(base.data, base.size, base.count + 1);
        ls_changes changes = {.count = count};
        size_t records = 0;
        uint64_t added = 0;
        CHECK(ls_places_add(&places, (ls_slice){NULL, 0}, 0, base.size, &added) == LS_OK);
        CHECK(added == base.count);
        for (uint32_t i = 0; i < count; i++) {
            runs[i] = make_file(below(MOST / 2), from, 1);
            changes.data[i] = runs[i].data;
            changes.sizes[i] = runs[i].size;
            records += runs[i].count;
        }
        changes.table = table_for(NULL, 0, records);
        for (uint32_t i = 0; i < count; i++)
            CHECK(ls_changes_add(&changes, i, 0, runs[i].size, &places) == LS_OK);
        check_all(&base, &places, runs, &changes, from);
        for (uint32_t i = 0; i < count; i++)
            if (runs[i].count > 0)
                check_wrong_kind(&places, &changes, runs, i);
        CHECK(ls_changes_add(&changes, count, 0, 1, &places) == LS_TRUNCATED);
        CHECK(ls_changes_add(&changes, 0, 1, runs[0].size, &places) == LS_TRUNCATED);
        CHECK(ls_changes_add(&changes, 0, runs[0].size + 1, 0, &places) == LS_TRUNCATED);
        changes.sizes[0] = LS_CHANGES_END + 1;
        CHECK(ls_changes_add(&changes, 0, 0, runs[0].size, &places) == LS_TRUNCATED);
        changes.sizes[0] = runs[0].size;
        /* Whatever the bytes have become, nothing is read beyond them. */
        for (uint32_t i = 0; i < count; i++) {
            ls_slice value = {NULL, 0};
            uint32_t run;
            uint64_t bad;
            damage_in_place(runs[i].data, runs[i].size);
            for (size_t n = 0; n < runs[i].count; n++) {
                ls_slice key = {runs[i].keys[n], 8};
                (void)ls_changes_get(&changes, key, ls_hash(key), &value, &run, &bad);
            }
            (void)ls_changes_add(&changes, i, 0, runs[i].size, &places);
        }
        for (uint32_t i = 0; i < count; i++)
            free(runs[i].data);
        free(base.data);
        free(places.buckets);
        free(changes.table.buckets);
    }
}
