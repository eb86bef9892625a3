#include "ls_batch.h"

/* Keys that one pass takes before the next one follows: enough to hide what memory takes, few
 * enough for what was asked for to be in the first two caches when it is touched. */
#define PASS 128

/* Bytes of a record that are asked for ahead: for more the hardware sees a sequence. */
#define MOST_AHEAD 256

/* Which key of its column the i-th one of a batch is. */
static inline size_t index_at(const uint32_t *places, size_t i) {
    return places == NULL ? i : places[i];
}

ls_status ls_batch_filter(const ls_filter *filter, ls_order order, const ls_column *keys,
                          const uint32_t *places, size_t from, size_t to, const uint64_t *hashes,
                          ls_batch_item *items, size_t *count, size_t *bad) {
    uint64_t made[PASS];
    uint8_t maybe[PASS];
    size_t kept = 0;
    *count = 0;
    for (size_t start = from; start < to; start += PASS) {
        size_t end = start + PASS < to ? start + PASS : to;
        const uint64_t *some = made; /* of these keys */
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
        if (order != LS_ORDER_BYTES) { /* a key of a wrong size is refused whatever its hash says */
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
        ls_filter_test_many(filter, keys, places, start, end, some, maybe);
        for (size_t i = start; i < end;) {
            size_t stop = end - i < sizeof(uint64_t) ? end : i + sizeof(uint64_t);
            uint64_t any = 1;
            if (stop - i == sizeof any)
                memcpy(&any, maybe + (i - start), sizeof any);
            if (any == 0) /* the filter of a run of changes rules nearly all keys out */
                i = stop;
            for (; i < stop; i++) {
                items[kept].hash = some[i - start];
                items[kept].index = (uint32_t)index_at(places, i);
                kept += maybe[i - start];
            }
        }
    }
    if (keys->validity != NULL) {
        size_t valid = 0;
        for (size_t i = 0; i < kept; i++) {
            items[valid] = items[i];
            valid += (size_t)ls_column_is_valid(keys, items[i].index);
        }
        kept = valid;
    }
    *count = kept;
    return LS_OK;
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
        if (found[i].size > 0) { /* it was found long before it is taken */
            LS_PREFETCH(found[i].data);
            LS_PREFETCH(found[i].data + found[i].size - 1);
        }
        *gone |= found[i].data == deleted;
        put++;
    }
    *next = i;
    return put;
}

void ls_batch_filter_items(const ls_filter *filter, const ls_column *keys, ls_batch_item *items,
                           size_t *count) {
    uint64_t hashes[PASS];
    uint32_t places[PASS];
    uint8_t maybe[PASS];
    size_t kept = 0;
    for (size_t start = 0; start < *count; start += PASS) {
        size_t size = *count - start < PASS ? *count - start : PASS;
        for (size_t i = 0; i < size; i++) {
            hashes[i] = items[start + i].hash;
            places[i] = items[start + i].index;
        }
        ls_filter_test_many(filter, keys, places, 0, size, hashes, maybe);
        for (size_t i = 0; i < size; i++) {
            items[kept] = items[start + i];
            kept += maybe[i];
        }
    }
    *count = kept;
}

ls_status ls_batch_route(const ls_fences *fences, const ls_ready *ready, const ls_column *keys,
                         ls_batch_item *items, size_t *count) {
    ls_slice some[LS_ROUTES];
    uint32_t blocks[LS_ROUTES];
    size_t kept = 0;
    for (size_t start = 0; start < *count; start += LS_ROUTES) {
        size_t size = *count - start < LS_ROUTES ? *count - start : LS_ROUTES;
        for (size_t i = 0; i < size; i++)
            (void)ls_column_get(keys, items[start + i].index, &some[i]);
        ls_status status = ls_fences_route_many(fences, some, size, blocks);
        if (status != LS_OK)
            return status;
        for (size_t i = 0; i < size; i++) {
            items[kept] = items[start + i];
            items[kept].block = blocks[i];
            if (blocks[i] < fences->index->count) {
                LS_PREFETCH(&ready[blocks[i]]);
                kept++;
            }
        }
    }
    *count = kept;
    return LS_OK;
}

void ls_batch_pin(uint32_t *pins, uint8_t *used, const ls_batch_item *items, size_t count) {
    for (size_t i = 0; i < count; i++) {
        __atomic_fetch_add(&pins[items[i].block], 1, __ATOMIC_SEQ_CST);
        ls_ready_use(&used[items[i].block]);
    }
}

void ls_batch_unpin(uint32_t *pins, const ls_batch_item *items, size_t count) {
    for (size_t i = 0; i < count; i++)
        __atomic_fetch_sub(&pins[items[i].block & ~LS_SEARCHED], 1, __ATOMIC_SEQ_CST);
}

void ls_batch_missing(const ls_ready *ready, const ls_batch_item *items, size_t count,
                      uint8_t *bitmap) {
    for (size_t i = 0; i < count; i++) {
        uint32_t block = items[i].block;
        if (!(block & LS_SEARCHED) && ls_ready_data(&ready[block]) == NULL)
            bitmap[block >> 3] |= (uint8_t)(1U << (block & 7));
    }
}

static inline void prefetch_record(const ls_ready *ready, uint32_t offset) {
    const uint8_t *record = ready->data + offset;
    uint32_t size = ready->record < MOST_AHEAD ? ready->record : MOST_AHEAD;
    for (uint32_t at = 0; at < size; at += 64)
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

/* Turns a value of a run of changes, which has been found, into the answer. */
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

ls_status ls_batch_search(const ls_ready *ready, ls_order order, const ls_column *keys,
                          ls_batch_item *items, size_t count, size_t first, const uint8_t *deleted,
                          ls_slice *answers, size_t *left, uint32_t *bad) {
    ls_ready blocks[PASS]; /* of items to look for; data NULL: done, or not ready */
    uint32_t slots[PASS]; /* LS_NO_SLOT: look again, with care */
    *left = 0;
    for (size_t start = 0; start < count; start += PASS) {
        size_t size = count - start < PASS ? count - start : PASS;
        ls_batch_item *piece = items + start;
        for (size_t i = 0; i < size; i++) {
            if (piece[i].block & LS_SEARCHED) {
                blocks[i].data = NULL;
                continue;
            }
            blocks[i] = ls_ready_seen(&ready[piece[i].block]);
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
            if (block->slots == NULL)
                continue;
            const uint32_t *bucket = ls_slots_bucket(block, piece[i].hash);
            uint32_t match = ls_slots_match(bucket, block->mask, piece[i].hash);
            if (match != 0) {
                slots[i] = bucket[__builtin_ctz(match)];
                if (slots[i] != LS_NO_SLOT)
                    prefetch_record(block, slots[i] & block->mask);
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
                status = ls_ready_get(block, order, key, piece[i].hash, answer);
            if (status == LS_OK && deleted != NULL)
                status = of_kind(answer, deleted);
            if (status != LS_OK) {
                *bad = piece[i].block & ~LS_SEARCHED;
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

size_t ls_batch_drop_searched(uint32_t *pins, ls_batch_item *items, size_t count) {
    size_t left = 0;
    for (size_t i = 0; i < count; i++) {
        ls_batch_item item = items[i];
        if (!(item.block & LS_SEARCHED))
            items[left++] = item;
        else if (pins != NULL)
            ls_batch_unpin(pins, &item, 1);
    }
    return left;
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
