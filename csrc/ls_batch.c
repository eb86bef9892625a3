#include "ls_batch.h"

/* How many items ahead memory is asked for that an item will touch: longer than a miss takes, short
 * enough for what comes to stay in the cache. */
#define AHEAD 16

/* Keys are visited in their order, which is any order in memory. */
static inline void prefetch_key(const ls_column *keys, const ls_sort_item *items, size_t count,
                                size_t i) {
    ls_slice key;
    if (i + AHEAD < count && ls_column_get(keys, items[i + AHEAD].index, &key) == LS_OK)
        __builtin_prefetch(key.data);
}

/* The answer for a key that the file may repeat: where Java's search over the whole block ends. */
static ls_status seek_repeated(const ls_block *block, ls_order order, ls_slice key,
                               uint32_t *position) {
    ls_slice next, value;
    int found;
    if (*position + 1 >= block->count)
        return LS_OK;
    ls_status status = ls_block_record(block, *position + 1, &next, &value);
    if (status == LS_OK)
        status = ls_check_key(order, next);
    if (status != LS_OK || ls_compare(order, next, key) != 0)
        return status;
    return ls_block_seek(block, order, key, position, &found);
}

ls_status ls_batch_route(const ls_block *index, ls_order order, int repeats, const ls_column *keys,
                         ls_sort_item *items, size_t count) {
    uint32_t from = 0;
    for (size_t i = 0; i < count; i++) {
        ls_slice key = {NULL, 0};
        uint32_t position;
        int found;
        prefetch_key(keys, items, count, i);
        (void)ls_column_get(keys, items[i].index, &key);
        ls_status status = ls_block_lower_bound(index, order, key, from, &position, &found);
        from = position;
        if (status == LS_OK && found && repeats)
            status = seek_repeated(index, order, key, &position);
        if (status != LS_OK)
            return status;
        items[i].block = position;
    }
    return LS_OK;
}

ls_status ls_batch_search(const ls_block *block, ls_order order, int repeats, const ls_column *keys,
                          const ls_sort_item *items, size_t count, ls_slice *answers) {
    uint32_t from = 0;
    for (size_t i = 0; i < count; i++) {
        ls_slice key = {NULL, 0}, stored;
        uint32_t position;
        int found;
        prefetch_key(keys, items, count, i);
        if (i + AHEAD < count)
            __builtin_prefetch(&answers[items[i + AHEAD].index], 1);
        (void)ls_column_get(keys, items[i].index, &key);
        ls_status status = ls_block_lower_bound(block, order, key, from, &position, &found);
        if (status != LS_OK)
            return status;
        from = position;
        if (!found)
            continue;
        if (repeats) {
            status = seek_repeated(block, order, key, &position);
            if (status != LS_OK)
                return status;
        }
        status = ls_block_record(block, position, &stored, &answers[items[i].index]);
        if (status != LS_OK)
            return status;
    }
    return LS_OK;
}

size_t ls_batch_size(const ls_slice *answers, size_t count) {
    size_t size = 0;
    for (size_t i = 0; i < count; i++)
        size += answers[i].size;
    return size;
}

size_t ls_batch_gather(const ls_slice *answers, size_t count, int64_t *offsets, uint8_t *validity,
                       uint8_t *data) {
    int64_t end = 0;
    size_t missing = 0;
    offsets[0] = 0;
    for (size_t i = 0; i < count; i++) {
        if (i + AHEAD < count)
            __builtin_prefetch(answers[i + AHEAD].data);
        if (answers[i].data == NULL) {
            missing++;
        } else {
            validity[i >> 3] |= (uint8_t)(1U << (i & 7));
            if (answers[i].size > 0)
                memcpy(data + end, answers[i].data, answers[i].size);
            end += (int64_t)answers[i].size;
        }
        offsets[i + 1] = end;
    }
    return missing;
}

size_t ls_batch_stage_size(const ls_sort_item *items, size_t count, const ls_slice *answers) {
    size_t size = 0;
    for (size_t i = 0; i < count; i++)
        size += answers[items[i].index].size;
    return size;
}

size_t ls_batch_stage(const ls_sort_item *items, size_t count, ls_slice *answers, uint8_t *arena) {
    size_t used = 0;
    for (size_t i = 0; i < count; i++) {
        ls_slice *answer = &answers[items[i].index];
        if (answer->data == NULL)
            continue;
        if (answer->size > 0)
            memcpy(arena + used, answer->data, answer->size);
        answer->data = arena + used;
        used += answer->size;
    }
    return used;
}

void ls_batch_found(const ls_slice *answers, size_t count, uint8_t *bitmap) {
    for (size_t i = 0; i < count; i++)
        if (answers[i].data != NULL)
            bitmap[i >> 3] |= (uint8_t)(1U << (i & 7));
}
