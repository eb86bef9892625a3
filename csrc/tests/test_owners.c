/* Tests of ls_owners.h: the files of each key, against a walk over the keys of all files. */
#include "ls_owners.h"

#include "blocks.h"
#include "made.h"
#include "tests.h"

#define MOST_KEYS 300

static ls_owners owners_for(uint64_t entries) {
    uint32_t count = ls_owners_lines(entries);
    ls_owners owners = {.count = count};
    CHECK(count > 0);
    owners.lines = aligned_alloc(64, count * sizeof *owners.lines);
    CHECK(owners.lines != NULL);
    memset(owners.lines, 0, count * sizeof *owners.lines);
    return owners;
}

/* Some keys of a set, in several blocks. */
static size_t add_some(ls_owners *owners, uint8_t file, const key_set *set, uint8_t *has) {
    static const uint8_t filler[40] = "values of any size";
    size_t added = 0;
    for (size_t start = 0, end; start < set->count; start = end) {
        ls_slice keys[20], values[20];
        size_t count = 0, size;
        end = start + 1 + below(40) < set->count ? start + 1 + below(40) : set->count;
        end = end < set->count ? end : set->count;
        for (size_t i = start; i < end && count < 20; i++)
            if (below(2)) {
                has[i] = 1;
                keys[count] = set->keys[i];
                values[count++] = (ls_slice){filler, below(40)};
            }
        if (count == 0)
            continue;
        uint8_t *block = make_block(keys, values, count, &size);
        uint64_t entries = added;
        CHECK(ls_owners_add(owners, file, block, size, &entries) == LS_OK);
        added += count;
        CHECK(entries == added);
        free(block);
    }
    return added;
}

typedef struct {
    made_column column;
    uint64_t *hashes;
    ls_batch_stretch stretch;
} made_stretch;

static made_stretch *make_stretch(const ls_slice *keys, size_t count) {
    made_stretch *made = calloc(1, sizeof *made);
    uint64_t *numbers = room(8 * count);
    size_t bad;
    memset(numbers, 0, 8 * count);
    made->column = make_column(keys, count, 8);
    made->hashes = room(8 * count);
    CHECK(ls_hash_column(&made->column.column, 0, count, made->hashes, &bad) == LS_OK);
    made->column.column.hashes = made->hashes;
    made->stretch = (ls_batch_stretch){
        .indices = room(4 * count), .hashes = room(8 * count), .numbers = room(8 * count)};
    ls_batch_order(&made->column.column, 0, count, numbers, &made->stretch);
    free(numbers);
    return made;
}

static void free_stretch(made_stretch *made) {
    free_column(&made->column);
    free(made->hashes);
    free(made->stretch.indices);
    free(made->stretch.hashes);
    free(made->stretch.numbers);
    free(made);
}

/* Finds the files of all keys, with the room that is given, and counts each pair of a key and a file
 * in `found`; returns the number of pairs. */
static size_t find_all(const ls_owners *owners, const uint32_t *numbers,
                       const ls_batch_stretch *stretch, size_t most, size_t files,
                       ls_batch_counts *counts, uint8_t *found) {
    size_t next = 0, total = 0;
    while (next < stretch->count) {
        size_t first = below(3), kept = first, before = next;
        ls_batch_item *items = room((most + first) * sizeof *items);
        ls_owners_find(owners, numbers, stretch, &next, items, most + first, &kept, counts);
        CHECK(next > before && kept <= most + first);
        CHECK(next == stretch->count || most + first - kept < LS_OWNERS_FILES);
        for (size_t i = first; i < kept; i++) {
            CHECK(items[i].file < files);
            CHECK(found[items[i].index * files + items[i].file]++ == 0);
        }
        for (size_t i = first, at = before; i < kept; i++) { /* in the order of the stretch */
            while (at < next && stretch->indices[at] != items[i].index)
                at++;
            CHECK(at < next && stretch->hashes[at] == items[i].hash);
        }
        total += kept - first;
        free(items);
    }
    return total;
}

void test_owners(void) {
    size_t wrong = 0, absent = 0;
    for (size_t round = 0; round < 150; round++) {
        key_set set =
            make_keys(LS_ORDER_BYTES, (key_kind)(round % KEY_KINDS), 1 + below(MOST_KEYS), 0);
        size_t files = 1 + (below(3) ? below(8) : below(LS_OWNERS_FILES)), entries = 0;
        uint8_t *has = calloc(files, set.count);
        ls_owners owners = owners_for(files * set.count);
        uint8_t of_number[LS_OWNERS_FILES]; /* the files of a table are numbered in any order */
        uint32_t numbers[LS_OWNERS_FILES];
        for (size_t i = 0; i < LS_OWNERS_FILES; i++)
            numbers[i] = LS_OWNERS_NOT_ASKED;
        for (size_t i = 0; i < files; i++) {
            of_number[i] = (uint8_t)(files - 1 - i);
            if (below(5))
                numbers[files - 1 - i] = (uint32_t)i;
            entries += add_some(&owners, of_number[i], &set, has + i * set.count);
        }
        made_stretch *made = make_stretch(set.keys, set.count);
        uint8_t *found = calloc(set.count, files);
        ls_batch_counts *counts = calloc(files, sizeof *counts);
        size_t total = find_all(&owners, numbers, &made->stretch,
                                LS_OWNERS_FILES + below(2 * LS_OWNERS_FILES), files, counts, found);
        size_t ruled_out = 0, asked = 0;
        for (size_t i = 0; i < files; i++) {
            int is_asked = numbers[of_number[i]] != LS_OWNERS_NOT_ASKED;
            asked += (size_t)is_asked;
            for (size_t k = 0; k < set.count; k++) {
                CHECK(!found[k * files + i] || is_asked);
                CHECK(found[k * files + i] || !is_asked || !has[i * set.count + k]);
                absent += is_asked && !has[i * set.count + k];
                wrong += found[k * files + i] && !has[i * set.count + k];
            }
            CHECK(counts[i].asked || counts[i].ruled_out == (is_asked ? set.count : 0));
            ruled_out += counts[i].ruled_out;
        }
        CHECK(total + ruled_out == asked * set.count);
        free(counts);
        free(found);
        free(has);
        free_stretch(made);
        free(owners.lines);
        free_keys(&set);
    }
    CHECK(wrong < absent); /* crowded lines of small tables, in which keys are in many files */
}

/* A key of all files takes several lines, behind the last one the first; other keys with its mark do
 * not add files twice. One entry more than there is room for is refused, and a search ends. */
void test_crowded_owners(void) {
    uint32_t numbers[LS_OWNERS_FILES];
    for (uint32_t i = 0; i < LS_OWNERS_FILES; i++)
        numbers[i] = i;
    for (size_t round = 0; round < 20; round++) {
        uint8_t bytes[8];
        ls_slice key = {bytes, 8};
        ls_store64(bytes, any());
        made_stretch *made = make_stretch(&key, 1);
        size_t copies = 1 + below(3);
        ls_owners owners = owners_for(copies * LS_OWNERS_FILES);
        ls_batch_counts counts[LS_OWNERS_FILES] = {{0}};
        uint8_t found[LS_OWNERS_FILES] = {0};
        /* Any line, also the last one: only the upper half of the hash is another one. */
        made->stretch.hashes[0] = made->hashes[0] =
            (round % 2 ? UINT64_MAX << 32 : any() << 32) | (made->hashes[0] & UINT32_MAX);
        for (uint32_t i = 0; i < LS_OWNERS_FILES; i++)
            for (size_t n = 0; n < copies; n++)
                CHECK(ls_owners_put(&owners, made->hashes[0], (uint8_t)i) == LS_OK);
        CHECK(find_all(&owners, numbers, &made->stretch, LS_OWNERS_FILES, LS_OWNERS_FILES, counts,
                       found) == LS_OWNERS_FILES);
        ls_status status = LS_OK;
        for (size_t i = 0; i <= LS_OWNERS_ENTRIES * (size_t)owners.count && status == LS_OK; i++)
            status = ls_owners_put(&owners, any(), 3);
        CHECK(status == LS_NO_SPACE);
        memset(found, 0, sizeof found);
        CHECK(find_all(&owners, numbers, &made->stretch, LS_OWNERS_FILES, LS_OWNERS_FILES, counts,
                       found) == LS_OWNERS_FILES);
        free_stretch(made);
        free(owners.lines);
    }
    CHECK(ls_owners_lines(0) == 1);
    CHECK(ls_owners_lines(UINT64_MAX) == 0);
}

/* The bytes of a mapped table, and those of a block whose keys are added, may change at any time. */
void test_damaged_owners(void) {
    for (size_t round = 0; round < 60; round++) {
        key_set set = make_keys(LS_ORDER_BYTES, SHORT_KEYS, 1 + below(60), 0);
        ls_slice *values = calloc(set.count, sizeof *values);
        ls_owners owners = owners_for(set.count);
        made_stretch *made = make_stretch(set.keys, set.count);
        ls_batch_counts counts[4];
        uint32_t numbers[LS_OWNERS_FILES];
        uint8_t *found = room(4 * set.count);
        size_t size;
        uint64_t entries = 0;
        uint8_t *block = make_block(set.keys, values, set.count, &size);
        for (size_t i = 0; i < LS_OWNERS_FILES; i++)
            numbers[i] = i < 4 ? (uint32_t)i : LS_OWNERS_NOT_ASKED;
        for (size_t n = 0; n < 20; n++) {
            memset(counts, 0, sizeof counts);
            memset(found, 0, 4 * set.count);
            damage_in_place((uint8_t *)owners.lines, owners.count * sizeof *owners.lines);
            (void)find_all(&owners, numbers, &made->stretch, LS_OWNERS_FILES, 4, counts, found);
            memset(owners.lines, 0, owners.count * sizeof *owners.lines);
            damage_in_place(block, size);
            (void)ls_owners_add(&owners, 1, block, size, &entries);
        }
        free(block);
        free(found);
        free(values);
        free_stretch(made);
        free(owners.lines);
        free_keys(&set);
    }
}
