#include "ls_batch.h"

/* Number of keys that one pass processes before the next one follows: enough to hide the latency of
 * memory, few enough for prefetched data to be in the first two caches when it is read. */
#define PASS 128

/* Number of bytes of a record that are prefetched: for more, the hardware detects a sequence. */
#define MOST_AHEAD 256

/* Number of answers that are prefetched before one is copied: they are in the blocks where they
 * were found. */
#define GATHER_AHEAD 16

/* Returns the index in its column of the i-th key of a batch. */
static inline size_t index_at(const uint32_t *places, size_t i) {
    return places == NULL ? i : places[i];
}

/* Returns the file that may have a key with a hash. */
static inline uint32_t file_of(uint32_t files, uint64_t hash) {
    /* Mostly their number is a power of two, which saves a division. */
    return (uint32_t)((files & (files - 1)) == 0 ? hash & (files - 1) : hash % files);
}

static void count_ruled_out(const uint32_t *owners, const uint8_t *maybe, size_t count,
                            ls_batch_counts *counts) {
    for (size_t i = 0; i < count; i++)
        counts[owners[i]].ruled_out += maybe[i] == 0;
}

/* Chooses the files of the keys [from, to): the known ones, or by ranges, or by their hashes. */
static inline void choose_files(const uint32_t *known, const ls_file_ranges *ranges, uint32_t count,
                                const ls_column *keys, const uint32_t *places, size_t from,
                                size_t to, const uint64_t *hashes, uint32_t *owners) {
    uint64_t numbers[PASS];
    if (known != NULL)
        for (size_t i = from; i < to; i++)
            owners[i - from] = known[index_at(places, i)];
    else if (ranges != NULL) {
        ls_file_ranges_numbers(ranges, keys, places, from, to, numbers);
        ls_file_ranges_route(ranges, numbers, keys, places, from, to, owners);
    } else
        for (size_t i = from; i < to; i++)
            owners[i - from] = file_of(count, hashes[i - from]);
}

ls_status ls_batch_filter(const ls_filter *const *filters, const ls_batch_files *files,
                          const ls_column *keys, const uint32_t *places, size_t from, size_t to,
                          const uint64_t *hashes, ls_batch_item *items, size_t *count,
                          ls_batch_counts *counts, size_t *bad) {
    return ls_batch_filter_owned(NULL, NULL, filters, files, keys, places, from, to, hashes, items,
                                 count, counts, bad);
}

ls_status ls_batch_filter_owned(const uint32_t *known, const ls_file_ranges *ranges,
                                const ls_filter *const *filters, const ls_batch_files *files,
                                const ls_column *keys, const uint32_t *places, size_t from,
                                size_t to, const uint64_t *hashes, ls_batch_item *items,
                                size_t *count, ls_batch_counts *counts, size_t *bad) {
    uint64_t made[PASS];
    uint32_t owners[PASS] = {0}; /* the files of these keys */
    uint8_t maybe[PASS];
    size_t kept = 0;
    ls_order order = files->order;
    *count = 0;
    for (size_t start = from; start < to; start += PASS) {
        size_t end = start + PASS < to ? start + PASS : to;
        const uint64_t *some = made; /* hashes of these keys */
        if (places != NULL) {
            for (size_t i = start; i < end; i++)
                made[i - start] = keys->hashes[places[i]];
        } else if (hashes != NULL) {
            some = hashes + (start - from);
        } else {
            ls_status status = ls_hash_column(keys, start, end, made, bad);
            if (status != LS_OK)
                return status;
        }
        if (order != LS_ORDER_BYTES) { /* a key of a wrong size is refused regardless of its hash */
            for (size_t i = start; i < end; i++) {
                size_t index = index_at(places, i);
                ls_slice key = {NULL, 0};
                (void)ls_column_get(keys, index, &key);
                if (ls_column_is_valid(keys, index) && ls_check_key(order, key) != LS_OK) {
                    *bad = index;
                    return LS_BAD_KEY;
                }
            }
        }
        if (files->count > 1) {
            choose_files(known, ranges, files->count, keys, places, start, end, some, owners);
            for (size_t i = 0; i < end - start; i++)
                counts[owners[i]].asked = 1;
        }
        if (filters == NULL)
            memset(maybe, 1, end - start);
        else if (files->count == 1)
            ls_filter_test_many(filters[0], keys, places, start, end, some, maybe);
        else
            ls_filter_test_each(filters, owners, keys, places, start, end, some, maybe);
        if (filters != NULL && files->count > 1)
            count_ruled_out(owners, maybe, end - start, counts);
        for (size_t i = start; i < end;) {
            size_t stop = end - i < sizeof(uint64_t) ? end : i + sizeof(uint64_t);
            uint64_t any = 1;
            if (stop - i == sizeof any)
                memcpy(&any, maybe + (i - start), sizeof any);
            if (any == 0) /* the filter of a run of changes excludes nearly all keys */
                i = stop;
            for (; i < stop; i++) {
                items[kept].hash = some[i - start];
                items[kept].index = (uint32_t)index_at(places, i);
                items[kept].file = owners[i - start];
                kept += maybe[i - start];
            }
        }
    }
    if (keys->validity != NULL) {
        size_t valid = 0;
        for (size_t i = 0; i < kept; i++) {
            int is_valid = ls_column_is_valid(keys, items[i].index);
            if (!is_valid && filters != NULL && files->count > 1)
                counts[items[i].file].ruled_out++;
            items[valid] = items[i];
            valid += (size_t)is_valid;
        }
        kept = valid;
    }
    if (files->count == 1) {
        counts->asked = 1;
        counts->ruled_out += filters == NULL ? 0 : to - from - kept;
    }
    *count = kept;
    return LS_OK;
}

/* Number of parts into which the hashes of a stretch are sorted: the part of a filter that the keys of
 * one part read fits into the first cache of a processor, up to millions of records. */
#define PART_BITS 10
#define PARTS (1 << PART_BITS)

void ls_batch_order(const ls_column *keys, size_t from, size_t to, const uint64_t *numbers,
                    ls_batch_stretch *stretch) {
    uint32_t next[PARTS] = {0}, start = 0;
    stretch->least = UINT64_MAX;
    stretch->greatest = 0;
    for (size_t i = from; i < to; i++)
        next[keys->hashes[i] >> (64 - PART_BITS)] += (uint32_t)ls_column_is_valid(keys, i);
    for (size_t part = 0; part < PARTS; part++) {
        uint32_t size = next[part];
        next[part] = start;
        start += size;
    }
    stretch->count = start;
    for (size_t i = from; i < to; i++) {
        if (!ls_column_is_valid(keys, i))
            continue;
        uint64_t number = numbers[i - from];
        uint32_t at = next[keys->hashes[i] >> (64 - PART_BITS)]++;
        stretch->indices[at] = (uint32_t)i;
        stretch->hashes[at] = keys->hashes[i];
        stretch->numbers[at] = number;
        stretch->least = number < stretch->least ? number : stretch->least;
        stretch->greatest = number > stretch->greatest ? number : stretch->greatest;
    }
}

/* Some keys of a stretch, each with the file in whose range it is. */
typedef struct {
    const uint32_t *indices;
    const uint64_t *hashes;
    size_t count;
    uint32_t owners[PASS];
    uint32_t own_indices[PASS];
    uint64_t own_hashes[PASS];
} ls_batch_inside;

/* Finds the keys [start, end) of a stretch that are inside a range. */
static void choose_inside(const ls_file_ranges *ranges, const ls_column *keys,
                          const ls_batch_stretch *stretch, size_t start, size_t end,
                          ls_batch_inside *found) {
    uint64_t own[PASS];
    const uint64_t *numbers = stretch->numbers + start;
    const uint32_t *indices = stretch->indices + start;
    const uint64_t *hashes = stretch->hashes + start;
    size_t size = 0;
    found->indices = indices;
    found->hashes = hashes;
    found->count = end - start;
    if (ranges->shared > 0) {
        ls_file_ranges_numbers(ranges, keys, indices, 0, end - start, own);
        numbers = own;
    }
    ls_file_ranges_route(ranges, numbers, keys, indices, 0, end - start, found->owners);
    if (ranges->count == 1 && ls_file_ranges_inside(ranges, 0, stretch->least) &&
        ls_file_ranges_inside(ranges, 0, stretch->greatest))
        return;
    for (size_t i = 0; i < end - start; i++) {
        uint32_t owner = found->owners[i];
        found->own_indices[size] = indices[i];
        found->own_hashes[size] = hashes[i];
        found->owners[size] = owner;
        size += (size_t)ls_file_ranges_inside(ranges, owner, numbers[i]);
    }
    found->indices = found->own_indices;
    found->hashes = found->own_hashes;
    found->count = size;
}

void ls_batch_filter_inside(const ls_file_ranges *ranges, const ls_filter *const *filters,
                            uint32_t first, const ls_column *keys, const ls_batch_stretch *stretch,
                            ls_batch_item *items, size_t *count, ls_batch_counts *counts) {
    ls_batch_inside found;
    uint8_t maybe[PASS];
    size_t kept = *count;
    for (size_t start = 0; start < stretch->count; start += PASS) {
        size_t end = start + PASS < stretch->count ? start + PASS : stretch->count, passed = 0;
        choose_inside(ranges, keys, stretch, start, end, &found);
        size_t size = found.count;
        if (size == 0)
            continue;
        if (ranges->count == 1)
            ls_filter_test_many(filters[0], keys, found.indices, 0, size, found.hashes, maybe);
        else
            ls_filter_test_each(filters, found.owners, keys, found.indices, 0, size, found.hashes,
                                maybe);
        for (size_t i = 0; i < size;) {
            size_t stop = size - i < sizeof(uint64_t) ? size : i + sizeof(uint64_t);
            uint64_t any = 1;
            if (stop - i == sizeof any)
                memcpy(&any, maybe + i, sizeof any);
            if (any == 0) /* most keys are in other files */
                i = stop;
            for (; i < stop; i++) {
                items[kept] =
                    (ls_batch_item){found.hashes[i], found.indices[i], first + found.owners[i], 0};
                kept += maybe[i];
                passed += maybe[i];
            }
        }
        if (ranges->count == 1) {
            counts->asked = 1;
            counts->ruled_out += size - passed;
            continue;
        }
        for (size_t i = 0; i < size; i++)
            counts[found.owners[i]].asked = 1;
        count_ruled_out(found.owners, maybe, size, counts);
    }
    *count = kept;
}

size_t ls_batch_key_bytes(const ls_column *keys, const ls_batch_item *items, size_t count) {
    size_t size = 0;
    if (keys->offset_width == 0)
        return count * keys->width;
    for (size_t i = 0; i < count; i++) {
        ls_slice key = {NULL, 0};
        (void)ls_column_get(keys, items[i].index, &key);
        size += key.size;
    }
    return size;
}

void ls_batch_take_keys(const ls_column *keys, ls_batch_item *items, size_t count, uint8_t *data,
                        int64_t *offsets, uint32_t *origins, ls_column *taken) {
    size_t size = 0;
    for (size_t i = 0; i < count; i++) {
        ls_slice key = {NULL, 0};
        (void)ls_column_get(keys, items[i].index, &key);
        if (offsets != NULL)
            offsets[i] = (int64_t)size;
        if (key.size > 0)
            memcpy(data + size, key.data, key.size);
        size += key.size;
        origins[i] = items[i].index;
        items[i].index = (uint32_t)i;
    }
    *taken = (ls_column){.data = data, .data_size = size, .width = keys->width, .length = count};
    if (offsets != NULL) {
        offsets[count] = (int64_t)size;
        taken->offsets = offsets;
        taken->offset_width = 8;
    }
}

size_t ls_batch_put_answers(const uint32_t *origins, const ls_slice *found, size_t count,
                            size_t *next, size_t limit, size_t first, const uint8_t *deleted,
                            ls_slice *answers, int *gone) {
    size_t put = 0, i = *next;
    *gone = 0;
    for (; i < count && origins[i] < limit; i++) {
        if (found[i].data == NULL)
            continue;
        answers[origins[i] - first] = found[i];
        if (found[i].size > 0) { /* it was found long before it is copied */
            LS_PREFETCH(found[i].data);
            LS_PREFETCH(found[i].data + found[i].size - 1);
        }
        *gone |= found[i].data == deleted;
        put++;
    }
    *next = i;
    return put;
}

void ls_batch_filter_items(const ls_filter *const *filters, const ls_batch_files *files,
                           const ls_column *keys, ls_batch_item *items, size_t *count,
                           ls_batch_counts *counts) {
    uint64_t hashes[PASS];
    uint32_t places[PASS], owners[PASS];
    uint8_t maybe[PASS];
    size_t kept = 0;
    for (size_t start = 0; start < *count; start += PASS) {
        size_t size = *count - start < PASS ? *count - start : PASS;
        for (size_t i = 0; i < size; i++) {
            hashes[i] = items[start + i].hash;
            places[i] = items[start + i].index;
            owners[i] = items[start + i].file;
            counts[owners[i]].asked = 1;
        }
        if (files->count == 1)
            ls_filter_test_many(filters[0], keys, places, 0, size, hashes, maybe);
        else
            ls_filter_test_each(filters, owners, keys, places, 0, size, hashes, maybe);
        count_ruled_out(owners, maybe, size, counts);
        for (size_t i = 0; i < size; i++) {
            items[kept] = items[start + i];
            kept += maybe[i];
        }
    }
    *count = kept;
}

ls_status ls_batch_route(const ls_batch_files *files, const ls_column *keys, ls_batch_item *items,
                         size_t *count, ls_batch_counts *counts, size_t *bad) {
    ls_slice some[LS_ROUTES];
    const ls_fences *fences[LS_ROUTES];
    uint32_t blocks[LS_ROUTES];
    size_t kept = 0;
    for (size_t start = 0; start < *count; start += LS_ROUTES) {
        size_t size = *count - start < LS_ROUTES ? *count - start : LS_ROUTES;
        for (size_t i = 0; i < size; i++) {
            (void)ls_column_get(keys, items[start + i].index, &some[i]);
            fences[i] = files->files[items[start + i].file].fences;
        }
        ls_status status = files->count == 1 ? ls_fences_route_many(fences[0], some, size, blocks)
                                             : ls_fences_route_each(fences, some, size, blocks);
        if (status != LS_OK) {
            size_t i = 0;
            while (i + 1 < size && ls_fences_route(fences[i], some[i], &blocks[i]) == LS_OK)
                i++;
            *bad = start + i;
            return status;
        }
        for (size_t i = 0; i < size; i++) {
            const ls_batch_file *file = &files->files[items[start + i].file];
            items[kept] = items[start + i];
            items[kept].block = blocks[i];
            if (blocks[i] < file->blocks) {
                LS_PREFETCH(&file->ready[blocks[i]]);
                kept++;
            }
        }
    }
    if (files->count == 1)
        counts->routed += kept;
    else
        for (size_t i = 0; i < kept; i++)
            counts[items[i].file].routed++;
    *count = kept;
    return LS_OK;
}

void ls_batch_pin(const ls_batch_files *files, const ls_batch_item *items, size_t count) {
    for (size_t i = 0; i < count; i++) {
        const ls_batch_file *file = &files->files[items[i].file];
        if (file->pins == NULL)
            continue;
        __atomic_fetch_add(&file->pins[items[i].block], 1, __ATOMIC_SEQ_CST);
        ls_ready_use(&file->used[items[i].block]);
    }
}

void ls_batch_unpin(const ls_batch_files *files, const ls_batch_item *items, size_t count) {
    for (size_t i = 0; i < count; i++) {
        uint32_t *pins = files->files[items[i].file].pins;
        if (pins != NULL)
            __atomic_fetch_sub(&pins[items[i].block & ~LS_SEARCHED], 1, __ATOMIC_SEQ_CST);
    }
}

static inline size_t block_among_all(const ls_batch_files *files, ls_batch_item item) {
    return files->files[item.file].first + item.block;
}

/* Takes items as ls_batch_take_missing does, each moved behind those of earlier blocks. */
static size_t take_few_missing(const ls_batch_files *files, ls_batch_item *items, size_t *count,
                               ls_batch_item *taken) {
    size_t kept = 0, missing = 0;
    for (size_t i = 0; i < *count; i++) {
        ls_batch_item item = items[i];
        if (item.block & LS_SEARCHED) {
            items[kept++] = item;
            continue;
        }
        ls_batch_unpin(files, &item, 1);
        size_t block = block_among_all(files, item), at = missing++;
        for (; at > 0 && block_among_all(files, taken[at - 1]) > block; at--)
            taken[at] = taken[at - 1];
        taken[at] = item;
    }
    *count = kept;
    return missing;
}

size_t ls_batch_take_missing(const ls_batch_files *files, ls_batch_item *items, size_t *count,
                             uint32_t *starts, size_t blocks, ls_batch_item *taken) {
    size_t kept = 0, missing = 0;
    if (starts == NULL)
        return take_few_missing(files, items, count, taken);
    /* Pins are released in this loop: each release waits until all earlier writes have reached the
     * cache, which takes long where items are moved. */
    for (size_t i = 0; i < *count; i++)
        if (!(items[i].block & LS_SEARCHED)) {
            starts[block_among_all(files, items[i]) + 1]++;
            ls_batch_unpin(files, &items[i], 1);
        }
    for (size_t i = 0; i < blocks; i++)
        starts[i + 1] += starts[i];
    for (size_t i = 0; i < *count; i++) {
        ls_batch_item item = items[i];
        if (item.block & LS_SEARCHED) {
            items[kept++] = item;
            continue;
        }
        taken[starts[block_among_all(files, item)]++] = item;
        missing++;
    }
    *count = kept;
    return missing;
}

/* Prefetches a record of about that size. */
static inline void prefetch_record(const uint8_t *record, size_t size) {
    if (size > MOST_AHEAD)
        size = MOST_AHEAD;
    for (size_t at = 0; at < size; at += 64)
        LS_PREFETCH(record + at);
    LS_PREFETCH(record + size - 1);
}

void ls_batch_drop_answered(ls_batch_item *items, size_t *count, size_t first,
                            const ls_slice *answers) {
    size_t kept = 0;
    for (size_t i = 0; i < *count; i++) {
        items[kept] = items[i];
        kept += (size_t)(answers[items[i].index - first].data == NULL);
    }
    *count = kept;
}

void ls_batch_forget_deleted(const uint32_t *places, size_t from, size_t to, size_t first,
                             const uint8_t *deleted, ls_slice *answers) {
    for (size_t i = from; i < to; i++) {
        ls_slice *answer = &answers[index_at(places, i) - first];
        if (answer->data == deleted)
            answer->data = NULL;
    }
}

/* Converts a value of a run of changes that was found to the answer. */
static inline ls_status of_kind(ls_slice *answer, const uint8_t *deleted) {
    if (answer->data == NULL)
        return LS_OK;
    if (answer->size == 0)
        return LS_BAD_RECORD;
    if (answer->data[0] == LS_KIND_ROW) {
        answer->data++;
        answer->size--;
        return LS_OK;
    }
    if (answer->data[0] != LS_KIND_TOMBSTONE || answer->size != 1)
        return LS_BAD_RECORD;
    answer->data = deleted;
    answer->size = 0;
    return LS_OK;
}

/* State of the items of a pass before their records are read. */
typedef struct {
    const uint8_t *records[PASS]; /* where each may be in its file; NULL: unknown */
    uint32_t plain[PASS]; /* the items that are looked up only in their file, */
    uint32_t changed[PASS]; /* and those that may be in a run of changes */
    size_t plain_count, changed_count;
} ls_batch_pass;

/* Prefetches the buckets of the items of a pass, and reads them; then prefetches what they refer
 * to: the record or, for a key that may have changed, its bucket of changes. Items that need a
 * second look get it after all items had the first, so that no item waits for another: the few keys
 * with no place of their mark in their bucket, or with several, and those that may have changed. */
static inline void find_records(const ls_batch_files *files, const ls_batch_item *items,
                                size_t count, ls_batch_pass *pass) {
    uint32_t odd[PASS], found[PASS];
    size_t odds = 0, plain = 0, changes = 0;
    const uint8_t **records = pass->records;
    for (size_t i = 0; i < count; i++) {
        const ls_places *places = files->files[items[i].file].places;
        if (places != NULL)
            LS_PREFETCH(ls_places_bucket_of(places, items[i].hash));
    }
    for (size_t i = 0; i < count; i++) {
        const ls_batch_file *file = &files->files[items[i].file];
        const ls_places *places = file->places;
        size_t is_changed = 0;
        records[i] = NULL;
        if (places != NULL) {
            const ls_places_bucket *bucket = ls_places_bucket_of(places, items[i].hash);
            uint32_t match = ls_places_match(bucket, ls_places_mark(items[i].hash));
            odd[odds] = (uint32_t)i;
            found[odds] = match;
            odds += (size_t)(match == 0 || (match & (match - 1)) != 0);
            is_changed = (file->changes != NULL) &
                         ((ls_places_high(bucket) & ls_places_changed(match, items[i].hash)) != 0);
            if (match != 0)
                records[i] = ls_places_record(places, bucket, match);
            if (is_changed)
                LS_PREFETCH(ls_places_bucket_of(&file->changes->table, items[i].hash));
            else if (match != 0)
                prefetch_record(records[i], places->record);
        }
        pass->changed[changes] = (uint32_t)i;
        changes += is_changed;
        pass->plain[plain] = (uint32_t)i;
        plain += !is_changed;
    }
    for (size_t n = 0; n < odds; n++) {
        const ls_places *places = files->files[items[odd[n]].file].places;
        const ls_places_bucket *bucket = ls_places_bucket_of(places, items[odd[n]].hash);
        if (found[n] == 0)
            LS_PREFETCH(ls_places_next(places, bucket));
        else
            prefetch_record(ls_places_record(places, bucket, found[n] & (found[n] - 1)),
                            places->record);
    }
    for (size_t n = 0; n < odds; n++) {
        const ls_places *places = files->files[items[odd[n]].file].places;
        const ls_places_bucket *bucket = ls_places_bucket_of(places, items[odd[n]].hash);
        if (found[n] != 0 || !(ls_places_high(bucket) & LS_PLACES_GO_ON))
            continue;
        bucket = ls_places_next(places, bucket);
        uint32_t match = ls_places_match(bucket, ls_places_mark(items[odd[n]].hash));
        if (match != 0) {
            records[odd[n]] = ls_places_record(places, bucket, match);
            prefetch_record(records[odd[n]], places->record);
        }
    }
    for (size_t n = 0; n < changes; n++) {
        const ls_batch_item *item = &items[pass->changed[n]];
        const uint8_t *record = records[pass->changed[n]];
        const ls_changes *all = files->files[item->file].changes;
        const ls_places_bucket *bucket = ls_places_bucket_of(&all->table, item->hash);
        uint32_t match = ls_places_match(bucket, ls_places_mark(item->hash)), run;
        if (match != 0)
            prefetch_record(ls_changes_record(all, ls_places_at(bucket, match), &run),
                            all->table.record);
        else if (record != NULL)
            prefetch_record(record, files->files[item->file].places->record);
    }
    pass->plain_count = plain;
    pass->changed_count = changes;
}

/* Looks up an item in the places of its file. `record`: where it may be, or NULL. */
static inline ls_status find_in_places(const ls_batch_file *file, ls_slice key, uint64_t hash,
                                       const uint8_t *record, const uint8_t *deleted,
                                       ls_slice *answer, uint64_t *at) {
    const ls_places *places = file->places;
    ls_status status = LS_OK;
    int same = 0;
    if (record != NULL) {
        *at = (uint64_t)(record - places->data);
        status = ls_record_at(record, places->data + places->size, key, &same, answer);
    }
    if (status == LS_OK && !same)
        status = ls_places_get(places, key, hash, answer, at);
    if (status == LS_OK && deleted != NULL && file->is_run)
        status = of_kind(answer, deleted);
    return status;
}

/* Looks up an item in the changes above its file; *done: whether one of them has its key. */
static inline ls_status find_in_changes(const ls_changes *changes, ls_slice key, uint64_t hash,
                                        ls_slice *answer, int *done, uint32_t *run, uint64_t *at) {
    ls_status status = ls_changes_get(changes, key, hash, answer, run, at);
    *done = answer->data != NULL;
    return status == LS_OK ? of_kind(answer, NULL) : status;
}

size_t ls_batch_buckets_at(const ls_batch_files *files, const ls_batch_item *items, size_t count,
                           size_t step, const uint8_t **at) {
    size_t found = 0;
    for (size_t i = 0; i < count; i += step) {
        const ls_places *places = files->files[items[i].file].places;
        if (places != NULL)
            at[found++] = (const uint8_t *)ls_places_bucket_of(places, items[i].hash);
    }
    return found;
}

size_t ls_batch_records_at(const ls_batch_files *files, const ls_batch_item *items, size_t count,
                           size_t step, const uint8_t **at) {
    size_t found = 0;
    for (size_t i = 0; i < count; i += step) {
        const ls_places *places = files->files[items[i].file].places;
        if (places == NULL)
            continue;
        const ls_places_bucket *bucket = ls_places_bucket_of(places, items[i].hash);
        uint32_t match = ls_places_match(bucket, ls_places_mark(items[i].hash));
        if (match != 0 && ls_places_at(bucket, match) < places->size)
            at[found++] = ls_places_record(places, bucket, match);
    }
    return found;
}

ls_status ls_batch_find(const ls_batch_files *files, const ls_column *keys, ls_batch_item *items,
                        size_t *count, ls_batch_counts *counts, size_t first,
                        const uint8_t *deleted, ls_slice *answers, size_t *bad, uint32_t *run,
                        uint64_t *at) {
    ls_batch_pass pass;
    size_t kept = 0;
    for (size_t start = 0; start < *count; start += PASS) {
        size_t size = *count - start < PASS ? *count - start : PASS, left = 0;
        const ls_batch_item *piece = items + start;
        uint8_t is_left[PASS];
        find_records(files, piece, size, &pass);
        for (size_t n = 0; n < size; n++) {
            int may_have_changed = n >= pass.plain_count;
            uint32_t i = may_have_changed ? pass.changed[n - pass.plain_count] : pass.plain[n];
            const ls_batch_item item = piece[i];
            const ls_batch_file *file = &files->files[item.file];
            ls_slice key = {NULL, 0}, *answer = &answers[item.index - first];
            ls_status status = LS_OK;
            int done = 0;
            if (file->places != NULL) {
                (void)ls_column_get(keys, item.index, &key);
                if (may_have_changed) {
                    counts[item.file].changed++;
                    status = find_in_changes(file->changes, key, item.hash, answer, &done, run, at);
                }
                if (status == LS_OK && !done) {
                    *run = LS_CHANGES_RUNS;
                    status =
                        find_in_places(file, key, item.hash, pass.records[i], deleted, answer, at);
                    done = 1; /* all records of the file have places */
                    counts[item.file].routed += (uint64_t)(answer->data != NULL);
                    if ((status != LS_OK || answer->data == NULL) &&
                        ls_places_unchecked(file->places)) {
                        *answer = (ls_slice){NULL, 0};
                        status = LS_OK;
                        done = 0;
                    }
                }
                if (status != LS_OK) {
                    *bad = start + i;
                    return status;
                }
            }
            is_left[i] = (uint8_t)!done;
            left += !done;
        }
        for (size_t i = 0; left > 0 && i < size; i++) {
            items[kept] = piece[i];
            kept += is_left[i];
        }
    }
    *count = kept;
    return LS_OK;
}

/* Prefetches a key, or its address, of items in another order than their keys. */
static inline void prefetch_key(const ls_column *keys, size_t index) {
    if (keys->offset_width == 0)
        LS_PREFETCH(keys->data + index * keys->width);
    else
        LS_PREFETCH((const uint8_t *)keys->offsets + index * (size_t)keys->offset_width);
}

/* Prefetches a key once its address is in the cache. */
static inline void prefetch_key_bytes(const ls_column *keys, size_t index) {
    ls_slice key;
    if (ls_column_get(keys, index, &key) == LS_OK)
        LS_PREFETCH(key.data);
}

ls_status ls_batch_search(const ls_batch_files *files, const ls_column *keys, ls_batch_item *items,
                          size_t count, size_t first, const uint8_t *deleted, ls_slice *answers,
                          size_t *left, size_t *bad) {
    ls_ready blocks[PASS]; /* of the items to search; data NULL: done, or not ready */
    uint32_t slots[PASS]; /* LS_NO_SLOT: search again, with the slow method */
    *left = 0;
    for (size_t start = 0; start < count; start += PASS) {
        size_t size = count - start < PASS ? count - start : PASS;
        ls_batch_item *piece = items + start;
        for (size_t i = 0; i < size; i++) {
            if (piece[i].block & LS_SEARCHED) {
                blocks[i].data = NULL;
                continue;
            }
            prefetch_key(keys, piece[i].index);
            LS_PREFETCH(&answers[piece[i].index - first]);
            blocks[i] = ls_ready_seen(&files->files[piece[i].file].ready[piece[i].block]);
            if (blocks[i].data == NULL)
                ++*left;
            else if (blocks[i].slots != NULL)
                LS_PREFETCH(ls_slots_bucket(&blocks[i], piece[i].hash));
        }
        for (size_t i = 0; i < size; i++) {
            const ls_ready *block = &blocks[i];
            slots[i] = LS_NO_SLOT;
            if (block->data == NULL)
                continue;
            piece[i].block |= LS_SEARCHED;
            if (keys->offset_width != 0)
                prefetch_key_bytes(keys, piece[i].index);
            if (block->slots == NULL)
                continue;
            const uint32_t *bucket = ls_slots_bucket(block, piece[i].hash);
            uint32_t match = ls_slots_match(bucket, block->mask, piece[i].hash);
            if (match != 0) {
                slots[i] = bucket[__builtin_ctz(match)];
                if (slots[i] != LS_NO_SLOT)
                    prefetch_record(block->data + (slots[i] & block->mask), block->record);
            } else if (!ls_slots_full(bucket)) {
                blocks[i].data = NULL;
            }
        }
        for (size_t i = 0; i < size; i++) {
            const ls_ready *block = &blocks[i];
            if (block->data == NULL)
                continue;
            ls_slice key = {NULL, 0}, *answer = &answers[piece[i].index - first];
            ls_status status = LS_OK;
            int same = 0;
            (void)ls_column_get(keys, piece[i].index, &key);
            if (slots[i] != LS_NO_SLOT)
                status = ls_ready_record(block, slots[i] & block->mask, key, &same, answer);
            if (status == LS_OK && !same)
                status = ls_ready_get(block, files->order, key, piece[i].hash, answer);
            if (status == LS_OK && deleted != NULL && files->files[piece[i].file].is_run)
                status = of_kind(answer, deleted);
            if (status != LS_OK) {
                *bad = start + i;
                return status;
            }
        }
    }
    return LS_OK;
}

size_t ls_batch_stage_size(const ls_batch_item *items, size_t count, size_t first,
                           const ls_slice *answers) {
    size_t size = 0;
    for (size_t i = 0; i < count; i++)
        if (items[i].block & LS_SEARCHED)
            size += answers[items[i].index - first].size;
    return size;
}

void ls_batch_stage(const ls_batch_item *items, size_t count, size_t first, const uint8_t *deleted,
                    ls_slice *answers, uint8_t *arena) {
    for (size_t i = 0; i < count; i++) {
        ls_slice *answer = &answers[items[i].index - first];
        if (!(items[i].block & LS_SEARCHED) || answer->data == NULL || answer->data == deleted)
            continue;
        if (answer->size > 0)
            memcpy(arena, answer->data, answer->size);
        answer->data = arena;
        arena += answer->size;
    }
}

size_t ls_batch_size(const ls_slice *answers, size_t count) {
    size_t size = 0;
    for (size_t i = 0; i < count; i++)
        size += answers[i].size;
    return size;
}

size_t ls_batch_gather(const ls_slice *answers, size_t count, int64_t *offsets, uint8_t *validity,
                       uint8_t *data) {
    int64_t end = offsets[0];
    size_t missing = 0;
    for (size_t i = 0; i < count; i++) {
        if (i + GATHER_AHEAD < count && answers[i + GATHER_AHEAD].size > 0)
            prefetch_record(answers[i + GATHER_AHEAD].data, answers[i + GATHER_AHEAD].size);
        if (answers[i].data == NULL) {
            missing++;
        } else {
            validity[i >> 3] |= (uint8_t)(1U << (i & 7));
            ls_copy(data + end, answers[i].data, answers[i].size);
            end += (int64_t)answers[i].size;
        }
        offsets[i + 1] = end;
    }
    return missing;
}

size_t ls_batch_found(const ls_slice *answers, size_t count, uint8_t *bitmap) {
    size_t missing = 0;
    for (size_t i = 0; i < count; i++) {
        if (answers[i].data == NULL)
            missing++;
        else
            bitmap[i >> 3] |= (uint8_t)(1U << (i & 7));
    }
    return missing;
}
