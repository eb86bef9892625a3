/* Tests of ls_file_ranges.h, and of the batches whose keys are routed by ranges. */
#include "ls_file_ranges.h"

#include "blocks.h"
#include "ls_batch.h"
#include "made.h"
#include "tests.h"

#define MOST_FILES 40

typedef struct {
    key_set set;
    ls_slice firsts[MOST_FILES], lasts[MOST_FILES];
    uint64_t starts[MOST_FILES], ends[MOST_FILES];
    uint32_t cells[LS_RANGES_CELLS];
    ls_file_ranges ranges;
} made_ranges;

/* Ranges of files between keys of one kind; some files have one key. */
static made_ranges *make_ranges(key_kind kind) {
    made_ranges *made = calloc(1, sizeof *made);
    made->set = make_keys(LS_ORDER_BYTES, kind, 1 + below(300), 0);
    size_t at = below(2) ? 0 : below(made->set.count);
    size_t most = below(4) ? 1 + below(MOST_FILES) : 1;
    uint32_t count = 0;
    while (count < most && at < made->set.count) {
        size_t last = at + (below(4) == 0 ? 0 : below(8));
        last = last < made->set.count ? last : made->set.count - 1;
        made->firsts[count] = made->set.keys[at];
        made->lasts[count++] = made->set.keys[last];
        at = last + 1 + (below(2) ? 0 : below(5));
    }
    made->ranges = (ls_file_ranges){.firsts = made->firsts,
                                    .lasts = made->lasts,
                                    .starts = made->starts,
                                    .ends = made->ends,
                                    .cells = count > 1 ? made->cells : NULL,
                                    .count = count};
    ls_file_ranges_build(&made->ranges);
    return made;
}

static void free_ranges(made_ranges *made) {
    free_keys(&made->set);
    free(made);
}

/* Keys of the set, keys close to these, and any others; some of them are null in the column. */
static ls_slice *make_asked(const key_set *set, size_t count, int sized, made_column *made) {
    ls_slice *asked = room(count * sizeof *asked);
    for (size_t i = 0; i < count; i++)
        do {
            asked[i] = below(3) ? neighbour(LS_ORDER_BYTES, set->keys[below(set->count)],
                                            below(2) ? 0 : below(NEIGHBOURS))
                                : any_key(LS_ORDER_BYTES);
            if (!sized || asked[i].size == 8)
                break;
            free((void *)asked[i].data);
        } while (1);
    *made = make_column(asked, count, sized ? 0 : below(2) ? 4 : 8);
    if (below(2)) {
        made->column.validity = made->validity = room((count + 7) / 8);
        for (size_t i = 0; i < (count + 7) / 8; i++)
            ((uint8_t *)made->validity)[i] = (uint8_t)(any() | any());
    }
    return asked;
}

static void free_asked(ls_slice *asked, size_t count, made_column *made) {
    for (size_t i = 0; i < count; i++)
        free((void *)asked[i].data);
    free(asked);
    free_column(made);
}

static uint32_t walk_owner(const made_ranges *made, ls_slice key) {
    uint32_t owner = 0;
    for (uint32_t i = 0; i < made->ranges.count; i++)
        if (ls_compare_bytes(made->firsts[i], key) <= 0)
            owner = i;
    return owner;
}

static int is_inside(const made_ranges *made, uint32_t file, ls_slice key) {
    return ls_compare_bytes(made->firsts[file], key) <= 0 &&
           ls_compare_bytes(key, made->lasts[file]) <= 0;
}

void test_file_ranges(void) {
    for (size_t round = 0; round < 400; round++) {
        key_kind kind = (key_kind)(round % KEY_KINDS);
        made_ranges *made = make_ranges(kind);
        made_column column;
        size_t count = below(300), outside = 0, left_out = 0;
        ls_slice *asked = make_asked(&made->set, count, kind == COUNTED_KEYS, &column);
        uint32_t owners[LS_RANGES_KEYS], places[300];
        uint64_t numbers[LS_RANGES_KEYS];
        for (size_t i = 0; i < count; i++)
            places[i] = (uint32_t)below(count);
        int by_places = (int)below(2);
        for (size_t from = 0, to; from < count; from = to) {
            to = from + 1 + below(LS_RANGES_KEYS);
            to = to < count ? to : count;
            const uint32_t *given = by_places ? places : NULL;
            ls_file_ranges_numbers(&made->ranges, &column.column, given, from, to, numbers);
            ls_file_ranges_route(&made->ranges, numbers, &column.column, given, from, to, owners);
            for (size_t i = from; i < to; i++) {
                ls_slice key = asked[by_places ? places[i] : i];
                uint32_t owner = walk_owner(made, key);
                CHECK(owners[i - from] == owner);
                int inside = ls_file_ranges_inside(&made->ranges, owner, numbers[i - from]);
                CHECK(inside || !is_inside(made, owner, key));
                outside += !is_inside(made, owner, key);
                left_out += !inside;
            }
        }
        if (kind == COUNTED_KEYS) /* all bytes of these are compared */
            CHECK(outside == left_out);
        free_asked(asked, count, &column);
        free_ranges(made);
    }
}

/* All first keys have one long text before their differences. */
void test_shared_file_ranges(void) {
    uint8_t texts[8][40];
    ls_slice firsts[8], lasts[8];
    uint64_t starts[8], ends[8];
    for (size_t i = 0; i < 8; i++) {
        memset(texts[i], 'a', 40);
        texts[i][30] = (uint8_t)('b' + 2 * i);
        firsts[i] = (ls_slice){texts[i], 31};
        lasts[i] = (ls_slice){texts[i], 40};
    }
    uint32_t cells[LS_RANGES_CELLS];
    ls_file_ranges ranges = {firsts, lasts, starts, ends, cells, 8, 0, 0, 0};
    ls_file_ranges_build(&ranges);
    CHECK(ranges.shared == 30);
    for (size_t i = 1; i < 8; i++)
        CHECK(starts[i - 1] < starts[i]);
    ls_slice keys[] = {slice(""),
                       slice("a"),
                       slice("aaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"),
                       slice("aaaaaaaaaaaaaaaaaaaaaaaaaaaaaac"),
                       slice("ab"),
                       slice("b"),
                       lasts[3]};
    static const uint32_t expected[] = {0, 0, 0, 0, 7, 7, 3};
    static const uint8_t within[] = {0, 0, 0, 0, 0, 0, 1};
    made_column column = make_column(keys, 7, 8);
    uint32_t owners[7];
    uint64_t numbers[7];
    ls_file_ranges_numbers(&ranges, &column.column, NULL, 0, 7, numbers);
    ls_file_ranges_route(&ranges, numbers, &column.column, NULL, 0, 7, owners);
    for (size_t i = 0; i < 7; i++) {
        CHECK(owners[i] == expected[i]);
        CHECK(ls_file_ranges_inside(&ranges, owners[i], numbers[i]) == within[i]);
    }
    free_column(&column);
}

/* Items have the file that ranges or the caller choose, and pass its filter. */
void test_batches_of_file_ranges(void) {
    for (size_t round = 0; round < 200; round++) {
        key_kind kind = (key_kind)(round % KEY_KINDS);
        made_ranges *made = make_ranges(kind);
        made_column column;
        size_t count = below(below(2) ? 400 : 6), bad = 99, kept = 0, first = 1 + below(9), at = 0;
        uint32_t files_count = made->ranges.count;
        ls_slice *asked = make_asked(&made->set, count, kind == COUNTED_KEYS, &column);
        uint64_t *hashes = room(8 * count);
        CHECK(ls_hash_column(&column.column, 0, count, hashes, &bad) == LS_OK);
        column.column.hashes = hashes;
        uint8_t bits[LS_SPLIT_BLOCK * 4];
        for (size_t i = 0; i < sizeof bits; i++)
            bits[i] = (uint8_t)(any() | any());
        ls_filter filters[MOST_FILES];
        const ls_filter *own[MOST_FILES];
        ls_batch_file each[MOST_FILES] = {{0}};
        for (size_t i = 0; i < MOST_FILES; i++) {
            filters[i] = (ls_filter){below(4) ? LS_FILTER_SPLIT_BLOCK : LS_FILTER_NONE, bits,
                                     LS_SPLIT_BLOCK * (1 + below(4)), 0};
            own[i] = &filters[i];
        }
        const ls_batch_files files = {each, files_count, LS_ORDER_BYTES};
        ls_batch_counts counts[MOST_FILES] = {{0}};
        ls_batch_item *items = room((first + count) * sizeof *items);

        /* By ranges, or by given files. */
        uint32_t *given = room(4 * count);
        for (size_t i = 0; i < count; i++)
            given[i] = (uint32_t)below(files_count);
        int by_owner = (int)below(2);
        CHECK(ls_batch_filter_owned(by_owner ? given : NULL, &made->ranges, own, &files,
                                    &column.column, NULL, 0, count, NULL, items, &kept, counts,
                                    &bad) == LS_OK);
        for (size_t i = 0; i < count; i++) {
            uint32_t owner = by_owner ? given[i] : walk_owner(made, asked[i]);
            owner = files_count == 1 ? 0 : owner;
            if (!ls_column_is_valid(&column.column, i) || !ls_filter_test(own[owner], asked[i]))
                continue;
            CHECK(at < kept && items[at].index == i && items[at].file == owner);
            CHECK(items[at++].hash == hashes[i]);
        }
        CHECK(at == kept);

        /* Only keys inside of a range, after other items, in the order of their hashes. */
        size_t ruled_out = 0, from = below(count + 1), valid = 0;
        memset(counts, 0, sizeof counts);
        kept = at = first;
        const ls_file_ranges first_bytes = {.shared = 0};
        uint64_t *numbers = room(8 * (count - from));
        ls_batch_stretch stretch = {.indices = room(4 * (count - from)),
                                    .hashes = room(8 * (count - from)),
                                    .numbers = room(8 * (count - from))};
        uint8_t *seen = room(count);
        memset(seen, 0, count);
        ls_file_ranges_numbers(&first_bytes, &column.column, NULL, from, count, numbers);
        ls_batch_order(&column.column, from, count, numbers, &stretch);
        for (size_t i = 0; i < stretch.count; i++) {
            uint32_t index = stretch.indices[i];
            CHECK(index >= from && index < count && !seen[index]);
            seen[index] = 1;
            CHECK(stretch.hashes[i] == hashes[index]);
            CHECK(stretch.numbers[i] == numbers[index - from]);
            CHECK(stretch.least <= stretch.numbers[i] && stretch.numbers[i] <= stretch.greatest);
            CHECK(i == 0 || stretch.hashes[i - 1] >> 54 <= stretch.hashes[i] >> 54);
        }
        for (size_t i = from; i < count; i++) {
            CHECK(seen[i] == ls_column_is_valid(&column.column, i));
            valid += seen[i];
        }
        CHECK(stretch.count == valid);
        ls_batch_filter_inside(&made->ranges, own, 7, &column.column, &stretch, items, &kept,
                               counts);
        for (size_t n = 0; n < stretch.count; n++) {
            uint32_t i = stretch.indices[n], owner = walk_owner(made, asked[i]);
            int there = at < kept && items[at].index == i;
            if (there) {
                CHECK(kind != COUNTED_KEYS || is_inside(made, owner, asked[i]));
                CHECK(ls_filter_test(own[owner], asked[i]));
                CHECK(items[at].file == 7 + owner && items[at].hash == hashes[i]);
                CHECK(counts[owner].asked);
                at++;
            } else if (is_inside(made, owner, asked[i])) {
                CHECK(!ls_filter_test(own[owner], asked[i]));
                ruled_out++;
            }
        }
        CHECK(at == kept);
        size_t counted = 0;
        for (size_t i = 0; i < MOST_FILES; i++)
            counted += counts[i].ruled_out;
        CHECK(counted >= ruled_out && (kind != COUNTED_KEYS || counted == ruled_out));
        free(given);
        free(numbers);
        free(stretch.indices);
        free(stretch.hashes);
        free(stretch.numbers);
        free(seen);
        free(hashes);
        free(items);
        free_asked(asked, count, &column);
        free_ranges(made);
    }
}
