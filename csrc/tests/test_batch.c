/* Tests of ls_batch.h: a file of small blocks against a walk over all records. */
#include <pthread.h>

#include "blocks.h"
#include "ls_batch.h"
#include "made.h"
#include "tests.h"

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
    ls_batch_file as_file;
} made_file;

/* The file as all files of a batch. */
static ls_batch_files only(made_file *file, int pinned) {
    file->as_file = (ls_batch_file){.fences = &file->fences,
                                    .ready = file->ready,
                                    .pins = pinned ? file->pins : NULL,
                                    .used = file->used,
                                    .blocks = (uint32_t)file->blocks};
    return (ls_batch_files){&file->as_file, 1, file->order};
}

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

/* Checks that each block has one pin for each of its items, and no other pins. */
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

/* Searches items, making blocks ready a few at a time. If blocks are pinned, found answers are
 * staged now and then, and blocks without pins are removed. Returns the arenas. */
static size_t search_piece(made_file *file, const ls_column *keys, ls_batch_item *items,
                           size_t *count, size_t first, ls_slice *answers, int pinned,
                           uint8_t **arenas) {
    size_t arena_count = 0;
    ls_batch_files files = only(file, pinned);
    for (;;) {
        size_t left = 99999, expected = 0, bad = 99999;
        CHECK(ls_batch_search(&files, keys, items, *count, first, NULL, answers, &left, &bad) ==
              LS_OK);
        CHECK(bad == 99999);
        uint8_t *wanted = calloc(file->blocks + 1, 1);
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
        if (left > 0 && pinned && below(2)) {
            size_t bytes = 0, searched = *count - left;
            for (size_t i = 0; i < *count; i++)
                if (items[i].block & LS_SEARCHED)
                    bytes += answers[items[i].index - first].size;
            CHECK(ls_batch_stage_size(items, *count, first, answers) == bytes);
            arenas[arena_count] = room(bytes);
            ls_batch_stage(items, *count, first, NULL, answers, arenas[arena_count]);
            arena_count++;
            uint32_t *starts = calloc(file->blocks + 1, sizeof *starts);
            ls_batch_item *taken = room(*count * sizeof *taken);
            CHECK(ls_batch_take_missing(&files, items, count, below(2) ? starts : NULL,
                                        file->blocks, taken) == left);
            CHECK(*count == searched);
            check_pins(file, items, *count);
            for (size_t i = 0; i < left; i++)
                CHECK(!(taken[i].block & LS_SEARCHED) &&
                      (i == 0 || taken[i - 1].block <= taken[i].block));
            ls_batch_unpin(&files, items, *count);
            memcpy(items, taken, left * sizeof *taken);
            *count = left;
            ls_batch_pin(&files, items, *count);
            check_pins(file, items, *count);
            free(starts);
            free(taken);
            for (size_t i = 0; i < file->blocks; i++)
                if (file->pins[i] == 0 && file->ready[i].data != NULL && below(4))
                    let_go(file, i);
        }
        size_t some = 1 + below(4);
        for (size_t i = 0; i < file->blocks && some > 0; i++)
            if (wanted[i] && (below(2) || left <= 2)) {
                make_ready(file, i);
                some--;
            }
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
    ls_batch_files files = only(file, pinned);
    ls_batch_counts counts = {0};
    CHECK(ls_batch_filter(&filter, &files, keys, NULL, start, end, NULL, items, &count, &counts,
                          &bad) == LS_OK);
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
    CHECK(counts.asked && counts.ruled_out == end - start - count);

    ls_batch_item *before = copy(items, count * sizeof *items);
    CHECK(ls_batch_route(&files, keys, items, &count, &counts, &bad) == LS_OK);
    CHECK(counts.routed == count);
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
        ls_batch_pin(&files, items, count);
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
        ls_batch_unpin(&files, items, count);
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

void test_batches(void) {
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

/* Keys of many files: each is asked of the one that its hash picks, whatever that is. */
void test_batches_of_many_files(void) {
    static const key_kind kinds[] = {COUNTED_KEYS, COUNTED_KEYS, ANY_KEYS};
    for (size_t round = 0; round < 60; round++) {
        made_file some[9];
        ls_batch_file each[9];
        ls_filter filters[9];
        const ls_filter *own[9];
        uint8_t *bits[9];
        size_t count = 2 + below(8), length = 0, first = 0, bad = 99, left = 0, kept = 0;
        ls_block no_index = {0};
        ls_fences no_fences = {.index = &no_index};
        for (size_t i = 0; i < count; i++) {
            made_file *file = &some[i];
            int repeats = below(8) == 0;
            *file = make_file(LS_ORDER_BYTES, kinds[below(3)], 1 + below(400), repeats);
            make_fences(&file->fences, &file->index, LS_ORDER_BYTES);
            for (size_t n = 0; n < file->blocks; n++)
                make_ready(file, n);
            each[i] = *only(file, below(2) == 0).files;
            each[i].first = first;
            first += file->blocks;
            if (below(6) == 0) /* this one has no file */
                each[i] = (ls_batch_file){.fences = &no_fences, .first = first};
            bits[i] = room(8 * LS_SPLIT_BLOCK);
            for (size_t n = 0; n < 8 * LS_SPLIT_BLOCK; n++)
                bits[i][n] = (uint8_t)(any() | any());
            static const ls_filter_kind of[] = {LS_FILTER_NONE, LS_FILTER_SPLIT_BLOCK,
                                                LS_FILTER_SPLIT_BLOCK, LS_FILTER_PAIMON,
                                                LS_FILTER_WORDS};
            filters[i] = (ls_filter){of[below(5)], bits[i], 8 * LS_SPLIT_BLOCK, 2};
            own[i] = &filters[i];
            length += file->set.count;
        }
        ls_slice *keys = room(length * sizeof *keys);
        for (size_t i = 0, at = 0; i < count; at += some[i++].set.count)
            memcpy(keys + at, some[i].set.keys, some[i].set.count * sizeof *keys);
        for (size_t i = length; i > 1; i--) {
            size_t other = below(i);
            ls_slice key = keys[i - 1];
            keys[i - 1] = keys[other];
            keys[other] = key;
        }
        made_column made = make_column(keys, length, 8);
        ls_batch_files files = {each, (uint32_t)count, LS_ORDER_BYTES};
        ls_batch_counts counts[9] = {{0, 0, 0, 0}};
        ls_batch_item *items = room(length * sizeof *items);
        ls_slice *answers = calloc(length, sizeof *answers);
        int filtered = (int)below(2);
        CHECK(ls_batch_filter(filtered ? own : NULL, &files, &made.column, NULL, 0, length, NULL,
                              items, &kept, counts, &bad) == LS_OK);
        size_t ruled_out = length - kept;
        CHECK(ls_batch_route(&files, &made.column, items, &kept, counts, &bad) == LS_OK);
        ls_batch_pin(&files, items, kept);
        for (size_t i = 0; i < count; i++) {
            size_t pins = 0, items_of_it = 0;
            for (size_t n = 0; n < some[i].blocks; n++)
                pins += some[i].pins[n];
            for (size_t n = 0; n < kept; n++)
                items_of_it += items[n].file == i;
            CHECK(pins == (each[i].pins == NULL ? 0 : items_of_it));
            CHECK(counts[i].routed == items_of_it);
            ruled_out -= counts[i].ruled_out;
        }
        CHECK(ruled_out == 0);
        CHECK(ls_batch_search(&files, &made.column, items, kept, 0, NULL, answers, &left, &bad) ==
              LS_OK);
        CHECK(left == 0);
        for (size_t i = 0; i < length; i++) {
            size_t owner = ls_hash(keys[i]) % count;
            made_file *file = &some[owner];
            size_t at = each[owner].blocks == 0 ? file->set.count : answer_of(file, keys[i]);
            CHECK(counts[owner].asked);
            if (filtered && !ls_filter_test(own[owner], keys[i]))
                at = file->set.count;
            if (at == file->set.count)
                CHECK(answers[i].data == NULL);
            else
                CHECK(answers[i].data != NULL && same(answers[i], file->values[at]));
        }
        /* Items that were not searched are taken file by file, in the order of their blocks. */
        size_t asked = 0, number = 0;
        for (size_t i = 0; i < kept; i++)
            if (below(2)) {
                items[i].block &= ~LS_SEARCHED;
                asked++;
            }
        uint32_t *starts = calloc(first + 1, sizeof *starts);
        ls_batch_item *taken = room(kept * sizeof *taken);
        size_t all = kept;
        CHECK(ls_batch_take_missing(&files, items, &kept, below(2) ? starts : NULL, first, taken) ==
              asked);
        CHECK(kept == all - asked);
        for (size_t i = 0; i < asked; i++) {
            CHECK(!(taken[i].block & LS_SEARCHED));
            CHECK(number <= each[taken[i].file].first + taken[i].block);
            number = each[taken[i].file].first + taken[i].block;
        }
        ls_batch_unpin(&files, items, kept);
        for (size_t i = 0; i < count; i++)
            for (size_t n = 0; n < some[i].blocks; n++)
                CHECK(some[i].pins[n] == 0);
        free(starts);
        free(taken);
        free(items);
        free(answers);
        free(keys);
        free_column(&made);
        for (size_t i = 0; i < count; i++) {
            free(bits[i]);
            free_file(&some[i]);
        }
    }
}

/* Keys at some places of a column are those keys, with either filter. */
void test_batches_of_places(void) {
    for (size_t round = 0; round < 60; round++) {
        made_file file = make_file(LS_ORDER_BYTES, COUNTED_KEYS, 1 + below(600), 0);
        size_t count = 0, bad = 99, kept, chosen = 0, total = file.set.count;
        made_column made = make_column(file.set.keys, total, 0);
        uint64_t *hashes = room(8 * total);
        CHECK(ls_hash_column(&made.column, 0, total, hashes, &bad) == LS_OK);
        made.column.hashes = hashes;
        uint8_t *bits = room(total + LS_SPLIT_BLOCK);
        for (size_t i = 0; i < total + LS_SPLIT_BLOCK; i++)
            bits[i] = (uint8_t)below(256);
        ls_filter filter = {round % 3 == 0   ? LS_FILTER_NONE
                            : round % 3 == 1 ? LS_FILTER_SPLIT_BLOCK
                                             : LS_FILTER_PAIMON,
                            bits, LS_SPLIT_BLOCK * (1 + total / LS_SPLIT_BLOCK), 3};
        uint32_t *places = room(4 * total);
        for (size_t i = 0; i < total; i++)
            if (below(3) != 0)
                places[chosen++] = (uint32_t)i;
        ls_batch_item *items = room((chosen + 1) * sizeof *items);
        size_t from = below(chosen + 1);
        const ls_filter *own = &filter;
        ls_batch_files files = only(&file, 0);
        ls_batch_counts counts = {0};
        CHECK(ls_batch_filter(&own, &files, &made.column, places, from, chosen, NULL, items, &count,
                              &counts, &bad) == LS_OK);
        kept = 0;
        for (size_t i = from; i < chosen; i++)
            if (ls_filter_test(&filter, file.set.keys[places[i]])) {
                CHECK(kept < count && items[kept].index == places[i]);
                CHECK(items[kept++].hash == hashes[places[i]]);
            }
        CHECK(kept == count);
        free(hashes);
        free(bits);
        free(places);
        free(items);
        free_column(&made);
        free_file(&file);
    }
}

void test_batch_failures(void) {
    /* Keys that the order does not know are refused, nulls are not looked at. */
    const ls_slice asked[] = {slice("abcd"), slice("abc"), slice("abcd")};
    ls_batch_item items[3];
    ls_batch_files files = {&(ls_batch_file){0}, 1, LS_ORDER_INT32};
    ls_batch_counts counts = {0};
    size_t count, bad = 99;
    made_column made = make_column(asked, 3, 4);
    CHECK(ls_batch_filter(NULL, &files, &made.column, NULL, 0, 3, NULL, items, &count, &counts,
                          &bad) == LS_BAD_KEY);
    CHECK(bad == 1);
    made.column.validity = made.validity = copy("\x05", 1);
    CHECK(ls_batch_filter(NULL, &files, &made.column, NULL, 0, 3, NULL, items, &count, &counts,
                          &bad) == LS_OK);
    CHECK(count == 2 && items[0].index == 0 && items[1].index == 2);
    /* Offsets that leave the data are, under a null too: what is there is hashed. */
    ((int32_t *)made.offsets)[2] = -1;
    files.order = LS_ORDER_BYTES;
    CHECK(ls_batch_filter(NULL, &files, &made.column, NULL, 0, 3, NULL, items, &count, &counts,
                          &bad) == LS_BAD_COLUMN);
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
    size_t broken = below(file.blocks), left, number = 99999;
    ls_block block;
    files = only(&file, 0);
    ls_slice key, value;
    const uint8_t *data = ls_ready_data(&file.ready[broken]);
    CHECK(ls_block_open(&block, data, file.sizes[broken]) == LS_OK);
    CHECK(ls_block_record(&block, block.count - 1, &key, &value) == LS_OK);
    memset((uint8_t *)key.data + key.size, 0x80,
           (size_t)(data + file.sizes[broken] - key.data) - 8);
    CHECK(ls_batch_filter(NULL, &files, &made.column, NULL, 0, file.set.count, NULL, all, &count,
                          &counts, &bad) == LS_OK);
    CHECK(ls_batch_route(&files, &made.column, all, &count, &counts, &bad) == LS_OK);
    CHECK(count == file.set.count);
    ls_status status =
        ls_batch_search(&files, &made.column, all, count, 0, NULL, answers, &left, &number);
    CHECK((status == LS_BAD_VARINT || status == LS_TRUNCATED) && number < count);
    CHECK((all[number].block & ~LS_SEARCHED) == broken);
    free(all);
    free(answers);
    free_column(&made);
    free_file(&file);
}

/* In a run of changes a value begins with its kind, and what a newer file answers stays. */
void test_batches_of_runs(void) {
    made_file file = make_file(LS_ORDER_BYTES, COUNTED_KEYS, 200, 0);
    make_fences(&file.fences, &file.index, LS_ORDER_BYTES);
    for (size_t i = 0; i < file.blocks; i++)
        make_ready(&file, i);
    made_column made = make_column(file.set.keys, file.set.count, 0);
    size_t total = file.set.count, count = 0, bad = 99, left;
    ls_batch_item *routed = room(total * sizeof *routed);
    ls_slice *answers = calloc(total, sizeof *answers);
    const uint8_t deleted = 0;
    ls_batch_files files = only(&file, 0);
    ls_batch_counts counts = {0};
    CHECK(ls_batch_filter(NULL, &files, &made.column, NULL, 0, total, NULL, routed, &count, &counts,
                          &bad) == LS_OK);
    CHECK(ls_batch_route(&files, &made.column, routed, &count, &counts, &bad) == LS_OK);
    ls_batch_item *items = copy(routed, count * sizeof *items);
    CHECK(ls_batch_search(&files, &made.column, items, count, 0, NULL, answers, &left, &bad) ==
          LS_OK);
    free(items);
    file.as_file.is_run = 1;
    for (size_t i = 0; i < total; i++) {
        ls_slice value = answers[i], one[1] = {{NULL, 0}};
        CHECK(routed[i].index == i && value.data != NULL);
        if (value.size > 0)
            *(uint8_t *)value.data = (uint8_t)below(3);
        ls_batch_item item = routed[i];
        ls_status status =
            ls_batch_search(&files, &made.column, &item, 1, i, &deleted, one, &left, &bad);
        if (value.size > 0 && value.data[0] == LS_KIND_ROW) {
            CHECK(status == LS_OK && one->data == value.data + 1 && one->size == value.size - 1);
        } else if (value.size == 1 && value.data[0] == LS_KIND_TOMBSTONE) {
            CHECK(status == LS_OK && one->data == &deleted && one->size == 0);
            uint8_t arena;
            CHECK(ls_batch_stage_size(&item, 1, i, one) == 0);
            ls_batch_stage(&item, 1, i, &deleted, one, &arena);
            CHECK(one->data == &deleted);
            ls_batch_forget_deleted(NULL, i, i + 1, i, &deleted, one);
            CHECK(one->data == NULL);
        } else {
            CHECK(status == LS_BAD_RECORD && bad == 0);
        }
    }
    /* Items whose keys have an answer drop out, also where those of all files are looked at. */
    uint32_t *places = room(total * sizeof *places);
    size_t kept = 0, expected = 0;
    items = copy(routed, count * sizeof *items);
    for (size_t i = 0; i < total; i++) {
        places[i] = (uint32_t)i;
        answers[i] = below(2) ? (ls_slice){NULL, 0} : (ls_slice){&deleted, 0};
        expected += answers[i].data == NULL;
    }
    kept = count;
    ls_batch_drop_answered(items, &kept, 0, answers);
    CHECK(kept == expected);
    for (size_t i = 0; i < kept; i++)
        CHECK(answers[items[i].index].data == NULL &&
              (i == 0 || items[i].index > items[i - 1].index));
    ls_batch_forget_deleted(places, 0, total, 0, &deleted, answers);
    for (size_t i = 0; i < total; i++)
        CHECK(answers[i].data == NULL);
    free(places);
    free(items);
    free(routed);
    free(answers);
    free_column(&made);
    free_file(&file);
}

/* Keys that may be in a run become a column of their own, and what it finds comes back to theirs. */
void test_batches_of_candidates(void) {
    for (size_t round = 0; round < 90; round++) {
        static const int widths[] = {0, 4, 8};
        int width = widths[round % 3]; /* of offsets; 0: all keys have one size */
        made_file file = make_file(LS_ORDER_BYTES, COUNTED_KEYS, 1 + below(400), 0);
        size_t total = file.set.count, bad = 99, count = 0, size = 0;
        static uint8_t fixed[8 * 1024];
        ls_slice *keys = copy(file.set.keys, total * sizeof *keys);
        if (width == 0 && total > 1024)
            total = 1024;
        for (size_t i = 0; i < total && width == 0; i++) {
            for (size_t k = 0; k < 8; k++)
                fixed[8 * i + k] = (uint8_t)any();
            keys[i] = (ls_slice){fixed + 8 * i, 8};
        }
        made_column made = make_column(keys, total, width);
        uint64_t *hashes = room(8 * total);
        CHECK(ls_hash_column(&made.column, 0, total, hashes, &bad) == LS_OK);
        uint64_t words[16] = {0};
        ls_filter above = {.kind = LS_FILTER_WORDS, .bits = (uint8_t *)words, .size = sizeof words};
        size_t stored = below(60);
        ls_word_filter_add_many(words, 16, hashes, stored < total ? stored : total);

        /* The items of all keys and those of the ones that the filter lets pass, in either way. */
        const ls_filter *own = &above;
        ls_batch_files files = only(&file, 0);
        ls_batch_counts counts = {0}, later = {0};
        size_t from = below(total);
        ls_batch_item *items = room(total * sizeof *items), *all = room(total * sizeof *all);
        CHECK(ls_batch_filter(&own, &files, &made.column, NULL, from, total, hashes + from, items,
                              &count, &counts, &bad) == LS_OK);
        size_t rest = 0;
        CHECK(ls_batch_filter(NULL, &files, &made.column, NULL, from, total, NULL, all, &rest,
                              &later, &bad) == LS_OK);
        CHECK(rest == total - from && later.ruled_out == 0);
        ls_batch_filter_items(&own, &files, &made.column, all, &rest, &later);
        CHECK(rest == count && later.ruled_out == counts.ruled_out);
        for (size_t i = 0; i < count; i++) {
            CHECK(items[i].index == all[i].index && items[i].hash == all[i].hash);
            CHECK(items[i].hash == hashes[items[i].index]);
            CHECK(ls_filter_test(&above, keys[items[i].index]));
        }

        for (size_t i = 0; i < count; i++)
            size += keys[items[i].index].size;
        CHECK(ls_batch_key_bytes(&made.column, items, count) == size);
        uint8_t *data = room(size);
        int64_t *offsets = width == 0 ? NULL : room((count + 1) * sizeof *offsets);
        uint32_t *origins = room(count * sizeof *origins);
        ls_column taken;
        ls_batch_take_keys(&made.column, items, count, data, offsets, origins, &taken);
        CHECK(taken.length == count && taken.data_size == size);
        for (size_t i = 0; i < count; i++) {
            ls_slice key;
            CHECK(items[i].index == i && origins[i] == all[i].index);
            CHECK(ls_column_get(&taken, i, &key) == LS_OK && same(key, keys[origins[i]]));
        }

        /* Answers are put piece by piece: those of a piece, and no others. */
        const uint8_t deleted = 0;
        ls_slice *found = calloc(count + 1, sizeof *found);
        for (size_t i = 0; i < count; i++)
            if (below(3) != 0)
                found[i] = below(4) == 0 ? (ls_slice){&deleted, 0} : keys[origins[i]];
        size_t next = 0, put = 0, expected = 0;
        for (size_t start = from; start < total;) {
            size_t end = start + 1 + below(50);
            end = end < total ? end : total;
            ls_slice *answers = calloc(end - start, sizeof *answers);
            int gone = -1, is_gone = 0;
            put += ls_batch_put_answers(origins, found, count, &next, end, start, &deleted, answers,
                                        &gone);
            for (size_t i = 0; i < count; i++)
                if (origins[i] >= start && origins[i] < end) {
                    CHECK(answers[origins[i] - start].data == found[i].data);
                    CHECK(answers[origins[i] - start].size == found[i].size);
                    is_gone |= found[i].data == &deleted;
                    answers[origins[i] - start].data = NULL;
                }
            CHECK(gone == is_gone);
            for (size_t i = 0; i < end - start; i++)
                CHECK(answers[i].data == NULL);
            free(answers);
            start = end;
        }
        for (size_t i = 0; i < count; i++)
            expected += found[i].data != NULL;
        CHECK(put == expected && next == count);
        free(found);
        free(origins);
        free(offsets);
        free(data);
        free(items);
        free(all);
        free(hashes);
        free(keys);
        free_column(&made);
        free_file(&file);
    }
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
void test_batches_beside_a_cache(void) {
    made_file file = make_file(LS_ORDER_BYTES, COUNTED_KEYS, 300, 0);
    make_fences(&file.fences, &file.index, LS_ORDER_BYTES);
    made_column made = make_column(file.set.keys, file.set.count, 0);
    size_t count = 0, bad;
    ls_batch_item *routed = room(file.set.count * sizeof *routed);
    ls_batch_files files = only(&file, 1);
    ls_batch_counts counts = {0};
    CHECK(ls_batch_filter(NULL, &files, &made.column, NULL, 0, file.set.count, NULL, routed, &count,
                          &counts, &bad) == LS_OK);
    CHECK(ls_batch_route(&files, &made.column, routed, &count, &counts, &bad) == LS_OK);
    CHECK(count == file.set.count);
    for (size_t i = 0; i < file.blocks; i++)
        make_ready(&file, i);
    ls_batch_pin(&files, routed, count);
    taker cache = {.file = &file};
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, take_away, &cache) == 0);
    for (size_t round = 0; round < 500; round++) {
        ls_batch_item *items = copy(routed, count * sizeof *items);
        ls_slice *answers = calloc(count, sizeof *answers);
        size_t left = count;
        while (left > 0)
            CHECK(ls_batch_search(&files, &made.column, items, count, 0, NULL, answers, &left,
                                  &bad) == LS_OK);
        for (size_t i = 0; i < count; i++)
            CHECK(answers[i].data != NULL && same(answers[i], file.values[i]));
        free(items);
        free(answers);
    }
    __atomic_store_n(&cache.done, 1, __ATOMIC_RELAXED);
    CHECK(pthread_join(thread, NULL) == 0);
    ls_batch_unpin(&files, routed, count);
    check_pins(&file, NULL, 0);
    free(routed);
    free_column(&made);
    free_file(&file);
}
